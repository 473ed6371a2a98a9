"""Findings as GitHub workflow commands: each shows on its line of the change.

https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions: ::error file=,line=,col=,title=::message
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.report.printable import printable

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def text(verdicts: Sequence[dict[str, Any]]) -> str:
    """A command a finding; a verdict that has none of them gets a notice."""
    lines = []
    for v in verdicts:
        for f in v["findings"]:
            lines.append(
                _command(_LEVELS[f["severity"]], v["file"], f["line"], f["column"], f"kvplan {f['rule']}", f"{v['name']}: {f['message']}")
            )
        if not v["findings"]:
            lines.append(_command("notice", v["file"], v["line"], 1, f"kvplan {v['status']}", f"{v['name']}: {v['message']}"))
    return "\n".join(lines)


def _command(level: str, file: str, line: int, column: int, title: str, message: str) -> str:
    return f"::{level} file={_property(file)},line={line},col={column},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
