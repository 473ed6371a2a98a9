"""Model classes by the first release of LMDeploy that has them, with either engine.

Read of the wheels of 0.2.0 to 0.18.0: turbomind/supported_models.py SUPPORTED_ARCHS and pytorch/models/module_map.py MODULE_MAP. Classes
before 0.3.0 are not listed.
"""

from __future__ import annotations

FIRST: dict[str, str] = {
    "0.3.0": "MultiModalityCausalLM",
    "0.4.0": "InternLMXComposer2ForCausalLM InternVLChatModel MiniGeminiLlamaForCausalLM",
    "0.4.1": "MGMLlamaForCausalLM",
    "0.5.0": "LlavaMistralForCausalLM MiniCPMV",
    "0.5.2": "ChatGLMForConditionalGeneration",
    "0.6.0": (
        "CogVLMForCausalLM DbrxForCausalLM DeepseekV2ForCausalLM Gemma2ForCausalLM LlavaForConditionalGeneration "
        "LlavaNextForConditionalGeneration Phi3ForCausalLM Phi3VForCausalLM PhiMoEForCausalLM Qwen2MoeForCausalLM "
        "Starcoder2ForCausalLM"
    ),
    "0.6.1": "MiniCPM3ForCausalLM Qwen2VLForConditionalGeneration",
    "0.6.2": "MllamaForConditionalGeneration",
    "0.6.3": "InternLM2VEForCausalLM MolmoForCausalLM",
    "0.7.0": "DeepseekV3ForCausalLM InternLM3ForCausalLM",
    "0.7.1": "DeepseekVLV2ForCausalLM",
    "0.7.2": (
        "Gemma3ForCausalLM Gemma3ForConditionalGeneration InternLM2ForRewardModel Qwen2ForRewardModel Qwen2_5_VLForConditionalGeneration"
    ),
    "0.7.3": "Llama4ForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM",
    "0.9.0": "InternVLForConditionalGeneration",
    "0.9.2": "InternS1ForConditionalGeneration",
    "0.10.0": "Glm4ForCausalLM Glm4vForConditionalGeneration GptOssForCausalLM",
    "0.10.1": "Glm4MoeForCausalLM SDARForCausalLM SDARMoeForCausalLM",
    "0.11.0": (
        "DeepseekMTPModel Eagle3LlamaForCausalLM EagleLlamaForCausalLM Qwen3NextForCausalLM Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration"
    ),
    "0.11.1": "DeepseekV32ForCausalLM",
    "0.12.0": "InternS1ProForConditionalGeneration",
    "0.12.1": "Glm4MoeLiteForCausalLM InternS1_1_ForConditionalGeneration",
    "0.12.2": "Glm4MoeMTPModel GlmMoeDsaForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration",
    "0.12.3": "Qwen3_5MTPModel",
    "0.13.0": "InternS2PreviewForCausalLM InternS2PreviewForConditionalGeneration",
    "0.14.0": "Qwen3OmniMoeForConditionalGeneration",
    "0.15.0": "DeepseekV4ForCausalLM",
    "0.16.0": (
        "GlmMoeDsaMTPModel HYV3ForCausalLM HYV3MTP InternS2MobiusForCausalLM InternS2MobiusForConditionalGeneration "
        "MetaMoeForConditionalGeneration"
    ),
    "0.17.0": "Eagle3DeepseekV2ForCausalLM KimiK25ForConditionalGeneration Kimi_K25ForConditionalGeneration",
    "0.18.0": "DFlashDraftModel DeepseekV32MTPModel",
}
#: Classes by the first release whose TurboMind has them, where the PyTorch engine may have them before (SUPPORTED_ARCHS at the tags).
TURBOMIND: dict[str, str] = {
    "0.4.0": "InternLMXComposer2ForCausalLM InternVLChatModel",
    "0.5.0": "LlavaMistralForCausalLM MiniCPMV",
    "0.5.2": "ChatGLMForConditionalGeneration",
    "0.6.3": "LlavaForConditionalGeneration MolmoForCausalLM Qwen2MoeForCausalLM",
    "0.6.4": "DeepseekV2ForCausalLM",
    "0.7.0": "InternLM3ForCausalLM",
    "0.7.3": "Qwen3ForCausalLM Qwen3MoeForCausalLM",
    "0.9.0": "InternVLForConditionalGeneration",
    "0.9.2": "InternS1ForConditionalGeneration Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
    "0.10.0": "GptOssForCausalLM",
    "0.12.2": "Glm4MoeLiteForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration",
}
