"""Which formats of the cache some attention backend of AMD's GPUs takes (platforms/rocm.py _get_backend_priorities of 0.28 and 0.33)."""

from __future__ import annotations

from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.layers import kind_of
from kvplan.engines.vllm.rules import GAUDI
from kvplan.engines.vllm.settings import settings_of

#: By kind of attention, of ROCM_ATTN, TRITON_ATTN, TURBOQUANT and AITER's (supported_kv_cache_dtypes).
TAKEN = {
    "plain": (
        "f16 bf16 f32 fp8_e4m3 fp8_e5m2 int8_per_token_head fp8_per_token_head int4_per_token_head "
        "turboquant_k8 turboquant_k4 turboquant_k3"
    ),
    "latent": "f16 bf16 f32 fp8_e4m3 fp8_e5m2",
    "sparse": "f16 bf16 f32 fp8_e4m3",
}


def no_backend(settled: Settled) -> Values:
    """Where none is named and none of them takes the cache."""
    s, d = settings_of(settled), settled.question
    taken = TAKEN.get(kind_of(s), "").split()
    if d.device is None or d.device.vendor != "amd" or s.platform != "cuda" or s.backend or not taken:
        return None
    return None if s.formats.k in taken and d.kv_dtype != GAUDI else {"cache": d.kv_dtype or "auto", "kind": kind_of(s)}


CHECKS = (
    Stop(
        "no attention backend", "No valid attention backend found for rocm with AttentionSelectorConfig(",
        "no backend of AMD's GPUs takes this cache", (Move("kv_dtype", "fp8 or auto"), Move("device", "a GPU of NVIDIA's")),
        "platforms/rocm.py get_attn_backend_cls", since="0.28", near=("kv_cache_dtype={cache}",), when=no_backend, loading=True,
        numbers="none of AMD's takes {kind} attention with a cache in {cache}",
    ),
)  # fmt: skip
