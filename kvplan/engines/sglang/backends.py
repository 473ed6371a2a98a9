"""The attention backend that SGLang picks on data-centre Blackwell (compute capability 10.x), where it sets the page size.

Read from server_args.py of 0.5.3 to 0.5.18 and arg_groups/attention_hook.py, model_override_base.py get_default_attn_backend and
model_overrides/* of 0.5.19 to 0.5.23; on other GPUs no default has pages of its own.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.sglang.classes import LATENT_BLACKWELL, UNPAGED_STATES
from kvplan.engines.sglang.rules import SglangRules
from kvplan.engines.sglang.traits import Traits

TRTLLM_MHA, TRTLLM_MLA, FA4 = "trtllm_mha", "trtllm_mla", "fa4"


def is_blackwell(d: Deployment) -> bool:
    """B200, B300 and their like (is_sm100_supported), not RTX cards."""
    return 100 <= (capability(d) or 0) < 110


def picked(d: Deployment, rules: SglangRules, traits: Traits) -> str | None:
    """The backend picked where none is asked for, if pages follow it; None: they are as asked, or of one token."""
    named = d.model.architecture or ""
    if not is_blackwell(d) or traits.compressed or traits.pooled_index is not None:
        return None
    if traits.latent:
        return TRTLLM_MLA if rules.latent_blackwell and named in LATENT_BLACKWELL else None
    if named in rules.blackwell:
        return rules.blackwell[named] or None
    if traits.states:
        return TRTLLM_MHA if _lets_pages(d, rules) else None
    if not rules.blackwell_heads or not _one_draft(d):
        return None
    return FA4 if rules.blackwell_fa4 and traits.uneven else TRTLLM_MHA


def forced_page(d: Deployment, rules: SglangRules, traits: Traits) -> int | None:
    """The page of Qwen3-Next and its like, whatever is asked for; None: another's, or a backend was named."""
    if d.model.architecture not in UNPAGED_STATES or rules.unpaged_states != "set" or not is_blackwell(d) or not traits.states:
        return None
    if Options(d).text("attention_backend"):
        return None
    return 64 if _lets_pages(d, rules) else 1


def _lets_pages(d: Deployment, rules: SglangRules) -> bool:
    """Qwen3-Next and its like where states need no pages of one token: without a prefix cache, with extra buffers, beside drafts."""
    if d.model.architecture not in UNPAGED_STATES or not rules.unpaged_states or not _one_draft(d):
        return False
    options = Options(d)
    buffered = options.text("mamba_radix_cache_strategy") in ("extra_buffer", "extra_buffer_lazy")
    return buffered or options.flag("disable_radix_cache") or read_speculative(d.speculative) is not None


def _one_draft(d: Deployment) -> bool:
    """Nothing drafts, or a chain does in pages that were not asked to be larger (utils is_no_spec_infer_or_topk_one)."""
    spec = read_speculative(d.speculative)
    if spec is None:
        return True
    told = Options(d).count("speculative_num_draft_tokens")
    chain = spec.method != "ngram" and (not told or told == spec.tokens + 1)
    return chain and d.block_size in (None, 1)
