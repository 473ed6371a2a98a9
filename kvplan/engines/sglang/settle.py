"""A question's settings with SGLang's defaults filled in, and what follows from them: formats, window split, knobs of the pools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.drafters import drafter, unknown, without_weights
from kvplan.engines.common.measured import uncalibrated
from kvplan.engines.common.options import Options, Speculation, read_speculative
from kvplan.engines.common.passed import NOT_COMPUTED
from kvplan.engines.common.protocol import ChosenBy, Resolved, Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import cache_formats, lowered_or_plain, remade, resolve, wrong_number
from kvplan.engines.sglang import adapters, backends, deepseek_v41, exchange, inkling, memory, minimax_m3, ngram, overrides, pages
from kvplan.engines.sglang.cells import Split
from kvplan.engines.sglang.choices import CHOICES
from kvplan.engines.sglang.classes import EMBEDS, NO_LENGTH, NUMBERED_ENCODERS, UNREAD_LENGTH, UNUSED_POSITIONS, WHOLE_PROMPTS
from kvplan.engines.sglang.drafts import A_MODULE_A_STEP, OWN_DRAFTS, draft_layers, is_tree
from kvplan.engines.sglang.fraction import AITER_CONTEXT, AITER_SHARE, default_fraction, on_amd, sees, uses_aiter
from kvplan.engines.sglang.kept import as_kept
from kvplan.engines.sglang.layout import SglangLayout, read_shape
from kvplan.engines.sglang.pools import EVICTION_INTERVAL, SglangPoolSettings
from kvplan.engines.sglang.replicated import not_followed
from kvplan.engines.sglang.rules import EXCLUSIVE, RELEASES, SglangRules
from kvplan.engines.sglang.served import as_served, forced_groups
from kvplan.engines.sglang.traits import Traits, keeps_index, keeps_prefixes, read_traits, slots_per_request, verifies, with_buffers
from kvplan.engines.sglang.undecided import undecided
from kvplan.engines.sglang.ways import no_modules
from kvplan.errors import SpecError
from kvplan.spec import lower
from kvplan.tensors import CacheFormats, Layer
from kvplan.units import MIB, cdiv

EITHER = ("enable_deterministic_inference", "enable_torch_compile", "encoder_only", inkling.LAYERED)
#: --linear-replayssm-cache-len; tokens of rows in host memory to each on the device (mem_cache/sparsity/factory.py host_to_device_ratio).
REPLAYED, HOST_ROWS = 16, 2
MODES = ("null", "prefill", "decode")
DSA_BACKENDS = (
    "flashmla_kv", "flashmla_sparse", "flashmla_sparse_q8", "flashmla_auto", "flashinfer_sparse_mla", "triton_sparse_mla", "fa3", "trtllm",
    "tilelang", "triton", "aiter", "intel_xpu", "flashmla_prefill", "flashmla_decode",
)  # fmt: skip
#: Options whose values are read for refusals alone; a release's own parser says which of them it has.
PARSED = (
    "quantization", "moe_runner_backend", "linear_attn_backend", "linear_attn_decode_backend", "kv_canary", "cuda_graph_backend_prefill",
    "mamba_backend", "mm_feature_transport", "dcp_comm_backend", "expert_distribution_recorder_mode",
)  # fmt: skip
COUNTS = ("speculative_draft_layers", "max_prefill_tokens", "cuda_graph_max_bs_prefill", *exchange.BOUNDS)
FLAGS = (
    "enable_deepseek_v4_fp4_indexer", "disable_decode_cuda_graph", "enforce_piecewise_cuda_graph", "enable_breakable_cuda_graph",
    "enable_page_major_kv_layout", "enable_hisparse", "prefill_round_robin_balance", "language_only",
    "enable_decoder_swa_bounded_replay", "enable_encoder_swa_bounded_replay", "engram_host_table", "enable_mamba_cache_stochastic_rounding",
    "debug_cuda_graph", "enable_dsa_prefill_context_parallel",
)  # fmt: skip
SSM_DTYPES = ("float32", "bfloat16", "float16")
DRAFTING_RUNNING = 48  # max_running_requests where something drafts (server_args.py; arg_groups/speculative_hook.py)
UNLOCKED = (0, 5, 17)  # the release that has SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK
WHOLE_DEFAULT = 0.8  # --swa-full-tokens-ratio of a model with a window pool


class SglangSettings(NamedTuple):
    """A settled question as SGLang sees it.

    swa_ratio     as asked for, or None
    most_context  what a context may be at most
    graph_bs      the largest batch that decode graphs are captured for; graph_sizes: how many
    asked_page    tokens of a page before a backend changes them; states_page: as states are looked at
    picked_steps  nobody said how many steps a drafter makes; told_off: prefixes are kept off before determinism is looked at
    counted       draft modules that a token is charged for, where they are not those that are loaded
    """

    release: str
    rules: SglangRules
    layout: SglangLayout
    pools: SglangPoolSettings
    formats: CacheFormats
    split: Split
    speculation: Speculation | None
    most_context: int | None
    draft_layers: int
    swa_ratio: float | None
    allow_long: bool
    graph_bs: int
    graph_sizes: int
    asked_page: int
    states_page: int
    picked_steps: bool
    told_off: bool
    counted: tuple[Layer, ...] = ()

    @property
    def widened(self) -> int:
        """Ranks that share a token's rows; pools of split windows are never widened (mem_cache/kv_cache_configurator.py)."""
        return 1 if self.split.windows else self.layout.dcp

    @property
    def by_drafter(self) -> bool:
        """What a token is charged for drafts follows the drafter's own rows, not the target's."""
        return self.speculation is not None and self.speculation.method in ("dflash", "dspark")


def settings_of(settled: Settled) -> SglangSettings:
    """The settings that `settle` made."""
    found: SglangSettings = settled.settings
    return found


def settle(d: Deployment) -> Settled:
    """The question with SGLang's defaults, read and lowered. Raises SpecError for choices that contradict."""
    version, rules, notes = RELEASES.find(d.engine_version)
    d, replaced, unread = overrides.overridden(d, version)
    asked = d
    d, served = as_served(d, version, rules)
    options, spec = Options(d), read_speculative(d.speculative)
    options.allocator()
    options.driver()
    traits = read_traits(lower(d.model, cache_formats(replace(d, kv_dtype=None))))
    d, forced, said = forced_groups(d, version, rules, traits)
    d = backends.without_branches(asked, d, rules, traits)
    told_off = Options(d).flag("disable_radix_cache")
    d, unshared = backends.reproducible(d, rules, traits)
    options = Options(d)
    shape, asked_shape = (read_shape(d, options, forced=now, latent=traits.latent) for now in (forced, False))  # the fraction's
    _check(d, options, shape)
    gpu_mib = (d.device.nvml_total_mib or d.device.memory_bytes // MIB) if d.device else None
    listed, _ = (options.counts(key) for key in ("cuda_graph_bs", "cuda_graph_bs_prefill"))  # raises SpecError for what is no list
    most_listed = max(listed, default=0) or options.count("cuda_graph_max_bs")
    graph_bs = most_listed or memory.decode_graph_bs(rules, gpu_mib, shape.tp, d.max_num_seqs)
    chunk = d.max_num_batched_tokens or memory.chunk_size(rules, gpu_mib, options.text("disaggregation_mode", MODES))
    undrafted = backends.before_drafts(asked, d)
    page = _page(undrafted, rules, traits, options)
    seen = backends.states_page(undrafted, rules, traits, page)
    running = pages.DSV4_RUNNING if traits.compressed else DRAFTING_RUNNING if spec else None
    defaults: dict[str, Any] = {
        "engine": ("sglang", "kvplan"),
        "n_devices": (shape.n_devices, "kvplan"),
        **({} if d.max_model_len or d.model.max_context else {"context": (most_context(d, rules), "engine default")}),
        "max_model_len": (d.context, "you") if d.context else (most_context(d, rules), "model"),
        "max_num_batched_tokens": (chunk, "engine default"),
        **({"max_num_seqs": (running, "engine default")} if running else {}),
        "memory_fraction": (default_fraction(d, rules, asked_shape, traits, spec, gpu_mib, chunk, graph_bs), "engine default"),
    }
    notes = (
        *notes,
        *replaced,
        *served,
        *said,
        *unshared,
        *_notes(d, rules, traits, options, page),
        *not_followed(d, version),
        *uncalibrated(d, "sglang"),
    )
    settled = _resolved(d, version, page, traits, defaults, notes, rules)
    changed: dict[str, ChosenBy] = {name: "engine default" for name in ("ep", "multimodal") if getattr(asked, name) != getattr(d, name)}
    settled = settled._replace(chosen_by={**settled.chosen_by, **changed})
    question = settled.question
    stored = formats(question)
    model, misfit = lowered_or_plain(question, stored, cast=True)
    split = head_split(question, rules, shape, traits)._replace(
        group=ngram.read_group(question, model, version), keys=minimax_m3.key_format(question, version),
        whole_index=keeps_index(options, rules), key_copies=HOST_ROWS if options.flag("enable_hisparse") else 1,
        replayed=REPLAYED * options.flag("enable_linear_replayssm"), records=deepseek_v41.records(question, shape, version),
    )  # fmt: skip
    steps = spec.tokens if spec and question.model.architecture in A_MODULE_A_STEP else None
    drafts = drafter(question, model, stored, own=OWN_DRAFTS, most=steps)
    model = remade(replace(model, draft=drafts.layers if drafts else model.draft), lambda _, cache: as_kept(cache, split))
    drafts = drafts and drafts._replace(layers=model.draft)
    model, drafts, counted = inkling.remade(question, model, drafts, version)
    window_share = options.number("swa_full_tokens_ratio")
    settings = SglangSettings(
        release=version,
        rules=rules,
        layout=shape,
        pools=pool_settings(question, rules, shape, traits, seen)._replace(told_running=asked.max_num_seqs),
        formats=stored,
        split=split,
        speculation=spec,
        most_context=most_context(question, rules),
        draft_layers=draft_layers(question, rules, spec, drafts),
        swa_ratio=None if rules.whole_default and window_share == WHOLE_DEFAULT else window_share,
        allow_long=options.flag("allow_overwrite_longer_context_len", default=rules.long_context),
        graph_bs=graph_bs,
        asked_page=asked.block_size or 1,
        states_page=seen,
        counted=without_weights(counted),
        told_off=told_off,
        picked_steps=bool(spec and spec.method != "ngram" and not told_steps(asked)),
        graph_sizes=0 if exchange.without_graphs(d) else len(set(listed)) or memory.decode_graph_sizes(graph_bs),
    )
    kept_layers = without_weights(drafts.layers) if drafts else ()
    notes = (*settled.notes, *adapters.notes(question, model, rules))
    made = Settled(question, settled.chosen_by, notes, settings, model, kept_layers, misfit, drafts, unknown(question, drafts))
    lacks = no_modules(d.speculative, d.model.architecture, d.engine_version)
    scores = split.records is not None and bool(settings.graph_sizes) and not question.enforce_eager
    doubts = undecided(question, model, rules, shape.attention_dp, scores=scores)
    if "engine_version" in made.chosen_by and (question.kv_dtype or "").lower() in ("fp4_e2m1", "fp4_mx_block16"):
        why = f"a cache of {question.kv_dtype} goes by other names and backends from release to release; {question.engine_version} is taken"
        doubts = (*doubts, f"{why}, name yours with engine_version")
    return made._replace(undecided=doubts, passed=unread, lacks=lacks)


def _check(d: Deployment, options: Options, shape: SglangLayout) -> None:
    """Raises SpecError for numbers and choices that contradict one another or that SGLang does not have."""
    if d.n_devices not in (None, shape.n_devices):
        raise wrong_number("these parallel sizes need", shape.n_devices, d.n_devices)
    if d.max_num_batched_tokens and options.flag("disable_chunked_prefill"):
        raise SpecError("max_num_batched_tokens", [("", "prompts go in whole with disable_chunked_prefill: take out one of the two")])
    for key in PARSED:
        options.text(key, tuple(" ".join(CHOICES["--" + key.replace("_", "-")].values()).split()))
    for key, takes in (deepseek_v41.CHOICES | backends.WORDS).items():
        options.text(key, takes)
    options.number("cpu_offload_gb")
    for key in COUNTS:
        options.count(key)
    for key in (*FLAGS, "enable_mixed_chunk"):
        options.flag(key)


def _page(d: Deployment, rules: SglangRules, traits: Traits, options: Options) -> int:
    """Tokens of a page: as the attention backend has it, and one where the states of a release keep prefixes in pages of one."""
    for phase in ("", "decode_", "prefill_"):
        options.text(f"{phase}attention_backend", tuple(pages.BACKENDS))
    if d.model.architecture == ngram.CLASS:
        return ngram.PAGE
    plain_states = not rules.paged_states and traits.states and d.model.architecture != "Lfm2MoeForCausalLM"
    if plain_states and keeps_prefixes(d, rules, traits) and with_buffers(d, rules, traits, 1) == "no_buffer":
        d = replace(d, block_size=1)  # which a backend changes like any other
    seen = backends.forced_page(d, rules, traits) or d.block_size
    return minimax_m3.page(d) or pages.page_size(
        seen, backends.paged(d, rules, traits), latent=traits.latent, pooled_index=traits.pooled_index,
        compressed=traits.compressed, sparse_page=rules.amd_dsa_page if on_amd(d) else pages.DSA_PAGE, own=rules.pages,
    )  # fmt: skip


def _resolved(
    d: Deployment, version: str, page: int, traits: Traits, defaults: dict[str, Any], notes: tuple[str, ...], rules: SglangRules
) -> Resolved:  # fmt: skip
    """The question with the defaults filled in, and who chose each."""
    auto = d.kv_dtype in (None, "auto")
    asked = replace(d, engine_version=version, block_size=page, kv_dtype=_auto_kv_dtype(d, traits) if auto else d.kv_dtype)
    if rules.vision == "share" and sees(d) and d.memory_fraction:
        asked = replace(asked, memory_fraction=d.memory_fraction * memory.VISION_SHARE)
        notes = (*notes, f"sglang {version} takes {memory.VISION_SHARE} of any mem_fraction_static for a model that sees")
    settled = resolve(asked, defaults, notes)
    if uses_aiter(settled.question, rules, traits):
        share = f"the AITER attention backend scales mem_fraction_static by {AITER_SHARE} for contexts above {AITER_CONTEXT}"
        settled = settled._replace(notes=(*settled.notes, share))
    chosen = dict(settled.chosen_by)
    for name, value in (
        ("engine_version", d.engine_version), ("block_size", d.block_size), ("kv_dtype", None if auto else d.kv_dtype),
        ("memory_fraction", d.memory_fraction),
    ):  # fmt: skip
        if value is None or value != getattr(settled.question, name):
            chosen[name] = "model" if name == "kv_dtype" and d.model.kv_dtype else "engine default"
    return settled._replace(chosen_by=chosen)


def told_steps(d: Deployment) -> int | None:
    """Steps of drafts that were asked for."""
    return spec.tokens if (spec := read_speculative(d.speculative)) else None


def most_context(d: Deployment, rules: SglangRules) -> int | None:
    """The longest context that this release derives from the model's configuration."""
    named, stated = d.model.architecture or "", d.model.stated_context or d.model.max_context  # YaRN multiplies nothing
    most = None if named in UNREAD_LENGTH else stated
    most = most or (NO_LENGTH if named and not d.model.length_unsaid else None)
    return most * rules.stretched.get(named, 1) + UNUSED_POSITIONS.get(named, 0) if most else most


def formats(d: Deployment) -> CacheFormats:
    """The engine's cache formats: convolution states in bf16, recurrent ones in f32 unless the model or an option says (mamba_utils.py)."""
    ssm, conv = (Options(d).text(f"mamba_{name}_dtype", SSM_DTYPES) for name in ("ssm", "conv"))
    return cache_formats(d)._replace(conv=canonical(conv or "bfloat16"), forced_state=canonical(ssm) if ssm else None)


def splits_windows(d: Deployment, rules: SglangRules) -> bool:
    """Whether window layers get a pool of their own: by architecture and release, or as the user says."""
    options, architecture = Options(d), d.model.architecture
    whole, split = options.flag("disable_hybrid_swa_memory"), options.flag("is_hybrid_swa")
    if whole or (architecture == "GptOssForCausalLM" and backends.whole_sinks(d, rules)):
        return False
    return split or (architecture in rules.split if architecture else bool(rules.split))


def head_split(d: Deployment, rules: SglangRules, shape: SglangLayout, traits: Traits) -> Split:
    """How layers are stored; fp8 rows are raw where a phase's kernels are Blackwell's or AMD's (mem_cache/kv_cache_configurator.py)."""
    decode, prefill = (Options(d).text(name, DSA_BACKENDS) for name in ("dsa_backend", "dsa_prefill_backend"))
    packed = rules.packed_glm and d.model.architecture == "GlmMoeDsaForCausalLM" and (capability(d) or 0) // 10 == 12
    own = (rules.raw_blackwell and (capability(d) or 0) >= 100 and not packed) or (rules.dcp_index and shape.dcp > 1)
    raw = (own and None in (decode, prefill)) or "trtllm" in (decode, prefill) or decode == "tilelang" or on_amd(d)
    windows = splits_windows(d, rules) and traits.windows
    exclusive = d.model.architecture in EXCLUSIVE
    numbered = d.model.encoder.n_layers if d.model.encoder and d.model.architecture in NUMBERED_ENCODERS else 0
    ranks = shape.tp if d.model.architecture in rules.states_of_all else None
    pooled, shared, fp8 = traits.pooled_index is not None, Options(d).flag("enable_unified_memory"), (d.kv_dtype or "").lower() == "nvfp4"
    return Split(shape.attn_tp, shape.dcp, pooled, raw, exclusive, windows, traits.states, numbered, ranks, one_pool=shared, unpacked=fp8)


def pool_settings(d: Deployment, rules: SglangRules, shape: SglangLayout, traits: Traits, states_page: int) -> SglangPoolSettings:
    """The settings that pools depend on, from a settled question; states_page: tokens of a page as states are looked at."""
    options, spec = Options(d), read_speculative(d.speculative)
    # pipeline parallelism turns overlap off, after the strategy of states was chosen (server_args.py)
    radix, overlap = keeps_prefixes(d, rules, traits), shape.pp == 1 and not options.flag("disable_overlap_schedule")
    told, strategy = options.count("speculative_num_draft_tokens"), with_buffers(d, rules, traits, states_page)
    named_zero = options.flag("zero_chunk") and d.model.architecture not in WHOLE_PROMPTS
    return SglangPoolSettings(
        page=d.block_size or 1,
        context_len=d.max_model_len or d.context or 1,
        chunk=(0 if named_zero else -1) if whole_prompts(d) else (d.max_num_batched_tokens or 0) // shape.attention_dp,
        max_running=d.max_num_seqs,
        attention_dp=shape.attention_dp,
        state_groups=shape.attention_dp if traits.gated or rules.radix_states != "ratio" else 1,
        draft_tokens=told or spec.tokens + 1 if spec and verifies(d, traits) else 0,
        idle_drafts=(told or 0) * int(spec is None),
        draft_steps=0 if spec is None or spec.method == "ngram" else spec.tokens,
        draft_branches=options.count("speculative_eagle_topk") or 1,
        draft_chain=not is_tree(d) and (spec is None or told in (None, spec.tokens + 1)),
        radix=radix,
        overlap=overlap,
        swa_ratio=options.number("swa_full_tokens_ratio") or 0.8,
        mamba_ratio=options.number("mamba_full_memory_ratio") or 0.9,
        max_states=options.count("max_mamba_cache_size"),
        slots_per_request=slots_per_request(
            strategy,
            radix,
            spec is None if rules.buffers_by == "drafts" else overlap or rules.spare_states,
            options.flag("mamba_skip_decode_lock") and release(d.engine_version or "") >= UNLOCKED,
        ),
        max_total_tokens=options.count("max_total_tokens"),
        fraction=(d.memory_fraction or 0.0) * (AITER_SHARE if uses_aiter(d, rules, traits) else 1),
        decodes=options.text("disaggregation_mode") == "decode",
        tracked=(2 if overlap else 1) if radix and strategy != "no_buffer" else 0,
        shared=options.flag("enable_unified_memory"),
        index_copies=HOST_ROWS if options.flag("enable_hisparse") else 1,
        swa_tails=options.count("swa_prefix_tails", 0),
        replays=options.flag("enable_encoder_swa_bounded_replay"),
        evicted_every=options.count("swa_eviction_interval") or EVICTION_INTERVAL,
    )


def embeds(d: Deployment) -> bool:
    """Whether embeddings or scores are served, by the model's class or as the user says: nothing is decoded."""
    return d.model.architecture in EMBEDS or Options(d).flag("is_embedding")


def whole_prompts(d: Deployment) -> bool:
    """Whether prompts are not cut into chunks, by the model's class or as the user says."""
    return d.model.architecture in WHOLE_PROMPTS or Options(d).flag("disable_chunked_prefill")


def _auto_kv_dtype(d: Deployment, traits: Traits) -> str:
    """arg_groups/overrides.py, _dsa_kv_cache_dtype_default and _deepseek_v4_kv_cache_dtype; else the checkpoint's or the compute type."""
    if traits.compressed:
        return "fp8_e4m3"
    if traits.pooled_index is not None:
        return "fp8_e4m3" if (capability(d) or 0) >= 100 else "bf16"
    return cache_formats(d).k


def _notes(d: Deployment, rules: SglangRules, traits: Traits, options: Options, page: int) -> tuple[str, ...]:
    notes = []
    if d.block_size not in (None, page):
        notes.append(f"sglang changes page size {d.block_size} to {page} for this model and attention backend")
    if traits.windows and not traits.compressed and not options.flag("disable_hybrid_swa_memory") and not options.flag("is_hybrid_swa"):
        if d.model.architecture is None and rules.split:
            notes.append("no architecture is declared: assumed one whose window layers sglang keeps in a pool of their own")
        elif not splits_windows(d, rules):
            notes.append(f"this release of sglang keeps the window layers of {d.model.architecture} like full ones")
    if d.model.cache_window:  # configs/model_config.py is_hybrid_swa_model, 0.5.23
        notes.append(f"sglang keeps every token here: window {d.model.cache_window} of the config has a pool only in classes that it names")
    notes += [f"{NOT_COMPUTED}--{k.replace('_', '-')} changes memory" for k in EITHER if options.flag(k) and not inkling.reads(d, k)]
    if options.text("disaggregation_mode", MODES) in MODES[1:]:
        notes.append(f"{NOT_COMPUTED}what a server that only prefills, or only decodes, holds otherwise")
    if traits.cross:
        notes.append("sglang has one pool for all layers: a decoder's token takes a row in cross-attention layers too, an encoder's in all")
    if traits.encodes:
        notes.append(
            "sglang gives an encoder's layers rows in its pool, which takes what its fraction leaves: K and V of the prompts at hand"
        )
    if traits.shared:
        notes.append("sglang sizes its pools for all layers, those that read another layer's cache too")
    if d.model.towers and d.multimodal != "off" and d.memory_fraction is None:
        notes.append("the vision tower's effect on mem_fraction_static is estimated from its parameter count")
    return tuple(notes)


def per_worker(batch: int, shape: SglangLayout) -> int:
    """Sequences on the busiest data-parallel worker."""
    return cdiv(batch, shape.dp)
