"""Boards whose memory is the system's too: what public logs had free of them lies within what the plan leaves open."""

from __future__ import annotations

import pytest

from kvplan.units import GIB, MIB
from tests.conftest import planned

#: Device and bytes that a log had free at the start: ollama#3406; llama-server on an 8 GB board.
LOGS = [
    ("jetson-agx-orin-64gb", int(51.6 * GIB)),
    ("jetson-orin-nano-8gb", 5818 * MIB),
]


@pytest.mark.parametrize(("device", "free"), LOGS)
def test_what_was_free_is_left_open(device: str, free: int) -> None:
    plan = planned("qwen/qwen3-0.6b", engine="llama.cpp", device=device, context=4096)
    ledger = plan.ledgers[0]
    assert ledger.limit_bytes is not None
    held = next(e for e in ledger.entries if e.name == "not free on every system")
    assert (held.low, held.bytes) == (0, 0)
    assert ledger.limit_bytes - held.high <= free + MIB


def test_a_model_that_only_an_empty_board_would_hold_is_too_close_to_call() -> None:
    """27.4 billion parameters in bf16 alone are 51.1 GiB: with a cache more than the 51.6 GiB that a log had, and less than the whole."""
    plan = planned("google/gemma-3-27b", engine="llama.cpp", device="jetson-agx-orin-64gb", context=65536)
    assert plan.ledgers[0].total_bytes > int(51.6 * GIB)
    assert plan.certainty == "too close to call"


@pytest.mark.parametrize("device", ["jetson-agx-thor", "gb10", "jetson-agx-orin-64gb", "jetson-orin-nano-8gb"])
def test_what_vllm_leaves_to_the_system_is_no_more_than_a_quarter(device: str) -> None:
    plan = planned("qwen/qwen3-0.6b", engine="vllm", device=device, context=4096)
    held = next(e for e in plan.ledgers[0].outside if e.name == "RAM of the system and the server")
    assert plan.ledgers[0].device_bytes is not None
    assert held.low <= held.bytes <= held.high <= plan.ledgers[0].device_bytes // 4 + 1
