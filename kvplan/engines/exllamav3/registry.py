"""Model classes that exllamav3 1.6.5 has (exllamav3/architecture/*.py, arch_string), without those of drafts."""

from __future__ import annotations

_NAMES = (
    "AfmoeForCausalLM ApertusForCausalLM ArceeForCausalLM BailingMoeV3ForCausalLM Cohere2ForCausalLM CohereForCausalLM "
    "DeciLMForCausalLM DeepseekV3ForCausalLM DeepseekV4ForCausalLM Dots1ForCausalLM Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM "
    "Exaone4ForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4ForConditionalGeneration "
    "Gemma4UnifiedForConditionalGeneration Glm4ForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM Glm4vForConditionalGeneration "
    "Glm4vMoeForConditionalGeneration Glm5NextForConditionalGeneration GlmMoeDsaForCausalLM GptOssForCausalLM "
    "HCXVisionV2ForCausalLM HYV3ForCausalLM HyperCLOVAXForCausalLM IQuestCoderForCausalLM KimiLinearForCausalLM LagunaForCausalLM "
    "Lfm2ForCausalLM Lfm2MoeForCausalLM Lfm2VlForConditionalGeneration LlamaForCausalLM MiMoForCausalLM MiMoV2ForCausalLM "
    "MiniMaxM2ForCausalLM Ministral3ForCausalLM Mistral3ForConditionalGeneration MistralForCausalLM MixtralForCausalLM "
    "MuseGlimmerForConditionalGeneration NemotronHForCausalLM NemotronH_Omni_Reasoning_V3 Olmo3ForCausalLM OlmoHybridForCausalLM "
    "Phi3ForCausalLM Qwen2ForCausalLM Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM Qwen3NextForCausalLM "
    "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration "
    "Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration Qwen4ExpForConditionalGeneration SeedOssForCausalLM "
    "SmolLM3ForCausalLM SolarOpenForCausalLM Spark2_5ForCausalLM Step3p5ForCausalLM Step3p7ForConditionalGeneration"
)
CLASSES = frozenset(_NAMES.split())
