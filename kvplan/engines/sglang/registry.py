"""Model classes by the first release of SGLang that has them.

Read of the wheels of 0.4.3 to 0.5.23: srt/models (EntryClass), and the classes of the transformers that a release asks for, whose code runs
what SGLang has none of (model_loader/utils.py). Classes of 0.4.3 and before are not listed, nor those of drafts.
"""

from __future__ import annotations

from kvplan.engines.common.registries import Registry
from kvplan.engines.sglang.rules import VERSIONS

FIRST: dict[str, str] = {
    "0.4.4": (
        "CLIPModel DeepseekVL2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration GraniteMoeSharedForCausalLM "
        "Llama4ForCausalLM Llama4ForConditionalGeneration MiniCPMO Mistral3ForConditionalGeneration MultiModalityCausalLM "
        "Qwen2ForSequenceClassification Qwen3ForCausalLM Qwen3MoeForCausalLM"
    ),
    "0.4.5": "BertModel Contriever",
    "0.4.6": "InternVLChatModel KimiVLForConditionalGeneration MiMoForCausalLM PixtralVisionModel XLMRobertaModel",
    "0.4.7": (
        "BertForSequenceClassification Glm4ForCausalLM GraniteMoeHybridForCausalLM Phi4MMForCausalLM VILAForConditionalGeneration "
        "XLMRobertaForSequenceClassification"
    ),
    "0.4.8": "Gemma3nForCausalLM Gemma3nForConditionalGeneration HunYuanMoEV1ForCausalLM",
    "0.4.9": (
        "ArceeForCausalLM Ernie4_5_MoeForCausalLM Exaone4ForCausalLM FalconH1ForCausalLM Glm4MoeForCausalLM "
        "Glm4vForConditionalGeneration HunYuanDenseV1ForCausalLM InternS1ForConditionalGeneration Lfm2ForCausalLM PhiMoEForCausalLM "
        "VoxtralForConditionalGeneration"
    ),
    "0.4.10": "Step3VLForConditionalGeneration",
    "0.5.0": (
        "BailingMoeForCausalLM Ernie4_5_ForCausalLM Glm4vMoeForConditionalGeneration GptOssForCausalLM Qwen3ForSequenceClassification"
    ),
    "0.5.1": "Cohere2VisionForConditionalGeneration DeciLMForCausalLM",
    "0.5.2": "ApertusForCausalLM LongcatFlashForCausalLM Qwen3NextForCausalLM",
    "0.5.3": (
        "BailingMoEForCausalLM BailingMoeV2ForCausalLM DeepseekV32ForCausalLM DotsOCRForCausalLM DotsVLMForCausalLM "
        "Lfm2VlForConditionalGeneration NemotronHForCausalLM Qwen3OmniMoeForConditionalGeneration Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration Sarashina2VisionForCausalLM SolarForCausalLM"
    ),
    "0.5.4": (
        "DeepseekOCRForCausalLM KimiLinearForCausalLM MiniMaxM2ForCausalLM NVILAForConditionalGeneration "
        "NVILALiteForConditionalGeneration POINTSV15ChatModel"
    ),
    "0.5.5": "JetNemotronForCausalLM OrionForCausalLM TeleFLMForCausalLM",
    "0.5.6": (
        "AfmoeForCausalLM Glm4MoeLiteForCausalLM GlmAsrForConditionalGeneration JetVLMForConditionalGeneration LLaDA2MoeModelLM "
        "Lfm2MoeForCausalLM MindSporeForCausalLM Ministral3ForCausalLM MistralLarge3ForCausalLM NemotronH_Nano_VL_V2 "
        "PaddleOCRVLForConditionalGeneration PixtralForConditionalGeneration"
    ),
    "0.5.7": "MiDashengLMModel MiMoV2FlashForCausalLM",
    "0.5.8": "IQuestCoderForCausalLM IQuestLoopCoderForCausalLM",
    "0.5.9": (
        "BailingMoeV2_5ForCausalLM Ernie4_5_VLMoeForConditionalGeneration ExaoneMoEForCausalLM GlmMoeDsaForCausalLM "
        "GlmOcrForConditionalGeneration InternS1ProForConditionalGeneration KimiK25ForConditionalGeneration "
        "LightOnOCRForConditionalGeneration Qwen3ForRewardModel Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration "
        "SDARForCausalLM SDARMoeForCausalLM Step3p5ForCausalLM StepVLForConditionalGeneration"
    ),
    "0.5.10": "ExaoneMoeForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM SarvamMLAForCausalLM SarvamMoEForCausalLM",
    "0.5.11": (
        "Gemma4ForCausalLM Gemma4ForConditionalGeneration HYV3ForCausalLM MiMoV2ForCausalLM MossVLForConditionalGeneration "
        "NemotronH_Nano_Omni_Reasoning_V3 Qwen3ASRForConditionalGeneration"
    ),
    "0.5.12": "DeepseekV4ForCausalLM InternS2PreviewForConditionalGeneration LagunaForCausalLM MiniCPMV4_6ForConditionalGeneration",
    "0.5.13": "Cohere2MoeForCausalLM Gemma4UnifiedForConditionalGeneration NemotronHPuzzleForCausalLM Step3p7ForConditionalGeneration",
    "0.5.14": "MiMoV2ASRForCausalLM ZayaForCausalLM",
    "0.5.15": (
        "HrmTextForCausalLM LocateAnythingForConditionalGeneration MellumForCausalLM MiniMaxM3SparseForConditionalGeneration "
        "UnlimitedOCRForCausalLM"
    ),
    "0.5.16": "GlmImageForConditionalGeneration InklingForConditionalGeneration MiniMaxM3SparseForCausalLM",
    "0.5.17": "EmbeddingGemmaModel KimiK3ForConditionalGeneration Lfm2BidirectionalModel Qwen3Model",
    "0.5.18": "InternS2MobiusForConditionalGeneration MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration",
    "0.5.19": (
        "BailingMoeV3ForCausalLM Dots3NoteForCausalLM GraniteMoeSWAForCausalLM GraniteSWAForCausalLM KimiK3LinearForCausalLM "
        "MiniCPMSALAForCausalLM Spark2_5ForCausalLM"
    ),
    "0.5.20": (
        "Cosmos3EdgeForConditionalGeneration Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration HYV4ForCausalLM "
        "K2HorizonForCausalLM NanbeigeForCausalLM NanbeigeForSequenceClassification NemotronH_Omni_Reasoning_V3 "
        "Qwen4ExpForConditionalGeneration XllmForCausalLM"
    ),
    "0.5.21": (
        "BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration BailingMoeV3VLForConditionalGeneration "
        "DeepseekV41ForCausalLM DiffusionGemmaForBlockDiffusion GigaChat35ForCausalLM IQuestQ1ForCausalLM"
    ),
    "0.5.22": "EmbeddingGemma2Model MiniCPMV4_7ForConditionalGeneration",
    "0.5.23": "BeamForCausalLM MuseSparkForConditionalGeneration",
}

#: Four public starts are of builds before the release of their class (tests/threads): three by one release, one by two, none by three.
REGISTRY = Registry(FIRST, VERSIONS, ahead=3)
