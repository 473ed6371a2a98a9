"""The commands that read files of others: check, emit, reconcile, validate; by their exit codes and what they print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.cli import run

MANIFESTS = Path(__file__).parents[1] / "manifests"
MODEL = "meta-llama/llama-3.1-8b"

LOG = """\
(APIServer pid=1) INFO 11-02 10:00:02 [api_server.py:1839] vLLM API server version 0.19.0
(APIServer pid=1) INFO 11-02 10:00:02 [utils.py:253] non-default args: {'model': 'Qwen/Qwen3-14B', 'max_model_len': 32768}
(EngineCore_DP0 pid=90) INFO 11-02 10:01:00 [gpu_model_runner.py:3000] Model loading took 27.52 GiB and 5.2 seconds
(EngineCore_DP0 pid=90) INFO 11-02 10:01:30 [gpu_worker.py:300] Available KV cache memory: CACHE GiB
"""


def ask(capsys, *args: str) -> tuple[int, str, str]:
    code = run(list(map(str, args)))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("file", "code", "told"),
    [
        ("vllm-single.sh", 0, "1 fits"),
        ("vllm-too-large.sh", 1, "would not start"),
        ("vllm-no-device.sh", 2, "give it with --device"),
        ("broken-indent.yaml", 2, "broken"),
    ],
)
def test_check_says_so_by_its_exit_code(capsys, file, code, told):
    found, out, err = ask(capsys, "check", MANIFESTS / file)
    assert (found, err) == (code, "")
    assert told in out


def test_what_a_file_leaves_open_can_be_given(capsys):
    assert ask(capsys, "check", MANIFESTS / "vllm-no-device.sh", "--device", "h100")[0] == 0


@pytest.mark.parametrize("fmt", ["json", "github", "junit", "sarif"])
def test_check_formats(capsys, fmt):
    code, out, _ = ask(capsys, "check", MANIFESTS / "vllm-too-large.sh", "--format", fmt)
    assert code == 1
    assert "vllm-too-large.sh" in out
    if fmt in ("json", "sarif"):
        assert json.loads(out)


def test_check_diff(capsys):
    files = [MANIFESTS / "vllm-single.sh", MANIFESTS / "vllm-too-large.sh"]
    assert "fits -> refuses" in ask(capsys, "check", "--diff", *files)[1]
    assert ask(capsys, "check", "--diff", files[0])[0] == 2


@pytest.mark.parametrize("target", ["vllm", "compose", "k8s"])
def test_check_accepts_what_emit_writes(capsys, tmp_path, target):
    code, out, _ = ask(capsys, "emit", target, MODEL, "--engine", "vllm", "--device", "h100", "--max-model-len", "32k", "--tp", "2")
    assert code == 0
    path = tmp_path / ("serve.sh" if target == "vllm" else "serve.yaml")
    path.write_text(out)
    assert ask(capsys, "check", path)[0] == 0


@pytest.mark.parametrize(("cache", "code"), [("41.30", 0), ("25.00", 1)])
def test_reconcile_agrees_or_says_which_line_is_off(capsys, tmp_path, cache, code):
    log = tmp_path / "serve.log"
    log.write_text(LOG.replace("CACHE", cache))
    found, out, err = ask(capsys, "reconcile", log, "--device", "h100")
    assert (found, err) == (code, "")
    assert ("off" in out) == bool(code)


def test_reconcile_records_what_was_measured(capsys, tmp_path, monkeypatch):
    user = tmp_path / "calibration.yaml"
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(user))
    log = tmp_path / "serve.log"
    log.write_text(LOG.replace("CACHE", "41.30"))
    assert ask(capsys, "reconcile", log, "--device", "h100", "--record")[0] == 0
    assert "qwen3-14b" in user.read_text()
    question = ["estimate", "qwen/qwen3-14b", "--device", "h100", "--engine", "vllm", "--engine-version", "0.19", "--max-model-len", "32k"]
    assert "measured" in ask(capsys, *question, "--calibration", "user")[1]


def test_reconcile_without_a_model_says_what_to_give(capsys, tmp_path):
    log = tmp_path / "serve.log"
    log.write_text("nothing of an engine\n")
    code, _, err = ask(capsys, "reconcile", log)
    assert code == 2
    assert err.startswith("error: ")


def test_validate_allocates_and_keeps_a_receipt(capsys, tmp_path):
    pytest.importorskip("torch", reason="validation allocates with torch")
    receipt = tmp_path / "receipt.json"
    code, out, _ = ask(capsys, "validate", MODEL, "--context", "64", "--batch", "2", "--record", receipt)
    assert code == 0
    assert f"{2 * 64 * 131072:,}" in out
    assert json.loads(receipt.read_text())["schema"] == "kvplan.receipt/1"


def test_validate_wants_one_subject(capsys):
    assert ask(capsys, "validate")[0] == 2


def test_doctor_answers_without_a_gpu(capsys):
    code, out, _ = ask(capsys, "doctor")
    assert code == 0
    assert "model specs" in out
