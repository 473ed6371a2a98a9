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
from kvplan.manifests import accelerators, configured, images, requested
from kvplan.manifests.budget import grown, spend
from kvplan.manifests.command import Start, scripts, starts
from kvplan.manifests.config import option_words
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.helm import MODELS, reference
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.script import read_script
from kvplan.manifests.templates import formatted
from kvplan.manifests.words import Command

MAX_DEPTH = 30
FEWEST = 3  # options that size memory, where a mapping is one of options, or a file of them
_COMMANDS = re.compile(
    r"(command|cmd|script|run|exec|execstart|entrypoint|launch(er)?|start|serve|shell|program|userdata)s?$|\.(ba)?sh$", re.I
)
_OPTIONS = re.compile(r"^(?P<engine>[a-z]*?)[_-]?(engine|extra|additional|server|cli)?[_-]?(args|arguments|flags|options)$", re.I)
#: Where a resource names its model, from the nearest mapping outwards.
_MODELS = (("hf_name",), ("hf_model",), ("model_id",), *MODELS, ("model", "source"), ("spec", "model", "name"))
_GPUS = (("limits", "nvidia.com/gpu"), ("gpuCount",), ("gpu_count",), ("requestGPU",))
MACHINES = ("instanceType", "instance_type", "machineType", "machine_type")
_AN_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines whose commands or options stand in it."""
    kind = document.get("kind").text
    what = f"the kind {kind} of {document.get('apiVersion').text}" if kind else "this kind of file"
    said = f"{what} is not known here: of it, only the engine's own command or options are read"
    label = f"{kind}/{document.get('metadata', 'name').text}" if kind else ""
    machine = next((one for holder in (document.get("spec"), document) for name in MACHINES if (one := holder.get(name))), NOTHING)
    device, why = accelerators.instance(machine, "machine type") if machine else (None, NO_DEVICE)
    counts = [one.count(name) for *path, name in _GPUS for at in _mappings(document, 0) if (one := at.get(*path, name))]
    gpus = counts[0] if len({each and each.value for each in counts}) == 1 else None
    commands = list(_walk(document, "", (), source))
    for key, start, item in commands or _walk(document, "", (), source, mapped=True):
        site = Site(label or key, n, device, gpus, 1, why, start.place, span=item.span, host=start.host)
        note = Finding("not-known-kind", "warning", said, item.place)
        release, said_so = _release(document, start)
        yield release, site._replace(findings=(note, *said_so), on=start.on, unresolved=_open(start, item))


def _mappings(item: Item, depth: int) -> Iterator[Item]:
    if isinstance(item.value, dict) and depth < MAX_DEPTH:
        yield item
        for _, part in item.items():
            yield from _mappings(part, depth + 1)


def _release(document: Item, start: Start) -> tuple[Start, tuple[Finding, ...]]:
    """The start with the release of the one image of its engine that the document names, where nothing else says one."""
    named = {text: one for at in _mappings(document, 0) if (text := reference(one := at.get("image")) or one.text)}
    of_engine = [(text, known) for text in named if (known := images.find(text)) and known.engine == start.engine]
    if start.version or len(of_engine) != 1 or not of_engine[0][1].version:
        return start, ()
    message = f"{of_engine[0][0][:120]} is the one image of {start.engine} in the file: taken to be what runs"
    return start._replace(version=of_engine[0][1].version), (Finding("note", "note", message, named[of_engine[0][0]].place),)


def _open(start: Start, item: Item) -> tuple[Unresolved, ...]:
    """Options without a command may stand beside others that the file's reader adds."""
    if isinstance(item.value, str) or not start.in_container:
        return ()
    why = "only a list of the engine's options is read; what starts it may add to them"
    return (Unresolved("options", why, "give --tp N and --max-model-len N", item.place),)


def _walk(item: Item, key: str, above: tuple[Item, ...], source: str, *, mapped: bool = False) -> Iterator[tuple[str, Start, Item]]:
    if len(above) > MAX_DEPTH:
        return
    spend(1, item.place.line)
    if isinstance(item.value, dict):
        if above and item.get("enabled").value is False:
            return
        if mapped and (start := _mapped(item, above)):
            yield key, start, item
            return
        for name, part in item.items():
            yield from _walk(part, name, (*above, item), source, mapped=mapped)
    elif isinstance(item.value, list):
        if found := list(_listed(item, key, above, source)):
            yield from ((key, start, item) for start in found)
            return
        for part in item:
            yield from _walk(part, key, (*above, item), source, mapped=mapped)
    elif isinstance(item.value, str) and _COMMANDS.search(key) and names_engine(item.text):
        text = _with_defaults(item, above)
        try:
            script = read_script(text, source, base=item.body, breaks=item.breaks, env=_variables(above))
        except SpecError:
            return
        yield from ((key, start, item) for start in scripts(script, source))
    else:
        yield from ((site.name or key, start, item) for start, site in configured.held(item, key, 1, source))


def _with_defaults(item: Item, above: Sequence[Item]) -> str:
    """A recipe's command with `{name}` as the `defaults` beside it say, which is how its runner fills it in (str.format)."""
    defaults = above[-1].get("defaults") if above else NOTHING
    if not isinstance(defaults.value, dict) and not (above and above[-1].get("recipe_version")):
        return item.text
    values = {name: one.text for name, one in (*above[-1].items(), *defaults.items()) if isinstance(one.value, (str, int, float))}
    text = formatted(item.text, values)
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


def _mapped(item: Item, above: Sequence[Item]) -> Start | None:
    """A mapping whose keys are an engine's options (`vllm: {max_model_len: 8192, ...}`, `maxModelLen`), beside or below a model's name."""
    options = requested.dashed(item)
    named = [Word(f"--{name.replace('_', '-')}") for name, _ in options.items()]
    engine = images.by_options(named) if len(named) >= FEWEST else ""
    model = _model((*above, item)) if engine and len(images.telling(engine, named)) >= FEWEST else None
    if model is None or any(holder.get("enabled").value is False for holder in above):
        return None
    words = images.only(engine, requested.option_words(options, ("model",)))
    before = engines.arguments(engine).model_option(model.text)
    front = (*(Word(text, item.place) for text in before), model)
    return Start(engine, (*front, *words), _variables(above), item.place, item.end_line, in_container=True)


def _model(above: Sequence[Item]) -> Word | None:
    """The model that the nearest mapping names by an id."""
    for holder in reversed(above):
        for path in _MODELS:
            item = holder.get(*path)
            if isinstance(item.value, str) and _AN_ID.fullmatch(item.text):
                return item.word
    return None


def _variables(above: Sequence[Item]) -> dict[str, Word]:
    """Variables that the mappings around it set."""
    found: dict[str, Word] = {}
    for holder in above:
        for key in ("env", "envs", "environment", "vars", "variables"):
            found |= requested.variables(holder.get(key))
    return {name: word for name, word in found.items() if re.fullmatch(r"[A-Za-z_]\w*", name)}


def names_engine(text: str) -> bool:
    """Whether a text names a server's command."""
    return bool(re.search(r"\b(vllm|sglang|trtllm-serve|llama-server|lmdeploy|ollama)\b", text))


def options_of(document: Item) -> str:
    """The engine whose options the keys of a flat mapping are, a model or as many that size its memory among them; empty for all else."""
    words = [Word(f"--{key.replace('_', '-')}") for key, _ in document.items()]
    engine = images.by_options(words) if len(words) >= FEWEST else ""
    named = {"--model", "--model-path", "--model-tag"} & {word.text for word in words}
    is_one = engine and engines.arguments(engine).config == "options" and (named or len(images.telling(engine, words)) >= FEWEST)
    return engine if is_one else ""


def read_options(document: Item, n: int) -> Iterator[tuple[Start, Site]]:
    """The engine that is started with such a file."""
    engine = options_of(document)
    words = tuple(option_words(document, placed=True))
    message = f"read as a file of {engine}'s --config: options of the command that names it win over it"
    note = Finding("option-file", "note", message, document.place)
    yield (
        Start(engine, words, {}, document.place, document.end_line),
        Site("", n, None, None, 1, NO_DEVICE, document.place, (note,), document.span),
    )
