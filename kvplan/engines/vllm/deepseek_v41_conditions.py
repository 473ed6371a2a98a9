"""What DeepSeek-V4.1 does not start with: formats, backends, stages, ranks and drafts that its class refuses.

vLLM 0.30 to 0.33 models/deepseek_v41: attention.py, nvidia/model.py _select_dsv4_attn_cls, common/engram.py; config/speculative.py.
"""

from __future__ import annotations

from kvplan.engines.common import conditions as on
from kvplan.engines.common.drafters import runs_own
from kvplan.engines.common.grouped_keys import is_table
from kvplan.engines.common.options import DSPARK_BLOCK
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.deepseek_v41 import MEGA, PLAIN
from kvplan.engines.vllm.layers import stages
from kvplan.engines.vllm.settings import VllmSettings, settings_of
from kvplan.units import cdiv

_OTHERS = ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120")


def _of_it(settled: Settled) -> VllmSettings | None:
    s = settings_of(settled)
    return s if s.records is not None and s.platform == "cuda" else None


def _asked(settled: Settled) -> str:
    return "auto" if "kv_dtype" in settled.chosen_by else settled.question.kv_dtype or "auto"


def _board(settled: Settled) -> bool:
    """Whether the GPU reads V4.1's own records; one that is not known is taken for Hopper's."""
    return (on.capability(settled.question) or 90) // 10 == 10


def _plain(settled: Settled, s: VllmSettings) -> bool:
    return s.backend in PLAIN and (on.capability(settled.question) or 90) // 10 != 12


def early_format(settled: Settled) -> Values:
    """A cache in another format than FP8, where rows are packed."""
    s, asked = _of_it(settled), _asked(settled)
    return {"cache": asked} if s and not _plain(settled, s) and asked != "auto" and not asked.startswith("fp8") else None


def other_format(settled: Settled) -> Values:
    """The same since rows are packed in several ways: FP8 by its short name, or a record by its own."""
    s, asked = _of_it(settled), _asked(settled)
    packs = s is not None and not _plain(settled, s)
    return {"cache": asked} if packs and asked not in ("auto", "fp8") and not asked.endswith("_ds_mla") else None


def record(settled: Settled) -> Values:
    """A packed record, asked for beside a backend that keeps plain rows."""
    s, asked = _of_it(settled), _asked(settled)
    return {"cache": asked} if s and _plain(settled, s) and asked.endswith("_ds_mla") else None


def four_bits(settled: Settled) -> Values:
    s = _of_it(settled)
    asked = s is not None and (_asked(settled) == "nvfp4_ds_mla" or (s.backend == MEGA and _asked(settled) in ("auto", "fp8")))
    return {} if asked and not _board(settled) else None


def small_keys(settled: Settled) -> Values:
    keys = {t.dtype for layer in settled.layers for cache in layer.caches if cache.form.startswith("compressed") for t in cache.tensors}
    device = settled.question.device
    return {} if "mxfp4" in keys and device is not None and device.vendor == "nvidia" and not _board(settled) else None


def another_backend(settled: Settled) -> Values:
    s = _of_it(settled)
    return {"backend": s.backend} if s and s.backend in _OTHERS else None


def cut_groups(settled: Settled) -> Values:
    """A stage whose first layers read rows that are made in the one before."""
    s = _of_it(settled)
    if s is None or s.pp == 1:
        return None
    made = {i for i, layer in enumerate(settled.model.layers) for c in layer.caches if any(t.name == "compressed" for t in c.tensors)}
    first = min(made, default=0)
    for stage in stages(settled.model, s)[1:]:
        if first < stage.start < len(settled.model.layers) and stage.start not in made:
            return {"layer": max(i for i in made if i < stage.start)}
    return None


def own_modules(settled: Settled) -> Values:
    s, d = _of_it(settled), settled.question
    return {} if s and runs_own(s.method) and d.drafter is None else None


def whole_blocks(settled: Settled) -> Values:
    """0.30 drafts whole blocks where it drafts more than one."""
    s = _of_it(settled)
    tokens = s.draft_tokens if s and s.method == "dspark" else 0
    return {"tokens": tokens, "block": DSPARK_BLOCK} if tokens > DSPARK_BLOCK and tokens % DSPARK_BLOCK else None


def heads_of_tables(settled: Settled) -> Values:
    """The tables of n-grams are dealt out whole (ParallelEngramEmbedding)."""
    s = _of_it(settled)
    for layer in settled.model.layers if s else ():
        n = sum(is_table(w) for w in layer.weights)
        if s and n and (s.tp - 1) * cdiv(n, s.tp) >= n:
            return {"tables": n, "tp": s.tp}
    return None


_PACKED, _HERE = "this model's rows are packed, in FP8 or in a record of its own", "models/deepseek_v41/attention.py"
_FORMAT, _AUTO = Move("kv_dtype", "auto or fp8"), Move("kv_dtype", "auto")
_BLACKWELL = Move("device", "a board of compute capability 10.x")
_BACKEND = Move("option:attention_backend", "none, or FLASHINFER_MLA_SPARSE_DSV41")

CHECKS: tuple[Stop, ...] = (
    Stop(
        "packed rows of another format", "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {cache:w}", _PACKED, (_FORMAT,),
        _HERE, since="0.30", before="0.31", when=early_format, loading=True,
    ),
    Stop(
        "packed rows of another format", "DeepseekV4 packed KV layouts only support fp8 kv-cache, got {cache:w}", _PACKED, (_FORMAT,),
        _HERE, since="0.31", when=other_format, loading=True,
    ),
    Stop(
        "a record beside plain rows",
        "{cache:w} is a packed FlashMLA DeepSeek V4.1 KV cache format; the selected backend stores plain KV rows.",
        "the backend that was named keeps rows as they are", (_FORMAT, _BACKEND), _HERE, since="0.31", when=record, loading=True,
    ),
    Stop(
        "rows in four bits", "nvfp4_ds_mla needs the V4.1 KV records, which FlashMLA decodes only on SM100.",
        "rows in four bits are read on compute capability 10.x alone", (_AUTO, _BACKEND, _BLACKWELL), _HERE, since="0.31", when=four_bits,
        loading=True,
    ),
    Stop(
        "keys in four bits", "indexer_kv_dtype='mxfp4' requires Blackwell datacenter GPUs",
        "keys in four bits are read on compute capability 10.x alone", (Move("option:indexer_kv_dtype", "fp8"), _BLACKWELL),
        "v1/attention/backends/mla/indexer.py dsa_indexer_uses_fp4", since="0.23", when=small_keys, loading=True,
    ),
    Stop(
        "a backend of other models", "{backend:w} is not a DeepSeek V4.1 attention backend.", "its kernels do not read this model's rows",
        (_BACKEND,), "models/deepseek_v41/nvidia/model.py _select_dsv4_attn_cls", since="0.30", when=another_backend, loading=True,
    ),
    Stop(
        "rows of another stage", "PP splits inside a v4.1 kv-sharing group are not supported.",
        "layers read rows that a layer of another stage makes", (Move("pp", "1, with a larger tp"),), _HERE, since="0.30",
        when=cut_groups, loading=True, numbers="the rows of layer {layer}",
    ),
    Stop(
        "modules of another way", "DeepSeek V4.1 has no classic-MTP draft", "the checkpoint ships DSpark's stages in place of such modules",
        (Move("speculative", "dspark, or off"),), "config/speculative.py", since="0.30", when=own_modules,
    ),
    Stop(
        "parts of a block of drafts", "num_speculative_tokens:{tokens} must be divisible by n_predict={block}",
        "this release drafts whole blocks of {block} tokens", (Move("speculative", "dspark with a multiple of {block}"),),
        "config/speculative.py", since="0.30", before="0.31", when=whole_blocks,
    ),
    Stop(
        "tables of n-grams and ranks", "Engram sharding leaves ranks without hash heads:",
        "its tables of n-grams are dealt out whole",
        (Move("tp", "8, or another size that leaves no rank without one"),), "models/deepseek_v41/common/engram.py ParallelEngramEmbedding",
        since="0.30", when=heads_of_tables, loading=True, numbers="{tables} tables over {tp} ranks",
    ),
)  # fmt: skip
