"""MiniMax-M3 on SGLang: 60 layers of 4 KV heads of 128, an index key of 128 in 57 of them (the published config)."""

from __future__ import annotations

import pytest

from kvplan.errors import UnsupportedError
from tests.conftest import planned

PAIRS = 60 * 2 * 128  # elements of K and V of one head in all layers
KEYS = 57 * 128


@pytest.mark.parametrize(
    ("release", "device", "tp", "kv", "bytes_per_token"),
    [
        ("0.5.16", "h200", 8, "auto", PAIRS * 2 + KEYS * 2),  # one head a rank: 4 over 8, never fewer than one
        ("0.5.16", "h200", 4, "fp8", PAIRS + KEYS * 2),
        ("0.5.22", "h200", 4, "fp8", PAIRS + KEYS * 2),
        ("0.5.23", "h200", 4, "fp8", PAIRS + KEYS),  # get_minimax_sparse_index_dtype, is_sm90
        ("0.5.20", "b200", 4, "fp8", PAIRS + KEYS * 2),
        ("0.5.21", "b200", 4, "fp8", PAIRS + KEYS),  # fp8_attn_gemm
        ("0.5.21", "b200", 2, "auto", 2 * PAIRS * 2 + KEYS * 2),
        ("0.5.21", "mi355x", 8, "auto", PAIRS * 2 + KEYS),  # SGLANG_OPT_MINIMAX_M3_FP8_INDEX_CACHE
    ],
)
def test_a_token_takes_its_heads_and_a_key(release: str, device: str, tp: int, kv: str, bytes_per_token: int) -> None:
    """A pool of 16 GiB holds that divided by pool_configurator.py's cell of a rank, in pages: 60 layers x 2 x heads x 128 and 57 x 128."""
    plan = planned(
        "MiniMaxAI/MiniMax-M3", engine="sglang", engine_version=release, device=device, tp=tp, kv_dtype=kv, kv_memory="16GiB",
        context=4096,
    )  # fmt: skip
    assert plan.capacity is not None
    assert plan.capacity.tokens is not None
    page = plan.asked("block_size")
    assert plan.capacity.tokens == (16 << 30) // bytes_per_token // page * page


@pytest.mark.parametrize(("device", "page"), [("h200", 128), ("b200", 128), ("mi300x", 1)])
def test_pages_follow_the_gpu(device: str, page: int) -> None:
    plan = planned("MiniMaxAI/MiniMax-M3", engine="sglang", engine_version="0.5.16", device=device, tp=8, context=4096)
    assert plan.asked("block_size") == page


def test_no_class_before_0516() -> None:
    with pytest.raises(UnsupportedError, match=r"0\.5\.16"):
        planned("MiniMaxAI/MiniMax-M3", engine="sglang", engine_version="0.5.15", device="h200", tp=8, context=4096)
