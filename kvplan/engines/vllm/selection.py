"""Which attention backends of NVIDIA's GPUs take a model's layers and cache where none is named: often several, sometimes none.

What `validate_configuration` (v1/attention/backend.py) of each class in the priority lists of platforms/cuda.py answered, asked in the
files of 0.16, 0.19, 0.25 and 0.33 for compute capabilities 7.5 to 12.0, and the releases between in which a line of it changed. A format
that no backend takes is refused by get_attn_backend_cls when the first layer is built.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common import conditions as on
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Values
from kvplan.engines.vllm.settings import VllmSettings, settings_of
from kvplan.forms import ATTENTION
from kvplan.tensors import distinct

ALWAYS, NEVER = 0, 1 << 10
FIRST = "0.16"
#: Classes with attention sinks.
SINKS = ("GptOss", "MiMoV2")
#: From this release on a backend says whether it takes ranks that share a sequence's tokens (supports_dcp).
SHARED_SINCE = "0.29"
_16, _E4, _E5 = "f16 bf16 f32", "fp8_e4m3", "fp8_e5m2"
_PER_HEAD, _TURBO = "int8_per_token_head fp8_per_token_head", "turboquant_k8 turboquant_k4 turboquant_k3"

#: A format of Gaudi's alone, which FlashAttention took for FP8 up to a release.
GAUDI, GAUDI_SINCE = "fp8_inc", "0.22"
#: A backend that takes FP8 as `fp8` and `fp8_ds_mla`, and not under its full name (0.20 to 0.33).
UNSPELLED = "FLASHMLA_SPARSE"
#: From this release on the backends of all layers must agree on a layout, which TurboQuant's and FlashInfer's for Blackwell do not.
LAYOUTS_SINCE = "0.31"


class Taker(NamedTuple):
    """Formats of the cache that a backend takes from a release on, before another, and on which capabilities (90 is 9.0).

    kind     plain K and V, latent attention, or latent attention of chosen tokens
    heads    sizes of heads, empty: any of them
    sinks    the least capability on which it takes attention sinks
    images   the least capability on which the tokens of an image attend to each other
    shared   whether ranks may share a sequence's tokens (decode context parallelism)
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
    Taker("TURBOQUANT", "plain", _TURBO, since="0.20", shared=False),
    Taker("FLASH_ATTN_MLA", "latent", "f16 bf16", 90, 100),
    Taker("FLASHMLA", "latent", f"f16 bf16 {_E4}", 90, 100),
    Taker("FLASHINFER_MLA", "latent", f"f16 bf16 {_E4}", 100, 110),
    Taker("CUTLASS_MLA", "latent", f"f16 bf16 {_E4}", 100, 110),
    Taker("TRITON_MLA", "latent", "f16 bf16"),
    Taker("TRITON_MLA", "latent", _E4, since="0.18"),
    Taker("FLASHMLA_SPARSE", "sparse", f"bf16 {_E4} fp8_ds_mla", 90, 110),
    Taker("FLASHMLA_SPARSE", "sparse", "nvfp4_ds_mla", 90, 110, since="0.30"),
    Taker("FLASHINFER_MLA_SPARSE_SM120", "sparse", f"bf16 {_E4} fp8_ds_mla", 120, 130, since="0.24", shared=False),
)


def _kind(s: VllmSettings) -> str:
    """Of the layers that keep keys and values: plain, latent or sparse; empty where there are none, several, or one not in the table."""
    tensors = {t.name for layer in distinct(s.served.layers) for cache in layer.caches if cache.form in ATTENTION for t in cache.tensors}
    forms = {cache.form for layer in distinct(s.served.layers) for cache in layer.caches if cache.form in ATTENTION}
    if any(form.startswith("compressed") for form in forms):
        return ""
    latent = any(form.startswith("latent") for form in forms)
    if latent and "k" in tensors:
        return ""
    return ("sparse" if "index_k" in tensors else "latent") if latent else "plain" if "k" in tensors else ""


def _heads(s: VllmSettings) -> set[int]:
    return {t.elems_per_state for layer in distinct(s.served.layers) for c in layer.caches for t in c.tensors if t.name in ("k", "v")}


def _fits(one: Taker, s: VllmSettings, settled: Settled, kind: str, at: int) -> bool:
    d = settled.question
    if one.kind != kind or s.formats.k not in one.formats.split() or not one.least <= at < one.below:
        return False
    if (one.since and not s.since(one.since)) or (one.before and s.since(one.before)):
        return False
    if one.name == UNSPELLED and d.kv_dtype == _E4:
        return False
    if kind == "plain" and one.heads and not _heads(s) <= set(one.heads):
        return False
    if (d.model.architecture or "").startswith(SINKS) and at < one.sinks:
        return False
    if d.model.bidirectional == "images" and d.multimodal != "off" and at < one.images:
        return False
    return one.shared or (d.dcp or 1) == 1 or not s.since(SHARED_SINCE)


def no_backend(settled: Settled) -> Values:
    """Where none is named and none of them takes the cache, on a GPU that is known."""
    s, at, device = settings_of(settled), on.capability(settled.question), settled.question.device
    kind = _kind(s)
    if not at or s.backend or not kind or s.platform != "cuda" or device is None or device.vendor != "nvidia" or not s.since(FIRST):
        return None
    if not (settled.question.kv_dtype == GAUDI and s.since(GAUDI_SINCE)) and any(_fits(one, s, settled, kind, at) for one in TAKERS):
        return None
    asked = settled.question.kv_dtype if "kv_dtype" not in settled.chosen_by else "auto"
    return {"cache": asked or "auto", "why": f"{kind} attention with a cache of {s.formats.k} on compute capability {on.version_of(at)}"}


def no_layout(settled: Settled) -> Values:
    """TurboQuant beside layers in 16 bits, which run on FlashInfer on Blackwell's boards (backends/utils.py resolve_kv_cache_layout)."""
    s, at = settings_of(settled), on.capability(settled.question)
    if not at or at // 10 != 10 or s.backend or not s.skip_ends or s.platform != "cuda" or not s.since(LAYOUTS_SINCE):
        return None
    return {} if _kind(s) == "plain" and _heads(s) <= set(_INFER) else None
