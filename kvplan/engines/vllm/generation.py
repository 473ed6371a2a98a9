"""Which of vLLM's two engines a question runs: 0.8 to 0.10 fall back to V0 for what their V1 could not do.

vLLM 0.8.5 and 0.9.2 `vllm/engine/arg_utils.py` _is_v1_supported_oracle; 0.10.1 asks `vllm/platforms/cuda.py`
is_kv_cache_dtype_supported, which knows Hopper and capability 10.0; ROCm's says yes.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical, parse_kv_dtype
from kvplan.engines.common.methods import drafts_by
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.releases import release as numbers
from kvplan.engines.vllm import for_v0
from kvplan.engines.vllm.rules import VERSIONS, VllmRules, find_rules, since
from kvplan.engines.vllm.ways import DRAFTING, V1
from kvplan.forms import STATES
from kvplan.spec import ModelSpec

LAST_V0, FIRST_V1 = "0.7.3", "0.8"
#: Class -> the last release that runs it with V0 (SupportsV0Only in its file: 0.8.3, 0.8.5, 0.9.0, 0.9.1, 0.9.2, 0.10.0, 0.10.1).
V0_ONLY = {
    "GlmForCausalLM": "0.8.3", "Phi4MMForCausalLM": "0.8.3",
    "BambaForCausalLM": "0.9.1", "FalconH1ForCausalLM": "0.9.1", "GraniteMoeHybridForCausalLM": "0.9.1", "Mamba2ForCausalLM": "0.9.1",
    "NemotronHForCausalLM": "0.9.1", "Zamba2ForCausalLM": "0.9.1",
    "JambaForCausalLM": "0.10.0", "MambaForCausalLM": "0.10.0", "MiniMaxText01ForCausalLM": "0.10.0", "MiniMaxM1ForCausalLM": "0.10.0",
    "BloomForCausalLM": "0.10.1", "MllamaForConditionalGeneration": "0.10.1", "Phi4FlashForCausalLM": "0.10.1",
    "Plamo2ForCausalLM": "0.10.1",
}  # fmt: skip
EIGHT_BITS = "a cache of 8 bits needs FlashAttention 3, which is for Hopper"


def rules_of(d: Deployment) -> tuple[str, VllmRules, tuple[str, ...]]:
    """The release, the rules of the engine that it runs this question with, and notes.

    `0.1.dev…` is a build of the main branch without its tags.
    """
    asked = numbers(d.engine_version) if d.engine_version else ()
    if asked and asked < numbers(VERSIONS[0]) and ".dev" in str(d.engine_version):
        release, rules, _ = find_rules(None)
        notes: tuple[str, ...] = (f"{str(d.engine_version)[:40]} does not say its release: the rules of {release} are used",)
    else:
        release, rules, notes = find_rules(d.engine_version)
    options = Options(d)
    chosen = options.flag("use_v1", True) if options.text("use_v1") is not None else None
    reason = falls_back(d, release) if chosen is not False else "VLLM_USE_V1=0"
    if chosen is not None and rules.v1 and reason is not None and (chosen or since(release, "0.11")):
        said = f"VLLM_USE_V1=1 where it would not run V1 ({reason}): it may stop" if chosen else "VLLM_USE_V1=0 and it has no other engine"
        return release, rules, (*notes, f"vLLM {release} is asked for {said}")
    if not rules.v1:
        if not chosen:
            return release, rules, notes
        return release, find_rules(FIRST_V1)[1], (*notes, f"the V1 engine of vLLM {release} is taken for that of {FIRST_V1}")
    if reason is None:
        return release, rules, notes
    kept = {name: getattr(rules, name) for name in ("absorbs", "even_stages", "whole_on_rocm", "cuts_batch")}
    older = find_rules(LAST_V0)[1]._replace(**kept)
    return release, older, (*notes, f"vLLM {release} runs its V0 engine here: {reason}")


def falls_back(d: Deployment, release: str) -> str | None:
    """Why a release that has V1 takes V0 all the same; None where it does not."""
    exact, options = d.engine_version or release, Options(d)
    if not since(release, "0.8") or since(release, "0.11"):
        return None
    if found := for_v0.reason(options.text(for_v0.OPTION), options.text("attention_backend"), exact):
        return found
    if since(release, "0.10.2") or d.device is None:
        return None
    if d.model.encoder is not None:
        return "V1 has no encoder-decoder models yet"
    if numbers(exact) <= numbers(V0_ONLY.get(d.model.architecture or "", "0")):
        return f"its V1 has no {d.model.architecture} yet"
    has, draft = d.device.capability, read_speculative(d.speculative)
    if options.text("use_v1") is None and _states(d.model):
        return "V1 runs models with states only where VLLM_USE_V1=1 asks for it"
    if has is not None and has < 80:
        return f"compute capability {d.device.compute_capability} is below 8.0"
    if since(release, "0.10"):
        return EIGHT_BITS if has not in (None, 100) and _without_fp8(d) else None
    if draft is not None and not drafts_by(DRAFTING, draft.method, d.engine_version or release, V1):
        return f"its V1 does not draft by {draft.method}"
    if _without_fp8(d):
        return EIGHT_BITS
    first = release.startswith("0.8")
    if (first or release == "0.9") and not d.model.lm_head:
        return "its V1 does not pool"
    if first and canonical(d.dtype or d.model.dtype) == "f32":
        return "its V1 computes in 16 bits"
    return None


def _states(model: ModelSpec) -> bool:
    """Whether layers keep a state of a sequence."""
    return any(mixer.cache_form() in STATES for block in model.blocks.values() for mixer in block.mixers)


def _without_fp8(d: Deployment) -> bool:
    """Whether a cache in FP8 is asked of a card whose attention has none."""
    formats = parse_kv_dtype(d.kv_dtype) if d.kv_dtype not in (None, "auto") else ()
    if d.device is None or not d.device.compute_capability:
        return False
    return (d.device.capability or 0) // 10 != 9 and any(name.startswith("fp8") for name in formats)
