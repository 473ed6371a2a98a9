"""What --quantization may say of a checkpoint, by the method that its own config names.

config/model.py ModelConfig._verify_quantization and the override_quantization_method of layers/quantization/*.py: every method of a release
against a config of every kind, in releases of 0.10.2 to 0.33. ModelOpt's take any name for their own, as do those of `*`.
"""

from __future__ import annotations

from kvplan.engines.common.arguments import Times

#: Methods that are read from a checkpoint's own settings alone, beside AWQ and GPTQ (model_loader/weight_utils.py get_quant_config).
NEEDS_SETTINGS = frozenset({
    "modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "auto_awq", "auto_gptq", "compressed-tensors", "fbgemm_fp8", "inc",
    "moe_wna16", "quark", "torchao",
})  # fmt: skip
#: GGUF took the place of any other while a release had it and its check (0.20 to 0.23).
_GGUF: Times = {("0.19.1", "0.24.0"): "gguf"}
_NAMES: dict[str, Times] = {
    "awq": {("", ""): "auto_awq awq awq_marlin cpu_awq humming ipex moe_wna16"},
    "gptq": {("", ""): ("auto_gptq bitblas cpu_gptq gptq gptq_bitblas gptq_marlin gptq_marlin_24 humming ipex marlin moe_wna16")},
    "fp8": {("", ""): "fp8 humming deepseek_v4_fp8"},
    "deepseek_v4 fp8": {("", ""): "fp8", ("0.19.1", ""): "*"},
    "compressed-tensors": {("", ""): "compressed-tensors humming"},
    "fbgemm_fp8": {("", ""): "fbgemm_fp8 humming"},
    "gpt_oss mxfp4": {("", ""): "mxfp4", ("0.19.1", ""): "*"},
    "bitsandbytes": {("", ""): "bitsandbytes humming"},
    "quark": {("", ""): "humming quark"},
}
#: Own method -> names; a name that a release does not have stops it anyway (choices.py).
TAKES: dict[str, Times] = {own: {**names, **_GGUF} for own, names in _NAMES.items()}
