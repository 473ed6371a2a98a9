"""From bytes to blocks: BlockManager and the object cache of TurboMind, and the PyTorch engine's cache.

Source: src/turbomind/models/llama/{BlockManager,SequenceManager}.cc (to 0.14), src/turbomind/memory/{page,slab,object}.{h,cc} and
src/turbomind/turbomind.cc, CreateEngine (from 0.15); lmdeploy/pytorch/engine/executor/base.py, update_configs, and
engine/engine.py, _get_max_session_len.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common.lines import Refusal
from kvplan.engines.lmdeploy.blocks import Kept
from kvplan.engines.lmdeploy.settle import LmdeploySettings
from kvplan.units import MIB, cdiv, longest, round_up

PAGE = 32 * MIB  # MemoryState::kPageSize and kMinSlabSize
MAX_SLAB, FULL_ENOUGH = 1 << 30, 0.95  # kMaxSlabSize, kUtilThresh
_ALIGN = 256


class Slabs(NamedTuple):
    """One slab class: objects of one size, `objects` to a slab of `n_bytes`."""

    object_bytes: int
    n_bytes: int
    objects: int

    @classmethod
    def of(cls, object_bytes: int) -> Slabs:
        """The smallest power of two, of 32 MiB or more, that objects fill to 95 %, or 1 GiB."""
        n_bytes = 1 << (max(PAGE, object_bytes) - 1).bit_length()
        while n_bytes // object_bytes * object_bytes / n_bytes < FULL_ENOUGH and n_bytes < MAX_SLAB:
            n_bytes *= 2
        return cls(object_bytes, n_bytes, n_bytes // object_bytes)


class Pool(NamedTuple):
    """The pool of one rank.

    blocks     of `kept.block` bytes each; for objects: what fits when no sequence has states
    usable     blocks that sequences can have; `longest`: tokens of the longest one that is admitted
    n_bytes    taken for blocks and states; `state_slots` of `slot_bytes` are set aside (objects: 0, they share the region)
    pages      of the object cache's region; 0: it is none
    """

    kept: Kept
    tokens: int
    blocks: int
    usable: int
    longest: int
    n_bytes: int
    state_slots: int = 0
    slot_bytes: int = 0
    pages: int = 0

    def spare(self, batch: int, context: int) -> int:
        """Bytes left when so many sequences of so many tokens are held; below zero: missing."""
        blocks = batch * cdiv(context, self.tokens)
        if self.pages and self.kept.state_bytes:
            return _spare_pages(self.pages, self.kept, batch, blocks) * PAGE
        return (self.usable - blocks) * self.kept.block


def blocks_pool(n_bytes: int, kept: Kept, s: LmdeploySettings) -> Pool:
    """TurboMind to 0.14: states for max_batch_size sequences, then blocks; session_len is cut to what they hold. Raises Refusal."""
    states = s.max_batch * kept.state_bytes
    if states and n_bytes <= states:
        raise Refusal(
            "Please decrease max_batch_size to reduce total linear state size or increase cache_max_entry_count: "
            f"linear-state memory {states / MIB:.2f} MB, cache budget {n_bytes / MIB:.2f} MB"
        )
    blocks = s.asked_blocks if s.asked_blocks is not None else (n_bytes - states) // kept.block if kept.block else 0
    most = min(blocks * s.block, s.session_len)
    slots = s.max_batch if states else 0
    return Pool(kept, s.block, blocks, blocks, most, blocks * kept.block + states, slots, kept.state_bytes)


def objects_pool(n_bytes: int, kept: Kept, s: LmdeploySettings) -> Pool:
    """TurboMind from 0.15: one region in pages of 32 MiB, dealt out in slabs."""
    slabs, pages = Slabs.of(kept.block), n_bytes // PAGE
    blocks = pages // (slabs.n_bytes // PAGE) * slabs.objects
    return Pool(kept, s.block, blocks, blocks, s.session_len, n_bytes, pages=pages)


def pytorch_pool(n_bytes: int, kept: Kept, s: LmdeploySettings) -> Pool:
    """The PyTorch engine: its blocks in `n_bytes`, beside the states. Raises Refusal."""
    blocks = s.asked_blocks if s.asked_blocks is not None else n_bytes // kept.block if kept.block and n_bytes > 0 else 0
    if blocks <= s.rules.refused_blocks:
        raise Refusal("No enough gpu memory for kv cache.")
    usable = blocks - s.rules.reserved
    slots, slot = state_slots(kept, s), state_slot(kept)
    less = s.block if s.rules.margin else 0
    most = min(usable * s.block, s.session_len) - less if s.rules.margin != "blocks" else min(usable * s.block - less, s.session_len)
    return Pool(kept, s.block, blocks, usable, max(most, 0), blocks * kept.block + slots * slot, slots, slot)


def state_slots(kept: Kept, s: LmdeploySettings) -> int:
    """PyTorch: slots of states (_get_state_cache_mem)."""
    return s.max_batch + (s.rules.spare_states or 0) + s.state_budget if kept.state_bytes else 0


def state_slot(kept: Kept) -> int:
    """PyTorch: one slot, the convolutions of all layers and the states of all layers each rounded up to 256 bytes."""
    return round_up(kept.conv, _ALIGN) + round_up(sum(kept.states), _ALIGN)


def runtime(free: int, block: int, vocab: int, s: LmdeploySettings) -> tuple[int, int]:
    """PyTorch: bytes kept for logits, scores, and the max_prefill_token_num that leaves 16 blocks (_get_runtime_size). Raises Refusal."""
    prefill, reserve = s.max_prefill, 0
    while prefill > 0:
        reserve = prefill * vocab * 7 if s.rules.seven else (prefill + s.max_batch * 2) * vocab * 2 + s.score_mib * MIB
        blocks = int((free - reserve) * s.fraction) // block if block else 16
        if s.rules.asks_early and blocks <= s.rules.refused_blocks:
            raise Refusal("No enough gpu memory for kv cache.")
        if blocks >= 16:
            break
        prefill //= 2
    if prefill <= 0:
        raise Refusal("No enough gpu memory for runtime.")
    return reserve, prefill


def slab_classes(kept: Kept) -> list[tuple[Slabs, int, int]]:
    """The object cache's slab classes: (slabs, objects of a block, objects of a sequence); equal sizes share one."""
    counts: dict[int, list[int]] = {kept.block: [1, 0]}
    for size in (*kept.states, kept.conv):
        if size:
            counts.setdefault(size, [0, 0])[1] += 1
    return [(Slabs.of(size), per_block, per_sequence) for size, (per_block, per_sequence) in counts.items()]


def most_blocks(pool: Pool, batch: int) -> int:
    """Blocks beside the states of so many sequences."""
    if not pool.pages or not pool.kept.state_bytes:
        return pool.usable
    return longest(lambda n: _spare_pages(pool.pages, pool.kept, batch, n) >= 0, pool.blocks)


def _spare_pages(pages: int, kept: Kept, batch: int, blocks: int) -> int:
    """Pages left when the slabs of every class are laid out, the largest first: each at a multiple of its size."""
    spare = pages
    for slabs, per_block, per_sequence in sorted(slab_classes(kept), key=lambda x: -x[0].n_bytes):
        size = slabs.n_bytes // PAGE
        need = cdiv(per_block * blocks + per_sequence * batch, slabs.objects) * size
        if need > spare // size * size:
            return min(spare // size * size - need, -1)
        spare -= need
    return spare
