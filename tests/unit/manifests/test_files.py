"""Every file of tests/manifests: its verdicts, the lines they point at, its exit code, as verdicts.tsv says."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from kvplan.errors import SpecError
from kvplan.manifests import check, exit_code
from kvplan.manifests.read import read_file
from kvplan.rows import rows
from tests.conftest import planned

FILES = Path(__file__).parents[2] / "manifests"


Engine = tuple[str, str, dict[str, int]]
"""Status, name, and rule -> line of its errors and warnings."""


def engine(cell: str) -> Engine:
    status, name, lines = (*cell.split("; "), "")[:3]
    return status, name, {rule: int(line) for rule, _, line in (one.partition(":") for one in lines.split())}


TABLE = {name: (int(code), why, list(map(engine, of))) for name, code, why, *of in rows(Path(__file__).parent / "verdicts.tsv")}
FOLDERS = (FILES, FILES / "deployments")


def test_every_file_is_in_the_table() -> None:
    files = [path.relative_to(FILES).as_posix() for folder in FOLDERS for path in folder.iterdir() if path.is_file()]
    assert sorted(TABLE) == sorted(files)
    assert len(TABLE) >= 90


@pytest.mark.parametrize("path", [pytest.param(path, marks=pytest.mark.slow) if "/" in path else path for path in TABLE])
def test_file(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir((FILES / path).parent)
    code, why, expected = TABLE[path]
    verdicts = check([Path(path).name], planned)
    found = [(v.status, v.name, {f.rule: f.place.line for f in v.findings if f.severity != "note"}) for v in verdicts]
    assert found == expected, why
    assert exit_code(verdicts) == code, why
    assert all(v.plan is not None for v in verdicts if v.status == "fits"), why


def what_is_read(path: str) -> object:
    try:
        return read_file(path)
    except SpecError as error:
        return str(error)


def test_nothing_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the checker that the files mention change nothing of what is read; what plans is handed that and has no `os`."""
    monkeypatch.chdir(FILES)
    before = {path: what_is_read(path) for path in TABLE}
    for variable in ("MODEL", "TP", "LEN", "SIZE", "PORT", "LORA", "VLLM_VERSION", "VERSION", "HF_TOKEN", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "9")
    assert {path: what_is_read(path) for path in TABLE} == before


@pytest.mark.parametrize(
    ("name", "given", "models", "status"),
    [
        ("vllm-no-device.sh", {"device": "h100"}, (), "fits"),
        ("vllm-no-device.sh", {"device": "t4"}, (), "refuses"),
        ("vllm-volume.yaml", {"device": "l40s"}, ("/models/llama-3.1-8b-instruct=meta-llama/llama-3.1-8b",), "fits"),
        ("vllm-volume.yaml", {"device": "l40s"}, ("/models/another=meta-llama/llama-3.1-8b",), "unknown"),
        ("Modelfile", {"device": "rtx-4090"}, ("meta-llama/llama-3.1-8b",), "unknown"),  # split, and too close to call
        ("Modelfile", {"device": "l40s"}, ("meta-llama/llama-3.1-8b",), "fits"),
        ("ray-a100.yaml", {"device": "a100-80gb"}, (), "fits"),
        ("k8s-mig.yaml", {"device": "10GiB"}, (), "unknown"),  # too close: its warm-up wants what the slice has, to 0.04 GiB
        ("k8s-mig.yaml", {"device": "12GiB"}, (), "unknown"),  # 0.16 GiB are left at warm-up
        ("k8s-mig.yaml", {"device": "16GiB"}, (), "fits"),
        ("llama-docker.yaml", {"device": "h100"}, ("openai/gpt-oss-20b",), "fits"),
        ("vllm-single.sh", {"batch": 1000}, (), "starts"),
    ],
)
def test_what_is_open_can_be_given(
    name: str, given: dict[str, object], models: tuple[str, ...], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FILES)
    (verdict,) = check([name], planned, models=models, **given)
    assert verdict.status == status, verdict.message


def test_variables_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MODEL", "Qwen/Qwen3-8B")
    assert check(["compose-variables.yaml"], planned)[0].status == "unknown"
    (verdict,) = check(["compose-variables.yaml"], planned, env={"MODEL": "Qwen/Qwen3-8B", "VLLM_TAG": "v0.12.0"})
    assert verdict.status == "fits"
    assert verdict.found is not None
    assert verdict.found.engine_version == "0.12.0"


def test_strict_counts_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    assert exit_code(check(["k8s-idle-gpus.yaml"], planned, strict=True)) == 1


def test_empty_files_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    verdicts = check(["no-engine.yaml"], planned)
    assert exit_code(verdicts) == 2
    assert exit_code(verdicts, allow_empty=True) == 0


def test_a_command_where_a_file_is_expected_is_told_where_it_goes() -> None:
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 40k"
    (verdict,) = kvplan.check(command, device="l4")
    assert (verdict.status, verdict.message) == ("broken", "no such file; a command goes into one, or is piped: kvplan check -")
    (verdict,) = kvplan.check("my file.yaml")
    assert verdict.message == "no such file"


def test_a_split_that_nobody_asked_for_does_not_fit(tmp_path: Path) -> None:
    """39.6 GiB of weights on a card of 24: Ollama runs it, most of it in RAM. Thirty of eighty alike layers are fewer than half of them."""
    (tmp_path / "serve.sh").write_text("OLLAMA_CONTEXT_LENGTH=8192 ollama run llama3.3:70b\n")
    (split,) = kvplan.check([str(tmp_path / "serve.sh")], device="rtx-4090")
    assert (split.status, split.exit_code, split.plan.fits) == ("starts", 1, False)
    assert [f.severity for f in split.findings if f.rule == "runs-split"] == ["error"]
    (meant,) = kvplan.check([str(tmp_path / "serve.sh")], device="rtx-4090", n_gpu_layers=30)
    assert (meant.status, meant.exit_code) == ("fits", 0)
