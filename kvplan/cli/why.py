"""`kvplan why`: what an engine's error means."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from kvplan import api
from kvplan.cli.options import FORMAT, put
from kvplan.errors import SpecError
from kvplan.files import MAX_FILE_BYTES
from kvplan.report import causes

_A_FILE = re.compile(r"(?:[\w.~-]*[/\\])*[\w.-]+\.(?:log|txt|out|err)")


@click.command()
@click.argument("text", nargs=-1)
@click.option("--log", type=click.Path(path_type=Path), help="A log to look through instead of TEXT.")
@click.option("--engine", help="Whose error it is, where its words do not say.")
@FORMAT
def why(text: tuple[str, ...], log: Path | None, engine: str | None, fmt: str) -> int:
    """What an engine's error means, and which setting moves it.

    TEXT is what it printed, one line or many, or a file that has it (`-` reads standard input): out of memory at start or while
    serving, refusals, the hints that engines give. Says which engine and releases print it, what its numbers mean, and the settings
    that move it, the best first.
    Exit code 1 where nothing is known of it.
    """
    if bool(text) == (log is not None):
        raise SpecError("why", [("", "paste the error as TEXT, or name a --log")])
    found = api.why(log if log is not None else _typed(text), engine=engine)
    if shown := causes.render(found, fmt):
        put(shown)
    return int(not found.causes)


def _typed(text: tuple[str, ...]) -> str | Path:
    """What was typed, or the file of that name: a word of a path's form is one."""
    if text != ("-",):
        typed = " ".join(text)
        return Path(typed) if _A_FILE.fullmatch(typed) else typed
    if sys.stdin is None:
        raise SpecError("why", [("", "standard input is closed")])
    return sys.stdin.buffer.read(MAX_FILE_BYTES).decode("utf-8", "replace")
