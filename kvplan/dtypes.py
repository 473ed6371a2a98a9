"""Storage formats as data: how many bytes a row of elements takes, scales and packing included.

A row is what one head stores for one state (one token, one compressed entry, one recurrent state).
Bytes of a row of n elements = ceil(n / block) * block_bytes + row_bytes, or the fixed size of a packed row.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NamedTuple

from kvplan.errors import SpecError, UnknownName, UnsupportedError
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
    "fp4_e2m1": "nvfp4", "fp4_mx_block16": "nvfp4", "nvfp4_4over6": "nvfp4",
}  # fmt: skip


#: What a model computes in, and plain checkpoints are stored in.
COMPUTE = ("f64", "f32", "f16", "bf16")


#: Formats that an engine has and no row here: what is known of their bytes.
_OCTAVE = "vLLM 0.32 and later, AMD's CDNA 3 and RDNA 3 alone; its bytes depend on the rotary width (v1/attention/ops/rocm_octave.py)"
NOT_MODELLED: dict[str, str] = {
    "ultraquant_4bit": "vLLM 0.31 and later, AMD's GPUs alone; 17 bytes for 32 elements, the first and last layers in 16 bits "
    "(v1/attention/ops/ultraquant/format.py)",
    "octave_k3v4": _OCTAVE, "octave_k3v3": _OCTAVE, "octave_k3v3_compact": _OCTAVE,
}  # fmt: skip


def canonical(name: str, what: str = "storage format") -> str:
    """The one name a format goes by here. Raises UnknownName, UnsupportedError for one that is known and not modelled."""
    key = name.strip().lower()
    if key in NOT_MODELLED:
        raise UnsupportedError(f"{what} {key} is not modelled: {NOT_MODELLED[key]}; write another, such as auto or fp8")
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

    group 0: the whole row; rows 0: the whole tensor. `extra_bits` are scales and zero points of one group, `column_bits` what is kept
    for each input feature. `ends`: what a matrix really took, as parts of this, in 90 % of the cases that docs/weights.md lists.
    """

    bits: int
    group: int = 0
    rows: int = 1
    extra_bits: int = 0
    source: str = ""
    column_bits: int = 0
    ends: tuple[float, float] = (1.0, 1.0)

    @property
    def bits_per_weight(self) -> float:
        """Of a large matrix, scales and zero points of its groups included."""
        return self.bits + (self.extra_bits / (self.group * self.rows) if self.group and self.rows else 0)


#: What a quantised matrix took, stored or loaded, as parts of what its format says.
_ENDS = (0.97, 1.04)
_GROUPS = {"channel": 0, "g16": 16, "g32": 32, "g64": 64, "g128": 128, "g256": 256, "g512": 512, "g1024": 1024}
_CT = "compressed-tensors quantization schemes"


def _grouped(family: str, bits: int, zero: bool, source: str, column_bits: int = 0) -> dict[str, WeightFormat]:
    """`gptq_g128`, `gptq8_channel` and their like: a 16-bit scale, and a zero point of the payload's width, for each group."""
    start = family if bits == 4 and family != "int" else f"{family}{bits}"
    extra, said = (16 + bits, f"16-bit scale and {bits}-bit zero point") if zero else (16, "one 16-bit scale")
    return {
        f"{start}_{name}": WeightFormat(bits, n, 1, extra, f"{source}: {said} per {n or 'output channel'}", column_bits, _ENDS)
        for name, n in _GROUPS.items()
    }


def _affine(bits: int) -> dict[str, WeightFormat]:
    """`affine4_g64` and its like: a 16-bit scale and a 16-bit offset for each group."""
    source = "MLX affine, HQQ, torchao: 16-bit scale and 16-bit offset per"
    return {f"affine{bits}_g{n}": WeightFormat(bits, n, 1, 32, f"{source} {n}", ends=_ENDS) for n in (32, 64, 128, 256)}


#: GGML's tensor types: elements and bytes of a block (ggml.h enum ggml_type, ggml-common.h structs, b11312).
GGML_BLOCKS: dict[str, tuple[int, int]] = {
    "f32": (1, 4), "f16": (1, 2), "bf16": (1, 2), "q1_0": (128, 18), "q2_0": (64, 18), "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22),
    "q5_1": (32, 24), "q8_0": (32, 34), "q2_k": (256, 84), "q3_k": (256, 110), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210),
    "iq1_s": (256, 50), "iq1_m": (256, 56), "iq2_xxs": (256, 66), "iq2_xs": (256, 74), "iq2_s": (256, 82), "iq3_xxs": (256, 98),
    "iq3_s": (256, 110), "iq4_nl": (32, 18), "iq4_xs": (256, 136), "tq1_0": (256, 54), "tq2_0": (256, 66), "mxfp4": (32, 17),
}  # fmt: skip
#: llama-quantize's file types -> bits per weight of a whole file, on Llama 3.1 8B (llama.cpp tools/quantize/README.md and quantize.cpp);
#: of those without a published figure what the type of most tensors takes. `kvplan.llama_quantize` gives each tensor its own.
GGUF_BITS: dict[str, float] = {
    "iq1_s": 2.0042, "iq1_m": 2.1460, "iq2_xxs": 2.3824, "iq2_xs": 2.5882, "iq2_s": 2.7403, "iq2_m": 2.9294, "iq3_xxs": 3.2548,
    "iq3_xs": 3.4977, "iq3_s": 3.6606, "iq3_m": 3.7628, "iq4_xs": 4.4597, "iq4_nl": 4.6818, "q2_k_s": 2.9697, "q2_k": 3.1593,
    "q3_k_s": 3.6429, "q3_k_m": 4.0006, "q3_k_l": 4.2979, "q4_k_s": 4.6672, "q4_k_m": 4.8944, "q5_k_s": 5.5704, "q5_k_m": 5.7036,
    "q6_k": 6.5633, "q8_0": 8.5008, "q1_0": 1.125, "q2_0": 2.25, "tq1_0": 1.6875, "tq2_0": 2.0625, "mxfp4_moe": 4.25,
    "q4_0": 4.64, "q4_1": 5.11, "q5_0": 5.57, "q5_1": 6.04,
    "q4_0_qat": 5.1,  # Google's files of models trained for it, Gemma 3's embedding in 16 bits
    "q2_k_l": 3.3, "q3_k_xl": 4.5, "q4_k_l": 5.2, "q5_k_l": 6.0, "q6_k_l": 6.8,  # with embedding and output in 8 bits
}  # fmt: skip
#: unsloth's dynamic types: types chosen layer by layer for each model, near what the name says.
GGUF_DYNAMIC: dict[str, float] = {
    **{f"ud_{name}": bits for name, bits in GGUF_BITS.items() if not name.endswith(("_l", "_xl", "_0", "_1", "moe", "qat", "q2_k_s"))},
    "ud_q2_k_xl": 3.2, "ud_q3_k_xl": 4.1, "ud_q4_k_xl": 4.9, "ud_q5_k_xl": 5.7, "ud_q6_k_xl": 7.0, "ud_q8_k_xl": 9.5, "ud_q8_0": 8.5,
    "ud_q6_k_m": 6.8, "ud_q6_k_l": 7.1, "ud_q8_k_l": 8.4, "ud_tq1_0": 2.0, "ud_iq4_nl_xl": 4.7,
}  # fmt: skip
#: What Ollama's library keeps its files in.
OLLAMA_TYPES = ("q4_0", "q4_k_s", "q4_k_m", "q5_k_m", "q6_k", "q8_0")
#: Types of publishers who keep a part as it was released: `kvplan.llama_quantize.PUBLISHED` says which part.
GGUF_KEPT: dict[str, float] = {
    **{f"{name}_mxfp4": 4.5 for name in (*GGUF_BITS, *GGUF_DYNAMIC)},
    **{f"{name}_ollama": GGUF_BITS[name] for name in OLLAMA_TYPES},
}
#: Every type of a GGUF file.
GGUF_TYPES = frozenset((*GGUF_BITS, *GGUF_DYNAMIC, *GGUF_KEPT))
_GGUF = "llama-quantize's own type for each tensor (llama.cpp src/llama-quant.cpp)"
_UD = "unsloth dynamic: types chosen layer by layer for each model, counted as llama-quantize's of that name"


#: How far nine files in ten are from the rule, by how their type begins, the first that fits: of 3,026 published ones
#: (tools/gguf_files.py prints them; wider where fewer than ten files of a type are known).
GGUF_ENDS: dict[str, tuple[float, float]] = {
    "ud_q8_k_xl": (1.00, 1.40), "ud_q6_k_xl": (0.99, 1.22), "ud_q5": (0.97, 1.17), "ud_q4": (0.93, 1.10), "ud_q": (0.84, 1.13),
    "ud_iq3_s": (0.82, 1.08), "ud_iq4": (0.82, 1.06), "ud_iq3": (0.85, 1.12), "ud_iq2_m": (0.85, 1.12), "ud_iq2": (0.84, 1.33),
    "ud": (0.84, 1.50),
    "q8_0": (0.98, 1.03), "mxfp4": (0.97, 1.14), "q2_k_l": (0.91, 1.09), "q2": (0.96, 1.13), "q3_k_l": (0.92, 1.07),
    "q3_k_xl": (0.91, 1.06), "q": (0.97, 1.07), "iq4": (0.97, 1.06), "iq3": (0.94, 1.13), "i": (0.93, 1.25), "t": (0.90, 1.25),
}  # fmt: skip


def _gguf(name: str, bits: float) -> WeightFormat:
    """What one line of a file may differ by: the importance matrix, overrides of a publisher, a rule of another release."""
    ends = next(ends for begins, ends in GGUF_ENDS.items() if name.startswith(begins))
    return WeightFormat(0, 256, 1, round(bits * 256), _UD if name.startswith("ud_") else _GGUF, ends=ends)


_BY_NAME = "by the release's name: "
_MLX_ENDS = (0.94, 1.25)  # groups of 32 or 128, and mixed conversions that keep some matrices in more bits

_EXL = re.compile(r"exl([23])[:_ ]?(\d(?:\.\d{1,2})?)(?:_?bpw)?")


class _Formats(dict[str, WeightFormat]):
    """The formats by name, and EXL2's and EXL3's of any bits per weight: `exl3_4.25bpw`."""

    def __missing__(self, name: str) -> WeightFormat:
        match = _EXL.fullmatch(name)
        if match is None:
            raise KeyError(name)
        source = f"EXL{match[1]}: {match[2]} bits per weight over the layers' matrices (exllamav{match[1]} convert.py, --bits)"
        return WeightFormat(0, 128, 1, round(float(match[2]) * 128), source, ends=(0.96, 1.06))  # rows are padded to 128


WEIGHT_FORMATS: dict[str, WeightFormat] = _Formats(
    {
        "f64": WeightFormat(64),
        "f32": WeightFormat(32),
        "f16": WeightFormat(16),
        "bf16": WeightFormat(16),
        "fp8": WeightFormat(8, 0, 0, 32, "one f32 scale per tensor", ends=_ENDS),
        "fp8_channel": WeightFormat(8, 0, 1, 32, _CT + ": one f32 scale per output channel", ends=_ENDS),
        "fp8_block128": WeightFormat(8, 128, 128, 32, "DeepSeek-V3 weight_scale_inv: one f32 per 128 x 128 block", ends=_ENDS),
        "mxfp8": WeightFormat(8, 32, 1, 8, "OCP MX v1.0", ends=_ENDS),
        "mxfp4": WeightFormat(4, 32, 1, 8, "OCP MX v1.0; gpt-oss experts", ends=_ENDS),
        "nvfp4": WeightFormat(4, 16, 1, 8, "NVIDIA ModelOpt NVFP4: one e4m3 scale per 16", ends=_ENDS),
        **_grouped("int", 4, False, _CT + ", symmetric W4A16"),
        **_grouped("int", 8, False, _CT + ", symmetric W8A16"),
        "w4afp8": WeightFormat(4, 128, 1, 16, "SGLang quantization/w4afp8.py: experts in int4, one bf16 scale per 128", ends=_ENDS),
        "int8_channel": WeightFormat(8, 0, 1, 32, _CT + ": W8A8, one f32 scale per output channel", ends=_ENDS),
        **_grouped("awq", 4, True, "AutoAWQ"),
        **_grouped("awq", 8, True, "compressed-tensors, asymmetric W8A16"),
        **_affine(2),
        **_affine(3),
        **_affine(4),
        **_affine(5),
        **_affine(6),
        **_affine(8),
        **_grouped("gptq", 2, True, "GPTQ 2 bit", 32),
        **_grouped("gptq", 3, True, "GPTQ 3 bit", 32),
        **_grouped("gptq", 4, True, "GPTQ", 32),
        **_grouped("gptq", 8, True, "GPTQ 8 bit", 32),
        "nf4": WeightFormat(4, 64, 1, 32, "bitsandbytes NF4: f32 absmax per 64, no double quantisation", ends=(0.91, 1.04)),
        "nf4_double": WeightFormat(
            4, 512, 1, 8 * 8 + 1, "bitsandbytes NF4, double quantisation: 8-bit absmax per 64, f32 per 256 of those", ends=(0.97, 1.06)
        ),
        "int8": WeightFormat(8, 0, 1, 32, "bitsandbytes LLM.int8: one f32 scale per row", ends=_ENDS),
        **{name: _gguf(name, bits) for name, bits in {**GGUF_BITS, **GGUF_DYNAMIC, **GGUF_KEPT}.items()},
        # formats of which only a name is known: the group, or what is left in 16 bits, differs from release to release
        "awq_any": WeightFormat(4, 128, 1, 20, _BY_NAME + "AWQ, groups of 128 counted; some have groups of 32 or 64", ends=(0.97, 1.18)),
        "int4_g32_any": WeightFormat(4, 32, 1, 16, "by the release's publisher: symmetric W4A16, groups of 32", ends=(0.97, 1.06)),
        "gptq_any": WeightFormat(4, 128, 1, 20, _BY_NAME + "GPTQ, groups of 128 counted; some have groups of 32 or 64", 32, (0.97, 1.18)),
        "int4_any": WeightFormat(4, 128, 1, 20, _BY_NAME + "4 bits, groups of 128 counted; 4 to 4.75 bits exist", ends=(0.95, 1.18)),
        "bnb_4bit": WeightFormat(4, 512, 1, 8 * 8 + 1, _BY_NAME + "bitsandbytes NF4, double quantisation counted", ends=(0.97, 1.12)),
        "bnb_4bit_dynamic": WeightFormat(
            4, 512, 1, 8 * 8 + 1, _BY_NAME + "bitsandbytes NF4 counted; unsloth leaves chosen layers in 16 bits", ends=(0.97, 1.7)
        ),
        **{
            f"mlx_{n}bit": WeightFormat(n, 64, 1, 32, f"{_BY_NAME}MLX, {n} bits in groups of 64 counted", ends=_MLX_ENDS)
            for n in (2, 3, 4, 5, 6, 8)
        },
        "unknown": WeightFormat(
            16, source="a quantisation that is not modelled: counted as 16 bits, may be little more than 1", ends=(0.07, 1.0)
        ),
    }
)
WEIGHT_ALIASES = {
    **ALIASES, "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_block": "fp8_block128", "fp8_dynamic": "fp8_channel", "awq": "awq_any",
    "awq_int4": "awq_any", "awq_int8": "awq8_g128", "awq_4bit": "awq_any", "gptq": "gptq_any", "gptq_int4": "gptq_any",
    "gptq_int8": "gptq8_g128", "autoround": "gptq_any", "w4a16": "int4_g128", "w4a8_fp8": "w4afp8", "w8a16": "int8_g128",
    "w8a8": "int8_channel",
    "int4": "int4_any", "4bit": "int4_any", "8bit": "int8", "fp4": "nvfp4", "bitsandbytes": "bnb_4bit", "bnb": "bnb_4bit",
    "bitsandbytes_4bit": "bnb_4bit", "bitsandbytes_8bit": "int8", "bnb_8bit": "int8", "unsloth_bnb_4bit": "bnb_4bit_dynamic",
    "q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m",
}  # fmt: skip


#: Bits of a GGUF file's type -> the type that is usual with so many.
SHORT_TYPES = {"q3": "q3_k_m", "q4": "q4_k_m", "q5": "q5_k_m", "q6": "q6_k", "q8": "q8_0"}


def canonical_weight(name: str) -> str:
    """The one name a checkpoint format goes by here. Raises UnknownName."""
    key = name.strip().lower().replace("-", "_")
    key = WEIGHT_ALIASES.get(key, key)
    if (match := _EXL.fullmatch(key)) and 1 <= float(match[2]) <= 8:
        return f"exl{match[1]}_{match[2]}bpw"
    if key not in WEIGHT_FORMATS:
        hint = "write the bits of a weight too, from 1 to 8, such as exl3:4.0bpw" if key.startswith("exl") else ""
        known = [*WEIGHT_FORMATS, *WEIGHT_ALIASES]
        usual = SHORT_TYPES.get(key)
        near = [usual, *(one for one in get_close_matches(key, known, n=3) if one != usual)][:3] if usual else None
        raise UnknownName("weight format", name, known, nearest=near, hint=hint)
    return key


def matrix_bytes(name: str, out_features: int, in_features: int) -> int:
    """Bytes of one [out_features, in_features] matrix, its scales and zero points included."""
    f = WEIGHT_FORMATS[name]
    payload = cdiv(out_features * in_features * f.bits, 8)
    if not f.extra_bits:
        return payload
    groups = cdiv(in_features, f.group or in_features) * cdiv(out_features, f.rows or out_features)
    return payload + cdiv(groups * f.extra_bits, 8) + in_features * f.column_bits // 8


#: Families of checkpoint formats: what a loader either knows or does not.
_SCHEMES = (
    ("fp8", "fp8"), ("mxfp", "mxfp"), ("nvfp4", "nvfp4"), ("awq", "awq"), ("gptq", "gptq"), ("affine", "affine"), ("mlx", "mlx"),
    ("nf4", "bitsandbytes"), ("bnb", "bitsandbytes"), ("exl2", "exl2"), ("exl3", "exl3"),
    ("w4afp8", "w4afp8"),
)  # fmt: skip


def weight_scheme(name: str) -> str:
    """The family of a canonical checkpoint format: plain, fp8, mxfp, nvfp4, int, awq, gptq, affine and so on."""
    if name in GGUF_TYPES:
        return "gguf"
    if name in ("f64", "f32", "f16", "bf16"):
        return "plain"
    if name == "int8":
        return "bitsandbytes"
    found = next((scheme for start, scheme in _SCHEMES if name.startswith(start)), None)
    return found or ("int" if name.startswith("int") else "unknown")
