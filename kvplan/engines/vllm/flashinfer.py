"""FlashInfer's workspace: a buffer that its metadata builder makes with the first step that has a cache, which is a captured one.

vLLM 0.24 v1/attention/backends/flashinfer.py _get_workspace_buffer: VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE, 394 MiB; from 0.26 on as much
as a step's query values take, if that is more. The estimate of CUDA graphs (gpu_model_runner.py profile_cudagraph_memory) captures the
first graphs beside a small cache, and so holds it: 0.39 GiB for three graphs by two sources, 0.49 for 86 by two.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.lines import query_heads
from kvplan.engines.common.options import Options
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.tensors import distinct
from kvplan.units import MIB

WORKSPACE_BYTES = 394 * MIB
#: Bytes of a step's query values, and the release that has them (FLASHINFER_PREFILL_WORKSPACE_BYTES_PER_ELEM).
QUERY_BYTES, QUERY_SINCE = 16, "0.26"
#: The estimate of a graph is this at least ("driver overhead").
LEAST_GRAPH = MIB
#: Sizes of heads (get_supported_head_sizes), and the release that has the last.
HEADS, WIDE_HEAD, WIDE_SINCE = (64, 128, 256), 512, "0.22"
#: Formats of a cache that only Hopper's kernels of FlashAttention take (flash_attn.py supports_kv_cache_dtype), and those in 16 bits.
EIGHT, SIXTEEN = ("fp8_e4m3", "fp8_e5m2"), ("bf16", "f16")
#: Classes with attention sinks, which it takes on Blackwell's boards alone; Turing was given up in a release.
SINKS, NO_TURING = ("GptOss",), "0.24"


def workspace(d: Deployment, s: VllmSettings) -> int:
    """Its bytes of a rank, 0 where another backend runs: those of releases that charge graphs, of layers with K and V of one size."""
    if not s.rules.v1 or not s.rules.graphs_charged or d.device is None or d.device.vendor != "nvidia":
        return 0
    width = _head(s)
    if not width or not (s.backend == "FLASHINFER" if s.backend else _chosen(d, s, width)):
        return 0
    queries = s.max_num_batched_tokens * max(query_heads(s.served) // s.tp, 1) * width * QUERY_BYTES
    return max(Options(d).count("flashinfer_workspace") or WORKSPACE_BYTES, queries if s.since(QUERY_SINCE) else 0)


def _chosen(d: Deployment, s: VllmSettings, width: int) -> bool:
    """Whether no backend before it takes the layers: platforms/cuda.py _get_backend_priorities, first on Blackwell's boards alone."""
    at = capability(d) or 0
    if width not in HEADS and not (width == WIDE_HEAD and s.since(WIDE_SINCE)):
        return False
    if d.model.bidirectional == "images" and d.multimodal != "off":
        return False
    if at // 10 == 10:
        return s.formats.k in (*EIGHT, *SIXTEEN)
    if (d.model.architecture or "").startswith(SINKS):
        return False
    if at < 80:
        return at >= 75 and not s.since(NO_TURING) and s.formats.k in (*EIGHT, *SIXTEEN)
    return s.formats.k == "fp8_e5m2" or (s.formats.k == "fp8_e4m3" and at // 10 != 9)


def _head(s: VllmSettings) -> int:
    """The size of the heads of layers that keep K and V, if it is one; 0 otherwise."""
    tensors = [t for layer in distinct(s.served.layers) for cache in layer.caches for t in cache.tensors if t.tokens_per_state == 1]
    sizes = {t.elems_per_state for t in tensors}
    return sizes.pop() if len(sizes) == 1 and {t.name for t in tensors} == {"k", "v"} else 0
