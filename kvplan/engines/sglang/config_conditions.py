"""When a release stops at a model's own config: the way it is quantised by name, the text model inside (configs/*.py), its class."""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.registries import listed
from kvplan.engines.common.releases import in_force, release, three_parts
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Values
from kvplan.engines.sglang.registry import REGISTRY
from kvplan.engines.sglang.settle import settings_of

#: Format of a checkpoint -> values of --quantization that some checkpoint in it may be loaded with (configs/model_config.py
#: _verify_quantization: compatible_quantization_methods, override_quantization_method); which of them is not told by the format.
LOADED_WITH: tuple[tuple[str, str], ...] = (
    ("fp8_block128", "fp8 compressed-tensors w8a8_fp8 humming nvfp4_online modelopt_fp4 quark_mxfp4"),
    ("fp8", "fp8 compressed-tensors w8a8_fp8 modelopt modelopt_fp8 modelopt_fp4 modelopt_mixed quark humming nvfp4_online quark_mxfp4"),
    ("nvfp4", "modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed petit_nvfp4 compressed-tensors humming quark_mxfp4"),
    ("mxfp4", "mxfp4 quark compressed-tensors humming quark_mxfp4"),
    ("awq", "awq awq_marlin moe_wna16 auto-round compressed-tensors humming"),
    ("gptq", "gptq gptq_marlin marlin moe_wna16 auto-round compressed-tensors humming"),
)


#: The same for methods that are told by their name.
LOADED_BY_NAME = {
    "fp8": "fp8 humming nvfp4_online modelopt_fp4 quark_mxfp4",
    "compressed-tensors": "compressed-tensors w8a8_fp8 w8a8_int8 auto-round-int8 humming quark_mxfp4",
}


#: What a config calls ModelOpt's way (`none`: it names the algorithm alone) -> the release that puts the checkpoint's own method in the
#: place of any other (layers/quantization/base_config.py _modelopt_override_quantization_method, model_config.py _parse_quant_hf_config).
OWN_METHOD = {"modelopt": (0, 5, 10), "none": (0, 5, 9)}


def _keeps_own(settled: Settled, stored: str) -> bool:
    """Whether a checkpoint is loaded by its own method, whatever is asked for; where the tool is not known, whether it may be."""
    named, at = settled.question.model.method or "", release(settings_of(settled).release)
    modelopts = named or ("modelopt" if stored.startswith("nvfp4") or stored == "fp8" else "")
    return at >= OWN_METHOD.get(modelopts, (99,))


def another_method(settled: Settled) -> Values:
    """A checkpoint whose own method is not the one that it is to be loaded with."""
    stored, method = checkpoint_format(settled.question), Options(settled.question).text("quantization")
    named = LOADED_BY_NAME.get(settled.question.model.method or "", "").split()
    takes = named or next((methods.split() for begins, methods in LOADED_WITH if stored.startswith(begins)), [])
    early = stored.startswith("fp8") and (named or stored.startswith("fp8_block128")) and release(settings_of(settled).release) < (0, 5, 18)
    if (
        method is None
        or not takes
        or (method in takes and not (early and method == "modelopt_fp4"))
        or ("+" in stored and not stored.startswith("fp8_block128") and not (named and stored == "mxfp4+mxfp8"))
        or (method != "nvfp4_online" and _keeps_own(settled, stored))
    ):
        return None
    return {"method": method, "stored": stored}


#: Text models that InternVL's config class takes -> the first release that does, the first that does not any more (configs/internvl.py).
_INTERNVL = {
    "LlamaForCausalLM": ("", ""), "InternLM2ForCausalLM": ("", ""), "Phi3ForCausalLM": ("", "0.4.7"), "Qwen2ForCausalLM": ("", ""),
    "Qwen3MoeForCausalLM": ("0.4.9", ""), "Qwen3ForCausalLM": ("0.5.2", ""), "GptOssForCausalLM": ("0.5.2", ""),
}  # fmt: skip


def text_class(settled: Settled) -> Values:
    """A text model that the class of the whole has no config for."""
    model = settled.question.model
    if model.architecture != "InternVLChatModel" or not model.text_class:
        return None
    since, before = _INTERNVL.get(model.text_class, ("99", ""))
    return None if in_force(since, before, settings_of(settled).release) else {"text": model.text_class}


def unread_config(settled: Settled) -> Values:
    """Nemotron-H with a fraction that was given: the config is read only where one is picked."""
    named = settled.question.model.architecture
    return {} if named == "NemotronHForCausalLM" and settled.chosen_by.get("memory_fraction", "you") == "you" else None


def unnamed_method(settled: Settled) -> Values:
    """A checkpoint of ModelOpt's whose config names the algorithm alone, before a release knows it by that."""
    told = Options(settled.question).text("quantization") and release(settings_of(settled).release) >= (0, 4, 10)
    return {} if settled.question.model.method == "none" and not told else None


def whole_jitter(settled: Settled) -> Values:
    """DBRX, whose config writes moe_jitter_eps as 0, not 0.0, for the transformers of 5.6 to 5.12, which ask for a float by its type."""
    return {} if settled.question.model.architecture == "DbrxForCausalLM" else None


def shared_prompts(settled: Settled) -> Values:
    """Nemotron-H over ranks that share a prompt."""
    named, asked = settled.question.model.architecture or "", Options(settled.question).count("attn_cp_size") or 1
    return {} if named.startswith("NemotronH") and asked > 1 else None


def gone_method(settled: Settled) -> Values:
    return {} if settled.question.model.method == "fbgemm-fp8" else None


#: Classes that came to transformers after 5.19.0, which SGLang's newest release asks for (METADATA of 0.5.23) -> the first that has them.
_OF_TRANSFORMERS = listed("common/transformers_classes")
LATER = {named: since for since, classes in _OF_TRANSFORMERS.items() if three_parts(since) > (5, 19, 0) for named in classes.split()}
#: Those whose files came, or may have come, with code of their own before, which --trust-remote-code runs.
OWN_CODE = frozenset(
    [
        "BailingHybridForCausalLM",
        "Dots3NoteForConditionalGeneration",
        "MiniCPMOcrForConditionalGeneration",
        "Molmo2ForConditionalGeneration",
        "MossTranscribeDiarizeForConditionalGeneration",
        "Nemotron3_5TranscribeForConditionalGeneration",
        "UnlimitedOcrForConditionalGeneration",
    ]
)


def later_config(settled: Settled) -> Values:
    """A class that no release has, nor the transformers of any: its config is not read."""
    named = settled.question.model.architecture or ""
    known = named not in LATER or named in OWN_CODE or named in REGISTRY.first
    return None if known else {"class": named, "first": LATER[named]}


def no_class(settled: Settled) -> Values:
    """A class that neither the release has, nor the transformers that it asks for."""
    named = settled.question.model.architecture
    first = REGISTRY.later(named, settled.question.engine_version)
    return {"class": named, "first": first} if first else None
