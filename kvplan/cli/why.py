"""`kvplan why`: what an engine's error means."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvplan import api
from kvplan.cli.options import FORMAT, put
from kvplan.errors import SpecError
from kvplan.files import MAX_FILE_BYTES
from kvplan.planner.plan import plain
from kvplan.report import STRUCTURED, render_data
from kvplan.report.printable import one_line
from kvplan.report.structured import dump

if TYPE_CHECKING:
    from kvplan.startup_logs.why import Cause, Why


@click.command()
@click.argument("text", nargs=-1)
@click.option("--log", type=click.Path(path_type=Path), help="A log to look through instead of TEXT.")
@click.option("--engine", help="Whose error it is, where its words do not say.")
@FORMAT
def why(text: tuple[str, ...], log: Path | None, engine: str | None, fmt: str) -> int:
    """What an engine's error means, and which setting moves it.

    TEXT is what it printed, one line or many (`-` reads standard input): out of memory at start or while serving, refusals, the hints
    that engines give. Says which engine and releases print it, what its numbers mean, and the settings that move it, the best first.
    Exit code 1 where nothing is known of it.
    """
    if bool(text) == (log is not None):
        raise SpecError("why", [("", "paste the error as TEXT, or name a --log")])
    found = api.why(log if log is not None else _typed(text), engine=engine)
    if fmt in STRUCTURED:
        put(dump(plain(found.as_dict()), fmt))
    elif fmt == "table":
        put("\n\n".join(_shown(cause) for cause in found.causes) or _unknown(found))
    elif found.causes:
        put(render_data(_rows(found), fmt))
    return int(not found.causes)


def _typed(text: tuple[str, ...]) -> str:
    if text != ("-",):
        return " ".join(text)
    if sys.stdin is None:
        raise SpecError("why", [("", "standard input is closed")])
    return sys.stdin.buffer.read(MAX_FILE_BYTES).decode("utf-8", "replace")


def _shown(cause: Cause) -> str:
    lines = [f"{cause.engine or 'any engine'}{_releases(cause)}: {one_line(cause.name)}", f"  {one_line(cause.text)}"]
    lines += [f"  means: {one_line(cause.means)}", *(f"  {word}" for word in _moves(cause)), f"  source: {cause.source}"]
    return "\n".join(lines)


def _moves(cause: Cause) -> list[str]:
    return [f"{'then' if i else 'try'}: {one_line(f'{_setting(m.setting, m.flag)}{m.how}')}" for i, m in enumerate(cause.moves)]


def _setting(name: str, flag: str) -> str:
    return f"{flag or name}: " if name else ""


def _releases(cause: Cause) -> str:
    since = f" from {cause.since} on" if cause.since else ""
    return f"{since}{' and' if since and cause.before else ''}{f' before {cause.before}' if cause.before else ''}"


def _rows(found: Why) -> list[dict[str, object]]:
    return [{**cause._asdict(), "moves": "; ".join(f"{_setting(m.setting, m.flag)}{m.how}" for m in cause.moves)} for cause in found.causes]


def _unknown(found: Why) -> str:
    if not found.nearest:
        return "nothing is known of this text"
    return "\n".join(["nothing is known of this text; nearest to it:", *(f"  {known}" for known in found.nearest)])
