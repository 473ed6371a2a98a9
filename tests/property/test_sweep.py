"""A sweep on arrays is the scalar path on every point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan import api
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from tests.conftest import examples, one_block
from tests.property.test_laws import MIXERS, POWERS

sweep = pytest.importorskip("kvplan.planner.sweep", reason="sweeps need numpy")
CONTEXTS = st.lists(st.integers(1, 1 << 24), min_size=1, max_size=4)
BATCHES = st.lists(st.integers(1, 1 << 20), min_size=1, max_size=3)
MEMORY = st.none() | st.integers(1, 1 << 45)


TPS = st.lists(POWERS, min_size=1, max_size=2, unique=True)


def points_are_scalar_answers(d: Any, axes: dict[str, Any], rows: int) -> None:
    """Every column of every point is what `evaluate` says of it, and nothing else is there."""
    over = sweep.grid(axes)
    seen = 0
    for start, stop in sweep.chunks(over, rows):
        columns = sweep.columns(d, over, start, stop)
        assert list(columns) == [*(name for name, _ in over.axes), *sweep.FIGURES, sweep.ERROR]
        for i in range(stop - start):
            point = {name: columns[name][i] for name, _ in over.axes}
            point = {name: int(value) if not isinstance(value, str) else value for name, value in point.items()}
            answers, error = None, None
            try:
                answers = evaluate(replace(d, **point))
                if answers.starts is False and answers.margin_bytes is None:
                    error = answers.outcome.reason
            except KvplanError as raised:
                error = str(raised)
            assert columns[sweep.ERROR][i] == error
            for name in sweep.FIGURES:
                assert columns[name][i] == (sweep.figure(answers, name) if answers else None), (name, point)
            seen += 1
    assert seen == over.size


@examples(80)
@given(MIXERS, st.integers(1, 9), CONTEXTS, BATCHES, TPS, MEMORY, st.sampled_from([None, 16]), st.integers(1, 7))
def test_every_point_is_the_scalar_answer(mixer, n_layers, contexts, batches, tps, memory, block, rows):
    d = api.deployment(one_block(mixer, n_layers), engine="ideal", kv_memory=memory, block_size=block)
    points_are_scalar_answers(d, {"context": contexts, "tp": tps, "batch": batches}, rows)


VLLM_CONTEXTS = st.lists(st.integers(1, 1 << 18), min_size=1, max_size=3)
VLLM_BATCHES = st.lists(st.integers(1, 3000), min_size=1, max_size=4)
RELEASES = st.sampled_from([None, "0.6", "0.9", "0.11", "0.19", "0.25"])


@examples(120)
@given(
    MIXERS, st.integers(1, 9), VLLM_CONTEXTS, VLLM_BATCHES, st.sampled_from([[1], [1, 2], [2, 3]]), st.integers(1, 2),
    st.none() | st.integers(1, 1 << 36), RELEASES, st.none() | st.integers(1, 1 << 17), st.integers(1, 9),
)  # fmt: skip
def test_every_point_of_vllm_is_the_scalar_answer(mixer, n_layers, contexts, batches, tps, dp, memory, release, longest, rows):
    """Pools of random memory (None: those of an 80 GB device), with max_model_len chosen or following the context."""
    d = api.deployment(
        one_block(mixer, n_layers), engine="vllm", kv_memory=memory, device="h100", engine_version=release, max_model_len=longest, dp=dp
    )
    points_are_scalar_answers(d, {"context": contexts, "tp": tps, "batch": batches}, rows)


@pytest.mark.parametrize("model", ["google/gemma-3-27b", "deepseek-ai/deepseek-v3", "openai/gpt-oss-20b", "qwen/qwen3-next-80b-a3b"])
@pytest.mark.parametrize("longest", [None, "32k"])
def test_real_models_on_arrays(model, longest):
    d = api.deployment(model, engine="vllm", device="h200", max_model_len=longest)
    points_are_scalar_answers(d, {"tp": [2, 8], "context": [1, 4097, 40_000], "batch": [1, 7, 300, 2000]}, 11)


def test_points_that_can_not_be_asked_keep_their_error():
    d = api.deployment(one_block({"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64}), engine="ideal")
    points_are_scalar_answers(d, {"tp": [1, 2], "ep": [1, 2], "batch": [1, 2]}, 3)
    columns = sweep.columns(d, sweep.grid({"tp": [1, 2], "ep": [1, 2], "batch": [1, 2]}), 0, 8)
    assert [error is None for error in columns[sweep.ERROR]] == [True, True, False, False, True, True, True, True]


def test_other_engines_answer_point_by_point():
    d = api.deployment("meta-llama/llama-3.1-8b", device="h100")
    points_are_scalar_answers(d, {"engine": ["sglang", "llama.cpp", "transformers"], "context": [100, 8192], "batch": [1, 900]}, 5)
