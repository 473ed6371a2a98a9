"""When SGLang's checks stop a settled question, as the numbers of their texts (refusals.py)."""

from __future__ import annotations

from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import Options, read_lora
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Values
from kvplan.engines.sglang.as_read import misreads
from kvplan.engines.sglang.backends import named_backends
from kvplan.engines.sglang.classes import NEVER_STAGED, STAGED_SINCE, TEXT_ALONE
from kvplan.engines.sglang.exchange import copies
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.settle import settings_of
from kvplan.engines.sglang.traits import keeps_prefixes, read_traits

#: `get_min_capability` of the quantisation configs: format or family -> the method, and what it needs.
CAPABILITIES: dict[str, tuple[str, int]] = {
    "awq": ("awq", 75), "fp8": ("fp8", 80), "mxfp4": ("mxfp4", 80), "mxfp8": ("fp8", 100), "bitsandbytes": ("bitsandbytes", 70),
}  # fmt: skip
FP4_BEFORE, FP4_AFTER = {"nvfp4": ("modelopt_fp4", 100)}, {"nvfp4": ("modelopt_fp4", 80)}
BLOCK = 128


def attention_ranks(settled: Settled) -> Values:
    """Attention data parallelism over a number that does not divide tp: settled without it (settle.read_shape)."""
    layout, dp = settings_of(settled).layout, settled.question.dp or 1
    return {"tp": layout.tp, "dp": dp} if Options(settled.question).flag("enable_dp_attention") and layout.tp % dp else None


def expert_ranks(settled: Settled) -> Values:
    """Experts over a number of ranks that does not divide tp: settled without (settle.read_shape)."""
    tp, ep = settings_of(settled).layout.tp, settled.question.ep or 1
    return {"tp": tp, "ep": ep} if tp % ep else None


def context_ranks(settled: Settled) -> Values:
    """Decode context parallelism over a number of ranks that does not divide tp: settled without (settle.read_shape)."""
    tp, dcp = settings_of(settled).layout.tp, settled.question.dcp or 1
    return {"tp": tp, "dcp": dcp} if tp % dcp else None


def context_over_groups(settled: Settled) -> Values:
    """Decode context parallelism over more ranks than an attention group has: settled without (layout.read_shape)."""
    shape, dcp = settings_of(settled).layout, settled.question.dcp or 1
    return {"dcp": dcp, "group": shape.attn_tp} if shape.dcp < dcp and shape.tp % dcp == 0 else None


def longer(settled: Settled) -> Values:
    s = settings_of(settled)
    most, asked = s.most_context, s.pools.context_len
    return {"length": asked, "most": most} if most and asked > most and not s.allow_long else None


def longer_than_drafter(settled: Settled) -> Values:
    """A drafter of its own takes the target's length, asked for or the model's own (eagle_worker.py, standalone_worker.py __init__)."""
    s, d = settings_of(settled), settled.question
    most = d.drafter.max_context if d.drafter else None
    asked = s.pools.context_len
    return {"length": asked, "most": most} if most and asked > most and not s.allow_long else None


def rope_by_head_dim(settled: Settled) -> Values:
    """Latent attention with a wider rotary part than the checkpoint's: the rows of its first projection, q and KV ranks among them."""
    model = settled.question.model
    if misreads(model, settings_of(settled).rules) != "rope":
        return None
    ranks = next(vars(m) for block in model.blocks.values() for m in block.mixers if hasattr(m, "kv_lora_rank"))
    rows = (ranks.get("q_lora_rank") or 0) + ranks["kv_lora_rank"] + (model.stated_head_dim or 0)
    return {"rows": rows, "hidden": model.hidden_size, "rope": model.stated_head_dim}


def heads(settled: Settled) -> Values:
    return on.uneven_heads(settled.model, settings_of(settled).layout.attn_tp)


def _kv(settled: Settled) -> Values:
    return on.uneven_kv_heads(settled.model, settings_of(settled).layout.attn_tp)


def kv_dealt(settled: Settled) -> Values:
    found = _kv(settled)
    return found if found and int(str(found["kv_heads"])) > int(str(found["tp"])) else None


def kv_copied(settled: Settled) -> Values:
    return _kv(settled)


def chunk(settled: Settled) -> Values:
    """A chunk that is no whole pages; up to 0.4.10 also a -1 (not a 0) that is none, up to 0.4.9 before groups share it and a backend
    changes the page.

    Up to 0.5.12 a class that takes prompts whole does so only later; a server that only decodes is not asked since 0.5.3.
    """
    s, options, at = settings_of(settled), Options(settled.question), release(settings_of(settled).release)
    if options.text("disaggregation_mode") == "decode" and at >= (0, 5, 3):
        return None
    page = s.asked_page if at < (0, 4, 10) else s.pools.page
    tokens = (
        max(s.pools.chunk, 0)
        if at >= (0, 5, 13)
        else (settled.question.max_num_batched_tokens or 0) // (s.layout.attention_dp if at >= (0, 4, 10) else 1)
    )
    if options.flag("disable_chunked_prefill"):
        tokens = -1 if at < (0, 5) and not options.flag("zero_chunk") else 0
    return {"chunk": tokens, "page": page} if tokens % page else None


#: Attention backends that came later than the first release -> the one that has them (choices of server_args.py).
_BACKENDS = {"trtllm_mla": (0, 4, 10), "trtllm_mha": (0, 5), "flex_attention": (0, 5, 3), "fa4": (0, 5, 3)}
_GONE = {"cutlass_mla": (0, 5, 20)}


def no_backend(settled: Settled) -> Values:
    at = release(settings_of(settled).release)
    asked = [name for name in named_backends(settled.question) if name]
    missing = [name for name in asked if at < _BACKENDS.get(name, ()) or (name in _GONE and at >= _GONE[name])]
    return {"backend": missing[0]} if missing else None


def stages(settled: Settled) -> Values:
    """A class that this release does not cut into stages; None for one that was not read."""
    s, named = settings_of(settled), settled.question.model.architecture or ""
    since = STAGED_SINCE.get(named)
    whole = release(s.release) < release(since) if since else named in NEVER_STAGED
    return {"architecture": named} if s.layout.pp > 1 and whole else None


def staged_drafts(settled: Settled) -> Values:
    s = settings_of(settled)
    return {"method": s.speculation.method} if s.layout.pp > 1 and s.speculation else None


def staged_other_drafts(settled: Settled) -> Values:
    s = settings_of(settled)
    return staged_drafts(settled) if s.speculation and s.speculation.method not in ("eagle", "mtp", "nextn") else None


def _hierarchical(settled: Settled) -> bool:
    return Options(settled.question).flag("enable_hierarchical_cache")


def tier_without_prefixes(settled: Settled) -> Values:
    """... as asked, or since 0.5.6 by the model's class, which to then turns it off only later (model_runner.py), as does determinism to
    0.5.11 (server_args.py __post_init__)."""
    s, off = settings_of(settled), Options(settled.question).flag("disable_radix_cache")
    if off and not s.told_off and release(s.release) < (0, 5, 12):
        return None
    classed = release(s.release) >= (0, 5, 6) and not keeps_prefixes(settled.question, s.rules, read_traits(settled.model))
    return {} if _hierarchical(settled) and (off or classed) else None


def tier_over_context_ranks(settled: Settled) -> Values:
    """A host tier under decode context parallelism, of a model without latent attention."""
    shared = (settled.question.dcp or 1) > 1 and bool(on.kv_heads(settled.model))
    return {} if _hierarchical(settled) and shared else None


def tier_over_context_ranks_drafts(settled: Settled) -> Values:
    """... of drafts beside latent attention; DSpark's has pools that know it since 0.5.18."""
    s = settings_of(settled)
    takes = ("dspark",) if release(s.release) >= (0, 5, 18) else ()
    odd = _hierarchical(settled) and (settled.question.dcp or 1) > 1 and s.speculation and s.speculation.method not in takes
    return {"method": s.speculation.method} if odd and s.speculation else None


def window_share(settled: Settled) -> Values:
    share = Options(settled.question).number("swa_full_tokens_ratio")
    return {"share": share} if share is not None and not 0 < share <= 1 else None


def mxfp8_cache(settled: Settled) -> Values:
    d, has = settled.question, on.capability(settled.question)
    if d.kv_dtype != "mxfp8" or not (on_amd(d) or (has is not None and has < 100)):
        return None
    return {"has": on.version_of(has) if has else "no compute capability"}


def compressed_drafts(settled: Settled) -> Values:
    """DeepSeek-V4 with a drafter other than its own modules."""
    s, named = settings_of(settled), settled.question.model.architecture or ""
    drafts = s.speculation.method if s.speculation else "mtp"
    return {"kind": named} if named.startswith("DeepseekV4") and drafts not in ("mtp", "nextn", "eagle", "dspark") else None


def early_compressed_drafts(settled: Settled) -> Values:
    s = settings_of(settled)
    return None if s.speculation and s.speculation.method == "dspark" else compressed_drafts(settled)


def flex_drafts(settled: Settled) -> Values:
    asked = named_backends(settled.question).both == "flex_attention"
    return {} if asked and settings_of(settled).speculation else None


def text_alone(settled: Settled) -> Values:
    s, named = settings_of(settled), settled.question.model.architecture
    if not Options(settled.question).flag("language_model_only") or named is None:
        return None
    since = TEXT_ALONE.get(named)
    return None if since and release(s.release) >= release(since) else {"architecture": named}


def _adapted_drafts(settled: Settled, takes: tuple[str, ...]) -> Values:
    s = settings_of(settled)
    return (
        {"method": s.speculation.method}
        if read_lora(settled.question.lora) and s.speculation and s.speculation.method not in takes
        else None
    )


def early_adapted_drafts(settled: Settled) -> Values:
    return _adapted_drafts(settled, ("ngram",))


def adapted_drafts(settled: Settled) -> Values:
    return _adapted_drafts(settled, ("ngram", "mtp", "nextn", "eagle", "eagle3", "dflash", "dspark"))


def too_old(settled: Settled) -> Values:
    """The check reads the minor number alone, below 8.0 (model_runner.py load_model)."""
    has = on.capability(settled.question)
    return {"has": on.version_of(has)} if has is not None and has < 80 and has % 10 < 5 else None


def capability(settled: Settled) -> Values:
    own = {"mxfp8": CAPABILITIES["fp8"]} if settled.question.model.method == "fp8" else {}  # in blocks, by its own kernels
    return on.quantised_below(settled, CAPABILITIES | own)


def fp4_before(settled: Settled) -> Values:
    return on.quantised_below(settled, FP4_BEFORE)


def fp4_after(settled: Settled) -> Values:
    return on.quantised_below(settled, FP4_AFTER)


def flash3(settled: Settled) -> Values:
    """fa3 runs on 8.x without latent attention, and on 9.x."""
    has = on.capability(settled.question)
    if named_backends(settled.question).both != "fa3" or has is None or has // 10 == 9:
        return None
    latent = on.latent(settled)
    return None if has // 10 == 8 and not latent else {"has": on.version_of(has)}


def _experts(settled: Settled) -> tuple[int, int, int, int]:
    """The experts' width, their tensor and expert parallel sizes, tp. Width 0: none in blocks of FP8."""
    shape = settings_of(settled).layout
    found = (p for p in on.parts(settled, 1) if p.name == "expert_down" and p.format == "fp8_block128")
    return next((p.inputs for p in found), 0), shape.tp // shape.ep, shape.ep, shape.tp


def experts_width(settled: Settled) -> Values:
    width, moe_tp, ep, tp = _experts(settled)
    return {"width": width, "moe_tp": moe_tp, "tp": tp, "ep": ep} if width % moe_tp else None


def experts_blocks(settled: Settled) -> Values:
    width, moe_tp, ep, tp = _experts(settled)
    odd = width % moe_tp == 0 and (width // moe_tp) % BLOCK
    return {"width": width, "moe_tp": moe_tp, "block": BLOCK, "tp": tp, "ep": ep} if odd else None


def early_experts_blocks(settled: Settled) -> Values:
    width, moe_tp, _, _ = _experts(settled)
    return {"side": width // moe_tp, "block": BLOCK} if (width // moe_tp) % BLOCK else None


#: Classes whose Q, K and V may end within a block (`skip_block_quant_check` in models/mimo_v2.py, mimo_v2_flash.py).
_UNCHECKED = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM")


def _blocks(settled: Settled, row: bool) -> Values:
    shape = settings_of(settled).layout
    attention = ("o",) if settled.question.model.architecture in _UNCHECKED else ("o", "q", "k", "v")
    for roles, tp in ((attention, shape.attn_tp), (("mlp_up", "mlp_gate", "mlp_down"), shape.tp)):
        for part, side in on.split_blocks(settled, tp, block=BLOCK, format_="fp8_block128", experts_whole=True):
            if part.name in roles and part.row is row:
                return {"side": side, "block": BLOCK}
    return None


def block_in(settled: Settled) -> Values:
    return _blocks(settled, row=True)


def block_out(settled: Settled) -> Values:
    return _blocks(settled, row=False)


def groups(settled: Settled) -> Values:
    if settled.question.weight_dtype not in (None, checkpoint_format(settled.question)):
        return None
    found = on.split_groups(settled, settings_of(settled).layout.attn_tp, ("awq", "gptq"))
    return next(({"inputs": part.inputs, "group": group} for part, group in found), None)


def unshared_experts(settled: Settled) -> Values:
    return {} if Options(settled.question).flag("enable_eplb") and (settled.question.ep or 1) == 1 else None


def uneven_experts(settled: Settled) -> Values:
    """Experts and their copies that the ranks can not share evenly, where either is asked for."""
    d, n = settled.question, on.experts(settled.model)
    asked, ep = copies(d) or Options(d).flag("enable_eplb"), d.ep or 1
    return {"experts": n + copies(d), "ep": ep} if n and asked and (n + copies(d)) % ep else None
