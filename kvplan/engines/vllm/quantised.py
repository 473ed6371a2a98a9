"""What --quantization may say of a checkpoint, by the method that its own config names.

config/model.py ModelConfig._verify_quantization and the override_quantization_method of layers/quantization/*.py: every method of a release
against a config of every kind, in releases of 0.10.2 to 0.33. ModelOpt's take any name for their own, as do those of `*`.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.arguments import Times
from kvplan.engines.common.choices import among
from kvplan.engines.common.conditions import without_settings
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import in_force
from kvplan.engines.common.settling import checkpoint_format, format_of, stored_plain
from kvplan.engines.common.stops import Values
from kvplan.engines.common.stored import PACKED_ONLY
from kvplan.spec import ModelSpec

#: --quantization values that change a checkpoint while it is loaded, by which a format is said; all others name what the checkpoint is.
ON_LOAD = {"fp8": "fp8", "bitsandbytes": "nf4", "mxfp8": "mxfp8"}
#: ... and those that mean one of these, or one that checkpoints have, too (config/quantization.py _ONLINE_SHORTHANDS, 0.20 to 0.33).
MADE = ON_LOAD | {"fp8_per_tensor": "fp8", "fp8_per_block": "fp8_block128", "fp8_per_channel": "fp8_channel"}
#: Those that quantise experts alone, and what they make of them (quantization/experts_int8.py to 0.19).
EXPERTS_ALONE = {"experts_int8": "int8_channel", "int8_per_channel_weight_only": "int8_channel", "nvfp4_per_token": "nvfp4"}
#: Methods that are read from a checkpoint's own settings alone (model_loader/weight_utils.py get_quant_config).
NEEDS_SETTINGS = PACKED_ONLY | frozenset({
    "modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "auto_awq", "auto_gptq", "compressed-tensors", "fbgemm_fp8", "inc",
    "moe_wna16", "quark", "torchao", "auto-round", "bitblas", "deepspeedfp", "gptq_bitblas", "gptq_marlin_24", "hqq", "petit_nvfp4",
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
#: Classes whose configs' methods are read as others: how their names begin -> what is put before the method.
_OF_THEIR_OWN = {"DeepseekV4": "deepseek_v4 ", "GptOss": "gpt_oss "}
#: How formats that one method alone has begin -> that method.
_BY_FORMAT = {"fp8_block128": "fp8", "awq": "awq", "gptq": "gptq", "mxfp4": "mxfp4"}


def own_method(model: ModelSpec, format_: str) -> str:
    """The method that a model's config names, by the names of TAKES; empty where neither the spec nor its format says it."""
    by_format = next((method for begins, method in _BY_FORMAT.items() if any(one.startswith(begins) for one in format_.split("+"))), "")
    prefix = next((prefix for begins, prefix in _OF_THEIR_OWN.items() if (model.architecture or "").startswith(begins)), "")
    by_format = "auto-round" if by_format == "gptq" and "autoround" in model.id else by_format  # what its tool names it, packed as GPTQ
    named = (model.method or by_format).replace("fbgemm-fp8", "fbgemm_fp8")
    return f"{prefix}{named}" if named else ""


def another_method(settled: Settled) -> Values:
    """A checkpoint whose own method is not the one that it is to be loaded with; of one in another format than the model's, by that."""
    d = settled.question
    own = checkpoint_format(d)
    asked, other = Options(d).text("quantization"), d.weight_dtype if d.weight_dtype not in (None, own) else None
    if other and other == MADE.get(asked or ""):
        return None
    method = own_method(d.model.changed(method=None), other) if other else own_method(d.model, own)
    return _unlike(method, asked, d)


def may_take_any(d: Deployment, release: str) -> bool:
    """Whether the checkpoint may be ModelOpt's, in a release whose parser takes any text (engine/arg_utils.py, from 0.17 on)."""
    own = checkpoint_format(d)
    return in_force("0.17", "", release) and not stored_plain(own) and own_method(d.model, own) not in TAKES


#: Methods that releases from 0.14 on are to lose -> the first without this stop (quantization/__init__.py DEPRECATED_QUANTIZATION_METHODS).
LEAVING = {"fbgemm_fp8": "", "fp_quant": "", "tpu_int8": "0.23", "experts_int8": "0.20", "petit_nvfp4": "0.20", "ptpc_fp8": "0.19.1"}


def leaving(settled: Settled) -> Values:
    """A checkpoint whose own method the release loads no more unless it is told to; one that is asked for is among the exclusions."""
    d = settled.question
    own = own_method(d.model, checkpoint_format(d)) if d.weight_dtype in (None, checkpoint_format(d)) else ""
    told = Options(d).text("quantization") or Options(d).flag("allow_deprecated_quantization")
    return {"method": own} if own in LEAVING and not told and in_force("", LEAVING[own], d.engine_version) else None


def another_draft_method(settled: Settled) -> Values:
    """The same of a drafter (`quantization` of --speculative-config): its ModelConfig is one like the target's."""
    d = settled.question
    asked = Options(d).text("draft_quantization")
    return _unlike(own_method(d.drafter, format_of(d.drafter)), asked, d) if d.drafter else None


def made_draft(settled: Settled) -> Values:
    """A drafter of plain weights that is to be quantised as it is loaded, whose config is rewritten by a function."""
    d = settled.question
    asked = Options(d).text("draft_quantization")
    plain = d.drafter is not None and stored_plain(format_of(d.drafter))
    return {"method": asked} if plain and asked and asked not in MADE.keys() - ON_LOAD.keys() else None


def unpacked_draft(settled: Settled) -> Values:
    """A drafter of plain weights under a method that reads its settings from a checkpoint's own files."""
    d = settled.question
    return without_settings(settled, NEEDS_SETTINGS, d.drafter, "draft_quantization") if d.drafter else None


def _unlike(method: str, asked: str | None, d: Deployment) -> Values:
    taken = TAKES.get(method)
    return {"own": method.rpartition(" ")[2], "asked": asked} if asked and taken and not among(taken, asked, d.engine_version) else None
