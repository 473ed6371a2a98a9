"""From a start to what it asks: the engine's options read, the model and the devices told apart from what is open."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from kvplan import engines
from kvplan.engines.common.arguments import Answer, Arguments
from kvplan.engines.common.command_line import read
from kvplan.engines.common.environment import open_variable
from kvplan.engines.common.words import Finding, Given, Place, Unresolved, Word, refuse
from kvplan.errors import KvplanError
from kvplan.manifests import adapters, of_others, weights
from kvplan.manifests.budget import spend
from kvplan.manifests.command import Start
from kvplan.manifests.config import config_words, key_options
from kvplan.manifests.host import Limits
from kvplan.manifests.together import chosen, visible
from kvplan.manifests.values import Found

_BESIDE = "put it beside the checked file"
ReadBeside = Callable[[str], "str | None"]


class Site(NamedTuple):
    """Where it runs. `why`: why the device is open, where it is; `nodes`: members of its group, each with n_devices; `host`, `on`,
    `limits`, `copies` as in Found; `cluster`: it starts or joins a Ray cluster, which has more GPUs than the process sees;
    `shared`: what it leaves of n_devices may be for others."""

    name: str
    document: int = 1
    device: Given | None = None
    n_devices: Given | None = None
    nodes: int = 1
    why: str = ""
    place: Place = Place()
    findings: tuple[Finding, ...] = ()
    span: tuple[int, int] | None = None
    model: Given | None = None
    unresolved: tuple[Unresolved, ...] = ()
    host: str = ""
    on: tuple[str, ...] = ()
    limits: Limits = Limits()
    copies: int = 1
    cluster: bool = False
    shared: bool = False


MOUNTED = "/mnt/models"  # where KServe puts what storageUri names
CONTAINER = "NVIDIA_VISIBLE_DEVICES"
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES", CONTAINER)
_DEVICES = re.compile(r"[\w-]*(\s*,\s*[\w-]+)*")
_NONE = ("nodevfiles", "none", "void")
NO_DEVICE = "the file does not say which GPU it runs on"
_CACHED = re.compile(r"(?:^|/)models--([\w.-]+?)--([\w.-]+)/snapshots(?:/[^/]+)?/?$")  # huggingface_hub's cache, by the repository
UNKNOWN = 250  # work of an option that the engine does not have
_LEFT = re.compile(r"\{\{-?\s*[^{}]{1,200}\}\}|^\{[A-Za-z_]\w*\}$")
#: Kinds of text whose own names were filled in as `${name}`: between the quotes of a shell, too, they are no words of the engine's.
_FILLED, _EACH = (".nix", ".j2", ".jinja", ".jinja2"), re.compile(_LEFT.pattern + r"|\$\{\w{1,80}\}")
#: A GGUF file by its address on the Hub.
_IN_REPOSITORY = re.compile(r"([^/:]+/[^/:]+)/(?:resolve|blob)/[^/]+/(?:[^/]+/)*([^/?]+\.gguf)(?:\?.*)?")
PRAGMA = re.compile(r"#\s*kvplan:\s*(.+)")


def make(start: Start, site: Site, source: str, beside: ReadBeside, *, joins: bool = False) -> Found | None:
    """The Found of one start; None for one that only joins another (a worker of a multi-node engine), unless `joins`."""
    if not start.engine:
        return _foreign(start, site, source)
    table = engines.arguments(start.engine)
    marks = _EACH if source.endswith(_FILLED) else _LEFT
    env = {name: _template(word, marks) for name, word in start.env.items()}
    start = start._replace(words=tuple(_template(word, marks) for word in start.words), env=env)
    if (unknown := _unknown(table, start.words)) > 3:
        spend(UNKNOWN * unknown, start.place.line, f"the search for options that {table.name} does not have")
    spend(len(start.env), start.place.line)
    words, more, notes, missing = _with_config(table, start, source, beside)
    answer = read(table, words, start.env, start.version, more)
    if answer.is_worker and not joins:
        return None
    question = dict(answer.question)
    unresolved = [*answer.unresolved, *missing, *site.unresolved]
    unresolved = [u._replace(what="model") if u.what in ("path", "hub") else u for u in unresolved]  # options that name it
    twice = words is not start.words  # options of the command are to win over those of a file
    said = tuple(of_others.told(one, table) for one in answer.findings if not (twice and one.rule == "given-twice"))
    if answer.adapters:

        def text(path: str, one: Given) -> str | None:
            return _file(path, start, beside, one.place)[0]

        of_files, open_adapters = adapters.told(answer.adapters, question, text, engines.facts(start.engine).options)
        said, unresolved = (*said, *of_files), [*unresolved, *open_adapters]
    if answer.is_worker:
        message = "a later node of an engine that another starts: what each of its ranks holds is the same there"
        said = (*said, Finding("note", "note", message, start.place))
    if start.opaque:  # a program of its own may take what the engine would not
        said = tuple(f._replace(severity="warning") if f.severity == "error" else f for f in said)
        unresolved.append(Unresolved("command", start.opaque, "write the engine's command into the file", start.place))
    seen = _visible(start.env)
    if seen and not seen.value and not (table.takes_devices or start.no_gpu or "engine_option.platform" in question):
        said = (*said, refuse(f"{seen.spelled} hides every GPU: {table.name} finds none and would not start", seen.place))
    more_asked, more_open = _hardware(start, site, answer, seen)
    question |= more_asked
    unresolved += more_open
    model_given = answer.model or site.model
    if site.model and model_given and str(model_given.value).startswith(MOUNTED):
        below, uri = str(model_given.value).removeprefix(MOUNTED).strip("/"), str(site.model.value)
        model_given = (
            site.model._replace(value=f"{uri.rstrip('/')}/{below}") if below and not uri.startswith(("hf:", "oci:")) else site.model
        )
    model, open_model = _model(model_given, start, any(u.what == "model" for u in unresolved))
    if known := weights.meant(model) if model and "$" in model else None:
        hint = f"; did you mean {known}?"
        unresolved = [u._replace(why=u.why + hint, give=f"--model {known}") if u.what == "model" else u for u in unresolved]
    unresolved += open_model
    has_device = "device" in question or any(u.what == "device" for u in unresolved)
    if not has_device and question.get("engine_option.platform") is None:
        unresolved.append(Unresolved("device", site.why or NO_DEVICE, "--device NAME", site.place if site.why else start.place))
    places = {name: one.place for name, one in question.items()}
    places["command"] = start.place
    if model_given:
        places["model"] = model_given.place
    return Found(
        file=source,
        document=site.document,
        span=site.span or (start.place.line, start.end_line),
        name=site.name or f"{start.engine} {model or start.place.line}",
        engine=start.engine,
        engine_version=start.version,
        model=model,
        question=_plain(question),
        places=places,
        unresolved=tuple(dict.fromkeys(unresolved)),
        findings=tuple(f._replace(file=source) for f in dict.fromkeys((*start.faults, *said, *notes, *site.findings))),
        local_dp=answer.local_dp,
        weights=answer.weights or start.weights,
        trusts=answer.trusts,
        by_kind=answer.by_kind,
        host=site.host,
        on=chosen(visible(site.on, start.env), start.words) if site.host else (),
        limits=start.limits if site.limits == Limits() else site.limits,
        copies=site.copies,
        shared=site.shared or any(word.missing for name in VISIBLE if (word := start.env.get(name))),
    )


def _hardware(start: Start, site: Site, answer: Answer, seen: Given | None) -> tuple[dict[str, Given], list[Unresolved]]:
    """The devices that the file gives beside the command, and what stays open of them. `seen`: those that the process sees."""
    asked: dict[str, Given] = {}
    cpu: tuple[str, Place] | None = None
    if seen and not seen.value and engines.arguments(start.engine).takes_devices:  # as llama.cpp's --device none
        return {"n_gpu_layers": seen, **({"device": device} if (device := site.device or start.device) else {})}, []
    n_devices = _fewest(site.n_devices or start.gpus, None if site.cluster or (seen and not seen.value) else seen)
    if n_devices and n_devices.value == 0:
        cpu = f"{n_devices.spelled} is 0", n_devices.place
    elif start.no_gpu:
        cpu = start.no_gpu, start.place
    if "engine_option.platform" in answer.question:
        cpu = None
    if n_devices and "n_devices" not in answer.question and (n_devices.value or not cpu):
        nodes = 1 if answer.local_dp else max(site.nodes, answer.nodes)  # ranks of one node need that node's devices
        asked["n_devices"] = n_devices._replace(value=n_devices.value * nodes)
    if device := site.device or start.device:
        asked["device"] = device
    if cpu is None:
        return asked, []
    return asked, [Unresolved("device", f"{cpu[0]}: it runs without a GPU, which is not modelled", "--device NAME", cpu[1])]


def _template(word: Word, marks: re.Pattern[str]) -> Word:
    """A word that a mark of a template still stands in, such as Helm's, Jinja's or a `{name}` of Python's, is open."""
    left = tuple(match[0][:60] if match[0].startswith("{{") else match[0].strip("${}") for match in marks.finditer(word.text))
    return word._replace(missing=(*word.missing, *left)) if left and not word.missing else word


def _foreign(start: Start, site: Site, source: str) -> Found:
    """An engine that is not modelled, named."""
    if not start.foreign:
        one = Unresolved("document", start.opaque, "write it such that YAML reads it", start.place)
        return Found(source, 1, (start.place.line, start.end_line), site.name, "", None, None, {}, {"command": start.place}, (one,))
    engine = next((name for name in engines.ENGINES if start.foreign.startswith(f"{engines.facts(name).title}'s")), "")
    if engine:
        why, give = f"the command of {start.foreign} is not read", f"ask kvplan estimate MODEL --engine {engine}, with its sizes"
    else:
        why = f"engine {start.foreign} is not modelled"
        give = f"for the model's own figures ask kvplan estimate MODEL, or check it as one of {', '.join(engines.served())}"
    return Found(
        source, site.document, site.span or (start.place.line, start.end_line), site.name or start.foreign, "", None, None, {},
        {"command": start.place}, (Unresolved("engine", why, give, start.place),),
    )  # fmt: skip


def _unknown(table: Arguments, words: Sequence[Word]) -> int:
    """About how many options the engine does not have: each takes a search for the nearest that it has."""
    names = {name.lstrip("-") for row in table.rows for name in row.names}
    asked = (w.text.partition("=")[0].lstrip("-").replace("_", "-") for w in words if w.text[:1] == "-")
    return sum(name.partition(".")[0].removeprefix("no-") not in names for name in asked)


def _plain(question: Mapping[str, Given]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, one in question.items():
        if name.startswith("engine_option."):
            options[name.removeprefix("engine_option.")] = one.value
        else:
            values[name] = one.value
    return values | ({"engine_option": options} if options else {})


def _with_config(
    table: Arguments, start: Start, source: str, beside: ReadBeside
) -> tuple[Sequence[Word], dict[str, Given], list[Finding], list[Unresolved]]:
    """The words with those of a configuration file of options, or what one of keys sets."""
    option = next((a for a in table.rows if a.to == "@config"), None)
    if option is None or table.config not in ("options", "keys"):
        return start.words, {}, [], []
    for n, word in enumerate(start.words):
        name, equals, path = word.text.partition("=")
        if name not in option.names:
            continue
        value = word._replace(text=path) if equals else start.words[n + 1] if n + 1 < len(start.words) else None
        if value is None:
            break
        if value.missing:
            return start.words, {}, [], [open_variable("@config", name, value.missing, word.place)]
        text, place, notes = _file(value.text, start, beside, word.place)
        if text is None:
            why = f"{name} {value.text}: the file is not at hand"
            give = "mount it from beside the checked file, or write its options into the command" if start.in_container else _BESIDE
            return start.words, {}, [], [Unresolved("config", why, give, word.place)]
        try:
            if table.config == "keys":
                given, findings, missing = key_options(table, text, source, place)
                return start.words, given, [*notes, *findings], missing
            return [*config_words(text, source, place), *start.words], {}, notes, []
        except KvplanError as error:
            return start.words, {}, [Finding("bad-config", "error", f"{name} {value.text}: {error}", word.place)], []
    return start.words, {}, [], []


def _file(path: str, start: Start, beside: ReadBeside, place: Place) -> tuple[str | None, Place | None, list[Finding]]:
    path = path.removeprefix("./")
    if path in start.files:
        return start.files[path][0], start.files[path][1], []
    if start.in_container or path.startswith(("/", "~")):
        same = path.rsplit("/", 1)[-1]
        inside = {name.rsplit("/", 1)[-1]: name for name in start.files}
        if same in inside:
            return start.files[inside[same]][0], start.files[inside[same]][1], []
        there = next(
            (f"{host}{path[len(at) :]}".lstrip("/") for at, host in start.mounts.items() if path == at or path.startswith(f"{at}/")), None
        )
        if there is None:
            return None, None, []
        path = there
    text = beside(path)
    note = [Finding("config-read", "note", f"{path} is read from beside this file", place)] if text is not None else []
    return text, None, note


def _fewest(there: Given | None, visible: Given | None) -> Given | None:
    """Of the devices there, those the process is let see."""
    if there is None or visible is None:
        return there or visible
    return visible if visible.value < there.value else there


def _visible(env: Mapping[str, Word]) -> Given | None:
    """CUDA_VISIBLE_DEVICES and its like: how many devices the process sees. An entry that names none ends the list ("CUDA Environment
    Variables" of its programming guide); an empty one hides all, where Docker's own NVIDIA_VISIBLE_DEVICES says nothing."""
    for name in VISIBLE:
        word = env.get(name)
        text = word.text.strip().strip("\"'") if word else ""
        if word is None or word.missing or text == "all" or (name == CONTAINER and text in ("", "none", "void")):
            continue
        if _DEVICES.fullmatch(text):
            seen = takewhile(lambda part: not part.startswith("-") and part.lower() not in _NONE, re.split(r"\s*,\s*", text))
            return Given(sum(bool(part) for part in seen), name, word.place)
    return None


def _model(given: Given | None, start: Start, already: bool) -> tuple[str | None, list[Unresolved]]:
    if given is not None and already:  # `$FOLDER/Qwen3-8B`, which is open
        return str(given.value), []
    if given is None:
        if already or start.opaque:
            return None, []
        beside = engines.arguments(start.engine).beside
        why = f"{beside[0]} loads the model that is asked for" if beside else "the command names no model"
        return None, [Unresolved("model", why, "--model ID", start.place)]
    text = str(given.value)
    if not text.strip("'\" "):
        return None, [] if already else [Unresolved("model", "the command's model is empty", "--model ID", given.place)]
    if cached := _CACHED.search(text):
        return f"{cached[1]}/{cached[2]}", []
    name = text.removeprefix("hf://").removeprefix("https://huggingface.co/")
    if (file := _IN_REPOSITORY.fullmatch(name)) and (type_ := weights.by_name(file[2])):
        name = f"{file[1]}:{type_}"
    is_path = name.startswith(("/", "./", "../", "~")) or name.endswith(".gguf") or "\\" in name
    if is_path or "://" in name or name.startswith(("s3:", "gs:")):
        place = "inside the container" if start.in_container else "on the machine it runs on"
        why = f"{text} is a path {place}" if is_path else f"{text} is in a store that is not read"
        known = weights.meant(text)
        give = f"--model {text}={known or 'ID'}"
        return text, [Unresolved("model", why + (f"; did you mean {known}?" if known else ""), give, given.place)]
    return name, []
