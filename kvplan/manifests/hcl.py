"""Terraform: containers of Kubernetes, Docker and RunPod resources, texts of manifests, scripts of machines; Nomad: tasks.

Blocks, attributes, strings, lists, maps and here-documents are read (developer.hashicorp.com/terraform/language/syntax); names of
variables and locals with a plain value stand for it; of calls, those that put words together are read. All else is open.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kvplan.engines.common.words import Place
from kvplan.errors import SpecError
from kvplan.manifests import accelerators, clouds, rented
from kvplan.manifests.budget import spend
from kvplan.manifests.command import Start, container, scripts
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.pods import Pod
from kvplan.manifests.pods import read as read_pod
from kvplan.manifests.script import read_script

MAX_DEPTH, MAX_TOKENS = 40, 100_000
_TOKEN = re.compile(
    r"(?P<skip>[ \t\r]+|\#[^\n]*|//[^\n]*)|(?P<note>/\*)|(?P<here><<-?[ \t]*(?P<mark>[A-Za-z_]\w*)[ \t]*\r?\n)"
    r"|(?P<string>\"(?:\\.|\$\{[^{}]*\}|\$(?!\{[^{}]*\})|[^\"\\\n$])*\")|(?P<word>-?[\w*][\w.\-*/]{0,200})|(?P<sign>.|\n)"
)
_REFERENCE = re.compile(r"\$\{\s*((?:var|local)\.\w+)\s*\}")
_PLACE = re.compile(r"\$\{[^{}]*\}")
_INSTEAD = {"command": "entrypoint", "args": "cmd"}
#: Kubernetes' names of what the provider spells with underscores.
_NAMES = {"node_selector": "nodeSelector", "container": "containers", "value_from": "valueFrom", "init_container": "initContainers"}
#: Calls whose first argument is what they give, as far as it matters here.
_SAME = frozenset({
    "tostring", "tonumber", "tobool", "tolist", "toset", "tomap", "sensitive", "nonsensitive", "try", "coalesce", "compact", "distinct",
    "trimspace", "chomp", "jsonencode", "yamlencode", "base64encode", "base64gzip", "textencodebase64",
})  # fmt: skip
_YAML = re.compile(r"^(apiVersion|servingEngineSpec|modelArtifacts):", re.MULTILINE)
_MACHINES = ("machine_type", "instance_type", "size", "shape")
_TEXTS = ("metadata_startup_script", "startup_script", "startup-script", "user_data", "inline", "custom_data", "command")


def is_terraform(source: str) -> bool:
    """By its name: Terraform's, OpenTofu's, Nomad's."""
    return source.lower().endswith((".tf", ".tofu", ".nomad", ".hcl"))


def read(text: str, source: str, manifests: Callable[[Item], Iterator[tuple[Start, Site]]]) -> Iterator[tuple[Start, Site]]:
    """The engines that the file's resources start. `manifests` reads a text that is YAML, or the mapping that it would be."""
    tree = _Reader(text, source).block(0)
    names = {f"var.{name}": body.get("default").text for name, body in _labelled(tree, "variable") if body.get("default").text}
    for locals_ in tree.get("locals"):
        names |= {f"local.{name}": one.text for name, one in locals_.items() if one.text}
    tree = _filled(tree, names)
    machines = [accelerators.instance(part.get(key), key)[0] for key in _MACHINES for part in _having(tree, key)]
    found = {one.value: one for one in machines if one}
    only = next(iter(found.values())) if len(found) == 1 else None  # what a cluster of this file runs on
    for kind in ("resource", "module"):
        for label, body in _labelled(tree, kind):
            yield from _resource(body, label, source, manifests)
            for holder in _having(body, "container_definitions"):
                tasks = holder.get("container_definitions")
                for task in [*tasks, *(one for _, one in tasks.items())]:
                    yield from clouds.task_container(task, 1, source, only)
            if label.startswith("nomad_job") and (spec := body.get("jobspec")):
                inner = _filled(_Reader(spec.text, source, spec.place.line + 1).block(0), names)
                yield from _tasks(inner, source)
    yield from _tasks(tree, source)


def _tasks(tree: Item, source: str) -> Iterator[tuple[Start, Site]]:
    for task in _having(tree.get("job"), "driver", "config"):
        yield from _task(task, source)


def _having(item: Item, *keys: str) -> Iterator[Item]:
    """The outermost parts that have all of these keys, wherever they are nested."""
    if all(item.get(key) for key in keys):
        yield item
        return
    for _, part in item.items():
        yield from _having(part, *keys)
    for part in item:
        yield from _having(part, *keys)


def _task(task: Item, source: str) -> Iterator[tuple[Start, Site]]:
    """developer.hashicorp.com/nomad/docs/drivers/docker: image, entrypoint, command, args; env beside it; a device of the resources."""
    for config in task.get("config"):
        words = [one.word for one in config.get("args")]
        if command := config.get("command"):
            words = [command.word, *words]
        entry = [one.word for one in config.get("entrypoint")]
        env = {name: value.word for one in task.get("env") for name, value in one.items()}
        image = config.get("image")
        named = image.word if image else None
        count = next((one.get("count") for one in task.get("resources", "device")), NOTHING)
        n = count.count("device")
        for start in container(named, entry or None, words or None, env, source, task.place, task.end_line):
            yield start, Site(task.get("$").text, 1, None, n, 1, NO_DEVICE, task.place, span=task.span)


def _labelled(tree: Item, kind: str) -> Iterator[tuple[str, Item]]:
    for one in tree.get(kind):
        yield one.get("$").text, one


def _resource(
    body: Item, label: str, source: str, manifests: Callable[[Item], Iterator[tuple[Start, Site]]]
) -> Iterator[tuple[Start, Site]]:
    pods = list(_having(body, "containers"))
    for pod in pods:
        held = pod.get("containers")
        held = replace(held, value=[_overridden(one) for one in held]) if isinstance(held.value, list) else held
        yield from read_pod(Pod(replace(pod, value={**pod.value, "containers": held}), label), [], 1, source)
    if not pods and label.startswith("docker_container"):
        words = [one.word for one in body.get("command")]
        image = body.get("image")
        for start in container(image.word, None, words or None, {}, source, body.place, body.end_line):
            yield start, Site(label, 1, why=NO_DEVICE, place=body.place, span=body.span)
    if label.startswith("runpod_"):
        named = {re.sub(r"_(\w)", lambda match: match[1].upper(), key): one for key, one in body.items()}
        yield from rented.runpod(replace(body, value=named), 1, source)
    for values in body.get("values") if label.startswith("helm_release") else ():
        if isinstance(values.value, dict):  # yamlencode({ ... })
            yield from manifests(values)
    machine = next((body.get(key) for key in _MACHINES if body.get(key)), None)
    device, why = accelerators.instance(machine, "machine type") if machine else (None, NO_DEVICE)
    for text in _texts(body):
        if _YAML.search(text.text):
            yield from manifests(text)
            continue
        script = read_script(text.text, source, base=text.body)
        for start in scripts(script, source):
            place = machine.place if machine else start.place
            site = Site(label, 1, device, None, 1, why or NO_DEVICE, place, span=text.span, host=start.host, on=start.on)
            yield start, site


def _overridden(one: Item) -> Item:
    """registry.terraform.io/providers/verda-cloud/verda, verda_container: a container with the words that stand instead of its image's."""
    own = one.get("entrypoint_overrides")
    if not own or own.get("enabled").text == "false":
        return one
    return replace(one, value={**one.value, **{key: words for key, said in _INSTEAD.items() if (words := own.get(said))}})


def _texts(item: Item) -> Iterator[Item]:
    """Here-documents and texts that a machine runs."""
    for key, part in item.items():
        if isinstance(part.value, str) and (part.style == "|" or key in _TEXTS):
            yield part
        else:
            yield from _texts(part)
    for part in item:
        if isinstance(part.value, str) and part.style == "|":
            yield part
        else:
            yield from _texts(part)


def _filled(item: Item, names: dict[str, str]) -> Item:
    """With what variables and locals of the file stand for; another expression in a text is a variable of no value."""
    value: Any = item.value
    if isinstance(value, dict):
        value = {key: _filled(part, names) for key, part in value.items()}
    elif isinstance(value, list):
        value = [_filled(part, names) for part in value]
    elif isinstance(value, str) and "${" in value:
        text = _REFERENCE.sub(lambda match: names.get(match[1], match[0]), value)
        text = _PLACE.sub(lambda match: "${" + re.sub(r"\W+", "_", match[0][2:-1]).strip("_")[:60] + "}", text)
        return Item(text, text, item.place, item.end_line, item.style, item.breaks)
    return Item(value, item.text, item.place, item.end_line, item.style, item.breaks)


class _Reader:
    """One pass over the tokens; local to read."""

    def __init__(self, text: str, source: str, first: int = 1) -> None:
        self._source = source
        self._tokens: list[tuple[str, str, int]] = []
        line, at = first, 0
        while at < len(text) and (match := _TOKEN.match(text, at)):
            kind, value, at = match.lastgroup or "", match[0], match.end()
            if match["here"]:
                value, at = self._body(text, at, match["mark"], line)
                kind = "here"
            elif kind == "note":
                at = text.find("*/", at) + 2
                if at < 2:
                    raise SpecError(source, [(f"line {line}", "a comment is not ended")])
            if kind not in ("skip", "note"):
                self._tokens.append((kind, value, line))
            if len(self._tokens) > MAX_TOKENS:
                raise SpecError(source, [(f"line {line}", f"more than {MAX_TOKENS:,} words; check it in parts")])
            line += text.count("\n", match.start(), at)
        spend(len(self._tokens) // 4, first)
        self._at = 0

    def _body(self, text: str, at: int, mark: str, line: int) -> tuple[str, int]:
        """What a here-document holds, and where it ends."""
        end = re.compile(rf"^[ \t]*{mark}[ \t]*\r?$", re.MULTILINE).search(text, at)
        if end is None:
            raise SpecError(self._source, [(f"line {line}", f"the here-document is not ended by {mark[:40]!r}")])
        return text[at : end.start()].removesuffix("\n"), end.end()

    def _next(self) -> tuple[str, str, int]:
        token = self._tokens[self._at] if self._at < len(self._tokens) else ("end", "", self._tokens[-1][2] if self._tokens else 1)
        self._at += 1
        return token

    def _peek(self) -> tuple[str, str, int]:
        token = self._next()
        self._at -= 1
        return token

    def block(self, depth: int) -> Item:
        """Attributes and blocks up to the closing brace; blocks of one kind are a list."""
        if depth > MAX_DEPTH:
            raise SpecError(self._source, [(f"line {self._peek()[2]}", "nested too deep")])
        first, found = self._peek()[2], dict[str, Any]()
        while True:
            kind, text, line = self._next()
            if kind == "end" or text == "}":
                break
            if kind not in ("word", "string"):
                continue
            key, labels = text.strip('"'), list[str]()
            while self._peek()[0] in ("word", "string"):
                labels.append(self._next()[1].strip('"'))
            sign = self._next()[1]
            if sign in ("=", ":"):
                given = self.value(depth + 1)
                is_open = key in ("args", "cmd") and re.fullmatch(r"\$\{[^{}]*\}", given.text)
                found[_NAMES.get(key, key)] = replace(given, value=_flat(given), text="") if is_open else given
            elif sign == "{":
                inner = self.block(depth + 1)
                label = Item(".".join(labels), ".".join(labels), Place(line), line)
                inner = Item({**inner.value, "$": label} if labels else inner.value, "", Place(line), inner.end_line)
                key = _NAMES.get(key, key)
                single = key in ("resources", "limits", "requests", "spec", "template", "metadata")
                found[key] = inner if single else Item([*found.get(key, ()), inner], "", Place(line), inner.end_line)
        return Item(found, "", Place(first), self._tokens[min(self._at, len(self._tokens)) - 1][2] if self._tokens else 1)

    def _parts(self, closing: str, depth: int) -> list[Item]:
        """What stands between brackets, apart by commas; instead of an expression of several values an open one, and the maps in it."""
        if depth > MAX_DEPTH:
            raise SpecError(self._source, [(f"line {self._peek()[2]}", "nested too deep")])
        self._next()
        parts, group = list[Item](), list[Item]()
        while True:
            kind, text, line = self._peek()
            if kind == "end" or text in (closing, ","):
                maps = [one for one in group if isinstance(one.value, dict)]
                name = "options_of_for" if group and group[0].text == "${for}" else "value"
                parts += group if len(group) < 2 else maps or [_open(name, line)]
                group = []
                self._next()
                if text != ",":
                    return parts
            elif text == "\n":
                self._next()
            else:
                one = self.value(depth + 1)
                group.append(_json(one) if text == "jsonencode" else one)  # within brackets it is one text

    def _called(self, name: str, line: int, depth: int) -> Item:
        """What a call gives, of those that are read (developer.hashicorp.com/terraform/language/functions); any other is open."""
        given = self._parts(")", depth)
        end = self._tokens[min(self._at, len(self._tokens)) - 1][2]
        first = given[0] if given else NOTHING
        script = next((one for one in given if one.style == "|"), None)
        if name in ("concat", "flatten") and given:
            return Item([part for one in given for part in _flat(one, deep=name == "flatten")], "", Place(line), end)
        if name == "merge" and given:
            merged = dict[str, Item]()
            for one in given:  # one that is not read may say otherwise of what stands before it
                held = {key: part if isinstance(part.value, (dict, list)) else one for key, part in merged.items()}
                merged = {**merged, **one.value} if isinstance(one.value, dict) else {**held, one.text: one}
            return Item(merged, "", Place(line), end)
        text = _formatted(first.text, given[1:]) if name == "format" else _joined(first.text, given[1:]) if name == "join" else None
        if text is not None:
            return Item(text, text, Place(line), end)
        return script or (first if name in _SAME and given else _open(name, line))

    def value(self, depth: int) -> Item:
        """A text, list, map or here-document; of any other expression its words, open."""
        while self._peek()[1] == "\n":
            self._next()
        kind, text, line = self._next()
        if kind == "here":
            body = re.sub(rf"(?m)^[ \t]{{0,{_margin(text)}}}", "", text)
            return Item(body, body, Place(line), line + text.count("\n") + 1, "|")
        if kind == "string":
            plain = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])
            return Item(plain, plain, Place(line), line)
        if text == "{":
            return self.block(depth + 1)
        if text == "[":
            self._at -= 1
            parts = self._parts("]", depth + 1)
            return Item(parts, "", Place(line), self._peek()[2])
        if text == "(":
            self._at -= 1
            parts = self._parts(")", depth + 1)
            return parts[0] if len(parts) == 1 else _open("value", line)
        if kind != "word":
            return Item("", "", Place(line), line)
        if self._peek()[1] == "(":
            return self._called(text, line, depth + 1)
        if text in ("true", "false", "null") or re.fullmatch(r"-?\d+(\.\d+)?", text):
            return Item({"true": True, "false": False}.get(text, text), text, Place(line), line)
        return Item("${" + text + "}", "${" + text + "}", Place(line), line)


def _open(name: str, line: int) -> Item:
    return Item(f"${{{name}}}", f"${{{name}}}", Place(line), line)


def _flat(item: Item, *, deep: bool = False) -> list[Item]:
    """The parts of a list (`deep`: of the lists within it, too); one that is not read is an open word, which may be several."""
    if isinstance(item.value, list):
        return [each for part in item for each in (_flat(part, deep=True) if deep and isinstance(part.value, list) else [part])]
    if isinstance(item.value, dict):
        return [item]
    return [_open("options_of_" + (re.sub(r"\W+", "_", item.text).strip("_") or "value"), item.place.line)]


def _formatted(text: str, given: list[Item]) -> str | None:
    """`format` with the plain verbs %s, %d, %v of numbers and texts; None where it holds another."""
    verbs = re.findall(r"%(.?)", text)
    if set(verbs) - set("sdv%") or len(verbs) - verbs.count("%") != len(given) or any(not one.text for one in given):
        return None
    texts = iter([one.text for one in given])
    return re.sub(r"%(.)", lambda match: "%" if match[1] == "%" else next(texts), text)


def _joined(by: str, given: list[Item]) -> str | None:
    """`join` of one list of texts; None where it has a part that is none."""
    if len(given) != 1 or not isinstance(given[0].value, list) or any(isinstance(one.value, (list, dict)) for one in given[0]):
        return None
    return by.join(one.text for one in given[0])


def _json(item: Item) -> Item:
    """`jsonencode(...)` as a text; numbers are texts of digits in these Items."""
    if not isinstance(item.value, (dict, list)):
        return item
    text = re.sub(r'(?<=[:\[,] )"(-?\d{1,18})"', r"\1", json.dumps(item.plain()))
    return Item(text, text, item.place, item.end_line)


def _margin(text: str) -> int:
    """Blanks that every line of a here-document begins with."""
    return min((len(line) - len(line.lstrip()) for line in text.splitlines() if line.strip()), default=0)
