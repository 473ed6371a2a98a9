"""What vLLM's ranks hold beside the memory that the fraction counts, on cards of which little or nothing is known."""

from __future__ import annotations

from typing import Any

from kvplan.ledger import Entry
from kvplan.units import GIB
from tests.conftest import planned


def beside(**question: Any) -> dict[str, Entry]:
    plan = planned("openai/gpt-oss-120b", engine="vllm", context=8192, **{"engine_version": "0.28.0", **question})
    return {entry.name: entry for entry in plan.ledgers[0].outside}


def test_links_of_cards_without_a_name_may_be_any() -> None:
    """Eight RTX PRO 4500 held 31.18 of 31.38 GiB with a share of 29.81 (vllm#51590), 1.37 beside it; NCCL takes most over NVLink."""
    named, unnamed = (beside(device=device, tp=8, memory_fraction=0.9)["NCCL"] for device in ("rtx-5090", "31.38GiB"))
    assert (named.bytes, named.low) == (unnamed.bytes, unnamed.low)
    assert unnamed.high > max(named.high, GIB // 2)


def test_intel_holds_more_beside_a_share() -> None:
    """intel/llm-scaler#703: of 31.89 GiB 1.33 are in use before the load; a share of 29.34 ran out, one of 27.11 did not."""
    line = beside(device="arc-pro-b70", tp=4, engine_version="0.26.0")["outside torch, Intel"]
    assert line.high >= 31.89 * GIB - 29.34 * GIB - GIB // 2
    assert line.bytes + GIB // 2 <= 31.89 * GIB - 27.11 * GIB
    assert line.sources == 2
    assert "outside torch, Intel" not in beside(device="rtx-5090", tp=4)
