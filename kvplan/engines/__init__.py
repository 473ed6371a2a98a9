"""The engines: name -> package. A package is read only when a question names its engine.

>>> import kvplan
>>> [one["title"] for one in kvplan.engines("sglang")]  # and without a name of all: `kvplan.api.plans.engines`
['SGLang']
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from kvplan.deployment import NAMES, Deployment
from kvplan.engines.common import checks
from kvplan.engines.common import passed as passing
from kvplan.engines.common.arguments import is_flag
from kvplan.engines.common.drafters import no_head
from kvplan.engines.common.exclusions import kinds
from kvplan.engines.common.methods import is_branch, lacking, without_adapters
from kvplan.engines.common.protocol import Engine, Facts, Settled
from kvplan.errors import UnknownName

if TYPE_CHECKING:
    from types import ModuleType

    from kvplan.engines.common.arguments import Arguments
    from kvplan.engines.common.logs import Log
    from kvplan.engines.common.own_names import Meant, Pairs
    from kvplan.engines.common.stops import Stop

ENGINES: dict[str, str] = {
    "ideal": "ideal",
    "vllm": "vllm",
    "llama.cpp": "llama_cpp",
    "ollama": "llama_cpp.ollama",
    "transformers": "transformers",
    "mlx-lm": "mlx_lm",
    "exllamav3": "exllamav3",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
    "lmdeploy": "lmdeploy",
}

#: Other names that people give -> what serves under them. Those that run an engine with settings of their own say so.
RUNS: dict[str, str] = {
    **dict.fromkeys(("llamacpp", "llama-cpp", "llama-server", "llama_cpp", "gguf"), "llama.cpp"),
    **dict.fromkeys(("lm-studio", "lmstudio", "jan", "llamafile", "koboldcpp", "localai"), "llama.cpp, which it runs for GGUF files"),
    **dict.fromkeys(("trtllm", "trt-llm", "tensorrt", "tensorrt_llm", "trtllm-serve"), "tensorrt-llm"),
    **dict.fromkeys(("hf", "huggingface", "hf-transformers"), "transformers"),
    **dict.fromkeys(("mlx", "mlx_lm"), "mlx-lm"),
    **dict.fromkeys(("exl3", "exllama", "tabbyapi"), "exllamav3"),
    **dict.fromkeys(("nim", "dynamo", "triton", "kserve", "ray-serve"), "vllm, sglang or tensorrt-llm: whichever it runs"),
    "turbomind": "lmdeploy",
    "sgl": "sglang",
}
#: Engines that are known by name and not modelled.
UNMODELLED = (
    "tgi",
    "text-generation-inference",
    "exllamav2",
    "mlc-llm",
    "ktransformers",
    "ik_llama.cpp",
    "aphrodite",
    "vllm-ascend",
    "lightllm",
)

#: An engine with its release, as packages and images are written: vllm==0.11.0, vllm:v0.11.0, vllm 0.11.
_RELEASE = re.compile(r"([a-z][a-z_.-]*[a-z])(?:==|[ :@=-])v?(b?\d[\w.+-]*)")


def canonical(name: str) -> str:
    """The name of the engine that is meant by another spelling of one engine's alone (mlx, trtllm, hf); any other text as it is."""
    meant = RUNS.get(name.strip().lower(), "")
    return meant if meant in ENGINES else name


#: What a question with a device is put to.
DEFAULT = "vllm"


def find(name: str) -> Engine:
    """The engine of that name. Raises UnknownName."""
    return cast(Engine, import_module(f"kvplan.engines.{_package(name)}.plan").ENGINE)


def facts(name: str) -> Facts:
    """What is known of it without running it. Raises UnknownName."""
    return cast(Facts, import_module(f"kvplan.engines.{_package(name)}.facts").FACTS)


def arguments(name: str) -> Arguments:
    """What its command takes; of an engine of `served()`. Raises UnknownName."""
    return cast("Arguments", import_module(f"kvplan.engines.{_package(name)}.arguments").ARGUMENTS)


def log(name: str) -> Log:
    """What it prints when it starts; of an engine of `logged()`. Raises UnknownName."""
    return cast("Log", import_module(f"kvplan.engines.{_package(name)}.wordings").LOG)


def stops(name: str) -> tuple[Stop, ...]:
    """How it stops, and in what words; of an engine of `explained()`. Raises UnknownName."""
    return cast("tuple[Stop, ...]", _failures(name).STOPS)


def marks(name: str) -> tuple[str, ...]:
    """Words by which its texts are known; of an engine of `explained()`. Raises UnknownName."""
    return cast("tuple[str, ...]", _failures(name).MARKS)


def _failures(name: str) -> ModuleType:
    return import_module(f"kvplan.engines.{_package(name)}.failures")


@cache
def served() -> tuple[str, ...]:
    """Engines whose commands are known."""
    return _with("arguments")


@cache
def logged() -> tuple[str, ...]:
    """Engines whose start-up logs are known."""
    return _with("wordings")


@cache
def explained() -> tuple[str, ...]:
    """Engines whose errors are known."""
    return _with("failures")


def _with(module: str) -> tuple[str, ...]:
    return tuple(name for name, package in ENGINES.items() if find_spec(f"kvplan.engines.{package}.{module}"))


def _package(name: str) -> str:
    key = name.strip().lower()
    if key not in ENGINES:
        hint = f"write {RUNS[key]}" if key in RUNS else f"it is not modelled; these are: {', '.join(ENGINES)}" if key in UNMODELLED else ""
        if (of := _RELEASE.fullmatch(key)) and (own := of[1] if of[1] in ENGINES else RUNS.get(of[1])) in ENGINES:
            hint = f"write {own}, and {of[2]} as the engine_version"
        raise UnknownName("engine", name, list(ENGINES), hint=hint)
    return ENGINES[key]


def default(d: Deployment) -> str:
    """A serving engine where there is a device to fill, else ideal."""
    return "ideal" if d.device is None else DEFAULT


#: What command lines make one name of a question of, by what their rows call it.
_PARTS = {
    "@ep": "ep", "@lora": "lora", "@lora_rank": "lora", "@loras": "lora", "@speculative": "speculative", "@quantization": "weight_dtype",
    "@lora_paths": "lora", "@adapters": "lora", "@text_only": "multimodal", "@context": "context", "@k": "kv_dtype", "@v": "kv_dtype",
    "@device": "device", "@nodes": "n_devices", "@model": "model", "@path": "model", "@hub": "model",
}  # fmt: skip


def _known_as(engine: str, option: str) -> str:
    """The name in a question of what an option of the engine's command line sets, `option:NAME` where that is an option of the engine's
    under another name; empty where it has none, or sets several."""
    rows = arguments(engine).rows if engine in served() else ()
    named = (row for row in rows if any(is_flag(name, option) for name in row.names))
    said = (_PARTS.get(row.to, "option:v0_options" if row.to.startswith("@v0:") else row.to) for row in named)
    return next((name for name in said if name.removeprefix("option:").isidentifier()), "")


def in_own_names(name: str, version: str | None, options: Pairs) -> Meant:
    """What engine options set that are said as the engine's command says them. Raises SpecError (own_names.py)."""
    from kvplan.engines.common.own_names import Meant, in_question

    if not options or name not in served():
        return Meant({}, options)
    return in_question(arguments(name), facts(name).options, version, options)


def settle(d: Deployment) -> tuple[Engine, Settled]:
    """The question's engine, and the question as that engine understands it.

    Raises SpecError for values it does not take, UnsupportedError for forms of cache that it does not model.
    """
    engine = find(d.engine or default(d))
    d, unfollowed = checks.with_cache_followed(checks.in_own_format(d, engine.facts), engine.facts)
    passed = _passed(d, engine.facts)
    checks.check_question(d, engine.facts, lambda option: _known_as(engine.facts.name, option), [one.key for one in passed])
    d = replace(d, engine_option=tuple((key, value) for key, value in d.engine_option if value))
    settled = engine.settle(d)
    passed = (*settled.passed, *passed)
    checks.check_forms(settled, engine.facts)
    facts, which = engine.facts, (engine.facts.title, d.engine_version, settled.runs)
    lacks = (lacking(d.speculative, facts.drafting, *which) if facts.drafting else "") or settled.lacks
    lacks = lacks or (without_adapters(d.lora, facts.adapting, *which) if facts.adapting else "")
    notes = (
        *settled.notes,
        *checks.unused(d, settled, engine.facts),
        *checks.foreign_checkpoint(d, engine.facts),
        *no_head(d),
        *unfollowed,
    )
    old = checks.before_all(d, engine.facts) if engine.facts.pool == "set aside" else ""
    undecided = (*settled.undecided, *checks.counted_as_stored(d, engine.facts), *checks.not_its_own(d, engine.facts))
    if lacks and is_branch(d.engine_version):
        lacks, undecided = "", (*undecided, f"{lacks}; a build of a branch may")
    notes = (*notes, *passing.notes(passed))
    return engine, settled._replace(
        notes=notes, undecided=undecided, unknown=settled.unknown or old, passed=passed, lacks=lacks, stopped=_stopped(d, facts.name)
    )


def _stopped(d: Deployment, name: str) -> str:
    """Why the engine would stop at engine options beside what else was chosen, or with this kind of model; empty where it goes on."""
    if not d.engine_option or name not in served():
        return ""
    chosen = {each: value for each in NAMES if each not in _BESIDE and (value := getattr(d, each)) not in (None, "off", ())}
    options = {f"option:{key}": value for key, value in d.engine_option}
    return _stopped_at(name, tuple({**chosen, **options}.items()), kinds(d.model), d.engine_version)


@lru_cache(maxsize=512)
def _stopped_at(name: str, asked: tuple[tuple[str, Any], ...], of: frozenset[str], version: str | None) -> str:
    from kvplan.engines.common.own_names import stop_of_words

    return stop_of_words(arguments(name), dict(asked), of, version)


#: Names that no word of a command says, or that are of the options themselves.
_BESIDE = frozenset({"engine", "engine_version", "engine_option", "device", "n_devices", "context", "batch", "calibration", "reserve"})


def _passed(d: Deployment, facts: Facts) -> tuple[passing.Passed, ...]:
    """Options of the question that the engine has and no plan follows. Raises SpecError for any that its release does not have."""
    if not d.engine_option or facts.name not in served():
        return ()
    table = arguments(facts.name)
    others = [(key, value) for key, value in d.engine_option if key not in facts.options]
    for key, _ in d.engine_option:
        if key in facts.options and d.engine_version:
            passing.of_release(table, key, passing.followed(table, key), d.engine_version)
    found = (passing.find(table, key, value, d.engine_version) for key, value in others if not _known_as(facts.name, key))
    return tuple(one for each in found for one in each)
