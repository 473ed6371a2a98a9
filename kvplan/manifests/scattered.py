"""YAML of a kind that is not known: the commands and the lists of an engine's options that stand in it, and nothing else of it.

Pipelines, task files, scenarios and custom resources put an engine's command under a key that says so (`command`, `script`, `cmds`,
`customCommand`), or its options under one that says that (`vllmArgs`, `extraArgs`). What such a file means by its other keys is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kvplan import engines
from kvplan.engines.common.words import Finding, Unresolved, Word
from kvplan.errors import SpecError
from kvplan.manifests import images, requested
from kvplan.manifests.budget import grown, spend
from kvplan.manifests.command import Start, scripts, starts
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.script import read_script
from kvplan.manifests.templates import formatted
from kvplan.manifests.words import Command

MAX_DEPTH = 30
_COMMANDS = re.compile(r"(command|cmd|script|run|exec|execstart|entrypoint|launch|launcher|start|serve|shell|program)s?$|\.(ba)?sh$", re.I)
_OPTIONS = re.compile(r"^(?P<engine>[a-z]*?)[_-]?(engine|extra|additional|server|cli)?[_-]?(args|arguments|flags|options)$", re.I)
#: Where a resource names its model, from the nearest mapping outwards.
_MODELS = (("model", "name"), ("model", "id"), ("model", "source"), ("modelId",), ("modelName",), ("model",), ("spec", "model", "name"))
_AN_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines whose commands or options stand in it."""
    kind = document.get("kind").text
    what = f"the kind {kind} of {document.get('apiVersion').text}" if kind else "this kind of file"
    said = f"{what} is not known here: of it, only the engine's own command or options are read"
    label = f"{kind}/{document.get('metadata', 'name').text}" if kind else ""
    for key, start, item in _walk(document, "", (), source):
        site = Site(label or key, n, None, None, 1, NO_DEVICE, start.place, span=(item.place.line, item.end_line), host=start.host)
        note = Finding("not-known-kind", "warning", said, item.place)
        yield start, site._replace(findings=(note,), on=start.on, unresolved=_open(start, item))


def _open(start: Start, item: Item) -> tuple[Unresolved, ...]:
    """Options without a command may stand beside others that the file's reader adds."""
    if isinstance(item.value, str) or not start.in_container:
        return ()
    why = "only a list of the engine's options is read; what starts it may add to them"
    return (Unresolved("options", why, "give --tp N and --max-model-len N", item.place),)


def _walk(item: Item, key: str, above: tuple[Item, ...], source: str) -> Iterator[tuple[str, Start, Item]]:
    if len(above) > MAX_DEPTH:
        return
    spend(1, item.place.line)
    if isinstance(item.value, dict):
        for name, part in item.items():
            yield from _walk(part, name, (*above, item), source)
    elif isinstance(item.value, list):
        if found := list(_listed(item, key, above, source)):
            yield from ((key, start, item) for start in found)
            return
        for part in item:
            yield from _walk(part, key, (*above, item), source)
    elif isinstance(item.value, str) and _COMMANDS.search(key) and _names_engine(item.text):
        text = _with_defaults(item, above)
        try:
            script = read_script(text, source, base=item.body, breaks=item.breaks, env=_variables(above))
        except SpecError:
            return
        yield from ((key, start, item) for start in scripts(script, source))


def _with_defaults(item: Item, above: Sequence[Item]) -> str:
    """A recipe's command with `{name}` as the `defaults` beside it say, which is how its runner fills it in (str.format)."""
    defaults = above[-1].get("defaults") if above else NOTHING
    if not isinstance(defaults.value, dict) and not (above and above[-1].get("recipe_version")):
        return item.text
    text = formatted(item.text, {name: value.text for name, value in defaults.items() if isinstance(value.value, (str, int, float))})
    grown(len(item.text), len(text), item.place.line)
    return text


def _listed(item: Item, key: str, above: Sequence[Item], source: str) -> Iterator[Start]:
    """A list of words: a command, or an engine's options under a key that says so."""
    words = tuple(Word(part.text, part.body) for part in item if not isinstance(part.value, (dict, list)))
    if not words or len(words) < len(list(item)):
        return
    env = _variables(above)
    if _COMMANDS.search(key) and (found := list(starts(Command(words, env, words[0].place, item.end_line), source, {}))):
        yield from found
        return
    match = _OPTIONS.search(key)
    if match is None or not words[0].text.startswith("-"):
        return
    named = images.like(match["engine"].lower()) if match["engine"] else None
    engine = named.engine if named else images.by_options(words)
    if not engine:
        return
    model = _model(above)
    before = engines.arguments(engine).model_option(model.text) if model else ()
    front = (*(Word(text, item.place) for text in before), model) if model else ()
    yield Start(engine, (*front, *words), env, item.place, item.end_line, in_container=True)


def _model(above: Sequence[Item]) -> Word | None:
    """The model that the nearest mapping names by an id."""
    for holder in reversed(above):
        for path in _MODELS:
            item = holder.get(*path)
            if isinstance(item.value, str) and _AN_ID.fullmatch(item.text):
                return Word(item.text, item.place)
    return None


def _variables(above: Sequence[Item]) -> dict[str, Word]:
    """Variables that the mappings around it set."""
    found: dict[str, Word] = {}
    for holder in above:
        for key in ("env", "envs", "environment", "vars", "variables"):
            found |= requested.variables(holder.get(key))
    return {name: word for name, word in found.items() if re.fullmatch(r"[A-Za-z_]\w*", name)}


def _names_engine(text: str) -> bool:
    return bool(re.search(r"\b(vllm|sglang|trtllm-serve|llama-server|lmdeploy|ollama)\b", text))
