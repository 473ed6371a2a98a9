"""What TensorRT-LLM's PyTorch backend is known to run: classes of models, and formats by GPU. Of others a start is too close to call.

Classes: MODEL_ARCH_TO_MODULE of `tensorrt_llm/_torch/models/_arch_index.py` (a copy of 2026); models/modeling_auto.py from_config stops at
another ("Unknown architecture for AutoModelForCausalLM"), which an older or a younger release may have. Formats: docs/source/features/
quantization.md, Hardware Support Matrix (1.0 to 1.4): FP8 from Ada on, NVFP4 and its cache on Blackwell; experts in MXFP4 run before, too.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.dtypes import weight_scheme
from kvplan.engines.common.conditions import capability, version_of
from kvplan.engines.common.settling import weight_formats

_CLASSES = (
    "AfmoeForCausalLM BartForConditionalGeneration BertForSequenceClassification CLIPVisionModel Cohere2ForCausalLM "
    "Cosmos3ForConditionalGeneration DeciLMForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM DeepseekV4ForCausalLM "
    "EAGLE3LlamaForCausalLM Eagle3DeepSeekV3ForCausalLM Exaone4ForCausalLM Exaone4_5_ForConditionalGeneration ExaoneMoEForCausalLM "
    "Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4AssistantForCausalLM Gemma4ForCausalLM Gemma4ForConditionalGeneration "
    "Gemma4UnifiedForConditionalGeneration Glm4MoeForCausalLM GlmMoeDsaForCausalLM GptOssForCausalLM HCXVisionForCausalLM HCXVisionModel "
    "HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration "
    "KimiLinearForCausalLM LagunaForCausalLM Llama4ForConditionalGeneration LlamaForCausalLM LlavaLlamaModel "
    "LlavaNextForConditionalGeneration MBartForConditionalGeneration MTPDraftModelForCausalLM MiniCPMV4_6ForConditionalGeneration "
    "MiniMaxM2ForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration Mistral3ForConditionalGeneration "
    "MistralForCausalLM MistralLarge3EagleForCausalLM MistralLarge3ForCausalLM MixtralForCausalLM MllamaForConditionalGeneration "
    "NemotronForCausalLM NemotronHForCausalLM NemotronHPuzzleForCausalLM NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 "
    "Phi3ForCausalLM Phi4MMForCausalLM PixtralForConditionalGeneration PixtralVisionModel Qwen2ForCausalLM Qwen2ForProcessRewardModel "
    "Qwen2ForRewardModel Qwen2MoeForCausalLM Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM "
    "Qwen3ForTextEmbedding Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration "
    "Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration "
    "QwenImageBenchForConditionalGeneration SeedOssForCausalLM SiglipVisionModel Starcoder2ForCausalLM Step3p5ForCausalLM "
    "Step3p7ForConditionalGeneration T5ForConditionalGeneration WhisperForConditionalGeneration"
)
CLASSES = frozenset(_CLASSES.split())
#: Family of a format of weights -> the compute capability (x 10) from which on the table has it.
WEIGHTS_FROM = {"fp8": 89, "nvfp4": 100}
CACHE_FROM = {"nvfp4": 100}


def not_listed(d: Deployment, cache: str) -> tuple[str, ...]:
    """Reasons, in words that finish `too close to call at most:`. `cache`: the format of K."""
    found, named, at = [], d.model.architecture, capability(d)
    if named and named not in CLASSES:
        found.append(f"TensorRT-LLM's list of models, as it was read in 2026, has no {named}")
    if not at or d.kv_memory is not None:
        return tuple(found)
    schemes = {weight_scheme(one) for one in weight_formats(d).values()}
    parts = [("weights", s, WEIGHTS_FROM[s]) for s in sorted(schemes & WEIGHTS_FROM.keys())]
    parts += [("cache", cache, CACHE_FROM[cache])] if cache in CACHE_FROM else []
    told = [f"{what} in {name} from compute capability {version_of(least)} on" for what, name, least in parts if at < least]
    return (*found, *(f"TensorRT-LLM's table of hardware has {one}, and this GPU has {version_of(at)}" for one in told))
