"""A stand-in for torch.cuda: a card, CUDA's context on it, and torch's caching allocator acted out block by block. No GPU is touched.

Written from PyTorch 2.13's c10/cuda/CUDACachingAllocator.cpp (default settings): a request becomes a multiple of 512 B, finds the
smallest free block of its pool (small: to 1 MiB) that holds it, or takes a segment from the device: 2 MiB for small ones, 20 MiB below
10 MiB, else the next 2 MiB. What is left is split off (small pool: from 512 B; large: above 1 MiB), neighbours merge when freed, and
empty_cache returns the segments that are wholly free; a request that finds no room does that first.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch

MIB = 1 << 20


class Block:
    """Bytes [at, at + size) of a segment."""

    def __init__(self, segment: list[Block], at: int, size: int, small: bool) -> None:
        self.segment, self.at, self.size, self.small, self.free = segment, at, size, small, True


class FakeCuda:
    """torch.cuda as a meter reads it. `card`: a GPU of tests.fake_nvml, whose used memory this process adds to.

    context    bytes that the context takes at the first call which needs one
    workspace  bytes of torch that the first matrix product keeps; `library`: bytes it takes outside torch
    process    whether NVML sees this process's memory (not in a container)
    """

    def __init__(
        self, card: dict[str, Any], *, context: int = 500 * MIB, workspace: int = 32 * MIB, library: int = 70 * MIB, pid: int | None = None
    ) -> None:
        self.card, self.context, self.workspace, self.library, self.pid = card, context, workspace, library, pid
        self.ready = self.has_context = self.multiplied = False
        self.segments: list[list[Block]] = []
        self.peak = 0

    # ---- the card

    def _take(self, n: int) -> None:
        self.card["used"] += n
        if self.pid is not None:
            self.card["processes"][self.pid] = self.card["processes"].get(self.pid, 0) + n

    def _room(self) -> int:
        return int(self.card["total"] - self.card["used"] - self.card["reserved"])

    def _need_context(self) -> None:
        if not self.has_context:
            self.has_context = True
            self._take(self.context)

    # ---- torch.cuda

    def is_initialized(self) -> bool:
        return self.ready

    def init(self) -> None:
        self.ready = True

    def set_device(self, device: str) -> None:
        self.ready = True
        self._need_context()

    def get_device_properties(self, device: str) -> Any:
        uuid = self.card["uuid"].partition("-")[2]
        return SimpleNamespace(name="CUDA's name", total_memory=self.card["total"] - 400 * MIB, uuid=uuid)

    def synchronize(self, device: str) -> None:
        self._need_context()

    def mem_get_info(self, device: str) -> tuple[int, int]:
        self._need_context()
        return self._room(), self.card["total"] - self.card["reserved"]

    def _blocks(self, free: bool) -> list[Block]:
        return [block for segment in self.segments for block in segment if block.free is free]

    def memory_allocated(self, device: str) -> int:
        return sum(block.size for block in self._blocks(free=False))

    def memory_reserved(self, device: str) -> int:
        return sum(block.size for segment in self.segments for block in segment)

    def max_memory_allocated(self, device: str) -> int:
        return self.peak

    def reset_peak_memory_stats(self, device: str) -> None:
        self.peak = self.memory_allocated(device)

    def empty_cache(self) -> None:
        for segment in [one for one in self.segments if all(block.free for block in one)]:
            self._take(-sum(block.size for block in segment))
            self.segments.remove(segment)

    # ---- the allocator

    def allocate(self, size: int) -> Block | None:
        if not size:
            return None
        self._need_context()
        n = -(-size // 512) * 512
        small = n <= MIB
        fitting = [block for block in self._blocks(free=True) if block.small is small and block.size >= n]
        block = min(fitting, key=lambda one: one.size, default=None) or self._segment(n, small)
        rest = block.size - n
        if rest >= 512 if small else rest > MIB:
            block.size = n
            other = Block(block.segment, block.at + n, rest, small)
            block.segment.insert(block.segment.index(block) + 1, other)
        block.free = False
        self.peak = max(self.peak, self.memory_allocated(""))
        return block

    def _segment(self, n: int, small: bool) -> Block:
        size = 2 * MIB if small else 20 * MIB if n < 10 * MIB else -(-n // (2 * MIB)) * 2 * MIB
        if size > self._room():
            self.empty_cache()
        if size > self._room():
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / MIB:.2f} MiB.\nGPU 0 has more to say")
        segment: list[Block] = []
        segment.append(Block(segment, 0, size, small))
        self.segments.append(segment)
        self._take(size)
        return segment[0]

    def give_back(self, block: Block | None) -> None:
        if block is None:
            return
        block.free = True
        segment = block.segment
        for first, second in [*pairwise(segment)][::-1]:
            if first.free and second.free:
                first.size += second.size
                segment.remove(second)

    def multiply(self, device: str) -> None:
        """A matrix product of 1024 x 1024 in bf16: three matrices, gone afterwards; the first one's workspace and library stay."""
        matrices = [self.allocate(2 * MIB) for _ in range(2)]
        if not self.multiplied:
            self.multiplied = True
            self.allocate(self.workspace)
            self._take(self.library)
        for block in [*matrices, self.allocate(2 * MIB)]:
            self.give_back(block)
