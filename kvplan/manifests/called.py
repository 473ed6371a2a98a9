"""Scripts of the same repository that a script or a unit runs: `bash serve.sh MODEL`, `./scripts/serve.sh`, `ExecStart=/opt/app/run.sh`.

What such a path starts from (the folder that the caller stands in, the machine's root) is not in the file: the script is the one that lies
there from the checked file's own folder, else the one above it, in the same repository, whose path ends as the command's does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from kvplan.engines.common.words import Place, Word
from kvplan.manifests.found import ReadBeside
from kvplan.manifests.programs import SHELLS, WRAPPERS, base
from kvplan.manifests.words import ASIDE, Command, Script, Sourced
from kvplan.manifests.wrapped import first_plain, is_shell, script_option

MOST = 12  # scripts that are looked for
_ABOVE = 4  # folders
_PATH = re.compile(r"[\w@%+=:,.~/-]{1,300}")


def with_called(script: Script, beside: ReadBeside) -> Script:
    """The script with those that its commands run among its files; each is told where it is named, and said to be read."""
    files, read = dict(script.files), list[Sourced]()
    for word in _named(script.commands):
        path = word.text.removeprefix("./")
        if path in files or len(read) >= MOST:
            continue
        for place in _places(path):
            text = beside(place)
            if text is not None and (path.endswith((".sh", ".bash")) or is_shell(text)):
                files[path] = (text, Place(ASIDE))
                read.append(Sourced(place, word.place, True))
                break
    for path in _listed(script.commands):
        if path not in files and (text := beside(path)) is not None:
            files[path] = (text, Place(ASIDE))
    return script._replace(files=files, sourced=(*script.sourced, *read))


def _named(commands: Sequence[Command]) -> Iterator[Word]:
    """The words that may name a script: the program itself behind its wrappers, or the first plain word of a shell."""
    for command in commands:
        n = next((n for n, w in enumerate(command.words) if base(w.text) not in WRAPPERS and not re.match(r"-|\w+=", w.text)), None)
        if n is None:
            continue
        first, rest = command.words[n], command.words[n + 1 :]
        is_run = base(first.text) in SHELLS and script_option(rest) is None
        word = first_plain(rest) if is_run else first
        if word is not None and not word.missing and _PATH.fullmatch(word.text) and ("/" in word.text or is_run):
            yield word


def _listed(commands: Sequence[Command]) -> list[str]:
    """The files of variables that `docker run --env-file` names."""
    found = []
    for before, word in (pair for one in commands for pair in pairwise(one.words)):
        if before.text == "--env-file" or word.text.startswith("--env-file="):
            found.append(word.text.removeprefix("--env-file=").removeprefix("./"))
    return found[:MOST]


def _places(path: str) -> Iterator[str]:
    """Where to look, from the checked file's folder: as written, then every end of it, the longest first."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    relative = not path.startswith(("/", "~"))
    if relative:
        yield "/".join(parts)
    if ".." in parts:
        return
    for n in range(int(relative), len(parts)):
        tail = "/".join(parts[n:])
        yield tail
        yield from (f"{'../' * up}{tail}" for up in range(1, _ABOVE + 1) if len(parts) - n > 1)
    if len(parts) > 1 and relative:
        yield from (f"{'../' * up}{'/'.join(parts)}" for up in range(1, _ABOVE + 1))
