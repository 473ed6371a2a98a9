"""MIG slices as devices: by name, with the sizes that NVIDIA publishes."""

from __future__ import annotations

import pytest

from kvplan.catalogue import find_device
from kvplan.devices import MIG
from kvplan.errors import UnknownName
from tests.conftest import planned

GIB = 1 << 30


@pytest.mark.parametrize(
    ("written", "gib"),
    [
        ("a100-40gb-1g.5gb", 4.75),  # nvidia-smi mig -lgip of NVIDIA's guide
        ("NVIDIA A100 40GB MIG 3g.20gb", 19.62),
        ("h100-1g.10gb", 9.62),  # listings of an H100
        ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", 39.25),
        ("h100-mig-1g.10gb+me", 9.62),
    ],
)
def test_sizes_that_are_published(written: str, gib: float) -> None:
    assert find_device(written).memory_bytes == int(gib * GIB)


def test_a_share_where_none_is_published() -> None:
    slice_, whole = find_device("h200-4g.71gb"), find_device("h200")
    assert slice_.memory_bytes == whole.memory_bytes // 2  # 4/8 of the memory, 4/7 of the multiprocessors
    assert slice_.bandwidth_gb_per_s == 2400
    assert slice_.dense_tflops["bf16"] == pytest.approx(989.4 * 4 / 7)
    assert slice_.compute_capability == "9.0"


def test_a_profile_alone_is_the_smallest_of_its_name() -> None:
    assert find_device("4g.71gb").memory_bytes == min(
        find_device(f"{name}-4g.71gb").memory_bytes for name in ("h200", "h200-nvl", "h20-141gb")
    )
    assert find_device("nvidia.com/mig-1g.10gb").memory_bytes == int(9.62 * GIB)
    assert find_device("1g.10gb").compute_capability is None  # of an A100 or an H100


@pytest.mark.parametrize("parent", MIG)
def test_the_largest_profile_is_the_whole(parent: str) -> None:
    sizes = [find_device(f"{parent}-{profile}").memory_bytes for profile in MIG[parent]]
    assert sizes == sorted(sizes)
    assert sizes[-1] == find_device(parent).memory_bytes


@pytest.mark.parametrize("written", ["h100-1g.5gb", "t4-1g.10gb", "9g.10gb", "mig-"])
def test_no_such_slice(written: str) -> None:
    with pytest.raises(UnknownName):
        find_device(written)


def test_a_plan_on_a_slice() -> None:
    plan = planned("qwen/qwen3-4b", engine="vllm", device="h100-1g.10gb", context=4096)
    assert planned("qwen/qwen3-0.6b", engine="vllm", device="1g.10gb", context=4096).fits
    assert plan.ledgers[0].device_bytes == int(9.62 * GIB)
    assert plan.fits is False  # 8 GB of weights, and 0.9 of 9.62 GiB less what a process holds
