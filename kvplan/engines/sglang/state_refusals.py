"""What SGLang does not start with of models with recurrent states: how they live beside prefixes, and how ranks share them.

Read from the wheels of 0.5.2 to 0.5.23: see refusals.py.
"""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.sglang.as_read import misreads
from kvplan.engines.sglang.classes import STATES_OF_ALL, UNBUFFERED
from kvplan.engines.sglang.expert_conditions import PLAIN
from kvplan.engines.sglang.settle import settings_of
from kvplan.engines.sglang.traits import STRATEGIES, keeps_prefixes, read_traits, with_buffers
from kvplan.tensors import CacheTensor, distinct


def no_gated_states(settled: Settled) -> Values:
    """The backend that Qwen3-Next is given anyway, asked for by name."""
    asked = (Options(settled.question).text(f"{phase}attention_backend") for phase in ("", "prefill_", "decode_"))
    return {} if "hybrid_linear_attn" in asked and settled.question.model.architecture != "Qwen3NextForCausalLM" else None


def paged_states(settled: Settled) -> Values:
    """States that a prefix cache keeps without extra buffers, in pages of more than one token."""
    s, d = settings_of(settled), settled.question
    traits, page = read_traits(settled.model), s.states_page
    known = s.rules.no_buffer_pages and d.model.architecture not in (None, *STATES_OF_ALL)  # these are not looked at
    kept = known and page > 1 and traits.states and keeps_prefixes(d, s.rules, traits)
    return {"page": page} if kept and with_buffers(d, s.rules, traits, page) == "no_buffer" else None


def _drafted(settled: Settled) -> int:
    """Tokens of a step of drafts where they were asked for; those that a release picks come later."""
    s = settings_of(settled)
    return 0 if s.picked_steps else s.pools.draft_tokens or s.pools.idle_drafts


def buffers_not_supported(settled: Settled) -> Values:
    """Extra buffers asked for a model without them, or since 0.5.14 of other kernels than Triton's: to 0.5.13 with or without prefixes."""
    s, name = settings_of(settled), settled.question.model.architecture or ""
    if not s.rules.extra_buffer:
        return {"architecture": name} if _told(settled, "extra_buffer") and name in UNBUFFERED else None
    told = _told(settled, "extra_buffer") or _told(settled, "extra_buffer_lazy")
    kernels = Options(settled.question).text("linear_attn_backend") in (None, "triton")
    lacks = bool(name) and (name not in s.rules.extra_buffer or not kernels)
    return {"architecture": name} if told and lacks and _shares(settled) else None


def buffers_without_prefixes(settled: Settled) -> Values:
    return {} if _told(settled, "extra_buffer") and not _shares(settled) else None


def lazy_apart(settled: Settled) -> Values:
    """Lazy buffers asked for in a server of one role, or beside what they do not know yet: drafts to 0.5.16, DFlash in 0.5.17."""
    s, d = settings_of(settled), settled.question
    role = Options(d).text("disaggregation_mode") or "null"
    method, at = s.speculation.method if s.speculation else "", release(s.release)
    drafts = _drafted(settled) > 0 if at < (0, 5, 17) else at < (0, 5, 18) and method == "dflash"
    beside = "under PD disaggregation" if role != "null" and at >= (0, 5, 17) else f"with {method or 'spec'}" if drafts else ""
    return {"beside": beside} if beside and _told(settled, "extra_buffer_lazy") and _shares(settled) else None


def overlap_without_buffers(settled: Settled) -> Values:
    """States kept for prefixes without extra buffers, asked for, under overlap scheduling."""
    overlap = not Options(settled.question).flag("disable_overlap_schedule")
    return {} if _told(settled, "no_buffer") and overlap and _shares(settled) else None


def lazy_without_overlap(settled: Settled) -> Values:
    overlap = not Options(settled.question).flag("disable_overlap_schedule")
    return {} if _told(settled, "extra_buffer_lazy") and not overlap and _shares(settled) else None


def between_tracked(settled: Settled) -> Values:
    """Pages that do not end where a state is kept beside prefixes, every so many tokens; or drafts, as asked for, that step over it."""
    s, d = settings_of(settled), settled.question
    page, every, traits = s.states_page, Options(d).count("mamba_track_interval") or TRACKED, read_traits(settled.model)
    tracked = traits.states and _shares(settled) and with_buffers(d, s.rules, traits, page) != "no_buffer"
    drafted = _drafted(settled)
    return {"every": every, "page": page, "drafted": drafted} if tracked and (every % page or every < drafted) else None


def drafts_beside_prefixes(settled: Settled) -> Values:
    """States that are kept for prefixes without extra buffers, and a draft beside them."""
    s, d = settings_of(settled), settled.question
    traits = read_traits(settled.model)
    kept = s.speculation is not None and traits.states and keeps_prefixes(d, s.rules, traits)
    bare = kept and with_buffers(d, s.rules, traits, s.states_page) == "no_buffer"
    return {"architecture": d.model.architecture or "this model"} if bare else None


def unlisted_layers(settled: Settled) -> Values:
    """A Nemotron-H whose layers are listed by name, in a release that knows letters alone: its first layer of experts finds no place."""
    model = settled.question.model
    if misreads(model, settings_of(settled).rules) != "layers":
        return None
    experts = (i for i, name in enumerate(model.layer_names) if any(m.kind == "moe" for m in model.blocks[name].mlps))
    return {"layer": next(experts, 1)}


def unknown_names(settled: Settled) -> Values:
    return {} if misreads(settled.question.model, settings_of(settled).rules) == "names" else None


def unnumbered_layers(settled: Settled) -> Values:
    return {} if misreads(settled.question.model, settings_of(settled).rules) == "numbers" else None


def _told(settled: Settled, wanted: str) -> bool:
    """Whether that strategy for states beside prefixes is asked for by name, and there are states."""
    told = Options(settled.question).text("mamba_radix_cache_strategy", STRATEGIES) or "auto"
    return told == wanted and read_traits(settled.model).states


def _shares(settled: Settled) -> bool:
    return keeps_prefixes(settled.question, settings_of(settled).rules, read_traits(settled.model))


def _tensors(settled: Settled, form: str, name: str) -> list[CacheTensor]:
    caches = (cache for layer in distinct(settled.model.layers) for cache in layer.caches if cache.form == form)
    return [t for cache in caches for t in cache.tensors if t.name == name]


def _ranks(settled: Settled) -> int:
    s = settings_of(settled)
    return s.split.state_tp or s.layout.attn_tp


def state_heads(settled: Settled) -> Values:
    """Heads of Mamba-2 that ranks can not share evenly (layers/attention/mamba/mamba.py MambaMixer2.__init__)."""
    tp = _ranks(settled)
    return next(({"heads": t.heads, "tp": tp} for t in _tensors(settled, "mamba2", "state") if t.heads % tp), None)


def state_groups(settled: Settled) -> Values:
    """Groups of Mamba-2 that ranks can not share evenly, more than one (the same)."""
    tp = _ranks(settled)
    return next(({"groups": t.heads, "tp": tp} for t in _tensors(settled, "mamba2", "conv_bc") if t.heads % tp and t.heads > 1), None)


def one_state_group(settled: Settled) -> Values:
    """The one group of a quantised Mamba-2 on several ranks (the same)."""
    d, tp = settled.question, _ranks(settled)
    plain = (d.weight_dtype or checkpoint_format(d)) in PLAIN and not Options(d).text("quantization")
    lone = tp > 1 and any(t.heads == 1 for t in _tensors(settled, "mamba2", "conv_bc"))
    return {"tp": tp} if lone and not plain else None


def key_channels(settled: Settled) -> Values:
    """Keys of gated delta nets, whose channels ranks can not share evenly (models/qwen3_next.py, qwen3_5.py create_qkvz_proj)."""
    tp = _ranks(settled)
    sizes = (t.heads * t.elems_per_state // t.columns // 2 for t in _tensors(settled, "gated-delta-net", "conv_qk"))
    return next(({"size": size, "tp": tp} for size in sizes if size % tp), None)


TRACKED = 256  # ServerArgs.mamba_track_interval
_NEWER = Move("engine_version", "a newer release")
_TP = (Move("tp", "a size that divides it"), Move("pp", "more stages instead"))
_UNBUFFERED = Move("option:mamba_radix_cache_strategy", "no_buffer")
_MIXER = "layers/attention/mamba/mamba.py MambaMixer2"
STRATEGY = "server_args.py _validate_mamba_extra_buffer, _no_buffer; arg_groups/mamba_hook.py"

BUFFERS: tuple[Stop, ...] = (
    Stop(
        "attention backend", "hybrid_linear_attn backend can only be used with hybrid GDN models.", "it is Qwen3-Next's alone",
        (Move("option:attention_backend", "none"),), "model_executor/model_runner.py", since="0.5.2", before="0.5.3", when=no_gated_states,
    ),
    Stop(
        "states in pages", "no_buffer only supports page_size=1.",
        "this model's states and a prefix cache go together in pages of one token",
        (Move("block_size", "1"), Move("option:disable_radix_cache", "true")),
        "server_args.py _validate_mamba_no_buffer; arg_groups/mamba_hook.py", since="0.5.14", when=paged_states,
        numbers="pages of {page} tokens",
    ),
    Stop(
        "extra buffers", "mamba extra_buffer is not supported for {architecture} model",
        "this release keeps this model's states without extra buffers", (_UNBUFFERED, _NEWER), "server_args.py _handle_mamba_radix_cache",
        since="0.5.7", before="0.5.14", when=buffers_not_supported,
    ),
    Stop(
        "extra buffers", "extra_buffer is not supported for {architecture}; use no_buffer.",
        "this release keeps this model's states without extra buffers", (_UNBUFFERED,), STRATEGY, since="0.5.14",
        when=buffers_not_supported,
    ),
    Stop(
        "extra buffers", "mamba extra_buffer is not compatible with --disable-radix-cache",
        "extra buffers are for states that a prefix cache keeps", (_UNBUFFERED, Move("option:disable_radix_cache", "false")),
        "server_args.py _handle_mamba_radix_cache", since="0.5.10", before="0.5.14", when=buffers_without_prefixes,
    ),
    Stop(
        "tracked states", "assert mamba_track_interval % page_size == 0",
        "with extra buffers a state is kept every mamba_track_interval tokens, at the end of a page and no sooner than a step of drafts",
        (Move("block_size", "a size that divides it"), Move("option:disable_radix_cache", "true")), STRATEGY, since="0.5.8",
        when=between_tracked, numbers="every {every} tokens, pages of {page}, {drafted} drafted",
    ),
    Stop(
        "overlap without buffers", "no_buffer do not support overlap schedule. Try to set disable_overlap_schedule=True.",
        "states that a prefix cache keeps without extra buffers are not ready for the next batch",
        (Move("option:disable_overlap_schedule", "true"), Move("option:mamba_radix_cache_strategy", "extra_buffer")), STRATEGY,
        since="0.5.14", when=overlap_without_buffers,
    ),
    Stop(
        "lazy buffers", "Lazy extra buffer requires overlap schedule (--disable-overlap-schedule is incompatible)",
        "buffers that are taken when needed are for batches that overlap",
        (Move("option:mamba_radix_cache_strategy", "extra_buffer"), Move("option:disable_overlap_schedule", "false")),
        "mem_cache/kv_cache_configurator.py", since="0.5.14", when=lazy_without_overlap,
    ),
    Stop(
        "lazy buffers", "extra_buffer_lazy unsupported {beside:t}",
        "these buffers know no server of one role and, to 0.5.17, not all drafts",
        (Move("option:mamba_radix_cache_strategy", "extra_buffer"),), STRATEGY, since="0.5.14", when=lazy_apart,
    ),
    Stop(
        "drafts beside states",
        "Speculative decoding for {architecture} is not compatible with radix cache when using --mamba-scheduler-strategy no_buffer.",
        "this model's states are not kept for prefixes beside a draft without extra buffers",
        (Move("option:mamba_radix_cache_strategy", "extra_buffer"), Move("option:disable_radix_cache", "true")),
        "server_args.py _handle_mamba_radix_cache", since="0.5.10", before="0.5.14", when=drafts_beside_prefixes,
    ),
)  # fmt: skip

RANKS: tuple[Stop, ...] = (
    Stop(
        "heads of states", "Tensor parallel world size must divide num heads.", "states have heads that are dealt out evenly",
        _TP, _MIXER, since="0.5.1", when=state_heads, loading=True, numbers="{heads} heads of states over {tp} ranks",
    ),
    Stop(
        "groups of states", "If tensor parallel world size does not divide num_groups, then num_groups must equal 1.",
        "heads of states share groups that are dealt out evenly", _TP, _MIXER, since="0.5.1", when=state_groups, loading=True,
        numbers="{groups} groups over {tp} ranks",
    ),
    Stop(
        "groups of states",
        "Tensor parallel currently supported for quantized models only if tensor parallel world size divides num groups.",
        "the one group of all heads is not copied to ranks in a quantised layer", (Move("tp", "1"), Move("weight_dtype", "bf16")), _MIXER,
        since="0.5.1", when=one_state_group, loading=True, numbers="one group over {tp} ranks",
    ),
    Stop(
        "keys of states", "AssertionError: {size} is not divisible by {tp}", "channels of keys are dealt out evenly", _TP,
        "distributed/utils.py ensure_divisibility; layers/linear.py ColumnParallelLinear", since="0.5.2", when=key_channels, loading=True,
    ),
    Stop(
        "GLM's list of layers", "The `layer_types` entries must be in",
        "the transformers of this release know no deepseek_sparse_attention", (_NEWER,),
        "transformers 5.6 to 5.8 configuration_utils.py validate_layer_type", since="0.5.11", before="0.5.15",
        near=("deepseek_sparse_attention",), when=unknown_names, numbers="deepseek_sparse_attention is none of them",
    ),
    Stop(
        "Kimi Linear's list of layers", "TypeError: 'NoneType' object is not subscriptable",
        "layers are numbered in linear_attn_config, which this config.json does not have",
        (Move("", "a checkpoint whose config has it"),), "configs/kimi_linear.py KimiLinearConfig mamba2_cache_params", since="0.5.5",
        near=("linear_attn_config",), when=unnumbered_layers, numbers="layer_types is not read",
    ),
    Stop(
        "Nemotron's list of layers", "KeyError: 'model.layers.{layer}.mixer.experts.w13_weight'",
        "this release does not know layers_block_type and takes its own pattern of 52 layers, in which there are no experts",
        (_NEWER,), "configs/nemotron_h.py NemotronHConfig; models/nemotron_h.py load_weights", since="0.5.4", before="0.5.10",
        when=unlisted_layers, loading=True, numbers="layers_block_type is not read: its class's own pattern of layers is taken",
    ),
)  # fmt: skip
