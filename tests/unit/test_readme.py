"""The README is true: its commands run, its Python runs, its spec is one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import kvplan
from kvplan.cli import run
from kvplan.deployment import NAMES
from kvplan.dtypes import FORMATS
from kvplan.files import parse_yaml
from kvplan.layers import MIXERS, MLPS
from kvplan.spec import parse_spec

README = (Path(__file__).parents[2] / "README.md").read_text()
COMMANDS = re.findall(r"^\$ kvplan (.+)$", README, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command, capsys):
    code = run(shlex.split(command))
    out, err = capsys.readouterr()
    assert code in (0, 1)
    assert out
    assert not err


def test_the_commands_are_found():
    assert len(COMMANDS) >= 9


def test_the_screen_shown_is_what_is_printed():
    (block,) = re.findall(r"^```console\n\$ kvplan (.+)\n```\n\n```text\n((?:.+\n|\n)+?)```", README, re.MULTILINE)
    golden = (Path(__file__).parents[1] / "golden" / "platform_engineer.txt").read_text()
    assert golden.startswith(f"$ kvplan {block[0]}\n{block[1]}")


def test_every_python_block_runs(capsys):
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.startswith("True ")


def test_the_spec_shown_is_a_spec():
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    spec = parse_spec(parse_yaml(block, "README.md"), "README.md")
    assert kvplan.estimate(spec, context=4096).cache.bytes_per_token == 8 * (512 + 64) * 2


def test_every_kind_and_format_is_named():
    for name in (
        *MIXERS,
        *MLPS,
        *(f for f in FORMATS if not f.startswith("turboquant") and f not in ("f64", "fp8_scale128", "mxfp4")),
    ):
        assert f"`{name}`" in README, name


def test_docs_name_only_options_that_exist():
    flags = set(re.findall(r"--([a-z][a-z-]+)", README)) - {
        "format",
        "help",
        "detail",
        "devices",
        "price",
        "log",
        "rank-by",
        "every-layout",
        "all",
        "grid",
        "out",
        "resume",
        "scheduler",
        "workload",
        "rate",
        "requests",
        "policy",
        "prefixes",
        "prefix-tokens",
        "size-for",
        "turns",
        "hit-curve",
        "prefix",
        "decode-tp",
        "output",
        "gpus",
        "trace",
        "plot",
        "all-kinds",
        "check",
        "diff",
        "model",
        "record",
        "hub",
        "offline",
    }
    assert flags <= {name.replace("_", "-") for name in NAMES}
