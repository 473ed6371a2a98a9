"""The GPU path without a GPU: stand-ins for NVML and for torch.cuda, driven by scenarios. Says nothing about any real card."""

from __future__ import annotations

import random
import sys
import types
import weakref

import pytest
import torch

from kvplan.errors import ProbeError
from kvplan.validate import measure, meters, segments
from kvplan.validate.caches import build
from kvplan.validate.description import CacheShape
from kvplan.validate.meters import CudaMeter, grown
from kvplan.validate.storage import Rows
from tests.fake_cuda import FakeCuda
from tests.fake_nvml import MIB, FakeNvml, gpu

PID = 4242


@pytest.fixture
def card(monkeypatch):
    """A card of NVML's, and a meter of it: card(fields, nvml=..., **fields of FakeCuda)."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(meters.os, "getpid", lambda: PID)

    def make(one: dict | None = None, others: tuple = (), nvml: dict | None = None, **fields) -> CudaMeter:
        one = one or gpu()
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*others, one, **(nvml or {})))
        return CudaMeter("cuda:0", FakeCuda(one, **fields))

    return make


def test_a_gpu_is_read_through_nvml_and_torch(card):
    m = card()
    assert (m.context_bytes, m.in_use_before) == (500 * MIB, 1000 * MIB)  # CUDA makes its context at the first call that needs one
    before = m.read()
    for size in (64 * MIB, 64 * MIB, 4096):
        m.cuda.allocate(size)
    growth = grown(before, m.read())
    assert growth == {
        "nvml_used": 130 * MIB,
        "cuda_used": 130 * MIB,
        "torch_reserved": 130 * MIB,
        "torch_allocated": 128 * MIB + 4096,
        "torch_peak": 128 * MIB + 4096,
        "nvml_process": None,
    }
    assert m.free() == (81559 - 600 - 1500 - 130) * MIB
    facts = m.facts()
    assert (facts["name"], facts["driver"], facts["compute_capability"]) == ("NVIDIA H100 80GB HBM3", "580.65.06", "9.0")
    assert (facts["in_use_before"], facts["mig"], facts["notes"]) == (1000 * MIB, False, [])


def test_nvmls_figure_for_this_process_is_taken_for_the_context(card):
    """Another process takes 3 GiB of the card while CUDA starts: the device's own growth would be wrong."""
    one = gpu()

    class Disturbed(FakeCuda):
        def _need_context(self):
            if not self.has_context:
                self.card["used"] += 3072 * MIB
            super()._need_context()

    m = card(one, pid=PID)
    assert (m.context_bytes, m.read()["nvml_process"]) == (500 * MIB, 500 * MIB)
    disturbed = CudaMeter("cuda:0", Disturbed(one, pid=PID + 1))
    assert disturbed.context_bytes == 3572 * MIB  # nothing tells them apart where NVML does not know this process


def test_a_number_that_is_another_processs_is_not_ours(card):
    """In a container process ids are its own: NVML's 4242 was there before this process used the GPU."""
    m = card(gpu(processes={PID: 7000 * MIB}))
    assert m.read()["nvml_process"] is None
    assert m.context_bytes == 500 * MIB


@pytest.mark.parametrize(
    ("fields", "nvml", "note"),
    [
        ({}, {"fails": {"nvmlInit": 4}}, "no permission"),
        ({}, {"fails": {"nvmlInit": 12}}, "no NVIDIA driver is installed"),
        ({}, {"fails": {"nvmlInit": 18}}, "different versions"),
        ({}, {"fails": {"nvmlInit": 999}}, "code 999"),
        ({"fails": {"nvmlDeviceGetMemoryInfo": 3}}, {}, "unified memory"),
        ({"fails": {"nvmlDeviceGetMemoryInfo": 4}}, {}, "no permission"),
        ({"fails": {"nvmlDeviceGetHandleByUUID": 15, "nvmlDeviceGetHandleByIndex": 15}}, {}, "fallen off the bus"),
    ],
)
def test_where_nvml_refuses_cudas_and_torchs_own_figures_stay(card, fields, nvml, note):
    m = card(gpu(**fields), nvml=nvml)
    before = m.read()
    m.cuda.allocate(MIB)
    growth = grown(before, m.read())
    assert (growth["nvml_used"], growth["cuda_used"], growth["torch_reserved"]) == (None, 2 * MIB, 2 * MIB)
    facts = m.facts()
    assert facts["name"] == "CUDA's name"
    assert [text for text in facts["notes"] if note in text]
    assert m.context_bytes is None


def test_without_the_nvml_module(card, monkeypatch):
    m = card()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    again = CudaMeter("cuda:0", m.cuda)
    assert again.read()["nvml_used"] is None
    assert "nvidia-ml-py" in again.facts()["notes"][0]


def test_no_figure_per_process_on_wsl(card):
    m = card(gpu(processes={PID: None}))
    assert m.read()["nvml_process"] is None
    assert m.context_bytes == 500 * MIB


def test_a_gpu_that_is_one_of_several(card):
    m = card(
        gpu("mine", uuid="GPU-9"),
        others=(gpu("other", uuid="GPU-0", used=70000 * MIB), gpu("lost", fails={"nvmlDeviceGetHandleByIndex": 15})),
    )
    assert m.facts()["name"] == "mine"
    assert m.context_bytes == 500 * MIB


def test_a_mig_instance_whose_parent_cuda_names(card, monkeypatch):
    piece = gpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb", uuid="MIG-77", total=9856 * MIB, used=13 * MIB, reserved=0)
    parent = gpu(mig=[piece])
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(parent))
    cuda = FakeCuda(piece)
    m = CudaMeter("cuda:0", cuda)
    assert m.uuid == "MIG-77"
    cuda.get_device_properties = lambda device: types.SimpleNamespace(name="x", total_memory=1, uuid="1111-2222")
    again = CudaMeter("cuda:0", cuda)
    assert again.uuid == "MIG-77"
    assert again.facts()["mig"] is True
    assert again.read()["nvml_used"] == (13 + 500) * MIB


def test_a_torch_without_uuids_leaves_nvml_to_a_single_gpu(card):
    m = card()
    m.cuda.get_device_properties = lambda device: types.SimpleNamespace(name="x", total_memory=1)
    assert CudaMeter("cuda:0", m.cuda).uuid == "GPU-1111-2222"
    two = card(others=(gpu("other", uuid="GPU-0"),))
    two.cuda.get_device_properties = lambda device: types.SimpleNamespace(name="x", total_memory=1)
    assert CudaMeter("cuda:0", two.cuda).uuid is None


# ---- the jobs over it


@pytest.fixture
def on_card(monkeypatch):
    """Caches are made in process memory, and each of their tensors in the stand-in's allocator; both go together."""

    def use(m: CudaMeter) -> CudaMeter:
        def mirrored(thing):
            blocks = [m.cuda.allocate(size) for size in thing.sizes()]
            weakref.finalize(thing, lambda: [m.cuda.give_back(block) for block in blocks])
            return thing

        monkeypatch.setattr(measure, "build", lambda shape, device: build(shape, device) if device == "meta" else mirrored(build(shape)))
        monkeypatch.setattr(measure, "Rows", lambda element, lead, width, device: mirrored(Rows(element, lead, width)))
        monkeypatch.setattr(measure, "_product", m.cuda.multiply)
        monkeypatch.setattr(measure.overheads, "__defaults__", (m.cuda.multiply,))
        return m

    return use


def shape(**fields) -> CacheShape:
    return CacheShape(**{"line": "x", "tensor": "k", "element": "bf16", "heads": 8, "width": 128, "tokens": 3000, **fields})


CASES = [
    [shape(layers=4), shape(tensor="v", layers=4)],  # 5.86 MiB each: three to a segment of 20 MiB
    [shape(tokens=20, layers=3), shape(tokens=9000, layers=2)],  # small ones share 2 MiB; 17.6 MiB have segments of their own
    [shape(element="int8_per_token_head", layers=2)],  # payload and scales are tensors of their own
    [shape(layout="paged", block_tokens=16, layers=2), shape(tokens_per_entry=None, sequences=5, layers=2)],
]


def test_each_case_takes_what_is_predicted_for_the_allocator_and_leaves_nothing(card, on_card):
    m = on_card(card())
    before = m.read()
    given = [[one._asdict() for one in case] for case in CASES]
    sizes = [event["sizes"] for event in measure.sizes_job(m, given)]
    events = list(measure.caches_job(m, given))
    ends = [event for event in events if event["event"] == "case"]
    assert len(ends) == len(CASES)
    for n, end in enumerate(ends):
        requested = [size for event in events if event["event"] == "row" and event["case"] == n for size in event["requested"]]
        assert requested == sizes[n]
        expected = segments.predict(requested)
        assert end["measured"]["torch_allocated"] == end["measured"]["torch_peak"] == expected.allocated
        assert end["measured"]["torch_reserved"] == end["measured"]["nvml_used"] == end["measured"]["cuda_used"] == expected.reserved
    assert events[-1] == {"event": "overheads", "context": 500 * MIB, "workspace": 32 * MIB, "libraries": 70 * MIB}
    left = grown(before, m.read())
    assert (left["torch_allocated"], left["torch_reserved"], left["nvml_used"]) == (32 * MIB, 32 * MIB, 102 * MIB)


def test_out_of_memory_on_a_full_card_gives_everything_back(card, on_card):
    m = on_card(card(gpu(total=2000 * MIB, used=1300 * MIB, reserved=100 * MIB), context=50 * MIB))  # 550 MiB free, 530 after warming up
    many = shape(tokens=40_000, layers=10)  # 78.125 MiB each, in segments of 80
    events = list(measure.caches_job(m, [[many._asdict()], [shape()._asdict()]]))
    assert [event["event"] for event in events] == ["out of memory", "row", "case", "overheads"]
    assert events[0]["held"] == 6 * 40_000 * 8 * 128 * 2
    assert events[0]["message"] == "CUDA out of memory. Tried to allocate 80.00 MiB."
    m.settle()
    assert m.cuda.memory_allocated("") == 32 * MIB  # the workspace


def test_overheads_are_unknown_where_nvml_is(card, on_card):
    m = on_card(card(nvml={"fails": {"nvmlInit": 4}}))
    assert measure.overheads(m) == {"context": None, "workspace": 32 * MIB, "libraries": None}


def test_predicted_segments_are_those_of_an_allocator_acted_out():
    """Two writings of the same rules: one keeps lists of sizes, the other every block of every segment."""
    draw = random.Random(7)
    choices = (lambda: draw.randrange(1, 4096), lambda: draw.randrange(1, 2 * MIB), lambda: draw.randrange(MIB, 60 * MIB), lambda: 0)
    for _ in range(60):
        sizes = [draw.choice(choices)() for _ in range(draw.randrange(1, 40))]
        cuda = FakeCuda(gpu(), context=0)
        for size in sizes:
            cuda.allocate(size)
        assert (cuda.memory_allocated(""), cuda.memory_reserved("")) == segments.predict(sizes)


# ---- which device


@pytest.mark.parametrize("name", ["mps", "cuda:x", "cuda:-1", "gpu", "", "xpu:0", "cuda:99999"])
def test_a_device_that_can_not_be_measured(name):
    with pytest.raises(ProbeError, match="name cpu, cuda or cuda:N"):
        meters.meter(name)


def test_no_cuda_is_a_probe_error():
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(ProbeError, match="sees none"):
        meters.meter("cuda:0")


def test_a_driver_too_old_is_said(monkeypatch):
    def unavailable():
        import warnings

        warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\nMore", stacklevel=1)
        return False

    monkeypatch.setattr(meters.torch.cuda, "is_available", unavailable)
    with pytest.raises(ProbeError, match=r"sees none \(CUDA initialization: The NVIDIA driver on your system is too old"):
        meters.meter("cuda")


def test_devices_are_counted_and_a_card_that_does_not_start_says_why(monkeypatch):
    for name, answer in {"is_available": True, "device_count": 2, "is_initialized": False, "init": None}.items():
        monkeypatch.setattr(meters.torch.cuda, name, lambda *_, answer=answer: answer)
    with pytest.raises(ProbeError, match="no CUDA device 2: torch sees 2"):
        meters.meter("cuda:2")

    def full(index):
        raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")

    monkeypatch.setattr(meters.torch.cuda, "set_device", full)
    with pytest.raises(ProbeError, match=r"CUDA does not start on cuda:1: CUDA error: out of memory$"):
        meters.meter("cuda:1")


def test_a_containers_limit_is_what_is_free(tmp_path):
    for name, text in {"memory.max": "1000000\n", "memory.current": "600000\n", "memory.stat": "anon 1\ninactive_file 150000\n"}.items():
        (tmp_path / name).write_text(text)
    assert meters._left_in_group(str(tmp_path)) == 550_000
    (tmp_path / "memory.max").write_text("max\n")
    assert meters._left_in_group(str(tmp_path)) is None
    assert meters._left_in_group(str(tmp_path / "none")) is None
