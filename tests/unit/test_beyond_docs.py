"""docs/beyond-one-gpu.md is true: the figures that it quotes are what its commands print. That all of them run: tests/docs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kvplan.cli import run

DOC = (Path(__file__).parents[2] / "docs" / "beyond-one-gpu.md").read_text()
COMMANDS = re.findall(r"^\$ kvplan (.+)$", DOC, re.MULTILINE)
#: Figures of the text and the command, by a part of it, that prints them.
QUOTED = {
    "kv_offloading_size=256 --prefix": ("52,428", "838,848", "2.500 GiB", "42.6 ms", "1.51 s"),
    "--gpus 32": ("320.000 MiB", "40,960", "640.000 MiB", "13.4 ms", "310 ms"),
}


@pytest.mark.parametrize("command", [command for command in COMMANDS if any(part in command for part in QUOTED)])
def test_the_figures_are_printed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(command)) == 0
    out, err = capsys.readouterr()
    assert not err
    for figure in next((figures for part, figures in QUOTED.items() if part in command), ()):
        assert figure in out
        assert figure in DOC


def test_the_figures_are_looked_for() -> None:
    assert len(COMMANDS) >= 6
    assert all(any(part in command for command in COMMANDS) for part in QUOTED)
