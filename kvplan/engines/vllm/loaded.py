"""The weights as vLLM loads them on a rank: padding, shared towers, rotary tables, LoRA slots.

vLLM 0.33 `vllm/model_executor/layers/vocab_parallel_embedding.py`, `quantization/mxfp4.py`, `rotary_embedding/*.py`, `vllm/lora/layers`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.deployment import Deployment
from kvplan.dtypes import WEIGHT_FORMATS
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.grouped_keys import is_table
from kvplan.engines.common.lines import stage_weights, weight_entries
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Drafter
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.vllm.before_v1 import FUSED, absorbed
from kvplan.engines.vllm.media import text_alone, whole_towers
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.tensors import Layer, Lowered, WeightTensor, distinct, layer_counts
from kvplan.units import MIB, cdiv, round_up
from kvplan.weights import Tensors, WeightFormats

VOCAB_PADDING = 64  # vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE
NVFP4_ROWS, NVFP4_SINCE = 128, "0.12"  # utils/quant_utils.py swizzle_blockscale
#: torch's caching allocator (c10/cuda/CUDACachingAllocator.h kMinLargeAlloc, kRoundLarge, kSmallSize): from 10 MiB on a tensor gets a block
#: of whole 2 MiB, and what of it is beyond the tensor stays the tensor's unless that is more than 1 MiB.
LARGE_BYTES, BLOCK_BYTES, SPLIT_BYTES = 10 * MIB, 2 * MIB, MIB
#: Classes whose rotary tables are longer than the model's maximum: linear scaling stretches the table (linear_scaling_rope.py), and
#: positions in three directions get four times as many (mrope.py).
STRETCHED_TABLES: dict[str, int] = {
    "Gemma3ForConditionalGeneration": 8,
    "Qwen2VLForConditionalGeneration": 4,
    "Qwen2_5_VLForConditionalGeneration": 4,
    "Qwen2_5OmniForConditionalGeneration": 4,
    "Qwen3VLForConditionalGeneration": 4,
    "Qwen3VLMoeForConditionalGeneration": 4,
    "Glm4vForConditionalGeneration": 4,
}


def loaded_weights(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> Tensors:
    """What the ranks of one stage hold between them: no tower without images, vocabularies padded, packed experts padded."""
    weights = stage_weights(model, stage)
    layers = layer_counts(model.layers[stage.start : stage.stop])
    if s.rules.v1:
        weights += [(copy, n) for layer, n in layers for copy in _absorbed(layer, formats)]
    elif s.rules.absorbs and (s.rules.latent == "rows" or not s.packed):
        weights += [(copy, n) for layer, n in layers for copy in absorbed(layer, d.model.hidden_size, formats)]
    left_out = "tower" if text_alone(d) else None
    units = 1 if whole_towers(d, s.release) else s.tp  # towers are tensor-parallel layers too
    if table_in_host(d, s):
        weights = [(w, n) for w, n in weights if not is_table(w)]
    # tables are split over ranks (models/qwen4_exp/common/ngram_embedding.py, deepseek_v41/common/engram.py)
    weights = [(w._replace(units=s.tp) if is_table(w) else w, n) for w, n in weights]
    grid, ranks = mxfp4_grid(d, s), _split_over(d, s)
    blocks = _without_gates((w for w, _ in weights), formats, ranks) if _multiplies_fp4(d, s) else {}
    loaded = ((_padded(blocks.get(w.name, w), formats, grid, ranks), n) for w, n in weights if w.role != left_out)
    return [(w._replace(units=units) if w.role == "tower" else w, n) for w, n in loaded]


def _split_over(d: Deployment, s: VllmSettings) -> int:
    """Ranks that an expert's width is split over: 1 where they hold whole experts."""
    return 1 if (d.ep or 1) > 1 else s.role_tp["experts"]


def _multiplies_fp4(d: Deployment, s: VllmSettings) -> bool:
    """Whether the card multiplies in FP4 itself; on others Marlin's kernels unpack it, which pad nothing here."""
    return (capability(d) or 0) >= 100 and s.since(NVFP4_SINCE)


def mxfp4_grid(d: Deployment, s: VllmSettings) -> tuple[int, int]:
    """What the kernels of experts in MXFP4 want the hidden size, and a rank's part of a width, to be multiples of: Marlin's 256 and 128.

    gpt-oss has others (quantization/mxfp4.py up to 0.18, fused_moe/oracle/mxfp4.py since): Triton's on Hopper without adapters and on AMD,
    both from 0.20 on, FlashInfer's on compute capability 10; and on Intel's cards Marlin wants less. gpt-oss-120b on an H100 leaves what
    Marlin's need with 0.11.0, whose wheels bring no Triton kernels; logs say 64.4 GiB of 0.14.1 and 61.1 of 0.27.1.
    """
    number, vendor = (capability(d) or 0) // 10, d.device.vendor if d.device is not None else None
    if d.model.architecture != "GptOssForCausalLM":
        return 256, 128
    if vendor == "intel":
        return 128, 128
    if number == 9 and s.since("0.20") and d.lora in (None, "off"):
        return 1, 64
    wide = s.since("0.20") if vendor == "amd" else number == 10 and not s.since("0.27")
    return 256, 256 if wide else 128


def table_in_host(d: Deployment, s: VllmSettings) -> bool:
    """Whether n-gram tables are in host memory: from 0.30 on (config/engram.py cpu_offload: of NVIDIA's GPUs, in 0.30 unless
    VLLM_PLE_CPU_OFFLOAD is 0, since unless --engram-config says so; DeepSeek-V4.1's of AMD's too), where that is not the device's own."""
    away, device = Options(d).flag("engram_cpu_offload", True), d.device
    here = device is not None and (device.unified or (device.vendor == "amd" and s.records is None))
    return s.since("0.30") and away and not here


def table_bytes(d: Deployment, s: VllmSettings) -> int:
    """Bytes of the n-gram tables that all ranks of a replica hold in host memory between them; 0 where none is there."""
    found = [(w, 1) for layer in s.served.layers for w in layer.weights if is_table(w)] if table_in_host(d, s) else []
    return sum(entry.bytes for entry in weight_entries(found, weight_formats(d), tp=1, ep=1))


def drafted(s: VllmSettings) -> Drafter | None:
    """The drafter with its vocabularies padded, as the last stage's ranks load it."""
    found = s.drafter
    return found and found._replace(weights=tuple(_padded(w, found.formats, (1, 1), 1) for w in found.weights))


def _absorbed(layer: Layer, formats: WeightFormats) -> list[WeightTensor]:
    """Latent attention multiplies by its up-projection in 16 bits: of a quantised one there is a second copy (mla_attention.py W_UK)."""
    packed = (w for w in layer.weights if w.name == "kv_b" and WEIGHT_FORMATS[formats.of(w)].bits < 16)
    return [w._replace(name="kv_b in 16 bits", role="buffer", own="", stored=None) for w in packed]


def _padded(w: WeightTensor, formats: WeightFormats, grid: tuple[int, int], ranks: int) -> WeightTensor:
    """The tensor in the shape that is loaded. `ranks`: those that an expert's width is split over, each part of which is padded."""
    if w.role in ("embedding", "head") and len(w.shape) == 2 and w.units == w.shape[0]:
        rows = round_up(w.shape[0], VOCAB_PADDING)
        return _grown(w, (rows, w.shape[1]))._replace(units=rows)
    if w.experts and len(w.shape) == 3 and formats.of(w) == "mxfp4":
        n, out, into = w.shape
        hidden, inner = grid
        if w.name.endswith("down"):
            return _grown(w, (n, round_up(out, hidden), ranks * round_up(cdiv(into, ranks), inner)))
        return _grown(w, (n, ranks * round_up(cdiv(out, ranks), inner), round_up(into, hidden)))
    return w


def _without_gates(weights: Iterable[WeightTensor], formats: WeightFormats, tp: int) -> dict[str, WeightTensor]:
    """Experts in NVFP4 that have no gate: a rank's part of their width is whole blocks of 128 scales' rows, by name.

    flashinfer_fp4_moe.py prepare_nvfp4_moe_layer_for_fi_or_cutlass, modelopt.py before: gated ones are refused instead.
    """
    mine = [w for w in weights if w.experts and len(w.shape) == 3 and formats.of(w) == "nvfp4"]
    if any(w.name.endswith("gate") for w in mine):
        return {}
    sides = ((w, 2 if w.name.endswith("down") else 1) for w in mine)
    shapes = ((w, tuple(tp * round_up(cdiv(n, tp), NVFP4_ROWS) if i == side else n for i, n in enumerate(w.shape))) for w, side in sides)
    return {w.name: _grown(w, shape) for w, shape in shapes}


def _grown(w: WeightTensor, shape: tuple[int, ...]) -> WeightTensor:
    """The tensor in a larger shape; bytes known from headers grow with it."""
    grown = w._replace(shape=shape)
    return grown if w.stored is None else grown._replace(stored=cdiv(w.stored * grown.elems, w.elems))


def rotary_bytes(d: Deployment, model: Lowered, s: VllmSettings) -> int:
    """Cosines and sines of every position, in the compute type, once for each width that rotates, and for windows beside full attention."""
    positions = d.model.max_context or s.max_model_len
    tensors = [t for layer in distinct(model.layers) for cache in layer.caches for t in cache.tensors]
    full = {t.elems_per_state for t in tensors if t.name == "k" and t.keep.kind != "window"}
    windowed = {t.elems_per_state for t in tensors if t.name == "k" and t.keep.kind == "window"}
    if any(t.name == "latent" for t in tensors):
        full.add(64)
    if any(t.name == "compressed" for t in tensors):  # two bases, in f32 (deepseek_scaling_rope.py DeepseekV4ScalingRotaryEmbedding)
        return positions * 64 * 4 * 2
    stretched = STRETCHED_TABLES.get(d.model.architecture or "", 1)
    return positions * (sum(full) * stretched + sum(windowed)) * (4 if s.formats.compute == "f32" else 2)


def repacked_bytes(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> int:
    """One layer's quantised experts on a rank: their kernel's layout is made beside what was loaded, layer by layer."""

    def experts(layer: Layer) -> list[WeightTensor]:
        return [w for w in layer.weights if w.experts and WEIGHT_FORMATS[formats.of(w)].bits < 16]

    layers = distinct(model.layers[stage.start : stage.stop])
    return max((sum(_shares(experts(layer), formats, d, s).values()) for layer in layers), default=0)


def rounding_bytes(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> int:
    """What torch's blocks hold beyond the matrices in them, on a rank of one stage: counted as weights with these."""

    def beyond(weights: Iterable[WeightTensor]) -> int:
        return _beyond(_shares(weights, formats, d, s).values())

    outside = [
        *(model.last if stage.stop == len(model.layers) else ()),
        *([model.embedding] if model.embedding and not stage.start else ()),
    ]
    layers = layer_counts(model.layers[stage.start : stage.stop])
    return sum(beyond([w]) for w in outside) + sum(n * beyond(layer.weights) for layer, n in layers)


def _shares(weights: Iterable[WeightTensor], formats: WeightFormats, d: Deployment, s: VllmSettings) -> dict[str, int]:
    """Bytes of each matrix as it is loaded on a rank, scales apart, by name; what vLLM fuses is one."""
    found: dict[str, int] = {}
    grid, ranks, ep = mxfp4_grid(d, s), _split_over(d, s), d.ep or 1
    for w in weights:
        if len(w.shape) < 2 or w.role == "tower":
            continue
        padded = _padded(w, formats, grid, ranks)
        units, over = (w.experts, ep) if w.experts and ep > 1 else (padded.units, s.role_tp.get(w.role, s.tp))
        prefix, _, name = w.name.rpartition("_")
        key = f"{w.role} {prefix} {FUSED.get(name, name)}"
        share = padded.elems * max(1, cdiv(units, over)) // units if units > 1 else padded.elems
        found[key] = found.get(key, 0) + share * WEIGHT_FORMATS[formats.of(padded)].bits // 8
    return found


def _beyond(sizes: Iterable[int]) -> int:
    """
    >>> _beyond([85 * MIB, 170 * MIB, 112 * MIB + MIB // 2, 3 * MIB]) // MIB
    1
    """
    return sum(-n % BLOCK_BYTES for n in sizes if n >= LARGE_BYTES and -n % BLOCK_BYTES <= SPLIT_BYTES)
