"""A card with the memory that its user saw: `rtx-4080@15.99GiB`."""

from __future__ import annotations

import pytest

from kvplan import api
from kvplan.errors import SpecError, UnknownName
from kvplan.units import GIB
from tests.conftest import planned


def test_the_memory_is_its_users_and_the_rest_is_the_cards() -> None:
    """WSL shows an RTX 4080 what NVML counts, 16,376 MiB, of which CUDA on Linux reports 15.57 GiB."""
    plain, seen = (api.device(name) for name in ("rtx-4080", "NVIDIA GeForce RTX 4080 @ 15.99GiB"))
    assert seen.memory_bytes == int(15.99 * GIB) > plain.memory_bytes
    assert (seen.compute_capability, seen.name, seen.card) == (plain.compute_capability, plain.name, "rtx-4080")


def test_what_was_published_of_the_card_is_known_of_it() -> None:
    """vLLM 0.26 in WSL: the log has 8.0 GiB of cache for Qwen2.5-7B-Instruct-AWQ at 0.9 (KV reuse project, phase 1, 2026-08-02)."""
    plan = planned(
        "Qwen/Qwen2.5-7B-Instruct-AWQ", engine="vllm", engine_version="0.26.0", device="rtx-4080@15.99GiB", max_model_len=32768,
        memory_fraction=0.9,
    )  # fmt: skip
    assert plan.capacity is not None
    assert abs(plan.capacity.kv_bytes - 8.0 * GIB) < 0.2 * GIB


def test_what_a_mac_was_told_to_give_its_gpu() -> None:
    """Of 24 GB macOS gives a GPU 17.8 GiB at most unless iogpu.wired_limit_mb says otherwise: then nothing of it is in doubt."""
    seen = api.device("apple-m4-pro-24gb@20GiB")
    assert (seen.memory_bytes, seen.uncertain_bytes, seen.settable_bytes, seen.unified) == (20 * GIB, 0, 0, True)


def test_it_is_said_and_read_again_as_it_was_asked() -> None:
    plan = planned("qwen/qwen3-8b", engine="vllm", device="2xrtx-4090@23.9GiB", tp=2, context=8192)
    ids = {ledger.device for ledger in plan.ledgers}
    assert {api.device(id_).memory_bytes for id_ in ids if id_} == {int(23.9 * GIB)}


@pytest.mark.parametrize(("name", "error"), [("rtx-4080@", SpecError), ("rtx-4080@0GiB", SpecError), ("rtx-4080@much", SpecError),
                                             ("no-such-card@16GiB", UnknownName)])  # fmt: skip
def test_what_is_wrong_is_said(name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        api.device(name)


def test_what_others_hold_of_a_desktops_card_may_be_moved() -> None:
    """The same card and model refused by 0.34 GiB with 0.8 GiB held by others started in WSL, which moves what they hold."""
    plan = planned(
        "Qwen/Qwen2.5-7B-Instruct-AWQ", engine="vllm", engine_version="0.26.0", device="rtx-4080@15.99GiB", max_model_len=32768,
        memory_fraction=0.9, reserve="0.8GiB",
    )  # fmt: skip
    assert (plan.starts, plan.certainty) == (False, "too close to call")
