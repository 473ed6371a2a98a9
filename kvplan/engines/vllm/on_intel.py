"""Which formats of the cache the attention backends of Intel's GPUs list, and Gaudi, which vLLM runs by a plugin.

vLLM 0.33 platforms/xpu.py get_attn_backend_cls hands a layer to a backend without asking whether that takes the cache; what a kernel then
makes of another format was not read. platforms/ has no Gaudi: vllm-gaudi, a package of its own, runs it.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.protocol import Settled
from kvplan.engines.vllm.layers import kind_of
from kvplan.engines.vllm.rules import GAUDI
from kvplan.engines.vllm.settings import settings_of

#: By kind of attention, of FLASH_ATTN and TURBOQUANT, FLASH_ATTN_MLA and TRITON_MLA, XPU_MLA_SPARSE (supported_kv_cache_dtypes).
LISTED = {
    "plain": "f16 bf16 f32 fp8_e4m3 turboquant_k8 turboquant_k4 turboquant_k3",
    "latent": "f16 bf16 fp8_e4m3",
    "sparse": "f16 bf16",
}
#: ... and of TRITON_ATTN, where it is named.
TRITON = "f16 bf16 f32 fp8_e4m3 fp8_e5m2 int8_per_token_head fp8_per_token_head int4_per_token_head"


def _is_gaudi(d: Deployment) -> bool:
    return d.device is not None and d.device.vendor == "intel" and d.device.id.startswith("gaudi")


def unlisted_cache(settled: Settled) -> tuple[str, ...]:
    """Why a start is too close to call: the cache is in a format that no backend of the GPU is known to take."""
    d, s = settled.question, settings_of(settled)
    if d.device is None or d.device.vendor != "intel" or s.platform != "cuda":
        return ()
    asked = d.kv_dtype if d.kv_dtype not in (None, "auto") else s.formats.k
    if _is_gaudi(d):
        plain = s.formats.k in ("f16", "bf16", "f32") or asked == GAUDI
        return () if plain else (f"vllm-gaudi, a plugin, runs Gaudi, and whether it takes a cache of {asked} was not read",)
    listed = TRITON if s.backend == "TRITON_ATTN" else LISTED.get(kind_of(s), "")
    if not listed or (s.formats.k in listed.split() and asked != GAUDI):
        return ()
    return (f"no attention backend of Intel's GPUs lists a cache of {asked} (platforms/xpu.py), and none is asked before it runs",)


def by_plugin(d: Deployment) -> tuple[str, ...]:
    """A note of whose rules these are."""
    return ("Gaudi is no platform of vLLM's own: vllm-gaudi, a plugin, runs it; these are the rules of vLLM",) if _is_gaudi(d) else ()
