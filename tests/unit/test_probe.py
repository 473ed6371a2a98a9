"""NVML through a stand-in: one GPU, several, MIG, old drivers, and everything it refuses. No GPU is touched."""

from __future__ import annotations

import sys

import pytest

from kvplan import probe
from kvplan.api.found import device
from kvplan.errors import ProbeError
from tests.fake_nvml import MIB, FakeNvml, gpu


@pytest.fixture
def nvml(monkeypatch):
    def install(*gpus, **scenario):
        fake = FakeNvml(*gpus, **scenario)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return install


def test_one_gpu(nvml):
    fake = nvml(gpu())
    found = probe.detect()
    assert found == probe.Gpu(
        number=0,
        name="NVIDIA H100 80GB HBM3",
        uuid="GPU-1111-2222",
        total_bytes=81559 * MIB,
        free_bytes=(81559 - 1600) * MIB,
        used_bytes=1000 * MIB,
        reserved_bytes=600 * MIB,
        driver="580.65.06",
        compute_capability="9.0",
        mig=False,
    )
    assert fake.open == 0  # every init has its shutdown


def test_an_old_driver_answers_in_bytes_and_without_the_reserved_part(nvml):
    nvml(gpu(name=b"Tesla T4", uuid=b"GPU-9"), driver=b"450.80.02", old=True)
    found = probe.detect()
    assert (found.name, found.driver, found.reserved_bytes) == ("Tesla T4", "450.80.02", 0)
    assert found.used_bytes == 1600 * MIB


def test_a_gpu_that_does_not_tell_its_compute_capability(nvml):
    nvml(gpu(fails={"nvmlDeviceGetCudaComputeCapability": 3}))
    assert probe.detect().compute_capability is None


SEVERAL = (gpu("A", uuid="GPU-aaa"), gpu("B", uuid="GPU-bbb"), gpu("C", uuid="GPU-ccc"))


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, "ABC"),
        ("0,1,2", "ABC"),
        ("2,0", "CA"),
        ("GPU-bbb", "B"),
        ("GPU-cc,0", "CA"),
        (" 1 , 0 ", "BA"),
        ("0,-1,2", "A"),
        ("1,7,0", "B"),
    ],
)
def test_several_gpus_as_cuda_sees_them(nvml, monkeypatch, visible, names):
    nvml(*SEVERAL)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert "".join(found.name for found in probe.visible()) == names
    assert probe.detect().name == names[0]


@pytest.mark.parametrize("visible", ["", "-1", "9", "NoDevFiles"])
def test_all_gpus_hidden(nvml, monkeypatch, visible):
    nvml(*SEVERAL)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(ProbeError, match="hides every GPU"):
        probe.detect()


def test_by_uuid(nvml):
    nvml(*SEVERAL)
    assert probe.find("GPU-ccc").name == probe.find("ccc").name == "C"
    with pytest.raises(ProbeError, match="does not list"):
        probe.find("GPU-zzz")


def test_mig_instances_stand_for_their_gpu(nvml, monkeypatch):
    slices = [gpu(f"NVIDIA A100-SXM4-40GB MIG 1g.5gb {i}", uuid=f"MIG-{i}{i}", total=4864 * MIB, used=0, reserved=0) for i in range(2)]
    nvml(gpu("NVIDIA A100-SXM4-40GB", mig=slices), gpu("B", uuid="GPU-bbb"))
    assert [(g.number, g.mig, g.total_bytes // MIB) for g in probe.gpus()] == [(0, True, 4864), (0, True, 4864), (1, False, 81559)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-11")
    assert probe.detect().uuid == "MIG-11"


def test_mig_mode_without_an_instance(nvml):
    nvml(gpu(mig=[]))
    with pytest.raises(ProbeError, match="MIG mode and has no instance"):
        probe.detect()
    with pytest.raises(ProbeError, match="MIG mode with 0 instances"):
        probe.find("1111-2222")


def _slice(i: int, **fields):
    return gpu(f"NVIDIA H100 80GB HBM3 MIG 1g.10gb {i}", uuid=f"MIG-{i}", total=9856 * MIB, used=13 * MIB, reserved=0, **fields)


def test_a_mig_instance_by_its_uuid_and_by_its_parents(nvml, monkeypatch):
    """CUDA gives either; a process uses one instance, so that the parent's means the one that it may see."""
    nvml(gpu("B", uuid="GPU-bbb"), gpu(mig=[_slice(1)]))
    assert probe.find("1") == probe.find("MIG-1") == probe.find("1111-2222")
    found = probe.find("1")
    assert (found.mig, found.number, found.total_bytes, found.compute_capability) == (True, 1, 9856 * MIB, "9.0")
    assert probe.memory_of("1111-2222", 42) == (13 * MIB, None)
    nvml(gpu(mig=[_slice(1), _slice(2, processes={42: 9 * MIB})]))
    with pytest.raises(ProbeError, match="name one in CUDA_VISIBLE_DEVICES"):
        probe.find("1111-2222")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-2")
    assert probe.find("1111-2222").uuid == "MIG-2"
    assert probe.memory_of("1111-2222", 42) == (13 * MIB, 9 * MIB)


def test_a_gpu_that_can_not_be_read_hides_no_other(nvml):
    nvml(gpu(mig=[]), gpu("lost", fails={"nvmlDeviceGetHandleByIndex": 15}), gpu("B", uuid="GPU-bbb"))
    assert [(g.number, g.name) for g in probe.gpus()] == [(2, "B")]


def test_a_session_is_opened_once_and_closed(nvml):
    fake = nvml(gpu())
    with probe.session():
        assert fake.open == 1
        probe.detect()
        assert fake.open == 1
    assert fake.open == 0


def test_a_uuid_that_may_not_be_asked_for(nvml):
    nvml(gpu(fails={"nvmlDeviceGetHandleByUUID": 4}))
    with pytest.raises(ProbeError, match="no permission"):
        probe.find("1111-2222")


@pytest.mark.parametrize(
    ("code", "says"),
    [(4, "no permission"), (9, "driver is not loaded"), (12, "no NVIDIA driver"), (18, "different versions"), (999, "code 999")],
)
def test_nvml_that_does_not_start(nvml, code, says):
    nvml(gpu(), fails={"nvmlInit": code})
    with pytest.raises(ProbeError, match=says):
        probe.detect()


def test_memory_that_nobody_may_read(nvml):
    fake = nvml(gpu(fails={"nvmlDeviceGetMemoryInfo": 4}))
    with pytest.raises(ProbeError, match="no permission"):
        probe.detect()
    assert fake.open == 0


def test_unified_memory_is_not_reported(nvml):
    nvml(gpu("NVIDIA GB10", fails={"nvmlDeviceGetMemoryInfo": 3}))
    with pytest.raises(ProbeError, match="unified memory"):
        probe.detect()


def test_a_lost_gpu(nvml):
    nvml(gpu(fails={"nvmlDeviceGetHandleByIndex": 15}))
    with pytest.raises(ProbeError, match="fallen off the bus"):
        probe.detect()


def test_no_gpu_at_all(nvml):
    nvml()
    with pytest.raises(ProbeError, match="sees no GPU"):
        probe.detect()


def test_without_the_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ProbeError, match="nvidia-ml-py"):
        probe.detect()


def test_what_a_process_holds(nvml):
    nvml(gpu(processes={42: 500 * MIB, 43: None}), gpu("B", uuid="GPU-bbb", processes={42: 7 * MIB}))
    assert probe.used_by(42) == 507 * MIB
    assert probe.memory_of("1111-2222", 42) == probe.memory_of("GPU-1111-2222", 42) == (1000 * MIB, 500 * MIB)
    assert probe.memory_of("GPU-bbb", 42) == (1000 * MIB, 7 * MIB)
    assert probe.memory_of("GPU-bbb", 43) == (1000 * MIB, None)
    assert probe.used_by(43) is None  # in a container NVML knows the process but not its memory
    assert probe.used_by(1) is None
    nvml(gpu(fails={"nvmlDeviceGetComputeRunningProcesses": 4}))
    assert probe.used_by(42) is None


@pytest.mark.parametrize(
    ("total", "has"),
    [(8192, 8192 - 463), (12288, 11910), (24564, 24564 - 400)],  # two sizes that are sold; one that nobody sells
)
def test_which_of_the_cards_that_a_driver_calls_the_same(nvml, total, has):
    """Both RTX 3060 are "NVIDIA GeForce RTX 3060": NVML's total tells them apart; of an 8 GB one CUDA's total is not known, so NVML's
    less what the driver reserves counts."""
    reserved = {8192: 463}.get(total, 400)
    nvml(gpu("NVIDIA GeForce RTX 3060", total=total * MIB, used=0, reserved=reserved * MIB, capability=(8, 6)))
    found = device("auto")
    assert (found.memory_bytes // MIB, found.taken) == (has, None)
