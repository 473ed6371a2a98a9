"""Every device file: read, named once, believable, and found by each of its names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvplan import catalogue, device_names, machines
from kvplan.api.found import device
from kvplan.devices import SHOWN_MIB
from kvplan.errors import KvplanError
from kvplan.rows import rows
from tests.conftest import planned

DEVICES = catalogue.devices()
GIB_PER_GB = 10**9 / 2**30


def test_there_are_enough():
    assert len(DEVICES) >= 35
    assert {d.vendor for d in DEVICES} >= {"nvidia", "amd", "intel", "apple"}


def test_every_device_is_believable():
    for one in DEVICES:
        assert one.sources, one.id
        assert one.memory_bytes > 0, one.id
        for mib in (one.nvml_total_mib, one.cuda_total_mib):
            if mib:
                assert 0.88 * one.memory_gb * GIB_PER_GB < mib / 1024 < 1.08 * one.memory_gb, one.id
        if one.nvml_total_mib and one.cuda_total_mib:
            assert one.cuda_total_mib <= one.nvml_total_mib, one.id
        for name in (one.id, *one.aliases):
            assert catalogue.find_device(name.upper()).id == one.id


def test_names_belong_to_one_device():
    names = [name for d in DEVICES for name in (d.id, *d.aliases)]
    assert len(names) == len(set(names))
    owners = {(device_names.spelling(name), d.id) for d in DEVICES for name in (d.id, *d.aliases)}
    assert len(owners) == len({spelling for spelling, _ in owners})


def test_a_device_is_found_by_every_name_that_is_written_for_it():
    """device_names.tsv."""
    known = rows(Path(__file__).parent / "device_names.tsv")
    assert len(known) > 100
    wrong = {}
    for written, id_, *more in known:
        try:
            found = catalogue.find_device(written)
        except KvplanError as error:
            wrong[written] = str(error)
            continue
        if found.id != id_ or (any(more[:1]) and found.memory_gb != int(more[0])):
            wrong[written] = f"{found.id}, {found.memory_gb} GB"
    assert not wrong


@pytest.mark.parametrize(
    ("written", "id_", "others"),
    [
        ("v100", "v100-16gb", "v100-32gb"),
        ("RTX 3060", "rtx-3060-12gb", "rtx-3060-8gb"),
        ("NVIDIA GeForce RTX 3060", "rtx-3060-12gb", "rtx-3060-8gb"),  # both drivers' name
        ("RTX 2060", "rtx-2060-6gb", "rtx-2060-12gb"),
        ("RTX 3050", "rtx-3050-8gb", "rtx-3050-6gb"),
        ("RTX 3050 Laptop GPU", "rtx-3050-laptop-4gb", "rtx-3050-laptop-6gb"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "rtx-3080-laptop-8gb", "rtx-3080-laptop-16gb"),
        ("a100", "a100-80gb", "a100-40gb"),
        ("a100-pcie", "a100-pcie-80gb", "a100-40gb"),
        ("h20", "h20-96gb", "h20-141gb"),
        ("strix halo", "ryzen-ai-max-395", "96GiB, 64GiB, 32GiB"),
    ],
)
def test_a_name_that_is_sold_with_several_sizes_says_which_was_taken(written, id_, others):
    found = catalogue.find_device(written)
    assert (found.id, found.taken) == (id_, f"{written} is taken as the {found.memory_gb} GB one, {id_}; it is sold too as {others}")
    assert catalogue.find_device(f"{id_}").taken is None
    plan = planned("llama-3.1-8b", device=written, context=1024)
    assert found.taken in plan.model.notes


@pytest.mark.parametrize("written", ["V100 16GB", "NVIDIA A100-SXM4-80GB", "NVIDIA GH200 480GB", "rtx 4090", "h100"])
def test_a_name_that_says_its_size_or_has_one_says_nothing(written):
    assert catalogue.find_device(written).taken is None


def test_every_card_of_a_shared_name_is_a_file_or_a_size():
    """And the same word is the name of no other: every name that leaves the size out is noted or refused."""
    ids = set(catalogue.device_ids())
    for one in DEVICES:
        for other in one.same_name:
            assert (other in ids) or device(other).size_bytes, other
    stems = [(re.sub(r"-\d+gb$", "", d.id), d) for d in DEVICES if d.vendor != "apple"]
    for stem in {stem for stem, _ in stems}:
        sizes = [d for name, d in stems if name == stem]
        named = [d for d in DEVICES if stem in d.aliases]
        assert len(sizes) == 1 or not named or set(named[0].same_name) >= {d.id for d in sizes} - {named[0].id}, stem


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("mi300", "can be several devices: mi300a, mi300x"),
        ("jetson orin", "can be several devices: jetson-agx-orin-32gb, jetson-agx-orin-64gb, jetson-orin-nano-8gb"),
        ("gaudi", "can be several devices: gaudi2, gaudi3"),
        ("RTX 6000", "can be several devices: quadro-rtx-6000, rtx-6000-ada"),
        ("rtx 5050", "unknown device"),  # not the laptop's
        ("NVIDIA A40-8Q", "a share of 8 GB: give its memory, --device 8GiB"),
        ("RTX 4090 96GB", "such as 96GiB"),
        ("Standard_NV6ads_A10_v5", "carries a share of an A10"),
        ("trn1.32xlarge", "carries AWS Trainium, which is not modelled"),
    ],
)
def test_what_is_no_one_device_is_refused_with_what_to_write(written, told):
    with pytest.raises(KvplanError, match=told):
        catalogue.find_device(written)


@pytest.mark.parametrize(
    ("machine", "id_", "n"),
    [  # AWS Batch User Guide, "Run GPU jobs"; Compute Engine, "GPU machine types"; Azure's size pages; Lambda's instance types
        ("p5.48xlarge", "h100-80gb", 8),
        ("g5.xlarge", "a10g", 1),
        ("g6e.12xlarge", "l40s", 4),
        ("g4dn.16xlarge", "t4", 1),
        ("a2-highgpu-4g", "a100-40gb", 4),
        ("a3-highgpu-8g", "h100-80gb", 8),
        ("g2-standard-24", "l4", 2),
        ("Standard_NC48ads_A100_v4", "a100-pcie-80gb", 2),
        ("gpu_8x_h100_sxm5", "h100-80gb", 8),
        ("BM.GPU.H100.8", "h100-80gb", 8),
        ("2xp5.48xlarge", "h100-80gb", 16),
        ("dgx h100", "h100-80gb", 8),
    ],
)
def test_a_machine_is_its_gpus_and_how_many(machine, id_, n):
    plan = planned("llama-3.2-1b", device=machine, context=1024)
    assert (plan.question["device"][0], plan.question["n_devices"][0] or 1) == (id_, n)
    assert any(note.startswith(f"the machine {machine.removeprefix('2x')} has ") for note in plan.model.notes)


def test_some_of_a_machines_gpus():
    for more in ({"tp": 4}, {"n_devices": 4}):
        plan = planned("llama-3.1-8b", device="p5.48xlarge", context=1024, **more)
        assert sum(len(ledger.ranks) for ledger in plan.ledgers) == 4
    with pytest.raises(KvplanError, match="says 8 devices, n_devices 16"):
        planned("llama-3.1-8b", device="p5.48xlarge", n_devices=16, context=1024)
    with pytest.raises(KvplanError, match="needs 16 devices, not 8"):
        planned("llama-3.1-8b", device="p5.48xlarge", tp=16, context=1024)


def test_every_row_of_machines_is_reached_and_means_a_packaged_device():
    for row in machines.every():
        assert row.device in catalogue.device_ids()
        assert row.number in ("", r"\1") or int(row.number) <= 16
        assert (row.number == r"\1") == (row.pattern.groups == 1 and "(\\d" in row.pattern.pattern), row.pattern.pattern


@pytest.mark.parametrize(
    "written",
    [
        "RTX 4080 Ti Laptop GPU",
        "RTX 3070 Laptop 12GB",
        "RTX 3060 Laptop 12GB",
        "RTX 4090 Laptop 24GB",
        "RTX 5090 D v2",
        "RTX 4090 96GB",
        "nvidia",
        "1gb" * 3000,
    ],
)
def test_another_card_is_not_taken_for_it(written):
    with pytest.raises(KvplanError, match="unknown device"):
        catalogue.find_device(written)


@pytest.mark.parametrize(
    ("written", "told"),
    [("MacBook", "such as apple-m4-16gb"), ("imac", "devices list apple"), ("cpu", "leave --device out"), ("h10", "did you mean")],
)
def test_what_is_no_device_is_told_what_to_write(written, told):
    with pytest.raises(KvplanError, match=told):
        catalogue.find_device(written)


@pytest.mark.parametrize(
    ("written", "sizes"), [("m3-max", "m3-max-36gb, m3-max-48gb, m3-max-64gb, m3-max-96gb, m3-max-128gb"), ("Apple M1", "m1-8gb, m1-16gb")]
)
def test_a_chip_without_its_memory_is_ambiguous(written, sizes):
    with pytest.raises(KvplanError, match=f"say which .{sizes}"):
        catalogue.find_device(written)


def test_what_macos_gives_the_gpu():
    """llama.cpp logs: 55662.79 MB of 64 GB, 26800.60 MB of 32 GB; older systems 2/3 of 32 GB (21845.34 MiB) and 3/4 of 64."""
    m = 1 << 20
    large, small = catalogue.find_device("m4-max-64gb"), catalogue.find_device("m1-max-32gb")
    assert (large.memory_bytes // m, small.memory_bytes // m) == (int(55662.79e6) // m, int(26800.60e6) // m)
    assert (large.gpu_low_mib, small.gpu_low_mib) == (49152, 21845)


def test_the_h100_as_the_two_libraries_see_it():
    h100 = catalogue.find_device("NVIDIA H100 80GB HBM3")
    assert h100.nvml_total_mib == 81_559  # nvidia-smi
    assert round(h100.cuda_total_mib / 1024, 2) == 79.19  # torch


@pytest.mark.parametrize("name", ["h100", "a100-40gb", "rtx-4090", "l40s", "mi300x", "gb10", "t4", "b300"])
def test_the_contracts_ids(name):
    assert catalogue.find_device(name)


@pytest.mark.parametrize("name", ["", "../h100", "h1000", "\0", "a" * 10_000, "[" * 10_000, "gpu 0: " * 2_000, "-1g" * 5_000])
def test_unknown_devices(name):
    with pytest.raises(KvplanError):
        catalogue.find_device(name)


def test_card_with_its_memory_is_no_size() -> None:
    """A number, words and a memory: a card's name; a number and a unit: a size."""
    assert [device(name).id for name in ("4060 Ti 16GB", "3060 12gb")] == ["rtx-4060-ti-16gb", "rtx-3060-12gb"]
    assert [device(size).memory_bytes for size in ("24GiB", "80 GB")] == [24 << 30, 80 * 10**9]


@pytest.mark.parametrize(
    ("written", "id_", "number"),
    [  # names of node pools as dstack, slurm-gcp and others over Google's machine types write them
        ("a3-ultragpu-8g-nvidia-h200-141gb-8", "h200", 8),
        ("a3-megagpu-8g-nvidia-h100-mega-80gb-8", "h100-80gb", 8),
        ("a2-megagpu-16g-nvidia-a100-40gb-16", "a100-40gb", 16),
        ("g2-standard-48-nvidia-l4-4", "l4", 4),
    ],
)
def test_a_machine_type_with_its_accelerators_behind_it(written: str, id_: str, number: int) -> None:
    machine = machines.find(written)
    assert machine is not None
    assert (machine.device, machine.number) == (id_, number)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("8xH100", "--device h100-80gb --n-devices 8"),
        ("h100:8", "--device h100-80gb --n-devices 8"),
        ("4 x RTX 3090", "--device rtx-3090 --n-devices 4"),
        ("GTX 1050", "did you mean gtx-1"),
        ("B100", "did you mean b300 or b200?"),
        ("RTX 4090 96GB", "did you mean rtx-4090"),
        ("MI110", "or mi100"),
        ("RX 6800M", "did you mean rx-6800"),  # a laptop's, with 12 GB
        ("Radeon Pro VII", "unknown device"),
        ("AMD Instinct MI60 / MI50", "unknown device"),  # ROCm's one name of two cards
    ],
)
def test_what_is_said_of_several_and_of_cards_that_are_not_known(written: str, said: str) -> None:
    with pytest.raises(KvplanError) as caught:
        catalogue.find_device(written)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("id_", "mib"),
    [  # Ollama's discover/llama_server_test.go; radeontop in mixa3607/ML-gfx906
        ("rx-6700-xt", 12272),
        ("rx-6800", 16368),
        ("mi50-32gb", 32752),
    ],
)
def test_what_rocm_hands_to_a_process(id_: str, mib: int) -> None:
    assert catalogue.find_device(id_).memory_bytes == mib << 20


def test_a_size_that_nvml_shows_is_less_to_cuda() -> None:
    """nvidia-smi shows 24,564 MiB of an RTX 4090, of which torch has 24,081: what its driver keeps is not to be had."""
    odd = {d.nvml_total_mib for d in catalogue.devices() if d.vendor == "nvidia" and d.nvml_total_mib and d.nvml_total_mib % 512}
    assert odd == SHOWN_MIB
    assert device("24564MiB").memory_bytes == (24564 - 463) << 20
    assert device("24563MiB").memory_bytes == 24563 << 20
    assert device("24GiB").memory_bytes == 24 << 30
