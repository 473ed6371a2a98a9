"""Ranks that share a sequence's tokens, as it decodes (DCP, of the ranks of tp) or as its prompt is prefilled (PCP, GPUs beside them).

vLLM 0.10.2 to 0.33 config/parallel.py; v1/worker/cp_utils.py check_attention_cp_compatibility; models/kimi_k3/nvidia/mla.py. Of
DeepSeek-V4's backends get_impl_cls raises, so that supports_pcp is no (models/deepseek_v4/sparse_mla.py). PCP alone leaves each rank a
whole cache (config/parallel.py pcp_shard_decode_requests).
"""

from __future__ import annotations

from kvplan.dtypes import COMPUTE
from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.model import pools
from kvplan.engines.vllm.settings import settings_of

#: From this release on latent attention has kernels for PCP, and DCP may span its ranks.
SHARED_SINCE = "0.26"
#: Backends whose decoding returns the softmax's log-sum-exp (can_return_lse_for_decode) from a release on, and in none; others always do.
WEIGHS_SINCE = {"TRITON_MLA": "0.11", "FLASHINFER_MLA": "0.25", "FLASHINFER_MLA_SPARSE": "0.25", "FLASHMLA_SPARSE": "0.29"}
WEIGHS_NEVER = ("TRITON_ATTN", "FLEX_ATTENTION", "TURBOQUANT", "FLASH_ATTN_MLA_SPARSE")
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
    return {"ranks": asked} if asked > 1 and (on.kv_heads(settled.model) or latent or pools(settled.question.model)) else None


def of_a_class(settled: Settled) -> Values:
    return {"ranks": _ranks(settled)} if _ranks(settled) > 1 and settled.question.model.architecture == KIMI_K3 else None


def of_v4(settled: Settled) -> Values:
    return {"ranks": _ranks(settled)} if _ranks(settled) > 1 and settled.question.model.architecture in V4 else None


def apart(settled: Settled) -> Values:
    """Kernels that do not say what a rank's part of a decoded token weighs, without which the parts can not be put together."""
    s, at = settings_of(settled), (on.capability(settled.question) or 0) // 10
    sparse = "latent+index" in s.forms
    if s.dcp == 1 or s.platform != "cuda" or (at not in (9, 10) and (sparse or not on.latent(settled))):
        return None
    flashinfer = at == 10 and s.since("0.18") and (s.formats.k in COMPUTE or s.plain_latents)
    own = ("FLASHINFER_MLA_SPARSE" if flashinfer else "FLASHMLA_SPARSE") if sparse else s.latent_backend if on.latent(settled) else ""
    name = s.backend or own
    first = WEIGHS_SINCE.get(name)
    return {"backend": name} if name in WEIGHS_NEVER or (first and not s.since(first)) else None


def of_kv_heads(settled: Settled) -> Values:
    """K and V of heads, before FlashAttention's and FlashInfer's kernels took part (0.11.1 v1/attention/backends/flash_attn.py)."""
    return {} if settings_of(settled).dcp > 1 and on.kv_heads(settled.model) else None


def sparse_16_bits(settled: Settled) -> Values:
    """Sparse latents in 16 bits on Hopper, whose kernel that does weigh its parts reads packed rows alone."""
    s, at = settings_of(settled), (on.capability(settled.question) or 0) // 10
    return {} if "latent+index" in s.forms and s.dcp > 1 and at == 9 and s.formats.k in COMPUTE else None


_WHY_DCP = "ranks that share a sequence's tokens are parts of tp: {tp} ranks and groups of {dcp}"
_DCP, _PARALLEL = Move("dcp", "a size that divides {tp}"), "config/parallel.py"
_ONE = Move("dcp", "1")
_NO_PCP, _CP = Move("option:prefill_context_parallel_size", "1"), "v1/worker/cp_utils.py check_attention_cp_compatibility"
_PCP = "prefill context parallel"

CHECKS: tuple[Stop, ...] = (
    Stop(
        "decode context parallel", "DCP requires attention impls to return the softmax lse for decode",
        "the ranks of these releases share the tokens of latent attention alone; one release later they share copies of KV heads, of which "
        "there are tp / KV heads",
        (_ONE, Move("engine_version", "0.11.1 or later, with tp more than the KV heads")), "v1/worker/gpu_model_runner.py "
        "initialize_kv_cache; can_return_lse_for_decode is no of every backend but those of latent attention", since="0.10.2",
        before="0.11.1", when=of_kv_heads, numbers="before 0.11.1 those of latent attention alone do",
    ),
    Stop(
        "decode context parallel", "to return the softmax", "the backend's kernels do not return what the ranks' parts weigh",
        (_ONE, Move("option:attention_backend", "another"), Move("engine_version", "0.29 or later")), _CP, since="0.10.2", before="0.29",
        when=apart, loading=True, numbers="{backend}",
    ),
    Stop(
        "decode context parallel", "DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache;",
        "the kernels that ranks can share read packed rows alone", (_ONE, Move("kv_dtype", "fp8")),
        "v1/attention/backends/mla/flashmla_sparse.py", since="0.29", when=sparse_16_bits, loading=True,
        tail=" the bf16 sparse path is not supported under DCP.",
    ),
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
