"""The commands that read files of others: check, emit, reconcile, validate; by their exit codes and what they print."""

from __future__ import annotations

import io
import json
import os
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


@pytest.mark.parametrize(
    ("file", "code", "told"),
    [
        ("vllm-single.sh", 0, "1 fits"),
        ("vllm-too-large.sh", 1, "would not start"),
        ("vllm-no-device.sh", 2, "give it with --device"),
        ("broken-indent.yaml", 2, "broken"),
    ],
)
def test_check_says_so_by_its_exit_code(command, file, code, told):
    found, out, err = command("check", MANIFESTS / file)
    assert (found, err) == (code, "")
    assert told in out


def test_what_a_file_leaves_open_can_be_given(command):
    assert command("check", MANIFESTS / "vllm-no-device.sh", "--device", "h100")[0] == 0


@pytest.mark.parametrize("fmt", ["json", "github", "junit", "sarif"])
def test_check_formats(command, fmt):
    code, out, _ = command("check", MANIFESTS / "vllm-too-large.sh", "--format", fmt)
    assert code == 1
    assert "vllm-too-large.sh" in out
    if fmt in ("json", "sarif"):
        assert json.loads(out)


def test_check_diff(command):
    files = [MANIFESTS / "vllm-single.sh", MANIFESTS / "vllm-too-large.sh"]
    code, out, _ = command("check", "--diff", *files)
    assert (code, "fits -> refuses" in out) == (1, True)
    assert command("check", "--diff", files[1], files[0])[0] == 0
    assert command("check", "--diff", MANIFESTS / "no-engine.yaml", MANIFESTS / "no-engine.yaml")[0] == 2
    assert command("check", "--diff", files[0])[0] == 2


@pytest.mark.parametrize(("data", "code"), [(b"# kvplan: device=h100\nvllm serve Qwen/Qwen3-8B\n", 0), (b"\xff", 2), (b"a" * (2 << 20), 2)])
def test_check_reads_standard_input(command, monkeypatch, data, code):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    found, out, err = command("check", "-")
    assert found == code
    assert ("1 fits" in out) == (code == 0)
    assert err.count("\n") == (code > 0)


@pytest.mark.parametrize("target", ["vllm", "compose", "k8s"])
def test_check_accepts_what_emit_writes(command, tmp_path, target):
    code, out, _ = command("emit", target, MODEL, "--engine", "vllm", "--device", "h100", "--max-model-len", "32k", "--tp", "2")
    assert code == 0
    path = tmp_path / ("serve.sh" if target == "vllm" else "serve.yaml")
    path.write_text(out)
    assert command("check", path)[0] == 0


@pytest.mark.parametrize(("cache", "code"), [("41.30", 0), ("25.00", 1)])
def test_reconcile_agrees_or_says_which_line_is_off(command, tmp_path, cache, code):
    log = tmp_path / "serve.log"
    log.write_text(LOG.replace("CACHE", cache))
    found, out, err = command("reconcile", log, "--device", "h100")
    assert (found, err) == (code, "")
    assert ("off" in out) == bool(code)


@pytest.mark.parametrize("place", ["", "file/below.yaml"])
def test_records_that_no_place_takes_are_wrong_input(command, tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(tmp_path / place))
    log = tmp_path / "serve.log"
    log.write_text(LOG.replace("CACHE", "41.30"))
    for name in ("reconcile", "calibrate"):
        code, _, err = command(name, log, "--device", "h100", "--record")
        assert code == 2
        assert err.count("error: ") == 1
        assert sorted(os.listdir(tmp_path)) == ["file", "serve.log"]


def test_reconcile_records_what_was_measured(command, tmp_path, monkeypatch):
    user = tmp_path / "calibration.yaml"
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(user))
    log = tmp_path / "serve.log"
    log.write_text(LOG.replace("CACHE", "41.30"))
    assert command("reconcile", log, "--device", "h100", "--record")[0] == 0
    assert "qwen3-14b" in user.read_text()
    question = ["estimate", "qwen/qwen3-14b", "--detail", "--device", "h100", "--engine-version", "0.19", "--max-model-len", "32k"]
    assert "measured" in command(*question, "--calibration", "user")[1]


def test_reconcile_without_a_model_says_what_to_give(command, tmp_path):
    log = tmp_path / "serve.log"
    log.write_text("nothing of an engine\n")
    code, _, err = command("reconcile", log)
    assert code == 2
    assert err.startswith("error: ")


@pytest.mark.usefixtures("one_process")
def test_validate_allocates_and_keeps_a_receipt(command, tmp_path):
    receipt = tmp_path / "receipt.json"
    code, out, _ = command("validate", MODEL, "--context", "64", "--batch", "2", "--record", receipt)
    assert code == 0
    assert f"{2 * 64 * 131072:,}" in out
    assert json.loads(receipt.read_text())["schema"] == "kvplan.receipt/1"


def test_validate_wants_one_subject(command):
    assert command("validate")[0] == 2


@pytest.mark.parametrize(
    ("asked", "idle"),
    [
        (("--speed", "--context", "8k"), "--context"),
        (("--all-kinds", "--limit", "1GiB", "--tp", "2"), "--limit, --tp"),
        ((MODEL, "--size", "1MiB"), "--size"),
        (("--check", "r.json", "--on", "cuda"), "--on"),
    ],
)
def test_validate_refuses_options_that_would_do_nothing(command, asked, idle):
    code, _, err = command("validate", *asked)
    assert code == 2
    assert f"has no use for {idle};" in err


RECEIPTS = sorted(str(path) for path in (Path(__file__).parents[2] / "validation").glob("*.json"))


def test_receipts_are_checked_again(command):
    code, out, _ = command("validate", "--check", *RECEIPTS, "--format", "json")
    assert code == 0
    assert [row["receipt"] for row in json.loads(out)] == RECEIPTS
    assert all(row["holds"] for row in json.loads(out))


def tampered(tmp_path, change) -> Path:
    data = json.loads(Path(RECEIPTS[0]).read_text())
    change(data)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["machine"].update(name="NVIDIA H200"), "changed since it was written"),
        (lambda d: d.update(date="2031-01-01"), "changed since it was written"),
        (lambda d: d["cases"][0]["measured"].update(resident=1), "changed since it was written"),
        (lambda d: d["cases"][1]["rows"][0].update(allocated_bytes=1), "do not make it"),
        (lambda d: d["cases"][1]["rows"][0].update(predicted_bytes=1), "today's formula"),
        (lambda d: d["cases"][1]["rows"][0]["shape"].update(tokens=9), "today's formula"),
        (lambda d: d["cases"][1]["rows"][0]["shape"].update(element="no such"), "no cache has this shape"),
        (lambda d: d["cases"][1].update(status="different"), "do not make it"),
        (lambda d: d.update(status="different"), "changed since it was written"),
        (lambda d: d.pop("digest"), "changed since it was written"),
    ],
)
def test_a_receipt_that_was_tampered_with_fails(command, tmp_path, change, says):
    code, out, _ = command("validate", "--check", RECEIPTS[-1], tampered(tmp_path, change))
    assert code == 1
    assert says in out


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["cases"][1]["rows"][0].update(allocated_bytes="many"),
        lambda d: d["cases"][1].update(rows=3),
        lambda d: d["cases"][1]["rows"][0].update(measured=[1]),
        lambda d: d.update(machine="H200"),
        lambda d: d.update(schema="kvplan.receipt/9"),
        lambda d: d.pop("cases"),
    ],
)
def test_a_file_that_is_no_receipt_is_wrong_input(command, tmp_path, change):
    code, _, err = command("validate", "--check", tampered(tmp_path, change))
    assert code == 2
    assert err.startswith("error: ")


def test_checking_needs_receipts(command, tmp_path):
    assert command("validate", "--check")[0] == 2
    assert command("validate", "--check", tmp_path / "absent.json")[0] == 2
    assert command("validate", MODEL, "another")[0] == 2


@pytest.mark.usefixtures("one_process")
def test_a_receipt_that_can_not_be_written_is_wrong_input(command, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = command("validate", MODEL, "--context", "16", "--record", tmp_path / "file" / "r.json")
    assert code == 2
    assert "can not be written" in err


def gpu_receipt(name: str, **measured):
    from kvplan.validate.receipts import Receipt

    machine = {"device": "cuda", "name": name, "driver": "580.1", "torch": "2.13.0", "overheads": measured}
    return Receipt("caches", "2026-11-21", "0.1.0", machine)


def test_what_a_gpu_holds_beside_tensors_is_kept_and_added_by_later_estimates(command, tmp_path, monkeypatch):
    from kvplan import api

    user = tmp_path / "calibration.yaml"
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(user))
    question = ["estimate", MODEL, "--engine", "transformers", "--device", "h200", "--context", "8k", "--format", "json"]
    before = json.loads(command(*question)[1])
    assert api.keep_overheads(gpu_receipt("NVIDIA H200", context=549_453_824, libraries=73_400_320, workspace=33_554_432)) == user
    after = json.loads(command(*question, "--calibration", "user")[1])
    lines = {entry["name"]: entry for ledger in after["ledgers"] for entry in ledger["entries"] if entry["basis"] == "measured"}
    assert {name: entry["bytes"] for name, entry in lines.items()} == {
        "CUDA context": 549_453_824, "CUDA libraries": 73_400_320, "library workspace": 33_554_432,
    }  # fmt: skip
    assert lines["CUDA context"]["source"] == "measured by kvplan validate on 2026-11-21: NVIDIA H200, driver 580.1, torch 2.13.0"
    # in place of 500, 170 and 32 MiB
    assert before["margin_bytes"] - after["margin_bytes"] == 549_453_824 + 73_400_320 + 33_554_432 - 702 * 1024 * 1024
    assert json.loads(command(*question)[1]) == before  # only where it is asked for
    other = [*question[:5], "h100", *question[6:]]
    assert "measured by kvplan validate" not in command(*other, "--calibration", "user")[1]  # and only on that device
    api.keep_overheads(gpu_receipt("NVIDIA H200", context=600_000_000))  # a later measurement comes in place of the older one
    assert user.read_text().count("name: context") == 1
    assert "600000000" in command(*question, "--calibration", "user")[1]


def test_record_keeps_both_files_and_says_so(command, tmp_path, monkeypatch):
    """The command on a machine with a GPU, acted out: the receipt where it was asked for, the overheads where calibrations are."""
    from kvplan import api

    receipt, user = tmp_path / "r.json", tmp_path / "calibration.yaml"
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(user))
    monkeypatch.setattr(api, "validate", lambda *_, **__: gpu_receipt("NVIDIA H200", context=1 << 29), raising=False)
    code, _, err = command("validate", MODEL, "--on", "cuda", "--record", receipt)
    assert code == 0
    assert f"context and libraries of NVIDIA H200 kept in {user}; --calibration user adds them" in err
    assert command("validate", "--check", receipt)[0] == 0


@pytest.mark.parametrize(
    "receipt", [("NVIDIA H200", {}), ("NVIDIA H200", {"context": None, "libraries": None}), ("A card of no catalogue", {"context": 1})]
)
def test_nothing_is_kept_where_nothing_was_told(tmp_path, monkeypatch, receipt):
    from kvplan import api

    monkeypatch.setenv("KVPLAN_CALIBRATION", str(tmp_path / "calibration.yaml"))
    name, measured = receipt
    assert api.keep_overheads(gpu_receipt(name, **measured)) is None
    assert list(tmp_path.iterdir()) == []


def test_doctor_answers_without_a_gpu(command):
    code, out, _ = command("doctor")
    assert code == 0
    assert "model specs" in out


def test_an_imported_spec_never_takes_the_place_of_a_file(tmp_path, capsys):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
              "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "torch_dtype": "bfloat16"}  # fmt: skip
    path, there = tmp_path / "config.json", tmp_path / "there.yaml"
    path.write_text(json.dumps(config))
    there.write_text("mine")
    for out, told in ((there, "exists"), ("/dev/full", "exists"), (there / "x.yaml", "can not be written")):
        assert run(["models", "import", str(path), "--out", str(out)]) == 2
        assert told in capsys.readouterr().err
    assert there.read_text() == "mine"
    assert run(["models", "import", str(path), "--out", str(tmp_path / "new.yaml")]) == 0
    assert run(["estimate", str(tmp_path / "new.yaml")]) == 0
