"""What Inkling's own class does not start with: models/inkling.py, inkling_common/attn.py, 0.5.16 to 0.5.23."""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.sglang.backends import TRTLLM_MHA, is_blackwell, named_backends, usual
from kvplan.engines.sglang.drafts import is_tree
from kvplan.engines.sglang.inkling import CLASS, SINCE, drafts_itself, drafts_own
from kvplan.engines.sglang.settle import settings_of
from kvplan.engines.sglang.traits import read_traits

_BY_PHASE = "0.5.18"  # the release from which a layer asks for the backend of the phase at hand


def _serves(settled: Settled) -> bool:
    """Whether prompts go through the class: one that only decodes is not asked (InklingForConditionalGeneration.__init__)."""
    d = settled.question
    return d.model.architecture == CLASS and Options(d).text("disaggregation_mode") != "decode"


def no_prefixes(settled: Settled) -> Values:
    return {} if _serves(settled) and Options(settled.question).flag("disable_radix_cache") else None


def one_pool_of_both(settled: Settled) -> Values:
    return {} if _serves(settled) and Options(settled.question).flag("disable_hybrid_swa_memory") else None


def no_buffers(settled: Settled) -> Values:
    return {} if _serves(settled) and Options(settled.question).text("mamba_radix_cache_strategy") == "no_buffer" else None


def other_backend(settled: Settled) -> Values:
    """A backend whose kernels know no relative positions, named or picked for a phase that none is named of."""
    d, s = settled.question, settings_of(settled)
    if d.model.architecture != CLASS:
        return None
    said = named_backends(d)
    phases = said.phases if release(s.release) >= release(_BY_PHASE) else (said.both,)
    unnamed = TRTLLM_MHA if is_blackwell(d) else usual(d, s.rules, read_traits(settled.model))
    found = (one or unnamed for one in phases)
    odd = next((one for one in found if one not in (None, "fa4", "triton")), None)
    return {"backend": odd} if odd else None


def one_module(settled: Settled) -> Values:
    """Drafts by one module for all steps: the published modules are of two kinds."""
    d = settled.question
    return {} if drafts_own(d) and not drafts_itself(d) else None


def tree_of_modules(settled: Settled) -> Values:
    s = settings_of(settled).pools
    steps, tokens = s.draft_steps, s.draft_tokens
    return {"tokens": tokens, "steps": steps} if drafts_itself(settled.question) and is_tree(settled.question) else None


_CLASS = "models/inkling.py InklingForConditionalGeneration.__init__"
STOPS: tuple[Stop, ...] = (
    Stop(
        "Inkling without prefixes", "assert not server_args.disable_radix_cache", "this model's class wants a prefix cache",
        (Move("option:disable_radix_cache", "false"),), _CLASS, since=SINCE, when=no_prefixes,
    ),
    Stop(
        "Inkling's pools", "assert not server_args.disable_hybrid_swa_memory", "this model's class wants a pool for windows",
        (Move("option:disable_hybrid_swa_memory", "false"),), _CLASS, since=SINCE, when=one_pool_of_both,
    ),
    Stop(
        "Inkling's buffers", "assert server_args.enable_mamba_extra_buffer()", "this model's class wants states with extra buffers",
        (Move("option:mamba_radix_cache_strategy", "extra_buffer"),), _CLASS, since=SINCE, when=no_buffers,
    ),
    Stop(
        "attention backend", "assert server_args.attention_backend in ('fa4', 'triton')", "another backend has no relative positions",
        (Move("option:attention_backend", "fa4 or triton"),), "models/inkling_common/attn.py", since=SINCE, when=other_backend,
        numbers="not {backend}",
    ),
    Stop(
        "Inkling's drafts", "a banded MTP head (mtp_local_layer_ids set) requires --enable-multi-layer-eagle",
        "its modules, with windows and without, draft a step each",
        (Move("option:enable_multi_layer_eagle", "true"), Move("speculative", "off")),
        "models/inkling.py InklingForConditionalGenerationMTP.__init__", since=SINCE, when=one_module,
    ),
    Stop(
        "a chain of modules", "multi-layer EAGLE requires speculative_num_draft_tokens == speculative_num_steps + 1",
        "a module for each step drafts one token, and no branches", (Move("option:speculative_num_draft_tokens", "one more than steps"),),
        "speculative/multi_layer_eagle_worker_v2.py", since=SINCE, when=tree_of_modules, numbers="{tokens} tokens, {steps} steps",
    ),
)  # fmt: skip
