"""What sparse attention's indexers take of vLLM's budget: memory that grows with the longest request, whatever the batch.

Layers of a rank share one workspace, as large as the largest request for it, which stays once it is there (v1/worker/workspace.py, from
0.13 on). Read in the CUDA files of 0.13 to 0.33; AMD's have their own, which reserve nothing that stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import Span
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.tensors import Layer, distinct
from kvplan.units import MIB, cdiv

#: A prefill's gathered keys in fp8, each with a scale of four bytes (v1/attention/backends/mla/indexer.py get_max_prefill_buffer_size).
KEYS, SCALE_BYTES = 8, 4
#: The same of latent rows in 16 bits, where the cache keeps them in fp8 (mla/flashmla_sparse.py get_prefill_workspace_size).
LATENT_BYTES = 576 * 2
#: Both times so many; of longer requests fewer, as in 0.32 and not yet in 0.27 (sparse_mla_prefill_workspace_factor).
TIMES, FEWER, LONG, FEWER_SINCE = 5, 2, 256 * 1024, "0.32"
WORKSPACE_SINCE = "0.13"
#: What the profile run sets aside for a prefill's logits (VLLM_SPARSE_INDEXER_MAX_LOGITS_MB), from 0.19 on.
LOGITS_BYTES, LOGITS_SINCE = 512 * MIB, "0.19"
#: Captured graphs decode with logits of the whole length: once as they warm up, once inside. One log has 2.5 times, two 2.
COPIES = (2, 1, 3)


def _indexers(d: Deployment, layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """(values of a key, tokens it stands for) of the layers' indexers; none on AMD's cards."""
    if d.device is not None and d.device.vendor != "nvidia":
        return []
    tensors = (t for layer in distinct(layers) for cache in layer.caches for t in cache.tensors)
    return [(t.elems_per_state, t.tokens_per_state or 1) for t in tensors if t.name == "index_k"]


def _since(s: VllmSettings, release: str) -> bool:
    return s.rules.v1 and s.since(release)


def reserved_bytes(d: Deployment, layers: Sequence[Layer], s: VllmSettings) -> int:
    """The workspace of the indexers' keys and of latent rows in 16 bits."""
    found = _indexers(d, layers)
    if not found or not _since(s, WORKSPACE_SINCE):
        return 0
    times = FEWER if s.max_model_len > LONG and _since(s, FEWER_SINCE) else TIMES
    keys = max(KEYS * (width + SCALE_BYTES) // tokens for width, tokens in found)
    tensors = (t for layer in distinct(layers) for cache in layer.caches for t in cache.tensors)
    rows = LATENT_BYTES if any(t.name == "latent" and t.dtype.startswith("fp8") for t in tensors) else 0
    return times * s.max_model_len * max(keys, rows)


def prefill_logits_bytes(d: Deployment, layers: Sequence[Layer], s: VllmSettings) -> int:
    """Logits of a prefill's tokens against their keys, which pass."""
    return LOGITS_BYTES if _indexers(d, layers) and _since(s, LOGITS_SINCE) else 0


def captured_logits(d: Deployment, layers: Sequence[Layer], s: VllmSettings) -> Span:
    """What capturing holds of decoding's logits: f32, the largest captured step by the longest request's keys (fp8_paged_mqa_logits)."""
    tokens = min(s.max_num_seqs * (1 + s.draft_tokens), 512, s.max_num_batched_tokens)
    keys = max((cdiv(s.max_model_len, ratio) for _, ratio in _indexers(d, layers)), default=0)
    return Span(*(times * tokens * keys * 4 for times in COPIES))
