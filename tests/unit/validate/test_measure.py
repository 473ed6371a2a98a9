"""Measuring on real memory, and what torch's GPU allocator is predicted to make of sizes (test_gpu_stand_in.py: a GPU acted out)."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from kvplan.validate import measure, segments
from kvplan.validate.description import CacheShape
from kvplan.validate.measure import OutOfMemory, caches_job, hold, is_out_of_memory
from kvplan.validate.meters import CpuMeter, grown
from tests.fake_nvml import MIB

KIB = 1 << 10


@pytest.mark.parametrize(
    ("sizes", "allocated", "reserved"),
    [
        ([], 0, 0),
        ([0], 0, 0),
        ([1], 512, 2 * MIB),
        ([512, 513], 512 + 1024, 2 * MIB),
        ([MIB] * 2, 2 * MIB, 2 * MIB),
        ([MIB] * 3, 3 * MIB, 4 * MIB),
        ([MIB + 1], MIB + 512, 20 * MIB),
        ([5 * MIB] * 4, 20 * MIB, 20 * MIB),
        ([5 * MIB] * 5, 25 * MIB, 40 * MIB),
        ([9 * MIB] * 2, 18 * MIB, 20 * MIB),
        ([10 * MIB], 10 * MIB, 10 * MIB),  # from 10 MiB on a segment of its own, in steps of 2 MiB
        ([11 * MIB], 12 * MIB, 12 * MIB),  # and 1 MiB left over is not split off: the block is the segment
        ([19 * MIB // 2, 9 * MIB, 1500 * KIB], 20 * MIB, 20 * MIB),  # 1.5 MiB left of 20: taken whole by the third
        ([7 * MIB, 6 * MIB, 6 * MIB], 20 * MIB, 20 * MIB),  # the last finds 7 MiB free: 1 MiB is left, too little to split off
        ([100 * MIB, 512 * KIB], 100 * MIB + 512 * KIB, 102 * MIB),  # small ones never use large segments
    ],
)
def test_segments_of_the_caching_allocator(sizes, allocated, reserved):
    assert segments.predict(sizes) == (allocated, reserved)


def test_resident_memory_grows_by_what_is_written():
    m = CpuMeter()
    if m.read()["resident"] is None:
        pytest.skip("this system does not tell resident memory")
    shape = CacheShape("x", "k", "bf16", 8, 128, tokens=8192, layers=2)
    kept: list = []
    held = hold(shape, m, kept)
    n_bytes = 2 * 8 * 128 * 8192 * 2
    assert held.allocated == n_bytes
    assert held.requested == (n_bytes // 2,) * 2
    assert held.peak == n_bytes
    # in a process of its own, as `validate` measures: this one may reuse memory that earlier tests freed
    code = (
        "from kvplan.validate.measure import hold\n"
        "from kvplan.validate.meters import CpuMeter\n"
        "from kvplan.validate.description import CacheShape\n"
        "kept = []\n"
        "shape = CacheShape('x', 'k', 'bf16', 8, 128, tokens=8192, layers=2)\n"
        "print(hold(shape, CpuMeter(), kept).measured['resident'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == pytest.approx(n_bytes, rel=0.2)
    assert "torch" in m.facts()
    assert m.free() > 0


def test_growth_is_unknown_where_a_reading_is():
    assert grown({"a": 1, "b": None}, {"a": 5, "b": 7, "c": 1}) == {"a": 4, "b": None, "c": None}


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_counts_as_out_of_memory(error, is_one):
    assert is_out_of_memory(error) is is_one


def test_out_of_memory_says_what_was_held(monkeypatch):
    shape = CacheShape("x", "k", "bf16", 2, 8, tokens=64, layers=5)
    real, built = measure.build, []

    def build(*args):
        if len(built) == 4:  # one to warm up, three layers
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.\nMore words")
        built.append(real(*args))
        return built[-1]

    monkeypatch.setattr(measure, "build", build)
    with pytest.raises(OutOfMemory) as caught:
        hold(shape, CpuMeter(), [])
    assert (caught.value.held, caught.value.message) == (3 * 2 * 8 * 64 * 2, "CUDA out of memory. Tried to allocate 2.00 MiB.")
    events = list(caches_job(CpuMeter(), [[shape._asdict()]]))
    assert [event["event"] for event in events] == ["out of memory"]
