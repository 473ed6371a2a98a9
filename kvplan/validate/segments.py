"""What torch's CUDA caching allocator makes of a list of sizes: blocks of 512 B, in segments of 2 MiB, 20 MiB or whole 2 MiB steps.

PyTorch 2.4 to 2.13, c10/cuda/CUDACachingAllocator.cpp: round_size, get_allocation_size, should_split, best fit by size. Default settings
(no expandable segments, no rounding divisions).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

BLOCK = 512
SMALL = 1 << 20  # sizes up to here share segments of SMALL_SEGMENT
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20  # for sizes below LARGE
LARGE = 10 << 20
LARGE_STEP = 2 << 20


class Reserved(NamedTuple):
    """Bytes: in blocks handed out (`torch.cuda.memory_allocated`), and in segments taken from the device (`memory_reserved`)."""

    allocated: int
    reserved: int


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def block_bytes(size: int) -> int:
    """The block that one allocation of `size` bytes gets."""
    return max(BLOCK, _up(size, BLOCK)) if size else 0


def segment_bytes(block: int) -> int:
    """The segment asked of the device where no free block is large enough."""
    if block <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if block < LARGE else _up(block, LARGE_STEP)


def predict(sizes: list[int]) -> Reserved:
    """What the sizes take, allocated one after the other from an empty pool and none freed."""
    free: dict[bool, list[int]] = {True: [], False: []}  # small pool, large pool: free blocks by size
    allocated = reserved = 0
    for size in sizes:
        block = block_bytes(size)
        if not block:
            continue
        small = block <= SMALL
        pool = free[small]
        at = bisect_left(pool, block)
        if at < len(pool):
            found = pool.pop(at)
        else:
            found = segment_bytes(block)
            reserved += found
        rest = found - block
        if rest >= BLOCK if small else rest > SMALL:
            insort(pool, rest)
        else:
            block = found
        allocated += block
    return Reserved(allocated, reserved)
