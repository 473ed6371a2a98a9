"""Inkling under vLLM: the inputs of its convolutions are rows of a window of four tokens, in groups with the attention's pages.

Expected: vLLM 0.32.0's and 0.33.0's own planner (get_kv_cache_configs, get_kv_cache_capacity), handed the specs that
models/inkling/nvidia (attention.py, sconv_swa_attn.py) declare for the class's default config, in blocks of 16 tokens.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import UnsupportedError
from tests.conftest import planned

GIB = 1 << 30
PLANS = [
    (4, 40, 32_768, 2_048, 119_156, 452_696, 13.815188405797102, 32_768),
    (8, 60, 131_072, 8_192, 357_469, 1_379_321, 10.523388972298273, 16_384),
    (1, 200, 8_192, 2_048, 148_945, 155_295, 18.95698103601884, 131_072),
]


def inkling(folder: Path, **more: object) -> str:
    path = folder / "config.json"
    config = {"architectures": ["InklingForCausalLM"], "model_type": "inkling_text", "dtype": "bfloat16", "hidden_size": 6144}
    path.write_text(json.dumps({**config, "num_hidden_layers": 66, **more}), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("release", ["0.32.0", "0.33.0"])
@pytest.mark.parametrize(("tp", "gib", "length", "batch", "blocks", "tokens", "times", "page"), PLANS)
def test_the_plan_is_that_of_vllms_planner(
    release: str, tp: int, gib: int, length: int, batch: int, blocks: int, tokens: int, times: float, page: int, tmp_path: Path
) -> None:
    plan = planned(
        inkling(tmp_path),
        engine="vllm",
        engine_version=release,
        kv_memory=gib * GIB,
        max_model_len=length,
        tp=tp,
        max_num_batched_tokens=batch,
    ).as_dict()["capacity"]
    assert (plan["blocks"], plan["tokens"], plan["max_concurrency"]) == (blocks, tokens, times)
    groups = sorted((g["kind"], g["layers"], g["block_tokens"], g["page_bytes"], g["n_groups"]) for g in plan["groups"])
    assert groups == [("full_attention", 11, 32, page, 1), ("sliding_window", 11, 4, page, 6), ("sliding_window", 11, 16, page, 5)]


def test_what_it_asserts_is_an_answer(tmp_path: Path) -> None:
    plan = planned(inkling(tmp_path), engine="vllm", kv_memory=40 * GIB, tp=16, max_model_len=8192)
    assert not plan.starts
    assert "sconv SWA cache supports tp_size <= num_kv_heads (8), got 16" in plan.verdict


def test_releases_without_its_class(tmp_path: Path) -> None:
    """models/inkling came with 0.26; Inkling 2 is in none to 0.33."""
    plan = planned(inkling(tmp_path), engine="vllm", engine_version="0.25.1", kv_memory=40 * GIB, context=8192)
    assert not plan.starts
    second = inkling(tmp_path, architectures=["Inkling2ForCausalLM"], model_type="inkling2_text")
    with pytest.raises(UnsupportedError, match="has a class for Inkling2ForCausalLM"):
        planned(second, engine="vllm", kv_memory=40 * GIB, context=8192)


def test_0_26_serves_it_as_its_log_says() -> None:
    """Two GB10 with --kv-cache-memory-bytes 31675322368 (Reederey87/inkling-small-nvfp4-2x-dgx-spark): 2,044,677 tokens, 1.95 requests."""
    plan = planned(
        "thinkingmachines/inkling-small-nvfp4", engine="vllm", engine_version="0.26.0", device="gb10", n_devices=2, tp=2, context=1048576,
        max_model_len=1048576, max_num_seqs=2, max_num_batched_tokens=768, enforce_eager=True, kv_memory=31675322368,
    )  # fmt: skip
    assert plan.starts
    assert plan.capacity is not None
    assert plan.capacity.tokens == 2_044_677
