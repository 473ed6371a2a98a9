"""The answer: everything that `evaluate` finds, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from kvplan.engines.common.protocol import Capacity, Certainty, ChosenBy, Outcome
from kvplan.engines.common.tiers import Tier
from kvplan.ledger import Ledger

CLOSE: Certainty = "too close to call"
SCHEMA = "kvplan.plan/1"


class ModelFacts(NamedTuple):
    """Counts as published: towers in, draft modules out, tied tensors once. `weight_bytes` is the checkpoint without drafts.

    known_as  the id of the release that was asked for, where `id` is its twin's, which has its shapes; in no JSON
    """

    id: str
    name: str
    parameters: int
    active_parameters: int
    embedding_parameters: int
    mtp_parameters: int
    weight_bytes: int
    notes: tuple[str, ...]
    known_as: str = ""


class CacheLayers(NamedTuple):
    """Equal caches of a model: what `layers` of them keep for one sequence at the question's context."""

    kind: str
    layers: int
    keep: str
    bytes_per_sequence: int
    tensors: tuple[dict[str, Any], ...]
    source: str


class CacheReport(NamedTuple):
    """The model's cache, whole and unreplicated. `pages`: what paging adds, where the question has a block size."""

    total_bytes: int
    bytes_per_sequence: int
    bytes_per_token: int | float
    average_bytes_per_token: float
    layers: tuple[CacheLayers, ...]
    curve: tuple[dict[str, int | float], ...]
    pages: dict[str, int | float] | None


class Advice(NamedTuple):
    """One change that, alone, makes the plan fit; `also`: names that must follow it, where there are some."""

    change: str
    option: str
    value: int | float | str
    fits: bool
    margin_bytes: int
    certainty: Certainty = "certain"
    also: Mapping[str, Any] = {}


class Waste(NamedTuple):
    """Something of a plan that fits which its question does not need, and the one change that would save it.

    bytes   on one device; of whole devices, all of them together
    option  None where no single change saves it; else the plan still fits after it, with `margin_bytes` left
    """

    what: str
    bytes: int
    change: str | None = None
    option: str | None = None
    value: int | float | str | None = None
    margin_bytes: int | None = None


class Plan(NamedTuple):
    """The answer to one question; `as_dict()` is the JSON of the contract, `print` shows the first screen.

    >>> from kvplan import estimate
    >>> plan = estimate("meta-llama/llama-3.1-8b", engine="ideal", device="80GiB", context="8k")
    >>> print(str(plan).splitlines()[0])
    Yes: 1 request of 8,192 tokens fits on 1 x 80 GiB, 64.0 GiB to spare; up to 65 at once.
    >>> [row["bytes"] for row in plan.rows() if row["kind"] == "cache"]
    [1073741824]
    """

    model: ModelFacts
    question: Mapping[str, tuple[Any, ChosenBy]]
    cache: CacheReport
    outcome: Outcome
    verdict: str
    advice: tuple[Advice, ...] = ()
    waste: tuple[Waste, ...] = ()

    def asked(self, name: str) -> Any:
        """A name's value in the question, whoever chose it."""
        return self.question[name][0]

    @property
    def chosen(self) -> dict[str, Any]:
        """What somebody asked."""
        return {name: value for name, (value, by) in self.question.items() if by == "you"}

    @property
    def fits(self) -> bool | None:
        return self.outcome.fits

    @property
    def starts(self) -> bool | None:
        return self.outcome.starts

    @property
    def certainty(self) -> Certainty:
        return self.outcome.certainty

    @property
    def margin_bytes(self) -> int | None:
        return self.outcome.margin_bytes

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        return self.outcome.ledgers

    @property
    def rank_total_bytes(self) -> int | None:
        """Of the fullest rank; None where an engine refused before it had any."""
        return max((ledger.total_bytes for ledger in self.ledgers), default=None)

    @property
    def capacity(self) -> Capacity | None:
        return self.outcome.capacity

    def __str__(self) -> str:
        """What `kvplan estimate` prints. Who prints plans is above this file, so it is asked for by name."""
        text: str = import_module("kvplan.report").plain_text(self)
        return text

    def _repr_html_(self) -> str:
        """Tables, for notebooks."""
        text: str = import_module("kvplan.report.table").plans_text([self], "html")
        return text

    def rows(self) -> list[dict[str, Any]]:
        """Every line of every device: where, how many devices have it, its name, bytes, interval, basis and source."""
        return [
            {"place": ledger.place, "devices": len(ledger.ranks), "line": entry.name, "kind": entry.kind, "bytes": entry.bytes,
             "low": entry.low, "high": entry.high, "basis": entry.basis, "counted": entry in ledger.entries, "source": entry.source}
            for ledger in self.ledgers
            for entry in (*ledger.entries, *ledger.outside)
        ]  # fmt: skip

    def to_frame(self) -> Any:
        """`rows()` as a pandas DataFrame. Raises ImportError where pandas is not installed."""
        return import_module("pandas").DataFrame(self.rows())

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it (schema `kvplan.plan/1`)."""
        return {
            "schema": SCHEMA,
            "model": {name: value for name, value in plain(self.model).items() if name != "known_as"},
            "question": {name: {"value": value, "chosen_by": by} for name, (value, by) in self.question.items()},
            "cache": plain(self.cache),
            "ledgers": [plain(ledger) | {"total_bytes": ledger.total_bytes, "peaks": plain(ledger.peaks)} for ledger in self.ledgers],
            "host": plain(self.outcome.host),
            "tiers": [tier_record(tier) for tier in self.outcome.tiers],
            "capacity": None if self.capacity is None else plain(self.capacity),
            "starts": self.starts,
            "start_certainty": self.outcome.start_certainty,
            "survives": self.outcome.survives,
            "risk": self.outcome.risk,
            "unknown": self.outcome.unknown or None,
            "split": self.outcome.split,
            "risks": [plain(one) for one in self.outcome.risks],
            "fits": self.fits,
            "certainty": self.certainty,
            "margin_bytes": self.margin_bytes,
            "verdict": self.verdict,
            "advice": [plain(one) for one in self.advice],
            "waste": [plain(one) for one in self.waste],
        }


def tier_record(tier: Tier) -> dict[str, Any]:
    """One pool of one tier as plain data."""
    shown: dict[str, Any] = plain(tier)
    return shown | {"parts": plain(tier.parts), "piece_tokens": tier.piece_tokens, "tokens": tier.tokens}


def plain(value: Any) -> Any:
    """Named tuples as dicts and other tuples as lists, all the way down."""
    if hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value
