"""What a checkpoint's quantization_config calls its weights -> a row of WEIGHT_FORMATS, method by method.

Keys as the tools write them and vLLM 0.33 (model_executor/layers/quantization/*.py, `get_name`, `from_config`) and transformers 5.23
(utils/quantization_config.py) read them. None where nothing here has that format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kvplan.dtypes import WEIGHT_FORMATS

#: quant_method -> the one format it has.
METHODS: dict[str, str] = {
    "modelopt_fp4": "nvfp4", "petit_nvfp4": "nvfp4", "modelopt_mxfp8": "mxfp8", "fbgemm_fp8": "fp8_channel", "ptpc_fp8": "fp8_channel",
    "experts_int8": "int8_channel", "tpu_int8": "int8_channel", "eetq": "int8_channel", "mxfp4": "mxfp4", "mxfp8": "mxfp8",
    "nvfp4": "nvfp4", "w4afp8": "w4afp8",
}  # fmt: skip
#: ModelOpt's quant_algo -> format.
ALGORITHMS: dict[str, str] = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8_channel", "FP8_PB_WO": "fp8_block128", "FP8_BLOCK_SCALES": "fp8_block128",
    "NVFP4": "nvfp4", "W4A16_NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4", "W4A16_AWQ": "int4_g128",
    "W4A8_AWQ": "int4_g128", "INT4_AWQ": "int4_g128", "MXFP8": "mxfp8", "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4",
    "W8A8_SQ_PER_CHANNEL": "int8_channel", "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": "int8_channel", "W8A16": "int8_channel",
}  # fmt: skip


def whole_format(data: Mapping[str, Any]) -> str | None:
    """The format of a checkpoint that has one."""
    algorithm = str(data.get("quant_algo") or "").upper()
    if algorithm in ALGORITHMS:
        return ALGORITHMS[algorithm]
    groups = data.get("config_groups")
    if isinstance(groups, dict) and groups:
        found = {group_format(g.get("weights"), data.get("format")) for g in groups.values() if isinstance(g, dict)}
        return found.pop() if len(found) == 1 else None
    method = str(data.get("quant_method") or _unnamed(data)).lower().replace("_", "-")
    reader = _READERS.get(method)
    if reader is not None:
        return reader(data)
    if is_mlx(data):
        return _mlx(data)
    return METHODS.get(method.replace("-", "_"))


def packs_weights(data: Mapping[str, Any]) -> bool:
    """Whether the weights are stored quantised at all: a config may be about the cache or the activations only."""
    groups = data.get("config_groups")
    if isinstance(groups, dict) and groups:
        return data.get("format") != "dense" and any(isinstance(g, dict) and g.get("weights") for g in groups.values())
    method = str(data.get("quant_method") or "").lower()
    if method == "bitsandbytes":
        return any(data.get(key) for key in ("load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit"))
    if method in ("modelopt", "") and not is_mlx(data) and not _unnamed(data):
        return str(data.get("quant_algo") or "none").lower() != "none"
    return method != "compressed-tensors"


def unread_block(data: Mapping[str, Any]) -> str | None:
    """Why a block that packs no weights, as far as can be read, may pack them all the same."""
    method = str(data.get("quant_method") or "").lower()
    sparse = data.get("sparsity_config")
    if method == "compressed-tensors" and isinstance(sparse, dict) and str(sparse.get("format", "dense")) != "dense":
        return f"the checkpoint is stored sparse ({str(sparse['format'])[:40]}), which is not modelled"
    stated = data.get("config_groups")
    groups = isinstance(stated, dict) and bool(stated)
    if stated and not (isinstance(stated, dict) and all(isinstance(group, dict) for group in stated.values())):
        return "config_groups is no mapping of groups"
    if method == "compressed-tensors" and not groups and data.get("format") not in (None, "dense"):
        return f"compressed-tensors names the format {str(data['format'])[:40]} and no groups of modules"
    if method == "modelopt" and "quant_algo" not in data and not groups:
        return "modelopt names no algorithm"
    if method == "bitsandbytes" and not any(key.strip("_") in ("load_in_4bit", "load_in_8bit") for key in data):
        return "bitsandbytes names neither 4 nor 8 bits"
    return None


def is_mlx(data: Any) -> bool:
    """MLX names no method: bits and group size of every linear layer and embedding."""
    if not isinstance(data, dict) or data.get("quant_method") or _unnamed(data):
        return False
    return isinstance(data.get("bits"), int) and "group_size" in data


def _unnamed(data: Mapping[str, Any]) -> str:
    """The tool of a config from before such named their method, by keys that it alone writes (AutoAWQ, AutoGPTQ); else empty."""
    if "zero_point" in data or "w_bit" in data:
        return "awq"
    return "gptq" if "desc_act" in data or "damp_percent" in data else ""


def _known(name: str) -> str | None:
    return name if name in WEIGHT_FORMATS else None


def grouped(family: str, bits: Any, group: Any) -> str | None:
    """`gptq_g128` and its like, where there is a row for it."""
    size = "channel" if group in (-1, None) else f"g{group}"
    return _known(f"{family}{'' if bits == 4 and family != 'int' else bits}_{size}")


def _fp8(data: Mapping[str, Any]) -> str | None:
    blocks = data.get("weight_block_size")
    if not isinstance(blocks, list):
        return "fp8"
    if blocks in ([1, 32], [32, 32]):  # DeepSeek-V4.1's squares, which engines load as MXFP8 (vLLM models/deepseek_v41/quant_config.py)
        return "mxfp8"
    return "fp8_block128"  # other blocks: the same within a part in a thousand


def _gptq(data: Mapping[str, Any]) -> str | None:
    return grouped("gptq", data.get("bits", 4), data.get("group_size", 128))


def _awq(data: Mapping[str, Any]) -> str | None:
    return grouped("awq", data.get("bits", data.get("w_bit", 4)), data.get("group_size", data.get("q_group_size", 128)))


def _auto_round(data: Mapping[str, Any]) -> str | None:
    kind = str(data.get("data_type", "int"))
    if kind.startswith("mx_fp"):
        return {4: "mxfp4", 8: "mxfp8"}.get(data.get("bits", 4))
    if kind.startswith("nv_fp"):
        return "nvfp4" if data.get("bits", 4) == 4 else None
    if kind.startswith(("fp", "float")):
        return "fp8_channel" if data.get("bits") == 8 else None
    return _awq(data) if "awq" in str(data.get("packing_format", "")) else _gptq(data)


def _bitsandbytes(data: Mapping[str, Any]) -> str | None:
    if not (data.get("load_in_4bit") or data.get("_load_in_4bit")):
        return "int8"
    return "nf4_double" if data.get("bnb_4bit_use_double_quant") else "nf4"


def _mlx(data: Mapping[str, Any]) -> str | None:
    mode = data.get("mode", "affine")
    return grouped("affine", f"{data['bits']}", data["group_size"]) if mode == "affine" else _known(str(mode))


def _hqq(data: Mapping[str, Any]) -> str | None:
    own = data.get("quant_config")
    weights: Any = own.get("weight_quant_params") if isinstance(own, dict) else data
    if not isinstance(weights, Mapping):
        return None
    bits = weights.get("nbits", weights.get("bits"))
    return grouped("affine", f"{bits}", weights.get("group_size")) if bits in (2, 4, 8) else None  # 3 bits are packed ten to a word


def _torchao(data: Mapping[str, Any]) -> str | None:
    kind = data.get("quant_type")
    if isinstance(kind, dict):
        kind = kind.get("default", kind)
    own: Any = kind.get("_data") if isinstance(kind, dict) else data.get("quant_type_kwargs")
    name = str(kind.get("_type") if isinstance(kind, dict) else kind).lower().replace("_", "")
    if name.startswith("int4weightonly"):
        return grouped("affine", "4", own.get("group_size", 128) if isinstance(own, dict) else 128)
    if name.startswith(("int8weightonly", "int8dynamicactivationint8")):
        return "int8_channel"
    return "fp8_channel" if name.startswith("float8") else None


def _quark(data: Mapping[str, Any]) -> str | None:
    weights = (data.get("global_quant_config") or {}).get("weight")
    weights = weights[0] if isinstance(weights, list) and weights else weights
    if not isinstance(weights, dict):
        return None
    kind, scheme, group = str(weights.get("dtype")), str(weights.get("qscheme")), weights.get("group_size")
    if kind.startswith("fp8"):
        return {"per_channel": "fp8_channel", "per_tensor": "fp8"}.get(scheme)
    if kind == "fp4":
        return {32: "mxfp4", 16: "nvfp4"}.get(group) if isinstance(group, int) else None
    if kind in ("int8", "int4"):
        return "int8_channel" if kind == "int8" and scheme != "per_group" else grouped("int", kind[3:], group)
    return None


def _quanto(data: Mapping[str, Any]) -> str | None:
    return {"int8": "int8_channel", "float8": "fp8_channel", "int4": "affine4_g128", "int2": "affine2_g128"}.get(str(data.get("weights")))


def exllama(method: Any, bits: Any) -> str | None:
    """`exl3_4.25bpw` for quant_method exl3 and its bits of the layers' matrices, or of the head; None for other methods and numbers."""
    if method not in ("exl2", "exl3") or isinstance(bits, bool) or not isinstance(bits, int | float) or not 1 <= bits <= 8:
        return None
    return f"{method}_{round(bits, 2):g}bpw"


_READERS: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "fp8": _fp8, "deepseek-v4-fp8": _fp8,
    **dict.fromkeys(("gptq", "gptq-marlin", "marlin", "gptq-bitblas"), _gptq),
    **dict.fromkeys(("awq", "autoawq", "awq-marlin"), _awq),
    **dict.fromkeys(("auto-round", "intel/auto-round", "inc"), _auto_round),
    "bitsandbytes": _bitsandbytes, "hqq": _hqq, "torchao": _torchao, "quark": _quark, "quanto": _quanto,
    **dict.fromkeys(("exl2", "exl3"), lambda data: exllama(data["quant_method"], data.get("bits"))),
    "fp-quant": lambda data: _known(str(data.get("forward_dtype"))),
}  # fmt: skip


def group_format(weights: Any, packing: Any = None) -> str | None:
    """A compressed-tensors or ModelOpt weight scheme; `packing` is how compressed-tensors stores it."""
    if not isinstance(weights, dict):
        return None
    bits, kind, group, strategy = (weights.get(key) for key in ("num_bits", "type", "group_size", "strategy"))
    if packing == "marlin-24" or packing == "sparse-24-bitmask":
        return None
    if kind == "float" and bits == 4:
        return {16: "nvfp4", 32: "mxfp4"}.get(group) if isinstance(group, int) else None
    if kind == "float" and bits == 8:
        return "mxfp8" if group == 32 else {"channel": "fp8_channel", "block": "fp8_block128"}.get(str(strategy), "fp8")
    if kind != "int" or bits not in (4, 8):
        return None
    if packing in ("int-quantized", "naive-quantized"):  # a byte each
        return _known(f"int8_g{group}") if group and group > 0 else "int8_channel"
    return grouped("int" if weights.get("symmetric", True) else "awq", bits, group)


def module_format(quant_algo: Any) -> str | None:
    """ModelOpt's quant_algo of one module."""
    return ALGORITHMS.get(re.sub(r"\s", "", str(quant_algo)).upper())
