"""Options of a release that ask for a GPU, or a class of model, which this is not: server_args.py, later arg_groups/*, 0.5.15 to 0.5.23."""

from __future__ import annotations

from kvplan.engines.common.conditions import capability
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.sglang.backends import is_blackwell
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.settle import settings_of
from kvplan.engines.sglang.traits import read_traits


def handed_over(settled: Settled) -> Values:
    """Images handed over in the memory of NVIDIA's GPUs."""
    way = Options(settled.question).text("mm_feature_transport") or "auto"
    return {"way": way} if way.startswith("cuda") and on_amd(settled.question) else None


def exchanged(settled: Settled) -> Values:
    """Parts of attention exchanged by FlashInfer's kernel."""
    return {} if Options(settled.question).text("dcp_comm_backend") == "fi_a2a" and on_amd(settled.question) else None


def _rounds(settled: Settled) -> bool:
    return Options(settled.question).flag("enable_mamba_cache_stochastic_rounding")


def rounded_on_amd(settled: Settled) -> Values:
    return {} if _rounds(settled) and on_amd(settled.question) else None


def rounded_by_triton(settled: Settled) -> Values:
    """States rounded by chance in Triton's kernels, which releases take where none are named."""
    d = settled.question
    triton = Options(d).text("mamba_backend") in (None, "triton")
    return {} if _rounds(settled) and triton and capability(d) is not None and not is_blackwell(d) else None


def unscaled(settled: Settled) -> Values:
    """NVFP4 by that name in a pool of K and V alone, whose scales are looked for in `.layers` of the class's `.model`, or of its
    `.language_model`."""
    d = settled.question
    named, plain = d.model.architecture or "", not (read_traits(settled.model).latent or settings_of(settled).split.windows)
    return {"architecture": named} if (d.kv_dtype or "").lower() == "nvfp4" and plain and named in WITHOUT_LAYERS else None


_UNSCALED = (
    "BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration BertForSequenceClassification BertModel ChatGLMModel "
    "Contriever DbrxForCausalLM DeepseekOCRForCausalLM DotsOCRForCausalLM ExaoneForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM "
    "GPTJForCausalLM Gemma3ForConditionalGeneration GlmAsrForConditionalGeneration InternS1ForConditionalGeneration "
    "JetVLMForConditionalGeneration Lfm2VlForConditionalGeneration LightOnOCRForConditionalGeneration Llama4ForConditionalGeneration "
    "LlavaLlamaForCausalLM LlavaMistralForCausalLM LlavaQwenForCausalLM LlavaVidForCausalLM LocateAnythingForConditionalGeneration "
    "MiDashengLMModel MiniCPMO MiniCPMV MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration "
    "MllamaForConditionalGeneration MossVLForConditionalGeneration MultiModalityCausalLM NVILAForConditionalGeneration "
    "NVILALiteForConditionalGeneration NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3 "
    "POINTSV15ChatModel Phi4MMForCausalLM PixtralForConditionalGeneration QWenLMHeadModel Qwen2AudioForConditionalGeneration "
    "Qwen3ASRForConditionalGeneration Sarashina2VisionForCausalLM Step3p7ForConditionalGeneration StepVLForConditionalGeneration "
    "UnlimitedOCRForCausalLM VoxtralForConditionalGeneration WhisperForConditionalGeneration XLMRobertaForSequenceClassification "
    "XLMRobertaModel YiVLForCausalLM"
)
#: Classes without either, or whose language model is a class of its own, with layers in a `.model` again (read of nine wheels).
WITHOUT_LAYERS = frozenset(_UNSCALED.split())
_ROUNDING = Move("option:enable_mamba_cache_stochastic_rounding", "false")

STOPS: tuple[Stop, ...] = (
    Stop(
        "features in GPU memory", "--mm-feature-transport={way:w} requires NVIDIA CUDA.", "it shares the memory of NVIDIA's GPUs",
        (Move("option:mm_feature_transport", "cpu"),), "server_args.py; arg_groups/serving_hook.py", since="0.5.16", when=handed_over,
    ),
    Stop(
        "exchange of ranks", "--dcp-comm-backend fi_a2a delegates the exchange to FlashInfer's MNNVL All-to-All kernel",
        "that kernel is NVIDIA's", (Move("option:dcp_comm_backend", "a2a or ag_rs"),), "server_args.py; arg_groups/parallel_hook.py",
        since="0.5.17", when=exchanged,
    ),
    Stop(
        "scales of an NVFP4 cache", "object has no attribute 'model'", "the scales of its rows are looked for in the class's `model`",
        (Move("kv_dtype", "fp4_mx_block16, fp8 or auto"),),
        "layers/quantization/fp4_kv_cache_quant_method.py load_scales_from_model", since="0.5.16", near=("resolve_language_model",),
        when=unscaled, numbers="{architecture}",
    ),
    Stop(
        "rounding of states", "Stochastic rounding for the Mamba SSM cache is only supported on NVIDIA CUDA platforms.",
        "its kernels are NVIDIA's", (_ROUNDING,), "server_args.py; arg_groups/mamba_hook.py", since="0.5.15", when=rounded_on_amd,
    ),
    Stop(
        "rounding of states", "Stochastic rounding for the Mamba SSM cache with --mamba-backend triton requires SM100",
        "Triton rounds by chance on 10.x alone", (Move("option:mamba_backend", "flashinfer"), _ROUNDING),
        "server_args.py; arg_groups/mamba_hook.py", since="0.5.15", when=rounded_by_triton,
    ),
)  # fmt: skip
