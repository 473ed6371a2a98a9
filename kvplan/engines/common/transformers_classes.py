"""Model classes by the first release of transformers that has them (models/auto/modeling_auto.py of the wheels of 4.40.0 to 5.24.0)."""

from __future__ import annotations

FIRST: dict[str, str] = {
    "4.40.0": (
        "DbrxForCausalLM Idefics2ForConditionalGeneration JambaForCausalLM OlmoForCausalLM Qwen2MoeForCausalLM RecurrentGemmaForCausalLM"
    ),
    "4.41.0": "JetMoeForCausalLM PaliGemmaForConditionalGeneration Phi3ForCausalLM VideoLlavaForConditionalGeneration",
    "4.42.0": "Gemma2ForCausalLM InstructBlipVideoForConditionalGeneration LlavaNextVideoForConditionalGeneration",
    "4.43.0": "ChameleonForConditionalGeneration",
    "4.44.0": "Mamba2ForCausalLM NemotronForCausalLM",
    "4.45.0": (
        "FalconMambaForCausalLM GraniteForCausalLM GraniteMoeForCausalLM LlavaOnevisionForConditionalGeneration MllamaForCausalLM "
        "MllamaForConditionalGeneration OlmoeForCausalLM Qwen2AudioForConditionalGeneration Qwen2VLForConditionalGeneration"
    ),
    "4.46.0": (
        "GlmForCausalLM Idefics3ForConditionalGeneration MoshiForCausalLM PhimoeForCausalLM UdopForConditionalGeneration ZambaForCausalLM"
    ),
    "4.47.0": "Olmo2ForCausalLM",
    "4.48.0": (
        "AriaForConditionalGeneration AriaTextForCausalLM BambaForCausalLM Cohere2ForCausalLM DiffLlamaForCausalLM Emu3ForCausalLM "
        "Emu3ForConditionalGeneration MoonshineForConditionalGeneration"
    ),
    "4.49.0": (
        "GotOcr2ForConditionalGeneration GraniteMoeSharedForCausalLM HeliumForCausalLM Qwen2_5_VLForConditionalGeneration Zamba2ForCausalLM"
    ),
    "4.50.0": (
        "AyaVisionForConditionalGeneration Gemma3ForCausalLM Gemma3ForConditionalGeneration Mistral3ForConditionalGeneration "
        "SmolVLMForConditionalGeneration"
    ),
    "4.51.0": (
        "DeepseekV3ForCausalLM Llama4ForCausalLM Llama4ForConditionalGeneration Phi4MultimodalForCausalLM Qwen3ForCausalLM "
        "Qwen3MoeForCausalLM"
    ),
    "4.51.3": "Glm4ForCausalLM",
    "4.52.0": (
        "AutoModelForCausalLM BitNetForCausalLM CsmForConditionalGeneration GraniteMoeHybridForCausalLM "
        "GraniteSpeechForConditionalGeneration InternVLForConditionalGeneration JanusForConditionalGeneration "
        "Qwen2_5OmniForConditionalGeneration"
    ),
    "4.53.0": (
        "ArceeForCausalLM DiaForConditionalGeneration Dots1ForCausalLM FalconH1ForCausalLM Gemma3nForCausalLM "
        "Gemma3nForConditionalGeneration Glm4vForConditionalGeneration KyutaiSpeechToTextForConditionalGeneration MiniMaxForCausalLM "
        "SmolLM3ForCausalLM T5GemmaForConditionalGeneration"
    ),
    "4.54.0": (
        "DeepseekV2ForCausalLM DeepseekVLForConditionalGeneration DeepseekVLHybridForConditionalGeneration DogeForCausalLM "
        "Ernie4_5ForCausalLM Ernie4_5_MoeForCausalLM Exaone4ForCausalLM Glm4MoeForCausalLM Lfm2ForCausalLM "
        "ModernBertDecoderForCausalLM PerceptionLMForConditionalGeneration VoxtralForConditionalGeneration"
    ),
    "4.55.0": "Cohere2VisionForConditionalGeneration GptOssForCausalLM",
    "4.56.0": (
        "ApertusForCausalLM Florence2ForConditionalGeneration Glm4vMoeForConditionalGeneration HunYuanDenseV1ForCausalLM "
        "HunYuanMoEV1ForCausalLM Kosmos2_5ForConditionalGeneration Ovis2ForConditionalGeneration SeedOssForCausalLM"
    ),
    "4.57.0": (
        "BltForCausalLM FlexOlmoForCausalLM Lfm2VlForConditionalGeneration LongcatFlashForCausalLM MinistralForCausalLM "
        "Olmo3ForCausalLM Qwen3NextForCausalLM Qwen3OmniMoeForConditionalGeneration Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration VaultGemmaForCausalLM"
    ),
    "5.0.0": (
        "AfmoeForCausalLM AudioFlamingo3ForConditionalGeneration CwmForCausalLM Ernie4_5_VL_MoeForConditionalGeneration "
        "FastVlmForConditionalGeneration Glm46VForConditionalGeneration Glm4MoeLiteForCausalLM GlmAsrForConditionalGeneration "
        "Jais2ForCausalLM Lfm2MoeForCausalLM LightOnOcrForConditionalGeneration MiniMaxM2ForCausalLM Ministral3ForCausalLM "
        "NanoChatForCausalLM PaddleOCRVLForConditionalGeneration SolarOpenForCausalLM T5Gemma2ForConditionalGeneration "
        "VideoLlama3ForConditionalGeneration"
    ),
    "5.1.0": "ExaoneMoeForCausalLM GlmOcrForConditionalGeneration YoutuForCausalLM",
    "5.2.0": (
        "GlmMoeDsaForCausalLM MoonshineStreamingForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration "
        "Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration VoxtralRealtimeForConditionalGeneration"
    ),
    "5.3.0": (
        "Ernie4_5_VLMoeForConditionalGeneration HiggsAudioV2ForConditionalGeneration NemotronHForCausalLM OlmoHybridForCausalLM "
        "VibeVoiceAsrForConditionalGeneration"
    ),
    "5.4.0": "CohereAsrForConditionalGeneration Mistral4ForCausalLM PI0ForConditionalGeneration",
    "5.5.0": "Gemma4ForCausalLM Gemma4ForConditionalGeneration MusicFlamingoForConditionalGeneration",
    "5.6.0": (
        "HYV3ForCausalLM QianfanOCRForConditionalGeneration Qwen2_5OmniThinkerForConditionalGeneration "
        "Qwen3OmniMoeThinkerForConditionalGeneration"
    ),
    "5.7.0": "LagunaForCausalLM MiniCPMV4_6ForConditionalGeneration",
    "5.8.0": (
        "DeepseekV4ForCausalLM Exaone4_5_ForConditionalGeneration Granite4VisionForConditionalGeneration "
        "GraniteSpeechPlusForConditionalGeneration PPFormulaNetForConditionalGeneration"
    ),
    "5.9.0": "Cohere2MoeForCausalLM HrmTextForCausalLM HyperCLOVAXForCausalLM",
    "5.10.0": "Gemma4UnifiedForCausalLM Gemma4UnifiedForConditionalGeneration",
    "5.10.1": "DeepseekOcr2ForConditionalGeneration MellumForCausalLM",
    "5.11.0": "Cosmos3OmniForConditionalGeneration DeepseekV32ForCausalLM",
    "5.12.0": "MiniMaxM3SparseForConditionalGeneration MiniMaxM3VLForCausalLM",
    "5.13.0": (
        "HunYuanVLForConditionalGeneration Kimi_K25ForConditionalGeneration MiMoV2FlashForCausalLM MiniCPM3ForCausalLM "
        "Qwen3ASRForConditionalGeneration ZayaForCausalLM"
    ),
    "5.14.0": "InklingForCausalLM InklingForConditionalGeneration",
    "5.15.0": (
        "AXK1ForCausalLM AXK2ForCausalLM Cosmos3EdgeForConditionalGeneration GraniteMoeSWAForCausalLM GraniteSWAForCausalLM "
        "MuseGlimmerForConditionalGeneration"
    ),
    "5.16.0": (
        "CohereCompassForCausalLM CohereCompassForConditionalGeneration Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration "
        "Step3p7ForConditionalGeneration"
    ),
    "5.16.1": "Glm5NextForConditionalGeneration",
    "5.17.0": (
        "CanaryForConditionalGeneration FunAsrNanoForConditionalGeneration HYV4ForCausalLM KimiLinearForCausalLM "
        "VibeVoiceForConditionalGeneration"
    ),
    "5.18.0": "HyperCLOVAXVisionV2ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration",
    "5.20.0": (
        "BailingHybridForCausalLM Kolibri1ForCausalLM Molmo2ForConditionalGeneration MossTranscribeDiarizeForConditionalGeneration "
        "MuseSparkForConditionalGeneration UnlimitedOcrForConditionalGeneration"
    ),
    "5.20.1": "BeamForCausalLM",
    "5.21.0": (
        "FlintForCausalLM GradiumPhononTTSForConditionalGeneration MiniCPMOcrForConditionalGeneration PocketTTSForConditionalGeneration"
    ),
    "5.22.0": "MistralLarge4ForConditionalGeneration Nemotron3_5TranscribeForConditionalGeneration",
    "5.23.0": (
        "Dots3NoteForCausalLM Dots3NoteForConditionalGeneration GraniteDoclingForConditionalGeneration Inkling2ForCausalLM "
        "Inkling2ForConditionalGeneration Lfm3ForCausalLM Lfm3VlForConditionalGeneration"
    ),
    "5.24.0": (
        "Apertus1p5ForConditionalGeneration Apertus1p5TextForCausalLM DoryForCausalLM HYV4VLForConditionalGeneration "
        "Inkling2LoopForCausalLM Inkling2LoopForConditionalGeneration LaraMiniForCausalLM OmniASRForConditionalGeneration"
    ),
}
