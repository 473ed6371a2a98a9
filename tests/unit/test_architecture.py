"""What holds for the package as a whole: what an import costs, which files are how long, what the wheel carries."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.engines import ENGINES

ROOT = Path(__file__).parents[2]


def python(code: str, **kwargs) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **kwargs).stdout


@pytest.mark.parametrize("statement", ["import kvplan", "import kvplan, kvplan.api, kvplan.cli.commands, kvplan.report.table"])
def test_importing_loads_no_heavy_module(statement):
    loaded = set(json.loads(python(f"import json, sys\n{statement}\nprint(json.dumps(list(sys.modules)))")))
    assert not loaded & {"torch", "pynvml", "transformers", "numpy", "huggingface_hub", "starlette", "uvicorn"}


def test_import_kvplan_loads_nothing_of_ours_but_itself():
    loaded = json.loads(python("import json, sys\nimport kvplan\nprint(json.dumps([m for m in sys.modules if 'kvplan' in m]))"))
    assert loaded == ["kvplan"]


def test_no_file_is_longer_than_400_lines():
    long = [str(path) for path in (ROOT / "kvplan").rglob("*.py") if len(path.read_text().splitlines()) > 400]
    assert not long


def test_places_are_looked_at_with_os_path() -> None:
    """pathlib's is_file, is_dir and exists raise for names that are too long and in folders that one may not enter; os.path says no."""
    asked = re.compile(r"\.(is_file|is_dir|exists)\(\)")
    assert [str(path) for path in (ROOT / "kvplan").rglob("*.py") if asked.search(path.read_text())] == []


def test_nothing_tells_people_to_install_the_other_package_of_this_name():
    git = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = git.stdout.split() if git.returncode == 0 else [p for p in ROOT.rglob("*") if ".venv" not in p.parts]  # an unpacked sdist
    wrong = " ".join(("pip", "install", "kvplan"))
    texts = [path for path in map(ROOT.joinpath, names) if path.suffix in {".py", ".md", ".toml", ".yaml"} and path.exists()]
    assert not [path for path in texts if wrong in path.read_text().replace("kvplan-llm", "")]


def test_public_names_are_functions_even_where_a_module_has_the_same_name():
    code = (
        "import kvplan, kvplan.devices, kvplan.roofline\nprint(callable(kvplan.devices), callable(kvplan.roofline), kvplan.devices()[0].id)"
    )
    assert python(code).startswith("True True ")


@pytest.mark.slow
def test_the_wheel_works_away_from_the_checkout_and_holds_what_runs_the_sdist_what_its_tests_need(tmp_path):
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "-o", tmp_path, ROOT], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("kvplan_llm-*.whl")
    inside = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in inside if "residuals" in name or "validation_page" in name or name.startswith(("tests/", "tools/"))]
    assert {f"kvplan/web/static/{name}" for name in ("page.js", "page.css", "icon.svg")} <= set(inside)
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        kept = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"conftest.py", "tools/fit_budget.py", "validation/cpu-llama.json", "action.yml", "SECURITY.md", "tests/conftest.py"}
    assert {*needed, "docs/budget.md"} <= kept

    venv.create(tmp_path / "fresh")
    bin_ = tmp_path / "fresh" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", bin_ / "python", "install", "-q", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], check=True)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    alone: dict[str, Any] = {"cwd": tmp_path, "env": clean, "capture_output": True, "text": True, "check": True}
    question = "estimate meta-llama/llama-3.1-8b --device h100 --engine ideal --context 8k --format json"
    done = subprocess.run([bin_ / "kvplan", *question.split()], **alone)
    assert json.loads(done.stdout)["cache"]["bytes_per_token"] == 131_072
    where = subprocess.run([bin_ / "python", "-c", "import kvplan; print(kvplan.__file__)"], **alone)
    assert str(tmp_path) in where.stdout


#: Readers of formats that are one engine's own (Modelfiles and Ollama's units, presets of llama-server's router, KServe's and Helm's
#: servers, Ray's LLM configs, RunPod's worker), and tables of the words by which deployers and images name engines.
OF_ONE_ENGINE = {
    "command", "helm", "images", "kserve", "mentions", "modelfile", "nixos", "presets", "python", "ray", "runpod", "shaped", "services",
    "units", "wrapped",
}  # fmt: skip


def test_no_engine_is_spelled_outside_its_home() -> None:
    """What code must know of an engine it reads from its facts, arguments and wordings. Docstrings may name any."""
    names = set(ENGINES) - {"ideal", "transformers"}  # words of their own, too
    package = Path(kvplan.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] != "engines"
        and any(f'"{name}"' in (text := path.read_text(encoding="utf-8")) for name in names)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert found == {f"manifests/{name}.py" for name in OF_ONE_ENGINE}
