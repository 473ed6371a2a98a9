"""Whatever a file names itself: what reaches a terminal, a CI log or a page can not be obeyed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvplan.cli import run
from kvplan.report import FORMATS
from kvplan.report.printable import one_line, printable
from tests.conftest import examples

CLI = Path(__file__).parents[2] / "kvplan" / "cli"
BAD = "a\x1b]0;owned\x07\x9b31m\u202e\u2066\u200b\r\n::error::pwn\n##[error]pwn ##vso[task.x]y <script>|"
#: What a terminal obeys or reorders: C0 but tab and line end, C1, marks of direction and no width.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
COMMAND = re.compile(r"^\s*::|##\[|##vso\[", re.MULTILINE)


def spec(name: str) -> str:
    data = {
        "id": "test/one", "name": name, "source": "written for a test", "max_context": 4096, "vocab_size": 100, "hidden_size": 64,
        "n_layers": 1, "layers": [{"pattern": ["1*block"]}], "notes": [name],
        "blocks": {"block": {"mixers": [{"kind": "gqa", "heads": 2, "kv_heads": 2, "head_dim": 32}]}},
    }  # fmt: skip
    return yaml.safe_dump(data)


@given(st.text())
@examples(300)
def test_nothing_that_is_obeyed_is_left(text):
    for made in (printable(text), one_line(text), printable(f"ok\n{text}")):
        assert not OBEYED.search(made), made
        assert not COMMAND.search(made), made
        assert printable(made) == made
    assert "\n" not in one_line(text)


def test_ordinary_text_stays_as_it_is():
    for text in ("Qwen3-30B-A3B: 3.3 B of 30.5 B", "größer, 模型, 🤗", "a::b std::vector", "# comment\n## head\n", "a\tb\n"):
        assert printable(text) == text


TEXTS = [f for f in FORMATS if f != "parquet"]
SHOWING = [(["estimate"], TEXTS), (["explain"], TEXTS), (["models", "show"], ["yaml", "json"])]


@pytest.mark.parametrize(("command", "fmt"), [(command, fmt) for command, formats in SHOWING for fmt in formats])
def test_a_spec_that_names_itself_for_a_terminal(fmt, command, tmp_path, capsys):
    path = tmp_path / "spec.yaml"
    path.write_text(spec(BAD), encoding="utf-8")
    assert run([*command, str(path), "--format", fmt]) == 0
    out = capsys.readouterr().out
    assert not OBEYED.search(out)
    assert not COMMAND.search(out)
    if fmt == "html":
        assert "<script>" not in out
    if fmt in ("json", "yaml") and command != ["explain"]:  # the same value, however it is written
        data = json.loads(out) if fmt == "json" else yaml.safe_load(out)
        assert data.get("model", data)["name"] == BAD


ASKED = ["--engine", "vllm", "--engine-version", "0.19.0", "--context", "2k"]
HERE, LOAD = ["--device", "h100"], ["--prompt-lengths", "100", "--output-lengths", "10"]
COMMANDS = {
    "tiers": [*HERE, "--engine-option", "kv_offloading_size=8"], "fit": ["--devices", "h100,l4"],
    "transfer": HERE, "compare": ["--device", "h100,l4"], "roofline": HERE,
    "simulate": [*HERE, *LOAD, "--requests", "3"], "simulate --hit-curve": [*HERE, *LOAD, "--requests", "3"],
}  # fmt: skip


@pytest.mark.parametrize("fmt", ["table", "csv", "markdown", "html"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_answer_about_such_a_spec(fmt, command, tmp_path, capsys):
    path = tmp_path / "spec.yaml"
    path.write_text(spec(BAD), encoding="utf-8")
    name, *more = command.split()
    code = run([name, str(path), *ASKED, *COMMANDS[command], *more, "--format", fmt])
    said = capsys.readouterr()
    assert code in (0, 1), said.err
    for text in said:
        assert not OBEYED.search(text)
        assert not COMMAND.search(text)
    if fmt in ("html", "markdown"):
        assert "<script>" not in said.out


MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - {{name: c, image: "vllm/vllm-openai:v0.19.0", args: {args}}}
"""


@pytest.mark.parametrize("fmt", ["table", "json", "github", "junit", "sarif"])
def test_a_manifest_that_speaks_to_the_log(fmt, tmp_path, capsys):
    path = tmp_path / f"x{BAD[:3]}\udcff.yaml".replace("/", "")
    path.write_text(MANIFEST.format(name=json.dumps(BAD), args=json.dumps([f"--model={BAD}", f"--max-model-len={BAD}", f"--{BAD}"])))
    run(["check", str(path), "--device", "h100", "--format", fmt])
    out = capsys.readouterr().out
    assert not OBEYED.search(out)
    lines = out.splitlines()
    if fmt == "github":
        assert all(line.startswith(("::error file=", "::warning file=", "::notice file=")) for line in lines)
        assert not re.search(r"##\[|##vso\[", out)
    else:
        assert not COMMAND.search(out)
    if fmt in ("json", "sarif"):
        json.loads(out)
    if fmt == "junit":
        ElementTree.fromstring(out)
    if fmt == "table":
        assert all(re.match(r"(ok|NO|\?\?|!!|--) |     |$|\d+ ", line) for line in lines), lines


def test_errors_are_printable(tmp_path, capsys):
    for arguments in (["estimate", f"./{BAD}.yaml"], ["estimate", "x/y", f"--{BAD}"], [BAD], ["estimate", "x", "--engine-option", BAD]):
        assert run(arguments) == 2
        err = capsys.readouterr().err
        assert err
        assert not OBEYED.search(err)
        assert not COMMAND.search(err)


def test_there_is_one_place_where_text_leaves():
    """`put` and `tell` of cli/options.py; a progress line on standard error has numbers only."""
    for path in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("echo", "secho", "stdout") and path.name != "options.py":
                assert (path.name, node.attr) == ("__init__.py", "stdout"), (path, node.lineno)
            assert not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"), path


def kvplan(*arguments: str, **how):
    return subprocess.run(
        [sys.executable, "-m", "kvplan", *arguments], stderr=subprocess.PIPE, **{"text": True, **how}, timeout=60, check=False
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_or_closed_output_is_said_or_borne():
    with open("/dev/full", "w") as full:
        done = kvplan("devices", "list", stdout=full)
    assert (done.returncode, done.stderr) == (2, "error: standard output can not be written: No space left on device\n")
    read, write = os.pipe()
    os.close(read)
    done = kvplan("devices", "list", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m kvplan devices list >&-"], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: standard output is closed\n")


def test_an_encoding_that_lacks_a_character_does_not_stop_it(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(spec("größer 模型"), encoding="utf-8")
    done = kvplan("estimate", str(path), stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "latin-1"}, encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"größer \u6a21\u578b (test/one)" in done.stdout
