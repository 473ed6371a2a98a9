"""What a rank holds whole, or of its attention group alone, where other weights are split over all of tp; classes by release.

From models/*.py of the wheels of 0.4.6 to 0.5.23, of a class and those that it is made of: `use_attn_tp_group` of its output layer,
`moe_dense_tp_size == 1` (enable_moe_dense_fully_dp, is_dense_ffn_fully_dp) at its dense layers, `tp_size=1` (later a replicated group)
of its shared experts where an exchange between the ranks (moe_a2a_backend) is used.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import release
from kvplan.engines.sglang import exchange
from kvplan.engines.sglang.layout import SglangLayout
from kvplan.tensors import Role

#: Classes whose output layer follows --enable-dp-lm-head, by the first release.
_HEADS: dict[str, str] = {
    "0.4.7": """
        DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekVL2ForCausalLM InternLM3ForCausalLM
        KimiVLForConditionalGeneration Llama4ForCausalLM Llama4ForConditionalGeneration LlamaForCausalLM
        LlavaLlamaForCausalLM LlavaMistralForCausalLM LlavaVidForCausalLM MistralForCausalLM MultiModalityCausalLM
        Phi3ForCausalLM Phi4MMForCausalLM Qwen2MoeForCausalLM Qwen3MoeForCausalLM YiVLForCausalLM
    """,
    "0.4.10": """
        ArceeForCausalLM Glm4MoeForCausalLM
    """,
    "0.5.1": """
        Glm4vMoeForConditionalGeneration GptOssForCausalLM
    """,
    "0.5.2": """
        LongcatFlashForCausalLM Qwen3NextForCausalLM
    """,
    "0.5.3": """
        ApertusForCausalLM BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM DeepseekV32ForCausalLM
        DotsVLMForCausalLM FalconH1ForCausalLM Sarashina2VisionForCausalLM
    """,
    "0.5.4": """
        DeepseekOCRForCausalLM
    """,
    "0.5.6": """
        LLaDA2MoeModelLM TeleFLMForCausalLM
    """,
    "0.5.7": """
        GlmAsrForConditionalGeneration MiMoV2FlashForCausalLM Ministral3ForCausalLM MistralLarge3ForCausalLM
        PixtralForConditionalGeneration
    """,
    "0.5.8": """
        Glm4MoeLiteForCausalLM IQuestCoderForCausalLM Qwen3ForCausalLM
    """,
    "0.5.9": """
        BailingMoeV2_5ForCausalLM Exaone4ForCausalLM ExaoneMoEForCausalLM GlmMoeDsaForCausalLM
        InternS1ProForConditionalGeneration KimiK25ForConditionalGeneration LightOnOCRForConditionalGeneration
        Qwen3OmniMoeForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
        Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration SDARForCausalLM SDARMoeForCausalLM
        Step3p5ForCausalLM StepVLForConditionalGeneration
    """,
    "0.5.10": """
        SarvamMLAForCausalLM SarvamMoEForCausalLM
    """,
    "0.5.11": """
        MiMoV2ForCausalLM Qwen3ASRForConditionalGeneration VoxtralForConditionalGeneration
    """,
    "0.5.12": """
        DeepseekV4ForCausalLM InternS2PreviewForConditionalGeneration LagunaForCausalLM
    """,
    "0.5.13": """
        Step3p7ForConditionalGeneration
    """,
    "0.5.14": """
        NemotronHForCausalLM NemotronHPuzzleForCausalLM NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2
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
        BailingMoeV3ForCausalLM Dots3NoteForCausalLM KimiK3LinearForCausalLM
    """,
    "0.5.20": """
        Cosmos3EdgeForConditionalGeneration Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration
        HYV4ForCausalLM K2HorizonForCausalLM NemotronH_Omni_Reasoning_V3 Qwen4ExpForConditionalGeneration
        XllmForCausalLM
    """,
    "0.5.21": """
        BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration
        BailingMoeV3VLForConditionalGeneration GigaChat35ForCausalLM
    """,
    "0.5.22": """
        ExaoneMoeForCausalLM SolarForCausalLM
    """,
    "0.5.23": """
        BeamForCausalLM MuseSparkForConditionalGeneration
    """,
}

#: Classes whose dense layers follow --moe-dense-tp-size 1.
_DENSE: dict[str, str] = {
    "0.4.6": """
        DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekVL2ForCausalLM
    """,
    "0.4.7": """
        KimiVLForConditionalGeneration
    """,
    "0.4.10": """
        Glm4MoeForCausalLM
    """,
    "0.5.1": """
        Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM Glm4vMoeForConditionalGeneration
    """,
    "0.5.3": """
        BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM DeepseekV32ForCausalLM DotsVLMForCausalLM
    """,
    "0.5.4": """
        DeepseekOCRForCausalLM
    """,
    "0.5.6": """
        LLaDA2MoeModelLM
    """,
    "0.5.7": """
        MiMoV2FlashForCausalLM MistralLarge3ForCausalLM PaddleOCRVLForConditionalGeneration
    """,
    "0.5.8": """
        Glm4MoeLiteForCausalLM
    """,
    "0.5.9": """
        GlmMoeDsaForCausalLM KimiK25ForConditionalGeneration
    """,
    "0.5.10": """
        SarvamMLAForCausalLM SarvamMoEForCausalLM
    """,
    "0.5.11": """
        MiMoV2ForCausalLM
    """,
    "0.5.16": """
        MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration
    """,
    "0.5.19": """
        Dots3NoteForCausalLM
    """,
    "0.5.20": """
        Glm5NextForConditionalGeneration K2HorizonForCausalLM XllmForCausalLM
    """,
    "0.5.21": """
        BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration GigaChat35ForCausalLM
    """,
}

#: Classes whose shared experts are whole on every rank beside an exchange.
_SHARED: dict[str, str] = {
    "0.4.6": """
        DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekVL2ForCausalLM
    """,
    "0.4.7": """
        KimiVLForConditionalGeneration
    """,
    "0.4.10": """
        Glm4MoeForCausalLM
    """,
    "0.5.1": """
        Glm4vMoeForConditionalGeneration
    """,
    "0.5.3": """
        BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM DeepseekV32ForCausalLM DotsVLMForCausalLM
        InternS1ForConditionalGeneration InternVLChatModel Qwen2MoeForCausalLM Qwen3MoeForCausalLM Qwen3NextForCausalLM
        Qwen3VLMoeForConditionalGeneration
    """,
    "0.5.4": """
        DeepseekOCRForCausalLM Qwen3OmniMoeForConditionalGeneration
    """,
    "0.5.6": """
        LLaDA2MoeModelLM
    """,
    "0.5.7": """
        MistralLarge3ForCausalLM PixtralForConditionalGeneration
    """,
    "0.5.8": """
        Glm4MoeLiteForCausalLM
    """,
    "0.5.9": """
        ExaoneMoEForCausalLM GlmMoeDsaForCausalLM InternS1ProForConditionalGeneration KimiK25ForConditionalGeneration
    """,
    "0.5.10": """
        Qwen3_5MoeForConditionalGeneration SarvamMoEForCausalLM
    """,
    "0.5.12": """
        DeepseekV4ForCausalLM InternS2PreviewForConditionalGeneration
    """,
    "0.5.15": """
        LagunaForCausalLM
    """,
    "0.5.16": """
        MellumForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration
    """,
    "0.5.17": """
        KimiK3ForConditionalGeneration
    """,
    "0.5.18": """
        InternS2MobiusForConditionalGeneration
    """,
    "0.5.19": """
        Dots3NoteForCausalLM KimiK3LinearForCausalLM MiniCPMV MiniCPMV4_6ForConditionalGeneration Qwen3_5ForCausalLM
        Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM
    """,
    "0.5.20": """
        HYV4ForCausalLM K2HorizonForCausalLM Qwen4ExpForConditionalGeneration XllmForCausalLM
    """,
    "0.5.21": """
        BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration GigaChat35ForCausalLM
    """,
}

_TABLES: dict[Role, dict[str, str]] = {"head": _HEADS, "mlp": _DENSE, "shared_experts": _SHARED}
#: Role -> class -> the first release.
_SINCE = {role: {name: since for since, names in table.items() for name in names.split()} for role, table in _TABLES.items()}


def role_tp(d: Deployment, version: str, shape: SglangLayout) -> dict[Role, int]:
    """Roles of weights that are split over fewer ranks than tp: over those of an attention group, or over none."""
    found: dict[Role, int] = dict.fromkeys(("attention", "state", "embedding"), shape.attn_tp)
    asked: dict[Role, int] = {"shared_experts": 1} if exchange.backend(d) != "none" else {}
    asked |= {role: shape.attn_tp if role == "head" else 1 for role in _options(d)}
    return found | {role: tp for role, tp in asked.items() if _follows(role, d, version)}


def not_followed(d: Deployment, version: str) -> list[str]:
    """Notes on options that this model's class does not follow."""
    named = d.model.architecture or "a model without a class"
    return [
        f"{option}: sglang {version} splits these weights of {named} over all of tp as without it"
        for role, option in _options(d).items()
        if not _follows(role, d, version)
    ]


def _options(d: Deployment) -> dict[Role, str]:
    options = Options(d)
    asked: dict[Role, str] = {"head": "--enable-dp-lm-head"} if options.flag("enable_dp_lm_head") else {}
    return asked | ({"mlp": "--moe-dense-tp-size 1"} if options.count("moe_dense_tp_size") == 1 else {})


def _follows(role: Role, d: Deployment, version: str) -> bool:
    first = _SINCE[role].get(d.model.architecture or "")
    return first is not None and release(version) >= release(first)
