"""Storage formats as data: how many bytes a row of elements takes, scales and packing included.

A row is what one head stores for one state (one token, one compressed entry, one recurrent state).
Bytes of a row of n elements = ceil(n / block) * block_bytes + row_bytes, or the fixed size of a packed row.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.errors import SpecError, UnknownName
from kvplan.units import cdiv


class StorageFormat(NamedTuple):
    """One cache format. `packed_elems` > 0: the row is defined for exactly that many elements and takes `row_bytes`."""

    block: int
    block_bytes: int
    row_bytes: int = 0
    packed_elems: int = 0
    whole_blocks: bool = False  # a row must be a whole number of blocks (GGML, NVFP4, MX)
    source: str = "IEEE 754 / OCP FP8"


_VLLM = "vLLM 0.33 vllm/v1/kv_cache_interface.py and the attention backends' customize_spec"
_GGML = "ggml ggml-common.h block structs"
_TQ = "vLLM 0.33 vllm/model_executor/layers/quantization/turboquant/config.py"

FORMATS: dict[str, StorageFormat] = {
    "f64": StorageFormat(1, 8),
    "f32": StorageFormat(1, 4),
    "f16": StorageFormat(1, 2),
    "bf16": StorageFormat(1, 2),
    "fp8_e4m3": StorageFormat(1, 1),
    "fp8_e5m2": StorageFormat(1, 1),
    "int8": StorageFormat(1, 1),
    # per token and head: the payload and one f32 scale
    "int8_per_token_head": StorageFormat(1, 1, 4, source=_VLLM),
    "fp8_per_token_head": StorageFormat(1, 1, 4, source=_VLLM),
    "int4_per_token_head": StorageFormat(2, 1, 4, source=_VLLM),
    # block formats with scales inside the block
    "fp8_scale128": StorageFormat(128, 132, whole_blocks=True, source="DeepSeek-V3.2 indexer keys: 128 e4m3 + one f32 scale"),
    "nvfp4": StorageFormat(16, 9, whole_blocks=True, source="NVFP4: 16 e2m1 + one e4m3 scale"),
    "mxfp8": StorageFormat(32, 33, whole_blocks=True, source="OCP MX v1.0: 32 e4m3 + one e8m0 scale"),
    "mxfp4": StorageFormat(32, 17, whole_blocks=True, source="OCP MX v1.0: 32 e2m1 + one e8m0 scale"),
    "q8_0": StorageFormat(32, 34, whole_blocks=True, source=_GGML),
    "q5_1": StorageFormat(32, 24, whole_blocks=True, source=_GGML),
    "q5_0": StorageFormat(32, 22, whole_blocks=True, source=_GGML),
    "q4_1": StorageFormat(32, 20, whole_blocks=True, source=_GGML),
    "q4_0": StorageFormat(32, 18, whole_blocks=True, source=_GGML),
    "iq4_nl": StorageFormat(32, 18, whole_blocks=True, source=_GGML),
    # packed latent rows: one size for one width
    "fp8_ds_mla": StorageFormat(1, 0, 656, 576, source="512 e4m3 + 4 f32 scales + 64 bf16 rope; " + _VLLM),
    "nvfp4_ds_mla": StorageFormat(1, 0, 352, 576, source=_VLLM),
    "fp8_ds_v4": StorageFormat(1, 0, 584, 512, source="448 e4m3 + 64 bf16 rope + 8 scale bytes; " + _VLLM),
    # TurboQuant halves: keys carry a 2-byte norm, values a 2-byte scale and zero
    "turboquant_k8": StorageFormat(1, 1, source=_TQ),
    "turboquant_k4": StorageFormat(2, 1, 2, source=_TQ),
    "turboquant_k3": StorageFormat(8, 3, 2, source=_TQ),
    "turboquant_v4": StorageFormat(2, 1, 4, source=_TQ),
    "turboquant_v3": StorageFormat(8, 3, 4, source=_TQ),
}

#: Names that set K and V together to different formats.
PAIRS: dict[str, tuple[str, str]] = {
    "turboquant_k8v4": ("turboquant_k8", "turboquant_v4"),
    "turboquant_4bit_nc": ("turboquant_k4", "turboquant_v4"),
    "turboquant_k3v4_nc": ("turboquant_k3", "turboquant_v4"),
    "turboquant_3bit_nc": ("turboquant_k3", "turboquant_v3"),
}

ALIASES: dict[str, str] = {
    "float64": "f64", "double": "f64",
    "float32": "f32", "float": "f32", "fp32": "f32",
    "float16": "f16", "half": "f16", "fp16": "f16",
    "bfloat16": "bf16",
    "fp8": "fp8_e4m3", "fp8_inc": "fp8_e4m3", "e4m3": "fp8_e4m3", "float8_e4m3fn": "fp8_e4m3", "f8_e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2", "float8_e5m2": "fp8_e5m2", "f8_e5m2": "fp8_e5m2",
    "fp4_e2m1": "nvfp4", "nvfp4_4over6": "nvfp4",
}  # fmt: skip


def canonical(name: str, what: str = "storage format") -> str:
    """The one name a format goes by here. Raises UnknownName."""
    key = name.strip().lower()
    key = ALIASES.get(key, key)
    if key not in FORMATS:
        raise UnknownName(what, name, [*FORMATS, *PAIRS, *ALIASES])
    return key


def parse_kv_dtype(text: str) -> tuple[str, str]:
    """`bf16`, `fp8`, `q8_0/q4_0` (K/V apart) or a paired name -> the K format and the V format."""
    parts = text.strip().lower().split("/")
    if len(parts) > 2:
        raise SpecError("kv_dtype", [("", f"{text[:60]!r}: write one format, or K/V as in q8_0/q4_0")])
    if len(parts) == 1 and parts[0] in PAIRS:
        return PAIRS[parts[0]]
    formats = [canonical(part, "KV cache format") for part in parts]
    return formats[0], formats[-1]


def row_bytes(name: str, elems: int) -> int:
    """Bytes of one row of `elems` elements in the format. Raises SpecError when the format can not hold such a row."""
    f = FORMATS[name]
    if f.packed_elems:
        if elems != f.packed_elems:
            raise SpecError(name, [("", f"a packed row of {f.packed_elems} elements; this cache has rows of {elems}")])
        return f.row_bytes
    if f.whole_blocks and elems % f.block:
        raise SpecError(name, [("", f"rows are whole blocks of {f.block} elements; this cache has rows of {elems}")])
    return cdiv(elems, f.block) * f.block_bytes + f.row_bytes


class WeightFormat(NamedTuple):
    """A checkpoint format: payload bits per element, and what accompanies each group of `rows` x `group` elements.

    group 0: the whole row; rows 0: the whole tensor. `extra_bits` are scales and zero points of one group.
    """

    bits: int
    group: int = 0
    rows: int = 1
    extra_bits: int = 0
    source: str = ""


_CT = "compressed-tensors quantization schemes"
WEIGHT_FORMATS: dict[str, WeightFormat] = {
    "f64": WeightFormat(64),
    "f32": WeightFormat(32),
    "f16": WeightFormat(16),
    "bf16": WeightFormat(16),
    "fp8": WeightFormat(8, 0, 0, 32, "one f32 scale per tensor"),
    "fp8_channel": WeightFormat(8, 0, 1, 32, _CT + ": one f32 scale per output channel"),
    "fp8_block128": WeightFormat(8, 128, 128, 32, "DeepSeek-V3 weight_scale_inv: one f32 per 128 x 128 block"),
    "int8_channel": WeightFormat(8, 0, 1, 32, _CT + ": W8A8, one f32 scale per output channel"),
    "mxfp8": WeightFormat(8, 32, 1, 8, "OCP MX v1.0"),
    "mxfp4": WeightFormat(4, 32, 1, 8, "OCP MX v1.0; gpt-oss experts"),
    "nvfp4": WeightFormat(4, 16, 1, 8, "NVIDIA ModelOpt NVFP4: one e4m3 scale per 16"),
    "int4_g128": WeightFormat(4, 128, 1, 16, _CT + ": symmetric W4A16, one 16-bit scale per 128"),
    "int4_g64": WeightFormat(4, 64, 1, 16, _CT + ": symmetric W4A16, one 16-bit scale per 64"),
    "int4_g32": WeightFormat(4, 32, 1, 16, _CT + ": symmetric W4A16, one 16-bit scale per 32"),
    "int4_channel": WeightFormat(4, 0, 1, 16, _CT + ": symmetric W4A16, one 16-bit scale per output channel"),
    "int8_g128": WeightFormat(8, 128, 1, 16, _CT + ": symmetric W8A16, one 16-bit scale per 128"),
    "awq_g128": WeightFormat(4, 128, 1, 20, "AutoAWQ: 16-bit scale and 4-bit zero point per 128"),
    "awq_g64": WeightFormat(4, 64, 1, 20, "AutoAWQ: 16-bit scale and 4-bit zero point per 64"),
    "awq_g32": WeightFormat(4, 32, 1, 20, "AutoAWQ: 16-bit scale and 4-bit zero point per 32"),
    "gptq_g64": WeightFormat(4, 64, 1, 20, "GPTQ: 16-bit scale and 4-bit zero point per 64"),
    "gptq_g32": WeightFormat(4, 32, 1, 20, "GPTQ: 16-bit scale and 4-bit zero point per 32"),
    "gptq_channel": WeightFormat(4, 0, 1, 20, "GPTQ, group size -1: 16-bit scale and 4-bit zero point per output channel"),
    "gptq8_channel": WeightFormat(8, 0, 1, 24, "GPTQ 8 bit, group size -1: 16-bit scale and 8-bit zero point per output channel"),
    "gptq8_g32": WeightFormat(8, 32, 1, 24, "GPTQ 8 bit: 16-bit scale and 8-bit zero point per 32"),
    "gptq_g128": WeightFormat(4, 128, 1, 20, "GPTQ: 16-bit scale and 4-bit zero point per 128"),
    "gptq8_g128": WeightFormat(8, 128, 1, 24, "GPTQ 8 bit: 16-bit scale and 8-bit zero point per 128"),
    "nf4": WeightFormat(4, 64, 1, 32, "bitsandbytes NF4: f32 absmax per 64, no double quantisation"),
    "int8": WeightFormat(8, 0, 1, 32, "bitsandbytes LLM.int8: one f32 scale per row"),
}  # fmt: skip
WEIGHT_ALIASES = {**ALIASES, "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_block": "fp8_block128", "awq": "awq_g128", "gptq": "gptq_g128"}


def canonical_weight(name: str) -> str:
    """The one name a checkpoint format goes by here. Raises UnknownName."""
    key = name.strip().lower()
    key = WEIGHT_ALIASES.get(key, key)
    if key not in WEIGHT_FORMATS:
        raise UnknownName("weight format", name, [*WEIGHT_FORMATS, *WEIGHT_ALIASES])
    return key


def matrix_bytes(name: str, out_features: int, in_features: int) -> int:
    """Bytes of one [out_features, in_features] matrix, its scales and zero points included."""
    f = WEIGHT_FORMATS[name]
    payload = cdiv(out_features * in_features * f.bits, 8)
    if not f.extra_bits:
        return payload
    groups = cdiv(in_features, f.group or in_features) * cdiv(out_features, f.rows or out_features)
    return payload + cdiv(groups * f.extra_bits, 8)
