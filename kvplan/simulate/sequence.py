"""A request while it lives, and what a scheduler asks of a cache manager."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from kvplan.simulate.fork import Fork
from kvplan.simulate.workload import Content, Request


class Sequence:
    """One live request. `known`: tokens read or sampled; `computed`: of them, those in the cache, as far as the scheduler has noted.

    A decoding sequence's `computed` is not written every step: it is `offset` plus the number of the step.
    """

    __slots__ = (
        "cached", "computed", "content", "epoch", "first", "fork", "held", "hindered", "known", "named", "number", "offset", "rank",
        "request", "slot", "tables", "tail", "until", "whole", "width",
    )  # fmt: skip

    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.request = request
        self.width = request.width
        self.known = request.prompt
        self.computed = 0
        self.offset = 0
        self.rank = 0
        self.epoch = 0
        self.first = -1.0
        self.whole = request.prompt + request.output
        self.content: Content = request.content
        self.tail = request.content[-1][0] if request.continues and request.content else -number - 1
        self.held: list[int] = []  # pages per group, where they have no names
        self.tables: list[list[int]] = []  # pages per group by number, 0: none
        self.cached: list[int] = []  # per group, how many pages of the table are registered for sharing
        self.named = 0  # pages from the first on that others may ask for while it runs
        self.slot = -1
        self.until = 0
        self.hindered = False  # kept waiting for pages
        self.fork: Fork | None = None  # where several sequences share the prompt's pages

    def like(self) -> Sequence:
        """The same request in a pool of its own."""
        other = Sequence(self.number, self.request)
        other.known = self.known
        return other

    def stream(self, token: int) -> int:
        """The stream that covers a token."""
        for stream, end in self.content:
            if token < end:
                return stream
        return self.tail


class Shares(NamedTuple):
    """Pages, as fractions of a page: filled with tokens that are needed, reserved for tokens to come, and never to be used."""

    stored: float
    reserved: float
    internal: float


class Unphased:
    """A manager that is asked for every page: it has no stride, and so is never asked to `extend`."""

    stride = 0

    def extend(self, due: Collection[Sequence], step: int) -> bool:
        return False


class Manager(Protocol):
    """A pool of pages."""

    size: int
    hit_tokens: int
    asked_tokens: int
    #: Tokens after which a decoding sequence that asked for a page asks for one again, whatever it is; 0: `wake` says.
    stride: int

    @property
    def changes(self) -> int:
        """Counts what could let a request in that did not fit before."""
        ...

    @property
    def used(self) -> int:
        """Pages that running sequences hold."""
        ...

    @property
    def again(self) -> int:
        """Holders of pages beyond each page's first: pages that sharing saves now."""
        ...

    @property
    def evicted(self) -> int:
        """Pages with content that were reused."""
        ...

    def admit(self, s: Sequence, budget: int) -> int | None:
        """Let a waiting request in with at most `budget` tokens to compute: the tokens it has in the cache then; None: no room."""
        ...

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        """Room for the step that takes a sequence from `computed` to `tokens` tokens; False (nothing taken) where there is none."""
        ...

    def extend(self, due: Collection[Sequence], step: int) -> bool:
        """Where there is a stride: `grow` by a token for all of these, from `step` plus their offsets; False: no room, nothing taken."""
        ...

    def wake(self, s: Sequence, computed: int) -> int:
        """The first length from `computed` on at which a decoding sequence must ask again."""
        ...

    def end(self, s: Sequence, computed: int) -> None:
        """A sequence leaves, finished or preempted."""
        ...

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        """What the pages in use are used for; `running` is every sequence with its computed tokens."""
        ...

    def check(self, running: list[tuple[Sequence, int]]) -> None:
        """`running` as for `shares`. AssertionError unless every page is free or held, exactly as often as it is counted."""
        ...
