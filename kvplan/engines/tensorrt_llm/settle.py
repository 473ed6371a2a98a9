"""A question's settings with TensorRT-LLM's defaults filled in, and what follows from them.

Source: tensorrt_llm/llmapi/llm_args.py (KvCacheConfig: free_gpu_memory_fraction 0.9, tokens_per_block 32; max_batch_size 2048,
max_num_tokens 8192); tensorrt_llm/_torch/pyexecutor/_util.py, get_kv_cache_manager_cls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical
from kvplan.engines.common import lora
from kvplan.engines.common.drafters import drafter, unknown, without_weights
from kvplan.engines.common.measured import uncalibrated
from kvplan.engines.common.options import Options, Speculation, read_speculative
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.registries import Registry, listed
from kvplan.engines.common.settling import cache_formats, lowered_or_plain, remade, resolve, served_in, without, wrong_number
from kvplan.engines.tensorrt_llm.facts import FACTS
from kvplan.engines.tensorrt_llm.models import not_listed
from kvplan.engines.tensorrt_llm.pools import TrtPoolSettings
from kvplan.engines.tensorrt_llm.rules import RELEASES, TrtRules, find
from kvplan.engines.tensorrt_llm.ways import BUILT, PYTORCH
from kvplan.errors import SpecError, UnsupportedError
from kvplan.spec import lower
from kvplan.tensors import CacheFormats, Lowered, distinct
from kvplan.units import cdiv, parse_bytes

_FIRST = listed("common/transformers_classes")
REGISTRY = Registry(_FIRST, tuple(_FIRST))
SSM_DTYPES = ("auto", "float16", "bfloat16", "float32")
MAX_BATCH, MAX_NUM_TOKENS = 2048, 8192
SPARSE_BLOCK = 64
BACKENDS = ("pytorch", "tensorrt")
#: What it calls INT8: weights alone, one scale per output channel (QuantAlgo.W8A16); elsewhere the word is bitsandbytes'.
INT8 = ("int8", "8bit", "int8_wo")


#: Methods with buffers of their own (_torch/speculative/dflash.py).
BUFFERED = ("dflash", "dspark")


class TrtLayout(NamedTuple):
    """How the ranks are arranged; attention data parallelism keeps all heads on every rank and deals requests out over tp."""

    tp: int
    pp: int
    dp: int
    ep: int
    attention_dp: bool

    @property
    def attn_tp(self) -> int:
        return 1 if self.attention_dp else self.tp

    @property
    def workers(self) -> int:
        """Ranks that hold different requests."""
        return self.dp * (self.tp if self.attention_dp else 1)

    @property
    def n_devices(self) -> int:
        return self.tp * self.pp * self.dp


def read_shape(d: Deployment, options: Options) -> TrtLayout:
    """Parallel sizes; experts whole where ep does not divide tp, which a check refuses. Raises UnsupportedError for context parallelism."""
    tp, pp, dp, ep = (n or 1 for n in (d.tp, d.pp, d.dp, d.ep))
    if (d.dcp or 1) > 1:
        raise UnsupportedError("tensorrt-llm does not estimate its cache memory under context parallelism")
    return TrtLayout(tp, pp, dp, 1 if tp % ep else ep, options.flag("enable_attention_dp"))


class TrtSettings(NamedTuple):
    """A settled question as TensorRT-LLM sees it. `peak`: the peak that it logged, `temporary` of it its own cache, in bytes."""

    release: str
    rules: TrtRules
    layout: TrtLayout
    pools: TrtPoolSettings
    formats: CacheFormats
    speculation: Speculation | None
    profiled: bool
    v2: bool
    peak: int | None
    temporary: int
    host_bytes: int | None
    cross_fraction: float | None
    chunked: bool

    @property
    def own_buffers(self) -> bool:
        """The drafter's cache is the worker's own buffers, for every slot and position, not part of the pools."""
        return self.speculation is not None and self.speculation.method in BUFFERED


def settings_of(settled: Settled) -> TrtSettings:
    """The settings that `settle` made."""
    found: TrtSettings = settled.settings
    return found


def settle(d: Deployment) -> Settled:
    """The question with TensorRT-LLM's defaults, read and lowered. Raises SpecError for choices that contradict."""
    if d.weight_dtype and d.weight_dtype.strip().lower() in INT8:
        d = replace(d, weight_dtype="int8_channel")
    options, shape = Options(d), read_shape(d, Options(d))
    version, rules, notes = find(d.engine_version)
    named = version if rules == RELEASES.rules[version] else d.engine_version  # a candidate with rules of its own keeps its name
    d, served = served_in(d, canonical(d.model.dtype, "dtype"), FACTS.title)
    notes = (*notes, *served)
    if d.n_devices not in (None, shape.n_devices):
        raise wrong_number("these parallel sizes need", shape.n_devices, d.n_devices)
    model = lower(d.model, cache_formats(replace(d, kv_dtype=None)))
    forms = {cache.form for layer in distinct(model.layers) for cache in layer.caches}
    longest, by = d.context or d.model.max_context, "you" if d.context else "model"
    slots, slots_by = _slots(d, rules, shape)
    defaults: dict[str, Any] = {
        "engine": ("tensorrt-llm", "kvplan"),
        "n_devices": (shape.n_devices, "kvplan"),
        "max_model_len": (longest, by),
        "max_num_seqs": (slots, slots_by),
        "max_num_batched_tokens": (_step(rules, d.max_num_seqs or slots, d.max_model_len or longest), "engine default"),
        "block_size": (SPARSE_BLOCK if forms & {"latent+index", "latent+pooled-index"} else rules.block, "engine default"),
        "memory_fraction": (rules.fraction, "engine default"),
    }
    auto = d.kv_dtype in (None, "auto")
    asked = replace(d, engine_version=named, kv_dtype=cache_formats(d).k if auto else d.kv_dtype)
    settled = resolve(asked, defaults, (*notes, *_notes(d, rules, model, options), *uncalibrated(d, "tensorrt-llm")))
    chosen = dict(settled.chosen_by)
    if d.engine_version != named:
        chosen["engine_version"] = "engine default"
    if auto:
        chosen["kv_dtype"] = "model"
    question, spec, stored = settled.question, read_speculative(d.speculative), formats(settled.question)
    model, misfit = lowered_or_plain(question, stored, cast=True)
    model = remade(model, lambda _, cache: without(cache, "k_blocks") if cache.form == "kv+blocks" else cache)
    peak, host = options.text("peak_memory"), options.text("host_cache_size")
    settings = TrtSettings(
        release=version,
        rules=rules,
        layout=shape,
        pools=pool_settings(question, rules, shape, spec, stored),
        formats=stored,
        speculation=spec,
        profiled=is_profiled(options, rules),
        v2=uses_v2(question, rules, model),
        peak=None if peak is None else parse_bytes(peak, "peak_memory"),
        temporary=parse_bytes(options.text("temporary_kv_memory") or 0, "temporary_kv_memory"),
        host_bytes=None if host is None else parse_bytes(host, "host_cache_size"),
        cross_fraction=options.number("cross_kv_cache_fraction", 1),
        chunked=options.flag("enable_chunked_prefill"),
    )
    found = drafter(question, model, stored)
    drafts = without_weights(found.layers) if found else ()
    lora.asked_modules(question)
    notes = (*settled.notes, *lora.note(question, model.layers))
    made = Settled(question, chosen, notes, settings, model, drafts, misfit, found, unknown(question, found))
    return made._replace(undecided=undecided(question, options, rules), runs=PYTORCH if settings.profiled else BUILT)


def _slots(d: Deployment, rules: TrtRules, shape: TrtLayout) -> tuple[int, str]:
    """max_batch_size, and who chose it. Engines of releases whose default is a handful are built for the requests of the question."""
    asked = cdiv(d.batch or 1, shape.workers)
    return (asked, "you") if rules.prompt and asked > rules.slots else (rules.slots, "engine default")


def _step(rules: TrtRules, slots: int, longest: int | None) -> int:
    """max_num_tokens by default."""
    return slots * min(rules.prompt, longest or rules.prompt) if rules.prompt else MAX_NUM_TOKENS


def is_profiled(options: Options, rules: TrtRules) -> bool:
    """Whether the budget is measured by a dry run: the PyTorch backend does, engines that trtllm-build made do not."""
    asked = options.text("backend", BACKENDS)
    return asked == "pytorch" if asked else rules.profiled


def undecided(d: Deployment, options: Options, rules: TrtRules) -> tuple[str, ...]:
    """An engine that trtllm-build has to make on the card first: what that takes is not known, but that of a server that ran it is; and a
    class that the transformers of the release does not have, which its own code or the model's repository may have."""
    wanted = rules.transformers
    first = REGISTRY.later(d.model.architecture, wanted) if wanted else ""
    younger = (f"{d.model.architecture} came with transformers {first}, and this release asks for {wanted}",) if first else ()
    if is_profiled(options, rules):
        younger = (*younger, *not_listed(d, formats(d).k))
    known = d.device is None or d.kv_memory is not None or options.text("peak_memory") is not None
    if options.text("built", ("here", "elsewhere")) == "elsewhere" or known or is_profiled(options, rules):
        return younger
    return (
        *younger,
        "what trtllm-build takes on the card is not modelled; engine_option built=elsewhere says that the engine is made",
    )


def formats(d: Deployment) -> CacheFormats:
    """The engine's cache formats; recurrent states are in the compute type unless the model or mamba_ssm_cache_dtype says."""
    found = cache_formats(d)
    ssm = Options(d).text("mamba_ssm_cache_dtype", SSM_DTYPES)
    return found._replace(state=found.compute, forced_state=canonical(ssm) if ssm and ssm != "auto" else None)


def pool_settings(d: Deployment, rules: TrtRules, shape: TrtLayout, spec: Speculation | None, stored: CacheFormats) -> TrtPoolSettings:
    """The settings that pools depend on, from a settled question. Raises SpecError."""
    options = Options(d)
    profiled = is_profiled(options, rules)
    counted = rules.nvfp4_counted if profiled and stored.k == "nvfp4" else None
    shares = _numbers(options, "window_size_shares")
    if shares and abs(sum(shares) - 1) > 1e-9:
        raise SpecError("engine_option", [("window_size_shares", "shares of memory add up to 1")])
    windows = tuple(int(w) for w in _numbers(options, "max_attention_window") or ())
    return TrtPoolSettings(
        block=d.block_size or rules.block,
        max_seq_len=d.max_model_len or d.context or 1,
        max_batch=d.max_num_seqs or MAX_BATCH,
        max_num_tokens=d.max_num_batched_tokens or MAX_NUM_TOKENS,
        pp=shape.pp,
        draft_tokens=spec.tokens if spec else 0,
        max_tokens=options.count("max_tokens"),
        windows=windows,
        shares=shares,
        scratch=options.flag("enable_swa_scratch_reuse"),
        reuse=options.flag("enable_block_reuse", True),
        snapshot=options.count("mamba_state_cache_interval", 0) if options.text("mamba_state_cache_interval") else rules.snapshot,  # type: ignore[arg-type]
        up=(rules.rounding == "up" or not profiled, rules.windows == "up" or not profiled),
        by_window=rules.shares == "window",
        dry_run=profiled,
        apart=rules.states == "apart" or not profiled,
        spare=2 if shape.attention_dp else 1,
        alone=(d.tp or 1) * shape.pp == 1,
        counted=(counted * 16, 9) if counted else (1, 1),  # 16 elements of NVFP4 are 8 bytes and a scale of one
    )


def _numbers(options: Options, key: str) -> tuple[float, ...] | None:
    text = options.text(key)
    if text is None:
        return None
    try:
        found = tuple(float(part) for part in text.strip("[]() ").split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < x < 1e12 for x in found):
        raise SpecError("engine_option", [(key, f"{text[:60]!r} is not a list of positive numbers such as 128,131072")])
    return found


def uses_v2(d: Deployment, rules: TrtRules, model: Lowered) -> bool:
    """Which KV cache manager: as asked, else by what the model class prefers, where the release has a preference.

    A model of unknown class gets V2 where windows or recurrent states are what V2 was made for.
    """
    asked = Options(d).text("use_kv_cache_manager_v2", ("auto", "true", "false")) or "auto"
    if asked != "auto":
        return asked == "true"
    if not rules.v2 or not is_profiled(Options(d), rules):
        return False
    if d.model.architecture is not None:
        return d.model.architecture in rules.v2
    tensors = [t for layer in distinct(model.layers) for cache in layer.caches for t in cache.tensors]
    return any(t.keep.kind == "window" or t.tokens_per_state is None for t in tensors)


def _notes(d: Deployment, rules: TrtRules, model: Lowered, options: Options) -> tuple[str, ...]:
    notes, v2, profiled = [], uses_v2(d, rules, model), is_profiled(options, rules)
    tensors = [t for layer in distinct(model.layers) for cache in layer.caches for t in cache.tensors]
    windows, recurrent = any(t.keep.kind == "window" for t in tensors), any(t.tokens_per_state is None for t in tensors)
    if windows and not v2 and options.text("max_attention_window") is None:
        notes.append("the V1 cache manager keeps all tokens of window layers unless max_attention_window is given")
    if d.host_memory and not v2:
        notes.append("the V1 cache manager takes no host memory of its own: say host_cache_size")
    if d.host_memory and v2:
        notes.append("the V2 cache manager makes a host tier of its own, as large as the pools, in all half of host_memory at most")
    if d.kv_memory and d.max_num_batched_tokens:
        what = "and a step's share of window layers where the pool is larger than that" if v2 else "only"
        notes.append(f"max_num_batched_tokens moves the measured peak {what}; kv_memory is given, so the peak is not asked")
    if d.kv_memory and profiled and not v2 and not windows:
        notes.append("max_gpu_total_bytes does not bound one pool of the V1 cache manager: free_gpu_memory_fraction or max_tokens does")
    if rules.states == "apart" and profiled and not v2 and recurrent:
        notes.append(
            "recurrent states of max_num_seqs requests are set aside beside the pool; it starts with enable_block_reuse=false only"
        )
    if d.max_model_len:
        notes.append(f"a request has at most max_model_len = {d.max_model_len} tokens; the V1 pool's size does not follow it")
    return tuple(notes)
