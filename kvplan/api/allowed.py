"""What may be looked at for a question: the Hub, and files of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from kvplan.errors import SpecError

#: Whether a model that is not known here is asked of the Hub; whether what a question names on this machine is read.
_ASKS_HUB: ContextVar[bool] = ContextVar("asks_hub", default=True)
_READS_FILES: ContextVar[bool] = ContextVar("reads_files", default=True)


def hub_asked(asked: bool) -> AbstractContextManager[None]:
    """Inside, names that are not known here are asked of the Hub, or not: a file that somebody else wrote is not to choose what is."""
    return _within(_ASKS_HUB, asked)


def asks_hub() -> bool:
    """Whether names that are not known here are asked of the Hub now."""
    return _ASKS_HUB.get()


def files_read(read: bool) -> AbstractContextManager[None]:
    """Inside, files that a question names are read, and this machine's GPU and calibration, or not: a stranger's are refused."""
    return _within(_READS_FILES, read)


@contextmanager
def _within(switch: ContextVar[bool], on: bool) -> Iterator[None]:
    token = switch.set(on)
    try:
        yield
    finally:
        switch.reset(token)


def ours(name: str, value: str, what: str) -> None:
    """Raises SpecError where what lies on this machine is not for who asks."""
    if not _READS_FILES.get():
        raise SpecError(name, [("", f"{value[:60]!r} is {what}, which is read with --allow-files only")])
