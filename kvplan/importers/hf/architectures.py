"""Architecture name -> family, and family -> row. Both literal, so that the whole set is on one page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from kvplan.errors import UnsupportedError
from kvplan.importers.hf.rows import Row

_TABLES = (("families", "FAMILIES"), ("families_latent_recurrent", "LATENT_RECURRENT"), ("families_multimodal", "WRAPPERS"),
           ("families_encoders", "ENCODERS"), ("families_rare", "RARE"))  # fmt: skip


class _Families(Mapping[str, Row]):
    """All tables as one; the later ones are read where the name is in none before, because they need most of this package."""

    def _tables(self) -> Iterator[Mapping[str, Row]]:
        return (getattr(import_module(f"kvplan.importers.hf.{module}"), name) for module, name in _TABLES)

    def __getitem__(self, family: str) -> Row:
        for table in self._tables():
            if family in table:
                return table[family]
        raise KeyError(family)

    def __iter__(self) -> Iterator[str]:
        return (family for table in self._tables() for family in table)

    def __len__(self) -> int:
        return sum(map(len, self._tables()))


FAMILIES = _Families()

#: `config["architectures"][0]` -> the family that lowers it. Encoders: families_encoders.PREFIXES.
ARCHITECTURES: dict[str, str] = {
    "SDARForCausalLM": "sdar", "SDARMoeForCausalLM": "sdar_moe",
    "LlamaForCausalLMEagle3": "eagle3", "Eagle3LlamaForCausalLM": "eagle3", "Eagle3Speculator": "eagle3", "Eagle3DraftModel": "eagle3",
    "PEagleDraftModel": "eagle3", "PeagleLlamaForCausalLM": "eagle3", "Eagle3Qwen2_5vlForCausalLM": "eagle3",
    "Eagle3Qwen3vlForCausalLM": "eagle3", "Eagle3MiniMaxM2ForCausalLM": "eagle3", "Eagle3Qwen3ForCausalLM": "eagle3_qwen3",
    "PeagleQwen3ForCausalLM": "eagle3_qwen3", "DFlashDraftModel": "dflash", "DSparkDraftModel": "dspark", "Qwen3DSparkModel": "dspark",
    "DFlashLagunaForCausalLM": "dflash_laguna", "K3DSparkModel": "k3_dspark",
    "DominoDraftModel": "dflash", **dict.fromkeys(("DFlash2DraftModel", "DFlash2BeamDraftModel", "MiniMaxDFlash2DraftModel"), "dflash2"),
    "ChameleonForConditionalGeneration": "chameleon", "Emu3ForConditionalGeneration": "emu3", "xLSTMForCausalLM": "xlstm",
    "Qwen4ExpForCausalLM": "qwen4_exp_text", "Qwen4ExpForConditionalGeneration": "qwen4_exp", "InklingForCausalLM": "inkling_text",
    "InklingForConditionalGeneration": "inkling_mm_model",
    "CpmAntForCausalLM": "cpmant", "DiffusionGemmaForBlockDiffusion": "diffusion_gemma", "EvollaForProteinText2Text": "evolla",
    "FastVlmForConditionalGeneration": "fast_vlm", "FunAsrNanoForConditionalGeneration": "fun_asr_nano",
    "HrmTextForCausalLM": "hrm_text", "IdeficsForVisionText2Text": "idefics", "OmniASRForConditionalGeneration": "omniasr",
    "PerceptionLMForConditionalGeneration": "perception_lm",
    "DoryForCausalLM": "dory", "Inkling2LoopForCausalLM": "inkling2_loop_text", "Inkling2LoopForConditionalGeneration": "inkling2_loop",
    "Inkling2ForCausalLM": "inkling2_text", "Inkling2ForConditionalGeneration": "inkling2",
    "Dots3NoteForConditionalGeneration": "dots3_note", "Nemotron3_5TranscribeForConditionalGeneration": "nemo_speechlm",
    "Dots3NoteForCausalLM": "dots3_note_text", "Dot3NoteForCausalLM": "dots3_note_text",
    "CohereCompassForCausalLM": "cohere_compass_text", "CohereCompassForConditionalGeneration": "cohere_compass",
    "ZayaForCausalLM": "zaya", "MoshiForCausalLM": "moshi", "MoshiForConditionalGeneration": "moshi_whole",
    "VisionEncoderDecoderModel": "vision-encoder-decoder", "Pix2StructForConditionalGeneration": "pix2struct",
    "PPFormulaNetForConditionalGeneration": "pp_formulanet", "WhisperForCausalLM": "whisper_decoder",
    "EncoderDecoderModel": "encoder-decoder", "DeepseekOcr2ForConditionalGeneration": "deepseek_ocr2",
    "UnlimitedOcrForConditionalGeneration": "unlimited_ocr", "UnlimitedOCRForCausalLM": "deepseek_ocr",
    "BigBirdPegasusForCausalLM": "bigbird_pegasus_decoder", "TrOCRForCausalLM": "trocr",
    "NllbMoeForConditionalGeneration": "nllb-moe", "FSMTForConditionalGeneration": "fsmt",
    "SeamlessM4TForTextToText": "seamless_m4t", "SeamlessM4Tv2ForTextToText": "seamless_m4t_v2",
    "Cosmos3EdgeForConditionalGeneration": "cosmos3_edge", "DeepseekVLHybridForConditionalGeneration": "deepseek_vl_hybrid",
    "GraniteDoclingForConditionalGeneration": "granite_docling", "MiniCPMOcrForConditionalGeneration": "minicpm_ocr",
    "MossTranscribeDiarizeForConditionalGeneration": "moss_transcribe_diarize",
    "ModernVBertForMaskedLM": "modernvbert", "UltraVBertForMaskedLM": "ultravbert",
    "ProphetNetForConditionalGeneration": "prophetnet", "ProphetNetForCausalLM": "prophetnet_decoder",
    "Florence2ForConditionalGeneration": "florence2", "T5Gemma2ForConditionalGeneration": "t5gemma2",
    "BlipForConditionalGeneration": "blip", "GitForCausalLM": "git", "Kosmos2ForConditionalGeneration": "kosmos-2",
    "JanusForConditionalGeneration": "janus", "VibeVoiceAsrForConditionalGeneration": "vibevoice_asr",
    "Kosmos2_5ForConditionalGeneration": "kosmos-2.5", "UdopForConditionalGeneration": "udop",
    "HunYuanVLForConditionalGeneration": "hunyuan_vl", "Granite4VisionForConditionalGeneration": "granite4_vision",
    "MuseSparkForConditionalGeneration": "muse_spark", "FuyuForCausalLM": "fuyu", "Emu3ForCausalLM": "emu3_text_model",
    "AfmoeForCausalLM": "afmoe", "ApertusForCausalLM": "apertus",
    "Apertus1p5TextForCausalLM": "apertus1p5_text", "Apertus1p5ForConditionalGeneration": "apertus1p5",
    "ArceeForCausalLM": "arcee", "ArcticForCausalLM": "arctic",
    "AriaForConditionalGeneration": "aria", "AriaTextForCausalLM": "aria_text",
    "AudioFlamingo3ForConditionalGeneration": "audioflamingo3", "AXK1ForCausalLM": "axk1", "AXK2ForCausalLM": "axk2",
    "AyaVisionForConditionalGeneration": "aya_vision", "BaiChuanForCausalLM": "baichuan", "BaichuanForCausalLM": "baichuan",
    "BailingHybridForCausalLM": "bailing_hybrid", "BailingMoeV3ForCausalLM": "bailing_hybrid",
    "BailingMoeForCausalLM": "bailing_moe", "BailingMoeV2ForCausalLM": "bailing_moe_v2",
    "BailingMoeV2_5ForCausalLM": "bailing_moe_v2_5", "BambaForCausalLM": "bamba", "BartForConditionalGeneration": "bart",
    "BartForCausalLM": "bart_decoder", "BeamForCausalLM": "beam", "BigBirdPegasusForConditionalGeneration": "bigbird_pegasus",
    "BioGptForCausalLM": "biogpt", "BitNetForCausalLM": "bitnet", "BlenderbotForConditionalGeneration": "blenderbot",
    "BlenderbotSmallForConditionalGeneration": "blenderbot-small", "BlenderbotSmallForCausalLM": "blenderbot-small_decoder",
    "BlenderbotForCausalLM": "blenderbot_decoder", "Blip2ForConditionalGeneration": "blip-2", "BloomForCausalLM": "bloom",
    "ChatGLMForConditionalGeneration": "chatglm", "ChatGLMModel": "chatglm", "GLM4VForCausalLM": "chatglm",
    "CodeGenForCausalLM": "codegen", "CohereForCausalLM": "cohere", "Cohere2ForCausalLM": "cohere2",
    "Cohere2MoeForCausalLM": "cohere2_moe", "Cohere2VisionForConditionalGeneration": "cohere2_vision",
    "Cosmos3OmniForConditionalGeneration": "cosmos3_omni", "CTRLLMHeadModel": "ctrl", "CwmForCausalLM": "cwm",
    "DbrxForCausalLM": "dbrx", "DeepseekForCausalLM": "deepseek", "DeepseekOCR2ForCausalLM": "deepseek_ocr",
    "DeepseekOCRForCausalLM": "deepseek_ocr", "DeepseekV2ForCausalLM": "deepseek_v2", "DeepseekV3ForCausalLM": "deepseek_v3",
    "KimiK2ForCausalLM": "deepseek_v3", "MistralLarge3ForCausalLM": "deepseek_v3", "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4", "DeepseekV41ForCausalLM": "deepseek_v41", "DeepseekVLForConditionalGeneration": "deepseek_vl",
    "DeepseekVLV2ForCausalLM": "deepseek_vl_v2", "DiffLlamaForCausalLM": "diffllama", "DogeForCausalLM": "doge",
    "Dots1ForCausalLM": "dots1", "DotsOCRForCausalLM": "dots_ocr", "Eagle2_5_VLForConditionalGeneration": "eagle2_5_vl",
    "Ernie4_5ForCausalLM": "ernie4_5", "Ernie4_5_ForCausalLM": "ernie4_5", "Ernie4_5_MoeForCausalLM": "ernie4_5_moe",
    "Ernie4_5_VLMoeForConditionalGeneration": "ernie4_5_vl_moe", "ExaoneForCausalLM": "exaone", "Exaone4ForCausalLM": "exaone4",
    "Exaone4_5_ForConditionalGeneration": "exaone4_5", "ExaoneMoEForCausalLM": "exaone_moe", "ExaoneMoeForCausalLM": "exaone_moe",
    "FalconForCausalLM": "falcon", "RWForCausalLM": "falcon", "FalconH1ForCausalLM": "falcon_h1",
    "FalconMambaForCausalLM": "falcon_mamba", "FlexOlmoForCausalLM": "flex_olmo", "FlintForCausalLM": "flint",
    "GemmaForCausalLM": "gemma", "Gemma2ForCausalLM": "gemma2", "Gemma3ForConditionalGeneration": "gemma3",
    "Gemma3ForCausalLM": "gemma3_text", "Gemma3nForConditionalGeneration": "gemma3n", "Gemma3nForCausalLM": "gemma3n_text",
    "Gemma4ForConditionalGeneration": "gemma4", "Gemma4ForCausalLM": "gemma4_text",
    "Gemma4UnifiedForConditionalGeneration": "gemma4_unified", "Gemma4UnifiedForCausalLM": "gemma4_unified_text",
    "Gemma4AssistantForCausalLM": "gemma4_assistant", "Gemma4UnifiedAssistantForCausalLM": "gemma4_unified_assistant",
    "GlmForCausalLM": "glm", "Glm4ForCausalLM": "glm4", "Glm46VForConditionalGeneration": "glm46v",
    "Glm4MoeForCausalLM": "glm4_moe", "Glm4MoeLiteForCausalLM": "glm4_moe_lite", "Glm4vForConditionalGeneration": "glm4v",
    "Glm4vMoeForConditionalGeneration": "glm4v_moe", "Glm5NextForConditionalGeneration": "glm5_next",
    "Glm5NextForCausalLM": "glm5_next_text", "GlmMoeDsaForCausalLM": "glm_moe_dsa", "GlmOcrForConditionalGeneration": "glm_ocr",
    "GlmAsrForConditionalGeneration": "glmasr", "GotOcr2ForConditionalGeneration": "got_ocr2", "GPT2LMHeadModel": "gpt2",
    "GPTBigCodeForCausalLM": "gpt_bigcode", "GPTNeoForCausalLM": "gpt_neo", "GPTNeoXForCausalLM": "gpt_neox",
    "GPTNeoXJapaneseForCausalLM": "gpt_neox_japanese", "GptOssForCausalLM": "gpt_oss", "GPTJForCausalLM": "gptj",
    "GraniteForCausalLM": "granite", "GraniteSpeechForConditionalGeneration": "granite_speech",
    "GraniteSpeechPlusForConditionalGeneration": "granite_speech", "GraniteSWAForCausalLM": "granite_swa",
    "GraniteMoeForCausalLM": "granitemoe", "GraniteMoeSWAForCausalLM": "granitemoe_swa",
    "GraniteMoeHybridForCausalLM": "granitemoehybrid", "GraniteMoeSharedForCausalLM": "granitemoeshared",
    "Grok1ForCausalLM": "grok-1", "Grok1ModelForCausalLM": "grok-1", "HeliumForCausalLM": "helium",
    "HunYuanDenseV1ForCausalLM": "hunyuan_v1_dense", "HunYuanForCausalLM": "hunyuan_v1_moe",
    "HunYuanMoEV1ForCausalLM": "hunyuan_v1_moe", "HYV3ForCausalLM": "hy_v3", "HYV4ForCausalLM": "hy_v4",
    "HYV4VLForConditionalGeneration": "hy_v4_vl",
    "HyperCLOVAXForCausalLM": "hyperclovax", "HCXVisionV2ForCausalLM": "hyperclovax_vision_v2",
    "HyperCLOVAXVisionV2ForConditionalGeneration": "hyperclovax_vision_v2", "Idefics2ForConditionalGeneration": "idefics2",
    "Idefics3ForConditionalGeneration": "idefics3", "InstructBlipForConditionalGeneration": "instructblip",
    "InstructBlipVideoForConditionalGeneration": "instructblipvideo", "InternLMForCausalLM": "internlm",
    "InternLM2ForCausalLM": "internlm2", "InternLM3ForCausalLM": "internlm3", "InternS1ForConditionalGeneration": "interns1",
    "InternS1ProForConditionalGeneration": "interns1_pro", "InternVLForConditionalGeneration": "internvl",
    "H2OVLChatModel": "internvl_chat", "InternVLChatModel": "internvl_chat", "NVLM_D": "nvlm_d",
    "NVLM_D_Model": "nvlm_d", "SkyworkR1VChatModel": "internvl_chat", "Jais2ForCausalLM": "jais2", "K2HorizonForCausalLM": "k2_horizon",
    "JambaForCausalLM": "jamba", "JetMoeForCausalLM": "jetmoe", "KeyeForConditionalGeneration": "keye",
    "KeyeVL1_5ForConditionalGeneration": "keye", "KimiK25ForConditionalGeneration": "kimi_k25",
    "Kimi_K25ForConditionalGeneration": "kimi_k25", "KimiK3ForConditionalGeneration": "kimi_k3",
    "LocateAnythingForConditionalGeneration": "locateanything", "JetNemotronForCausalLM": "jet_nemotron",
    "KimiLinearForCausalLM": "kimi_linear", "KimiVLForConditionalGeneration": "kimi_vl", "Kolibri1ForCausalLM": "kolibri1",
    "LagunaForCausalLM": "laguna", "LEDForConditionalGeneration": "led", "Lfm2ForCausalLM": "lfm2",
    "Lfm2MoeForCausalLM": "lfm2_moe", "Lfm2VlForConditionalGeneration": "lfm2_vl", "Lfm3ForCausalLM": "lfm3",
    "Lfm3VlForConditionalGeneration": "lfm3_vl", "LightOnOCRForConditionalGeneration": "lighton_ocr",
    "LightOnOcrForConditionalGeneration": "lighton_ocr", "AquilaForCausalLM": "llama", "AquilaModel": "llama",
    "IQuestCoderForCausalLM": "llama", "LLaMAForCausalLM": "llama", "LlamaForCausalLM": "llama", "TeleChat3ForCausalLM": "llama",
    "YiForCausalLM": "llama", "Llama4ForConditionalGeneration": "llama4", "Llama4ForCausalLM": "llama4_text",
    "Llama_Nemotron_Nano_VL": "llama_nemotron_vl", "LlavaForConditionalGeneration": "llava", "LlavaLlamaForCausalLM": "llava_llama",
    "LlavaMistralForCausalLM": "llava_mistral", "LlavaNextForConditionalGeneration": "llava_next",
    "LlavaNextVideoForConditionalGeneration": "llava_next_video", "LlavaOnevisionForConditionalGeneration": "llava_onevision",
    "LlavaQwenForCausalLM": "llava_qwen", "LongcatFlashForCausalLM": "longcat_flash", "LongT5ForConditionalGeneration": "longt5",
    "M2M100ForConditionalGeneration": "m2m_100", "MambaForCausalLM": "mamba", "MambaLMHeadModel": "mamba",
    "Mamba2ForCausalLM": "mamba2", "MarianMTModel": "marian", "MarianForCausalLM": "marian_decoder",
    "MBartForConditionalGeneration": "mbart", "MBartForCausalLM": "mbart_decoder", "MellumForCausalLM": "mellum",
    "MiMoForCausalLM": "mimo", "MiMoV2FlashForCausalLM": "mimo_v2_flash", "MiMoV2ForCausalLM": "mimo_v2_flash",
    "MiniCPMForCausalLM": "minicpm", "MiniCPM3ForCausalLM": "minicpm3", "MiniCPMO": "minicpmo", "MiniCPMV": "minicpmv",
    "MiniCPMV4_6ForConditionalGeneration": "minicpmv4_6", "MiniCPMV4_7ForConditionalGeneration": "minicpmv4_7",
    "MiniMaxForCausalLM": "minimax", "MiniMaxM1ForCausalLM": "minimax", "MiniMaxText01ForCausalLM": "minimax",
    "MiniMaxM2ForCausalLM": "minimax_m2", "MiniMaxM3SparseForConditionalGeneration": "minimax_m3_vl",
    "MiniMaxM3SparseForCausalLM": "minimax_m3_vl_text", "MiniMaxM3VLForCausalLM": "minimax_m3_vl_text",
    "MiniMaxM3ForCausalLM": "minimax_m3_vl_text",
    "MinistralForCausalLM": "ministral", "Ministral3ForCausalLM": "ministral3", "MistralForCausalLM": "mistral",
    "Mistral3ForConditionalGeneration": "mistral3", "Mistral4ForCausalLM": "mistral4",
    "MistralLarge4ForConditionalGeneration": "mistral_large4", "MixtralForCausalLM": "mixtral",
    "MllamaForConditionalGeneration": "mllama", "MllamaForCausalLM": "mllama_text_model",
    "ModernBertDecoderForCausalLM": "modernbert-decoder", "MolmoForCausalLM": "molmo", "Molmo2ForConditionalGeneration": "molmo2",
    "MPTForCausalLM": "mpt", "MptForCausalLM": "mpt", "MT5ForConditionalGeneration": "mt5", "MT5EncoderModel": "mt5_encoder",
    "MT5ForTokenClassification": "mt5_encoder", "MuseGlimmerForConditionalGeneration": "muse_glimmer",
    "MuseGlimmerForCausalLM": "muse_glimmer_text", "MusicFlamingoForConditionalGeneration": "musicflamingo",
    "MvpForConditionalGeneration": "mvp", "MvpForCausalLM": "mvp_decoder", "NanoChatForCausalLM": "nanochat",
    "NemotronForCausalLM": "nemotron", "DeciLMForCausalLM": "nemotron-nas", "NemotronHForCausalLM": "nemotron_h",
    "NemotronHPuzzleForCausalLM": "nemotron_h", "IQuestLoopCoderForCausalLM": "iquestloopcoder",
    "NemotronH_Omni_Reasoning_V3": "nemotron_h_omni", "NemotronH_Nano_Omni_Reasoning_V3": "nemotron_h_vl",
    "NemotronH_Nano_VL_V2": "nemotron_h_vl", "NemotronH_Super_Omni_Reasoning_V3": "nemotron_h_vl", "OlmoForCausalLM": "olmo",
    "Olmo2ForCausalLM": "olmo2", "Olmo3ForCausalLM": "olmo3", "OlmoHybridForCausalLM": "olmo_hybrid", "OlmoeForCausalLM": "olmoe",
    "OpenAIGPTLMHeadModel": "openai-gpt", "OpenCUAForConditionalGeneration": "opencua", "OPTForCausalLM": "opt",
    "OpenELMForCausalLM": "openelm", "OuroForCausalLM": "ouro",
    "OrionForCausalLM": "orion", "Ovis": "ovis", "Ovis2ForConditionalGeneration": "ovis2", "Ovis2_5": "ovis2_5",
    "Ovis2_6ForCausalLM": "ovis2_5", "Ovis2_6_MoeForCausalLM": "ovis2_6_moe", "PaddleOCRVLForConditionalGeneration": "paddleocr_vl",
    "PaliGemmaForConditionalGeneration": "paligemma", "PanguEmbeddedForCausalLM": "pangu_embedded",
    "PanguUltraMoEForCausalLM": "pangu_ultra_moe", "Param2MoEForCausalLM": "param2moe",
    "PegasusForConditionalGeneration": "pegasus", "PegasusForCausalLM": "pegasus_decoder",
    "PegasusXForConditionalGeneration": "pegasus_x", "PersimmonForCausalLM": "persimmon", "PhiForCausalLM": "phi",
    "Phi3ForCausalLM": "phi3", "Phi3VForCausalLM": "phi3_v", "Phi3SmallForCausalLM": "phi3small",
    "Phi4MultimodalForCausalLM": "phi4_multimodal", "Phi4MMForCausalLM": "phi4mm", "PhiMoEForCausalLM": "phimoe",
    "PhimoeForCausalLM": "phimoe", "Plamo3ForCausalLM": "plamo3", "PLBartForConditionalGeneration": "plbart",
    "PLBartForCausalLM": "plbart_decoder", "QianfanOCRForConditionalGeneration": "qianfan_ocr", "QWenLMHeadModel": "qwen",
    "Qwen2ForCausalLM": "qwen2", "Qwen2_5OmniForConditionalGeneration": "qwen2_5_omni", "Qwen2_5OmniModel": "qwen2_5_omni",
    "Qwen2_5OmniThinkerForConditionalGeneration": "qwen2_5_omni_thinker", "Qwen2_5_VLForConditionalGeneration": "qwen2_5_vl",
    "Qwen2AudioForConditionalGeneration": "qwen2_audio", "Qwen2MoeForCausalLM": "qwen2_moe",
    "Qwen2VLForConditionalGeneration": "qwen2_vl", "Qwen3ForCausalLM": "qwen3", "Qwen3_5ForConditionalGeneration": "qwen3_5",
    "Qwen3_5MoeForConditionalGeneration": "qwen3_5_moe", "Qwen3_5MoeForCausalLM": "qwen3_5_moe_text",
    "Qwen3_5ForCausalLM": "qwen3_5_text", "Qwen3ASRForConditionalGeneration": "qwen3_asr", "Qwen3MoeForCausalLM": "qwen3_moe",
    "LaraMiniForCausalLM": "lara_mini", "Qwen3NextForCausalLM": "qwen3_next", "Qwen3OmniMoeForConditionalGeneration": "qwen3_omni_moe",
    "Qwen3OmniMoeThinkerForConditionalGeneration": "qwen3_omni_moe_thinker", "Qwen3VLForConditionalGeneration": "qwen3_vl",
    "Qwen3VLMoeForConditionalGeneration": "qwen3_vl_moe", "RecurrentGemmaForCausalLM": "recurrent_gemma", "RwkvForCausalLM": "rwkv",
    "Rwkv5ForCausalLM": "rwkv5", "Rwkv6ForCausalLM": "rwkv6", "SarvamMLAForCausalLM": "sarvam_mla",
    "SarvamMoEForCausalLM": "sarvam_moe", "SeedOssForCausalLM": "seed_oss", "SkyworkForCausalLM": "skywork",
    "SmolLM3ForCausalLM": "smollm3", "SmolVLMForConditionalGeneration": "smolvlm", "SolarForCausalLM": "solar",
    "SolarOpenForCausalLM": "solar_open", "StableLMEpochForCausalLM": "stablelm", "StableLmForCausalLM": "stablelm",
    "Spark2_5ForCausalLM": "spark2_5",
    "Starcoder2ForCausalLM": "starcoder2", "Step1ForCausalLM": "step1", "Step3TextForCausalLM": "step3_text",
    "Step3VLForConditionalGeneration": "step3_vl", "Step3p5ForCausalLM": "step3p5", "Step3p7FlashForCausalLM": "step3p5",
    "Step3p7ForConditionalGeneration": "step3p7", "StepVLForConditionalGeneration": "step_robotics",
    "StepAudio2ForCausalLM": "step_audio_2",
    "SwitchTransformersForConditionalGeneration": "switch_transformers", "T5ForConditionalGeneration": "t5",
    "T5EncoderModel": "t5_encoder", "T5ForTokenClassification": "t5_encoder", "T5GemmaForConditionalGeneration": "t5gemma",
    "TeleChat2ForCausalLM": "telechat2", "TeleChatForCausalLM": "telechat2", "TeleFLMForCausalLM": "teleflm",
    "UltravoxModel": "ultravox", "UMT5ForConditionalGeneration": "umt5", "UMT5EncoderModel": "umt5_encoder",
    "UMT5ForTokenClassification": "umt5_encoder", "VaultGemmaForCausalLM": "vaultgemma",
    "VideoLlama3ForConditionalGeneration": "video_llama_3", "VideoLlavaForConditionalGeneration": "video_llava",
    "VipLlavaForConditionalGeneration": "vipllava", "VoxtralForConditionalGeneration": "voxtral",
    "VoxtralRealtimeForConditionalGeneration": "voxtral_realtime", "WhisperForConditionalGeneration": "whisper",
    "XGLMForCausalLM": "xglm", "XverseForCausalLM": "xverse", "YoutuForCausalLM": "youtu", "ZambaForCausalLM": "zamba",
    "Zamba2ForCausalLM": "zamba2",
}  # fmt: skip

#: Classes that several generations share a name for: the model type tells them apart.
VARIANTS: dict[tuple[str, str], str] = {("RwkvForCausalLM", "rwkv5"): "rwkv5", ("LlamaForCausalLM", "internlm3"): "internlm3"}

_SOUND = "it writes codes of sound, a codebook each, and kvplan counts the cache of models that write text"
#: Classes of transformers 5.24.0 that generate and keep another cache than kvplan models -> why.
UNMODELLED: dict[str, str] = {
    "BltForCausalLM": "it reads bytes in patches whose number the text decides, with caches of bytes and of patches",
    "DiaForConditionalGeneration": _SOUND,
    "MusicgenForCausalLM": _SOUND,
    "MusicgenForConditionalGeneration": _SOUND,
    "MusicgenMelodyForCausalLM": _SOUND,
    "MusicgenMelodyForConditionalGeneration": _SOUND,
    "PI0ForConditionalGeneration": "it writes movements of a robot, denoised anew behind every picture",
    "ReformerModelWithLMHead": "it keeps whole hidden states and their hash buckets, no keys and values",
    "VibeVoiceForConditionalGeneration": _SOUND,
    "XLNetLMHeadModel": "it keeps the hidden states of every layer (mems), no keys and values",
}


def family_row(family: str, source: str) -> Row:
    """The row of a family. Raises UnsupportedError with the nearest names."""
    row = FAMILIES.get(family)
    if row is None:
        import difflib

        near = difflib.get_close_matches(family, list(FAMILIES), n=3, cutoff=0.6)
        hint = f" Nearest known: {', '.join(near)}." if near else ""
        raise UnsupportedError(
            f"{source}: model_type: {family[:80]!r} is not a model type that kvplan knows.{hint}"
            " Declare the model as a spec file: its layers, what each keeps (heads, head dim, window, state) and its weights."
        )
    return row if row.model_type else row._replace(model_type=family)
