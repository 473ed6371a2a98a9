"""`--max-model-len -1` of a config that states no length, and `--disable-sliding-window`, which caps it (config/model.py
_get_and_verify_max_len)."""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.overrides import scaling
from kvplan.engines.vllm.rules import since
from kvplan.engines.vllm.settings import settings_of

#: Classes with windows whose published lengths YaRN stretches: up to 0.32 the stretch is computed after the cap, and undoes it.
STRETCHED: frozenset[str] = frozenset({"GptOssForCausalLM"})

#: Classes whose published configs have a `rope_scaling` that deals out sections and stretches nothing: it counts all the same.
SECTIONED = ("Qwen2VL", "Qwen2_5_VL", "Qwen2_5Omni", "Qwen3VL", "Glm4v")


def unslid(d: Deployment, options: Options, release: str) -> Deployment:
    """The question with the model no longer than the window that its config states."""
    model = d.model
    if not options.flag("disable_sliding_window") or (model.architecture in STRETCHED and not since(release, "0.33")):
        return d
    mixers = (mixer for block in model.blocks.values() for mixer in block.mixers)
    stated = {getattr(mixer, "window", None) for mixer in mixers} | {model.cache_window, model.unused_window}
    most = min((window for window in stated if window), default=None)

    def capped(tokens: int | None) -> int | None:
        return min(tokens, most) if tokens and most else tokens

    names = ("max_context", "stated_context", "original_context")
    return replace(d, model=model.changed(**{name: capped(getattr(model, name)) for name in names}))


def stretched(settled: Settled) -> Values:
    asked, named = Options(settled.question).flag("disable_sliding_window"), settled.question.model.architecture or ""
    return {} if asked and (named in STRETCHED or named.startswith(SECTIONED) or scaling(settled)) else None


def endless(settled: Settled) -> Values:
    """--max-model-len -1 of a model whose config states no length: it is taken as a length."""
    d = settled.question
    asked = settings_of(settled).auto_fit and not settings_of(settled).length_chosen
    return {} if asked and not d.model.max_context and d.model.architecture and not d.model.length_unsaid else None


def uncut(settled: Settled) -> Values:
    """Cohere's classes count one token more than the window that is then none (models/commandr.py, cohere2_moe.py)."""
    asked, named = Options(settled.question).flag("disable_sliding_window"), settled.question.model.architecture or ""
    return {} if asked and named.startswith("Cohere2") else None


CHECKS = (
    Stop(
        "a window more than none", "unsupported operand type(s) for +: 'NoneType' and 'int'",
        "the class adds one to a window that was taken away", (Move("option:disable_sliding_window", "false"),),
        "model_executor/models/commandr.py", since="0.29", when=uncut, loading=True, near=("commandr", "cohere2"),
    ),
    Stop(
        "no length to fit", "max_model_len must be a positive integer, got int: -1.", "the config states no length that could be lowered",
        (Move("max_model_len", "a number"),), "config/model.py _get_and_verify_max_len", since="0.14", when=endless,
    ),
    Stop(
        "windows under a stretched length", "Disabling sliding window is not supported for models with rope_scaling",
        "this release stretches the model's length by YaRN, and does not also cap it at the window",
        (Move("option:disable_sliding_window", "false"), Move("engine_version", "0.12 or later")),
        "config/model.py _get_and_verify_max_len", before="0.12", when=stretched,
    ),
)  # fmt: skip
