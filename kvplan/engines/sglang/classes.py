"""What SGLang does by model class: pipeline stages, backends on Blackwell and prefill graphs, release by release.

A class that can be cut into stages has `pp_proxy_tensors` among the arguments of its `forward`, its own or inherited; ModelRunner asserts
it where there are stages. Read from models/*.py of the wheels of 0.4.6.post5 to 0.5.23, classes that serve (no drafters). Backends, graphs:
see backends.py and fraction.py.
"""

from __future__ import annotations

from typing import Any

#: Release -> classes that it cuts into stages and those before it did not.
_STAGED: dict[str, str] = {
    "0.4.6": """
        InternLM3ForCausalLM Llama4ForCausalLM LlamaForCausalLM MistralForCausalLM MixtralForCausalLM Phi3ForCausalLM
        Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM
    """,
    "0.4.10": """
        ArceeForCausalLM
    """,
    "0.5.0": """
        GptOssForCausalLM
    """,
    "0.5.1": """
        DeciLMForCausalLM DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeForCausalLM
    """,
    "0.5.2": """
        OPTForCausalLM
    """,
    "0.5.3": """
        ApertusForCausalLM BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM DeepseekV32ForCausalLM
    """,
    "0.5.4": """
        NemotronHForCausalLM
    """,
    "0.5.5": """
        Glm4ForCausalLM KimiLinearForCausalLM
    """,
    "0.5.6": """
        DotsVLMForCausalLM LLaDA2MoeModelLM LlavaForConditionalGeneration Qwen2_5_VLForConditionalGeneration TeleFLMForCausalLM
    """,
    "0.5.7": """
        Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration MiMoV2FlashForCausalLM Ministral3ForCausalLM
        MistralLarge3ForCausalLM Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
    """,
    "0.5.8": """
        Glm4MoeLiteForCausalLM IQuestCoderForCausalLM
    """,
    "0.5.9": """
        BailingMoeV2_5ForCausalLM Exaone4ForCausalLM ExaoneMoEForCausalLM GlmMoeDsaForCausalLM GlmOcrForConditionalGeneration
        GraniteMoeHybridForCausalLM InternS1ProForConditionalGeneration Qwen3_5ForConditionalGeneration
        Qwen3_5MoeForConditionalGeneration SDARForCausalLM SDARMoeForCausalLM Step3p5ForCausalLM
    """,
    "0.5.10": """
        KimiK25ForConditionalGeneration MiniMaxM2ForCausalLM SarvamMLAForCausalLM SarvamMoEForCausalLM
    """,
    "0.5.11": """
        MiMoV2ForCausalLM MossVLForConditionalGeneration
    """,
    "0.5.12": """
        DeepseekV4ForCausalLM InternS2PreviewForConditionalGeneration LagunaForCausalLM
    """,
    "0.5.13": """
        Gemma4ForCausalLM Gemma4ForConditionalGeneration NemotronHPuzzleForCausalLM
    """,
    "0.5.14": """
        MiMoV2ASRForCausalLM ZayaForCausalLM
    """,
    "0.5.16": """
        MellumForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration
    """,
    "0.5.17": """
        KimiK3ForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM
    """,
    "0.5.18": """
        InternS2MobiusForConditionalGeneration
    """,
    "0.5.19": """
        BailingMoeV3ForCausalLM KimiK3LinearForCausalLM Spark2_5ForCausalLM
    """,
    "0.5.20": """
        Cosmos3EdgeForConditionalGeneration Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration
        K2HorizonForCausalLM NanbeigeForCausalLM XllmForCausalLM
    """,
    "0.5.21": """
        BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration BailingMoeV3VLForConditionalGeneration
        GigaChat35ForCausalLM Qwen4ExpForConditionalGeneration
    """,
    "0.5.22": """
        ExaoneMoeForCausalLM SolarForCausalLM
    """,
    "0.5.23": """
        Mistral3ForConditionalGeneration
    """,
}

#: Classes that no release cuts. Others (MiniCPM-V's, which picks a class by version; those that only transformers has) are not known.
_WHOLE = """
    AfmoeForCausalLM BaichuanForCausalLM BertForSequenceClassification BertModel CLIPModel ChatGLMModel Cohere2ForCausalLM
    Cohere2MoeForCausalLM Cohere2VisionForConditionalGeneration CohereForCausalLM Contriever DbrxForCausalLM DeepseekForCausalLM
    DeepseekOCRForCausalLM DeepseekVL2ForCausalLM DiffusionGemmaForBlockDiffusion DotsOCRForCausalLM EmbeddingGemma2Model
    EmbeddingGemmaModel Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM Ernie4_5_VLMoeForConditionalGeneration ExaoneForCausalLM
    FalconH1ForCausalLM FalconMambaForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM GPTJForCausalLM Gemma2ForCausalLM
    Gemma2ForSequenceClassification Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma3nForCausalLM Gemma3nForConditionalGeneration
    Gemma4UnifiedForConditionalGeneration GemmaForCausalLM GlmAsrForConditionalGeneration GlmImageForConditionalGeneration
    GraniteForCausalLM GraniteMoeForCausalLM GraniteMoeSWAForCausalLM GraniteMoeSharedForCausalLM GraniteSWAForCausalLM Grok1ForCausalLM
    Grok1ModelForCausalLM HYV3ForCausalLM HYV4ForCausalLM HrmTextForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM
    IQuestLoopCoderForCausalLM IQuestQ1ForCausalLM InklingForConditionalGeneration InternLM2ForCausalLM InternLM2ForRewardModel
    InternS1ForConditionalGeneration InternVLChatModel JetNemotronForCausalLM JetVLMForConditionalGeneration
    KimiVLForConditionalGeneration Lfm2BidirectionalModel Lfm2ForCausalLM Lfm2MoeForCausalLM Lfm2VlForConditionalGeneration
    LightOnOCRForConditionalGeneration Llama4ForConditionalGeneration LlamaEmbeddingModel LlamaForClassification
    LlamaForSequenceClassification LlamaForSequenceClassificationWithNormal_Weights LlavaLlamaForCausalLM LlavaMistralForCausalLM
    LlavaQwenForCausalLM LlavaVidForCausalLM LocateAnythingForConditionalGeneration LongcatFlashForCausalLM Mamba2ForCausalLM
    MambaForCausalLM MiDashengLMModel MiMoForCausalLM MindSporeForCausalLM MiniCPM3ForCausalLM MiniCPMForCausalLM MiniCPMO
    MiniCPMSALAForCausalLM MiniCPMV MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration MistralModel
    MllamaForConditionalGeneration MultiModalityCausalLM MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration
    MuseSparkForConditionalGeneration NVILAForConditionalGeneration NVILALiteForConditionalGeneration NanbeigeForSequenceClassification
    NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3 Olmo2ForCausalLM OlmoForCausalLM OlmoeForCausalLM
    OrionForCausalLM POINTSV15ChatModel PaddleOCRVLForConditionalGeneration PersimmonForCausalLM Phi3SmallForCausalLM Phi4MMForCausalLM
    PhiForCausalLM PhiMoEForCausalLM PixtralForConditionalGeneration PixtralVisionModel QWenLMHeadModel QuantMixtralForCausalLM
    Qwen2AudioForConditionalGeneration Qwen2ForRewardModel Qwen2ForSequenceClassification Qwen2VLForConditionalGeneration
    Qwen3ASRForConditionalGeneration Qwen3ForRewardModel Qwen3ForSequenceClassification Qwen3Model Qwen3NextForCausalLM
    Sarashina2VisionForCausalLM StableLmForCausalLM Starcoder2ForCausalLM Step3VLForConditionalGeneration
    Step3p7ForConditionalGeneration StepVLForConditionalGeneration TorchNativeLlamaForCausalLM TorchNativePhi3ForCausalLM
    UnlimitedOCRForCausalLM VILAForConditionalGeneration VoxtralForConditionalGeneration WhisperForConditionalGeneration
    XLMRobertaForSequenceClassification XLMRobertaModel XverseForCausalLM XverseMoeForCausalLM YiVLForCausalLM
"""

STAGED_SINCE: dict[str, str] = {name: since for since, names in _STAGED.items() for name in names.split()}
NEVER_STAGED = frozenset(_WHOLE.split())

#: Classes to which Blackwell gives another backend than to others (backends.py).
_NAMED_050 = {"GptOssForCausalLM": "trtllm_mha"}
_NAMED_054 = _NAMED_050 | dict.fromkeys(("Exaone4ForCausalLM", "Olmo2ForCausalLM"), "trtllm_mha")
_NAMED_055 = _NAMED_054 | dict.fromkeys(("Llama4ForCausalLM", "Llama4ForConditionalGeneration"), "trtllm_mha")
_GEMMA4 = ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration")
_NAMED_057 = _NAMED_055 | {"Lfm2MoeForCausalLM": "trtllm_mha"}
_NAMED_0510 = _NAMED_057 | {"WhisperForConditionalGeneration": ""}
_NAMED_0511 = _NAMED_0510 | dict.fromkeys(_GEMMA4, "")
_NAMED_0513 = _NAMED_0511 | dict.fromkeys(_GEMMA4, "trtllm_mha")
_NAMED_0517 = _NAMED_0513 | {"Lfm2MoeForCausalLM": ""}
_NAMED_0519 = _NAMED_0517 | {"NemotronHForCausalLM": "trtllm_mha"}
_NAMED_0522 = _NAMED_0519 | {"MiMoV2FlashForCausalLM": "fa4", "MiMoV2ForCausalLM": "fa4"}
LATENT_BLACKWELL = frozenset({
    "DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration", "MistralLarge3ForCausalLM", "PixtralForConditionalGeneration",
})  # fmt: skip
#: Hybrid models whose pages are of one token on Blackwell where their states are kept for prefixes (model_overrides/qwen3_5.py).
UNPAGED_STATES = frozenset({
    "InternS2PreviewForConditionalGeneration", "Qwen3NextForCausalLM", "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip

#: ... whose backend there is picked beside a prefix cache alone (server_args.py _handle_model_specific_adjustments, 0.5.7 and 0.5.8).
_UNSHARED_057 = frozenset({
    "FalconH1ForCausalLM", "JetNemotronForCausalLM", "JetVLMForConditionalGeneration", "NemotronHForCausalLM",
})  # fmt: skip

MAMBA2 = frozenset({"FalconH1ForCausalLM", "NemotronHForCausalLM"})
KIMI_LINEAR = frozenset({"KimiLinearForCausalLM"})
WHISPER = frozenset({"WhisperForConditionalGeneration"})
#: Classes whose states all ranks share, also where attention groups have each request's tokens alone (configs/mamba.py, mamba2.py).
STATES_OF_ALL = frozenset({"MambaForCausalLM", "FalconMambaForCausalLM", "Mamba2ForCausalLM"})

#: What keeps a release from capturing prefill graphs (fraction.py), and classes that are kept from it or, with towers, are not.
PIECES = frozenset({
    "classes", "groups", "stages", "amd", "experts", "adapters", "towers", "tier", "compile", "roles", "shared prompts", "dealt out",
    "symmetric", "debugged", "stored otherwise",
})  # fmt: skip
#: Multimodal classes whose prompts are captured in pieces (multimodal_piecewise_cuda_graph_supported_model_archs, since 0.5.16).
_PIECED_0519 = frozenset({"MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"})
_PIECED_0518 = _PIECED_0519 | {"Cohere2VisionForConditionalGeneration"}
_PIECED_0516 = _PIECED_0518 | {"KimiK25ForConditionalGeneration"}
_BREAKS = frozenset({"amd", "compressed", "experts", "towers", "decodes alone", "shared prompts"})
_FLASH3_055 = frozenset({  # is_fa3_default_architecture
    "Qwen2ForCausalLM", "Llama4ForConditionalGeneration", "LlamaForCausalLM", "Olmo2ForCausalLM", "Gemma2ForCausalLM",
    "Gemma3ForConditionalGeneration", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration",
    "Step3VLForConditionalGeneration",
})  # fmt: skip
_FLASH3_057 = _FLASH3_055 | {
    "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration", "Glm4vForConditionalGeneration",
}  # fmt: skip
_UNGRAPHED_0510 = frozenset({
    "BailingMoeV2_5ForCausalLM", "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM", "LLaDAModelLM", "Qwen3NextForCausalLM",
})  # fmt: skip
_UNGRAPHED_0513 = (_UNGRAPHED_0510 - {"DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"}) | {"DeepseekV4ForCausalLM"}
_SEEN_0516 = frozenset({"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"})
_SEEN_0518 = _SEEN_0516 | {
    "InternS2MobiusForConditionalGeneration", "KimiK25ForConditionalGeneration", "KimiK3ForConditionalGeneration",
    "MuseGlimmerForConditionalGeneration",
}  # fmt: skip
_SEEN_0519 = _SEEN_0518 | {"Cohere2VisionForConditionalGeneration", "PaddleOCRVLForConditionalGeneration"}
_SEEN_0520 = _SEEN_0519 | {"Glm5NextForConditionalGeneration"}
_SEEN_0522 = _SEEN_0520 | {
    "MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration", "Qwen4ExpForConditionalGeneration",
}  # fmt: skip

#: Classes that are served without images unless --enable-multimodal is given (configs/model_config.py mm_disabled_models), by the release
#: that first does so.
TEXT_FIRST = {
    "Gemma3ForConditionalGeneration": "0.4.6", "Llama4ForConditionalGeneration": "0.4.6", "Step3VLForConditionalGeneration": "0.4.10",
    "InklingForConditionalGeneration": "0.5.16",
}  # fmt: skip
#: ... of which these do not load their towers then (models/mllama4.py).
TOWERLESS = frozenset({"Llama4ForConditionalGeneration"})

#: Classes whose encoders another server may have (--language-only), by the release that first lets them.
ENCODED_APART = {
    **dict.fromkeys((
        "Qwen2VLForConditionalGeneration", "Qwen3VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration", "Qwen3OmniMoeForConditionalGeneration", "Qwen2AudioForConditionalGeneration",
        "Qwen2_5OmniForConditionalGeneration",
    ), ""),
    **dict.fromkeys((
        "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "KimiVLForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
    ), "0.5.11"),
    "InternS2PreviewForConditionalGeneration": "0.5.12", "MiMoV2ForCausalLM": "0.5.13", "KimiK3ForConditionalGeneration": "0.5.17",
    "Dots3NoteForCausalLM": "0.5.19", "Glm5NextForConditionalGeneration": "0.5.20",
    "MiniMaxM3SparseForConditionalGeneration": "0.5.23", "MuseSparkForConditionalGeneration": "0.5.23",
}  # fmt: skip
#: Classes that --language-model-only serves (server_args.py LANGUAGE_MODEL_ONLY_ARCHITECTURES), by the release that first does.
TEXT_ALONE = {
    "MuseGlimmerForConditionalGeneration": "0.5.18", "Cosmos3ForConditionalGeneration": "0.5.20",
    "Cosmos3EdgeForConditionalGeneration": "0.5.20", "DeepseekV4ForCausalLM": "0.5.22",
}  # fmt: skip
#: Hybrid models that may not have more slots of states up to 0.5.13 (server_args.py _handle_mamba_radix_cache).
UNBUFFERED = frozenset({
    "FalconH1ForCausalLM", "GraniteMoeHybridForCausalLM", "JetNemotronForCausalLM", "JetVLMForConditionalGeneration", "Lfm2ForCausalLM",
    "NemotronHForCausalLM",
})  # fmt: skip
#: Hybrids that Triton's kernels do not serve: the first release that says so, the first that does not any more.
NO_TRITON = {
    "Lfm2ForCausalLM": ("0.5.7", ""), "Lfm2MoeForCausalLM": ("0.5.17", ""), "NemotronHForCausalLM": ("0.5.7", "0.5.19"),
    "NemotronHPuzzleForCausalLM": ("0.5.13", "0.5.19"),
}  # fmt: skip

#: Hybrids that transformers' code runs, whose layers are all taken for attention: from one release on, before another.
BY_TRANSFORMERS = {"Lfm2ForCausalLM": ("0.4.9", "0.5.9"), "RecurrentGemmaForCausalLM": ("0.5.22", "")}

#: Multimodal models whose prompts go in whole (configs/model_config.py is_multimodal_chunked_prefill_supported).
WHOLE_PROMPTS = frozenset({
    "CLIPModel", "Grok1AForCausalLM", "Grok1VForCausalLM", "LlavaLlamaForCausalLM", "MllamaForConditionalGeneration",
    "MossVLForConditionalGeneration",
})  # fmt: skip
#: Classes whose encoder's layers are numbered with the decoder's two for each (configs/model_config.py, since 0.5.10).
NUMBERED_ENCODERS = frozenset({"WhisperForConditionalGeneration"})
#: A config that names no length is taken for this one (hf_transformers_utils.py get_context_length).
NO_LENGTH = 2048
#: Classes whose configs name it by a key that is not looked for (max_target_positions).
UNREAD_LENGTH = frozenset({"WhisperForConditionalGeneration"})
#: Positions of an encoder's table that serve no token, which are counted to its length all the same (its max_position_embeddings).
UNUSED_POSITIONS = dict.fromkeys(("XLMRobertaForSequenceClassification", "XLMRobertaModel"), 2)
#: Classes that are served for embeddings or scores, asked or not (configs/model_config.py is_generation_model).
EMBEDS = frozenset({
    "BertForSequenceClassification", "BertModel", "CLIPModel", "Contriever", "EmbeddingGemma2Model", "Gemma2ForSequenceClassification",
    "InternLM2ForRewardModel", "Lfm2BidirectionalModel", "LlamaEmbeddingModel", "LlamaForSequenceClassification", "MistralModel",
    "LlamaForSequenceClassificationWithNormal_Weights", "Qwen2ForRewardModel", "Qwen2ForSequenceClassification", "Qwen3ForRewardModel",
    "Qwen3ForSequenceClassification", "Qwen3Model", "XLMRobertaForSequenceClassification", "XLMRobertaModel",
})  # fmt: skip

#: Release -> fields of SglangRules (rules.py) that it changes.
CHANGES: dict[str, dict[str, Any]] = {
    "0.4.9": {"ascend_pages": True},
    "0.5.0": {"blackwell": _NAMED_050},
    "0.5.2": {"plain_rows": True},
    "0.5.3": {"ascend_pages": False, "plain_rows": False},
    "0.5.4": {
        "decode_slots": "requests", "draft_states": "slots", "blackwell": _NAMED_054, "latent_blackwell": True,
        "fa4_pages": "prefill", "deterministic": "own",
    },
    "0.5.5": {"blackwell": _NAMED_055, "states_of_all": STATES_OF_ALL, "deterministic": "picked", "flash3": _FLASH3_055},
    "0.5.6": {"pieces": "quarter"},
    "0.5.7": {
        "draft_states": "dealt", "pieces": "eighth", "blackwell": _NAMED_057, "blackwell_heads": True, "mha_unshared": True,
        "flash3": _FLASH3_057, "unshared_blackwell": _UNSHARED_057,
    },
    "0.5.8": {
        "draft_states": "requests", "drafts_unshared": frozenset({"NemotronHForCausalLM"}),
        "pieces": "sizes", "whole_sinks": "drafts", "flash3": None,
    },
    "0.5.9": {
        "unshared_blackwell": frozenset(), "drafts_unshared": None, "fixed_states": False, "decode_slots": "beside",
        "pieces": "all sizes", "whole_sinks": "kernels",
    },
    "0.5.10": {
        "decode_slots": "capped", "drafts_unshared": frozenset(),
        "blackwell": _NAMED_0510, "whole_sinks": "", "unpaged_states": "picked", "raw_blackwell": True,
        "prefill_graphs": PIECES | {"drafts"}, "ungraphed": _UNGRAPHED_0510, "fa4_blackwell": True, "pieces": "",
    },
    "0.5.11": {
        "split_from": "bytes", "paged_states": False, "fp4_windows": True,
        "decode_slots": "least", "blackwell": _NAMED_0511, "prefill_graphs": PIECES,
        "pages": {"trtllm_mha": (16, 32, 64)}, "xpu_phases": True,
    },
    "0.5.12": {"ungraphed": _UNGRAPHED_0510 | {"DeepseekV4ForCausalLM"}, "deterministic": "own"},
    "0.5.13": {"ungraphed": _UNGRAPHED_0513, "graphed_context": True, "blackwell": _NAMED_0513},
    "0.5.14": {
        "decode_received": True,
        "unpaged_states": "set", "mha_unshared": False, "eager_pieces": False,
        "seen_graphs": frozenset({"Cohere2VisionForConditionalGeneration"}),
    },
    "0.5.15": {
        "prefill_graphs": _BREAKS | {"latent", "adapters", "groups", "roles"}, "ungraphed": frozenset(), "seen_graphs": frozenset(),
        "eager_graphs": False, "a2a_reserve": True, "role_step": True, "role_graphs": True, "fa4_pages": "any",
    },
    "0.5.16": {
        "prefill_graphs": _BREAKS | {"latent", "adapters", "groups", "contexts"}, "seen_graphs": _SEEN_0516,
        "pieced": _PIECED_0516,
    },
    "0.5.17": {
        "role_vision": False, "graphed_context": False,
        "blackwell": _NAMED_0517, "blackwell_fa4": True, "pages": {}, "packed_glm": True,
        "prefill_graphs": _BREAKS | {"dense latent", "contexts", "two batches"}, "ungraphed": frozenset({"NemotronHForCausalLM"}),
    },
    "0.5.18": {
        "block_drafts": "ranks", "pieced": _PIECED_0518,
        "prefill_graphs": _BREAKS | {"contexts", "two batches"}, "ungraphed": frozenset(), "seen_graphs": _SEEN_0518,
    },
    "0.5.19": {
        "blackwell": _NAMED_0519, "prefill_graphs": _BREAKS | {"contexts", "two batches", "stages"}, "seen_graphs": _SEEN_0519,
        "pieced": _PIECED_0519,
    },
    "0.5.20": {"prefill_graphs": _BREAKS | {"contexts", "two batches", "stages", "kda"}, "seen_graphs": _SEEN_0520},
    "0.5.22": {
        "block_drafts": "own", "pieced": frozenset(), "graph_capped": True, "scaled_drafts": False, "lone_groups": False,
        "blackwell": _NAMED_0522, "seen_graphs": _SEEN_0522,
    },
}  # fmt: skip
