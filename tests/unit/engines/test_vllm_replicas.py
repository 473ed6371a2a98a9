"""What experts hold of all replicas' tokens (vLLM fused_moe/prepare_finalize/naive_dp_ep.py, all2all.py AgRsAll2AllManager)."""

from __future__ import annotations

from typing import Any

import kvplan
from kvplan.ledger import Entry

NAME = "activations: replicas' tokens"


def line(**question: Any) -> Entry | None:
    found = kvplan.estimate(
        "qwen/qwen3-30b-a3b",
        engine="vllm",
        engine_version="0.28.0",
        device="b200",
        max_num_batched_tokens=8192,
        max_num_seqs=16,
        **question,
    )
    return next((entry for entry in found.ledgers[0].entries if entry.name == NAME), None)


def test_by_hand() -> None:
    """8 of 128 experts, 2048 wide, 768 between, bf16; 8,192 tokens of each of two replicas. Of a token: for each expert chosen the wider of
    gate with up (1,536) and the result (2,048), the product (768), and the result they add up to; apart: the state three times, a score
    of each expert in f32, and for each chosen its input, gate with up, the product and its result."""
    found = line(dp=2, ep=2)
    assert found is not None
    shared = 8 * (2048 + 768) + 2048
    apart = 3 * 2048 + 2 * 128 + 8 * (2048 + 768 + 1536 + 2048)
    assert found.bytes == 8192 * shared * 2
    assert found.high == 2 * 8192 * apart * 2
    assert found.low == found.bytes // 2


def test_none_where_a_rank_sees_its_own_tokens_alone() -> None:
    assert line() is None
    assert line(tp=2, ep=2) is None
    assert line(dp=2, ep=2, engine_option={"all2all_backend": "deepep_low_latency"}) is None
