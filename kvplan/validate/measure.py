"""What memory grows by when caches are allocated and written: the jobs of the measuring process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from kvplan.validate.caches import AnyCache, build
from kvplan.validate.description import CacheShape, Held, shape_of
from kvplan.validate.meters import Event, Meter, grown
from kvplan.validate.storage import Rows


class OutOfMemory(Exception):
    """The device refused: `held` bytes of caches were there, `message` is its own."""

    def __init__(self, held: int, message: str) -> None:
        super().__init__(message)
        self.held, self.message = held, message


#: CPU allocators; CUDA where no allocation of torch's own fails; CUDA's libraries
_OUT_OF_MEMORY = ("allocate memory", "not enough memory", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out: torch says so in several ways."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)


def hold(shape: CacheShape, m: Meter, kept: list[AnyCache]) -> Held:
    """Allocates every layer of a shape, writes all of it, and says what it took; the caches stay alive in `kept`.

    Raises OutOfMemory with the bytes of `kept` at that moment.
    """
    first = len(kept)
    try:
        _warm_up(shape, m)
        before = m.read()
        for _ in range(shape.layers):
            cache = build(shape, m.device)
            kept.append(cache)
            if not cache.touch():
                raise AssertionError(f"{shape.line} {shape.tensor}: what was written is not there")
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(sum(size for cache in kept for size in cache.sizes()), str(error).split("\n")[0]) from None
    mine = kept[first:]
    sizes = [size for cache in mine for size in cache.sizes()]
    return Held(
        allocated=sum(sizes),
        requested=tuple(sizes),
        measured=grown(before, m.read()),
        peak=sum(sizes) + max(cache.peak - sum(cache.sizes()) for cache in mine),
        bookkeeping=sum(cache.bookkeeping for cache in mine),
    )


def _warm_up(shape: CacheShape, m: Meter) -> None:
    """A cache of the same making and a few tokens, and gone again: the code that allocates and writes is loaded before a reading."""
    small = build(shape._replace(tokens=2, sequences=1, layers=1), m.device)
    small.touch()
    del small
    m.settle()


def caches_job(m: Meter, cases: list[list[dict[str, Any]]]) -> Iterator[Event]:
    """Each case: its shapes allocated one after the other and held together, then all freed. One event per shape, one per case.

    On a GPU at last an event `overheads`.
    """
    Rows("bf16", (1 << 20,), 4, m.device).touch()  # starts the threads that write
    for n, case in enumerate(cases):
        kept: list[AnyCache] = []
        m.settle()
        m.forget_peak()
        start = m.read()
        try:
            for i, data in enumerate(case):
                yield {"event": "row", "case": n, "row": i, **hold(shape_of(data), m, kept)._asdict()}
            yield {"event": "case", "case": n, "measured": grown(start, m.read())}
        except OutOfMemory as error:
            yield {"event": "out of memory", "case": n, "held": error.held, "message": error.message}
        kept.clear()
    if m.device != "cpu":
        yield {"event": "overheads", **overheads(m)}


def sizes_job(m: Meter, cases: list[list[dict[str, Any]]]) -> Iterator[Event]:
    """The size of every allocation that the cases will make, in order, found without memory (torch's meta device)."""
    for n, case in enumerate(cases):
        yield {"event": "sizes", "case": n, "sizes": [size for data in case for size in allocations(shape_of(data))]}


def allocations(shape: CacheShape) -> list[int]:
    """The single allocations of a shape once all of it is held."""
    one_each = shape.sequences if shape.layout == "growing" else 1  # a growing buffer is one of a sequence
    alike = shape._replace(layout="contiguous", sequences=1) if shape.layout == "growing" else shape
    return build(alike, "meta").sizes() * one_each * shape.layers


MATRIX = 1024


def _product(device: str) -> None:
    a = torch.ones(MATRIX, MATRIX, dtype=torch.bfloat16, device=device)
    _ = a @ a.clone()


def overheads(m: Meter, work: Callable[[str], None] = _product) -> Event:
    """What a process holds beside tensors, in bytes, each None where the device does not tell.

    context    what CUDA's context took when it was made
    workspace  what the first matrix product allocates of torch beside its own three matrices
    libraries  what it takes outside torch: handles and code of the library that does it
    """
    m.settle()
    m.forget_peak()
    before = m.read()
    work(m.device)
    peak = m.peak(before)
    m.settle()
    growth = grown(before, m.read())
    workspace = None if peak is None else max(0, peak - 3 * MATRIX * MATRIX * 2)
    used, reserved = growth.get("nvml_used"), growth.get("torch_reserved")
    libraries = None if used is None or reserved is None else max(0, used - reserved)
    return {"context": getattr(m, "context_bytes", None), "workspace": workspace, "libraries": libraries}
