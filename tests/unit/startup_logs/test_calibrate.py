"""Constants from one's own logs: what is solved, what is kept, what is left out and why, and that later estimates use and say it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kvplan import api
from kvplan.cli import run
from kvplan.errors import SpecError
from kvplan.startup_logs.fitting import constant_of
from kvplan.units import GIB
from tests.conftest import planned

VLLM = """\
INFO 04-19 10:18:36 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', 'max_model_len': 8192, 'gpu_memory_utilization': 0.95}
INFO Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-8B', device_name=NVIDIA_H100_80GB_HBM3
INFO Model loading took 15.27 GiB memory and 3.2 seconds
INFO Available KV cache memory: 57.5 GiB
INFO Free memory on device (78.6/79.19 GiB) on startup. Desired GPU memory utilization is (0.95, 75.23 GiB). Actual usage is 15.27 GiB \
for weight, 2.21 GiB for peak activation, 0.40 GiB for non-torch memory, and 0.96 GiB for CUDAGraph memory.
"""
SGLANG = """\
[2026-06-07 11:52:13] server_args=ServerArgs(model_path='Qwen/Qwen2.5-1.5B-Instruct', tp_size=1, mem_fraction_static=0.4, page_size=1)
[2026-06-07 11:52:20] Load weight begin. avail mem=78.00 GB
[2026-06-07 11:52:30] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=74.75 GB, mem usage=3.25 GB.
[2026-06-07 11:52:30] KV Cache is allocated. #tokens: 1040000, K size: 13.90 GB, V size: 13.90 GB
[2026-06-07 11:52:41] max_total_num_tokens=1040000, chunked_prefill_size=8192, max_running_requests=4096, context_len=32768
"""


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "settings" / "calibration.yaml"
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(path))
    return path


def log(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_dry_run_writes_nothing(tmp_path: Path, own_file: Path) -> None:
    found = api.calibrate(log(tmp_path, "serve.log", VLLM))
    assert not found.recorded
    assert not own_file.exists()
    assert found.path == str(own_file)
    outside = next(row for row in found.constants if row.name == "outside_torch")
    assert (outside.engine, outside.device, outside.cases) == ("vllm", "h100-80gb", 1)
    assert outside.value == pytest.approx(0.40 * GIB, rel=1e-6)  # the line is the constant
    assert outside.low <= outside.value <= outside.high
    assert found.as_dict()["recorded"] is False


def test_rows_are_nothing_but_rows(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    place = str(log(tmp_path, "serve.log", VLLM))
    assert run(["calibrate", place, "--format", "csv"]) == 0
    assert all(line.count(b",") >= 8 for line in capfdbinary.readouterr().out.splitlines())
    pytest.importorskip("pyarrow", reason="the sweep extra brings pyarrow")
    assert run(["calibrate", place, "--format", "parquet"]) == 0
    assert capfdbinary.readouterr().out.endswith(b"PAR1")  # the format's last four bytes: a reader looks for them there


def test_each_line_is_explained_by_its_constant(tmp_path: Path) -> None:
    """With the constants fitted on a log, that log's lines are predicted as logged: 2.21 GiB of activations, 0.40 GiB outside torch."""
    found = api.calibrate(log(tmp_path, "serve.log", VLLM))
    lines = {row.line: row for row in found.residuals}
    assert lines["activations"].fitted == pytest.approx(2.21 * GIB, abs=0.01 * GIB)
    assert lines["outside torch"].fitted == pytest.approx(0.40 * GIB, abs=0.01 * GIB)
    assert lines["activations"].left_out is None


def test_the_median_of_several_starts(tmp_path: Path) -> None:
    """0.30, 0.40 and 0.80 GiB outside torch: 0.40; each start is also predicted from the others' median."""
    for n in (30, 40, 80):
        log(tmp_path, f"{n}.log", VLLM.replace("0.40 GiB", f"0.{n} GiB"))
    found = api.calibrate(tmp_path)
    outside = next(row for row in found.constants if row.name == "outside_torch")
    assert outside.cases == 3
    assert outside.value == pytest.approx(0.40 * GIB, rel=1e-6)
    of_80 = next(r for r in found.residuals if r.source.endswith("80.log") and r.line == "outside torch")
    assert of_80.left_out == pytest.approx(0.35 * GIB, abs=1)  # of 0.30 and 0.40


def test_what_is_recorded_is_used_for_other_models_and_said(tmp_path: Path, own_file: Path) -> None:
    found = api.calibrate(log(tmp_path, "serve.log", SGLANG), device="h100-80gb", record=True)
    assert found.recorded
    assert {row["name"] for row in yaml.safe_load(own_file.read_text())["constants"]} == {"context", "loading"}
    question = {"engine": "sglang", "device": "h100-80gb", "memory_fraction": 0.8, "max_model_len": 32768}
    mine = planned("qwen/qwen3-8b", calibration="user", **question)
    context = next(e for e in mine.ledgers[0].entries if e.name == "CUDA context")
    assert context.bytes == pytest.approx((81_090 / 1024 - 78.0) * GIB, rel=1e-6)  # 79.19 of the card - 78.00 free
    assert "logs of yours" in context.source
    assert any("your constants of this device (context, loading)" in note for note in mine.model.notes)
    other = planned("qwen/qwen3-8b", calibration="user", **(question | {"device": "a100-80gb"}))
    assert any("no constant of this device" in note for note in other.model.notes)
    packaged = planned("qwen/qwen3-8b", **question)
    assert not any("calibration user" in note for note in packaged.model.notes)
    same = planned("qwen/qwen2.5-1.5b", calibration="user", **(question | {"memory_fraction": 0.4}))
    assert {e.name: e.basis for e in same.ledgers[0].entries}["weights"] == "measured"  # the recorded start itself


def test_options_fill_in_and_do_not_overrule(tmp_path: Path) -> None:
    log(tmp_path, "vllm.log", VLLM)
    log(tmp_path, "sglang.log", SGLANG)
    found = api.calibrate(tmp_path, device="a100-80gb", model="meta-llama/llama-3.1-8b")
    assert {(r.engine, r.model, r.device) for r in found.records} == {
        ("vllm", "qwen/qwen3-8b", "h100-80gb"),
        ("sglang", "qwen/qwen2.5-1.5b", "a100-80gb"),
    }


def test_what_can_not_be_used_says_why(tmp_path: Path) -> None:
    log(tmp_path, "a-note.txt", "hello\n")
    log(tmp_path, "b-no-device.log", SGLANG)
    log(tmp_path, "c-other-weights.log", VLLM.replace("15.27 GiB", "5.27 GiB"))
    log(tmp_path, "d-unknown.log", VLLM.replace("Qwen/Qwen3-8B", "/models/mine"))
    log(tmp_path, ".hidden.log", VLLM)
    log(tmp_path, "serve.log", VLLM)
    found = api.calibrate(tmp_path)
    reasons = [why for _, why in found.skipped]
    assert [Path(name).name[0] for name, _ in found.skipped] == ["a", "b", "c", "d"]
    for reason, words in zip(reasons, ("start-up log", "--device", "5.270 GiB of weights are logged", "not on this machine"), strict=True):
        assert words in reason
    assert len(found.records) == 1
    with pytest.raises(SpecError, match="start-up log"):
        api.calibrate(tmp_path / "a-note.txt")
    with pytest.raises(SpecError, match="no such file"):
        api.calibrate([tmp_path / "serve.log", tmp_path / "gone.log"])


def test_a_server_beside_this_one_is_nobodys_constant(tmp_path: Path) -> None:
    """40 GiB free of 79.19 before the weights: the context's line is left out, the weights' is kept."""
    busy = log(tmp_path, "busy.log", SGLANG.replace("avail mem=78.00", "avail mem=40.00"))
    found = api.calibrate(busy, device="h100-80gb")
    assert {row.name for row in found.constants} == {"loading"}
    assert "CUDA context" not in dict(found.records[0].lines)


def test_a_broken_user_file_is_an_error_and_stays(tmp_path: Path, own_file: Path) -> None:
    own_file.parent.mkdir()
    own_file.write_text("records: []\nconstants: [{engine: vllm, value: much}]\n")
    with pytest.raises(SpecError, match="constants"):
        api.calibrate(log(tmp_path, "serve.log", VLLM), record=True)
    assert "much" in own_file.read_text()


def test_intervals_of_few_and_of_many() -> None:
    """Few: the range 2..4, widened on both sides by half of it. Many: what leaving each out kept in 90 % of cases."""
    few = constant_of("x", "1", {"a": [2.0], "b": [3.0], "c": [4.0]})
    assert (few.value, few.low, few.high) == (3.0, 1.0, 5.0)
    one = constant_of("x", "1", {"a": [2.0]})
    assert (one.low, one.high) == (1.0, 3.0)
    groups = {str(n): [float(n)] for n in range(1, 20)}
    many = constant_of("x", "1", groups)
    assert many.value == 10.0
    # without n the median is 10.5 below, 9.5 above and 10 at 10: errors 0, twice each of 1.5 to 9.5; the 18th of 19 is 9.5
    assert (many.low, many.high) == (0.5, 19.5)


def test_places_that_are_no_log_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.log"):
        with pytest.raises(SpecError, match=r"a directory|no such file"):
            api.reconcile(path)
    (tmp_path / "logs").mkdir()
    with pytest.raises(SpecError, match="no log there"):
        api.calibrate(tmp_path / "logs")
    for n in range(30):
        log(tmp_path / "logs", f"{n}.txt", "hello\n")
    with pytest.raises(SpecError, match="and 10 more"):
        api.calibrate(tmp_path / "logs")
