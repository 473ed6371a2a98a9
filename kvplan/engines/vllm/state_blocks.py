"""Blocks that hold a state for prefix caching, and what a release stops at of them: config/vllm.py, `mamba_cache_mode` align."""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.blocks import choose_blocks
from kvplan.engines.vllm.layers import mixers
from kvplan.engines.vllm.settings import settings_of


def _block(settled: Settled) -> int:
    """Tokens of a block whose last state is kept; 0 where none is."""
    s = settings_of(settled)
    if s.state_mode != "align" or s.platform != "cuda":
        return 0
    owners, _ = mixers(s.served, s)
    return choose_blocks(owners, s).blocks.primary


def _whole_media(settled: Settled) -> Values:
    return {} if Options(settled.question).flag("disable_chunked_mm_input") and settings_of(settled).state_mode == "align" else None


def _wider(settled: Settled) -> Values:
    block, batch = _block(settled), settings_of(settled).max_num_batched_tokens
    return {"block": block, "batch": batch} if block > batch else None


_SOURCE = "config/vllm.py, from 0.20 on validate_block_size"
_SMALLER = (Move("option:enable_prefix_caching", "false"), Move("tp", "a larger one, whose ranks keep smaller states"))

CHECKS: tuple[Stop, ...] = (
    Stop(
        "whole media beside states",
        "Chunked MM input is required because we need the flexibility to schedule a multiple of block_size",
        "states are kept where blocks end, also in the middle of an image",
        (Move("option:disable_chunked_mm_input", "false"), _SMALLER[0]), _SOURCE, since="0.16", when=_whole_media,
        tail=" tokens even if they are in the middle of a mm input",
    ),
    Stop(
        "a step shorter than a block of states",
        "In Mamba cache align mode, block_size ({block}) must be <= max_num_batched_tokens ({batch}).",
        "states are kept where blocks of {block} tokens end, and a step of {batch} reaches no end",
        (Move("max_num_batched_tokens", "{block} or more"), *_SMALLER), _SOURCE, since="0.17", before="0.27", when=_wider,
    ),
)  # fmt: skip
