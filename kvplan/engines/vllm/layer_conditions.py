"""What vLLM's layers stop at when they are built: caches of another stage, formats that their kernels do not take."""

from __future__ import annotations

from kvplan.dtypes import canonical, weight_scheme
from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.connectors import chunks_alone
from kvplan.engines.vllm.layers import stages
from kvplan.engines.vllm.model import left
from kvplan.engines.vllm.option_values import SLIDING
from kvplan.engines.vllm.settings import settings_of
from kvplan.tensors import windowed

#: Classes whose tower deals its heads out to the ranks, and how many the published configs have (vision_config num_heads: GLM-4.1V, 4.5V).
TOWER_HEADS: dict[str, int] = {"Glm4vForConditionalGeneration": 12, "Glm4vMoeForConditionalGeneration": 12}


#: Classes whose tower's MLP is dealt out, too, and how wide it is in the published configs: hidden size of the text model -> width
#: (vision_config intermediate_size: Qwen2.5-VL-3B and 7B 3,420, larger ones 3,456).
TOWER_WIDTHS: dict[str, dict[int, int]] = {"Qwen2_5_VLForConditionalGeneration": {2048: 3420, 3584: 3420}}


def _dealt(name: str, n: int | None, settled: Settled) -> Values:
    """What of a tower the ranks do not share evenly; without its inputs it is built all the same, and then left empty."""
    tp, whole = settings_of(settled).tp, Options(settled.question).text("mm_encoder_tp_mode") == "data"
    return {name: n, "tp": tp} if n and n % tp and not whole else None


def tower_width(settled: Settled) -> Values:
    model = settled.question.model
    return _dealt("width", TOWER_WIDTHS.get(model.architecture or "", {}).get(model.hidden_size or 0), settled)


def tower_heads(settled: Settled) -> Values:
    return _dealt("heads", TOWER_HEADS.get(settled.question.model.architecture or ""), settled)


def shared_over_stages(settled: Settled) -> Values:
    """Layers that read the cache of an earlier one, of its kind the last that has one, which another stage holds."""
    s, layers = settings_of(settled), settled.model.layers
    forms = [{cache.form for cache in layer.caches} for layer in layers]
    first = next((n for n, held in enumerate(forms) if "shared" in held), None)
    if s.pp == 1 or not first:
        return None
    kept = {str([t.keep for cache in layer.caches for t in cache.tensors]): n for n, layer in enumerate(layers[:first])}
    starts = [stage.start for stage in stages(settled.model, s)]
    last = max(n for n, held in enumerate(forms) if "shared" in held)
    beyond = next((start for start in starts if min(kept.values()) < start <= last), None)
    return None if beyond is None else {"layer": max(first, beyond), "target": min(kept.values())}


def latent_fp8(settled: Settled) -> Values:
    """An FP8 cache of latent attention in Triton's kernels, the only ones below 9.0."""
    s, has, device = settings_of(settled), on.capability(settled.question), settled.question.device
    latent = any(cache.form == "latent" for layer in settled.layers for cache in layer.caches)
    if not latent or has is None or has >= 89 or s.platform != "cuda" or not s.formats.k.startswith("fp8"):
        return None
    return {"gpu": device.name if device else "", "has": on.version_of(has), "other": "float16" if has < 80 else "bfloat16"}


def left_whole(settled: Settled) -> Values:
    """A class that transformers' code runs, which has no plan for several ranks."""
    s, model = settings_of(settled), settled.question.model
    return {"class": model.architecture} if s.tp > 1 and left(model, s.release) else None


def packed_rows(settled: Settled) -> Values:
    """DeepSeek-V4's packed rows, asked for in a format that neither they nor plain rows have."""
    s, asked = settings_of(settled), settled.question.kv_dtype
    packed = any(cache.form == "compressed" for layer in settled.layers for cache in layer.caches)
    if not packed or s.platform != "cuda" or "kv_dtype" in settled.chosen_by or asked in (None, "auto", "bf16", "f16"):
        return None
    return None if str(asked).startswith("fp8") else {"cache": asked}


def early_latent_fp8(settled: Settled) -> Values:
    """The same of releases whose Triton kernels have no FP8 at all."""
    s, device = settings_of(settled), settled.question.device
    on_triton = on.latent(settled) and s.rules.v1 and s.latent_backend == "TRITON_MLA" and device is not None and device.vendor == "nvidia"
    return {} if on_triton and s.formats.k.startswith("fp8") else None


def chunked_ends(settled: Settled) -> Values:
    """Chunked layers among those that TurboQuant leaves out: they choose its backend all the same, and hand it no format."""
    s, layers = settings_of(settled), settled.model.layers
    ends = [layers[n] for n in {0, 1, len(layers) - 2, len(layers) - 1} if 0 <= n < len(layers)]
    chunked = any(t.keep.kind == "chunk" for layer in ends for cache in layer.caches for t in cache.tensors)
    return {} if s.skip_ends and chunked and s.platform == "cuda" else None


def sixteen_bits(settled: Settled) -> Values:
    """Matrices in 8 or fewer bits whose kernels compute in 16, under f32 (get_supported_act_dtypes of quantization/*.py)."""
    d = settled.question
    named = next((one for one in weight_formats(d).values() if weight_scheme(one) not in ("plain", "bitsandbytes", "gguf", "unknown")), "")
    wide = settings_of(settled).platform == "cuda" and canonical(d.dtype or d.model.dtype, "dtype") == "f32"
    return {"dtype": "float32", "method": named} if named and wide else None


def hybrid_asked(settled: Settled) -> Values:
    """The hybrid manager asked for where layers that see a chunk turn it off."""
    s, options = settings_of(settled), Options(settled.question)
    name = "disable_hybrid_kv_cache_manager"
    asked = options.text(name) is not None and not options.flag(name)
    chunked = any(t.keep.kind == "chunk" for layer in settled.model.layers for cache in layer.caches for t in cache.tensors)
    return {} if asked and chunks_alone(chunked, s.method, s.rules) else None


def experts_of_none(settled: Settled) -> Values:
    """Routed experts handed back by a model that has none, or pools, or keeps no prefixes."""
    d, s = settled.question, settings_of(settled)
    if not Options(d).flag("enable_return_routed_experts"):
        return None
    lacks = "" if s.caching else "requires prefix caching"
    lacks = lacks if d.model.lm_head else "only supports generate runners"
    lacks = lacks if on.experts(settled.model) else "only supports MoE models"
    return {"lacks": lacks} if lacks else None


def words_as_numbers(settled: Settled) -> Values:
    """`sliding_window` among the layers that TurboQuant leaves out, which the release sorts as numbers."""
    s = settings_of(settled)
    return {} if SLIDING in s.skip_layers and s.formats.k.startswith("turboquant") else None


#: Classes whose logits are capped (attn_logit_softcapping, attn_logit_softcap), and before which release V1 takes FlexAttention for f32
#: (platforms/cuda.py get_attn_backend_cls).
CAPPED, FLEXIBLE_F32 = ("Gemma2ForCausalLM", "Gemma2Model", "Grok1ForCausalLM", "Grok1ModelForCausalLM"), "0.12"


def _flexible(settled: Settled) -> bool:
    """Whether V1 computes by FlexAttention: named, or picked for 32-bit floats."""
    s = settings_of(settled)
    picked = s.backend is None and s.formats.compute == "f32" and not s.since(FLEXIBLE_F32)
    return (s.backend == "FLEX_ATTENTION" or picked) and s.rules.v1 and s.platform == "cuda"


def flexible_windows(settled: Settled) -> Values:
    return {} if _flexible(settled) and windowed(settled.layers) else None


def flexible_caps(settled: Settled) -> Values:
    return {} if _flexible(settled) and settled.question.model.architecture in CAPPED else None


CHECKS = (
    Stop(
        "capped logits and FlexAttention", "FlexAttention does not support logits soft cap yet.", "the model caps its logits",
        (Move("option:attention_backend", "none"), Move("dtype", "bfloat16")), "v1/attention/backends/flex_attention.py",
        since="0.10.2", when=flexible_caps, loading=True,
    ),
    Stop(
        "windows and FlexAttention", "FlexAttention does not support sliding window yet.",
        "32-bit floats are computed by FlexAttention alone, which has no windows in this release",
        (Move("dtype", "bfloat16 or float16"), Move("engine_version", "0.11 or later")), "v1/attention/backends/flex_attention.py",
        since="0.10.2", before="0.11", when=flexible_windows, loading=True,
    ),
    Stop(
        "routed experts handed back", "AuxOutput Connector {lacks:t}.", "they are kept beside the blocks of a mixture's prefixes",
        (Move("option:enable_return_routed_experts", "false"),), "config/vllm.py _verify_aux_output_compatibility",
        since="0.31", when=experts_of_none,
    ),
    Stop(
        "words among layers", "invalid literal for int() with base 10: 'sliding_window'",
        "TurboQuant's own layers and those that are named are sorted by number", (Move("option:kv_cache_dtype_skip_layers", "numbers"),),
        "engine/arg_utils.py create_engine_config", since="0.20", before="0.32", when=words_as_numbers,
    ),
    Stop(
        "the hybrid manager asked for", "Hybrid KV cache manager was explicitly enabled but is not supported in this configuration.",
        "layers that see a chunk turn it off here", (Move("option:disable_hybrid_kv_cache_manager", "none"),), "config/vllm.py",
        since="0.13", when=hybrid_asked,
    ),
    Stop(
        "type and quantisation", "torch.{dtype:w} is not supported for quantization method {method:w}. Supported dtypes:",
        "the kernels of {method} do not compute in {dtype}", (Move("dtype", "float16"),), "config/vllm.py _get_quantization_config",
        when=sixteen_bits, loading=True,
    ),
    Stop(
        "caches of another stage", "Specified KV sharing target layer for",
        "layers read the cache of an earlier one, which is in another stage", (Move("pp", "1, with a larger tp"),),
        "model_executor/layers/attention/attention.py validate_kv_sharing_target", since="0.10", when=shared_over_stages, loading=True,
        numbers="layer {layer} reads the cache of layer {target}",
    ),
    Stop(
        "width of a tower", "AssertionError", "the MLPs of the vision tower are dealt out to the ranks, which must divide their width",
        (Move("option:mm_encoder_tp_mode", "data"), Move("tp", "a size that divides its width")), "model_executor/layers/linear.py",
        since="0.10.2", when=tower_width, loading=True, near=("qwen2_5_vl",), numbers="a width of {width} over {tp} ranks",
    ),
    Stop(
        "heads of a tower", "{heads} is not divisible by {tp}", "the {heads} heads of the vision tower are dealt out to {tp} ranks",
        (Move("option:mm_encoder_tp_mode", "data"), Move("tp", "a size that divides {heads}")), "models/glm4_1v.py; distributed/utils.py",
        since="0.10.2", when=tower_heads, loading=True,
    ),
    Stop(
        "FP8 latents and Triton",
        "FP8 KV cache is not supported by the Triton MLA backend on {gpu:t} (compute capability {has}); native FP8 (fp8e4nv) "
        "requires SM89+. Re-run with --kv-cache-dtype {other:w}.",
        "the kernels of latent attention that run on this GPU read an FP8 cache from compute capability 8.9 on, and it has {has}",
        (Move("kv_dtype", "auto"), Move("device", "a newer GPU")), "v1/attention/backends/mla/triton_mla.py",
        since="0.26", when=latent_fp8, loading=True,
    ),
    Stop(
        "FP8 latents and Triton", "TritonMLA V1 with FP8 KV cache not yet supported", "Triton's kernels read no FP8 in this release",
        (Move("kv_dtype", "auto"), Move("device", "a newer GPU")), "v1/attention/backends/mla/triton_mla.py",
        since="0.8", before="0.12", when=early_latent_fp8, loading=True,
    ),
    Stop(
        "TurboQuant and chunks", "Unknown TurboQuant cache dtype: 'auto'.",
        "the first and last layers stay in 16 bits, and those that see a chunk have TurboQuant's kernels all the same",
        (Move("kv_dtype", "fp8 or auto"),), "layers/attention/chunked_local_attention.py; quantization/turboquant/config.py",
        since="0.20", when=chunked_ends, loading=True,
    ),
    Stop(
        "a class that left and ranks", "does not support tensor parallel. See",
        "the model's class is run by transformers' code, which has no plan for it",
        (Move("tp", "1"),), "model_executor/models/transformers/base.py recursive_replace", since="0.11", when=left_whole, loading=True,
    ),
    Stop(
        "packed rows of another format", "only supports fp8 kv-cache", "this model's rows are packed in FP8",
        (Move("kv_dtype", "auto or fp8"),), "models/deepseek_v4/attention.py", since="0.20", when=packed_rows, loading=True,
        numbers="{cache} was asked for",
    ),
)  # fmt: skip
