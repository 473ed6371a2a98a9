"""Sparse latent attention: the formats of its rows, and what its indexers take, which grows with the longest request, whatever the batch.

Layers of a rank share one workspace, as large as the largest request for it, which stays once it is there (v1/worker/workspace.py, from
0.13 on). Read in the CUDA files of 0.13 to 0.33; AMD's have their own, which reserve nothing that stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.dtypes import parse_kv_dtype
from kvplan.engines.common.conditions import capability, may_be_nvidia
from kvplan.engines.common.lines import Span
from kvplan.engines.common.options import Options
from kvplan.engines.vllm import rings
from kvplan.engines.vllm.rules import since
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

#: Kernels of 12.x keep packed FP8 rows whatever is asked for, but for classes that do not take bfloat16 for `auto` (models/config.py,
#: platforms/cuda.py _get_backend_priorities, mla_attention.py _canonicalize_sparse_mla_kv_cache_dtype).
PACKED_ON_12_SINCE, BF16_IS_AUTO = "0.24", "DeepseekV32ForCausalLM"
#: Its first release took packed FP8 rows for `auto` (models/config.py DeepseekV32ForCausalLM of 0.11.0; not of 0.11.1).
PACKED_FIRST = ("0.11", "0.11.1")
#: GLM's class takes FP8 on 10.x where no format is asked for.
EIGHT_ON_10, EIGHT_ON_10_SINCE = "GlmMoeDsaForCausalLM", "0.32"
#: FP8 rows on 10.x are FlashInfer's, as they are; before, FlashMLA's, packed, where a rank has more query heads than this.
PLAIN_SINCE, PLAIN_FEW_SINCE, FEW_HEADS, PACKS = "0.19", "0.18", 16, "FLASHMLA_SPARSE"


def _has_indexer(d: Deployment) -> bool:
    forms = {mixer.cache_form() for block in d.model.blocks.values() for mixer in block.mixers}
    return "latent+index" in forms and may_be_nvidia(d)


def _major(d: Deployment) -> int:
    """Of the compute capability; Hopper's where it is not known."""
    return (capability(d) or 90) // 10


def _is_bf16(d: Deployment) -> bool:
    return d.kv_dtype is not None and parse_kv_dtype(d.kv_dtype) == ("bf16", "bf16")


def own_format(d: Deployment, release: str) -> str | None:
    """The cache format of sparse latents where that is not the one asked for, or none is; None: as asked, else the compute type."""
    if not _has_indexer(d):
        return rings.own_format(d, release)
    major, auto = _major(d), d.kv_dtype in (None, "auto")
    if major == 12 and since(release, PACKED_ON_12_SINCE) and (auto or (_is_bf16(d) and d.model.architecture == BF16_IS_AUTO)):
        return "fp8_e4m3"
    if auto and d.model.architecture == BF16_IS_AUTO and since(release, PACKED_FIRST[0]) and not since(release, PACKED_FIRST[1]):
        return "fp8_e4m3"
    eight = major == 10 and auto and d.model.architecture == EIGHT_ON_10 and since(release, EIGHT_ON_10_SINCE)
    return "fp8_e4m3" if eight else None


def plain_rows(d: Deployment, release: str, query_heads: int) -> bool:
    """Whether FP8 rows of sparse latents are kept as they are, without scales; `query_heads` of a rank."""
    if not _has_indexer(d) or _major(d) != 10 or d.kv_dtype == "fp8_ds_mla":
        return False
    if (Options(d).text("attention_backend") or "").upper() == PACKS:
        return False
    return since(release, PLAIN_SINCE) or (since(release, PLAIN_FEW_SINCE) and query_heads <= FEW_HEADS)


def packs_all(d: Deployment, release: str) -> bool:
    """Whether a layer's rows are packed FP8 though the cache's format leaves it out: on 12.x there is no other kernel."""
    return _has_indexer(d) and _major(d) == 12 and since(release, PACKED_ON_12_SINCE)


def rows_apart(d: Deployment, release: str) -> bool:
    """Whether blocks are whole rows of latents apart: on 10.x in 0.31 alone, whose blocks hold all layers (block_stride_alignment)."""
    return _has_indexer(d) and _major(d) == 10 and since(release, "0.31") and not since(release, "0.32")


def _indexers(d: Deployment, layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """(values of a key, tokens it stands for) of the layers' indexers; none on AMD's cards."""
    if not may_be_nvidia(d):
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
    gathers = not s.plain_latents and _major(d) != 12  # FlashMLA's kernels alone
    rows = LATENT_BYTES if gathers and any(t.name == "latent" and t.dtype.startswith("fp8") for t in tensors) else 0
    return times * s.max_model_len * max(keys, rows)


def prefill_logits_bytes(d: Deployment, layers: Sequence[Layer], s: VllmSettings) -> int:
    """Logits of a prefill's tokens against their keys, which pass."""
    return LOGITS_BYTES if _indexers(d, layers) and _since(s, LOGITS_SINCE) else 0


def captured_logits(d: Deployment, layers: Sequence[Layer], s: VllmSettings) -> Span:
    """What capturing holds of decoding's logits: f32, the largest captured step by the longest request's keys (fp8_paged_mqa_logits)."""
    tokens = min(s.max_num_seqs * (1 + s.draft_tokens), 512, s.max_num_batched_tokens)
    keys = max((cdiv(s.max_model_len, ratio) for _, ratio in _indexers(d, layers)), default=0)
    return Span(*(times * tokens * keys * 4 for times in COPIES))
