"""Sparse attention whose indexer keeps one key for several tokens, and a ring of each request's last raw ones: GLM-5-Next, Qwen4-Exp.

vLLM 0.33 models/glm5next/common/attention.py (Glm5NextIndexerCache, Glm5NextTailCache), common/kda.py; models/config.py
Glm5NextModelConfig; v1/attention/backends/mla/indexer.py, sparse_utils.py align_blocks_to_rows. 0.30 and 0.31 differ as said below.
models/qwen4_exp/common/qsa_cache.py (QSAKeyStateCache, QSACompressedKeyCache), nvidia/ple_layer.py, from 0.29 on.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import row_bytes
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.grouped_keys import key_group
from kvplan.engines.common.releases import release
from kvplan.engines.vllm.wordings import Refused
from kvplan.errors import UnsupportedError
from kvplan.spec import ModelSpec
from kvplan.tensors import CacheTensor
from kvplan.units import cdiv, round_up

#: Classes -> the first release whose registry has them (model_executor/models/registry.py).
CLASSES: dict[str, str] = {
    **dict.fromkeys(("Glm5NextForConditionalGeneration", "Glm5NextForCausalLM"), "0.30"),
    **dict.fromkeys(("Qwen4ExpForConditionalGeneration", "Qwen4ExpForCausalLM"), "0.29"),
}
#: Rows of the largest page of keys that the indexer's kernel reads (utils/deep_gemm.py get_paged_mqa_page_sizes).
KEY_PAGE = 64
#: Elements of 16 bits beside a raw key of Qwen4-Exp: its three positions in 64 bits.
POSITIONS = 12


class Pooled(NamedTuple):
    """What a release's kernels for a GPU make of such layers.

    packed    a latent row is 656 bytes of FlashMLA's, whatever its width (compute capability 12.x)
    rows      latent rows of a page that the kernel reads: packed blocks are whole pages apart; 0: no kernel runs on the GPU
    key_page  the smallest page of the indexer's keys, in keys
    exports   the delta attention keeps a state for a prefill's checkpoint (FlashKDA)
    drafts    the ring is widened for drafted tokens, from 0.31 on
    strided   blocks keep the kernels' pages whole, from 0.32 on
    group     tokens of a key beside K and V (Qwen4-Exp); 0: beside latents
    """

    packed: bool
    rows: int
    key_page: int
    exports: bool
    drafts: bool
    strided: bool
    group: int = 0


def has_pool(model: ModelSpec) -> bool:
    """Whether latent attention of the model keeps keys of several tokens."""
    return any(getattr(mixer, "index_pool", 1) > 1 for block in model.blocks.values() for mixer in block.mixers)


def first_release(model: ModelSpec, version: str) -> str | None:
    """The first release with the model's class, where the one that is asked is before it: a build of a branch."""
    since = CLASSES.get(model.architecture or "")
    return since if since is not None and release(version) < release(since) else None


def pooled(d: Deployment, version: str) -> Pooled | None:
    """The kernels of a deployment; Hopper's where the GPU is not known. Raises UnsupportedError on AMD's GPUs.

    A build of a branch is taken to have the kernels of the first release with the class.
    """
    at = release(first_release(d.model, version) or version)
    if group := key_group(d.model):
        return Pooled(packed=False, rows=1, key_page=1, exports=False, drafts=True, strided=False, group=group)
    if not has_pool(d.model):
        return None
    if at < release("0.30"):
        raise UnsupportedError("vllm: no release before 0.30 keeps one index key for several tokens")
    if d.device is not None and d.device.vendor not in ("nvidia", "other"):
        raise UnsupportedError(f"vllm: blocks of pooled index keys on {d.device.name} are not modelled")
    major = (capability(d) or 90) // 10
    return Pooled(
        packed=major == 12,
        rows={9: 1, 10: 32, 12: 64}.get(major, 0),
        key_page=64 if major == 12 else 32,
        exports=at >= release("0.32") and major in (9, 10, 12),
        drafts=at >= release("0.31"),
        strided=at >= release("0.32"),
    )


def kda_told(model: ModelSpec, version: str) -> bool:
    """Whether the type of states that is asked for reaches Kimi delta attention: from 0.30 on, of these models from 0.32."""
    return release(version) >= release("0.32" if has_pool(model) else "0.30")


def own_format(d: Deployment, version: str) -> str | None:
    """The cache format where none is asked for: 8 bits on 12.x, from 0.33 on also on 10.x; None: the compute type."""
    major = (capability(d) or 90) // 10
    eight = major == 12 or (major == 10 and release(version) >= release("0.33"))
    return "fp8_e4m3" if eight and has_pool(d.model) and d.kv_dtype in (None, "auto") else None


def latent_bytes(latent: CacheTensor, made: Pooled) -> int:
    """Bytes of one latent row on one rank. Refused where the GPU has no kernel for it."""
    if not made.rows:
        raise Refused("No valid attention backend found for cuda: sparse latent attention needs compute capability 9.0")
    if not made.packed:
        return row_bytes(latent.dtype, latent.elems_per_state)
    if not latent.dtype.startswith("fp8"):
        raise Refused(f"No valid attention backend found for cuda: FLASHINFER_MLA_SPARSE_SM120 has no cache in {latent.dtype}")
    return row_bytes("fp8_ds_mla", 576)


def latent_stride(row: int, made: Pooled) -> int:
    """Bytes that blocks of latents must be a multiple of apart."""
    return row * made.rows if made.strided else 1


def key_stride(key: int, pool: int, block: int, made: Pooled) -> int:
    """The same of blocks of keys, `key` bytes each: whole kernel pages, where a block holds several."""
    kernel = gcd(pool * KEY_PAGE, block)
    return kernel // pool * key if made.strided and kernel != block else 1


def whole_groups(pool: int, draft_tokens: int, block: int) -> int:
    """Tokens of Qwen4-Exp's ring: whole groups, the drafts beside the open one in them."""
    tokens = round_up(pool + draft_tokens, pool)
    if block % tokens:
        raise Refused(f"QSA ring capacity {tokens} must divide the attention block size {block}")
    return tokens


def ring(pool: int, draft_tokens: int, block: int, made: Pooled) -> int:
    """Tokens of the ring: whole groups, their number a power of two, and room for drafts beside the open group."""
    groups = cdiv(pool + draft_tokens, pool) if made.drafts else 1
    tokens = pool << (groups - 1).bit_length()
    if block % tokens:
        raise Refused(f"Glm5NextTailCache: cache_config.block_size ({block}) must be a multiple of the tail ring ({tokens})")
    return tokens
