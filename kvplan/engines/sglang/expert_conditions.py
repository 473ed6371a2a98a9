"""When a runner of experts does not take the way in which a checkpoint is quantised, as a release knows it, or their ranks (words.py)."""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Values
from kvplan.engines.sglang.backends import is_blackwell
from kvplan.engines.sglang.settle import settings_of

#: Classes whose checkpoint's method is taken for --quantization on 10.x -> the first release that does so (server_args.py
#: _handle_model_specific_adjustments; arg_groups/overrides.py _deepseek_moe_quant_resolution, model_overrides/qwen3_moe.py, glm4_moe.py).
SEEN_SINCE: dict[str, str] = {
    "DeepseekV3ForCausalLM": "0.5.5",
    "DeepseekV32ForCausalLM": "0.5.5",  # whose config is read as V3's (_load_deepseek_v32_model)
    **dict.fromkeys((
        "MistralLarge3ForCausalLM", "PixtralForConditionalGeneration", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM",
        "Qwen3VLMoeForConditionalGeneration",
    ), "0.5.6"),
    "Glm4MoeForCausalLM": "0.5.8",
    **dict.fromkeys((
        "GlmMoeDsaForCausalLM", "KimiK25ForConditionalGeneration", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
    ), "0.5.9"),
}  # fmt: skip
#: Formats of a checkpoint without a method. DeepSeek-V3's is taken for FP8 until its files are looked into.
PLAIN, NATIVE_READ = ("bf16", "f16", "f32"), (0, 5, 11)
#: Runner -> methods that it does not take, of those that a config may name (server_args.py, arg_groups/moe_hook.py moe_kernel_config).
_PACKED = ("awq", "gptq", "mxfp4", "bitsandbytes")
REFUSED: dict[str, tuple[str, ...]] = {
    "flashinfer_cutlass": ("fp8", "compressed-tensors", *_PACKED),
    "flashinfer_trtllm": _PACKED,
    "flashinfer_trtllm_routed": ("compressed-tensors", *_PACKED),
}


def _asked(settled: Settled) -> str:
    return Options(settled.question).text("moe_runner_backend") or "auto"


def method(settled: Settled) -> str | None:
    """The way of quantisation that the release knows when it looks at the runner: as asked, or on 10.x the checkpoint's own by name."""
    d, at = settled.question, release(settings_of(settled).release)
    if told := Options(d).text("quantization"):
        return told
    named = d.model.architecture or ""
    if not is_blackwell(d) or at < release(SEEN_SINCE.get(named, "99")):
        return None
    stored = checkpoint_format(d)
    native = stored.startswith("fp8_block") or (named == "DeepseekV3ForCausalLM" and stored in PLAIN and at < NATIVE_READ)
    return d.model.method or ("fp8" if native else None)


def cutlass_fp8(settled: Settled) -> Values:
    """Experts in FP8 over ranks, as they were asked for: an exchange deals them out over tp only later."""
    known, ep = method(settled), _told_ranks(settled)
    takes = ("fp8", "mxfp8") if release(settings_of(settled).release) >= (0, 5, 9) else ("fp8",)
    return {"ep": ep, "method": known} if _asked(settled) == "cutlass" and known in takes and ep > 1 else None


def triton_kernels(settled: Settled) -> Values:
    ep, named = _told_ranks(settled), settled.question.model.architecture or ""
    return {"ep": ep} if _asked(settled) == "triton_kernel" and named.startswith("GptOss") and ep > 1 else None


def other_method(settled: Settled) -> Values:
    """A method that is not asked for and that the release sees: what is asked for is looked at before (exclusions.py)."""
    runner, known = _asked(settled), method(settled)
    early = runner != "flashinfer_cutlass" and release(settings_of(settled).release) < (0, 5, 7)
    if Options(settled.question).text("quantization") or early:
        return None
    return {"method": known, "runner": runner} if known in REFUSED.get(runner, ()) else None


def expert_groups(settled: Settled) -> Values:
    """Groups that each have all experts, of ranks that are not all of tp with those that share them."""
    tp, ep, groups = settings_of(settled).layout.tp, _told_ranks(settled), Options(settled.question).count("moe_dp_size") or 1
    odd = tp % groups or ep * groups > tp or (ep > 1 and ep * groups != tp)
    return {"tp": tp, "ep": ep, "groups": groups} if groups > 1 and odd else None


def _told_ranks(settled: Settled) -> int:
    return (settled.question.ep or 1) if settled.chosen_by.get("ep", "you") == "you" else 1
