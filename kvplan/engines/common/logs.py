"""How one engine's start-up log is read and compared, as data: `LOG` in engines/<name>/wordings.py.

A wording is a literal that must be in the line (so that noise costs one substring search) and an expression with bounded repeats.
Its named groups say what they give: `weights__GiB` a figure with its unit, `q__tp` a name of the question or one that the engine's
table knows as printed, `rank` who it belongs to, and `version`, `model`, `device`. In an expression `{n}` is a number, `{w}` a word,
`{weights__GiB}` a group that takes a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvplan.engines.common.protocol import Group, Outcome
from kvplan.ledger import Entry, Ledger
from kvplan.units import GIB, MIB

NUMBER = r"-?[0-9][0-9,]{0,18}(?:\.[0-9]{1,9})?"
_MACROS = {"{n}": NUMBER, "{w}": r"[\w.+/@:~-]{1,200}"}
_GROUP = re.compile(r"\{(\w+__\w+)\}")
BYTES = {"GiB": GIB, "MiB": MIB}
CONTEXT = "CUDA context"


class Figure(NamedTuple):
    """One number that a line printed. `rank`: the printer's word for itself; None where the line names none."""

    name: str
    value: float
    unit: str
    rank: str | None
    line: int


def value_of(figures: tuple[Figure, ...], name: str) -> float | None:
    """One value of that name: the smallest rank's of the cache, since that one counts; the first of the weights, which later lines
    round; else the last."""
    values = [f.value for f in figures if f.name == name]
    if not values:
        return None
    return min(values) if name in ("kv_cache", "blocks") else values[0] if name == "weights" else values[-1]


class Wording(NamedTuple):
    """One wording. `since` / `until`: the releases known to print it (for readers of the table; a match needs no version)."""

    needle: str
    expression: str
    since: str = ""
    until: str = ""

    def compiled(self) -> re.Pattern[str]:
        text = self.expression
        for macro, meaning in _MACROS.items():
            text = text.replace(macro, meaning)
        return re.compile(_GROUP.sub(rf"(?P<\1>{NUMBER.replace(chr(92), chr(92) * 2)})", text))


class Gauge(NamedTuple):
    """A sample of a page of metrics: its value, or one of its labels. `to`: as a wording's group names what it gives."""

    name: str
    to: str
    label: str = ""
    since: str = ""
    until: str = ""


class Dump(NamedTuple):
    """Where an engine prints its arguments: after `needle`, as a `mapping`, a `call`, a bare `list` or a `command` line.

    A higher `rank` wins where two lines name the same argument: what a person typed before what the engine resolved.
    """

    needle: str
    form: str
    rank: int


class Target(NamedTuple):
    """One measured line: its name in a record, the entries that it measures (by how their names begin), and its bytes."""

    line: str
    entries: tuple[str, ...]
    n_bytes: int

    def predicted(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return tuple(e for e in entries if e.name.startswith(self.entries))


class Measured(NamedTuple):
    """A log's figures beside the first rank of its plan. `sizes`: tp, pp, n_devices, reserve."""

    figures: tuple[Figure, ...]
    ledger: Ledger
    sizes: Mapping[str, int]

    def bytes(self, name: str) -> int | None:
        """A figure in bytes."""
        value = value_of(self.figures, name)
        unit = next((f.unit for f in self.figures if f.name == name), "GiB")
        return None if value is None else int(value * BYTES.get(unit, 1))

    def total(self) -> int | None:
        """The device's memory: as this log prints it, else as the plan has it."""
        return self.bytes("total_memory") or self.ledger.limit_bytes

    def planned(self, *begins: str) -> int:
        return sum(e.bytes for e in self.ledger.entries if e.name.startswith(begins))


class Range(NamedTuple):
    """What is predicted: the estimate and the ends of its 90 % interval, equal where it is exact."""

    value: float
    low: float
    high: float


class Rule(NamedTuple):
    """A figure of a log, where an answer has it, and why they differ when they do."""

    name: str
    figure: str
    unit: str
    predicted: Callable[[Outcome], Range | None]
    cause: str


class Log(NamedTuple):
    """How one engine's start-up log is read.

    starts          literals that begin a new start of the server
    printed_options engine options that wordings give (`q__backend`): printed word, in lower case -> value
    unread          arguments that change memory and that no name of a question says
    measured        the lines that figures measure
    needs           what a log must print for a line to be measured
    shared          measured lines that hold what other processes have on the device, besides the context
    free_late       the free memory it prints is that once its model is loaded
    buffers         its figures are buffers by device, not ranks by parallel size
    release         a resolved engine_version -> the known release whose rules it is under
    known_as        other engines whose logs are its own
    gauges          samples of the page of metrics that its server has; `settings`: the one whose labels are its settings
    capped          its fraction caps all memory, so that a ledger's limit is that share of the device
    """

    engine: str
    wordings: tuple[Wording, ...]
    dumps: tuple[Dump, ...]
    starts: tuple[str, ...]
    measured: Callable[[Measured], list[Target]]
    rules: tuple[Rule, ...]
    needs: str
    finish: Callable[[list[Figure]], list[Figure]] = lambda figures: figures
    unread: tuple[str, ...] = ()
    printed_options: Mapping[str, Mapping[str, str]] = {}
    shared: tuple[str, ...] = ()
    free_late: bool = False
    buffers: bool = False
    capped: bool = False
    release: Callable[[str], str] = str
    known_as: tuple[str, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    settings: str = ""


CACHE = "the sum of the lines above; or other processes' memory, or another max_num_seqs, length or release than the log says"
COUNT = "cache bytes above; where those agree, the cache format, block size or layer grouping"


def entries(*starts: str) -> Callable[[Outcome], Range | None]:
    """The lines of the first rank whose names begin so, together."""

    def find(outcome: Outcome) -> Range | None:
        lines = [e for e in outcome.ledgers[0].entries if e.name.startswith(starts)] if outcome.ledgers else []
        if not lines:
            return None
        return Range(sum(e.bytes for e in lines), sum(e.low for e in lines), sum(e.high for e in lines))

    return find


def left_over(outcome: Outcome) -> Range | None:
    """What is left for the cache, blocks or not."""
    if outcome.capacity is None or not outcome.ledgers:
        return None
    left, kv = min(_left(ledger) for ledger in outcome.ledgers), outcome.capacity.kv_bytes
    return Range(left, left - (kv - outcome.capacity.kv_bytes_low), left + (outcome.capacity.kv_bytes_high - kv))


def _left(ledger: Ledger) -> int:
    cache = next((e.bytes for e in ledger.entries if e.name == "KV cache"), 0)
    return cache if ledger.limit_bytes is None else ledger.limit_bytes - ledger.total_bytes + cache


def counted(name: str) -> Callable[[Outcome], Range | None]:
    """A count of the capacity; its interval follows the cache's."""

    def find(outcome: Outcome) -> Range | None:
        c = outcome.capacity
        value = getattr(c, name) if c is not None else None
        if c is None or value is None or not c.kv_bytes:
            return None
        return Range(value, value * c.kv_bytes_low / c.kv_bytes, value * c.kv_bytes_high / c.kv_bytes)

    return find


def group(roles: tuple[str, ...], value: Callable[[Group], int | None]) -> Callable[[Outcome], Range | None]:
    """A figure of the first group with one of these roles, over all devices."""

    def find(outcome: Outcome) -> Range | None:
        for one in outcome.capacity.groups if outcome.capacity else ():
            if one.role in roles:
                n = value(one) or 0
                return Range(n, n, n)
        return None

    return find


COUNTS = (
    Rule("blocks", "blocks", "blocks", counted("blocks"), COUNT),
    Rule("tokens", "tokens", "tokens", counted("tokens"), COUNT),
)
