"""Ways of quantising that transformers loads, by release, and weights that it unpacks into its compute type as it loads them.

transformers src/transformers/quantizers/auto.py AUTO_QUANTIZER_MAPPING (another is a warning, and its tensors are not loaded),
quantizer_finegrained_fp8.py, quantizer_mxfp4.py, quantizer_gguf.py validate_environment, in the wheels 4.57.6, 5.0, 5.14,
5.16 to 5.18, 5.24.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.dtypes import weight_scheme
from kvplan.engines.common.conditions import capability, version_of
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import checkpoint_format, stored_plain, weight_formats
from kvplan.tensors import Layer, Lowered, WeightTensor, distinct
from kvplan.weights import WeightFormats, role_formats

FP8, MXFP4 = 89, 75
#: From which release GGUF may stay in its blocks, where the package `kernels` has a kernel for the device.
PACKED_GGUF = (5, 17)
_FIRST = frozenset({
    "aqlm", "auto-round", "awq", "bitnet", "bitsandbytes", "compressed-tensors", "eetq", "fbgemm-fp8", "fp8", "fp-quant", "gguf", "gptq",
    "higgs", "hqq", "mxfp4", "quanto", "quark", "spqr", "torchao", "vptq", "none",
})  # fmt: skip
#: Release -> methods that came with it or before; between two that were read, those of the later are taken to be there.
METHODS: tuple[tuple[tuple[int, int], frozenset[str]], ...] = (
    ((4, 57), _FIRST),
    ((5, 1), _FIRST | {"fouroversix", "gemma", "metal", "mxfp8", "sinq"}),
    ((5, 15), _FIRST | {"fouroversix", "gemma", "metal", "mxfp8", "sinq", "nvfp4"}),
)


def unread(d: Deployment) -> tuple[str, ...]:
    """Why a start is too close to call: tensors that this release does not know how to load, or may unpack."""
    method, found = d.model.method, list[str]()
    own = d.weight_dtype in (None, checkpoint_format(d))
    known = next((names for since, names in reversed(METHODS) if _of(d) >= since), _FIRST)
    if own and method and method not in known:
        found.append(f"transformers has no quantizer for {method}: it skips the quantisation, and the tensors are not loaded")
    if _of(d) >= PACKED_GGUF and "gguf" in _schemes(d):
        found.append("GGUF stays packed where the package `kernels` has a kernel for the device, else all weights are unpacked")
    return tuple(found)


def refusal(d: Deployment) -> str | None:
    """Why from_pretrained stops at the device, in its words."""
    if _of(d) >= (5, 0) or not _old_cores(d, FP8) or not _fine_grained(d):
        return None
    has = version_of(capability(d) or 0)
    return f"FP8 quantized models is only supported on GPUs with compute capability >= 8.9 (e.g 4090/H100), actual = `{has}`"


def loaded(d: Deployment, compute: str) -> tuple[WeightFormats, tuple[str, ...]]:
    """Role -> format as it is in memory, and a note where that is not the checkpoint's."""
    formats = weight_formats(d)
    unpacked = {scheme for scheme in _schemes(d) if _unpacks(d, scheme)}
    if not unpacked:
        return formats, ()
    made = role_formats(compute, {role: stored for role, stored in formats.items() if _scheme(stored) not in unpacked})
    return made, (f"transformers unpacks {', '.join(sorted(unpacked))} weights into {compute} here as it loads them",)


def as_loaded(d: Deployment, model: Lowered) -> Lowered:
    """The model without the sizes that its files give tensors, where these are unpacked."""
    if not any(_unpacks(d, scheme) for scheme in _schemes(d)):
        return model

    def plain(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        made = {id(layer): replace(layer, weights=tuple(map(_by_shape, layer.weights))) for layer in distinct(layers)}
        return tuple(made[id(layer)] for layer in layers)

    return replace(
        model,
        layers=plain(model.layers),
        first=tuple(map(_by_shape, model.first)),
        embedding=_by_shape(model.embedding) if model.embedding else None,
        last=tuple(map(_by_shape, model.last)),
        draft=plain(model.draft),
    )


def _by_shape(w: WeightTensor) -> WeightTensor:
    return w._replace(stored=None)


def _unpacks(d: Deployment, scheme: str) -> bool:
    if scheme == "gguf":
        return _of(d) < PACKED_GGUF
    if scheme == "fp8":
        return _old_cores(d, FP8) and _fine_grained(d)
    return scheme == "mxfp" and _old_cores(d, MXFP4)


def _of(d: Deployment) -> tuple[int, ...]:
    """The release of a question; one that names no number is the newest."""
    return release(d.engine_version or "") or PACKED_GGUF


def _old_cores(d: Deployment, least: int) -> bool:
    """Whether torch sees neither CUDA (ROCm) nor XPU, or a GPU of a lower compute capability."""
    if d.device is None:
        return False
    return d.device.vendor == "apple" or (d.device.vendor == "nvidia" and 0 < (capability(d) or 0) < least)


def _fine_grained(d: Deployment) -> bool:
    """FP8 as `quant_method: fp8` has it; compressed-tensors and others have code of their own."""
    return "fp8" in _schemes(d) and (d.model.method in (None, "fp8") or d.weight_dtype not in (None, checkpoint_format(d)))


def _schemes(d: Deployment) -> set[str]:
    return {_scheme(stored) for stored in weight_formats(d).values() if not stored_plain(stored)}


def _scheme(stored: str) -> str:
    return "mxfp" if stored.startswith("mxfp") else weight_scheme(stored)
