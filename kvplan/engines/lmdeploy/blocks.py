"""Bytes of one block and of one sequence's states on one rank.

TurboMind: src/turbomind/kernels/attention/block.h (Layout::layer_size; quant_policy adds a scale and a zero point of 16 bits for each
token and head, K and V apart; a latent shares K and V), models/llama/SequenceManager.cc, models/llama/GatedDeltaNetLayer.cc.
PyTorch: lmdeploy/pytorch/engine/cache_engine.py (CacheDesc, get_cache_block_size, StateCacheEngine), configurations/*.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.engines.common.lines import Refusal
from kvplan.parallel import heads_per_rank
from kvplan.tensors import CacheTensor, Layer
from kvplan.units import round_up

#: Bytes of scale and zero point of one row in a format of quant_policy 4 and 8.
_SCALES = {"int4_per_token_head": 4, "int8_per_token_head": 4}


class Kept(NamedTuple):
    """What one rank keeps: bytes of a block of all layers, how many layers are in it, and of one sequence the states.

    conv    bytes of the convolution states of all layers
    states  bytes of the recurrent state of each layer
    """

    block: int
    layers: int
    conv: int
    states: tuple[int, ...]

    @property
    def state_bytes(self) -> int:
        """Of one sequence, all layers."""
        return self.conv + sum(self.states)


def kept(layers: Sequence[Layer], tp: int, tokens: int, align: int) -> Kept:
    """What a rank keeps of these layers under tensor parallelism of the attention, in blocks of `tokens` tokens.

    align  bytes to which each tensor of a block is rounded up
    """
    block = conv = paged = 0
    states: list[int] = []
    for layer in layers:
        tensors = [t for cache in layer.caches for t in cache.tensors]
        block += sum(_block_bytes(t, tp, tokens, align) for t in tensors if t.tokens_per_state is not None)
        paged += any(t.tokens_per_state is not None for t in tensors)
        conv += sum(_state_bytes(t, tp) for t in tensors if t.columns)
        states += [_state_bytes(t, tp) for t in tensors if t.tokens_per_state is None and not t.columns]
    return Kept(block, paged, conv, tuple(states))


def check_heads(layers: Sequence[Layer], tp: int, *, repeats: bool = True) -> None:
    """Raises Refusal for KV heads that the ranks neither divide nor, where they do, repeat whole."""
    for heads in {t.heads for x in dict.fromkeys(layers) for cache in x.caches for t in cache.tensors}:
        if heads % tp and (tp % heads or not repeats):
            raise Refusal(f"AssertionError: num_heads: {heads}, world_size: {tp}")


def _block_bytes(t: CacheTensor, tp: int, tokens: int, align: int) -> int:
    rows = tokens * heads_per_rank(t.heads, tp)
    scales = _SCALES.get(t.dtype, 0)
    return round_up(rows * (row_bytes(t.dtype, t.elems_per_state) - scales), align) + round_up(rows * scales, align)


def _state_bytes(t: CacheTensor, tp: int) -> int:
    return heads_per_rank(t.heads, tp) * row_bytes(t.dtype, t.elems_per_state)
