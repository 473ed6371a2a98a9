"""Predicted beside logged, and what is kept of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kvplan import api, catalogue
from kvplan.errors import SpecError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.startup_logs import LoggedStart, compare, keep, question_of, read_log, record_of

LOG = """\
INFO 04-19 10:18:36 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', 'max_model_len': 8192, 'gpu_memory_utilization': 0.95}
INFO Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-8B', device_name=NVIDIA_H100_80GB_HBM3
INFO Model loading took 15.27 GiB memory and 3.2 seconds
INFO Available KV cache memory: 57.5 GiB
INFO GPU KV cache size: 418,688 tokens
INFO Maximum concurrency for 8,192 tokens per request: 51.11x
INFO Free memory on device (78.6/79.19 GiB) on startup. Desired GPU memory utilization is (0.95, 75.23 GiB). Actual usage is 15.27 GiB \
for weight, 2.21 GiB for peak activation, 0.25 GiB for non-torch memory, and 0.96 GiB for CUDAGraph memory.
"""  # the figures are those of llm-d-incubation/llm-d-planner#205, Qwen3-8B on one H100


def both(log: str, **overrides: object) -> tuple[LoggedStart, Plan]:
    start = read_log(log)
    model, question = question_of(start, overrides)
    assert model is not None
    return start, evaluate(api.deployment(model, **question))


def test_a_log_that_agrees() -> None:
    result = compare(*both(LOG))
    assert result.agrees, result.summary
    assert {line.name for line in result.lines} == {"weights", "activations", "outside torch", "cache", "tokens", "concurrency"}
    cache = next(line for line in result.lines if line.name == "cache")
    assert cache.logged == 57.5 * 2**30
    assert cache.of_device == pytest.approx(cache.difference / (79.19 * 2**30), rel=1e-3)
    assert result.question["max_model_len"] == 8192
    assert result.as_dict()["lines"][0]["name"] == "weights"


def test_a_line_that_is_off_says_why() -> None:
    result = compare(*both(LOG.replace("15.27 GiB", "9.1 GiB")))
    off = [line for line in result.lines if line.verdict == "off"]
    assert [line.name for line in off] == ["weights"]
    assert "formats" in str(off[0].cause)
    assert "weights" in result.summary


def test_overrides_come_first() -> None:
    model, question = question_of(read_log(LOG), {"model": "qwen/qwen3-14b", "max_num_seqs": 4, "device": None})
    assert model == "qwen/qwen3-14b"
    assert question["max_num_seqs"] == 4
    assert question["device"] == "NVIDIA H100 80GB HBM3"
    assert (question["engine"], question["engine_version"]) == ("vllm", "0.19.0")


def test_what_is_recorded_is_used_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "calibration.yaml"
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(path))
    start, plan = both(LOG.replace("2.21 GiB", "3.00 GiB"))
    assert keep(record_of(start, plan, "serve.log")) == path
    question = {"engine": "vllm", "engine_version": "0.19.0", "device": "h100-80gb", "max_model_len": 8192, "memory_fraction": 0.95}
    measured = api.estimate("Qwen/Qwen3-8B", calibration="user", **question)
    lines = {e.name: e for e in measured.ledgers[0].entries}
    assert lines["activations"].bytes == 3 * 2**30
    assert (lines["activations"].basis, lines["activations"].source) == ("measured", "serve.log")
    assert lines["weights"].bytes == int(15.27 * 2**30)
    assert measured.question["calibration"] == ("user", "you")
    other = api.estimate("Qwen/Qwen3-8B", calibration="user", max_num_seqs=16, **question)
    assert {e.basis for e in other.ledgers[0].entries} == {"exact", "modelled"}  # another question, nothing measured
    packaged = api.estimate("Qwen/Qwen3-8B", **question)
    assert {e.basis for e in packaged.ledgers[0].entries} == {"exact", "modelled"}


def test_the_file_keeps_one_record_a_question_and_no_debris(tmp_path: Path) -> None:
    path = tmp_path / "calibration.yaml"
    record = record_of(*both(LOG), "first.log")
    keep(record, path)
    keep(record._replace(source="second.log"), path)
    keep(record._replace(tp=2), path)
    rows = yaml.safe_load(path.read_text())["records"]
    assert [(row["tp"], row["source"]) for row in rows] == [(1, "second.log"), (2, "first.log")]
    assert [p.name for p in tmp_path.iterdir()] == ["calibration.yaml"]


def test_a_broken_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "calibration.yaml"
    path.write_text("records: [{engine: 3}]\n")
    with pytest.raises(SpecError):
        keep(record_of(*both(LOG), "serve.log"), path)
    assert path.read_text() == "records: [{engine: 3}]\n"


def test_unknown_calibrations_are_errors() -> None:
    with pytest.raises(SpecError):
        catalogue.constants("vllm", "mine")
    assert catalogue.constants("ideal") is None
    assert catalogue.constants("vllm", "none") is None


def test_other_engines_logs_are_not_recorded() -> None:
    start, plan = both(LOG)
    with pytest.raises(SpecError):
        record_of(LoggedStart(engine="sglang", version=None, model=None, question={}, figures=start.figures), plan, "x")


def test_a_printed_total_names_the_device() -> None:
    start = read_log("total_gpu_memory (79.25GiB) x gpu_memory_utilization (0.90)\n# GPU blocks: 10, # CPU blocks: 1\n")
    assert start.question["device"] == "79.25GiB"
    assert question_of(start)[1]["device"].startswith("a100")  # 81,153 MiB; an H100 has 81,090
    assert question_of(start, {"device": "h100-80gb"})[1]["device"] == "h100-80gb"
    assert catalogue.device_of_total(12.34) is None
