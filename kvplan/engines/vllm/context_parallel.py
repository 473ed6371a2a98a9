"""Ranks that share a sequence's tokens, as it decodes (DCP, of the ranks of tp) or as its prompt is prefilled (PCP, GPUs beside them).

vLLM 0.10.2 to 0.33 config/parallel.py; v1/worker/cp_utils.py check_attention_cp_compatibility; models/kimi_k3/nvidia/mla.py. Of
DeepSeek-V4's backends get_impl_cls raises, so that supports_pcp is no (models/deepseek_v4/sparse_mla.py). PCP alone leaves each rank a
whole cache (config/parallel.py pcp_shard_decode_requests).
"""

from __future__ import annotations

from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.settings import settings_of

#: From this release on latent attention has kernels for PCP, and DCP may span its ranks.
SHARED_SINCE = "0.26"
KIMI_K3, V4 = "KimiK3ForConditionalGeneration", ("DeepseekV4ForCausalLM", "DeepseekV4ForConditionalGeneration")


def _ranks(settled: Settled) -> int:
    return Options(settled.question).count("prefill_context_parallel_size") or 1


def dcp_ranks(settled: Settled) -> Values:
    """DCP's groups are parts of tp where no ranks share prompts."""
    s = settings_of(settled)
    apart = s.tp % s.dcp and (_ranks(settled) == 1 or not s.since(SHARED_SINCE))
    return {"tp": s.tp, "dcp": s.dcp} if apart else None


def spans(settled: Settled) -> Values:
    """DCP beside PCP: not at all, over its ranks, or over those of tp too."""
    s, pcp = settings_of(settled), _ranks(settled)
    sizes = sorted({1, pcp, s.tp * pcp})
    return {"tp": s.tp, "pcp": pcp, "dcp": s.dcp, "sizes": sizes} if pcp > 1 and s.dcp not in sizes else None


def replicas(settled: Settled) -> Values:
    return {} if _ranks(settled) > 1 and settings_of(settled).dp > 1 else None


def prefill_ranks(settled: Settled) -> Values:
    """No kernel of attention took part in 0.13 to 0.25, and those of latent attention alone do since."""
    asked = _ranks(settled)
    latent = on.latent(settled) and not settings_of(settled).since(SHARED_SINCE)
    return {"ranks": asked} if asked > 1 and (on.kv_heads(settled.model) or latent) else None


def of_a_class(settled: Settled) -> Values:
    return {"ranks": _ranks(settled)} if _ranks(settled) > 1 and settled.question.model.architecture == KIMI_K3 else None


def of_v4(settled: Settled) -> Values:
    return {"ranks": _ranks(settled)} if _ranks(settled) > 1 and settled.question.model.architecture in V4 else None


_WHY_DCP = "ranks that share a sequence's tokens are parts of tp: {tp} ranks and groups of {dcp}"
_DCP, _PARALLEL = Move("dcp", "a size that divides {tp}"), "config/parallel.py"
_NO_PCP, _CP = Move("option:prefill_context_parallel_size", "1"), "v1/worker/cp_utils.py check_attention_cp_compatibility"
_PCP = "prefill context parallel"

CHECKS: tuple[Stop, ...] = (
    Stop(
        "decode context parallel", "tp_size={tp} must be divisible bydcp_size={dcp}.", _WHY_DCP, (_DCP,), _PARALLEL, since="0.10.2",
        before="0.26", when=dcp_ranks,
    ),
    Stop(
        "decode context parallel", "tp_size={tp} must be divisible by dcp_size={dcp}.", _WHY_DCP, (_DCP,), _PARALLEL, since="0.26",
        when=dcp_ranks,
    ),
    Stop(
        _PCP, "PCP does not support data parallelism yet.", "ranks that share a prompt have one replica in this release",
        (Move("dp", "1"), Move("engine_version", "0.30 or later"), _NO_PCP), _PARALLEL, since="0.26", before="0.30", when=replicas,
    ),
    Stop(
        _PCP,
        "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x PCP axis. Got TP={tp}, PCP={pcp}, DCP={dcp};",
        "of {tp} x {pcp} ranks {dcp} can not share a sequence's tokens", (Move("dcp", "1, {pcp}, or all of them"), _NO_PCP), _PARALLEL,
        since="0.26", when=spans, tail=" valid DCP sizes are {sizes}.",
    ),
    Stop(
        _PCP, "PCP requires attention impls' support, but the impl",
        "attention kernels that share a prompt's tokens among ranks do not exist here", (_NO_PCP,), _CP, since="0.13", before="0.26",
        when=prefill_ranks, loading=True, numbers="{ranks} ranks",
    ),
    Stop(
        _PCP, "No valid attention backend found for cuda with AttentionSelectorConfig(",
        "latent attention alone has kernels for ranks that share a prompt", (_NO_PCP,),
        "v1/attention/backend.py validate_configuration", since="0.26", when=prefill_ranks, loading=True,
        numbers="{ranks} ranks share a prompt",
    ),
    Stop(
        _PCP, "Kimi-K3 MultiHeadLatentAttention does not support prefill context parallelism.",
        "the class has its own latent attention, without kernels for ranks that share a prompt", (_NO_PCP,),
        "models/kimi_k3/nvidia/mla.py", since="0.28", when=of_a_class, loading=True, numbers="{ranks} ranks",
    ),
    Stop(
        _PCP, "PCP requires attention backend support, but", "DeepSeek-V4's backends have no kernels for ranks that share a prompt",
        (_NO_PCP,), _CP, since="0.28", when=of_v4, loading=True, numbers="{ranks} ranks",
    ),
)  # fmt: skip
