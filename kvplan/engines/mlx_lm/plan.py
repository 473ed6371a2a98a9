"""MLX-LM: caches that grow by 256 tokens in unified memory, rotating ones for windows.

ml-explore/mlx-lm 0.32.2 mlx_lm/models/cache.py, generate.py and the models' make_cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical, row_bytes
from kvplan.engines.common import lora, whole
from kvplan.engines.common.drafters import both_kept, drafter, unknown, without_weights
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import ChosenBy, Engine, Outcome, Risk, Settled, refused
from kvplan.engines.common.releases import nearest_version
from kvplan.engines.common.settling import lowered, resolve, states_in, weight_formats, without_towers
from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.mlx_lm.facts import FACTS
from kvplan.engines.mlx_lm.scores import PROMPTS, peak, written
from kvplan.errors import SpecError, UnsupportedError
from kvplan.forms import Form
from kvplan.ledger import Entry
from kvplan.rows import rows
from kvplan.tensors import Cache, CacheFormats, CacheTensor, Layer, Lowered
from kvplan.units import cdiv, round_up

STEP, PREFILL, QUANTIZED_START, GROUP = 256, 2048, 5000, 64
BITS = ("2", "3", "4", "5", "6", "8")
SOURCE = "mlx-lm 0.32.2 mlx_lm/models/cache.py"
SCORES = "mlx 0.32.1 use_fallback: heads of other widths than its attention kernel has"
MOST_CHUNKS = 1 << 16
KEPT_PROMPTS = 10
#: The models' sanitize (gemma3.py, qwen2_vl.py, mistral3.py, llama4.py, ...).
_TEXT = "MLX-LM serves text alone: weights of towers are dropped when a checkpoint is loaded, and are not counted"
#: Models whose own make_cache takes no notice of --max-kv-size.
OWN_CACHE = frozenset({"LlamaForCausalLM", "MistralForCausalLM"})
#: Classes that mlx-lm 0.32.2 does not have -> their model types.
WITHOUT = {named: kind for kind, names in rows("engines/mlx_lm/without.tsv") for named in names.split()}
#: Models that cache every head's K and V, not the latent.
EXPANDED = frozenset({"DeepseekV2ForCausalLM", "MiniCPM3ForCausalLM"})
#: Recurrent layers whose state starts as f32; the others' is in the compute type.
F32_STATES: frozenset[Form] = frozenset({"gated-delta-net", "kda"})


class _Settings(NamedTuple):
    compute: str
    bits: int | None
    group: int
    quantized_start: int
    prefill: int
    rotate: int  # every layer rotates at so many tokens; 0: none
    prompts: int  # that are read together


def buffer_tokens(length: int, step: int) -> int:
    """Tokens that a KVCache's buffer holds after `length` tokens came in steps of `step`, and one by one after that.

    It grows by whole 256s when full; a length that is no multiple of 256 is cut to size first. Source: KVCache.update_and_fetch.
    """
    if step % STEP == 0 or length // step > MOST_CHUNKS:
        return round_up(length, STEP)
    buffer = offset = 0
    while offset < length:
        new = min(step, length - offset)
        buffer = grown(buffer, offset, new)
        offset += new
    return buffer


def grown(buffer: int, offset: int, new: int) -> int:
    """The buffer after `new` tokens on top of `offset`."""
    if offset + new <= buffer:
        return buffer
    return (offset if offset % STEP else buffer) + cdiv(new, STEP) * STEP


def quantized_row(elems: int, bits: int, group: int, scale_bytes: int) -> int:
    """Bytes of one head's row as mx.quantize makes it (KVCache.to_quantized): its bits, and a scale and a bias for each group."""
    return elems * bits // 8 + 2 * (elems // group) * scale_bytes


def settle(d: Deployment) -> Settled:
    """The question for mlx_lm.generate or mlx_lm.server on one machine, read and lowered."""
    for size in ("tp", "pp", "dp", "ep", "dcp", "n_devices"):
        if (getattr(d, size) or 1) > 1:
            raise UnsupportedError(f"{size}: mlx-lm is planned on one machine; over several (mlx.launch) it is not modelled")
    if d.device is not None and d.device.vendor == "nvidia":
        raise UnsupportedError("mlx-lm on NVIDIA GPUs (mlx[cuda12], mlx[cuda13]) is not modelled, only on Apple silicon")
    version, notes = nearest_version(d.engine_version, FACTS.versions, FACTS.name)
    compute = canonical(d.dtype or d.model.dtype, "dtype")
    if d.kv_dtype not in (None, "auto") and canonical(str(d.kv_dtype), "KV cache format") != compute:
        raise SpecError("kv_dtype", [("", f"mlx-lm keeps its cache in {compute}; smaller: engine_option kv_bits")])
    defaults: dict[str, tuple[Any, ChosenBy]] = {
        "engine": (FACTS.name, "kvplan"),
        "engine_version": (version, "kvplan"),
        "n_devices": (1, "kvplan"),
        "max_model_len": (d.context or d.model.max_context, "you" if d.context else "model"),
        "max_num_batched_tokens": (PREFILL, "engine default"),
        "kv_dtype": (compute, "engine default"),
        "memory_fraction": (1.0, "kvplan"),
    }
    notes += ("macOS lets the GPU wire only part of unified memory; memory_fraction says how much",) if d.device else ()
    notes += (_TEXT,) if d.model.towers else ()
    question, chosen_by, notes = resolve(d, defaults, notes)
    lora.asked_modules(question)
    formats = CacheFormats(compute=compute, k=compute, v=compute, conv=compute, state=compute, forced_state=compute)
    model = lowered(question, formats)
    as_kept = partial(_as_kept, compute=compute, expanded=d.model.architecture in EXPANDED)
    model, found = both_kept(model, drafter(question, model, formats), as_kept)
    return Settled(
        question,
        chosen_by,
        notes,
        _settings(question),
        model,
        without_weights(found.layers) if found else (),
        drafter=found,
        unknown=unknown(question, found),
    )


def _as_kept(layer: Layer, cache: Cache, *, compute: str, expanded: bool) -> Cache:
    """The cache as mlx-lm's classes hold it: the indexer's KVCache is given its key as K and as V."""
    if expanded and cache.form == "latent":
        return replace(cache, tensors=tuple(_expanded(layer, t) for t in cache.tensors))
    if cache.form in F32_STATES:
        return states_in(cache, "f32")
    tensors = tuple(replace(t, dtype=compute, heads=2) if t.name == "index_k" else t for t in cache.tensors)
    return replace(cache, tensors=tensors)


def plan(settled: Settled) -> Outcome:
    """Weights and every sequence's buffers; a refusal to quantise is an outcome."""
    d, s, model = settled.question, settled.settings, settled.model
    kind = WITHOUT.get(d.model.architecture or "")
    reason = f"Model type {kind} not supported." if kind else _refusal(model, s, d.context or 1)
    if reason:
        return refused(reason)

    def held(layer: Layer, caches: tuple[Cache, ...]) -> tuple[KeptTensor, ...]:
        return tuple(one for cache in caches for t in cache.tensors for one in _held(cache, t, s, d.encoder_tokens))

    plain, quantised = (written(model, d.model.architecture, quantized=quantized) for quantized in (False, s.bits is not None))
    m5 = d.device is not None and "M5" in d.device.name

    def transients(context: int, batch: int, all_held: Sequence[tuple[KeptTensor, int]]) -> list[Entry]:
        low, mid, high = peak(quantised if context >= s.quantized_start else plain, context, s.prefill, m5=m5)
        scores = Entry("transient: attention scores", mid, low, min(batch, s.prompts) * high, "modelled", SCORES, "transient")
        return [*_transients(context, batch, all_held, s), *((scores,) if high else ())]

    rules = whole.Allocation(
        held=held, transients=transients, source=SOURCE, fraction=d.memory_fraction or 1.0, adapter_bytes=4
    )  # adapters stay in f32, as they were trained
    outcome = whole.plan(d, without_towers(model), weight_formats(d), rules, settled.drafter)
    if outcome.starts is False:  # weights are loaded beyond what the GPU may wire all the same; Metal fails at a step, or pages
        return outcome._replace(start_certainty="too close to call")
    return outcome


def _settings(d: Deployment) -> _Settings:
    options = Options(d)
    bits = options.text("kv_bits", BITS)
    limit = options.count("max_kv_size") or 0
    return _Settings(
        compute=canonical(d.dtype or d.model.dtype, "dtype"),
        bits=int(bits) if bits else None,
        group=int(options.text("kv_group_size", ("32", "64", "128")) or GROUP),
        quantized_start=QUANTIZED_START if options.count("quantized_kv_start", 0) is None else options.count("quantized_kv_start", 0) or 0,
        prefill=d.max_num_batched_tokens or PREFILL,
        rotate=0 if d.model.architecture in OWN_CACHE else limit,
        prompts=options.count("prompt_concurrency") or PROMPTS,
    )


def _refusal(model: Lowered, s: _Settings, context: int) -> str | None:
    if s.bits is None or context < s.quantized_start:
        return None
    tensors = [t for layer in model.layers for cache in layer.caches for t in cache.tensors if t.tokens_per_state is not None]
    if s.rotate or any(t.keep.kind == "window" for t in tensors):
        return "RotatingKVCache Quantization NYI"
    odd = next((t.elems_per_state for t in tensors if t.elems_per_state % s.group), None)
    return f"[quantize] The last dimension ({odd}) is not divisible by the quantization group size {s.group}" if odd else None


def _held(cache: Cache, t: CacheTensor, s: _Settings, encoder_tokens: int | None) -> list[KeptTensor]:
    size = row_bytes(s.compute, 1)
    elems = t.heads * t.elems_per_state
    if t.tokens_per_state is None:
        n_bytes = t.bytes_per_state
        return [KeptTensor("ArraysCache", cache.kind, t.name, lambda n: n_bytes, "v" if t.name == "state" else "k")]
    part = "v" if t.name in ("v", "index_k") else "k"
    if t.keep.kind == "source":
        tokens = t.keep.tokens or encoder_tokens
        return [
            KeptTensor("cross", cache.kind, t.name, (lambda n: elems * size * tokens) if tokens else (lambda n: elems * size * n), part)
        ]
    full = elems * size
    if t.keep.kind == "window" or s.rotate:
        most = t.keep.tokens if t.keep.kind == "window" else s.rotate
        return [KeptTensor("RotatingKVCache", cache.kind, t.name, _rotating(full, most), part, full, most)]
    if t.keep.kind == "chunk":
        return [KeptTensor("ChunkedKVCache", cache.kind, t.name, _chunked(full, t.keep.tokens), part)]
    if s.bits is None:
        return [KeptTensor("KVCache", cache.kind, t.name, lambda n: full * buffer_tokens(n, s.prefill), part)]
    packed = t.heads * quantized_row(elems // t.heads, s.bits, s.group, size)
    start = s.quantized_start

    def at(n: int) -> int:
        return (packed if n >= start else full) * buffer_tokens(n, s.prefill)

    return [KeptTensor("QuantizedKVCache", cache.kind, t.name, at, part)]


def _expanded(layer: Layer, t: CacheTensor) -> CacheTensor:
    """The K and V that every head makes of a latent, as one row."""
    shapes = {w.name: (w.shape[0], w.units) for w in layer.weights}
    q_rows, heads = shapes.get("q_b") or shapes["q"]
    rope = t.elems_per_state - shapes["kv_a_norm"][0]
    return replace(t, elems_per_state=q_rows + shapes["kv_b"][0] - (q_rows - heads * rope))


def _rotating(full: int, most: int) -> Callable[[int], int]:
    return lambda n: full * min(round_up(n, STEP), most)


def _chunked(full: int, chunk: int) -> Callable[[int], int]:
    return lambda n: full * (round_up(n, STEP) if n <= chunk else chunk + STEP)


def _transients(context: int, batch: int, all_held: Sequence[tuple[KeptTensor, int]], s: _Settings) -> list[Entry]:
    """A buffer beside its longer successor; what rotating caches hold of a prompt step beyond their size."""
    found = []
    growing = [h for h, _ in all_held if h.group in ("KVCache", "QuantizedKVCache", "ChunkedKVCache")]
    old = max((h.at(max(1, context - STEP)) for h in growing), default=0) if context > STEP else 0
    if old:
        found.append(_moment("transient: growth by concatenation", batch * old))
    over = sum(n * h.row * max(0, min(context, h.most + s.prefill - 1) - h.most) for h, n in all_held if h.most)
    if over:
        found.append(_moment("transient: prompt in rotating caches", batch * over))
    return found


def _moment(name: str, n: int) -> Entry:
    return Entry(name, n, 0, n, "modelled", SOURCE, "transient")


def risks(settled: Settled, outcome: Outcome) -> tuple[Risk, ...]:
    """Prompts that the server keeps (server.py --prompt-cache-size, --prompt-cache-bytes; models/cache.py LRUPromptCache)."""
    options = Options(settled.question)
    size, most = options.count("prompt_cache_size", 0), options.count("prompt_cache_bytes", 0)
    if outcome.capacity is None:
        return ()
    high = (KEPT_PROMPTS if size is None else size) * outcome.capacity.request_bytes
    high = high if most is None else min(high, most)
    return (Risk("prompts kept by the server", 0, 0, high, "serve", "--prompt-cache-bytes, or a smaller --prompt-cache-size"),)


ENGINE = Engine(FACTS, settle, plan, risks=risks)
