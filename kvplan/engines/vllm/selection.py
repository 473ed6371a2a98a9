"""Which attention backends of NVIDIA's GPUs take a model's layers and cache where none is named: often several, sometimes none.

What `validate_configuration` (v1/attention/backend.py) of each class in the priority lists of platforms/cuda.py answered, asked in the
files of 0.12 to 0.14, 0.16, 0.19, 0.25 and 0.33 for compute capabilities 7.5 to 12.0, and the releases between in which a line of it
changed. A format that no backend takes is refused by get_attn_backend_cls when the first layer is built.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical
from kvplan.engines.common import conditions as on
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm import conditions as when
from kvplan.engines.vllm.layers import kind_of, stages
from kvplan.engines.vllm.model import encodes, pools
from kvplan.engines.vllm.rules import GAUDI
from kvplan.engines.vllm.settings import VllmSettings, settings_of
from kvplan.engines.vllm.sparse import BF16_IS_AUTO
from kvplan.tensors import distinct, windowed

ALWAYS, NEVER = 0, 1 << 10
FIRST = "0.12"
#: Classes with attention sinks.
SINKS = ("GptOss", "MiMoV2")
#: From this release on a backend says whether it takes ranks that share a sequence's tokens (supports_dcp).
SHARED_SINCE = "0.29"
_16, _E4, _E5 = "f16 bf16 f32", "fp8_e4m3", "fp8_e5m2"
#: Backends that compute in f32 (supported_dtypes).
_F32 = ("TRITON_ATTN", "FLEX_ATTENTION")
#: ... and those that compute in bfloat16 alone.
_BF16 = ("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120")
_PER_HEAD, _TURBO = "int8_per_token_head fp8_per_token_head", "turboquant_k8 turboquant_k4 turboquant_k3"

#: FlashAttention took Gaudi's own format for FP8 up to this release.
GAUDI_SINCE = "0.22"
#: NVFP4 whose scales are searched for, which the kernels of compute capability 10.x alone write (flashinfer.py supports_kv_cache_dtype).
SEARCHED = "nvfp4_4over6"
#: A backend that takes FP8 as `fp8` and `fp8_ds_mla`, and not under its full name (to 0.33), which V3.2's class spelled anew before.
UNSPELLED, UNSPELLED_SINCE = "FLASHMLA_SPARSE", "0.18"
#: Backends that run an encoder's layers (supports_attn_type), from which release on; asked from the last one on.
ENCODERS, ENCODERS_SINCE = {"FLASH_ATTN": "0.12", "TRITON_ATTN": "0.14", "FLEX_ATTENTION": "0.12"}, "0.12"
#: A cache in 16 bits by its name was in no backend's list (0.11.1 to 0.14), or taken for a quantised one (0.11.0), as for Hopper alone.
UNLISTED_SINCE, LISTED_SINCE, UNLISTED = "0.11", "0.15", ("bf16", "f16")
#: DeepSeek-V4, and the first release in which it takes FP8 where none is asked for.
V4, V4_AUTO_SINCE = "DeepseekV4ForCausalLM", "0.30"
#: From this release on the backends of all layers must agree on a layout, which TurboQuant's and FlashInfer's for Blackwell do not.
LAYOUTS_SINCE = "0.31"

#: Classes whose images see themselves whole -> the first release that asks backends for it (MM_PREFIX_LM_MODELS), and the one from which on
#: a server of text alone does not.
WHOLE_IMAGES = {
    "Gemma3ForConditionalGeneration": "0.13", "PaliGemmaForConditionalGeneration": "0.14", "Molmo2ForConditionalGeneration": "0.17",
}  # fmt: skip
TEXT_SINCE = "0.27"


class Taker(NamedTuple):
    """Formats of the cache that a backend takes from a release on, before another, and on which capabilities (90 is 9.0).

    kind     plain K and V, latent attention, or latent attention of chosen tokens
    heads    sizes of heads, empty: any of them
    sinks    the least capability on which it takes attention sinks
    images   the least capability on which the tokens of an image attend to each other
    shared   whether ranks may share a sequence's tokens (decode context parallelism)
    windows  whether it takes layers that see a window alone
    """

    name: str
    kind: str
    formats: str
    least: int = ALWAYS
    below: int = NEVER
    since: str = ""
    before: str = ""
    heads: tuple[int, ...] = ()
    sinks: int = NEVER
    images: int = NEVER
    shared: bool = True
    windows: bool = True


_FLASH = (32, 64, 72, 80, 96, 112, 120, 128, 160, 192, 256)
_INFER = (64, 128, 256, 512)
TAKERS: tuple[Taker, ...] = (
    Taker("FLASH_ATTN", "plain", "f16 bf16", 80, heads=_FLASH, sinks=90, images=90),
    Taker("FLASH_ATTN", "plain", _E4, 90, 100, heads=_FLASH, sinks=90, images=90),
    Taker("FLASH_ATTN", "plain", _E5, 90, 100, before="0.22", heads=_FLASH, sinks=90),
    Taker("FLASH_ATTN", "plain", _E4, 100, 110, since="0.27", heads=(64, 128), sinks=100, images=100),
    Taker("FLASHINFER", "plain", f"f16 bf16 {_E4} {_E5}", 75, before="0.24", heads=_INFER, sinks=100),
    Taker("FLASHINFER", "plain", f"f16 bf16 {_E4} {_E5}", 80, since="0.24", heads=_INFER, sinks=90),
    Taker("FLASHINFER", "plain", "nvfp4", 100, 110, since="0.21", heads=_INFER, sinks=100),
    Taker("FLASHINFER", "plain", "nvfp4", 80, since="0.32", heads=_INFER),
    Taker("FLASHINFER", "plain", "nvfp4_ds_mla", 100, 110, since="0.30", heads=_INFER, sinks=100),
    Taker("TRITON_ATTN", "plain", f"{_16} {_E4} {_E5}", sinks=ALWAYS, images=ALWAYS, shared=False),
    Taker("TRITON_ATTN", "plain", _PER_HEAD, since="0.20", sinks=ALWAYS, images=ALWAYS, shared=False),
    Taker("TRITON_ATTN", "plain", "int4_per_token_head", since="0.25", sinks=ALWAYS, images=ALWAYS, shared=False),
    Taker("FLEX_ATTENTION", "plain", _16, images=ALWAYS, shared=False),
    Taker("TURBOQUANT", "plain", _TURBO, since="0.20", before="0.26", shared=False),
    Taker("TURBOQUANT", "plain", _TURBO, since="0.26", shared=False, windows=False),
    Taker("FLASH_ATTN_MLA", "latent", "f16 bf16", 90, 100),
    Taker("FLASHMLA", "latent", f"f16 bf16 {_E4}", 90, 100),
    Taker("FLASHINFER_MLA", "latent", f"f16 bf16 {_E4}", 100, 110),
    Taker("CUTLASS_MLA", "latent", f"f16 bf16 {_E4}", 100, 110),
    Taker("TRITON_MLA", "latent", "f16 bf16"),
    Taker("TRITON_MLA", "latent", _E4, since="0.18"),
    Taker("FLASHMLA_SPARSE", "sparse", f"bf16 {_E4} fp8_ds_mla", 90, 110),
    Taker("FLASH_ATTN_MLA_SPARSE", "sparse", "f16 bf16", 90, 100, since="0.25"),
    Taker("FLASHMLA_SPARSE", "sparse", "nvfp4_ds_mla", 90, 110, since="0.30"),
    Taker("FLASHINFER_MLA_SPARSE", "sparse", f"f16 bf16 {_E4}", 100, 110, since="0.18"),
    Taker("FLASHINFER_MLA_SPARSE_SM120", "sparse", f"{_E4} fp8_ds_mla", 120, 130, since="0.24", shared=False),
)


def _heads(s: VllmSettings) -> set[int]:
    return {t.elems_per_state for layer in distinct(s.served.layers) for c in layer.caches for t in c.tensors if t.name in ("k", "v")}


def _fits(one: Taker, s: VllmSettings, settled: Settled, kind: str, at: int) -> bool:
    d = settled.question
    if one.kind != kind or s.formats.k not in one.formats.split() or not one.least <= at < one.below:
        return False
    if (one.since and not s.since(one.since)) or (one.before and s.since(one.before)):
        return False
    if s.formats.compute == "f32" and one.name not in _F32:
        return False
    if s.formats.compute == "f16" and one.name in _BF16:
        return False
    if d.kv_dtype == SEARCHED and at // 10 != 10:
        return False
    if d.kv_dtype == GAUDI and (one.name != "FLASH_ATTN" or s.since(GAUDI_SINCE)):
        return False
    if one.name == UNSPELLED and _spelled(d) == _E4 and (s.since(UNSPELLED_SINCE) or d.model.architecture != BF16_IS_AUTO):
        return False
    if kind == "plain" and one.heads and not _heads(s) <= set(one.heads):
        return False
    if (d.model.architecture or "").startswith(SINKS) and at < one.sinks:
        return False
    if at < one.images and _images_see_whole(s, settled):
        return False
    if not one.windows and windowed(s.served.layers):
        return False
    return one.shared or (d.dcp or 1) == 1 or not s.since(SHARED_SINCE)


def _spelled(d: Deployment) -> str | None:
    """The cache's format by the name that layers are handed: as asked, or as ModelOpt's checkpoint has it (torch_utils.py
    resolve_kv_cache_dtype_string, MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP), which has none before a release follows it (facts.py)."""
    stated = d.model.kv_dtype if (d.model.method or "").startswith("modelopt") else None
    return stated if stated and d.kv_dtype in (None, "auto") else d.kv_dtype


def _images_see_whole(s: VllmSettings, settled: Settled) -> bool:
    """Whether the tokens of an image attend to each other, which is asked of every layer's backend (is_mm_prefix_lm)."""
    d = settled.question
    named = WHOLE_IMAGES.get(d.model.architecture or "", "")
    if d.model.bidirectional != "images" and not (named and s.since(named)):
        return False
    return d.multimodal != "off" or not s.since(TEXT_SINCE)


def _encodes(backend: str, s: VllmSettings) -> bool:
    """Whether a backend runs an encoder's layers."""
    return backend in ENCODERS and s.since(ENCODERS[backend])


def no_backend(settled: Settled) -> Values:
    """Where none is named and none of them takes the cache, on a GPU that is known."""
    s, at, device = settings_of(settled), on.capability(settled.question), settled.question.device
    encoder = pools(settled.question.model)
    kind = "plain" if encoder and s.since(ENCODERS_SINCE) else kind_of(s)
    if not at or s.backend or not kind or s.platform != "cuda" or device is None or device.vendor != "nvidia" or not s.since(FIRST):
        return None
    if any(_fits(one, s, settled, kind, at) for one in TAKERS if not encoder or _encodes(one.name, s)):
        return None
    asked = settled.question.kv_dtype if "kv_dtype" not in settled.chosen_by else "auto"
    return {"cache": asked or "auto", "why": f"{kind} attention with a cache of {s.formats.k} on compute capability {on.version_of(at)}"}


def in_32_bits(settled: Settled) -> Values:
    """A cache in f32, which no parser takes by its name: it is that of a model that computes in f32."""
    s = settings_of(settled)
    asked = "kv_dtype" not in settled.chosen_by and "f32" in (s.formats.k, s.formats.v)
    return {} if asked and s.formats.compute != "f32" else None


def triton_fp8(settled: Settled) -> Values:
    """An FP8 cache that falls to Triton's kernels before 8.9: an encoder's, or heads that FlashInfer's do not take, or asked for."""
    s, at, d = settings_of(settled), on.capability(settled.question), settled.question
    if found := when.triton_fp8(settled):
        return found
    if not at or not 80 <= at < 89 or s.backend or not _on_nvidia(settled) or not s.formats.k.startswith("fp8"):
        return None
    first = next((one.name for one in TAKERS if _fits(one, s, settled, kind_of(s), at)), "")
    falls = pools(d.model) or encodes(d.model, s.release) or first == "TRITON_ATTN"
    return {"gpu": d.device.name if d.device else "", "has": on.version_of(at), "other": "bfloat16"} if falls else None


def no_layout(settled: Settled) -> Values:
    """TurboQuant beside layers in 16 bits, which run on FlashInfer on Blackwell's boards (backends/utils.py resolve_kv_cache_layout)."""
    s, at = settings_of(settled), on.capability(settled.question)
    if not at or at // 10 != 10 or s.backend or not s.skip_ends or s.platform != "cuda" or not s.since(LAYOUTS_SINCE):
        return None
    return {} if kind_of(s) == "plain" and _heads(s) <= set(_INFER) else None


def apart_layouts(settled: Settled) -> Values:
    """Stages of DeepSeek-V4 some of which have no indexer, whose keys have two layouts alone (mla/indexer.py DeepseekV4IndexerBackend)."""
    s = settings_of(settled)
    if s.pp == 1 or "compressed" not in s.forms:
        return None
    names = ({t.name for i in stage for c in settled.model.layers[i].caches for t in c.tensors} for stage in stages(settled.model, s))
    return {} if len({"index_k" in one for one in names}) > 1 else None


def named(settled: Settled) -> Values:
    """A backend that was named and does not take the cache, or an encoder's layers."""
    d, s, at = settled.question, settings_of(settled), on.capability(settled.question)
    if not s.backend or not _on_nvidia(settled):
        return None
    rows = [one for one in TAKERS if one.name == s.backend]
    encoder = pools(d.model) or encodes(d.model, s.release)
    if encoder and rows and not _encodes(s.backend, s):
        return {"backend": s.backend, "reason": "attention type ENCODER_ONLY not supported"}
    kind = "plain" if encoder else kind_of(s)
    if not rows or not kind or not at or any(_fits(one, s, settled, kind, at) for one in rows):
        return None
    return {"backend": s.backend, "reason": f"{kind} attention with a cache of {s.formats.k} on compute capability {on.version_of(at)}"}


def forced_cutlass(settled: Settled) -> Values:
    """Sparse latents on compute capability 10.0, where this release names a backend of its own accord (vllm-project/vllm issue 30214)."""
    s = settings_of(settled)
    return {} if kind_of(s) == "sparse" and on.capability(settled.question) == 100 and not s.backend and _on_nvidia(settled) else None


def _on_nvidia(settled: Settled) -> bool:
    device = settled.question.device
    return device is not None and device.vendor == "nvidia" and settings_of(settled).platform == "cuda"


def unlisted(settled: Settled) -> Values:
    """A cache in 16 bits, asked for by its name."""
    d, s, at = settled.question, settings_of(settled), on.capability(settled.question)
    asked = canonical(d.kv_dtype, "kv_dtype") if d.kv_dtype not in (None, "auto") and "/" not in str(d.kv_dtype) else ""
    if asked not in UNLISTED or "kv_dtype" in settled.chosen_by or d.model.architecture == BF16_IS_AUTO or not kind_of(s) or not at:
        return None
    return {"cache": asked} if _on_nvidia(settled) and (s.since("0.11.1") or at // 10 not in (9, 10)) else None


def whole_sight(settled: Settled) -> Values:
    """A decoder's class whose tokens see all others, in a V1 that has kernels for decoders alone."""
    s = settings_of(settled)
    return {} if encodes(settled.question.model, s.release) and s.rules.v1 and _on_nvidia(settled) else None


def v4_auto(settled: Settled) -> Values:
    """DeepSeek-V4, whose rows are FP8 alone, without a format of the cache."""
    d = settled.question
    none = d.kv_dtype in (None, "auto") and d.model.kv_dtype is None
    return {} if none and d.model.architecture == V4 and _on_nvidia(settled) else None


_OTHER, _SOURCE = Move("device", "a newer GPU"), "platforms/cuda.py get_attn_backend_cls; v1/attention/backend.py validate_configuration"
CHECKS: tuple[Stop, ...] = (
    Stop(
        "no attention backend",
        "No valid attention backend found for cuda with AttentionSelectorConfig(",
        "no backend takes this cache",
        (Move("kv_dtype", "auto"), _OTHER),
        _SOURCE,
        since=FIRST,
        near=("kv_cache_dtype={cache}",),
        when=no_backend,
        loading=True,
        numbers="no backend takes {why}",
    ),
    Stop(
        "a cache in 32 bits",
        "argument --kv-cache-dtype: invalid choice: 'float32'",
        "a cache is in f32 where the model computes in it",
        (Move("kv_dtype", "auto"), Move("dtype", "f32")),
        "config/cache.py CacheDType",
        when=in_32_bits,
    ),
    Stop(
        "no common layout",
        "No KV cache layout satisfies every supported set:",
        "TurboQuant and the backend of the layers that stay in 16 bits lay out their blocks otherwise on this GPU",
        (Move("kv_dtype", "fp8 or auto"), _OTHER),
        "v1/attention/backends/utils.py resolve_kv_cache_layout",
        since=LAYOUTS_SINCE,
        when=no_layout,
        loading=True,
    ),
    Stop(
        "no common layout",
        "Workers disagree on supported KV cache layouts:",
        "the layers of one stage have indexers, and those of another none",
        (Move("pp", "1, with a larger tp"),),
        "v1/attention/backends/utils.py resolve_kv_cache_layout",
        since="0.30",
        when=apart_layouts,
    ),
    Stop(
        "attention backend",
        "Selected backend AttentionBackendEnum.{backend:w} is not valid for this configuration. Reason:",
        "the backend that was named does not run this model with this cache",
        (Move("option:attention_backend", "none: it chooses one that does"), Move("kv_dtype", "auto")),
        _SOURCE,
        since=ENCODERS_SINCE,
        when=named,
        loading=True,
        numbers="{reason}",
    ),
    Stop(
        "sparse latents on 10.0",
        "Selected backend AttentionBackendEnum.CUTLASS_MLA is not valid for this configuration. Reason: ['sparse not supported']",
        "this release names CUTLASS_MLA by itself for latent attention on this GPU, which has no kernels of chosen tokens",
        (Move("option:attention_backend", "FLASHMLA_SPARSE"), Move("engine_version", "0.13 or later")),
        "platforms/cuda.py check_and_update_config",
        since="0.12",
        before="0.13",
        when=forced_cutlass,
        loading=True,
    ),
    Stop(
        "a cache in 16 bits",
        "kv_cache_dtype not supported",
        "this release has no kernels for a cache in 16 bits by its name",
        (Move("kv_dtype", "auto"), Move("engine_version", "0.15 or later")),
        "v1/attention/backends supported_kv_cache_dtypes; 0.11.0 platforms/cuda.py",
        since=UNLISTED_SINCE,
        before=LISTED_SINCE,
        when=unlisted,
        loading=True,
        numbers="--kv-cache-dtype {cache}",
    ),
    Stop(
        "encoders in V1",
        "Encoder self-attention and encoder/decoder cross-attention are not implemented for FlashAttentionImpl",
        "every token sees all others, as the config says, and this release's V1 runs decoders alone",
        (Move("engine_version", "0.10.1 or later"), Move("option:use_v1", "false")),
        "v1/attention/backends/flash_attn.py",
        since="0.8",
        before="0.10.1",
        when=whole_sight,
        loading=True,
    ),
    Stop(
        "DeepSeek-V4's cache",
        "only supports fp8 kv-cache, got auto",
        "its class takes FP8 alone and, in this release, does not choose it",
        (Move("kv_dtype", "fp8"), Move("engine_version", "0.30 or later")),
        "models/deepseek_v4/attention.py _resolve_dsv4_kv_cache_dtype",
        since="0.20",
        before=V4_AUTO_SINCE,
        when=v4_auto,
        loading=True,
    ),
)
