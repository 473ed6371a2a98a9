"""What a file downloads and where to: the model behind a path that it then serves.

huggingface.co/docs/huggingface_hub, "Command Line Interface" (download) and "Download files" (snapshot_download); volcano-sh/kthena's
downloader (--source, --output-dir); wget(1), curl(1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from kvplan import engines
from kvplan.engines.common.words import Finding, Word
from kvplan.manifests.command import Start
from kvplan.manifests.values import Found
from kvplan.manifests.weights import by_name

_MOST = 50
_REPOSITORY = r"([A-Za-z0-9][\w.-]*/[\w.-]+)"
_PATH = r"([\w./~-]*/[\w./-]+)"
#: A command of one line; list items of YAML, quotes and continued lines are taken for blanks first.
_HF = re.compile(rf"\b(?:huggingface-cli|hf) download {_REPOSITORY}([^\n|;&]*)")
_LOCAL = re.compile(rf"--local-dir[ =]{_PATH}")
_SNAPSHOT = re.compile(rf"\bsnapshot_download\(\s*(?:repo_id ?= ?)?{_REPOSITORY}[ ,]([^()]{{0,400}})")
_NAMED, _BY_NAME = (
    re.compile(rf"^[ \t]*([A-Za-z_]\w*) ?= ?[\"']{_REPOSITORY}[\"']", re.MULTILINE),
    re.compile(r"(\brepo_id ?= ?)([A-Za-z_]\w*)"),
)
_LOCAL_DIR = re.compile(rf"\blocal_dir ?= ?{_PATH}")
_SOURCE = re.compile(rf"--source[ =](?:hf://)?{_REPOSITORY} +--output-dir[ =]{_PATH}")
_FILE = re.compile(
    rf"\b(?:wget|curl)\b[^\n|;&]{{0,300}}?https://huggingface\.co/{_REPOSITORY}/resolve/[\w.-]+/\S*?([\w.-]+\.gguf)[^\n|;&]*"
)
_OUTPUT = re.compile(rf" -(?:-output|-output-document|O|o)[ =]?{_PATH}")
_BLANKS = re.compile(r"\\\n\s*|\n\s*-\s+(?=[^\s])|[\"'`,](?=\s)|(?<=\s)[\"'`]|(?<=[=(])[\"'`]")


def of_text(text: str) -> dict[str, str]:
    """Path -> the model that is put there, of literal commands; a path to which two go is left out."""
    if "download" not in text and "huggingface.co" not in text:
        return {}
    named = {match[1]: match[2] for match in islice(_NAMED.finditer(text), _MOST)}  # `repo = "ORG/NAME"`, `repo_id=repo`
    text = _BY_NAME.sub(lambda match: f"{match[1]}{named.get(match[2], match[2])}", text)
    plain = re.sub(r"[ \t]+", " ", _BLANKS.sub(" ", text)).replace('"', "").replace("'", "")
    found: list[tuple[str, str]] = []
    for pattern, local in ((_HF, _LOCAL), (_SNAPSHOT, _LOCAL_DIR)):
        for match in islice(pattern.finditer(plain), _MOST):
            if where := local.search(match[2]):
                found += _with_files(match[1], where[1], match[2])
    found += [(match[2], match[1]) for match in islice(_SOURCE.finditer(plain), _MOST)]
    for match in islice(_FILE.finditer(plain), _MOST):
        where, type_ = _OUTPUT.search(match[0]), by_name(match[2])
        if where and type_:
            found.append((where[1], f"{match[1]}:{type_}"))
    every: dict[str, set[str]] = {}
    for path, model in found:
        every.setdefault(_same(path), set()).add(model)
    return {path: models.pop() for path, models in every.items() if len(models) == 1}


PULLED = re.compile(r"\bollama\s+pull\s+[\"']?([\w./:-]+)")


def pulled(start: Start, pulls: Sequence[Word], who: str) -> Start:
    """A server that loads what it is asked for, with the one model that `who` pull."""
    waits = start.engine and not start.words and engines.arguments(start.engine).waiting
    if not waits or len({word.text for word in pulls}) != 1:
        return start
    note = Finding("note", "note", f"{pulls[0].text} is the one model that {who} pull: taken to be what is loaded", pulls[0].place)
    return start._replace(words=(pulls[0],), faults=(*start.faults, note))


def _with_files(repository: str, folder: str, rest: str) -> list[tuple[str, str]]:
    """A folder of a repository, and the GGUF files in it that are named one by one."""
    files = [(name, type_) for name in re.findall(r"[\w.-]+\.gguf", rest) if (type_ := by_name(name))]
    return [(folder, repository), *((f"{folder.rstrip('/')}/{name}", f"{repository}:{type_}") for name, type_ in files)]


def _same(path: str) -> str:
    return path.removeprefix("./").rstrip("/")


def told(one: Found, downloads: dict[str, str]) -> Found:
    """An engine whose model is a path that the file downloads to."""
    model = downloads.get(_same(one.model or ""))
    if model is None or not any(unresolved.what == "model" for unresolved in one.unresolved):
        return one
    place = one.places.get("model", one.place)
    note = Finding("note", "note", f"the file downloads {model} to {one.model}: taken to be what is loaded", place, one.file)
    left = tuple(unresolved for unresolved in one.unresolved if unresolved.what != "model")
    return one._replace(model=model, unresolved=left, findings=(*one.findings, note))
