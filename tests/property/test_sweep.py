"""A sweep on arrays is the scalar path on every point."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan import api
from kvplan.planner.evaluate import evaluate
from tests.conftest import one_block
from tests.property.test_laws import MIXERS, POWERS

sweep = pytest.importorskip("kvplan.planner.sweep", reason="sweeps need numpy")
CONTEXTS = st.lists(st.integers(1, 1 << 24), min_size=1, max_size=4)
BATCHES = st.lists(st.integers(1, 1 << 20), min_size=1, max_size=3)
MEMORY = st.none() | st.integers(1, 1 << 45)


TPS = st.lists(POWERS, min_size=1, max_size=2, unique=True)


@settings(max_examples=80, deadline=None)
@given(MIXERS, st.integers(1, 9), CONTEXTS, BATCHES, TPS, MEMORY, st.sampled_from([None, 16]), st.integers(1, 7))
def test_every_point_is_the_scalar_answer(mixer, n_layers, contexts, batches, tps, memory, block, rows):
    d = api.deployment(one_block(mixer, n_layers), engine="ideal", kv_memory=memory, block_size=block)
    over = sweep.grid({"context": contexts, "tp": tps, "batch": batches})
    assert [name for name, _ in over.axes] == ["tp", "context", "batch"]
    seen = 0
    for start, stop in sweep.chunks(over, rows):
        columns = sweep.columns(d, over, start, stop)
        for i in range(stop - start):
            point = {name: int(columns[name][i]) for name in ("tp", "context", "batch")}
            plan = evaluate(replace(d, **point))
            for name in sweep.FIGURES:
                assert columns[name][i] == sweep.figure(plan, name), (name, point)
            seen += 1
    assert seen == over.size == len(contexts) * len(batches) * len(tps)
