"""The attention backend that SGLang picks: on data-centre Blackwell (compute capability 10.x) it sets the page size.

Read from server_args.py of 0.5.3 to 0.5.18 and arg_groups/attention_hook.py, model_override_base.py get_default_attn_backend and
model_overrides/* of 0.5.19 to 0.5.23; on other GPUs no default has pages of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.releases import in_force
from kvplan.engines.sglang.classes import LATENT_BLACKWELL, STATES_OF_ALL, UNPAGED_STATES
from kvplan.engines.sglang.drafts import is_tree
from kvplan.engines.sglang.pages import BACKENDS, DECODE_ALONE
from kvplan.engines.sglang.rules import SglangRules
from kvplan.engines.sglang.traits import Traits

#: Options that a release takes any word for, and the words that it knows when it comes to them (layers/attention, dllm/algorithm).
WORDS: dict[str, tuple[str, ...]] = {
    "speculative_draft_attention_backend": tuple(BACKENDS),
    "dllm_algorithm": ("LowConfidence", "JointThreshold", "JointThresholdInDel", "Gemma4Renoise"),
}
TRTLLM_MHA, TRTLLM_MLA, FA4 = "trtllm_mha", "trtllm_mla", "fa4"
#: Backends whose results do not depend on the batch; of these the first have no prefix cache then (server_args.py 0.5.3 to 0.5.23).
UNSHARED, SHARED = ("flashinfer",), ("fa3", "triton", "fa4")
DETERMINISTIC = (*UNSHARED, *SHARED)
#: Classes that have Triton's kernels where they have none of NVIDIA's, by the first release; EXAONE's with windows.
_TRITON_ELSEWHERE = {
    "Gemma4ForConditionalGeneration": "", "Gemma4UnifiedForConditionalGeneration": "", "Gemma4ForCausalLM": "0.5.13",
    "Olmo2ForCausalLM": "0.5.4", "Exaone4ForCausalLM": "0.5.9", "ExaoneMoEForCausalLM": "0.5.9", "ExaoneMoeForCausalLM": "0.5.9",
}  # fmt: skip
#: Classes whose backend is set before (arg_groups/model_overrides/gemma4.py).
_OWN = ("Gemma4",)
#: Classes whose own backend is taken where none is named of either phase, too (is_attention_backend_not_set).
_ALONE = ("Gemma4", "GptOss", "NemotronH")


class Named(NamedTuple):
    """The backends that a question names: of both phases, of decoding, of prompts."""

    both: str | None
    decode: str | None
    prefill: str | None

    @property
    def phases(self) -> tuple[str | None, str | None]:
        """What prompts and decoding run on, where it is named."""
        return self.prefill or self.both, self.decode or self.both


def named_backends(d: Deployment) -> Named:
    """Both phases named alike are a backend of both (handle_attention_backend_compatibility)."""
    both, decode, prefill = (Options(d).text(f"{phase}attention_backend") for phase in ("", "decode_", "prefill_"))
    return Named(prefill if prefill and prefill == decode else both, decode, prefill)


def paged(d: Deployment, rules: SglangRules, traits: Traits) -> tuple[str, ...]:
    """Backends whose pages bind: that of both phases, named or picked, and those of a phase which look at it."""
    said = named_backends(d)
    both = said.both or picked(d, rules, traits)
    found = {both, said.decode, None if said.prefill in DECODE_ALONE else said.prefill}
    if Options(d).text("speculative_draft_attention_backend") == TRTLLM_MHA and in_force("0.5.17", "", d.engine_version):
        found.add(TRTLLM_MHA)
    if not rules.ascend_pages or both != "ascend":
        found.discard("ascend")
    if not rules.xpu_phases and both != "intel_xpu":
        found.discard("intel_xpu")
    if rules.fa4_pages == "prefill" and said.prefill != FA4:
        found.discard(FA4)
    branches = rules.fa4_pages == "any" and (Options(d).count("speculative_eagle_topk") or 1) > 1  # whose pages stay as they are asked for
    if not rules.fa4_pages or (rules.fa4_blackwell and not is_blackwell(d)) or branches:
        found.discard(FA4)
    return tuple(name for name in found if name)


def before_drafts(asked: Deployment, d: Deployment) -> Deployment:
    """The question as pages are made of it: before a release picks how drafts branch (server_args.py handles backends first)."""
    key = "speculative_eagle_topk"
    return d if Options(asked).count(key) else replace(d, engine_option=tuple(one for one in d.engine_option if one[0] != key))


def is_blackwell(d: Deployment) -> bool:
    """B200, B300 and their like (is_sm100_supported), not RTX cards."""
    return 100 <= (capability(d) or 0) < 110


def is_hopper(d: Deployment) -> bool:
    """H100, H200 and their like (is_sm90_supported)."""
    return (capability(d) or 0) // 10 == 9


def whole_sinks(d: Deployment, rules: SglangRules) -> bool:
    """Whether gpt-oss has no window pool: under trtllm_mha of a phase, which 10.x has by default, or beside drafts (server_args.py)."""
    said = named_backends(d)
    kernels = TRTLLM_MHA in said or (is_blackwell(d) and said.phases == (None, None))
    return bool(rules.whole_sinks) and (kernels or (rules.whole_sinks == "drafts" and read_speculative(d.speculative) is not None))


def is_sparse(d: Deployment, traits: Traits) -> bool:
    """An indexer whose attention is sparse: its backend is set where none is named of either phase (is_attention_backend_not_set)."""
    return traits.pooled_index is not None and named_backends(d).phases == (None, None)


def picked(d: Deployment, rules: SglangRules, traits: Traits) -> str | None:
    """The backend picked where none is asked for, if pages follow it; None: they are as asked, or of one token."""
    named = d.model.architecture or ""
    if not is_blackwell(d) or traits.compressed or traits.pooled_index is not None:
        return None
    early = named.startswith("GptOss") and in_force("", "0.5.4", d.engine_version)  # is_attention_backend_not_set is of 0.5.4
    of_a_phase = named_backends(d).phases != (None, None) and not early
    if traits.latent:
        return TRTLLM_MLA if rules.latent_blackwell and named in LATENT_BLACKWELL and not of_a_phase else None
    if named in rules.blackwell and not (of_a_phase and named.startswith(_ALONE)):
        return None if named.startswith("NemotronH") and is_tree(d) else rules.blackwell[named] or None
    if traits.states:
        alone = named in STATES_OF_ALL and rules.blackwell_heads and _one_draft(d)  # classes that have what others have
        return TRTLLM_MHA if alone or _lets_pages(d, rules) or _no_prefixes(d, rules) else None
    if not rules.blackwell_heads or not _one_draft(d):
        return None
    return FA4 if rules.blackwell_fa4 and traits.uneven else TRTLLM_MHA


def forced_page(d: Deployment, rules: SglangRules, traits: Traits) -> int | None:
    """The page of Qwen3-Next and its like, whatever is asked, which one phase's backend may change; None: others', or both phases'."""
    if d.model.architecture not in UNPAGED_STATES or rules.unpaged_states != "set" or not is_blackwell(d) or not traits.states:
        return None
    if named_backends(d).both:
        return None
    return 64 if _lets_pages(d, rules) else 1


def states_page(d: Deployment, rules: SglangRules, traits: Traits, page: int) -> int:
    """Tokens of a page when states are looked at: as asked, or as the model's class has it; other backends change it only later."""
    if traits.pooled_index is not None or traits.compressed:
        return page
    drafts = read_speculative(d.speculative) is not None and (d.model.architecture or "").startswith("NemotronH")
    own = 64 if drafts and picked(d, rules, traits) == TRTLLM_MHA else 1  # model_overrides/nemotron_h.py
    return forced_page(d, rules, traits) or d.block_size or own


def without_branches(asked: Deployment, d: Deployment, rules: SglangRules, traits: Traits) -> Deployment:
    """Blackwell's default for K and V wants to know how drafts branch: where the release picks that itself, FlashInfer is taken."""
    spec, picks = read_speculative(asked.speculative), picked(d, rules, traits)
    if named_backends(asked).both or spec is None or spec.tokens or spec.method == "ngram":
        return d
    if picks not in (TRTLLM_MHA, FA4) or d.model.architecture in rules.blackwell:
        return d
    if not traits.states:
        return replace(d, engine_option=(*d.engine_option, ("attention_backend", UNSHARED[0])))
    if d.model.architecture not in UNPAGED_STATES or not rules.unpaged_states:
        return d
    page = 1 if rules.unpaged_states == "set" else d.block_size
    return replace(d, block_size=page, engine_option=(*d.engine_option, ("attention_backend", "triton")))


def _lets_pages(d: Deployment, rules: SglangRules) -> bool:
    """Qwen3-Next and its like where states need no pages of one token: without a prefix cache, with extra buffers, beside drafts."""
    if d.model.architecture not in UNPAGED_STATES or not rules.unpaged_states or not _one_draft(d):
        return False
    options = Options(d)
    buffered = options.text("mamba_radix_cache_strategy") in ("extra_buffer", "extra_buffer_lazy")
    return buffered or options.flag("disable_radix_cache") or read_speculative(d.speculative) is not None


def _no_prefixes(d: Deployment, rules: SglangRules) -> bool:
    """Classes whose backend for states on Blackwell is for those that prefixes share: without them they have what others have."""
    unshared = Options(d).flag("disable_radix_cache") or (
        read_speculative(d.speculative) is not None and d.model.architecture in (rules.drafts_unshared or ())
    )
    return unshared and d.model.architecture in rules.unshared_blackwell and _one_draft(d)


def _one_draft(d: Deployment) -> bool:
    """Nothing drafts, or a chain does in pages that were not asked to be larger (utils is_no_spec_infer_or_topk_one)."""
    spec, branches = read_speculative(d.speculative), Options(d).count("speculative_eagle_topk")
    if spec is None:
        return branches is None or (branches == 1 and d.block_size in (None, 1))
    return spec.method != "ngram" and not is_tree(d) and d.block_size in (None, 1)


def deterministic(d: Deployment) -> bool:
    return Options(d).flag("enable_deterministic_inference")


def reproducible(d: Deployment, rules: SglangRules, traits: Traits) -> tuple[Deployment, tuple[str, ...]]:
    """The question with the backend that deterministic inference picks, and without a prefix cache where that one has none."""
    options = Options(d)
    said = backend = named_backends(d).both
    named = d.model.architecture or ""
    sparse = traits.compressed or is_sparse(d, traits)
    refused = named.startswith("Llama4") and in_force("", "0.5.6", d.engine_version)  # which is looked at before
    if not deterministic(d) or rules.deterministic == "asked" or sparse or refused or d.device is None:
        return d, ()
    set_before = rules.blackwell.get(named) or picked(d, rules, traits) == TRTLLM_MLA
    if backend is None and named in UNPAGED_STATES and rules.unpaged_states and traits.states and is_blackwell(d):
        if not _lets_pages(d, rules):
            return d, ()  # Triton's kernels, which are
        backend = TRTLLM_MHA
    elif backend is None and (rules.deterministic == "picked" or named.startswith(_OWN) or (is_blackwell(d) and set_before)):
        backend = usual(d, rules, traits)
    elif backend is None:
        newer = (capability(d) or 0) >= 100
        backend = ("triton" if traits.latent else UNSHARED[0]) if newer else SHARED[0]
    if backend is not None and said is None:
        d = replace(d, engine_option=(*d.engine_option, ("attention_backend", backend)))
    if backend not in UNSHARED or options.flag("disable_radix_cache"):
        return d, ()
    d = replace(d, engine_option=(*d.engine_option, ("disable_radix_cache", "true")))
    return d, (f"sglang keeps no prefixes where {backend} is to be deterministic",)


def usual(d: Deployment, rules: SglangRules, traits: Traits) -> str | None:
    """The backend that is picked where none is asked for; None: on this GPU that is not known here."""
    found, has, named = picked(d, rules, traits), capability(d), d.model.architecture or ""
    amd = d.device is not None and d.device.vendor == "amd"
    if found or not (amd or has):
        return found
    if is_blackwell(d):
        other = (
            traits.latent
            or traits.compressed
            or named in rules.blackwell
            or (traits.states and not named.startswith(("NemotronH", "Lfm2", "GraniteMoe")))
        )
        return None if other else UNSHARED[0]
    if is_sparse(d, traits) or traits.compressed:
        return "dsv4" if traits.compressed else "dsa"
    if amd:
        return _on_rocm(d, traits)
    hopper, flash3 = is_hopper(d), traits.latent or rules.flash3 is None or named in rules.flash3 or named.startswith("GptOss")
    if named.startswith("Llama4"):  # where none was asked for by then (0.5.6)
        return "fa3" if hopper else "triton"
    if named.startswith("Gemma4") or (named.startswith("GptOss") and not hopper):
        return "triton"
    if hopper and flash3 and not named.startswith("Whisper"):
        return "fa3"
    return "triton" if traits.latent else "flashinfer"


def _on_rocm(d: Deployment, traits: Traits) -> str:
    """AITER's kernels, but for classes with Triton's (arg_groups/model_overrides: Gemma 4, EXAONE, OLMo 2; gpt-oss before 0.5.10), and for
    latents whose heads on a rank are neither 16 nor 128."""
    named = d.model.architecture or ""
    early = named.startswith("GptOss") and not in_force("0.5.10", "", d.engine_version)
    own = named in _TRITON_ELSEWHERE and in_force(_TRITON_ELSEWHERE[named], "", d.engine_version)
    if early or (own and (traits.windows or not named.startswith("Exaone"))):
        return "triton"
    mixers = (mixer for block in d.model.blocks.values() for mixer in block.mixers if mixer.kind.startswith("mla"))
    heads = next((getattr(mixer, "heads", 0) for mixer in mixers), 0)
    return "aiter" if not traits.latent or heads // (d.tp or 1) in (16, 128) else "triton"
