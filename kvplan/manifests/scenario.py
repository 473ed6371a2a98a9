"""llm-d-benchmark's scenarios: shell files that set LLMDBENCH_ variables, from which it makes the pods (llm-d/llm-d-benchmark, docs and
setup/env.sh): REPLACE_ENV_X stands for the variable X, `____` for a blank, and a variable may name a file that a here-document writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvplan.engines.common.words import Finding, Given, Place, Word
from kvplan.errors import SpecError
from kvplan.manifests import accelerators, host, requested
from kvplan.manifests.command import Start, scripts
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item, documents
from kvplan.manifests.script import read_script
from kvplan.manifests.words import Script

PREFIX = "LLMDBENCH_"
MODEL = "LLMDBENCH_DEPLOY_CURRENT_MODEL"
MAX_MODELS = 8
#: Pods of a scenario: what their variables begin with, and the one that holds the command or its options.
PODS = (
    ("standalone", "VLLM_STANDALONE_", "ARGS"),
    ("prefill", "VLLM_MODELSERVICE_PREFILL_", "EXTRA_ARGS"),
    ("decode", "VLLM_MODELSERVICE_DECODE_", "EXTRA_ARGS"),
)
_MARK = re.compile(r"REPLACE_ENV_(LLMDBENCH_\w+?)(?=_{4}|\W|$)")
_STORED = re.compile(rf"(/[\w.-]+)+/(?=REPLACE_ENV_{MODEL}\b)")  # where it was downloaded to, by its id


def is_scenario(script: Script) -> bool:
    """Whether it sets the variables of a scenario, and a pod's command among them."""
    return any(f"{PREFIX}{before}{args}" in script.env for _, before, args in PODS)


def read(script: Script, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of the pods that have replicas, one for each model."""
    env = script.env
    methods = _text(env, "DEPLOY_METHODS")
    listed = env.get(f"{PREFIX}DEPLOY_MODEL_LIST", Word(""))
    models = [part.strip() for part in listed.text.split(",") if part.strip()][:MAX_MODELS] if not listed.missing else []
    for title, before, args in PODS:
        word = env.get(PREFIX + before + args)
        method = "standalone" if title == "standalone" else "modelservice"
        if word is None or (methods and method not in methods) or _own(env, before, "REPLICAS") == "0":
            continue
        for model in models or [""]:
            yield from _pod(script, source, title, before, args, Word(model, listed.place) if model else None)


def _pod(script: Script, source: str, title: str, before: str, args: str, model: Word | None) -> Iterator[tuple[Start, Site]]:
    env = dict(script.env)
    if model is not None:
        env[MODEL] = model
    name = PREFIX + before + args
    text, place = script.files.get(f"${name}", (script.env[name].text, script.env[name].place))
    text = re.sub(r"_{4}", " ", _filled(text, env)).strip()
    text = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if not re.search(r"\bvllm\s+serve\b|python3? -m|_serve\.sh", text):
        text = f"vllm serve {_filled(f'REPLACE_ENV_{MODEL}', env)} {text}"
    own = {name.removeprefix(PREFIX): word for name, word in env.items() if not name.startswith(PREFIX)}
    hardware = accelerators.of_pod(_selector(env), [_container(env, before)])
    memory = env.get(f"{PREFIX}{before}CPU_MEM") or env.get(f"{PREFIX}VLLM_COMMON_CPU_MEM")
    n = host.quantity(memory.text) if memory else None
    limits = host.Limits(Given(n, "CPU_MEM", memory.place)) if n and memory else host.Limits()
    note = Finding("note", "note", "what the scenario does not set follows llm-d-benchmark's own defaults, which are not read", place)
    for start in scripts(read_script(text, source, base=place, env={**own, **_variables(script, before, source, env)}), source):
        yield start, Site(title, 1, hardware.device, hardware.n_devices, 1, hardware.why, hardware.place, (note,), limits=limits)


def _filled(text: str, env: Mapping[str, Word]) -> str:
    """With the values of the variables that are marked; one that is not set stays, as a variable of its own."""

    def value(match: re.Match[str]) -> str:
        word = env.get(match[1])
        return f"${{{match[1]}}}" if word is None or word.missing else word.text

    return _MARK.sub(value, _STORED.sub("", text))


def _text(env: Mapping[str, Word], name: str) -> str:
    word = env.get(PREFIX + name)
    return "" if word is None or word.missing else word.text


def _own(env: Mapping[str, Word], before: str, name: str) -> str:
    """A pod's own value, or the one of all pods."""
    return _text(env, before + name) or _text(env, f"VLLM_COMMON_{name}")


def _item(word: Word | None, text: str) -> Item:
    place = word.place if word else Place()
    return Item(text, text, place, place.line)


def _mapping(**items: Item) -> Item:
    return Item(items, "", Place(), 1)


def _selector(env: Mapping[str, Word]) -> Item:
    """The affinity `label:value` as a node selector."""
    word = env.get(f"{PREFIX}VLLM_COMMON_AFFINITY")
    label, _, value = word.text.strip().partition(":") if word and not word.missing else ("", "", "")
    return _mapping(nodeSelector=Item({label: _item(word, value)}, "", Place(), 1)) if value else NOTHING


def _container(env: Mapping[str, Word], before: str) -> Item:
    """Its devices, where their number is said."""
    count = _own(env, before, "ACCELERATOR_NR")
    name = _own(env, before, "ACCELERATOR_RESOURCE") or "nvidia.com/gpu"
    limits = Item({name: _item(env.get(f"{PREFIX}{before}ACCELERATOR_NR"), count)}, "", Place(), 1) if count.isdecimal() else NOTHING
    return _mapping(resources=_mapping(limits=limits))


def _variables(script: Script, before: str, source: str, env: Mapping[str, Word]) -> dict[str, Word]:
    """The engine's environment: lists of {name, value} in files that variables name."""
    found: dict[str, Word] = {}
    for name in (f"{PREFIX}VLLM_COMMON_ENVVARS_TO_YAML", f"{PREFIX}{before}ENVVARS_TO_YAML"):
        text, place = script.files.get(f"${name}", ("", Place()))
        try:
            for document in documents(_filled(text, env), source, place) if text else ():
                found |= requested.variables(document)
        except SpecError:
            continue
    return found
