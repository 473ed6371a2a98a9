"""MegaMoE: experts whose kernels hold a bounded number of a rank's tokens, GPUs and classes that they are for.

sglang 0.5.17 to 0.5.20 arg_groups/deepseek_v4_hook.py validate_deepseek_v4_mega_moe_token_budget; 0.5.21 to 0.5.23
arg_groups/mega_moe_hook.py; 0.5.20 to 0.5.23 arg_groups/moe_hook.py _handle_a2a_moe (FlashInfer's own kernels of the name).
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.sglang import exchange
from kvplan.engines.sglang.backends import is_blackwell, is_hopper
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.settle import settings_of
from kvplan.units import round_up

#: SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK where it is not set, and before 0.5.18.
HELD, EARLY_HELD = 8192, 1024
_V4 = "DeepseekV4ForCausalLM"
#: Classes whose experts have no other way then (MEGA_MOE_NO_FALLBACK_ARCHS); before 0.5.21 the first alone is looked at.
_NO_OTHER = frozenset({
    _V4, "InternS2PreviewForConditionalGeneration", "MellumForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM", "Qwen3VLMoeForConditionalGeneration", "Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip
#: Classes that FlashInfer's are tried with (validate_flashinfer_megamoe_model).
_TRIED = frozenset({
    "BeamForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", _V4, "Glm4MoeForCausalLM",
    "GlmMoeDsaForCausalLM", "KimiK3ForConditionalGeneration", "KimiK3LinearForCausalLM", "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM",
})  # fmt: skip


def _asked(d: Deployment) -> bool:
    """By its own name or as a runner of experts, which is another name of it."""
    return "megamoe" in (exchange.backend(d), Options(d).text("moe_runner_backend"))


def _bounded(settled: Settled) -> bool:
    d, later = settled.question, release(settings_of(settled).release) >= (0, 5, 21)
    named, packed = d.model.architecture or "", later and "nvfp4" in checkpoint_format(d)
    return _asked(d) and (packed or named in (_NO_OTHER if later else (_V4,))) and not (later and on_amd(d))


def _held(settled: Settled) -> int:
    usual = HELD if release(settings_of(settled).release) >= (0, 5, 18) else EARLY_HELD
    return Options(settled.question).count("mega_moe_num_max_tokens_per_rank") or usual


def whole(settled: Settled) -> Values:
    decodes = Options(settled.question).text("disaggregation_mode") == "decode"
    return {} if _bounded(settled) and not decodes and settings_of(settled).pools.chunk < 1 else None


def prompts(settled: Settled) -> Values:
    """A chunk of a rank's prompts, whole to the ranks of its attention group, that is more than is held; from 0.5.21 on groups divide the
    chunk twice."""
    s, held = settings_of(settled), _held(settled)
    again = s.layout.attention_dp if release(s.release) >= (0, 5, 21) else 1
    sent = round_up(max(s.pools.chunk, 0) // again, s.layout.attn_tp)
    decodes = Options(settled.question).text("disaggregation_mode") == "decode"
    return {"sent": sent, "held": held} if _bounded(settled) and not decodes and sent > held else None


def steps(settled: Settled) -> Values:
    """What the largest decode graph has, from 0.5.23 on of a rank's requests, with what is verified of each."""
    s, d, held = settings_of(settled), settled.question, _held(settled)
    requests, running, dp = s.graph_bs, d.max_num_seqs, s.layout.attention_dp
    if running and release(s.release) >= (0, 5, 23):
        requests = min(requests, round_up(running // dp, s.layout.tp // dp))
    sent = requests * max(s.pools.draft_tokens, 1)
    prefills = Options(d).text("disaggregation_mode") == "prefill"
    return {"sent": sent, "held": held} if _bounded(settled) and not prefills and sent > held else None


def gpu(settled: Settled) -> Values:
    d = settled.question
    known = on_amd(d) or capability(d) is not None
    return {} if _asked(d) and known and not (on_amd(d) or is_hopper(d) or is_blackwell(d)) else None


def _own(settled: Settled) -> bool:
    return exchange.backend(settled.question) == "flashinfer_megamoe"


def untried(settled: Settled) -> Values:
    named = settled.question.model.architecture
    return {"architecture": named} if _own(settled) and named and named not in _TRIED else None


def plain(settled: Settled) -> Values:
    """Experts neither in FP4 nor in MXFP8, as they are stored or asked for."""
    asked, stored = Options(settled.question).text("quantization"), checkpoint_format(settled.question)
    takes = asked in ("mxfp8", "modelopt_fp4", "nvfp4_online") or any(name in stored for name in ("fp4", "mxfp8", "unknown"))
    return {"stored": asked or stored} if _own(settled) and not takes else None


def not_alone(settled: Settled) -> Values:
    """Attention groups of more ranks than one."""
    shape = settings_of(settled).layout
    return {"dp": shape.attention_dp, "tp": shape.tp} if _own(settled) and shape.attention_dp != shape.tp else None


def own_gpu(settled: Settled) -> Values:
    d = settled.question
    return {} if _own(settled) and (on_amd(d) or capability(d) is not None) and not is_blackwell(d) else None


_BUDGET = "SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK"
_SOURCE, _ELSEWHERE = "arg_groups/deepseek_v4_hook.py; arg_groups/mega_moe_hook.py", Move("option:moe_a2a_backend", "none or deepep")
_MORE = Move("option:mega_moe_num_max_tokens_per_rank", "as many as are required")

STOPS: tuple[Stop, ...] = (
    Stop(
        "tokens of MegaMoE", "with MegaMoE requires chunked prefill to be enabled.", "its kernels hold a bounded number of tokens",
        (Move("max_num_batched_tokens", "a chunk"), _ELSEWHERE), _SOURCE, since="0.5.17", when=whole,
    ),
    Stop(
        "tokens of MegaMoE", f"with MegaMoE requires {_BUDGET} to cover each rank's effective prefill token budget.",
        "a step of prompts has more tokens of a rank than its kernels hold", (_MORE, Move("max_num_batched_tokens", "fewer")),
        _SOURCE, since="0.5.17", when=prompts, numbers="{sent} tokens, {held} held",
    ),
    Stop(
        "tokens of MegaMoE", f"with MegaMoE requires {_BUDGET} to cover the largest decode / verify forward on one rank.",
        "a decode graph has more tokens of a rank than its kernels hold", (_MORE, Move("max_num_seqs", "fewer")),
        "arg_groups/mega_moe_hook.py", since="0.5.21", when=steps, numbers="{sent} tokens, {held} held",
    ),
    Stop(
        "experts' exchange and GPU", "--moe-a2a-backend megamoe needs a CUDA SM90 GPU", "its kernels are for 9.0, 10.x and AMD's GPUs",
        (_ELSEWHERE,), "arg_groups/mega_moe_hook.py check_mega_moe_compat", since="0.5.21", when=gpu,
    ),
    Stop(
        "experts' exchange and class", "FlashInfer MegaMOE is not validated for model architectures", "it is tried with other classes",
        (_ELSEWHERE,), "arg_groups/moe_hook.py", since="0.5.20", when=untried, numbers="{architecture}",
    ),
    Stop(
        "experts' exchange and their format", "FlashInfer MegaMOE currently supports only MXFP8, ModelOpt NVFP4", "they know no other",
        (_ELSEWHERE,), "arg_groups/moe_hook.py", since="0.5.20", when=plain, numbers="{stored}",
    ),
    Stop(
        "experts' exchange and attention ranks", "FlashInfer MegaMOE is only supported with", "each rank is an attention group of its own",
        (Move("dp", "tp, with enable_dp_attention"), _ELSEWHERE), "arg_groups/moe_hook.py", since="0.5.20", when=not_alone,
        numbers="{dp} groups of {tp} ranks",
    ),
    Stop(
        "experts' exchange and GPU", "FlashInfer MegaMOE currently requires an SM100-family", "its kernels are for 10.x", (_ELSEWHERE,),
        "arg_groups/moe_hook.py", since="0.5.20", when=own_gpu,
    ),
)  # fmt: skip
