"""How SGLang's ranks share states, and one buffer for both kinds of cache: its own code by each case."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engines.common.kinds import KINDS
from kvplan.engines.sglang.cells import add_up
from kvplan.engines.sglang.one_pool import BLOCK, shared, whole_tokens
from kvplan.engines.sglang.pools import SglangPoolSettings, Tokens
from kvplan.engines.sglang.rules import RELEASES
from tests.unit.engines.test_sglang_refusals import stopped

K = SglangPoolSettings(
    page=1, context_len=131072, chunk=8192, max_running=None, attention_dp=1, draft_tokens=0, draft_steps=0, draft_chain=False, radix=True,
    overlap=True, swa_ratio=0.8, mamba_ratio=0.9, max_states=None, slots_per_request=3, max_total_tokens=None, fraction=0.8, shared=True,
)  # fmt: skip
QWEN, NEMOTRON = "qwen/qwen3.5-27b", "nvidia/nemotron-3-nano-30b-a3b"


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        # models/qwen3_5.py create_qkvz_proj: 16 key heads of 128, over linear.py's divide
        (QWEN, {"tp": 12}, "AssertionError: 2048 is not divisible by 12"),
        (QWEN, {"tp": 4}, None),
        # layers/attention/mamba/mamba.py MambaMixer2: 8 groups
        (NEMOTRON, {"tp": 16},
         "If tensor parallel world size does not divide num_groups, then num_groups must equal 1. (8 groups over 16 ranks)"),
        (NEMOTRON, {"tp": 8}, None),
        # arg_groups/parallel_hook.py
        (NEMOTRON, {"tp": 4, "engine_option": {"attn_cp_size": "2"}}, "Nemotron-H does not support --attn-cp-size > 1"),
    ],
)  # fmt: skip
def test_ranks(model: str, asked: dict[str, Any], said: str | None) -> None:
    assert stopped(model, "0.5.23", **asked) == said


def test_one_buffer() -> None:
    """0.5.18: rows of every token and slot, none to spare; numbers of 8 bytes. 0.5.23: all that states leave, in whole blocks."""
    cells = add_up((), windows=False)._replace(full=16384, full_held=16384, state=25_000_000)
    early, late = (RELEASES.rules[version] for version in ("0.5.18", "0.5.23"))
    found = shared(10_000_000_000, Tokens(600_000, 600_000, None), cells, 10, K, early)
    assert found.rows == 600_000 * 16384
    pages, slots = (found.rows + 250_000_000) // 16384, (found.rows + 250_000_000) // 25_000_000
    sink = -(-25_000_000 // 16384)
    assert found.tables == 8 * (2 * (pages + 1) + 2 * (slots + 1) + (pages - sink) + (slots - 1))
    assert shared(10_000_000_000, Tokens(600_000, 600_000, None), cells, 10, K, late).rows == 10_000_000_000 // BLOCK * BLOCK


def test_whole_tokens_take_what_cutting_the_window_pool_left() -> None:
    cells = add_up((), windows=True)._replace(full=100, swa=100)
    assert whole_tokens(Tokens(10, 10, 8), 1899, cells, K) == Tokens(10, 10, 8)
    assert whole_tokens(Tokens(10, 10, 8), 1900, cells, K) == Tokens(11, 11, 8)


def test_suffixes() -> None:
    """srt/utils/common.py human_readable_int, by its own examples."""
    read = KINDS["si"].read
    assert [read(word) for word in ("1k", "1M", "25.6k", "1Ki", "1Mi", "4096")] == [1000, 10**6, 25600, 1024, 2**20, 4096]
    for wrong in ("1K", "1.5Ki", "k"):
        with pytest.raises(ValueError, match=r"."):
            read(wrong)
