"""What vLLM's model classes do not have: pipeline stages, slots for adapters, a config that it reads without the repository's code.

The classes in the registry of vLLM 0.33 (283 of 289 load on a CPU) were asked (model_executor/models/interfaces.py supports_pp,
supports_lora). A class that has neither there had neither before. MiniMax-01's, which left the registry at 0.24, is read in 0.10.2 to 0.22.
"""

from __future__ import annotations

#: Architectures without the `SupportsPP` interface.
WITHOUT_STAGES: frozenset[str] = frozenset({
    "AliceAIForCausalLM", "AriaForConditionalGeneration", "BertForMaskedLM", "BertForSequenceClassification", "BertModel",
    "BertSpladeSparseEmbeddingModel", "BgeM3EmbeddingModel", "CLIPModel", "DeepseekV4ForConditionalGeneration",
    "DiffusionGemmaForBlockDiffusion", "DomynEdgeForCausalLM", "DoryForCausalLM", "EmbeddingGemma2Model",
    "FireRedASR2ForConditionalGeneration", "GPT2ForSequenceClassification", "Gemma3TextModel", "Gemma3nForCausalLM",
    "Gemma3nForConditionalGeneration", "GteModel", "GteNewForSequenceClassification", "GteNewModel", "HrmTextForCausalLM",
    "IQuestLoopCoderForCausalLM", "Idefics3ForConditionalGeneration", "Lfm2BidirectionalModel", "Mamba2ForCausalLM", "MiniMaxForCausalLM",
    "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM", "ModernBertForSequenceClassification", "ModernBertModel",
    "NemotronH_Nano_Omni_Reasoning_V3", "NemotronH_Nano_VL_V2", "NemotronH_Omni_Reasoning_V3",
    "NemotronH_Super_Omni_Reasoning_V3", "NemotronParseForConditionalGeneration", "NomicBertModel",
    "PaddleOCRVLForConditionalGeneration", "Phi4MMForCausalLM", "RadioMBartPrefixForCausalLM", "RobertaForMaskedLM",
    "RobertaForSequenceClassification", "RobertaModel", "SiglipModel", "SmolVLMForConditionalGeneration",
    "VoyageQwen3BidirectionalEmbedModel", "WhisperForConditionalGeneration", "XLMRobertaForSequenceClassification", "XLMRobertaModel",
    "Zamba2ForCausalLM",
})  # fmt: skip
#: Architectures whose text model is built without the name of its class, which stages ask for: 0.17 to 0.29 (vllm-project/vllm pull 43272).
UNNAMED: frozenset[str] = frozenset({"Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"})
#: Architectures without the `SupportsLoRA` interface.
WITHOUT_ADAPTERS: frozenset[str] = frozenset({
    "AriaForConditionalGeneration", "BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration",
    "BeamForCausalLM", "BeeForConditionalGeneration", "BertForMaskedLM", "BloomForCausalLM", "CLIPModel", "Cohere2MoeForCausalLM",
    "Cohere2VisionForConditionalGeneration", "Cosmos3EdgeForConditionalGeneration", "DbrxForCausalLM", "DeepseekV41ForCausalLM",
    "DeepseekV4ForCausalLM", "DeepseekV4ForConditionalGeneration", "DeepseekVLV2ForCausalLM", "DiffusionGemmaForBlockDiffusion",
    "DomynEdgeForCausalLM", "DoryForCausalLM", "EmbeddingGemma2Model", "FalconForCausalLM", "FalconMambaForCausalLM",
    "FireRedASR2ForConditionalGeneration", "FlintForCausalLM", "FunAudioChatForConditionalGeneration", "GPT2ForSequenceClassification",
    "GPT2LMHeadModel", "GPTJForCausalLM", "Gemma3TextModel", "Gemma3nForCausalLM", "Gemma3nForConditionalGeneration", "Glm5NextForCausalLM",
    "GteModel", "GteNewForSequenceClassification", "GteNewModel", "HCXVisionV2ForCausalLM", "HfMoondream", "HrmTextForCausalLM",
    "IQuestLoopCoderForCausalLM", "KimiK25ForConditionalGeneration", "KimiK3ForConditionalGeneration", "KimiLinearForCausalLM",
    "KimiVLForConditionalGeneration", "Lfm2BidirectionalModel", "LlavaOnevision2ForConditionalGeneration",
    "LlavaOnevisionForConditionalGeneration", "Mamba2ForCausalLM", "MambaForCausalLM", "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM",
    "MiMoV2OmniForCausalLM", "MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration", "ModernBertForSequenceClassification",
    "Moondream3ForCausalLM", "MoonshotKimiaForCausalLM", "MossTranscribeDiarizeForConditionalGeneration",
    "NemotronParseForConditionalGeneration", "NomicBertModel", "OpenVLAForActionPrediction", "OrionForCausalLM", "Ovis", "Ovis2_5",
    "Ovis2_6ForCausalLM", "Ovis2_6_MoeForCausalLM", "PaddleOCRVLForConditionalGeneration", "Phi3VForCausalLM", "Phi4ForCausalLMV",
    "Qwen2AudioForConditionalGeneration", "RForConditionalGeneration", "RadioMBartPrefixForCausalLM", "SiglipModel", "SkyworkR1VChatModel",
    "StableLmForCausalLM", "Step1ForCausalLM", "Step3TextForCausalLM", "Step3VLForConditionalGeneration", "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration", "StepVLForConditionalGeneration", "Zamba2ForCausalLM",
})  # fmt: skip
#: Classes whose published configs (`auto_map`; vLLM's tests/models/registry.py, `trust_remote_code`) are of a model type that neither the
#: release (transformers_utils/config.py _CONFIG_REGISTRY) nor any transformers that it may be installed with knows: from a release on, and
#: before which. Read of 0.9.0 to 0.33 and of transformers 4.51 to 5.19; where the oldest that it takes does not know it and a newer one
#: does, nothing is said. A name with a slash is how catalogue ids begin: their type is not their class's own.
OWN_CODE: dict[str, tuple[str, str]] = {
    **dict.fromkeys((
        "BaiChuanForCausalLM", "BaichuanForCausalLM", "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM",
        "BailingMoeV2_5ForCausalLM", "DeciLMForCausalLM", "DeepseekForCausalLM", "DotsOCRForCausalLM", "InternLM2ForCausalLM",
        "InternLM2ForRewardModel", "InternLM3ForCausalLM", "InternLMForCausalLM", "InternS1ForConditionalGeneration",
        "InternS1ProForConditionalGeneration", "KeyeForConditionalGeneration", "KeyeVL1_5ForConditionalGeneration",
        "Llama_Nemotron_Nano_VL", "MiMoForCausalLM", "MiniCPMForCausalLM", "MiniCPMO", "MiniCPMV", "Molmo2ForConditionalGeneration",
        "MolmoForCausalLM", "NemotronH_Nano_VL_V2", "OpenCUAForConditionalGeneration", "OrionForCausalLM", "Ovis2_5", "Ovis2_6ForCausalLM",
        "Ovis2_6_MoeForCausalLM", "PanguEmbeddedForCausalLM", "PanguUltraMoEForCausalLM", "Phi3SmallForCausalLM", "Phi3VForCausalLM",
        "Phi4MMForCausalLM", "Plamo3ForCausalLM", "QWenLMHeadModel", "SarvamMoEForCausalLM", "Step1ForCausalLM",
        "StepVLForConditionalGeneration", "TeleChat2ForCausalLM", "TeleChatForCausalLM", "TeleFLMForCausalLM", "XverseForCausalLM",
    ), ("", "")),
    **dict.fromkeys(("H2OVLChatModel", "InternVLChatModel", "NVLM_D", "SkyworkR1VChatModel"), ("0.9.2", "")),
    **dict.fromkeys(("ExaoneForCausalLM", "SolarForCausalLM"), ("0.10.1", "")),
    "HunYuanMoEV1ForCausalLM": ("", "0.10.2"),
    "moonshotai/kimi-k2": ("", "0.18"),
    **dict.fromkeys((
        "Ernie4_5_VLMoeForConditionalGeneration", "HyperCLOVAXForCausalLM", "MiniMaxM2ForCausalLM", "NemotronHForCausalLM",
        "PaddleOCRVLForConditionalGeneration",
    ), ("", "0.19.1")),
    **dict.fromkeys(("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiniCPM3ForCausalLM"), ("", "0.24")),
    **dict.fromkeys(("AXK1ForCausalLM", "ArcticForCausalLM"), ("", "0.26")),
    "HCXVisionV2ForCausalLM": ("", "0.32"),
}  # fmt: skip
