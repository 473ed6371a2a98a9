"""What a model's layers say about it, and how its states and a prefix cache live together."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.releases import in_force
from kvplan.engines.sglang.rules import SglangRules
from kvplan.forms import STATES
from kvplan.tensors import Lowered, distinct

STRATEGIES = ("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy")


class Traits(NamedTuple):
    """What of the model moves defaults. pooled_index: tokens per indexer key (None: none); shared: layers read another's cache.

    encodes: it is an encoder. uneven: rows of K and V differ in width.
    kda, gated: its states are of Kimi Delta Attention; of gated delta nets.
    """

    latent: bool
    pooled_index: int | None
    compressed: bool
    windows: bool
    states: bool
    shared: bool
    cross: bool
    encodes: bool
    uneven: bool
    kda: bool
    gated: bool


def read_traits(model: Lowered) -> Traits:
    """What the lowered layers say about the model."""
    caches = [cache for layer in distinct(model.layers) for cache in layer.caches]
    tensors = [t for cache in caches for t in cache.tensors]
    forms = {cache.form for cache in caches}
    pooled = [
        t.tokens_per_state or 1
        for c in caches
        if c.form in ("latent+index", "latent+pooled-index")
        for t in c.tensors
        if t.name == "index_k"
    ]
    return Traits(
        latent=any(form.startswith(("latent", "compressed")) for form in forms),
        pooled_index=max(pooled, default=None),
        compressed=any(form.startswith("compressed") for form in forms),
        windows=any(t.keep.kind in ("window", "chunk") for t in tensors),
        states=bool(forms & STATES),
        shared="shared" in forms,
        cross="encoder-kv" in forms,
        encodes=all(cache.kind == "encoder" for cache in caches if cache.kind),
        uneven=any(len({t.elems_per_state for t in cache.tensors if t.name in ("k", "v")}) > 1 for cache in caches),
        kda="kda" in forms,
        gated="gated-delta-net" in forms,
    )


def keeps_prefixes(d: Deployment, rules: SglangRules, traits: Traits) -> bool:
    """Whether there is a prefix cache: early releases have none for recurrent models, or for some; Whisper has none."""
    without = (traits.states and rules.radix_states == "none") or d.model.architecture in rules.no_radix
    unshared = rules.drafts_unshared is None or d.model.architecture in rules.drafts_unshared
    if unshared and traits.states and read_speculative(d.speculative):
        without = without or with_buffers(d, rules, traits, d.block_size or 1) == "no_buffer"
    if rules.mha_unshared and traits.states and Options(d).text("attention_backend") == "trtllm_mha":
        without = without or with_buffers(d, rules, traits, d.block_size or 1) == "no_buffer"
    return not without and not Options(d).flag("disable_radix_cache")


def verifies(d: Deployment, traits: Traits) -> bool:
    """Whether states have copies for drafts: a server that only prefills verifies none, from 0.5.22 on and outside of one pool.

    mem_cache/kv_cache_configurator.py _pd_prefill_skips_mamba_spec_state.
    """
    prefills = Options(d).text("disaggregation_mode") == "prefill" and not Options(d).flag("enable_unified_memory")
    return not (traits.states and prefills and in_force("0.5.22", "", d.engine_version))


def with_buffers(d: Deployment, rules: SglangRules, traits: Traits, page: int) -> str:
    """The strategy by which states and a prefix cache live together (arg_groups/overrides.py)."""
    told = Options(d).text("mamba_radix_cache_strategy", STRATEGIES) or "auto"
    if rules.spare_states:
        return "extra_buffer"  # 0.5.7 counts them for either strategy
    overlap = not Options(d).flag("disable_overlap_schedule")
    if told != "auto":
        return told
    if rules.no_buffer_pages and Options(d).text("linear_attn_backend") not in (None, "triton"):  # both since 0.5.14
        return "no_buffer"
    return "extra_buffer" if (overlap or page > 1) and traits.states and d.model.architecture in rules.extra_buffer else "no_buffer"


def slots_per_request(strategy: str, radix: bool, overlap: bool, unlocked: bool = False) -> int:
    """State slots that one running request needs: itself, what the prefix cache locks, and the buffers of overlap scheduling.

    unlocked  with buffers it locks one less (kv_cache_configurator.py _calculate_mamba_ratio, 0.5.17 to 0.5.23)
    """
    if not radix:
        return 1
    return (
        3 + {"no_buffer": 0, "extra_buffer_lazy": 1, "extra_buffer": 2 if overlap else 1}[strategy] - (unlocked and strategy != "no_buffer")
    )


def keeps_index(options: Options, rules: SglangRules) -> bool:
    """Whether every layer keeps index keys, its own or another's (mem_cache/kv_cache_configurator.py _should_elide_dsa_index_k)."""
    moved = options.flag("enable_hierarchical_cache") or options.text("disaggregation_mode") in ("prefill", "decode")
    return not rules.dsa_elides or options.flag("enable_hisparse") or (rules.dsa_elides == "alone" and moved)
