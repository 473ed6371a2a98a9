"""On a CUDA device: tensors, torch's allocator and NVML against the plan. Skips where there is none; says nothing about a GPU then."""

from __future__ import annotations

import time

import pytest
import torch

from kvplan import probe
from kvplan.deployment import Deployment
from kvplan.units import MIB
from kvplan.validate import run, segments
from kvplan.validate.child import Worker
from kvplan.validate.receipts import faults
from tests.conftest import one_block

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

HEAD = {"kind": "gqa", "heads": 8, "kv_heads": 8, "head_dim": 128}
SEGMENT = 2 * MIB


def test_every_kind_is_equal_in_under_a_minute():
    start = time.monotonic()
    found = run.all_kinds(device="cuda")
    assert time.monotonic() - start < 60
    assert found.status == "equal"
    assert faults(found) == []
    assert found.machine["driver"]


def test_torch_and_nvml_see_what_is_predicted_for_the_allocator():
    found = run.all_kinds(device="cuda", only=["gqa", "mla", "sliding", "gqa, pages of 16"])
    for case in found.cases:
        assert case.segments is not None
        assert case.measured["torch_allocated"] == case.segments["allocated"]
        assert case.measured["torch_reserved"] == case.segments["reserved"]
        if case.measured["nvml_used"] is not None:
            assert abs(case.measured["nvml_used"] - case.segments["reserved"]) <= SEGMENT


def filling(n_bytes: int) -> Deployment:
    """A plan of 16 layers whose K and V take about that many bytes: whole segments each."""
    layers = 16
    tokens = n_bytes // (2 * layers) // SEGMENT * SEGMENT // (8 * 128 * 2)
    return Deployment(model=one_block(HEAD, layers, max_context=1 << 40), context=tokens, batch=1)


def test_a_plan_that_fills_the_card_allocates_and_one_beyond_it_is_refused_first():
    with Worker("cuda") as worker:
        free = worker.free
    assert free is not None
    assert run.validate(filling(free * 95 // 100), device="cuda").status == "equal"
    beyond = run.validate(filling(free + 2 * 16 * SEGMENT), device="cuda")
    assert beyond.status == "refused"
    forced = run.validate(filling(free + 2 * 16 * SEGMENT), device="cuda", force=True)
    assert forced.status == "out of memory"
    assert forced.cases[0].allocated_bytes > free * 9 // 10


def test_memory_is_given_back():
    before = probe.detect().used_bytes
    run.validate(filling(1 << 30), device="cuda")
    assert abs(probe.detect().used_bytes - before) <= 64 * MIB


def test_the_rounding_rules_on_the_real_allocator():
    for sizes in ([1, 512, 513], [MIB, MIB + 1, 5 * MIB], [10 * MIB, 11 * MIB, 600 * 1024]):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
        grown = torch.cuda.memory_allocated() - before[0], torch.cuda.memory_reserved() - before[1]
        assert grown == tuple(segments.predict(sizes))
        del kept
