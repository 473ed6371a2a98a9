"""Files that run commands: GitLab CI (`script`), GitHub Actions (`run`), Ansible (shell tasks, containers, k8s), llama-swap.

docs.gitlab.com/ci/yaml; docs.github.com/actions, "Workflow syntax"; docs.ansible.com, community.docker.docker_container and its like;
github.com/mostlygeek/llama-swap, config.example.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvplan.engines.common.words import Finding, Given, Word
from kvplan.manifests import images, requested
from kvplan.manifests.command import Start, container, scripts
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.lexer import split as lexed
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.script import read_script
from kvplan.manifests.words import replaced

_EXPRESSION = re.compile(r"\$\{\{\s*([^{}]{1,200}?)\s*\}\}")
_OPEN = re.compile(r"\{\{([^{}]{1,60})")
_LITERAL = re.compile(r"'([^']*)'|(-?\d[\d.]*|true)")
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*(\|[^{}]*|[.\[][^{}]*)?\}\}")
_MACRO = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")
_REMARK = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_NO_REMARK = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|(?<=\s)#", re.DOTALL)
#: What llama-swap itself fills in.
SWAPS = {"PORT": "8080", "MODEL_ID": "model", "PID": "1"}
_OF_SWAP = ("ttl", "cmdStop", "checkEndpoint", "useModelName", "aliases")
_CONTAINERS = ("docker_container", "podman_container")
_SHELLS = ("shell", "command", "raw")


def is_swap(document: Item) -> bool:
    """Models that have commands; some of them in a file of their own."""
    return any(
        item.get("cmd") and (document.get("models") or any(item.get(key) for key in _OF_SWAP)) for _, item in _models(document).items()
    )


def _models(document: Item) -> Item:
    return document.get("models") or document


def swap(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engine of every model."""
    macros = {name: item.text for name, item in document.get("macros").items()}
    beside = _side_by_side(document)
    for name, item in _models(document).items():
        own = {**SWAPS, **macros, **{key: value.text for key, value in item.get("macros").items()}}
        command = item.get("cmd")
        word = replaced(_REMARK, lambda _: "", Word(command.text, command.body, (), command.breaks))
        for _ in range(4):  # macros of macros
            word = replaced(_MACRO, lambda m, own=own: own.get(m[1], m[0].replace("${env.", "${")), word)  # type: ignore[misc]
        env = {pair[0]: Word(pair[2], entry.place) for entry in item.get("env") if (pair := entry.text.partition("="))[1]}
        text = re.sub(r"(?<!\\)\n", " \\\n", word.text.rstrip())  # one command, whatever its lines (billziss-gh/golib shlex.go)
        text = _NO_REMARK.sub(lambda m: m[0] if m[0] != "#" else "\\#", text)  # behind a word it is none: its words are the server's
        found = scripts(read_script(text, source, base=word.place, breaks=word.breaks, env=env), source)
        unread = Start("", (), env, word.place, item.end_line, foreign=f"of the command {' '.join(text.split())[:60]!r}")
        for start in found or ([unread] if command else []):
            yield start, Site(f"models/{name}", n, why=NO_DEVICE, place=item.place, span=item.span, findings=beside.get(name, ()))


def _side_by_side(document: Item) -> dict[str, tuple[Finding, ...]]:
    """Model -> what is to be said of it where its group keeps others loaded beside it (`swap: false`)."""
    found: dict[str, tuple[Finding, ...]] = {}
    for name, group in document.get("groups").items():
        members = [one.text for one in group.get("members")]
        if group.get("swap").value is False and len(members) > 1:
            message = f"the group {name[:60]} keeps its {len(members)} models loaded side by side; say what the others hold with --reserve"
            found |= dict.fromkeys(members, (Finding("not-modelled-more", "warning", message, group.get("swap").place),))
    return found


def _is_github(document: Item) -> bool:
    return any(job.get("steps") for _, job in _jobs(document))


def _jobs(document: Item) -> list[tuple[str, Item]]:
    """A workflow's jobs, or what an action of one's own runs."""
    return [*document.get("jobs").items(), *([("runs", document.get("runs"))] if document.get("runs", "steps") else [])]


def _is_gitlab(document: Item) -> bool:
    return any(job.get("script") for _, job in document.items()) and not document.get("services")


def _github(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    whole = requested.variables(document.get("env"))
    started = [document.get("on", event) for event in ("workflow_dispatch", "workflow_call")]
    inputs = [pair for one in (document, *started) for pair in one.get("inputs").items()]
    given = {f"inputs.{name}": item.get("default").text for name, item in inputs}
    for name, job in _jobs(document):
        env = {**whole, **requested.variables(job.get("env"))}
        for step in job.get("steps"):
            if run := step.get("run"):
                own = {**env, **requested.variables(step.get("env"))}
                known = {key: _plain(word, given) for key, word in own.items()}
                held = given | {f"env.{key}": word.text for key, word in known.items() if not word.missing}
                yield from _run([run], known, f"jobs/{name}", n, source, held)


def _plain(word: Word, given: Mapping[str, str]) -> Word:
    """A value that an expression of the workflow fills in is open, unless what it asks for is known."""
    text = _EXPRESSION.sub(lambda match: _expressed(match[1], given), word.text)
    left = _OPEN.search(text)
    return word._replace(text=text, missing=(*word.missing, left[1]) if left else word.missing)


def _expressed(expression: str, given: Mapping[str, str]) -> str:
    """What GitHub puts in place of `inputs.x || 8192`: the first of its parts that is known and says something; else one open word."""
    for part in expression.split("||"):
        literal = _LITERAL.fullmatch(part.strip())
        if text := given.get(part.strip()) or (literal and (literal[1] or literal[2])):
            return text
    return "{{" + re.sub(r"[^\w.]+", ".", expression).strip(".") + "}}"


def _gitlab(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    whole = _gitlab_variables(document.get("variables"))
    default = document.get("default", "before_script") or document.get("before_script")
    for name, job in document.items():
        if not job.get("script"):
            continue
        parts = [part for key in ("before_script", "script") for part in _list(job.get(key) or (default if key != "script" else NOTHING))]
        image = images.find((job.get("image", "name") or job.get("image") or document.get("image")).text)
        for start, site in _run(parts, {**whole, **_gitlab_variables(job.get("variables"))}, name, n, source):
            yield start._replace(version=start.version or (image.version if image and image.engine == start.engine else None)), site


def _gitlab_variables(item: Item) -> dict[str, Word]:
    return {name: Word((value.get("value") or value).text, value.place) for name, value in item.items()}


def _list(item: Item) -> list[Item]:
    return [*item] if isinstance(item.value, list) else [item] if item else []


def _run(
    parts: list[Item], env: Mapping[str, Word], name: str, n: int, source: str, given: Mapping[str, str] = {}
) -> Iterator[tuple[Start, Site]]:
    """The engines of lines that one shell runs after each other; `given`: expressions with a default."""
    known = dict(env)
    for part in parts:
        text = _EXPRESSION.sub(lambda match: _expressed(match[1], given), part.text)
        script = read_script(text, source, base=part.body, breaks=part.breaks, env=known, ends=True)
        for start in scripts(script, source):
            yield start, _site(name, n, part, start)
        known |= script.env


def _site(name: str, n: int, item: Item, start: Start) -> Site:
    return Site(name, n, None, None, 1, NO_DEVICE, start.place, span=item.span, host=start.host, on=start.on)


def _tasks(document: Item) -> Iterator[tuple[Item, Item]]:
    """(a task, the play around it): of a playbook, or of a role's list of tasks."""
    for play in document:
        if play.get("hosts") or play.get("tasks") or play.get("block"):
            for key in ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue"):
                for task in play.get(key):
                    inner = [one for one, _ in _tasks(Item([task], "", task.place, task.end_line))] if task.get("block") else [task]
                    yield from ((one, play) for one in inner)
        elif any(_module(key) for key, _ in play.items()):
            yield play, NOTHING


def _module(key: str) -> str:
    last = key.rpartition(".")[2]
    return last if last in (*_CONTAINERS, *_SHELLS) and (last == key or key.count(".") == 2) else ""


def _ansible(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    for task, play in _tasks(document):
        known = {**_literals(play.get("vars")), **_literals(task.get("vars"))}
        name = task.get("name").text or "task"
        for key, item in task.items():
            module = _module(key)
            if module in _CONTAINERS:
                yield from _container(item, known, name, n, source)
            elif module:
                text = (
                    item
                    if isinstance(item.value, str)
                    else item.get("cmd") or Item(" ".join(i.text for i in item.get("argv")), "", item.place, item.end_line)
                )
                said = _said(text, known)
                part = Item(said.text, said.text, text.place, text.end_line, text.style, text.breaks)
                yield from _run([part], requested.variables(task.get("environment")), name, n, source)


def _literals(item: Item) -> dict[str, str]:
    return {key: value.text for key, value in item.items() if not isinstance(value.value, (dict, list)) and "{{" not in value.text}


def _said(item: Item, known: Mapping[str, str]) -> Word:
    """A text with the play's own variables in it; others stay as they are written."""

    def value(match: re.Match[str]) -> str:
        if match[2]:  # `{{ name | int }}`, `{{ groups['x'] }}`: what its filter makes of it is open
            return (
                known.get(match[1], "")
                if re.fullmatch(r"\|\s*(int|string|quote)\s*", match[2]) and match[1] in known
                else f"${{{match[1]}}}"
            )
        return known.get(match[1], match[0].replace(" ", ""))

    return Word(_VARIABLE.sub(value, item.text), item.body, (), item.breaks)


def _container(item: Item, known: Mapping[str, str], name: str, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    def split(part: Item) -> list[Word] | None:
        if isinstance(part.value, list):
            return [_said(one, known) for one in part]
        if not part:
            return None
        return list(lexed(_said(part, known), source))

    env = {key: _said(value, known) for key, value in item.get("env").items()}
    count, ids, place = None, [], item.place
    for request in item.get("device_requests"):
        place = request.place
        text, ids = request.get("count").text, [one.text for one in request.get("device_ids")]
        count = Given(int(text[:6]), "device_requests", place) if text.isdecimal() and int(text[:6]) else count
        count = Given(len(ids), "device_requests", place) if ids else count
    image = _said(item.get("image"), known)
    words, entry = split(item.get("command")), split(item.get("entrypoint"))
    for start in container(image if image.text else None, entry, words, env, source, item.place, item.end_line):
        yield (
            start,
            Site(name, n, None, count, 1, NO_DEVICE, place, span=item.span, host=f"{n}", on=tuple(ids) or ("*",)),
        )


#: What tells each, and what reads it.
KINDS = (
    (is_swap, swap), (_is_github, _github), (_is_gitlab, _gitlab), (lambda document: any(_tasks(document)), _ansible),
)  # fmt: skip
