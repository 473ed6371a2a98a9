"""Which engine a command starts: behind wrappers, python -m, `sh -c` and `docker run`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvplan import engines
from kvplan.engines.common.words import Finding, Given, Place, Word, words
from kvplan.errors import SpecError
from kvplan.manifests import cloud_run, docker_run, foreign, images, runpod
from kvplan.manifests.budget import spend
from kvplan.manifests.host import Limits
from kvplan.manifests.placed import in_a_remark, lost_behind, runs_from
from kvplan.manifests.programs import CONTAINERS, DETACHED, ELSEWHERE, LAUNCHERS, SHELLS, base, for_shell, kserve_words, ssh_target
from kvplan.manifests.script import read_script
from kvplan.manifests.words import ASIDE, Command, Script
from kvplan.manifests.wrapped import NO_SINGLE, Files, behind, first_plain, handed, is_other, is_server, named, script_option


class Start(NamedTuple):
    """An engine about to run: its own words, its environment, and what the command around it says.

    gpus    how many the container gets, where the command says so; device: which
    files   texts that the script writes, by name; mounts: path in the container -> path beside the checked file
    opaque  why the command can not be followed to the engine; its words are then empty
    faults  what the shell or the container runtime would stumble over
    foreign what it is called, of an engine that is not modelled; `engine` is then empty
    weights the engine's word for what the checkpoint is stored in, where no option of its command says it
    stays   it is left running; host: what a script leaves running with it on one machine, empty where that is not known
    no_gpu  that its image is built for CPUs, or for accelerators that are no GPUs
    machine where it runs, if not here (`?`: not known); on: the devices of that machine that it is given (together.py)
    limits  what its container may hold, where its own command says so
    """

    engine: str
    words: tuple[Word, ...]
    env: Mapping[str, Word]
    place: Place
    end_line: int
    version: str | None = None
    gpus: Given | None = None
    in_container: bool = False
    files: Mapping[str, tuple[str, Place]] = {}
    mounts: Mapping[str, str] = {}
    opaque: str = ""
    faults: tuple[Finding, ...] = ()
    foreign: str = ""
    weights: Given | None = None
    stays: bool = False
    host: str = ""
    machine: str = ""
    no_gpu: str = ""
    on: tuple[str, ...] = ("*",)
    device: Given | None = None
    limits: Limits = Limits()


MAX_NESTED, MAX_BRANCHES = 4, 16  # branches of a script, that may end in the same command


def starts(command: Command, source: str, files: Files, depth: int = 0) -> Iterator[Start]:
    """The engines that a command starts; none for any other command, nor for `name = value` of another language."""
    first, second = [*(w.text for w in command.words[:2]), "", ""][:2]
    asks = any(w.text in ("--help", "--version", "--list-devices", "--cache-list") for w in command.words)
    if asks or second == "=" or (first, second) == ("command", "-v"):
        return
    behind = {base(first)} if first else set()
    for one in _starts(command, source, files, depth):
        machine = "?" if ELSEWHERE & behind else ssh_target(command.words) if "ssh" in behind else one.machine
        yield one._replace(machine=machine, stays=one.stays or bool(DETACHED & behind))


def _starts(command: Command, source: str, files: Files, depth: int = 0) -> Iterator[Start]:
    spend(1 + len(command.words), command.place.line)
    program = behind(command.words, files)
    if program is None and depth < MAX_NESTED and (cloud := cloud_run.read(command.words)):
        env = {**command.env, **cloud.env}
        at, end = command.place, command.end_line
        found = container(cloud.image, cloud.entry, cloud.args, env, source, at, end, gpus=cloud.gpus, depth=depth + 1)
        yield from (one._replace(device=cloud.device) for one in found)
        return
    if program is None:
        yield from _launched(command, source, files, depth)
        return
    name, own = program.name, program.own
    env = {**command.env, **_env_prefix(command.words[: program.at])}
    place = command.words[program.at].place

    def start(engine: str, words: Sequence[Word], opaque: str = "") -> Start:
        return Start(engine, tuple(words), env, place, command.end_line, files=files, opaque=opaque)

    if name in SHELLS:
        yield from _shell(own, env, source, files, depth)
    elif name == "eval":
        yield from _text(Word(" ".join(w.text for w in own), place), env, source, files, depth)
    elif name in files:
        yield from _text(_held(files[name], place), env, source, files, depth, [command.words[program.at], *own])
    elif name in CONTAINERS:
        yield from _docker(own[1:], command._replace(words=command.words[program.at :]), source, files, depth)
    elif name == "kserve-huggingfaceserver":
        yield start("vllm", kserve_words(own))
    elif name == "llama-tools":
        if own and own[0].text in ("-s", "--server"):
            yield start("llama.cpp", own[1:])
    elif program.foreign:
        yield start("", ())._replace(foreign=program.foreign)
    else:
        yield start(program.engine, own, program.opaque)


def _held(file: tuple[str, Place], caller: Place) -> Word:
    """A script's text; one that lies beside the checked file (called.py) is told where it is called."""
    text, at = file
    return Word(text, caller, (), ((0, caller.line),)) if at == Place(ASIDE) else Word(text, at)


def _launched(command: Command, source: str, files: Files, depth: int) -> Iterator[Start]:
    """The command that a launcher takes: as one word, or as all that follow."""
    if not command.words or base(command.words[0].text) not in LAUNCHERS or depth >= MAX_NESTED:
        return
    first = runs_from(command.words)
    for n, word in enumerate(command.words[1:], 1):
        if first is None or n < first:
            continue
        if " " in word.text.strip():
            env = {**command.env, **_env_prefix(command.words[:n])}
            yield from _text(word, env, source, files, depth)
        elif behind(command.words[n:], files, within=1):
            inner = command._replace(words=command.words[n:], env={**command.env, **_env_prefix(command.words[:n])})
            for one in starts(inner, source, files, depth + 1):
                yield one._replace(faults=(*one.faults, *_of_compose(command.words[:n])))
            return


def _of_compose(before: Sequence[Word]) -> tuple[Finding, ...]:
    """`docker compose run SERVICE`: the rest of the container is said elsewhere."""
    if not {"compose", "docker-compose", "podman-compose"} & {base(w.text) for w in before[:2]}:
        return ()
    message = "it runs in a service of a compose file: the image, devices and variables that stand there are not read with this command"
    return (Finding("not-read", "note", message, before[0].place),)


def container(
    image: Word | None,
    entry: Sequence[Word] | None,
    args: Sequence[Word] | None,
    env: Mapping[str, Word],
    source: str,
    place: Place,
    end_line: int,
    *,
    files: Files | None = None,
    gpus: Given | None = None,
    depth: int = 0,
) -> list[Start]:
    """The engines of a container: `entry` takes the place of the image's entrypoint, `args` of its command, as the runtime does it."""
    reference, decided = _reference(image), list[Finding]()
    known = images.find(reference)
    here = image.place if image and place.line <= image.place.line <= end_line else place
    if entry is None and args is None and runpod.is_worker(reference):
        args, decided = runpod.options(reference, env, gpus, here)
        env = {name: word for name, word in env.items() if not runpod.own(name)}
    if entry is not None:
        run = [*entry, *(args or ())]
    elif known is None and args and for_shell(args):
        run = [Word("bash", args[0].place), *args]
        decided.append(Finding("note", "note", f"{args[0].text} is taken to be for a shell, as the image's entrypoint", args[0].place))
    else:
        own = words(*(known.entrypoint if known else ()), place=here)
        run = [*own, *(args if args is not None else words(*(known.default if known else ()), place=here))]
    command = Command(tuple(run), env, run[0].place if run else place, end_line)

    def of(engine: str) -> str | None:
        return known.version if known and known.engine == engine else None

    found: list[Start] = []
    if run and re.search(r"\s", run[0].text) and not run[0].missing and not (known and entry is None):
        split = tuple(w for token in run for w in words(*token.text.split(), place=token.place))
        for one in starts(command._replace(words=split), source, files or {}, depth):
            message = f"{run[0].text[:60]!r} is one word; the container runtime looks for a program of that name. Give each word its own"
            found.append(one._replace(faults=(Finding("not-split", "error", message, run[0].place),)))
    found += starts(command, source, files or {}, depth)
    if not found and entry is not None:
        found = _wrapped(command, source, files or {}, depth)
    found = [one._replace(version=one.version or of(one.engine), in_container=True, gpus=one.gpus or gpus) for one in _apart(found)]
    if not found and not is_other(run):
        found = _told(reference or (image.text if image else ""), known, entry is not None, run, env, place, end_line, gpus)
    tag = images.tagged(known or images.like(reference or (image.text if image else "")), here, is_open=bool(image and "$" in image.text))
    tag = tag or (images.not_known(reference, here) if known is None or "@" in reference else None)
    found = [one if one.version or tag is None or not one.engine else one._replace(faults=(*one.faults, tag)) for one in found]
    found = [one._replace(faults=(*one.faults, *decided)) for one in found] if decided else found
    other = images.built_for(image.text) if image else ""
    return [one._replace(no_gpu=f"{image.text} is built for {other}") for one in found] if image and other else found


def _apart(found: Sequence[Start]) -> Iterator[Start]:
    """Without repeats: branches of one script that end in the same command, of which one runs."""
    seen = set()
    for one in found:
        key = (one.engine, one.foreign, tuple(w.text for w in one.words))
        if key not in seen or one.stays or len(found) > MAX_BRANCHES:
            seen.add(key)
            yield one


def _wrapped(command: Command, source: str, files: Files, depth: int) -> list[Start]:
    """The engine's own command behind an entrypoint that is not at hand: a script that ends in `exec "$@"`, as they do."""
    run = command.words
    if len(run) < 2 or run[0].missing or not behind(run[1:], files, within=1):
        return []
    message = f"{run[0].text[:80]} is taken to run the command behind it: what it sets itself is not read"
    note = Finding("wrapper", "warning", message, run[0].place)
    found = starts(command._replace(words=run[1:]), source, files, depth)
    return [one._replace(faults=(*one.faults, note)) for one in found]


def _reference(image: Word | None) -> str:
    """An image's name; without its tag where that is open, nothing where more of it is."""
    if image is None or not image.missing:
        return image.text if image else ""
    name, _, tag = image.text.rpartition(":")
    return name if name and "$" not in name and "/" not in tag else ""


def _told(
    reference: str,
    known: images.Image | None,
    entered: bool,
    run: Sequence[Word],
    env: Mapping[str, Word],
    place: Place,
    end_line: int,
    gpus: Given | None,
) -> list[Start]:
    """The engine of a container whose words name no command: by its image, or by the options behind a program that is not known."""
    first = run[0].text if run else ""
    n = 0 if first.startswith("-") else next((n for n, w in enumerate(run) if w.text.startswith("-") and len(w.text) > 2), len(run))
    title = foreign.of_image(reference) or ("" if known else foreign.of_flags(run[n:]))
    if title:
        return [Start("", (), env, place, end_line, gpus=gpus, in_container=True, foreign=title)]
    other = known or images.like(reference)
    at = run[n].place if n < len(run) else place
    engine = images.by_options(run[n:]) if not known else ""
    if engine and is_server(engine, run[n:]) and (not entered or not _is_shell(run)):
        said = f"{' '.join(w.text for w in run[:2])[:60]!r} is taken to hand these options to {engine}: what it sets itself is not read"
        note = (Finding("wrapper", "warning", said, run[0].place),) if entered and n else ()
        return [Start(engine, (*_model(engine, run[:n]), *run[n:]), env, at, end_line, None, gpus, True, faults=note)]
    alone = other is not None and n == 1 and _model(other.engine, run[:1])  # the model alone, or before the options
    if other and not entered and (n == 0 or alone) and (run or (not known and other.engine == "ollama")):
        return [Start(other.engine, tuple(run), env, at, end_line, other.version, gpus, True)]
    named = known or (other if not entered else None)
    if named is None:
        return []
    shown = " ".join(w.text for w in run[:3])[:120] or "the image's own entrypoint"
    why = f"the container runs {shown!r}, which names no engine command"
    return [Start(named.engine, (), env, place, end_line, named.version, gpus, True, opaque=why)]


def _model(engine: str, before: Sequence[Word]) -> Sequence[Word]:
    """The model that stands before the options, where the engine takes it so: alone, or behind `serve`."""
    takes = engines.arguments(engine).positional != 0 and engine not in ("llama.cpp", "ollama", "sglang")
    behind_serve = len(before) == 1 or (len(before) > 1 and before[-2].text in ("serve", "api_server"))
    is_name = bool(before) and re.fullmatch(r"[\w.@~/-]*/[\w.@/-]+", before[-1].text) is not None and not before[-1].text.endswith(".sh")
    return before[-1:] if takes and behind_serve and is_name else ()


def _is_shell(run: Sequence[Word]) -> bool:
    """Whether a shell's own text is what runs: its options are no engine's."""
    return base(run[0].text) in SHELLS and script_option(run[1:]) is not None


def scripts(script: Script, source: str, depth: int = 0) -> list[Start]:
    """The engines that a script starts, told which of them run at the same time on one machine."""
    found: list[Start] = []
    running: set[str] = set()
    for n, command in enumerate(script.commands):
        lost = (*lost_behind(script.commands[n + 1 : n + 2]), *_unclosed(script))
        for one in list(starts(command, source, script.files, depth)) or _handed(command, script.files):
            one = one._replace(faults=(*one.faults, *lost))
            stays = one.stays or command.stays
            key = f"here{command.group}{one.host.removeprefix('here')} {one.machine}" if one.machine != "?" else ""
            running |= {key} if stays and key else set()
            note = (Finding("note", "note", command.note, command.place),) if command.note else ()
            found.append(one._replace(stays=stays, host=key if key in running else "", faults=(*one.faults, *note)))
    if script.cut and not found:
        raise script.cut
    own = {start.engine for start in found if start.words}
    found = [start for start in found if start.words or not start.opaque.endswith(NO_SINGLE) or start.engine not in own]  # their router
    waiting = [start for start in found if not start.words and start.engine and engines.arguments(start.engine).waiting]
    runs = [start for start in found if start.words and start.engine in {one.engine for one in waiting}]
    if runs:  # the server of the same script: it loads what is named, with its own variables
        found = [one._replace(env=waiting[0].env) if one in runs else one for one in found if one not in waiting]
    elif len(pulled := {command.words[-1].text: command.words[-1] for command in script.commands if _pulls(command)}) == 1:
        (word,) = pulled.values()
        one_model = Finding("note", "note", f"{word.text} is the one model that the script pulls: taken to be what is loaded", word.place)
        found = [one._replace(words=(word,), faults=(*one.faults, one_model)) if one in waiting else one for one in found]
    return found


def _unclosed(script: Script) -> list[Finding]:
    """A quote that is left open behind the engine's command."""
    faults = script.cut.faults if script.cut else []
    said = "a shell runs what stands before and stops there"
    return [Finding("unclosed", "warning", f"{why}; {said}", Place(int(at.removeprefix("line ")))) for at, why in faults]


def _handed(command: Command, files: Files) -> list[Start]:
    """The engine that a program which is not known starts, by the options that it is handed."""
    if behind(command.words, files) or (found := handed(command.words)) is None:
        return []
    engine, own, why = found
    return [Start(engine, tuple(own), command.env, command.place, command.end_line, files=files, opaque=why)]


def _pulls(command: Command) -> bool:
    """`ollama pull MODEL`."""
    texts = [w.text for w in command.words[-3:]]
    return len(texts) == 3 and base(texts[0]) == "ollama" and texts[1] == "pull" and not texts[2].startswith("-")


def _text(
    word: Word, env: Mapping[str, Word], source: str, files: Files, depth: int, arguments: Sequence[Word] | None = None
) -> Iterator[Start]:
    """The engines of a script that a word holds; a word that is no shell text after all starts none."""
    if depth >= MAX_NESTED:
        return
    try:
        script = read_script(word.text, source, base=word.place, breaks=word.breaks, env=env, arguments=arguments)
    except SpecError:
        if depth == 0 and arguments is None:
            return
        raise
    yield from scripts(script._replace(files={**files, **script.files}), source, depth + 1)


def left_open(start: Start, missing: Sequence[str]) -> Start:
    """Variables that nothing sets around a text are open in it, within its own quotes too."""

    def marked(word: Word) -> Word:
        within = (name for name in missing if f"${name.removeprefix('$')}" in word.text)
        return word._replace(missing=tuple(dict.fromkeys((*word.missing, *within))))

    return start._replace(words=tuple(map(marked, start.words)), env={k: marked(v) for k, v in start.env.items()}) if missing else start


def _env_prefix(prefix: Sequence[Word]) -> dict[str, Word]:
    """`env NAME=value command`."""
    env = {}
    for word in prefix:
        name, equals, value = word.text.partition("=")
        if equals and name.isidentifier():
            env[name] = word._replace(text=value)
    return env


def _shell(after: Sequence[Word], env: Mapping[str, Word], source: str, files: Files, depth: int) -> Iterator[Start]:
    """`sh -c TEXT NAME ARGUMENTS`, or a script of the same file."""
    n = script_option(after)
    if n is None:
        word = first_plain(after)
        name = named(word, files)
        if word is not None and name:
            at = list(after).index(word)
            yield from _text(_held(files[name], word.place), env, source, files, depth, after[at:])
        return
    if depth >= MAX_NESTED:
        return
    word = after[n]
    script = read_script(word.text, source, base=word.place, breaks=word.breaks, env=env, arguments=after[n + 1 :] or None)
    for one in scripts(script._replace(files={**files, **script.files}), source, depth + 1):
        yield left_open(one._replace(faults=(*one.faults, *in_a_remark(word))), word.missing)


def _docker(after: Sequence[Word], command: Command, source: str, files: Mapping[str, tuple[str, Place]], depth: int) -> Iterator[Start]:
    run = docker_run.read(after, files, command.place, is_docker=base(command.words[0].text) == "docker")
    if run.image is None or depth >= MAX_NESTED:
        return
    args, end = after[run.image + 1 :] or None, command.end_line
    found = container(
        after[run.image], run.entry, args, run.env, source, command.place, end, files=files, gpus=run.gpus, depth=depth + 1
    )  # fmt: skip
    for one in found:
        faults = (*one.faults, *run.faults)
        yield one._replace(stays=run.stays, on=run.on, limits=run.limits, mounts={**run.mounts, **one.mounts}, faults=faults)
