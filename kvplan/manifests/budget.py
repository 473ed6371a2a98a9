"""Work that one file may make: words, copies of variables, expanded text. It grows with the file, and a small file that asks for more is
refused with a clear line: `A+=("${A[@]}")` doubles an array, a script may call itself, an alias may stand for a long text.

One budget holds for all that is read of one file, however its readers nest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kvplan.errors import SpecError

MAX_WORK = 500_000  # words, or 16 characters of expanded text each
CHARACTERS = 16
MAX_GROWTH = 1 << 16  # characters that filling in variables adds to one text


class _Left:
    """What is left of a file's budget; local to `bounded`."""

    def __init__(self, source: str) -> None:
        self.source, self.work = source, MAX_WORK


_LEFT: ContextVar[_Left | None] = ContextVar("work left", default=None)


@contextmanager
def bounded(source: str) -> Iterator[None]:
    """Within it, work is counted; inside another, by that one."""
    if _LEFT.get() is not None:
        yield
        return
    token = _LEFT.set(_Left(source))
    try:
        yield
    finally:
        _LEFT.reset(token)


def spend(n: int, line: int, what: str = "what it expands to") -> None:
    """Counts work. Raises SpecError where there is more of it than any serve script or manifest makes."""
    left = _LEFT.get()
    if left is None:
        return
    left.work -= n
    if left.work < 0:
        message = f"{what} grows beyond {MAX_WORK:,} words; no serve script or manifest is that large"
        raise SpecError(left.source, [(f"line {line}", message)])


def grown(before: int, after: int, line: int) -> None:
    """Counts a text of `before` characters that became `after` by filling in variables."""
    spend(MAX_WORK + 1 if after > before + MAX_GROWTH else after // CHARACTERS, line)
