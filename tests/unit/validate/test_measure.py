"""Measuring: the CPU's figures on real memory; a GPU's through a stand-in for NVML and for torch's allocator."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from kvplan.errors import ProbeError
from kvplan.validate import measure, segments
from kvplan.validate.description import CacheShape
from kvplan.validate.measure import CpuMeter, CudaMeter, OutOfMemory, caches_job, grown, hold, is_out_of_memory, meter
from tests.fake_nvml import MIB, FakeNvml, gpu

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
        "from kvplan.validate.measure import CpuMeter, hold\n"
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


def test_no_cuda_is_a_probe_error():
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(ProbeError, match="sees none"):
        meter("cuda:0")


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_counts_as_out_of_memory(error, is_one):
    assert is_out_of_memory(error) is is_one


class FakeCuda:
    """torch.cuda as far as a meter reads it, with an allocator that rounds as torch's does and a card that NVML sees."""

    def __init__(self, card: dict, context: int = 500 * MIB) -> None:
        self.card, self.context, self.started, self.sizes = card, context, False, []

    def is_initialized(self):
        return self.started

    def init(self):
        if not self.started:
            self.card["used"] += self.context
        self.started = True

    def get_device_properties(self, device):
        return SimpleNamespace(name="CUDA's name", total_memory=self.card["total"] - 400 * MIB, uuid="1111-2222")

    def synchronize(self, device):
        pass

    def allocate(self, *sizes: int) -> None:
        before = segments.predict(self.sizes).reserved
        self.sizes += sizes
        self.card["used"] += segments.predict(self.sizes).reserved - before

    def memory_allocated(self, device):
        return segments.predict(self.sizes).allocated

    def memory_reserved(self, device):
        return segments.predict(self.sizes).reserved

    max_memory_allocated = memory_allocated

    def mem_get_info(self, device):
        return self.card["total"] - self.card["used"] - self.card["reserved"], self.card["total"]


def fake_gpu(monkeypatch, card: dict, **scenario) -> CudaMeter:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(card, **scenario))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return CudaMeter("cuda:0", FakeCuda(card))


def test_a_gpu_is_read_through_nvml_and_torch(monkeypatch):
    card = gpu()
    m = fake_gpu(monkeypatch, card)
    assert m.context_bytes == 500 * MIB
    before = m.read()
    m.cuda.allocate(64 * MIB, 64 * MIB, 4096)
    growth = grown(before, m.read())
    assert growth["torch_allocated"] == 128 * MIB + 4096
    assert growth["torch_reserved"] == growth["nvml_used"] == 130 * MIB
    assert growth["nvml_process"] is None
    assert m.free() == card["total"] - card["used"] - card["reserved"]
    facts = m.facts()
    assert (facts["name"], facts["driver"], facts["compute_capability"]) == ("NVIDIA H100 80GB HBM3", "580.65.06", "9.0")


@pytest.mark.parametrize("scenario", [{"fails": {"nvmlInit": 4}}, {"fails": {"nvmlDeviceGetCount": 999}}])
def test_where_nvml_refuses_torchs_own_figures_stay(monkeypatch, scenario):
    m = fake_gpu(monkeypatch, gpu(), **scenario)
    before = m.read()
    m.cuda.allocate(MIB)
    growth = grown(before, m.read())
    assert (growth["nvml_used"], growth["torch_reserved"]) == (None, 2 * MIB)
    facts = m.facts()
    assert facts["name"] == "CUDA's name"
    assert len(facts["notes"]) == 1
    assert facts["context_bytes"] is None


def test_a_gpu_that_is_one_of_several(monkeypatch):
    other, mine = gpu("other", uuid="GPU-0000"), gpu("mine")
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(other, mine))
    assert CudaMeter("cuda:0", FakeCuda(mine)).facts()["name"] == "mine"


def test_out_of_memory_says_what_was_held(monkeypatch):
    shape = CacheShape("x", "k", "bf16", 2, 8, tokens=64, layers=5)
    real, built = measure.build, []

    def build(*args):
        if len(built) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.\nMore words")
        built.append(real(*args))
        return built[-1]

    monkeypatch.setattr(measure, "build", build)
    with pytest.raises(OutOfMemory) as caught:
        hold(shape, CpuMeter(), [])
    assert (caught.value.held, caught.value.message) == (3 * 2 * 8 * 64 * 2, "CUDA out of memory. Tried to allocate 2.00 MiB.")
    events = list(caches_job(CpuMeter(), [[shape._asdict()]]))
    assert [event["event"] for event in events] == ["out of memory"]


def test_the_first_matrix_product_is_measured_apart():
    assert set(measure.first_product(CpuMeter())) == {"resident"}
