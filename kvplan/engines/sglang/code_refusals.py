"""What stops a start as the model's code and its weights' method are looked for: classes that only transformers has, methods on AMD GPUs.

A class that a release has none of is run by transformers' code where that lets another engine attend (model_loader/utils.py
resolve_transformers_arch, since 0.4.7; modeling_utils.py is_backend_compatible). Read of the wheels of 0.4.6 to 0.5.23 (EntryClass of
srt/models) and asked of the classes of transformers 4.51.1 to 5.19.0, which those releases pin.
"""

from __future__ import annotations

from kvplan.engines.common.drafters import whole_model
from kvplan.engines.common.failures import unpacked
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import in_force, release
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.common.stored import PACKED_ONLY
from kvplan.engines.sglang.config_conditions import OWN_METHOD
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.settle import settings_of

#: Release -> the classes that it is the first to run, by code of its own or by transformers', which had them before; empty: none does.
_RUN_SINCE = {
    "": (
        "BambaForCausalLM BartForCausalLM BartForConditionalGeneration BigBirdPegasusForCausalLM BioGptForCausalLM BlenderbotForCausalLM "
        "BlenderbotForConditionalGeneration BloomForCausalLM BltForCausalLM CodeGenForCausalLM FSMTForConditionalGeneration "
        "FalconForCausalLM Florence2ForConditionalGeneration GPTNeoForCausalLM GPTNeoXJapaneseForCausalLM GitForCausalLM JambaForCausalLM "
        "LEDForConditionalGeneration LongT5ForConditionalGeneration M2M100ForConditionalGeneration MBartForCausalLM "
        "MBartForConditionalGeneration MT5ForConditionalGeneration MarianForCausalLM MarianMTModel MptForCausalLM MvpForCausalLM "
        "MvpForConditionalGeneration NllbMoeForConditionalGeneration OlmoHybridForCausalLM OpenAIGPTLMHeadModel PLBartForCausalLM "
        "PLBartForConditionalGeneration PegasusForCausalLM PegasusForConditionalGeneration PegasusXForConditionalGeneration "
        "ProphetNetForCausalLM ProphetNetForConditionalGeneration RwkvForCausalLM SwitchTransformersForConditionalGeneration "
        "T5ForConditionalGeneration TrOCRForCausalLM UMT5ForConditionalGeneration XGLMForCausalLM Zamba2ForCausalLM ZambaForCausalLM"
    ),
    "0.4.9": "GraniteMoeForCausalLM PersimmonForCausalLM Qwen2AudioForConditionalGeneration",
    "0.5.9": "GPTJForCausalLM GraniteMoeHybridForCausalLM",
    "0.5.10": (
        "BertForMaskedLM JetMoeForCausalLM ModernBertModel RobertaForMaskedLM RobertaModel "
        "WhisperForConditionalGeneration"
    ),
    "0.5.20": "FalconMambaForCausalLM Mamba2ForCausalLM MambaForCausalLM",
    "0.5.22": "CTRLLMHeadModel DiffLlamaForCausalLM MoshiForCausalLM NemotronForCausalLM RecurrentGemmaForCausalLM",
}  # fmt: skip
RUN_SINCE = {named: since for since, classes in _RUN_SINCE.items() for named in classes.split()}
#: Classes that are denoised in blocks, by the first release that does (dllm/config.py).
DIFFUSES = {
    "LLaDA2MoeModelLM": "", "SDARForCausalLM": "0.5.9", "SDARMoeForCausalLM": "0.5.9", "DiffusionGemmaForBlockDiffusion": "0.5.21",
}  # fmt: skip
_VERIFY = "configs/model_config.py _verify_quantization"
#: Methods that a release of 0.4.9, 0.5.4, 0.5.12 or 0.5.23 lists (layers/quantization/__init__.py), or that a class of those takes over.
_METHODS = (
    "aqlm auto-round auto-round-int8 awq awq-marlin bitsandbytes blockwise-int8 compressed-tensors deepspeedfp experts-int8 fbgemm-fp8 fp8 "
    "gguf gptq gptq-marlin gptq-marlin-24 humming marlin minimax-m3-nvfp4 mlx modelopt modelopt-fp4 modelopt-fp8 modelopt-mixed modelslim "
    "moe-wna16 mxfp-w4a8 mxfp4 mxfp8 none nvfp4-online petit-nvfp4 qoq qqq quark quark-int4fp8-moe quark-mxfp4 tpu-int8 w4afp8 w8a8-fp8 "
    "w8a8-int8"
)
METHODS = frozenset(_METHODS.split())


def no_code(settled: Settled) -> Values:
    """A class that the release has no code for, and whose code in transformers does not let another attend."""
    named = settled.question.model.architecture or ""
    since = RUN_SINCE.get(named)
    return {"class": named} if since is not None and in_force("", since, settings_of(settled).release) else None


def _method(settled: Settled) -> str:
    """What the checkpoint's config calls its way; where that is not kept, NVIDIA's uploads are ModelOpt's, and gpt-oss is MXFP4."""
    model, stored = settled.question.model, checkpoint_format(settled.question)
    if model.method or settled.question.weight_dtype not in (None, stored):
        return model.method or ""
    uploaded = (model.id or "").startswith("nvidia/") and "nvfp4" in stored
    return "modelopt" if uploaded else "mxfp4" if (model.architecture or "").startswith("GptOss") and stored == "mxfp4" else ""


def own_method_on_rocm(settled: Settled) -> Values:
    """A checkpoint of ModelOpt's on an AMD GPU, in releases that look at its algorithm (configs/model_config.py _verify_quantization)."""
    d, stored = settled.question, checkpoint_format(settled.question)
    told = Options(d).text("quantization") == "quark_mxfp4"  # made anew as it is loaded
    if not on_amd(d) or told or release(settings_of(settled).release) < OWN_METHOD.get(_method(settled), (99,)):
        return None
    return {"method": "modelopt_mixed" if "+" in stored else "modelopt_fp4" if stored.startswith("nvfp4") else "modelopt_fp8"}


def unknown_method(settled: Settled) -> Values:
    """A method that no release has."""
    method = _method(settled)
    return {"method": method} if method and method.replace("_", "-") not in METHODS else None


def mxfp4_on_rocm(settled: Settled) -> Values:
    """MXFP4 on AMD's boards before gfx950 (layers/quantization/__init__.py, mxfp_supported)."""
    d = settled.question
    older = on_amd(d) and not str(d.device and d.device.compute_capability).startswith("gfx95")
    return {} if older and _method(settled) == "mxfp4" and Options(d).text("quantization") in (None, "mxfp4") else None


def no_diffusion(settled: Settled) -> Values:
    """An algorithm of diffusion models for a class that generates a token at a time."""
    named, diffuses = settled.question.model.architecture or "", DIFFUSES.get(settled.question.model.architecture or "", "99")
    asked = Options(settled.question).text("dllm_algorithm") is not None and bool(named)
    return {"class": named} if asked and not in_force(diffuses, "", settings_of(settled).release) else None


def whole_head(settled: Settled) -> Values:
    """A whole Llama named as an EAGLE-3 head: its own class is loaded, which is asked for the head's table of words."""
    d, spec = settled.question, read_speculative(settled.question.speculative)
    found = spec is not None and spec.method == "eagle3" and d.drafter is not None and d.drafter.architecture == "LlamaForCausalLM"
    return {"class": "LlamaForCausalLM", "layers": d.drafter.n_layers} if found and d.drafter and whole_model(d) else None


#: Evaluated for every plan.
CLASSES: tuple[Stop, ...] = (
    unpacked(PACKED_ONLY),
    Stop(
        "a class without code", "{class:w} has no SGlang implementation and the Transformers implementation is not compatible with SGLang.",
        "neither runs it: transformers' own code can not be given another engine's attention",
        (Move("engine", "another that has it"), Move("engine_version", "a release that has it, if there is one")),
        "model_loader/utils.py resolve_transformers_arch", when=no_code,
    ),
    Stop(
        "a whole model as a head", "'{class:w}' object has no attribute 'hot_token_id'", "the drafter is a whole model and no EAGLE-3 head",
        (Move("speculative", "eagle3 with a head that was trained for the target, or standalone with a smaller model"),),
        "speculative/eagle_worker_v2.py; models/llama_eagle3.py", since="0.5.23", when=whole_head, loading=True,
        numbers="the drafter is a whole model of {layers} layers",
    ),
    Stop(
        "diffusion", "Unknown diffusion LLM: {class:w}", "its blocks are not denoised", (Move("option:dllm_algorithm", "none"),),
        "dllm/config.py DllmConfig.from_server_args", since="0.5.6", when=no_diffusion,
    ),
    Stop(
        "quantisation", "Unknown quantization method: {method:w}. Must be one of", "no release loads weights that are packed as {method}",
        (Move("weight_dtype", "another checkpoint"), Move("engine", "another that does")), _VERIFY, since="0.4.9", when=unknown_method,
    ),
    Stop(
        "quantisation", "{method:w} quantization is currently not supported in ROCm.", "AMD GPUs load ModelOpt's checkpoints by no method",
        (Move("weight_dtype", "another checkpoint"),), _VERIFY, since="0.5.9", when=own_method_on_rocm,
    ),
    Stop(
        "quantisation", "Unknown quantization method: mxfp4. Must be one of", "of AMD's GPUs those of gfx950 alone have its kernels",
        (Move("weight_dtype", "bf16"), Move("device", "mi355x")), _VERIFY, since="0.5.1", when=mxfp4_on_rocm,
    ),
)  # fmt: skip
