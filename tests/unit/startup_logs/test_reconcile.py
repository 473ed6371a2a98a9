"""Predicted beside logged, and what is kept of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kvplan import api, catalogue
from kvplan.errors import SpecError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.startup_logs import Line, LoggedStart, Reconciliation, compare, keep, question_of, read_log, record_of
from tests.conftest import planned
from tests.log_samples import LLAMA, SGLANG

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


LLAMA_CPP = LLAMA.replace("/models/gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b")


def named(result: Reconciliation) -> dict[str, Line]:
    return {line.name: line for line in result.lines}


def test_sglang_line_by_line() -> None:
    """112.26 of 121.69 GiB were free before the weights: 9.43 are the context's; K and V together are the cache."""
    lines = named(compare(*both(SGLANG, device="gb10")))
    assert lines["CUDA context"].logged == pytest.approx((124_610 / 1024 - 112.26) * 2**30, abs=1)
    assert lines["weights"].logged == int(3.25 * 2**30)
    assert lines["cache"].logged == pytest.approx(41.6 * 2**30)
    assert lines["tokens"].logged == 1557709
    assert {line.verdict for line in lines.values()} == {"within"}


def test_llama_cpp_line_by_line() -> None:
    """The device's own buffers, base and window cache apart; MiB as printed."""
    lines = named(compare(*both(LLAMA_CPP, model="openai/gpt-oss-20b")))
    assert lines["weights"].logged == int(10949.38 * 2**20)  # CUDA0's, not CPU_Mapped's
    assert lines["compute buffer"].logged == int(398.38 * 2**20)
    assert (lines["cache"].predicted, lines["cache"].logged) == (96 * 2**20, 96 * 2**20)
    assert (lines["window cache"].predicted, lines["window cache"].logged) == (24 * 2**20, 24 * 2**20)
    assert (lines["cells"].predicted, lines["window cells"].predicted) == (4096, 1024)
    assert lines["CUDA context"].logged == (24_081 - 22_994) * 2**20


ENGINE = """\
[TensorRT-LLM][INFO] Engine version 0.12.0 found in the config file, assuming engine(s) built by new builder API.
[TensorRT-LLM][INFO] TRTGptModel maxBatchSize: 256
[TensorRT-LLM][INFO] TRTGptModel maxSequenceLen: 4098
[TensorRT-LLM][INFO] TRTGptModel maxNumTokens: 8192
[TensorRT-LLM][INFO] Loaded engine size: 12900 MiB
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 700.00 MiB for execution context memory.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 60.50 MB GPU memory for runtime buffers.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 512.00 KB GPU memory for decoder.
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.19 GiB, available: 64.00 GiB
[TensorRT-LLM][INFO] Number of tokens per block: 64.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 57.60 GiB for max tokens in paged KV cache (117952).
"""


def test_tensorrt_llm_engines_line_by_line() -> None:
    start, plan = both(ENGINE, model="meta-llama/llama-2-7b", device="h100-80gb")
    question = {name: value for name, (value, _) in plan.question.items()}
    assert (question["max_num_seqs"], question["max_num_batched_tokens"], question["max_model_len"], question["block_size"]) == (
        256, 8192, 4098, 64,
    )  # fmt: skip
    assert question["engine_option"] == {"backend": "tensorrt"}
    lines = named(compare(start, plan))
    assert lines["execution context"].logged == 700 * 2**20
    assert lines["runtime buffers and decoder"].logged == int(60.5 * 2**20) + 512 * 2**10
    rest = (79.19 - 64.0) * 2**30 - (12900 + 700 + 60.5 + 0.5) * 2**20
    assert lines["CUDA context"].logged == pytest.approx(rest, abs=4)


PYTORCH = """\
[TensorRT-LLM] TensorRT-LLM version: 1.1.0rc3
[12/20/2025-04:20:04] [TRT-LLM] [I] Using LLM with PyTorch backend
[12/20/2025-04:21:09] [TRT-LLM] [I] max_seq_len is not specified, using inferred value 131072
[12/20/2025-04:21:10] [TRT-LLM] [I] max_seq_len=8224, max_num_requests=64, max_num_tokens=8192, max_batch_size=64
[12/20/2025-04:21:50] [TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage profiling: 63.52 GiB
[12/20/2025-04:21:51] [TRT-LLM] [I] Memory dynamically allocated during inference (inside torch) in memory usage profiling: 0.85 GiB
[12/20/2025-04:21:51] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB, available KV cache memory \
when calculating max tokens: 5.95 GiB, fraction is set 0.8999999761581421, kv size is 73728. device total memory 119.70 GiB
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 5.95 GiB for max tokens in paged KV cache (86720).
"""  # gpt-oss-120b on a DGX Spark, as a public guide of 2025-12-20 shows it


def test_memory_of_others_is_named_with_its_bytes() -> None:
    """113.65 at the peak less 63.52 and 0.85 inside torch: 49.28 GiB outside, on a machine whose host memory is the same."""
    result = compare(*both(PYTORCH, model="openai/gpt-oss-120b", device="gb10"))
    outside = named(result)["outside torch"]
    assert outside.logged == pytest.approx((113.65 - 63.52 - 0.85) * 2**30, abs=4)
    assert outside.verdict == "off"
    assert any("--reserve" in note and "outside torch" in note for note in result.notes)
    busy = compare(*both(SGLANG.replace("avail mem=112.26", "avail mem=60.26"), device="gb10"))
    hint = next(note for note in busy.notes if "were in use when the engine started" in note)
    taken = int(hint.split("--reserve ")[1].removesuffix("MiB"))
    again = named(compare(*both(SGLANG.replace("avail mem=112.26", "avail mem=60.26"), device="gb10", reserve=f"{taken}MiB")))
    assert again["CUDA context"].verdict == "within"


def test_notes_on_ranks_releases_and_flags() -> None:
    ranks = LOG.replace("INFO Available KV cache memory: 57.5 GiB", "(Worker_TP0 pid=1) INFO Available KV cache memory: 30.5 GiB\n"
                        "(Worker_TP1 pid=2) INFO Available KV cache memory: 25.5 GiB")  # fmt: skip
    notes = " ".join(compare(*both(ranks)).notes)
    assert "2 ranks print in this log, 1 are in the question: name --tp" in notes
    assert "ranks have 25.5 to 30.5 GiB" in notes
    unread = LOG.replace("'max_model_len': 8192", "'max_model_len': 8192, 'cpu_offload_gb': 4, 'kv_transfer_config': None")
    off = unread.replace("57.5 GiB", "67.5 GiB").replace(" (v0.19.0)", "")
    notes = " ".join(compare(*both(off)).notes)
    assert "cpu_offload_gb=4" in notes
    assert "kv_transfer_config" not in notes
    assert "names no release" in notes
    assert "names no release" not in " ".join(compare(*both(off, engine_version="0.19.0")).notes)
    assert compare(*both(LOG)).notes == ()


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
    measured = planned("Qwen/Qwen3-8B", calibration="user", **question)
    lines = {e.name: e for e in measured.ledgers[0].entries}
    assert lines["activations"].bytes == 3 * 2**30
    assert (lines["activations"].basis, lines["activations"].source) == ("measured", "serve.log")
    assert lines["weights"].bytes == int(15.27 * 2**30)
    assert measured.question["calibration"] == ("user", "you")
    other = planned("Qwen/Qwen3-8B", calibration="user", max_num_seqs=16, **question)
    assert {e.basis for e in other.ledgers[0].entries} == {"exact", "modelled"}  # another question, nothing measured
    packaged = planned("Qwen/Qwen3-8B", **question)
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


@pytest.mark.parametrize(
    ("log", "given", "question", "line", "n_bytes"),
    [
        (SGLANG, {"device": "gb10"}, {"engine": "sglang", "device": "gb10", "max_model_len": 32768}, "weights", int(3.25 * 2**30)),
        (LLAMA_CPP, {"model": "openai/gpt-oss-20b"},
         {"engine": "llama.cpp", "device": "rtx-4090", "max_model_len": 4096, "max_num_seqs": 4, "engine_version": "6232",
          "engine_option": {"kv_unified": "true"}}, "compute buffer", int(398.38 * 2**20)),
        (ENGINE, {"model": "meta-llama/llama-2-7b", "device": "h100-80gb"},
         {"engine": "tensorrt-llm", "device": "h100-80gb", "max_model_len": 4098, "max_num_seqs": 256, "engine_version": "0.12.0"},
         "execution context", 700 * 2**20),
    ],
    ids=["sglang", "llama.cpp", "tensorrt-llm"],
)  # fmt: skip
def test_other_engines_starts_are_recorded_and_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log: str,
    given: dict[str, object],
    question: dict[str, object],
    line: str,
    n_bytes: int,
) -> None:
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(tmp_path / "calibration.yaml"))
    start, plan = both(log, **given)
    keep(record_of(start, plan, "serve.log"))
    model = plan.model.id
    entries = {e.name: e for e in planned(model, calibration="user", **question).ledgers[0].entries}
    assert (entries[line].bytes, entries[line].basis, entries[line].source) == (n_bytes, "measured", "serve.log")
    other = planned(model, calibration="user", **(question | {"weight_dtype": "q8_0" if start.engine == "llama.cpp" else "int8_channel"}))
    assert "measured" not in {e.basis for e in other.ledgers[0].entries}  # another question


def test_a_broken_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "calibration.yaml"
    path.write_text("records: [{engine: 3}]\n")
    with pytest.raises(SpecError):
        keep(record_of(*both(LOG), "serve.log"), path)
    assert path.read_text() == "records: [{engine: 3}]\n"


def test_a_plan_without_a_ledger_is_compared_with_nothing() -> None:
    """An engine that refuses before it counts memory, or another's log."""
    for log, given in ((LOG, {}), (SGLANG, {"device": "gb10"}), (ENGINE, {"model": "meta-llama/llama-2-7b", "device": "h100-80gb"})):
        start, plan = both(log, **given)
        bare = plan._replace(outcome=plan.outcome._replace(ledgers=(), capacity=None))
        assert compare(start, bare).lines == ()
        with pytest.raises(SpecError, match="no measured line"):
            record_of(start, bare, "serve.log")


RECORD = """
import sys
import subprocess
import sys
from pathlib import Path
from kvplan.constants import Record
from kvplan.startup_logs import keep
for n in range(int(sys.argv[3])):
    keep(Record("vllm", "0.19.0", f"a/{sys.argv[2]}-{n}", "h100-80gb", 1, 1, 8, 8, (("weights", n),), "x.log", ""), Path(sys.argv[1]))
"""


def test_what_several_processes_record_at_once_is_all_kept(tmp_path: Path) -> None:
    """Two processes once kept 42 of 80."""
    path = tmp_path / "calibration.yaml"
    writers = [subprocess.Popen([sys.executable, "-c", RECORD, str(path), name, "5"]) for name in "abcd"]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0, 0]
    models = sorted(record.model for record in catalogue.read_user_file(path).records)
    assert models == sorted(f"a/{name}-{n}" for name in "abcd" for n in range(5))
    assert [p.name for p in tmp_path.iterdir()] == ["calibration.yaml"]


def test_unknown_calibrations_are_errors() -> None:
    with pytest.raises(SpecError):
        catalogue.constants("vllm", "mine")
    assert catalogue.constants("ideal") is None
    assert catalogue.constants("vllm", "none") is None


def test_a_printed_total_names_the_device() -> None:
    start = read_log("total_gpu_memory (79.25GiB) x gpu_memory_utilization (0.90)\n# GPU blocks: 10, # CPU blocks: 1\n")
    assert start.question["device"] == "79.25GiB"
    assert question_of(start)[1]["device"].startswith("a100")  # 81,153 MiB; an H100 has 81,090
    assert question_of(start, {"device": "h100-80gb"})[1]["device"] == "h100-80gb"
    assert catalogue.device_of_total(12.34) is None
