"""What a command runs behind its wrappers: an engine, a script, a container, or nothing that is known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvplan import engines
from kvplan.engines.common.words import Place, Word
from kvplan.manifests import foreign, images
from kvplan.manifests.dynamo import dynamo_words
from kvplan.manifests.lexer import split
from kvplan.manifests.placed import runs_from
from kvplan.manifests.programs import CONTAINERS, PYTHON_TAKES, RUNS, SHELLS, WRAPPERS, base
from kvplan.manifests.script import MAX_WORDS

#: `python -c "from vllm.scripts import main; main()" serve ...` is `vllm serve ...`.
_VLLM_MAIN = re.compile(r"\bfrom vllm\.(scripts|entrypoints\.cli\.main) import main\b")
#: Programs that show their words; options that hold another program's.
_TELLS = re.compile(r"echo|printf|cat|grep|sed|awk|jq|curl|log\w*|info|warn\w*|error|die|usage|print\w*")
_ARGUMENTS = re.compile(r"^--[\w-]*(args|arguments|flags|options|opts|command|cmd)=")
CLIENTS = re.compile(
    r"\b(vllm (bench|chat|complete|run-batch|collect-env|launch render)|"
    r"ollama (pull|list|create|show|rm|ps|cp)|lmdeploy lite|sglang\.bench_\w+|mini_lb|"
    r"bench(mark)?_serving)\b"
)
NO_SINGLE = "starts no single engine"
#: Builds of llama-server whose options and memory are their own.
FORKS = re.compile(r"(?<![A-Za-z])ik[_-]llama", re.IGNORECASE)
#: The scripts of a file by name: their text and where it stands.
Files = Mapping[str, tuple[str, Place]]


class Program(NamedTuple):
    """What a command runs behind its wrappers: where it stands, its name, the words after it, the engine that it is."""

    at: int
    name: str
    own: Sequence[Word]
    engine: str = ""
    opaque: str = ""
    foreign: str = ""


#: After a program that a variable names: another program, or a module of Python's.
_NO_OPTION = re.compile(r"(?!serve\b)[a-z][a-z0-9-]* -|-m [a-z_]+$")


def handed(found: Sequence[Word]) -> tuple[str, Sequence[Word], str] | None:
    """The engine whose options a program that is not known is handed, those options, and why they may not be all.

    `"$LLAMA_SERVER" --ctx-size 8192 ...` is taken for the engine itself; `launch.py --args "--max-model-len 8192 ..."` is not read.
    """
    n = next((n for n, w in enumerate(found) if base(w.text) not in WRAPPERS and not re.match(r"-|[A-Za-z_]\w*=", w.text)), len(found))
    first, own = found[n] if n < len(found) else Word(""), found[n + 1 :]
    if first.missing and not re.search(r"[=\s]", first.text) and not FORKS.search(first.text):
        at = next((n for n, w in enumerate(found) if w.text.startswith("-")), len(found))
        at = n + 2 if [w.text for w in own[:1]] == ["serve"] else at  # `$VLLM serve MODEL --option`
        if _NO_OPTION.match(" ".join(w.text for w in own[:2])):  # `$SUDO useradd -r`, `$PYTHON -m pip`
            return None
        return (engine, found[at:], "") if (engine := images.by_options(own)) and is_server(engine, own) else None
    if _TELLS.fullmatch(base(first.text)) or CLIENTS.search(" ".join(w.text for w in found[n : n + 4])):
        return None
    inside = [
        one for one, before in zip(own, found[n:], strict=False) if _ARGUMENTS.match(one.text if "=" in one.text else f"{before.text}=")
    ]
    inside = [one._replace(text=_ARGUMENTS.sub("", one.text)) for one in inside]
    for fewest, group in (
        (0 if FORKS.search(first.text) else 2, own),
        *((1, tuple(split(one, ""))) for one in inside if not re.search(r"['\"`\\]", one.text)),
    ):
        if (engine := images.by_options(group)) and len(images.telling(engine, [w for w in group if w.text.startswith("--")])) >= fewest:
            return engine, images.only(engine, group), f"{first.text[:80]}, which is handed these options of {engine}'s, is not read"
    return None


def is_server(engine: str, own: Sequence[Word]) -> bool:
    """Whether short options are an engine's for sure: its model's among them, or a long one that it alone has."""
    models = {name for row in engines.arguments(engine).rows if row.to in ("@model", "@path", "@hub") for name in row.names}
    named = {w.text.partition("=")[0] for w in own}
    return bool(models & named or images.telling(engine, [w for w in own if w.text.startswith("--")])) or own[0].text == "serve"


def behind(found: Sequence[Word], files: Files, within: int = MAX_WORDS) -> Program | None:
    """The engine's command, at the start or behind wrappers: among the first `within` words."""
    first = runs_from(found)
    for n, word in enumerate(found[:within]):
        if first is None or 0 < n < first or re.match(r"[A-Za-z_]\w*=", word.text):  # `env LLAMA_SERVER=/opt/llama-server`
            continue
        name, rest = base(word.text), found[n + 1 :]
        follows = rest[0].text if rest else ""
        if not FORKS.search(word.text) and (engine := _engine(n, name, rest)):
            return engine
        if not word.missing and (title := foreign.of_program(name)):
            return Program(n, name, rest, foreign=title)
        if name in ("kserve-huggingfaceserver", "llama-tools"):
            return Program(n, name, rest)
        if name in CONTAINERS and (own := rest[1:] if follows == "container" else rest) and own[0].text in RUNS:
            return Program(n, name, own)
        if (
            not n and word.missing and follows in RUNS and any(images.find(w.text) for w in rest[1:] if not w.text.startswith("-"))
        ):  # `$ENGINE run ... IMAGE`: docker or its like
            return Program(n, CONTAINERS[0], rest)
        if name in SHELLS and (script_option(rest) is not None or named(first_plain(rest), files)):
            return Program(n, name, rest)
        if name == "eval" and rest:
            return Program(n, name, rest)
        if path := named(word, files):
            return Program(n, path, rest)
        is_python = re.fullmatch(r"(python|pypy)[0-9.]*", name)
        if is_python and (module := _module(n, rest)):
            return module
        if n == 0 and name not in WRAPPERS and "=" not in name and not word.missing and not is_python:
            return None
    return None


def _engine(n: int, name: str, rest: Sequence[Word]) -> Program | None:
    """An engine's own command: its words, or why they can not be followed."""
    for engine in engines.served():
        table = engines.arguments(engine)
        for command in (*table.commands, *table.waiting):
            program, *more = command.split()
            if not re.fullmatch(program, name) or [w.text for w in rest[: len(more)]] != more:
                continue
            own = () if command in table.waiting else rest[len(more) :]
            if own and own[0].text in table.others:
                return Program(n, name, (), engine, f"{command} {own[0].text} {NO_SINGLE}")
            return Program(n, name, own, engine)
    return None


def _module(at: int, rest: Sequence[Word]) -> Program | None:
    """`-u -m MODULE`: the engine that it starts, and its words."""
    n = 0
    while n < len(rest) and rest[n].text.startswith("-"):
        if rest[n].text == "-c" and [w.text for w in rest[n + 2 : n + 3]] == ["serve"] and _VLLM_MAIN.search(rest[n + 1].text):
            return Program(at, "vllm", rest[n + 3 :], "vllm")
        if rest[n].text == "-m" and n + 1 < len(rest):
            module, own = rest[n + 1].text.strip(), rest[n + 2 :]  # `MODULE\ `: the next line is lost, which is told
            found = next(((e, more[module]) for e in engines.served() if module in (more := engines.arguments(e).modules)), None)
            if found is None:
                title = foreign.of_module(module)
                return Program(at, module, own, foreign=title) if title else None
            engine, before = found
            if module.startswith("dynamo."):
                own = dynamo_words(module, own)
            if before.startswith("-"):
                own = _without(own, before)
            elif before and own and own[0].text == before:
                own = own[1:]
            elif before and own and own[0].text.isalpha() and not own[0].missing:  # `bench`, `chat`: no server
                return None
            return Program(at, module, own, engine)
        n += 2 if rest[n].text in PYTHON_TAKES else 1
    return None


def named(word: Word | None, files: Files) -> str:
    """The script of the same file that a path names."""
    if word is None or word.missing:
        return ""
    path = word.text.removeprefix("./")
    ends = path.rsplit("/", 1)[-1]
    return next((name for name in (path, ends) if name in files and (_is_script(name) or is_shell(files[name][0]))), "")


def _is_script(name: str) -> bool:
    return "." in name and not re.search(r"\.(ya?ml|json|toml|txt)$", name)


def is_shell(text: str) -> bool:
    """A text that says itself that a shell is to read it."""
    return re.match(r"#!\s*\S*/(env\s+)?(ba|da|z)?sh\b", text) is not None


def first_plain(words: Sequence[Word]) -> Word | None:
    return next((w for w in words if not w.text.startswith("-")), None)


def script_option(rest: Sequence[Word]) -> int | None:
    """Where the text after a shell's -c stands."""
    for n, word in enumerate(rest):
        if re.fullmatch(r"-[a-z]*c", word.text):
            at = n + 2 if n + 2 < len(rest) and rest[n + 1].text == "--" else n + 1
            return at if at < len(rest) else None
        if not word.text.startswith(("-", "+")) and not (n and rest[n - 1].text in ("-o", "-O")):
            return None
    return None


def _without(own: Sequence[Word], prefix: str) -> list[Word]:
    """The words without the options of a prefix, and their values."""
    out: list[Word] = []
    skip = False
    for word in own:
        is_option = word.text.startswith("-")
        if word.text.startswith(prefix):
            skip = "=" not in word.text
        elif is_option or not skip:
            out.append(word)
            skip = False
    return out


def is_other(run: Sequence[Word]) -> bool:
    """A worker of a cluster, a waiting container, a client of a server: no engine command, and none hidden."""
    text = " ".join(w.text for w in run)
    return bool(
        re.search(
            r"\bray (start|symmetric-run)\b|\bsleep\b|lmcache_server|^mooncake_\w+|-m mooncake\.|multi-node-serving\.sh worker"
            r"|\bnvidia-smi\b|pytest|^(\S*/)?(ba|da|z)?sh$",
            text,
        )
        or CLIENTS.search(text)
    )


def is_before(after: Sequence[Word], n: int) -> bool:
    """Whether a word that is open stands among the runtime's options: one of them, or an image that is known, comes behind it."""
    if not after[n].missing or not after[n].text.startswith("$"):
        return False
    name, value = (after[n + 1].text, after[n + 2].text) if len(after) > n + 2 else ("", "")
    more = name in ("--gpus", "--ipc", "--shm-size", "--name", "--volume") or any(
        name == o and s in value for o, s in (("-e", "="), ("-v", ":"))
    )
    return more or any(images.find(w.text) for w in after[n + 1 :])
