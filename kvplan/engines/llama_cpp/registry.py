"""Which models a build of llama.cpp does not know: by architecture, as GGUF files call it, and by the classes that are converted to it.

Looked at: the names in libllama of 30 builds, 3889 to 10361 (node-llama-cpp 3.1.1 to 3.20.0 ship them), and of b11312 (LLM_ARCH_NAMES).
Class -> architecture: conversion/*.py of llama-cpp-python 0.3.36. Left out are names that a linker may have folded into longer ones, and
classes that were converted to another architecture before.
"""

from __future__ import annotations

#: The last build of those that does not have them -> architectures and classes.
WITHOUT: dict[int, str] = {
    3995: ("olmo2 Olmo2ForCausalLM Olmo3ForCausalLM"),
    4291: (
        "cohere2 deci qwen2vl DeciLMForCausalLM Qwen2VLForConditionalGeneration Qwen2VLModel Qwen2_5OmniModel "
        "Qwen2_5_VLForConditionalGeneration"
    ),
    4435: ("phimoe rwkv6qwen2 PhiMoEForCausalLM RWKV6Qwen2ForCausalLM"),
    4753: ("arwkv7 gemma3 plm Gemma3ForCausalLM Gemma3ForConditionalGeneration PLMForCausalLM RwkvHybridForCausalLM"),
    4980: (
        "bailingmoe llama4 nomic-bert-moe qwen3 qwen3moe BailingMoeForCausalLM Llama4ForCausalLM Llama4ForConditionalGeneration "
        "Qwen3ForCausalLM Qwen3Model Qwen3MoeForCausalLM StepVLForConditionalGeneration"
    ),
    5640: (
        "arcee dots1 dream ernie4_5 ernie4_5-moe exaone4 falcon-h1 gemma3n glm4moe gpt-oss granitehybrid hunyuan-dense hunyuan-moe "
        "jamba lfm2 llada mamba2 mellum neo-bert plamo2 smallthinker smollm3 ArceeForCausalLM BambaForCausalLM Dots1ForCausalLM "
        "DreamModel Ernie4_5ForCausalLM Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM Exaone4ForCausalLM "
        "Exaone4_5_ForConditionalGeneration FalconH1ForCausalLM Gemma3nForCausalLM Gemma3nForConditionalGeneration Glm4MoeForCausalLM "
        "Glm4vMoeForConditionalGeneration GptOssForCausalLM GraniteMoeHybridForCausalLM HunYuanDenseV1ForCausalLM "
        "HunYuanMoEV1ForCausalLM JambaForCausalLM LFM2ForCausalLM LLaDAModelLM Lfm2BidirectionalModel Lfm2ForCausalLM Lfm2Model "
        "Mamba2ForCausalLM MellumForCausalLM NeoBERT NeoBERTForSequenceClassification NeoBERTLMHead PLaMo2ForCausalLM "
        "Plamo2ForCausalLM SmallThinkerForCausalLM SmolLM3ForCausalLM SolarOpenForCausalLM"
    ),
    6133: ("seed_oss SeedOssForCausalLM"),
    6301: ("gemma-embedding jina-bert-v3 nemotron_h NemotronHForCausalLM"),
    6431: ("apertus grovemoe llada-moe ApertusForCausalLM GroveMoeForCausalLM LLaDAMoEModel LLaDAMoEModelLM"),
    6673: ("bailingmoe2 lfm2moe BailingMoeV2ForCausalLM Lfm2MoeForCausalLM SarvamMoEForCausalLM"),
    6845: (
        "afmoe cogvlm minimax-m2 pangu-embedded qwen3next qwen3vl qwen3vlmoe rnd1 AfmoeForCausalLM CogVLMForCausalLM "
        "MiniMaxM2ForCausalLM PanguEmbeddedForCausalLM Qwen3NextForCausalLM Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration RND1"
    ),
    7347: ("maincoder mimo2 plamo3 MaincoderForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM"),
    7698: ("exaone-moe ExaoneMoEForCausalLM ExaoneMoeForCausalLM"),
    7836: (
        "glm-dsa kimi-linear qwen35 qwen35moe step35 GlmMoeDsaForCausalLM KimiLinearForCausalLM KimiLinearModel "
        "MiniCPMV4_6ForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM "
        "Qwen3_5MoeForConditionalGeneration Step3p5ForCausalLM Step3p7ForConditionalGeneration"
    ),
    8095: ("jais2 paddleocr PaddleOCRVLForConditionalGeneration"),
    8121: ("eurobert EuroBertModel JinaEmbeddingsV5Model"),
    8352: ("mistral4"),
    8390: (
        "cohere2moe deepseek2-ocr deepseek32 deepseek4 gemma4 talkie Cohere2MoeForCausalLM DeepseekV32ForCausalLM "
        "DeepseekV4ForCausalLM Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration "
        "TalkieForCausalLM"
    ),
    9842: ("hy_v3 HYV3ForCausalLM"),
    10068: (
        "graniteswitch laguna minimax-m3 muse-glimmer nanbeige GraniteSwitchForCausalLM LagunaForCausalLM MiniMaxM3SparseForCausalLM "
        "MiniMaxM3SparseForConditionalGeneration MuseGlimmerForConditionalGeneration NanbeigeForCausalLM"
    ),
    10361: (
        "bailingmoe3 dots3note glm5-next granite_swa hrm_text hy_v4 kimi-k3 maple minimax-01 qwen4exp spark2_5 "
        "BailingMoeV3ForCausalLM BailingMoeV3VLForConditionalGeneration Dots3NoteForCausalLM Dots3NoteForConditionalGeneration "
        "Dots3NoteTextForCausalLM Glm5NextForConditionalGeneration GraniteMoeSWAForCausalLM GraniteSWAForCausalLM HYV4ForCausalLM "
        "HrmTextForCausalLM KimiK3ForConditionalGeneration MapleForCausalLM MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM "
        "Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration Spark2_5ForCausalLM"
    ),
}
_LAST: dict[str, int] = {named: build for build, names in WITHOUT.items() for named in names.split()}


def unknown(named: str | None, build: int | None) -> str | None:
    """Why a build does not load a model of that class or architecture, in its words; None where it does, or where that is not known."""
    last = _LAST.get(named or "")
    if last is None or build is None or build > last:
        return None
    return f"unknown model architecture ({named}, which b{last} does not have yet)"
