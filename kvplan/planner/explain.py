"""Where each number of a plan comes from: a formula with the values in it, and its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import FORMATS, row_bytes
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.settling import weight_formats
from kvplan.planner.cache import cache_curve
from kvplan.planner.plan import Plan
from kvplan.tensors import Cache, CacheTensor, Curve, Lowered, Role, tensor_curve
from kvplan.units import counted
from kvplan.weights import model_tensors, stored_bytes, total_bytes, weight_line


class Line(NamedTuple):
    """One number: what it is, its value, `formula` with numbers in it (equal to the value), and where the formula comes from."""

    name: str
    value: int
    unit: str
    formula: str
    source: str


def explain(settled: Settled, plan: Plan) -> tuple[Line, ...]:
    """Every figure of a plan: a token's bytes as textbooks count them, tensor shapes, weights, then each line of `estimate`."""
    d = settled.question
    counts: dict[Cache, int] = {}
    for layer in settled.layers:
        for cache in layer.caches:
            counts[cache] = counts.get(cache, 0) + 1
    return (
        *_tokens(d, counts, plan),
        *_cache(d, counts, plan),
        *_weights(d, settled.model, plan),
        *_drafter(settled),
        *_ledgers(plan),
        *_spare(plan),
    )


def _drafter(settled: Settled) -> Iterator[Line]:
    """What drafts: the spec or file that it is read from."""
    found = settled.drafter
    if found is None:
        return
    elems = sum(w.elems for w in found.weights)
    size = total_bytes(found.weights, found.formats)
    yield Line("drafter", size, "B", f"{found.name}: {elems:,} elements in {len(found.layers)} layers, as it is loaded", found.source)


def _tokens(d: Deployment, counts: dict[Cache, int], plan: Plan) -> Iterator[Line]:
    """2 x layers x KV heads x head dim x bytes, layer kind by layer kind, and what one more token takes at the question's length."""
    slopes, words = [], []
    for cache, n in counts.items():
        kept = [t for t in cache.tensors if t.tokens_per_state is not None]
        for tokens in dict.fromkeys(t.tokens_per_state or 1 for t in kept):
            own = [t for t in kept if t.tokens_per_state == tokens]
            value = n * sum(t.bytes_per_state for t in own)
            what = "one token" if tokens == 1 else f"{tokens} tokens"
            keeps = ", ".join(dict.fromkeys(f" (keeps {t.keep})" for t in own if t.keep.kind != "all"))
            yield Line(f"{what} in {cache.kind} layers{keeps}", value, "B", _textbook(n, own), cache.source)
        slope = n * cache_curve(cache, d.encoder_tokens).slope(d.context or 1)
        slopes.append(slope)
        words.append(f"{slope:,}" if kept else f"{slope:,} (a state, whatever the length)")
    per_token = plan.cache.bytes_per_token
    if isinstance(per_token, int) and all(isinstance(slope, int) for slope in slopes):
        yield Line(f"one more token at {d.context:,}", per_token, "B", " + ".join(words) or "0", "the layers above, those that still grow")


def _textbook(n: int, tensors: Sequence[CacheTensor]) -> str:
    """K and V of one shape: 2 x layers x heads x head dim x bytes; else tensor by tensor."""
    shapes = {(t.heads, t.elems_per_state, t.dtype) for t in tensors}
    if len(tensors) == 2 and len(shapes) == 1 and {t.name for t in tensors} == {"k", "v"}:
        return f"2 (K and V) x {counted(n, 'layer')} x {counted(tensors[0].heads, 'KV head')} x {_row(tensors[0])}"
    parts = [f"{f'{t.heads} heads x ' if t.heads > 1 else ''}{_row(t)}" for t in tensors]
    return f"{counted(n, 'layer')} x {parts[0]}" if len(parts) == 1 else f"{counted(n, 'layer')} x ({' + '.join(parts)})"


def _row(t: CacheTensor) -> str:
    """`128 x 2 B`; of a format with scales or packing the bytes of its row."""
    row = row_bytes(t.dtype, t.elems_per_state)
    each, rest = divmod(row, t.elems_per_state)
    return f"{t.elems_per_state} x {each} B" if each and not rest else f"{row} B ({t.elems_per_state} elements in {t.dtype})"


def _cache(d: Deployment, counts: dict[Cache, int], plan: Plan) -> Iterator[Line]:
    parts = []
    for cache, n in counts.items():
        if not cache.tensors:
            yield Line(f"cache {cache.kind}", 0, "B", f"{n} layers x 0 B", cache.source)
        for t in cache.tensors:
            line = _tensor(t, n, cache, d)
            parts.append(line.value)
            yield line
    total = " + ".join(f"{part:,}" for part in parts) or "0"
    yield Line("cache per sequence", plan.cache.bytes_per_sequence, "B", total, "the tensors above")
    yield Line(
        "cache of all sequences",
        plan.cache.total_bytes,
        "B",
        f"{d.batch:,} x {plan.cache.bytes_per_sequence:,} B",
        "whole and unreplicated",
    )


def _tensor(t: CacheTensor, n_layers: int, cache: Cache, d: Deployment) -> Line:
    curve: Curve = tensor_curve(t, encoder_tokens=d.encoder_tokens)
    one = curve.at(d.context or 1)
    states, row = one // t.bytes_per_state, row_bytes(t.dtype, t.elems_per_state)
    what = "state" if t.tokens_per_state is None else f"kept of {d.context:,} tokens, keep {t.keep}"
    if t.tokens_per_state and t.tokens_per_state > 1:
        what += f", {t.tokens_per_state} tokens each"
    formula = f"{n_layers} layers x {t.heads} heads x {row} B ({t.elems_per_state} elements in {t.dtype}) x {states:,} states ({what})"
    source = cache.source + ("" if t.dtype in ("f32", "f16", "bf16") else f"; {FORMATS[t.dtype].source}")
    return Line(f"cache {cache.kind} {t.name}", n_layers * one, "B", formula, source)


def _weights(d: Deployment, model: Lowered, plan: Plan) -> Iterator[Line]:
    formats = weight_formats(d)
    sums: dict[tuple[Role, str], tuple[int, int]] = {}
    tensors = model_tensors(model)
    stored = any(w.stored is not None for w, _ in tensors)
    for w, n in tensors:
        key = (w.role, formats.of(w))
        elems, n_bytes = sums.get(key, (0, 0))
        sums[key] = (elems + n * w.elems, n_bytes + n * stored_bytes(w, formats))
    for (role, name), (elems, n_bytes) in sums.items():
        own = name == formats[role]
        source = weight_line(role, n_bytes, formats, stored=stored).source if own else f"declared tensor shapes; {formats.said}"
        what = f"weights {role}" if own else f"weights {role} in {name}"
        yield Line(what, n_bytes, "B", f"{elems:,} elements in {name}, scales included", source)
    total = " + ".join(f"{n_bytes:,}" for _, n_bytes in sums.values()) or "0"
    yield Line("weights of the whole model", plan.model.weight_bytes, "B", total, "the lines above")


def _ledgers(plan: Plan) -> Iterator[Line]:
    """Every line of every device as `estimate` has it, their sum, and what is left of the limit."""
    for ledger in plan.ledgers:
        each = f"{ledger.place}, each" if len(ledger.ranks) > 1 else ledger.place
        for entry in (*ledger.entries, *ledger.outside):
            span = "" if entry.low == entry.high else f", {entry.low:,} to {entry.high:,} in 90 % of cases"
            beside = "beside it: " if entry in ledger.outside else ""
            yield Line(f"{each}: {beside}{entry.name}", entry.bytes, "B", f"{entry.basis}{span}", entry.source)
        parts = " + ".join(f"{entry.bytes:,}" for entry in ledger.entries) or "0"
        yield Line(f"{each}: total", ledger.total_bytes, "B", parts, "its lines")
        if ledger.limit_bytes is not None:
            left = ledger.limit_bytes - ledger.total_bytes
            formula = f"{ledger.limit_bytes:,} - {ledger.total_bytes:,}"
            yield Line(f"{each}: left of the limit", left, "B", formula, f"what may be used of {ledger.device}")


def _spare(plan: Plan) -> Iterator[Line]:
    """What `estimate` says is to spare, or lacks."""
    if (margin := plan.margin_bytes) is None or plan.capacity is None:
        return
    held = plan.capacity.kv_bytes - margin
    tight = plan.outcome.tightest
    if tight is not None and tight.limit_bytes is not None and tight.limit_bytes - tight.total_bytes == margin:
        formula, source = f"{tight.limit_bytes:,} - {tight.total_bytes:,}", f"{tight.place}, the fullest"
    elif held >= 0:
        formula, source = f"{plan.capacity.kv_bytes:,} - {held:,}", "the cache's memory less what the sequences take of it"
    else:
        return
    yield Line("to spare" if margin >= 0 else "lacking (negative)", margin, "B", formula, source)
