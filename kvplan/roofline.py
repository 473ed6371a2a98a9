"""The least time that decoding and prefill can take: bytes over bandwidth, operations over the arithmetic rate, whichever is longer.

Assumptions: both at the datasheet's peak, matrices at that of the cores that take their format, and perfectly overlapped; tensor
parallelism without communication, each weight read once a step, a step's routing uniform over experts. Decoding passes pipeline stages one
after the other, with a share of the sequences on each; a prompt's chunks keep all of them busy. Real engines are slower; the shape (what
binds, where it turns) is what this shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kvplan.devices import Device
from kvplan.dtypes import weight_scheme
from kvplan.errors import UnsupportedError
from kvplan.parallel import Layout, heads_per_rank
from kvplan.tensors import CacheTensor, Keep, Layer, Lowered, TokenWork, layer_counts, tensor_curve
from kvplan.units import cdiv, longest
from kvplan.weights import Tensors, WeightFormats, model_tensors, rank_bytes

MOST_BATCH = 1 << 20
#: Family of a format of weights -> the rate of the cores that multiply in it, with activations that are quantised as they come, where a
#: device has them (W8A8, W4A4; llama.cpp's ggml/src/ggml-cuda/mmq.cu in integers); of others matrices are unpacked to the compute type.
FASTEST = {"fp8": "fp8", "mxfp": "fp4", "nvfp4": "fp4", "w4afp8": "fp8", "gguf": "int8"}


class Bound(NamedTuple):
    """One step's bound, through all pipeline stages. Bytes and operations are one rank's; `bound_by` is what takes longer."""

    seconds: float
    memory_seconds: float
    compute_seconds: float
    weight_bytes: int
    cache_bytes: int
    operations: int

    @property
    def bound_by(self) -> str:
        return "memory" if self.memory_seconds >= self.compute_seconds else "compute"

    def times(self, stages: int) -> Bound:
        """The same, one stage after the other."""
        seconds = (self.seconds, self.memory_seconds, self.compute_seconds)
        return self._replace(seconds=seconds[0] * stages, memory_seconds=seconds[1] * stages, compute_seconds=seconds[2] * stages)


class Roofline(NamedTuple):
    """Bounds of a deployment, one replica.

    tokens_per_second     of all its sequences together, at most; without the cache's bytes it would be `without_cache`
    first_token_seconds   of a prompt of the context's length alone, at least
    compute_bound_batch   from this batch on decoding at this context is bound by arithmetic; None: at no batch
    rated                 whether the device's arithmetic rate is known; where it is not, memory alone bounds, and a prompt is not bounded
    """

    decode: Bound
    prefill: Bound
    tokens_per_second: float
    without_cache: float
    first_token_seconds: float
    compute_bound_batch: int | None
    rated: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it (planner/records.py, RooflineRecord)."""
        return {
            "tokens_per_second": round(self.tokens_per_second, 1),
            "without_cache": round(self.without_cache, 1),
            "step_ms": round(self.decode.seconds * 1000, 3),
            "bound_by": self.decode.bound_by if self.rated else None,
            "weight_bytes": self.decode.weight_bytes,
            "cache_bytes": self.decode.cache_bytes,
            "first_token_ms": round(self.first_token_seconds * 1000, 1) if self.rated else None,
            "compute_bound_batch": self.compute_bound_batch,
        }


def roofline(
    model: Lowered,
    device: Device,
    formats: WeightFormats,
    layout: Layout,
    *,
    context: int,
    batch: int,
    rate: str,
    encoder_tokens: int | None,
    turn: bool = True,
    unrated: bool = False,
) -> Roofline:
    """Bounds at `context` tokens of each of `batch` sequences, dealt over the layout's replicas.

    rate     the device's dense rate that counts: bf16, fp16, fp8
    unrated  take a device without that rate, as one whose arithmetic takes no time
    Raises UnsupportedError for a device without rates.
    """
    rated = rate in device.dense_tflops
    rates: Mapping[str, float] = {rate: float("inf")} if unrated and not rated else device.dense_tflops  # type: ignore[assignment]
    if device.bandwidth_gb_per_s is None or rate not in rates:
        lacks = "bandwidth" if device.bandwidth_gb_per_s is None else f"{rate} rate"
        raise UnsupportedError(f"device: {device.id} declares no {lacks}, on which speed depends; name a device that does, such as h100")
    if not _cache(model, layout, context, encoder_tokens):
        raise UnsupportedError("the model keeps no cache: it decodes no tokens, and theirs is the speed that is bounded")
    bandwidth = device.bandwidth_gb_per_s * 1e9
    held, matrices = cdiv(batch, layout.dp), _matrices(model, formats, layout, rates, rate)
    eight = any(t.dtype.startswith("fp8") for t, _ in _tensors(model.layers))
    attending = max(rates[rate], rates.get("fp8", 0.0) if eight else 0.0) * 1e12

    def bound(weight_bytes: int, cache_bytes: int, tokens: int, attention: int) -> Bound:
        seconds = tokens * matrices[1] + attention / attending
        return _bound(weight_bytes, cache_bytes, tokens * matrices[0] + attention, seconds, bandwidth)

    def decode(sequences: int) -> Bound:
        """A token of each: the stages take turns with a share of the sequences, and a token passes all of them."""
        share = cdiv(sequences, layout.pp)
        stage = bound(_read(model, formats, layout, share), _cache(model, layout, context, encoder_tokens) * share,
                      share, share * _attention(model, layout, context, encoder_tokens))  # fmt: skip
        return stage.times(layout.pp)

    step = decode(held)
    prefill = bound(_read(model, formats, layout, context), 0, context, _prompt_attention(model, layout, context, encoder_tokens))
    no_cache = max(step.compute_seconds, layout.pp * step.weight_bytes / bandwidth)
    return Roofline(step, prefill, held / step.seconds, held / no_cache, prefill.seconds, _turn(decode) if turn and rated else None, rated)


def _bound(weight_bytes: int, cache_bytes: int, operations: int, compute: float, bandwidth: float) -> Bound:
    memory = (weight_bytes + cache_bytes) / bandwidth
    return Bound(max(memory, compute), memory, compute, weight_bytes, cache_bytes, operations)


def _turn(decode: Callable[[int], Bound]) -> int | None:
    n = longest(lambda sequences: decode(sequences).bound_by == "memory", MOST_BATCH)
    return n + 1 if n < MOST_BATCH else None


def _running(model: Lowered) -> Tensors:
    """The tensors a decode step reads: all but towers and the embedding table, of which it reads rows; a tied one is the head too."""
    tensors = [(w, n) for w, n in model_tensors(model) if w.role not in ("tower", "embedding")]
    return [*tensors, (model.embedding, 1)] if model.embedding and model.tied else tensors


def _read(model: Lowered, formats: WeightFormats, layout: Layout, tokens: int) -> int:
    """Weight bytes that one rank reads for a step of `tokens` tokens: of experts, those that any token is expected to pick."""
    total = 0.0
    for w, n in _running(model):
        touched = 1.0 if not w.experts else 1 - (1 - w.active / w.experts) ** tokens
        total += n * rank_bytes(w, formats, tp=layout.tp, ep=layout.ep) * touched
    return int(total) // layout.pp


def _matrices(model: Lowered, formats: WeightFormats, layout: Layout, rates: Mapping[str, float], rate: str) -> tuple[int, float]:
    """Operations of one token in one rank's matrices, a multiply-add for each weight that serves it, and their seconds."""
    operations, seconds = 0, 0.0
    for w, n in _running(model):
        if len(w.shape) > 1:
            own = 2 * n * (w.elems // w.experts * w.active if w.experts else w.elems)
            operations, seconds = operations + own, seconds + own / _rate(formats.of(w), rates, rate)
    ranks = layout.tp * layout.pp
    return operations // ranks, seconds / ranks


def _rate(name: str, rates: Mapping[str, float], rate: str) -> float:
    """Operations a second of matrices in a format, at least those in the compute type."""
    kind = "int8" if name == "int8_channel" else "fp8" if name == "mxfp8" else FASTEST.get(weight_scheme(name), "")
    return max(rates[rate], rates.get(kind, 0.0)) * 1e12


def _cache(model: Lowered, layout: Layout, context: int, encoder_tokens: int | None) -> int:
    return sum(n * _tensor(t, layout, context, encoder_tokens) for t, n in _tensors(model.layers)) // layout.pp


def _tensor(t: CacheTensor, layout: Layout, context: int, encoder_tokens: int | None) -> int:
    share = heads_per_rank(t.heads, layout.tp) / t.heads / (layout.dcp if t.keep.kind == "all" and t.tokens_per_state else 1)
    return int(tensor_curve(t, encoder_tokens=encoder_tokens).at(context) * share)


def _tensors(layers: Sequence[Layer]) -> Iterator[tuple[CacheTensor, int]]:
    return ((t, n) for layer, n in layer_counts(layers) for cache in layer.caches for t in cache.tensors)


def _works(model: Lowered) -> Iterator[tuple[TokenWork, int]]:
    return ((work, n) for layer, n in layer_counts(model.layers) for cache in layer.caches for work in cache.work)


def _attention(model: Lowered, layout: Layout, context: int, encoder_tokens: int | None) -> int:
    ops = sum(n * (work.fixed + work.per_kept * _kept(work.keep, context, encoder_tokens)) for work, n in _works(model))
    return ops // (layout.tp * layout.pp)


def _prompt_attention(model: Lowered, layout: Layout, context: int, encoder_tokens: int | None) -> int:
    """Of a whole prompt: token t sees what is kept of t tokens."""
    ops = 0
    for work, n in _works(model):
        most = _kept(work.keep, context, encoder_tokens)
        seen = most * context if work.keep.kind == "source" else most * (most + 1) // 2 + most * (context - most)
        ops += n * (work.fixed * context + (work.prompt or work.per_kept) * seen)
    return ops // (layout.tp * layout.pp)


def _kept(keep: Keep, context: int, encoder_tokens: int | None) -> int:
    if keep.kind == "source":
        return keep.tokens or encoder_tokens or context
    return context if keep.kind == "all" else min(context, keep.tokens + keep.sinks)
