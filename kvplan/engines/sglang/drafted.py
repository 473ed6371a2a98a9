"""Classes that SGLang's drafters take: what a target's class gives and captures for them, and which class drafts for itself.

Read of srt/models in 28 wheels, 0.4.6 to 0.5.23: speculative/eagle_worker.py and eagle_worker_v2.py call get_embed_and_head of the target
and set_embed_and_head of the draft, model_executor/model_runner.py set_eagle3_layers_to_capture of the target, after the weights load.
Mistral3ForConditionalGeneration hands on to Llava's.
"""

from __future__ import annotations

from kvplan.engines.common.options import Speculation
from kvplan.engines.common.releases import in_force

#: Release -> classes that first have get_embed_and_head in it; empty: 0.4.6 has it.
_GIVES: dict[str, str] = {
    "": (
        "DeepseekV2ForCausalLM DeepseekV3ForCausalLM InternLM3ForCausalLM Llama4ForCausalLM LlamaForCausalLM MistralForCausalLM "
        "Phi3ForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM"
    ),
    "0.4.7": "MiMoForCausalLM",
    "0.4.9": "Llama4ForConditionalGeneration Qwen3MoeForCausalLM",
    "0.4.10": "Glm4MoeForCausalLM",
    "0.5.0": "Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM GptOssForCausalLM",
    "0.5.2": (
        "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration LongcatFlashForCausalLM OPTForCausalLM "
        "Qwen2_5_VLForConditionalGeneration Qwen3NextForCausalLM"
    ),
    "0.5.3": (
        "ApertusForCausalLM BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM DeepseekV32ForCausalLM DotsOCRForCausalLM "
        "FalconH1ForCausalLM"
    ),
    "0.5.5": "Glm4ForCausalLM",
    "0.5.6": "LLaDA2MoeModelLM MiniMaxM2ForCausalLM TeleFLMForCausalLM",
    "0.5.7": (
        "MiDashengLMModel MiMoV2FlashForCausalLM Ministral3ForCausalLM MistralLarge3ForCausalLM PaddleOCRVLForConditionalGeneration "
        "PixtralForConditionalGeneration"
    ),
    "0.5.8": "Glm4MoeLiteForCausalLM IQuestCoderForCausalLM NemotronHForCausalLM",
    "0.5.9": (
        "BailingMoeV2_5ForCausalLM Exaone4ForCausalLM ExaoneMoEForCausalLM GlmMoeDsaForCausalLM GlmOcrForConditionalGeneration "
        "LightOnOCRForConditionalGeneration Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration Step3p5ForCausalLM"
    ),
    "0.5.10": "KimiK25ForConditionalGeneration MindSporeForCausalLM SarvamMoEForCausalLM",
    "0.5.11": (
        "HYV3ForCausalLM InternS1ProForConditionalGeneration LlavaForConditionalGeneration LlavaLlamaForCausalLM LlavaMistralForCausalLM "
        "LlavaQwenForCausalLM MiMoV2ForCausalLM Mistral3ForConditionalGeneration Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration YiVLForCausalLM"
    ),
    "0.5.12": (
        "DeepseekV4ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4ForCausalLM Gemma4ForConditionalGeneration "
        "InternS2PreviewForConditionalGeneration LagunaForCausalLM"
    ),
    "0.5.13": "Gemma4UnifiedForConditionalGeneration NemotronHPuzzleForCausalLM Step3p7ForConditionalGeneration",
    "0.5.14": "MiMoV2ASRForCausalLM",
    "0.5.16": "InklingForConditionalGeneration MellumForCausalLM MiniMaxM3SparseForCausalLM",
    "0.5.17": "EmbeddingGemmaModel Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
    "0.5.18": "InternS2MobiusForConditionalGeneration MiniMaxM3SparseForConditionalGeneration",
    "0.5.19": "BailingMoeV3ForCausalLM Dots3NoteForCausalLM Spark2_5ForCausalLM",
    "0.5.20": (
        "Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration HYV4ForCausalLM NanbeigeForCausalLM "
        "NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3 Qwen4ExpForConditionalGeneration"
    ),
    "0.5.21": "GigaChat35ForCausalLM IQuestQ1ForCausalLM",
    "0.5.22": "ExaoneMoeForCausalLM",
}
#: ... and set_eagle3_layers_to_capture.
_CAPTURES: dict[str, str] = {
    "": "InternLM3ForCausalLM Llama4ForCausalLM LlamaForCausalLM MistralForCausalLM Phi3ForCausalLM",
    "0.4.9": "Llama4ForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM",
    "0.5.0": "GptOssForCausalLM",
    "0.5.2": "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration Qwen2ForCausalLM Qwen2_5_VLForConditionalGeneration",
    "0.5.3": "ApertusForCausalLM",
    "0.5.5": "DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM Glm4MoeForCausalLM",
    "0.5.6": "LongcatFlashForCausalLM MiniMaxM2ForCausalLM TeleFLMForCausalLM",
    "0.5.7": "Ministral3ForCausalLM MistralLarge3ForCausalLM",
    "0.5.8": "Glm4MoeLiteForCausalLM IQuestCoderForCausalLM",
    "0.5.9": (
        "BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM ExaoneMoEForCausalLM GlmMoeDsaForCausalLM Qwen3NextForCausalLM"
    ),
    "0.5.10": "KimiK25ForConditionalGeneration MindSporeForCausalLM SarvamMoEForCausalLM",
    "0.5.11": (
        "InternS1ProForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration "
        "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration"
    ),
    "0.5.12": (
        "Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4ForCausalLM Gemma4ForConditionalGeneration "
        "InternS2PreviewForConditionalGeneration"
    ),
    "0.5.13": "Gemma4UnifiedForConditionalGeneration",
    "0.5.16": "MellumForCausalLM MiniMaxM3SparseForCausalLM",
    "0.5.17": "EmbeddingGemmaModel",
    "0.5.18": "InternS2MobiusForConditionalGeneration MiniMaxM3SparseForConditionalGeneration",
    "0.5.20": "Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration Qwen4ExpForConditionalGeneration",
    "0.5.22": "ExaoneMoeForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
}
GIVES_SINCE, CAPTURES_SINCE = ({named: first for first, names in table.items() for named in names.split()} for table in (_GIVES, _CAPTURES))
_HELD = (
    "Cosmos3ForConditionalGeneration DotsOCRForCausalLM EmbeddingGemmaModel Ernie4_5_ForCausalLM Gemma3ForCausalLM "
    "Gemma3ForConditionalGeneration Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration "
    "IQuestQ1ForCausalLM InternS1ProForConditionalGeneration LightOnOCRForConditionalGeneration MellumForCausalLM MiDashengLMModel "
    "MiniMaxM2ForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration PaddleOCRVLForConditionalGeneration "
    "PixtralForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3VLForConditionalGeneration "
    "Qwen3VLMoeForConditionalGeneration"
)
#: Classes that give it and, before a release, do not take it (set_embed_and_head), nor are rewritten to modules of their own.
NOT_ITSELF = dict.fromkeys(_HELD.split(), "") | {
    "Glm4vForConditionalGeneration": "0.5.5", "Glm4vMoeForConditionalGeneration": "0.5.5", "Qwen3MoeForCausalLM": "0.5.13",
}  # fmt: skip


def not_drafted(spec: Speculation, named: str, version: str) -> str:
    """The method that a release calls for these drafts and this class of model has not; empty where it has all."""
    if spec.method not in ("eagle", "eagle3", "mtp", "nextn"):
        return ""
    if not in_force(GIVES_SINCE.get(named, "99"), "", version):
        return "get_embed_and_head"
    if spec.method == "eagle3" and not in_force(CAPTURES_SINCE.get(named, "99"), "", version):
        return "set_eagle3_layers_to_capture"
    itself = spec.model is None and named in NOT_ITSELF and in_force("", NOT_ITSELF[named], version)
    return "set_embed_and_head" if itself else ""
