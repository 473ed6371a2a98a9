"""Where requests come from: a stream that does not care how long answers take, or users who wait for them (`users`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kvplan.simulate.workload import Request


class Source(Protocol):
    """Requests by time of arrival. Those known now are all that arrive before anything else ends."""

    @property
    def coming(self) -> float | None:
        """When the next request arrives; None: none does before another ends."""
        ...

    @property
    def over(self) -> bool:
        """Whether nothing more is to be looked at, even if something still runs."""
        ...

    @property
    def warmed(self) -> bool:
        """Whether what happens from now on is what is asked about."""
        ...

    def take(self) -> Request:
        """The next request."""
        ...

    def ended(self, request: Request, now: float, served: bool) -> None:
        """A request had its answer, or was refused."""
        ...


class Stream:
    """Requests that arrive at their own times."""

    over, warmed = False, True

    def __init__(self, requests: Iterator[Request]) -> None:
        self._requests = requests
        self._next = next(requests, None)

    @property
    def coming(self) -> float | None:
        return None if self._next is None else self._next.arrival

    def take(self) -> Request:
        taken, self._next = self._next, next(self._requests, None)
        assert taken is not None
        return taken

    def ended(self, request: Request, now: float, served: bool) -> None:
        pass
