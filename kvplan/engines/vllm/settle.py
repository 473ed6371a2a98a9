"""What vLLM resolves before it looks at memory: defaults by release, device and model, and the options that change the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical, weight_scheme
from kvplan.engines.common import lora, releases
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.copies import drafter_with_copies, with_copies
from kvplan.engines.common.drafters import runs_own, unknown
from kvplan.engines.common.grouped_keys import grouped, key_group
from kvplan.engines.common.lines import query_heads
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import ChosenBy, Settled
from kvplan.engines.common.settling import (
    cache_formats,
    lowered_or_plain,
    remade,
    resolve,
    served_in,
    states_in,
    weight_formats,
    without,
    wrong_number,
)
from kvplan.engines.vllm import adapters, for_v0, on_intel
from kvplan.engines.vllm.backends import latent_backend, plain, said
from kvplan.engines.vllm.batches import batch_defaults, goes_in_pieces
from kvplan.engines.vllm.before_v1 import capped
from kvplan.engines.vllm.captures import asked
from kvplan.engines.vllm.checkpoints import not_known
from kvplan.engines.vllm.connectors import chunks_alone, without_hybrid
from kvplan.engines.vllm.deepseek_v41 import PACKED_ROWS, SharedRows, index_keys, shared_rows
from kvplan.engines.vllm.drafter import HEADS_SINCE, read_drafter, said_of_drafter
from kvplan.engines.vllm.drafting import FIRST_ALONE, FROM_0
from kvplan.engines.vllm.exchange import BUFFER_MIB, CHUNK, HIGH_THROUGHPUT, kernels_of, unsized
from kvplan.engines.vllm.experts import chosen
from kvplan.engines.vllm.facts import FACTS
from kvplan.engines.vllm.generation import rules_of
from kvplan.engines.vllm.kinds import least_room
from kvplan.engines.vllm.media import passed
from kvplan.engines.vllm.model import as_pooled, as_run, as_target, encodes, indexed, left, length_served, pools
from kvplan.engines.vllm.option_values import METHODS, check_options, skipped_layers
from kvplan.engines.vllm.overrides import overridden, unmodelled
from kvplan.engines.vllm.quantised import may_take_any
from kvplan.engines.vllm.registered import before_its_class, of_a_branch, trust_taken
from kvplan.engines.vllm.rings import kda_told, pooled
from kvplan.engines.vllm.rules import VERSIONS, VllmRules, since
from kvplan.engines.vllm.runners import V1_METHODS, second_runner
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.sparse import own_format, packs_all, plain_rows, rows_apart
from kvplan.engines.vllm.specs import KEPT_STATES
from kvplan.engines.vllm.states import chunk_of, hybrid_by_name, sizes_drafts, state_formats, state_mode
from kvplan.engines.vllm.undecided import undecided
from kvplan.engines.vllm.ways import V0, V1
from kvplan.engines.vllm.windows import unslid
from kvplan.errors import SpecError, UnsupportedError
from kvplan.tensors import Cache, CacheFormats, Layer, Lowered
from kvplan.units import GIB

#: Classes that hand no cache config to their attention: an asked-for cache format does not reach it (models/falcon.py, models/pixtral.py),
#: once layers and not the runner say what they keep (v1/worker/gpu_model_runner.py to 0.11.0: one kv_cache_dtype for every layer).
FORMAT_NOT_APPLIED: tuple[str, ...] = ("FalconForCausalLM",)
#: Classes that vLLM does not run in f16 (config/model.py _FLOAT16_NOT_SUPPORTED_MODELS).
WITHOUT_F16: tuple[str, ...] = ("Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Glm4ForCausalLM")
#: Classes that have no attention by their make (models/interfaces.py IsAttentionFree).
ATTENTION_FREE: tuple[str, ...] = ("MambaForCausalLM", "Mamba2ForCausalLM", "FalconMambaForCausalLM")
#: Speculative methods under which async scheduling stays on (config/vllm.py).
ASYNC_METHODS: tuple[str, ...] = ("eagle", "eagle3", "mtp", "draft_model", "dflash", "dspark", "ngram_gpu")
#: The release that estimates CUDA graphs, and takes it from the budget where it is told to (v1/worker/gpu_worker.py).
ESTIMATES = "0.18"
_RECURRENT: frozenset[str] = frozenset({"gated_delta_net", "kda", "lightning", "mamba1", "mamba2", "short_conv"})


def settle(d: Deployment) -> Settled:
    """The question with vLLM's defaults, read and lowered. Raises SpecError where choices contradict."""
    options = Options(d)
    check_options(options, rules_of(d)[0], any_method=may_take_any(d, rules_of(d)[0]))
    own = d.model
    d, replaced = overridden(d, options, rules_of(d)[1])
    d = as_pooled(d, options, rules_of(d)[0])
    d = replace(d, model=indexed(d.model, rules_of(d)[0]))
    d, served = served_in(d, auto_dtype(d), FACTS.title)
    release, rules, notes = rules_of(d)
    notes = (*notes, *replaced, *served)
    notes = (*notes, *_said(options, release, rules))
    d = capped(unslid(d, options, release), rules)
    longest = d.max_model_len or d.context or length_served(d.model, rules)
    if not longest:
        raise SpecError("context", [("", f"{d.model.id} declares no maximum length; say how many tokens with --context")])
    by: ChosenBy = "you" if d.max_model_len or d.context else "model"
    if options.flag("auto_fit") and not d.max_model_len and d.model.max_context:
        longest, by = length_served(d.model, rules) or longest, "model"
    if by == "model" and not d.model.max_context:
        notes, by = (*notes, f"the config states no maximum length: vLLM takes {longest:,} tokens"), "engine default"
    elif by == "model" and longest != d.model.max_context:
        notes = (*notes, f"vLLM {release} serves {longest:,} tokens of {d.model.max_context:,} unless max_model_len asks for more")
    if pools(d.model):
        notes = (
            *notes,
            "an encoder, under vLLM's pooling runner: whole prompts in a batch, no pool of blocks; the rest of its fraction stays free",
        )
    if encodes(d.model, release):
        notes = (*notes, "every token sees all others, as the config says: vLLM runs the layers as an encoder's, without a cache")
    if left(d.model, release):
        notes = (*notes, f"{d.model.architecture} is no class of vLLM {release}: transformers' code, with a decoder's cache in every layer")
    tp, pp, dp = d.tp or 1, d.pp or 1, d.dp or 1
    if d.n_devices not in (None, tp * pp * dp):
        shared = " (ep shares the ranks of tp x dp)" if d.ep else ""
        raise wrong_number(f"tp {tp} x pp {pp} x dp {dp}{shared} needs", tp * pp * dp, d.n_devices)
    tokens, seqs = batch_defaults(d, rules, options, longest)
    if d.max_num_batched_tokens is None and (d.device is None and options.text("platform") != "cpu"):
        notes = (*notes, f"no device given: batches of {tokens} tokens, as on one below 70 GiB")
    if (
        d.reserve
        and d.device is not None
        and d.kv_memory is None
        and not (rules.profile == "peak" if rules.v1 else rules.counted == "device")
    ):
        notes = (*notes, "vLLM takes its share of the whole device: reserve enters the check of what is free at start-up alone")
    if d.ep not in (None, 1, tp * dp):
        raise SpecError("ep", [("", f"vLLM deals experts out over tp x dp = {tp * dp} ranks, not over {d.ep}")])
    defaults: dict[str, tuple[Any, ChosenBy]] = {
        "engine": ("vllm", "kvplan"),
        "engine_version": (release, "kvplan"),
        "n_devices": (tp * pp * dp, "engine default"),
        "max_model_len": (longest, by),
        "max_num_seqs": (seqs, "engine default"),
        "max_num_batched_tokens": (tokens, "engine default"),
        "memory_fraction": (rules.memory_fraction, "engine default"),
        "context": (longest, by),
    }
    resolved = resolve(d, defaults, notes)
    question, formats = resolved.question, _formats(resolved.question, options, release, rules)
    told, group = kda_told(d.model, release), key_group(d.model)
    records = shared_rows(question, release, plain(options.text("attention_backend")))
    keys, slides = index_keys(question), not options.flag("disable_sliding_window")

    def kept(_: Layer, cache: Cache) -> Cache:
        return as_run(grouped(_as_kept(cache, formats, told, records, keys), group), d.model, release, slides)

    model, misfit = lowered_or_plain(question, formats, cast=True, kept=lambda whole: remade(whole, kept))
    settings = _read(question, rules, options, formats, model, resolved.chosen_by)._replace(records=records)
    drafts = settings.served.draft if settings.drafter else ()
    lora.asked_modules(question, beside=adapters.BESIDE)
    made = Settled(*resolved, settings, model, drafts, misfit, settings.drafter, unknown(question, settings.drafter))
    return made._replace(
        room=least_room(question, settings.served, settings),
        branch=of_a_branch(made),
        notes=(
            *made.notes,
            *before_its_class(d.model.architecture, release),
            *trust_taken(question),
            *said_of_drafter(question, settings.drafter, options, rules),
            *by_name(d, release, model),
            *on_intel.by_plugin(question),
        ),
        runs="" if d.device is None and not since(release, "0.10") else V1 if rules.v1 else V0,  # without a device either may be
        passed=(*passed(d), *chosen(d), *unmodelled(d, rules, own)),
        undecided=(
            *undecided(question, model, rules, release, graphs=settings.graphs),
            *not_known(made),
            *unsized(settings),
            *on_intel.unlisted_cache(made),
        ),
    )


def by_name(d: Deployment, release: str, model: Lowered) -> tuple[str, ...]:
    """What is said of a class that is taken for what its layers are not."""
    return hybrid_by_name(d.model, release, [cache.form for layer in model.layers for cache in layer.caches if cache.form in KEPT_STATES])


def _said(options: Options, release: str, rules: VllmRules) -> list[str]:
    """What is to be said of backends and variables that move no line of most plans."""
    found = said(options.text("attention_backend"), release)
    notes = [found] if found else []
    if options.text("allocator") is not None and (rules.v1 or rules.counted in ("torch", "parts")):
        notes.append("PYTORCH_CUDA_ALLOC_CONF: this release counts what torch allocates, not what it reserves, so the pool stays as it is")
    if options.flag("quantize_on_load") and not rules.loads_whole:
        notes.append("quantised on load: this release quantises every matrix as it is read")
    if (asked := options.text("quantization")) and asked not in METHODS:
        notes.append(f"--quantization {asked[:60]} is no method of vLLM's: ModelOpt's checkpoints take any name for their own, others stop")
    if (asked := _own_kernels(options)) and not rules.own_awq:
        notes.append(f"--quantization {asked}: this release takes Marlin's kernels all the same, where they can run")
    if options.text(for_v0.OPTION) and rules.v1 and not for_v0.beside(options.text(for_v0.OPTION)):
        notes.append(f"{options.text(for_v0.OPTION)}: moves no memory of this release, whose V1 engine runs with it")
    if options.text("v2_model_runner") is not None:
        notes.append(
            "VLLM_USE_V2_MODEL_RUNNER: batches in flight and the profile run are its own; the runners' buffers are taken for the same"
        )
    return notes


def _takes_own(d: Deployment, options: Options, rules: VllmRules, method: str) -> bool:
    """Whether a method's own kernels run, which unpack a matrix (quantization/*_marlin.py override_quantization_method)."""
    amd = d.device is not None and d.device.vendor == "amd" and (method == "awq" or rules.own_awq)
    return amd or (rules.own_awq and _own_kernels(options) == method)


def _own_kernels(options: Options) -> str | None:
    """`--quantization awq` or `gptq`: the kernels of no other method unpack a matrix."""
    asked = options.text("quantization")
    return asked if asked in ("awq", "gptq") else None


def _as_kept(cache: Cache, formats: CacheFormats, told: bool, records: SharedRows | None, keys: str) -> Cache:
    """The cache in the formats that vLLM stores, whatever is asked for.

    Kimi delta attention keeps f32 unless told otherwise (mamba_utils.py kda_state_dtype) where the release listens (`told`), DeepSeek-V4
    packed rows; mean keys of blocks are not kept.
    """
    if cache.form == "kda" and (formats.forced_state is None or not told):
        return states_in(cache, "f32")
    if cache.form in ("compressed", "compressed+shared"):
        window, rows = (records.window, records.rows) if records else (PACKED_ROWS, PACKED_ROWS)
        kept = {"window": window, "compressed": rows, "index_k": keys}
        return replace(cache, tensors=tuple(replace(t, dtype=kept[t.name]) for t in cache.tensors))
    return without(cache, "k_blocks") if cache.form == "kv+blocks" else cache


def auto_dtype(d: Deployment) -> str:
    """The compute type of `--dtype auto`: f32 files in 16 bits, and from 0.9 on no bf16 on GPUs below compute capability 8.0.

    vLLM 0.32 config/model.py _resolve_auto_dtype, platforms/cuda.py supported_dtypes. Poolers prefer f16. Releases before 0.9 take f16
    for f32, keep bf16 on such GPUs, and do not start there (0.8.5 config.py _get_and_verify_dtype): so only a type that is known.
    """
    own = canonical(d.model.dtype, "dtype")
    old = (capability(d) or 80) < 80
    early = () < releases.release(d.engine_version or "") < (0, 9)
    known = not any("states no dtype" in note or "has the shapes of" in note for note in d.model.notes)
    supported = ["f16", "f32"] if old and not (early and known) else ["bf16", "f16", "f32"]
    supported = [name for name in supported if name != "f16" or d.model.architecture not in WITHOUT_F16]
    half = early or not d.model.lm_head or pools(d.model)
    preferred = "f16" if half and "f16" in supported else supported[0]
    wanted = preferred if own == "f32" else own
    return wanted if wanted in supported else preferred


def _read(
    d: Deployment, rules: VllmRules, options: Options, formats: CacheFormats, model: Lowered, chosen_by: Mapping[str, ChosenBy]
) -> VllmSettings:
    """What vLLM runs with."""
    release = rules_of(d)[0]
    platform: Literal["cuda", "cpu"] = "cpu" if options.text("platform", ("cuda", "cpu")) == "cpu" else "cuda"
    caches = [cache for layer in model.layers for cache in layer.caches if cache.tensors]
    states = [cache.form for cache in caches if cache.form in KEPT_STATES]
    attention = len(states) < len(caches) or d.model.architecture not in (None, *ATTENTION_FREE)  # a hybrid class, whatever its layers are
    if (d.model.architecture or "").startswith("Inkling2"):
        raise UnsupportedError(f"vllm: no release to {VERSIONS[-1]} has a class for {d.model.architecture}")
    speculation = read_speculative(d.speculative)
    method = speculation.method if speculation else "off"
    method = "mtp" if runs_own(method) else method
    found = read_drafter(
        d, model, formats, options, rules, heads=since(release, HEADS_SINCE), most=1 if d.model.architecture in FIRST_ALONE else None
    )
    if found:
        found = found._replace(layers=as_target(found.layers, model))
    pp = d.pp or 1
    v2 = second_runner(d, rules_of(d)[0], rules, model, states, method)
    overlaps = method == "off" or method in ASYNC_METHODS or (rules.async_drafts and v2 and method not in V1_METHODS)
    generates = d.model.lm_head or options.text("runner", ("auto", "generate", "pooling")) == "generate"
    asynchronous = platform == "cuda" and options.flag("async_scheduling", rules.async_scheduling and generates and overlaps)
    batches = 1
    if rules.in_flight_batches:
        batches = pp + 1 if asynchronous and (v2 or pp == 1) else pp
    batch_tokens = d.max_num_batched_tokens or 2048
    caching = options.flag("enable_prefix_caching", not states or (attention and rules.hybrid_caching))
    mode = state_mode(options, rules, caching, states)
    chunked = any(t.keep.kind == "chunk" for cache in caches for t in cache.tensors)
    alone = chunks_alone(chunked, method, rules)
    disabled = options.flag("disable_hybrid_kv_cache_manager", alone or without_hybrid(options, release))
    disabled |= alone and not since(release, "0.13")  # whatever is asked (config/vllm.py)
    encoder = options.count("max_num_encoder_input_tokens")
    captures, exchange = asked(options, d), kernels_of(options, d, model, release)
    fixed = options.count("deepep_buffer_size_mb", 0)
    asked_format = cache_formats(d).k
    skip_layers = skipped_layers(options)
    copies = (options.count("num_redundant_experts", 0) or 0) if options.flag("enable_eplb") else None
    model_encoder = d.encoder_tokens or d.model.encoder_tokens or batch_tokens
    return VllmSettings(
        release=release,
        rules=rules,
        platform=platform,
        tp=d.tp or 1,
        pp=pp,
        dp=d.dp or 1,
        dcp=d.dcp or 1,
        max_model_len=d.max_model_len or 1,
        max_num_seqs=d.max_num_seqs or 256,
        max_num_batched_tokens=batch_tokens,
        in_flight_tokens=batches * batch_tokens,
        encoder_tokens=encoder or (batch_tokens if rules.encoder_tokens == "batch" else model_encoder),
        auto_fit=options.flag("auto_fit"),
        block_size=d.block_size,
        formats=formats,
        skip_ends=formats.k.startswith("turboquant") and not states,
        skip_layers=skip_layers,
        aligned_format=asked_format if skip_layers or (asked_format.startswith("turboquant") and not states) else "",
        hybrid=rules.hybrid and not disabled,
        caching=caching,
        match_unit=options.count("prefix_match_unit"),
        retention=options.count("prefix_cache_retention_interval", 0) or 0,
        state_mode=mode,
        state_chunk=options.count("mamba_block_size") or options.count("mamba_chunk_size") or chunk_of(d.model, states),
        sizes_drafts=sizes_drafts(d.model, release),
        replayed=(options.count("replayssm_buffer_len") or 16) if options.flag("use_replayssm") else 0,
        state_block=options.count("mamba_block_size"),
        method=method,
        draft_tokens=speculation.tokens if speculation else 0,
        drafts_from_0=method == "draft_model" or (method == "mtp" and (d.model.architecture or "").startswith(FROM_0)),
        backend=plain(options.text("attention_backend")),
        blackwell=(capability(d) or 0) // 10 == 10,
        latent_backend=_latent_backend(d, release, formats),
        plain_latents=plain_rows(d, release, query_heads(model) // (d.tp or 1)),
        packs_all=packs_all(d, release),
        rows_apart=rows_apart(d, release),
        exports_states=rules.gdn_checkpoints and mode == "align" and platform == "cuda" and _flashinfer_prefills(d),
        pooled=pooled(d, release),
        records=None,
        blocks_override=options.count("num_gpu_blocks_override"),
        swap_bytes=int(((options.number("swap_space", zero=True) or 0) if options.text("swap_space") else 4) * GIB),
        served=with_copies(replace(model, draft=found.layers) if found else model, copies or 0),
        drafter=drafter_with_copies(found, copies or 0),
        context_chosen="context" not in chosen_by,
        length_chosen="max_model_len" not in chosen_by,
        allow_long=options.flag("allow_long_max_model_len"),
        graphs=_captures(d, rules, platform, exchange) and captures.mode != "NONE",
        estimated=rules.v1 and since(release, ESTIMATES) and options.flag("estimate_graphs", rules.graphs_charged),
        captures=captures,
        unquantised_load=options.flag("quantize_on_load") and rules.loads_whole and not (d.model.quantization or d.model.checkpoint),
        quantised_in_flight=_in_flight(d),
        own_awq=_takes_own(d, options, rules, "awq"),
        own_gptq=_takes_own(d, options, rules, "gptq"),
        expandable=options.growing_segments(),
        partition=options.text("pp_layer_partition"),
        packed=any(weight_scheme(name) not in ("plain", "fp8") for name in weight_formats(d).values()),
        chunked=goes_in_pieces(d, rules, options, d.max_model_len or 1),
        second_runner=v2,
        exchange=exchange,
        deepep_mib=BUFFER_MIB if fixed is None else fixed,
        exchanged=options.count("moe_dp_chunk_size") or CHUNK,
        redundant=copies,
        load_window=options.count("eplb_window_size") or 1000,
        reserve_said="reserve" not in chosen_by,
        seqs_by="you" if "max_num_seqs" not in chosen_by else "nobody" if d.device is None else "device",
    )


def _captures(d: Deployment, rules: VllmRules, platform: str, exchange: str) -> bool:
    """Whether CUDA graphs are captured; DeepEP's high-throughput kernels turn them off (config/compilation.py, platforms/cuda.py)."""
    can = rules.captures and platform == "cuda" and (d.device is None or d.device.vendor != "intel")
    return can and not d.enforce_eager and exchange != HIGH_THROUGHPUT


def _in_flight(d: Deployment) -> bool:
    """bitsandbytes is asked for and the checkpoint is not in it."""
    stored = {q.format for q in d.model.quantization} | ({d.model.checkpoint} if d.model.checkpoint else set())
    return not stored and any(weight_scheme(name) == "bitsandbytes" for name in weight_formats(d).values())


def _formats(d: Deployment, options: Options, release: str, rules: VllmRules) -> CacheFormats:
    """Cache formats: states in the compute type unless the class, the checkpoint or `mamba_ssm_cache_dtype` says otherwise."""
    architecture = d.model.architecture or ""
    if architecture in FORMAT_NOT_APPLIED and rules.one_format == "handed":
        d = d.__class__(**{name: getattr(d, name) for name in d.__dataclass_fields__} | {"kv_dtype": d.dtype or d.model.dtype})
    formats = cache_formats(d)
    if eight := own_format(d, release):
        formats = formats._replace(k=eight, v=eight)
    if rules.one_format == "states":
        return formats._replace(conv=formats.k, state=formats.k, forced_state=formats.k)
    return state_formats(formats, d, options, release, rules)


def _latent_backend(d: Deployment, release: str, formats: CacheFormats) -> str:
    nope = next((m.qk_nope_head_dim for block in d.model.blocks.values() for m in block.mixers if hasattr(m, "qk_nope_head_dim")), 0)
    return latent_backend(release, capability(d), quantised=formats.k.startswith("fp8"), nope=nope)


def _flashinfer_prefills(d: Deployment) -> bool:
    """Whether FlashInfer prefills every recurrent layer: Qwen's gated delta nets on Hopper, on Blackwell with keys of 128 and CUDA 13.

    _resolve_gdn_prefill_backend; 0.33 is built for CUDA 13. No where the GPU is not known.
    """
    mixers = [m for block in d.model.blocks.values() for m in block.mixers if m.kind in _RECURRENT]
    major = (capability(d) or 0) // 10
    known = major == 9 or (major in (10, 12) and all(getattr(m, "key_head_dim", 0) == 128 for m in mixers))
    nets = bool(mixers) and all(m.kind == "gated_delta_net" for m in mixers)
    return known and nets and not (d.model.architecture or "").startswith("Olmo")
