"""What an engine's name of a quantisation says of the checkpoint: vLLM model_executor/layers/quantization/__init__.py (0.33), SGLang
srt/layers/quantization/__init__.py (0.5.23), TensorRT-LLM quantization/mode.py QuantAlgo (1.x)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Stored(NamedTuple):
    """The format that it is counted as (empty: the name does not say), and the families that a checkpoint of it may be of (`*`: any)."""

    format: str
    schemes: tuple[str, ...]


def _rows(text: str) -> dict[str, Stored]:
    """`method ... = format scheme ...` a line; `-` for a format that is not said."""
    found: dict[str, Stored] = {}
    for line in text.strip().splitlines():
        names, _, says = line.partition("=")
        format_, *schemes = says.split()
        found |= {name: Stored("" if format_ == "-" else format_, tuple(schemes)) for name in names.split()}
    return found


#: In lower case, with _ for -.
STORED: Mapping[str, Stored] = _rows("""
    awq awq_marlin awq_triton w4a16_awq w4a8_awq = awq awq int
    gptq gptq_marlin gptq_bitblas gptq_marlin_24 marlin w4a16_gptq = gptq gptq int
    auto_round auto-round inc moe_wna16 = int4 awq gptq int
    compressed_tensors quark = - *
    modelopt modelopt_fp8 modelopt_mixed = fp8 fp8 nvfp4 mxfp
    modelopt_fp4 modelopt_nvfp4 nvfp4 petit_nvfp4 nvfp4_awq w4a8_nvfp4_fp8 = nvfp4 nvfp4 fp8
    mxfp4 modelopt_mxfp4 w4a16_mxfp4 w4a8_mxfp4_fp8 w4a8_mxfp4_mxfp8 gpt_oss_mxfp4 = mxfp4 mxfp
    fbgemm_fp8 fp8_per_channel_per_token = fp8-dynamic fp8
    fp8_per_block = fp8_block128 fp8
    fp8_per_channel = fp8_channel fp8
    fp8 fp8_per_tensor fp8_block_scales w8a8_fp8 ptpc_fp8 = fp8 fp8
    mxfp8 = mxfp8 mxfp
    w8a8_int8 w8a8_sq_per_channel w8a8_sq_per_tensor_plugin = w8a8 int
    w8a16 w8a16_gptq = w8a16 int gptq
    w4a16 qoq = w4a16 int awq gptq fp8
    w4afp8 = w4afp8 w4afp8 int
    bitsandbytes bitblas = bitsandbytes bitsandbytes
    gguf = - gguf
    torchao hqq aqlm deepspeedfp tpu_int8 ipex neuron_quant quanto eetq vptq = - *
""")

#: Methods whose settings stand in the checkpoint's own files alone: without them vLLM and SGLang stop (model_loader/weight_utils.py
#: get_quant_config: "Cannot find the config file for awq"). Of other methods a class has defaults, or quantises on load.
PACKED_ONLY = frozenset({"awq", "awq_marlin", "gptq", "gptq_marlin"})


#: Families of conversions that no library of 16-bit checkpoints writes.
_APART = frozenset({"gguf", "affine", "exl3", "bitsandbytes"})


def contradicts(method: object, scheme: str) -> bool:
    """Whether no checkpoint of that family is one that a method's name says; weights of plain types contradict none.

    DeepSeek-V4's method is fp8, and its experts are in MXFP4.
    """
    says = stored(method)
    if says is None or scheme in ("plain", *says.schemes):
        return False
    return scheme in _APART if "*" in says.schemes else not (scheme == "mxfp" and "fp8" in says.schemes)


def stored(method: object) -> Stored | None:
    """What a method's name says; None for one that says nothing."""
    return STORED.get(str(method).strip().lower().replace("-", "_"))
