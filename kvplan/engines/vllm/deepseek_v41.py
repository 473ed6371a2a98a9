"""DeepSeek-V4.1: rows that four layers make for all the others, in the records of a release's kernels for a GPU.

vLLM 0.33 models/deepseek_v41: attention.py (DeepseekV4Attention, DeepseekV4IndexerCache), nvidia/model.py _select_dsv4_attn_cls,
nvidia/flash_mla_mega_attn.py is_available_for, sparse_mla.py get_supported_kernel_block_sizes, amd/rocm.py. 0.30 to 0.32 differ as said.
"""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import row_bytes
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import release

#: DeepSeek-V4's record, its indexer's key, and those that Blackwell's kernels read from V4.1 on.
PACKED_ROWS, INDEX_ROWS, EIGHT, FOUR, SMALL_KEYS = "fp8_ds_v4", "fp8_scale128", "mxfp8", "nvfp4", "mxfp4"
#: Backends that keep plain rows but on compute capability 12.x, and the one that reads rows in four bits, its default from a release on.
PLAIN, MEGA, MEGA_SINCE = ("FLASHINFER_MLA_SPARSE_DSV4", "FLASHINFER_MLA_SPARSE_DSV41"), "FLASHMLA_MEGA_ATTN_DSV41", "0.31"
#: Heads of a group that it multiplies together (WV_GROUP_SIZE).
GROUP = 8
#: From this release on blocks are whole pages of the kernel apart (v1/worker/utils.py customize_attention_spec), and from the next whole
#: records of both kinds.
SPLITS_SINCE, WHOLE_SINCE = "0.32", "0.33"


class SharedRows(NamedTuple):
    """Formats of a window's rows, of the rows that all read, and of their keys.

    block   tokens of a block where none is asked for: the kernel's own, of which larger ones are made up
    align   a page is a multiple of so many bytes
    splits  blocks are whole pages of the kernel apart
    stride  and a multiple of so many bytes
    """

    window: str
    rows: str
    keys: str
    block: int
    align: int
    splits: bool
    stride: int = 1


def index_keys(d: Deployment) -> str:
    """The format of an indexer's keys of compressed rows (attention.py _indexer_k_cache_head_dim)."""
    return SMALL_KEYS if Options(d).text("indexer_kv_dtype", ("auto", "fp8", "mxfp4")) == "mxfp4" else INDEX_ROWS


def shared_rows(d: Deployment, version: str, backend: str | None) -> SharedRows | None:
    """The records of a deployment; Hopper's where the GPU is not known. None for any other model."""
    mixers = [mixer for block in d.model.blocks.values() for mixer in block.mixers if getattr(mixer, "shared", False)]
    if not mixers:
        return None
    keys, major, asked = index_keys(d), (capability(d) or 90) // 10, d.kv_dtype or "auto"
    amd, at = d.device is not None and d.device.vendor == "amd", release(version)
    splits = at >= release(SPLITS_SINCE)
    if backend in PLAIN and major != 12 and not amd:
        row = "fp8_e4m3" if asked.startswith("fp8") else "bf16"
        return SharedRows(row, row, keys, 128, 512, splits)
    if amd or major != 10:
        return SharedRows(PACKED_ROWS, PACKED_ROWS, keys, 64 if major == 9 and not amd else 128, 576, splits)
    heads, groups, width = (getattr(mixers[0], name) for name in ("heads", "o_groups", "head_dim"))
    mega = backend == MEGA or (backend is None and at >= release(MEGA_SINCE) and _groups_whole(heads, groups, d.tp or 1))
    rows = FOUR if asked == "nvfp4_ds_mla" or (mega and asked in ("auto", "fp8")) else EIGHT
    stride = lcm(row_bytes(EIGHT, width), row_bytes(rows, width)) if at >= release(WHOLE_SINCE) else 1
    return SharedRows(EIGHT, rows, keys, 128, 512, splits, stride)


def _groups_whole(heads: int, groups: int, tp: int) -> bool:
    """Whether every rank has whole groups of the heads that the kernel multiplies together."""
    return heads % tp == groups % tp == 0 and heads // groups == GROUP
