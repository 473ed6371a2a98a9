"""Whether a release loads a checkpoint by the method that its config names (config/model.py ModelConfig._verify_quantization).

The names are those of choices.py, which begin with 0.9.2: of what is gone from a later release older ones are taken to have had it. GGUF
left for a plugin, vllm-gguf-plugin, which vLLM's extra `extra-quant` installs (0.33's metadata) and which puts the method back.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical_weight, weight_scheme
from kvplan.engines.common.choices import among
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.choices import METHODS
from kvplan.engines.vllm.quantised import leaving, own_method

GGUF = "gguf"
#: What a config may name that a class of another name takes for its own (override_quantization_method).
OVERRIDDEN = {"auto-round": "inc", "modelopt": "modelopt"}
#: Formats by which `weight_dtype` says a method, where the family of a format has one.
_BY_SCHEME = ("bitsandbytes", GGUF)
_VERIFY = "config/model.py _verify_quantization"


def method_of(d: Deployment) -> str:
    """The method that the checkpoint's config names, as far as the model or its format says; empty where neither does."""
    own = checkpoint_format(d)
    if d.weight_dtype in (None, own) and (named := own_method(d.model, own).rpartition(" ")[2]):
        return "" if named in ("none", "mlx") else named  # a tool of no method: ModelOpt's, or MLX's
    names = (d.weight_dtype or own).split("+")
    formats = {weight_scheme(canonical_weight(one)) for one in names if one != "int8"}  # which several methods have
    return next((one for one in _BY_SCHEME if one in formats), "")


def _listed(method: str, release: str | None) -> bool:
    names = {method.replace("_", "-"), next((of for name, of in OVERRIDDEN.items() if method.startswith(name)), method)}
    listed = {when: words.replace("_", "-") for when, words in METHODS.items()}
    return any(among(listed, name, release) for name in names)


def unknown(settled: Settled) -> Values:
    """A method that the release has no class for, but for what a plugin loads; of one that others have, where it was said which."""
    d, method = settled.question, _missing(settled)
    said = "engine_version" not in settled.chosen_by or not _ever(method)
    return {"method": method} if method and method != GGUF and said and Options(d).text("quantization") != "humming" else None


def not_known(settled: Settled) -> tuple[str, ...]:
    """Why a start is too close to call: from GGUF, which no release after 0.23 loads by itself, or in a method that older ones had."""
    d, method = settled.question, _missing(settled)
    if d.kv_memory is not None or not method or not _ever(method):
        return ()
    if method == GGUF:
        return (f"vLLM {d.engine_version} loads GGUF where vllm-gguf-plugin is installed (its extra extra-quant), and not without",)
    older = f"vLLM {d.engine_version} loads no {method} weights; releases before did, and nothing says which is meant (engine_version)"
    return (older,) if "engine_version" in settled.chosen_by else ()


def _missing(settled: Settled) -> str:
    method = method_of(settled.question)
    return "" if _listed(method, settled.question.engine_version) else method


def _ever(method: str) -> bool:
    return any(method.replace("_", "-") in words.replace("_", "-").split() for words in METHODS.values())


CHECKS = (
    Stop(
        "packed weights", "Unknown quantization method: {method:w}. Must be", "this release loads no weights that are packed as {method}",
        (Move("weight_dtype", "a release in a format that it loads"), Move("engine_version", "one that has it")),
        _VERIFY, when=unknown, tail=" one of those that the release lists", loading=True,
    ),
    Stop(
        "a method that leaves", "The quantization method %s is deprecated and will be removed in future versions of vLLM. To bypass, set",
        "the release loads the checkpoint's method no more unless it is told to",
        (Move("option:allow_deprecated_quantization", "true"), Move("weight_dtype", "another checkpoint")),
        _VERIFY, since="0.14", when=leaving, tail=" `--allow-deprecated-quantization`.", numbers="{method}",
    ),
)  # fmt: skip
