"""What engines with releases and a device budget share: finding a release, reading options, the weights of a pipeline stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from kvplan.deployment import Deployment
from kvplan.errors import SpecError, UnsupportedError
from kvplan.ledger import Entry
from kvplan.tensors import Lowered, Role, WeightTensor
from kvplan.units import GIB, LARGEST
from kvplan.weights import WeightFormats, rank_bytes, weight_line


class Refusal(Exception):
    """The engine would not start; the message is its own condition, with the numbers. `sure`: at both ends of the interval."""

    def __init__(self, reason: str, *, sure: bool = True) -> None:
        super().__init__(reason)
        self.sure = sure


class Span(NamedTuple):
    """Bytes: the estimate and the ends of its interval, which bound 90 % of cases."""

    point: int
    low: int
    high: int


def span(point: float, low: float, high: float) -> Span:
    """A span given in GiB."""
    return Span(int(point * GIB), int(low * GIB), int(high * GIB))


def release(version: str) -> tuple[int, ...]:
    """`0.5.10.post1` -> (0, 5, 10): the numbers before the first part that is none, so that a post-release counts as its release."""
    numbers = []
    for part in version.strip().lower().removeprefix("v").split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > 9:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def nearest_version(asked: str | None, versions: tuple[str, ...], engine: str) -> tuple[str, tuple[str, ...]]:
    """The known release whose rules apply, and a note where it is not the one asked for. `versions` are oldest first.

    The newest one not newer than what was asked; the oldest for older ones; the newest without a question or for a name
    that is no number.
    """
    if asked is None:
        return versions[-1], ()
    wanted = release(asked)
    older = [v for v in versions if release(v) <= wanted]
    found = versions[-1] if not wanted else older[-1] if older else versions[0]
    if wanted and release(found) == wanted[: len(release(found))] and len(wanted) <= max(len(release(found)), 3):
        return found, ()
    return found, (f"{engine} {asked[:40]} is not a release we know: the rules of {found}, the nearest known, are used",)


class Options:
    """The engine options of a question, read with their types. Raises SpecError where a value is not what the option takes."""

    __slots__ = ("_values",)

    def __init__(self, d: Deployment) -> None:
        self._values = dict(d.engine_option)

    def text(self, key: str, choices: tuple[str, ...] = ()) -> str | None:
        value = self._values.get(key)
        if value is not None and choices and value not in choices:
            raise SpecError("engine_option", [(key, f"{value[:60]!r} is not one of {', '.join(choices)}")])
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._values.get(key)
        if value is None:
            return default
        word = value.lower()
        if word not in ("true", "1", "yes", "on", "false", "0", "no", "off"):
            raise SpecError("engine_option", [(key, f"{value[:60]!r} is not true or false")])
        return word in ("true", "1", "yes", "on")

    def count(self, key: str, least: int = 1) -> int | None:
        value = self._values.get(key)
        if value is None:
            return None
        if not value.isascii() or not value.isdecimal() or len(value) > 18 or int(value) < least:
            raise SpecError("engine_option", [(key, f"{value[:60]!r} is not a whole number of at least {least}")])
        return int(value)

    def number(self, key: str, most: float = 1e9) -> float | None:
        value = self._values.get(key)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 < number <= most:
            raise SpecError("engine_option", [(key, f"{value[:60]!r} is not a number above 0 and at most {most:g}")])
        return number


class Speculation(NamedTuple):
    """`METHOD:TOKENS[:MODEL]`, read."""

    method: str
    tokens: int
    model: str | None


def read_speculative(text: str | None) -> Speculation | None:
    """None for `off`. Raises SpecError for anything but METHOD:TOKENS[:MODEL]."""
    if text in (None, "off", ""):
        return None
    method, _, rest = str(text).partition(":")
    tokens, _, model = rest.partition(":")
    if not tokens.isascii() or not tokens.isdecimal() or not 1 <= int(tokens[:9]) <= 1024:
        raise SpecError("speculative", [("", f"{str(text)[:60]!r}: write METHOD:TOKENS[:MODEL] such as eagle3:3, or off")])
    return Speculation(method.lower(), int(tokens), model or None)


def query_heads(model: Lowered) -> int:
    """The most query heads of any layer; 1 where none has attention."""
    return max((w.units for layer in model.layers for w in layer.weights if w.name in ("o", "q_b")), default=1)


def refuse_indexed_gqa(model: Lowered, engine: str) -> None:
    """For engines in whose sources no cache of it was read. Raises UnsupportedError for indexer keys beside K and V (MiniMax-M3)."""
    for layer in model.layers:
        for cache in layer.caches:
            if {"k", "index_k"} <= {t.name for t in cache.tensors}:
                raise UnsupportedError(f"{engine}: the cache of {cache.kind} layers is not modelled")


def stage_weights(model: Lowered, stage: range) -> list[WeightTensor]:
    """What the ranks of one pipeline stage own between them; a tied embedding is also at the last stage, for the head."""
    is_first, is_last = stage.start == 0, stage.stop == len(model.layers)
    weights = [w for i in stage for w in model.layers[i].weights]
    weights += model.first if is_first else ()
    weights += model.last if is_last else ()
    if model.embedding and (is_first or (is_last and model.tied)):
        weights.append(model.embedding)
    return weights


def weight_entries(
    weights: list[WeightTensor], formats: WeightFormats, *, tp: int, ep: int, role_tp: Mapping[str, int] | None = None
) -> list[Entry]:
    """A ledger line per role: bytes of the fullest rank's share.

    role_tp  roles split over fewer ranks than tp (attention under attention data parallelism)
    ep       experts are dealt out whole over ep ranks, and each split over the tp / ep ranks that share it
    """
    by_role: dict[Role, int] = {}
    for w in weights:
        n_bytes = rank_bytes(w, formats, tp=(role_tp or {}).get(w.role, tp), ep=ep)
        if w.experts and 1 < ep < tp:
            n_bytes = -(-n_bytes // (tp // ep))
        by_role[w.role] = by_role.get(w.role, 0) + n_bytes
    stored = any(w.stored is not None for w in weights)
    return [weight_line(role, n, formats, stored=stored) for role, n in by_role.items() if n]


def modelled(name: str, size: Span, source: str) -> Entry:
    """A line from measured constants."""
    return Entry(name=name, bytes=size.point, low=size.low, high=size.high, basis="modelled", source=source)


def longest(holds: Callable[[int], bool], most: int = LARGEST) -> int:
    """The largest n up to `most` for which `holds` is true, 0 where it holds for none; `holds` turns false once and stays so."""
    if holds(most):
        return most
    low, high = 0, 1
    while high < most and holds(high):
        low, high = high, high * 2
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def certainty(low: bool, point: bool, high: bool, margin: int, spread: int) -> Literal["certain", "likely", "too close to call"]:
    """How sure an answer is: both ends of the interval agree with it; or the margin is at least a quarter of the interval; or not."""
    if low == point == high:
        return "certain"
    return "likely" if abs(margin) * 4 >= spread else "too close to call"
