"""What ships for CI: the steps of action.yml run by the shell that GitHub runs them in, and the entry of the pre-commit hook."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILES = ROOT / "tests" / "manifests"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step.get("name"): step for step in ACTION["runs"]["steps"]}


@pytest.fixture
def kvplan_on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which `kvplan` is this checkout."""
    program = tmp_path / "bin" / "kvplan"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kvplan "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}


def act(env: dict[str, str], tmp_path: Path, **inputs: str) -> tuple[int, str, str]:
    """Exit code, log and outputs of the check step, its inputs as the runner hands them over."""
    given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | inputs
    named = {key: given[value.split("inputs.")[1].split(" ")[0]] for key, value in STEPS["Check"]["env"].items()}
    outputs = tmp_path / "outputs"
    outputs.touch()
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["Check"]["run"]]
    runner = {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(outputs)}
    done = subprocess.run(command, cwd=FILES, env={**env, **runner, **named}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, outputs.read_text()


@pytest.mark.parametrize(
    ("inputs", "code", "told"),
    [
        ({"files": "vllm-single.sh k8s-vllm.yaml"}, 0, "::notice"),
        ({"files": "vllm-too-large.sh vllm-single.sh"}, 1, "::error file=vllm-too-large.sh,line=3"),
        ({"files": "vllm-no-device.sh"}, 2, "::warning file=vllm-no-device.sh,line=1"),
        ({"files": "vllm-no-device.sh", "device": "h100"}, 0, "::notice"),
        ({"files": "vllm-volume.yaml", "device": "l40s", "models": "\n/models/llama-3.1-8b-instruct=meta-llama/llama-3.1-8b\n"}, 0, ""),
        ({"files": "no-engine.yaml", "arguments": "--allow-empty\n"}, 0, "::notice"),
        ({"files": "k8s-idle-*.yaml", "arguments": "--strict"}, 1, "::warning file=k8s-idle-gpus.yaml,line=16"),
        ({"files": "deployments/*.container"}, 1, "::error file=deployments/vllm.container,line=7"),
        ({"files": "broken-indent.yaml"}, 2, "::error file=broken-indent.yaml,line=4"),
        ({"files": "no-such-*.yaml"}, 2, ""),
        ({"files": "$(touch made) `touch made`; touch made"}, 2, ""),
    ],
)
def test_the_action(inputs: dict[str, str], code: int, told: str, kvplan_on_path: dict[str, str], tmp_path: Path) -> None:
    found, log, outputs = act(kvplan_on_path, tmp_path, **inputs)
    assert (found, outputs) == (code, f"exit-code={code}\n"), log
    assert told in log
    assert not (FILES / "made").exists()


@pytest.mark.parametrize(("fmt", "reads"), [("sarif", json.loads), ("junit", ElementTree.fromstring)])
def test_the_action_writes_its_report(fmt: str, reads, kvplan_on_path: dict[str, str], tmp_path: Path) -> None:
    report = tmp_path / "report"
    code, log, _ = act(kvplan_on_path, tmp_path, files="vllm-too-large.sh", format=fmt, output=str(report))
    assert code == 1
    assert reads(report.read_text()) is not None
    assert report.read_text() == log


def test_the_action_installs_what_it_came_with() -> None:
    assert STEPS["Install"]["run"] == 'python -m pip install --quiet "$GITHUB_ACTION_PATH"'
    assert all(step.get("shell") == "bash" for step in ACTION["runs"]["steps"] if "run" in step)
    assert set(STEPS["Check"]["env"].values()) == {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"] if name != "python-version"}


@pytest.mark.parametrize(
    ("files", "code"), [(["vllm-single.sh", "no-engine.yaml"], 0), (["vllm-typo.yaml", "k8s-vllm.yaml"], 1), (["tests"], 2)]
)
def test_the_hook(files: list[str], code: int, kvplan_on_path: dict[str, str]) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["language"], hook["require_serial"]) == ("python", True)
    done = subprocess.run([*shlex.split(hook["entry"]), *files], cwd=FILES, env=kvplan_on_path, capture_output=True, check=False)
    assert done.returncode == code
