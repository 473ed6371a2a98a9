"""Devices that are alone in their machine: an Apple chip, a laptop's GPU, a board that shares the system's memory. Two are two machines."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.report.answer import changes, options, sentence


def test_which_devices_are_alone() -> None:
    """No Mac, notebook, Jetson or Ryzen AI Max has a second one; a node of MI300A has four (AMD CDNA 3 white paper)."""
    alone = {device.id for device in kvplan.devices() if device.alone}
    ids = {device.id for device in kvplan.devices()}
    assert alone >= {one for one in ids if one.startswith(("apple-", "jetson-", "ryzen-")) or "laptop" in one} | {"gb10"}
    assert not alone & {"rtx-4090", "h100-80gb", "mi300a", "gh200-96gb"}
    assert {device.id for device in kvplan.devices() if device.clusters} == {"gb10"}  # DGX Spark user guide: stacked by ConnectX-7


@pytest.mark.parametrize("device", ["apple-m3-max-64gb", "rtx-4090-laptop", "ryzen-ai-max-395"])
def test_more_of_them_are_no_advice(device: str) -> None:
    question: dict[str, Any] = {"engine": "ollama", "context": "128k"}
    for name in (device, f"1x{device}"):
        said = [options(one) for one in changes(kvplan.estimate("llama3.3", device=name, **question))]
        assert not [one for one in said if f"x{device}" in one], said


@pytest.mark.parametrize(("engine", "context"), [("ollama", "32k"), ("llama.cpp", "32k"), ("exllamav3", "32k"), ("vllm", "8k")])
def test_fit_takes_one_of_each(engine: str, context: str) -> None:
    """30.5 billion parameters in bf16 are 56.9 GiB, in 4 bits 17: no machine of 8 GiB carries them."""
    devices = ["apple-m1-8gb", "apple-m4-pro-24gb", "rtx-3060-laptop", "rtx-4090-laptop"]
    rows = kvplan.fit("qwen/qwen3-30b-a3b", engine=engine, context=context, devices=devices)
    assert {row.n_devices for row in rows} <= {None, 1}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_two_sparks_are_a_pair_where_ranks_may_be_on_two_machines(engine: str) -> None:
    """131 GiB of weights: one has 121.7 GiB, two hold 66 each. Starts of such pairs are in tests/threads."""
    (row,) = kvplan.fit("meta-llama/llama-3.1-70b", engine=engine, context="8k", devices=["gb10"])
    assert row.n_devices == 2
    said = [options(one) for one in changes(kvplan.estimate("meta-llama/llama-3.1-70b", engine=engine, context="8k", device="gb10"))]
    assert {"--tp 2", "--pp 2"} & set(said)
    (alone,) = kvplan.fit("meta-llama/llama-3.1-70b", engine="llama.cpp", context="8k", devices=["gb10"])
    assert alone.n_devices is None


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_who_asks_for_two_macs_is_told_that_they_are_two_machines(engine: str) -> None:
    plan = kvplan.estimate("llama3.3", engine=engine, device="2xapple-m3-max-64gb", context="8k")
    assert (plan.fits, plan.starts, plan.margin_bytes) == (False, False, None)
    assert "2 x Apple M3 Max 64GB are 2 machines" in sentence(plan)
    assert ("--rpc" in sentence(plan)) is (engine == "llama.cpp")


def test_servers_of_rpc_are_asked_for_by_their_memory() -> None:
    """llama.cpp's --rpc: every server is a device; 39.6 GiB of weights and 8,192 x 327,680 B of cache on twice 48 GiB."""
    option = {"device_memory": "48GiB/48GiB"}
    plan = kvplan.estimate("llama3.3", engine="llama.cpp", device="2xapple-m3-max-64gb", context="8k", engine_option=option)
    assert plan.fits


def test_mlx_names_what_it_would_be_started_with() -> None:
    with pytest.raises(kvplan.errors.UnsupportedError, match=r"mlx\.launch"):
        kvplan.estimate("qwen/qwen3-8b", engine="mlx-lm", device="2xapple-m3-max-64gb")
