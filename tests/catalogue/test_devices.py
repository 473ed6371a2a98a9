"""Every device file: read, named once, believable, and found by each of its names."""

from __future__ import annotations

import pytest

from kvplan import catalogue
from kvplan.errors import KvplanError

DEVICES = catalogue.devices()
GIB_PER_GB = 10**9 / 2**30


def test_there_are_enough():
    assert len(DEVICES) >= 35
    assert {d.vendor for d in DEVICES} >= {"nvidia", "amd", "intel", "apple"}


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.id)
def test_device(device):
    assert device.sources
    assert device.memory_bytes > 0
    for mib in (device.nvml_total_mib, device.cuda_total_mib):
        if mib:
            assert 0.88 * device.memory_gb * GIB_PER_GB < mib / 1024 < 1.08 * device.memory_gb
    if device.nvml_total_mib and device.cuda_total_mib:
        assert device.cuda_total_mib <= device.nvml_total_mib
    for name in (device.id, *device.aliases):
        assert catalogue.find_device(name.upper()).id == device.id


def test_names_belong_to_one_device():
    names = [name for d in DEVICES for name in (d.id, *d.aliases)]
    assert len(names) == len(set(names))


def test_the_h100_as_the_two_libraries_see_it():
    h100 = catalogue.find_device("NVIDIA H100 80GB HBM3")
    assert h100.nvml_total_mib == 81_559  # nvidia-smi
    assert round(h100.cuda_total_mib / 1024, 2) == 79.19  # torch


@pytest.mark.parametrize("name", ["h100", "a100-40gb", "rtx-4090", "l40s", "mi300x", "gb10", "t4", "b300"])
def test_the_contracts_ids(name):
    assert catalogue.find_device(name)


@pytest.mark.parametrize("name", ["", "../h100", "h1000", "\0", "a" * 10_000])
def test_unknown_devices(name):
    with pytest.raises(KvplanError):
        catalogue.find_device(name)
