"""Model classes of exllamav3 by the first release that has them (exllamav3/architecture/*.py, arch_string), without those of drafts."""

from __future__ import annotations

from kvplan.engines.common.registries import Registry
from kvplan.engines.exllamav3.releases import RELEASES

FIRST = {
    "0.0.1": "Cohere2ForCausalLM CohereForCausalLM DeciLMForCausalLM Gemma2ForCausalLM Glm4ForCausalLM LlamaForCausalLM MistralForCausalLM "
    "Phi3ForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM",
    "0.0.2": "Qwen3MoeForCausalLM",
    "0.0.3": "Gemma3ForConditionalGeneration MixtralForCausalLM",
    "0.0.4": "Dots1ForCausalLM Gemma3ForCausalLM MiMoForCausalLM Mistral3ForConditionalGeneration",
    "0.0.5": "Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM Exaone4ForCausalLM SmolLM3ForCausalLM",
    "0.0.6": "ArceeForCausalLM Glm4MoeForCausalLM",
    "0.0.7": "ApertusForCausalLM Qwen3NextForCausalLM SeedOssForCausalLM",
    "0.0.12": "MiniMaxM2ForCausalLM",
    "0.0.15": "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration Qwen3VLForConditionalGeneration "
    "Qwen3VLMoeForConditionalGeneration",
    "0.0.18": "Ministral3ForCausalLM",
    "0.0.19": "HCXVisionV2ForCausalLM HyperCLOVAXForCausalLM IQuestCoderForCausalLM NanoChatForCausalLM Olmo3ForCausalLM "
    "SolarOpenForCausalLM",
    "0.0.20": "Qwen2_5_VLForConditionalGeneration",
    "0.0.23": "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration Step3p5ForCausalLM",
    "0.0.25": "Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
    "0.0.26": "OlmoHybridForCausalLM",
    "0.0.29": "Gemma4ForConditionalGeneration",
    "0.0.31": "AfmoeForCausalLM",
    "0.0.39": "Lfm2MoeForCausalLM Step3p7ForConditionalGeneration",
    "0.0.40": "Gemma4UnifiedForConditionalGeneration",
    "1.0.0": "GptOssForCausalLM NemotronHForCausalLM",
    "1.1.0": "HYV3ForCausalLM",
    "1.2.0": "LagunaForCausalLM",
    "1.4.0": "DeepseekV3ForCausalLM DeepseekV4ForCausalLM",
    "1.4.2": "MuseGlimmerForConditionalGeneration",
    "1.4.5": "Glm5NextForConditionalGeneration GlmMoeDsaForCausalLM Qwen4ExpForConditionalGeneration",
    "1.4.9": "Glm4MoeLiteForCausalLM Lfm2ForCausalLM Spark2_5ForCausalLM",
    "1.5.1": "KimiLinearForCausalLM",
    "1.5.2": "MiMoV2ForCausalLM",
    "1.6.3": "BailingMoeV3ForCausalLM",
    "1.6.4": "Lfm2VlForConditionalGeneration NemotronH_Omni_Reasoning_V3",
}
#: The last release with a class that is there no more.
LAST = {"NanoChatForCausalLM": "1.4.2"}
REGISTRY = Registry(FIRST, RELEASES.versions)
