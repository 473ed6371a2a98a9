"""Lines of a ledger that engines share: the weights of a stage, modelled lines, how sure an answer is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvplan.engines.common.protocol import Certainty
from kvplan.ledger import Entry, Kind, Phase
from kvplan.tensors import Lowered, Role, distinct
from kvplan.units import GIB, MIB
from kvplan.weights import Tensors, WeightFormats, layer_tensors, rank_bytes, weight_line


class Refusal(Exception):
    """The engine would not start; the message is its own condition, with the numbers, and how sure that is."""

    def __init__(self, reason: str, *, sure: Certainty = "certain") -> None:
        super().__init__(reason)
        self.sure = sure


class Span(NamedTuple):
    """Bytes: the estimate and the ends of its interval, which bound 90 % of cases."""

    point: int
    low: int
    high: int

    def at(self, reach: float) -> int:
        """The bytes so many times its interval's reach above the estimate, or below it."""
        return self.point + int(reach * (self.high - self.point if reach > 0 else self.point - self.low))


def span(point: float, low: float, high: float) -> Span:
    """A span given in GiB."""
    return Span(int(point * GIB), int(low * GIB), int(high * GIB))


def query_heads(model: Lowered) -> int:
    """The most query heads of any layer; 1 where none has attention."""
    return max((w.units for layer in distinct(model.layers) for w in layer.weights if w.name in ("o", "q_b")), default=1)


def stage_weights(model: Lowered, stage: range) -> Tensors:
    """What the ranks of one pipeline stage own between them; a tied embedding is also at the last stage, for the head."""
    is_first, is_last = stage.start == 0, stage.stop == len(model.layers)
    outside = [*(model.first if is_first else ()), *(model.last if is_last else ())]
    if model.embedding and (is_first or (is_last and model.tied)):
        outside.append(model.embedding)
    return layer_tensors(model.layers[stage.start : stage.stop]) + [(w, 1) for w in outside]


def weight_entries(weights: Tensors, formats: WeightFormats, *, tp: int, ep: int, role_tp: Mapping[Role, int] | None = None) -> list[Entry]:
    """A ledger line per role: bytes of the fullest rank's share.

    role_tp  roles split over fewer ranks than tp (attention under attention data parallelism)
    ep       experts are dealt out whole over ep ranks, and each split over the tp / ep ranks that share it
    """
    by_role: dict[Role, int] = {}
    for w, n in weights:
        n_bytes = rank_bytes(w, formats, tp=(role_tp or {}).get(w.role, tp), ep=ep)
        if w.experts and 1 < ep < tp:
            n_bytes = -(-n_bytes // (tp // ep))
        by_role[w.role] = by_role.get(w.role, 0) + n * n_bytes
    stored = any(w.stored is not None for w, _ in weights)
    return [weight_line(role, n, formats, stored=stored) for role, n in by_role.items() if n]


#: CUDA context of a process of torch and its ends, in bytes: what vLLM's starts found in use before they looked at free memory; 518 MiB on
#: an H200 (validation/cuda-kinds.json).
CONTEXT = Span(500 * MIB, 300 * MIB, 700 * MIB)


def modelled(name: str, size: Span, source: str, kind: Kind, phases: tuple[Phase, ...] | None = None, sources: int | None = None) -> Entry:
    """A line from measured constants."""
    return Entry(name, size.point, size.low, size.high, "modelled", source, kind, phases, sources)


def growth(source: str, most: int = GIB) -> Entry:
    """What a start may take after the pools are made, where no published log says it: bytes, up to `most`."""
    return modelled("growth after the pools", Span(0, 0, most), source, "transient", ("warm up", "serve"))


#: Of how far an interval that bounds 90 % of cases reaches beyond its estimate, the share that a margin must have for one answer in a
#: hundred to be wrong where errors are normal: it reaches 1.645 standard deviations, and 2.326 of them leave 1 % beyond. Each side is taken
#: as half of a normal distribution of its own.
CERTAIN = 2.326 / 1.645
#: Errors are not normal nearer to the edge. Of answers that were asked blind (the sixth to the tenth set, docs/limits.md) whose margin was
#: between 0.78 of the reach and all of it, 14 of 21 starts of llama.cpp and Ollama came up, 14 of 16 of engines that set a pool aside: all
#: of the interval must agree. PHASED: where a phase beside the pool had less than its reach left of the device, 18 of 19
#: came up; there 1.282 standard deviations are enough, which leave one in ten.
LIKELY, PHASED = 1.0, 1.282 / 1.645


def certainty(low: bool, point: bool, high: bool, margin: int, less: int, more: int, *, likely: float = LIKELY) -> Certainty:
    """How sure an answer is. `low`, `point`, `high`: the answer at the ends of the interval and at the estimate.

    margin, less, more  bytes: what is left (negative: missing), and how much less and more of it there is at the ends
    likely              the share of that a margin has at least to be likely
    """
    reach = less if margin >= 0 else more
    if low == point == high and abs(margin) >= CERTAIN * reach:
        return "certain"
    return "likely" if abs(margin) >= likely * reach else "too close to call"


def sure_of(left: int, low: int, high: int, likely: float = LIKELY) -> Certainty:
    """How sure it is that `left` bytes, between `low` and `high` of them, are left (negative: missing)."""
    return certainty(low >= 0, left >= 0, high >= 0, left, left - low, high - left, likely=likely)


def sure_by(said: Callable[[float], bool]) -> Certainty:
    """How sure an answer is that can be asked anew.

    said  the answer where so many times the reach of its interval more is left than estimated (negative: less); 0: the answer itself
    """
    point = said(0)
    way = -1 if point else 1
    if said(-1) == said(1) == point == said(way * CERTAIN):
        return "certain"
    return "likely" if said(way * LIKELY) == point else "too close to call"


_ORDER: tuple[Certainty, ...] = ("certain", "likely", "too close to call")


def least_sure(*said: Certainty) -> Certainty:
    """The weakest of several."""
    return max(said, key=_ORDER.index)
