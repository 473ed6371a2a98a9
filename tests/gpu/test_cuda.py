"""On a CUDA device: tensors, torch's allocator and NVML against the plan. Skips where there is none; says nothing about a GPU then."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

# NVIDIA's driver, AMD's, WSL's: torch is not imported to ask.
if not any(Path("/dev", name).exists() for name in ("nvidiactl", "kfd", "dxg")):
    pytest.skip("no CUDA device", allow_module_level=True)

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
LAYERS = 16
POOLS = 2  # of torch's allocator: small and large blocks


@pytest.fixture(autouse=True)
def nothing_cached_here():
    """What this process holds of the card is its context alone."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def test_every_kind_is_equal_in_under_a_minute():
    start = time.monotonic()
    found = run.all_kinds(device="cuda")
    assert time.monotonic() - start < 60
    assert {case.name: case.status for case in found.cases if case.status != "equal"} == {}
    assert faults(found) == []
    for case in found.cases:
        if case.segments is not None:
            assert (case.name, case.measured["torch_allocated"]) == (case.name, case.segments["allocated"])
            assert (case.name, case.measured["torch_reserved"]) == (case.name, case.segments["reserved"])


def test_nvml_sees_what_is_predicted_within_a_segment_of_each_pool():
    """The device's own growth, or where others use the card too this process's, if NVML tells it."""
    found = run.all_kinds(device="cuda", only=["gqa", "mla", "sliding", "gqa, pages of 16", "mamba2"])
    if found.cases[0].measured["nvml_used"] is None:
        pytest.skip(f"NVML does not tell: {found.machine['notes']}")
    for case in found.cases:
        assert case.segments is not None
        seen = [case.measured[name] for name in ("nvml_used", "cuda_used", "nvml_process") if case.measured[name] is not None]
        assert min(abs(n - case.segments["reserved"]) for n in seen) <= POOLS * SEGMENT


def filling(n_segments: int) -> Deployment:
    """A plan of 16 layers whose K and V together take that many segments of 2 MiB, rounded down to whole ones for each tensor."""
    tokens = n_segments // (2 * LAYERS) * SEGMENT // (8 * 128 * 2)
    return Deployment(model=one_block(HEAD, LAYERS, max_context=1 << 40), context=tokens, batch=1)


def free_on_a_fresh_start() -> int:
    with Worker("cuda") as worker:
        assert worker.free is not None
        return worker.free


def test_a_plan_that_fills_the_card_allocates():
    found = run.validate(filling(free_on_a_fresh_start() * 95 // 100 // SEGMENT), device="cuda")
    assert found.status == "equal", found.cases[0].note


def test_one_segment_above_what_is_free_is_refused_before_torch_raises():
    """K and V each half of the whole segments that are free, and one more; tried all the same, torch runs out of memory."""
    free = free_on_a_fresh_start()
    one = {"kind": "gqa", "heads": 1, "kv_heads": 1, "head_dim": SEGMENT // 4}  # a token: half a segment each of K and V
    above = Deployment(model=one_block(one, 1, max_context=1 << 40), context=free // SEGMENT + 2, batch=1)
    found = run.validate(above, device="cuda")
    assert found.status == "refused"
    assert found.cases[0].note.startswith("refused before allocating")
    forced = run.validate(above, device="cuda", force=True)
    assert forced.status == "out of memory"


def test_out_of_memory_says_how_far_it_came_and_leaves_the_card_free():
    free = free_on_a_fresh_start()
    forced = run.validate(filling(free // SEGMENT + 2 * LAYERS), device="cuda", force=True)
    assert forced.status == "out of memory"
    assert free * 9 // 10 < (forced.cases[0].allocated_bytes or 0) <= free
    assert abs(free_on_a_fresh_start() - free) <= 64 * MIB


def test_context_and_workspace_are_measured_apart():
    overheads = run.all_kinds(device="cuda", only=["gqa"], target_bytes=32 * MIB).machine["overheads"]
    assert 0 <= overheads["workspace"] <= 256 * MIB
    for name in ("context", "libraries"):
        assert overheads[name] is None or 0 <= overheads[name] <= 4096 * MIB
    if overheads["context"] is not None:
        assert overheads["context"] > 50 * MIB  # no CUDA context is smaller


def test_memory_is_given_back():
    before = torch.cuda.mem_get_info()[0]
    run.validate(filling(512), device="cuda")
    assert abs(torch.cuda.mem_get_info()[0] - before) <= 64 * MIB


def test_the_card_is_found_in_nvml():
    try:
        seen = probe.visible()
    except probe.ProbeError as error:
        pytest.skip(str(error))
    uuid = str(getattr(torch.cuda.get_device_properties(0), "uuid", "") or "")
    if uuid:
        assert probe.find(uuid).uuid in {gpu.uuid for gpu in seen}


@pytest.mark.parametrize("sizes", [[1, 512, 513], [MIB, MIB + 1, 5 * MIB], [10 * MIB, 11 * MIB, 600 * 1024], [7 * MIB, 6 * MIB, 6 * MIB]])
def test_the_rounding_rules_on_the_real_allocator(sizes):
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    if before != (0, 0):
        pytest.skip("this process holds GPU memory, whose free parts would be used first")
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == tuple(segments.predict(sizes))
    del kept
