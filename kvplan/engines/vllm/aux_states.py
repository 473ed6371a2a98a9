"""Model classes that hand out hidden states of their layers, which EAGLE-3 heads and DFlash draft from, by the first release.

SupportsEagle3 of model_executor/models (and what inherits from it), read of every release from 0.10.1 to 0.33 (32 trees).
Classes that a release runs by transformers' code are among them from 0.13 on.
"""

from __future__ import annotations

_FIRST: dict[str, str] = {
    "0.10.1": (
        "AquilaForCausalLM Ernie4_5ForCausalLM Fairseq2LlamaForCausalLM GlmForCausalLM GritLM InternLM3ForCausalLM "
        "InternLMForCausalLM Llama4ForCausalLM LlamaForCausalLM MistralForCausalLM Phi3ForCausalLM Qwen3ForCausalLM "
        "TeleChat2ForCausalLM TeleFLMForCausalLM XverseForCausalLM"
    ),
    "0.10.2": "MiMoForCausalLM MotifForCausalLM Qwen2ForCausalLM",
    "0.11": "CwmForCausalLM GptOssForCausalLM MiniCPM3ForCausalLM MiniCPMForCausalLM",
    "0.11.1": "Llama4ForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3MoeForCausalLM",
    "0.12": ("OpenCUAForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration TeleChatForCausalLM"),
    "0.13": "Emu3ForConditionalGeneration SmolLM3ForCausalLM",
    "0.14": "IQuestCoderForCausalLM",
    "0.15": "LlavaForConditionalGeneration MantisForConditionalGeneration",
    "0.16": (
        "AfmoeForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM HunYuanVLForConditionalGeneration "
        "InternS1ProForConditionalGeneration LightOnOCRForConditionalGeneration Mistral3ForConditionalGeneration"
    ),
    "0.17": "ColQwen3 Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration",
    "0.18": (
        "ApertusForCausalLM ArceeForCausalLM DeepseekForCausalLM DeepseekV2ForCausalLM DeepseekV32ForCausalLM "
        "DeepseekV3ForCausalLM GlmMoeDsaForCausalLM KimiK25ForConditionalGeneration MistralLarge3ForCausalLM Step1ForCausalLM"
    ),
    "0.19": "ColQwen3_5 PixtralForConditionalGeneration",
    "0.19.1": "Gemma4ForCausalLM Gemma4ForConditionalGeneration",
    "0.20": "Exaone4_5_ForConditionalGeneration MiniMaxM2ForCausalLM Ministral3ForCausalLM TeleChat3ForCausalLM",
    "0.21": "LagunaForCausalLM",
    "0.22": "InternS2PreviewForConditionalGeneration NemotronHForCausalLM NemotronHPuzzleForCausalLM",
    "0.22.1": "MellumForCausalLM",
    "0.23": "Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration",
    "0.24": "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration Qwen3NextForCausalLM",
    "0.25": "DeepseekV4ForCausalLM GPTBigCodeForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM Starcoder2ForCausalLM",
    "0.26": "Olmo2ForCausalLM OlmoForCausalLM",
    "0.27": (
        "KimiK3ForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM VaultGemmaForCausalLM VibeVoiceAsrForConditionalGeneration"
    ),
    "0.28": ("InternS2MobiusForConditionalGeneration KimiLinearForCausalLM MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration"),
    "0.29": (
        "FlexOlmoForCausalLM Olmo3ForCausalLM Plamo3ForCausalLM Qwen3OmniMoeForConditionalGeneration Qwen4ExpForConditionalGeneration"
    ),
    "0.30": (
        "CohereCompassForConditionalGeneration DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration K2HorizonForCausalLM "
        "NanbeigeForCausalLM SarvamMLAForCausalLM"
    ),
    "0.31": (
        "Cohere2MoeForCausalLM MiMoV2OmniForCausalLM NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 "
        "NemotronH_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3"
    ),
    "0.32": (
        "GPTNeoXForCausalLM Glm5NextForCausalLM Glm5NextForConditionalGeneration GraniteForCausalLM GraniteSWAForCausalLM "
        "Jais2ForCausalLM MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration PhiForCausalLM "
        "Qwen3ASRForConditionalGeneration Qwen3ASRRealtimeGeneration SeedOssForCausalLM"
    ),
    "0.33": (
        "Alpamayo2Super BeamForCausalLM GraniteMoeForCausalLM GraniteMoeSWAForCausalLM GraniteMoeSharedForCausalLM "
        "Kolibri1ForCausalLM MiniCPMOcrForConditionalGeneration MuseSparkForConditionalGeneration RadioMBartPrefixForCausalLM"
    ),
}
FIRST: dict[str, str] = {named: first for first, classes in _FIRST.items() for named in classes.split()}
