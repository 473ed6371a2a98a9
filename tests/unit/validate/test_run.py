"""Predicted beside measured, end to end on the CPU: equal lines, refusals, running out of memory, being killed, receipts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvplan.deployment import Deployment
from kvplan.errors import UnsupportedError
from kvplan.layers import MIXERS
from kvplan.units import MIB
from kvplan.validate import kinds, receipts, run
from kvplan.validate.child import Worker
from kvplan.validate.predict import fewer_layers, propose
from kvplan.validate.receipts import Case, Row, faults, read, receipt, verdict
from tests.conftest import one_block

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import validation_page  # noqa: E402

GQA = {"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64}
PER_TOKEN = 2 * 4 * 64 * 2  # K and V, 4 heads of 64 elements of 2 bytes
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def question(n_layers: int = 2, mixer: dict | None = None, **asked) -> Deployment:
    return Deployment(model=one_block(mixer or GQA, n_layers), **{"context": 1024, "batch": 2, **asked})


@pytest.mark.usefixtures("one_process")
def test_a_plan_is_allocated_and_equal():
    found = run.validate(question())
    (case,) = found.cases
    assert found.status == case.status == "equal"
    assert case.predicted_bytes == case.allocated_bytes == 2 * 2 * 1024 * PER_TOKEN
    assert [(row.name, row.allocated_bytes) for row in case.rows] == [(f"gqa {t}", 1024 * PER_TOKEN * 2) for t in "kv"]
    assert found.machine["device"] == "cpu"
    assert faults(found) == []


@pytest.mark.parametrize(
    ("asked", "n_bytes"),
    [
        ({"tp": 2}, 3 * 2 * 1024 * PER_TOKEN // 2),
        ({"tp": 8}, 3 * 2 * 1024 * PER_TOKEN // 4),  # a KV head each, copied
        ({"pp": 2}, 2 * 2 * 1024 * PER_TOKEN),  # two of three layers
        ({"dp": 2}, 3 * 1 * 1024 * PER_TOKEN),
        ({"block_size": 16, "context": 1001}, 3 * 2 * 63 * 16 * PER_TOKEN),
        ({"kv_dtype": "q8_0"}, 3 * 2 * 1024 * 2 * 4 * 2 * 34),
    ],
)
def test_what_one_device_holds(asked, n_bytes):
    proposal = propose(question(3, **asked))
    assert proposal.total_bytes == sum(row.bytes for row in proposal.rows) == n_bytes


def test_what_validate_can_not_allocate():
    with pytest.raises(UnsupportedError, match="start-up log"):
        propose(question(engine="vllm"))
    with pytest.raises(UnsupportedError, match="dcp"):
        propose(question(tp=8, dcp=2))


def test_fewer_layers_of_each_kind_below_a_limit():
    proposal = propose(question(10))
    smaller = fewer_layers(proposal, proposal.total_bytes // 3)
    assert [row.shape.layers for row in smaller.rows] == [3, 3]
    assert smaller.total_bytes == 3 * 2 * 1024 * PER_TOKEN
    assert smaller.question["fewer_layers"] == "6 of 20 tensors, full width"
    assert fewer_layers(proposal, 1).rows[0].shape.layers == 1
    assert fewer_layers(proposal, proposal.total_bytes) is proposal


def test_every_layer_kind_is_sampled_and_most_formats():
    from kvplan.dtypes import FORMATS, PAIRS

    assert set(kinds.SAMPLES) == set(MIXERS)
    asked = {part for _, name in kinds.FORMATS for part in (PAIRS.get(name) or name.split("/"))}
    assert set(FORMATS) - asked == {"bf16", "f64"}


@pytest.mark.usefixtures("one_process")
def test_every_kind_layout_and_format_is_equal_at_a_small_size():
    found = run.all_kinds(target_bytes=1 * MIB)
    assert len(found.cases) == len(kinds.SAMPLES) + 1 + len(kinds.LAYOUTS) + len(kinds.FORMATS)
    assert {case.name: case.status for case in found.cases if case.status != "equal"} == {}
    assert {case.name for case in found.cases if not case.allocated_bytes} == {"encoder", "shared"}
    assert faults(found) == []


@pytest.mark.usefixtures("one_process")
def test_a_wrong_prediction_is_found_out(monkeypatch):
    """What the receipts are worth: a formula that is off by a token or a scale is not equal."""
    from kvplan.validate import predict as module

    right = propose(question())
    monkeypatch.setattr(run, "propose", lambda d, layout: right._replace(rows=tuple(r._replace(bytes=r.bytes + 128) for r in right.rows)))
    assert run.validate(question()).status == "different"
    monkeypatch.undo()
    sliding = question(mixer={**GQA, "kind": "sliding", "window": 100})
    wrong = propose(sliding)
    shape = wrong.rows[0].shape
    assert shape.keep_tokens == 100
    assert module.predict(shape._replace(keep_tokens=101)) != module.predict(shape)


@pytest.mark.usefixtures("one_process")
def test_what_can_not_fit_is_refused_before_it_is_tried():
    found = run.validate(question(batch=1 << 20, context=1 << 20))
    (case,) = found.cases
    assert found.status == "refused"
    assert case.allocated_bytes is None
    assert case.note.startswith(f"refused before allocating: needs {(1 << 40) * 2 * PER_TOKEN:,} B")
    assert all(row.allocated_bytes is None for row in case.rows)


@LINUX
def test_running_out_of_memory_is_a_result_with_its_bytes():
    d = question(n_layers=8, batch=16, context=4096)  # 32 MiB a layer and tensor
    found = run.validate(d, force=True, headroom_bytes=150 * MIB)
    (case,) = found.cases
    assert found.status == "out of memory"
    assert 64 * MIB <= (case.allocated_bytes or 0) <= 150 * MIB
    assert case.note.startswith(f"out of memory with {case.allocated_bytes:,} B")
    assert faults(found) == []


@LINUX
def test_a_killed_worker_is_a_result_too():
    with Worker("cpu") as worker:
        proposal = propose(question(n_layers=2))
        events = worker.run("caches", cases=[[row.shape._asdict() for row in proposal.rows]] * 1000)
        next(events)
        os.kill(worker.process.pid, signal.SIGKILL)
        last = list(events)[-1]
    assert last == {"event": "killed", "signal": "SIGKILL"}
    case = run._close(proposal, {}, [], last)
    assert (case.status, "SIGKILL" in case.note) == ("killed", True)


@LINUX
@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_killed_half_way_it_leaves_no_receipt_and_no_memory(how, code, tmp_path):
    command = [sys.executable, "-m", "kvplan", "validate", "--all-kinds", "--size", "64MiB", "--record", tmp_path / "receipt.json"]
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 - a shell's background jobs inherit that it is ignored
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    worker = _child(process.pid, busy_bytes=300 * MIB)
    process.send_signal(how)
    _, said = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in said
    deadline = time.monotonic() + 20
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()
    assert list(tmp_path.iterdir()) == []


@LINUX
def test_a_limit_on_address_space_is_out_of_memory_and_exit_code_1(tmp_path):
    """`ulimit -v` as an administrator sets it: torch's own refusal, for the whole command."""
    script = (
        "import resource, sys\nfrom kvplan.cli import run\nfrom kvplan.validate import child\n"
        "child._ENVIRONMENT['OMP_NUM_THREADS'] = '1'\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\nsys.exit(run(sys.argv[1:]))"
    )
    asked = ["validate", "meta-llama/llama-3.1-8b", "--context", "64k", "--batch", "1", "--force", "--format", "json"]
    found = subprocess.run(
        [sys.executable, "-c", script, *asked, "--record", tmp_path / "r.json"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 1, found.stderr
    (case,) = read(tmp_path / "r.json").cases
    assert case.status == "out of memory"
    assert 1 << 28 < (case.allocated_bytes or 0) < 4 << 30
    assert case.note.startswith(f"out of memory with {case.allocated_bytes:,} B")
    assert faults(read(tmp_path / "r.json")) == []


@LINUX
def test_after_running_out_the_next_case_has_the_memory_again():
    large = propose(question(n_layers=16, batch=16, context=4096))  # 32 MiB a layer and tensor: 1 GiB
    small = propose(question(n_layers=4, batch=16, context=4096))
    cases = [[row.shape._asdict() for row in p.rows] for p in (large, small, large)]
    with Worker("cpu") as worker:
        ends = [e["event"] for e in worker.run("caches", cases=cases, headroom=600 * MIB) if e["event"] != "row"]
    assert ends == ["out of memory", "case", "out of memory"]


def _child(pid: int, busy_bytes: int) -> int:
    """The worker of a process, once it holds memory."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            resident = int(Path(f"/proc/{child}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            if resident > busy_bytes:
                return int(child)
        time.sleep(0.01)
    raise AssertionError("the worker never allocated anything")


def test_the_verdict_needs_every_row_and_the_plans_own_total():
    shape = propose(question()).rows[0].shape
    rows = (Row("a", 10, 10, {}, shape), Row("b", 5, 5, {}, shape), Row("a peak", None, 2, {}))
    assert verdict(rows, 15) == "equal"
    assert verdict((*rows, Row("weights", 1, 2, {})), 15) == "different"
    assert verdict(rows, 16) == "different"
    assert verdict((rows[0]._replace(allocated_bytes=None),), 10) == "different"


def test_the_table_for_people():
    case = Case("m", "equal", (Row("gqa k", 10, 10, {"resident": 12}, propose(question()).rows[0].shape),), 10, 10, {"resident": 12}, {})
    row, total = run.table(receipt("caches", {}, cases=(case,)))
    assert row == {"case": "m", "line": "gqa k", "format": "bf16", "predicted": 10, "allocated": 10, "equal": True, "measured": 12}
    assert total == {"case": "m", "line": "total", "format": "", "predicted": 10, "allocated": 10, "equal": True, "measured": 12}


def test_without_torch_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"needs torch.*kvplan-llm\[gpu\]"):
        run.validate(question())


def test_predicting_and_reporting_load_no_torch():
    code = "import sys, kvplan.validate.run, kvplan.validate.real, kvplan.validate.receipts; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# ---- speed, and pages of what no machine here has


@pytest.mark.usefixtures("one_process")
def test_speed_says_how_steps_grow_and_its_receipt_is_checked():
    found = run.speed(lengths=(64, 128, 256), seconds=0.03)
    assert found.speed is not None
    assert [p["length"] for p in found.speed["points"]] == [64, 128, 256]
    assert [p["cache_bytes"] for p in found.speed["points"]] == [n * 2 * 4 * 64 * 4 for n in (64, 128, 256)]
    assert found.status == "measured"
    assert faults(found) == []
    lying = found._replace(speed=found.speed | {"exponents": found.speed["exponents"] | {"with_cache_s": 0.0}})
    assert faults(lying)[0].startswith("with_cache_s grows with exponent")
    assert "<svg" in validation_page.plot(found.speed)


@pytest.mark.parametrize(("seconds", "p"), [([1, 1, 1], 0), ([1, 2, 4], 1), ([3, 12, 48], 2)])
def test_exponents(seconds, p):
    assert receipts.exponent([100, 200, 400], seconds) == pytest.approx(p)


def test_the_page_of_a_gpu():
    machine = {"device": "cuda", "name": "NVIDIA H200", "system": "Linux x86_64", "torch": "2.13.0", "driver": "580.1"}
    machine |= {"overheads": {"context": 500 * MIB, "libraries": None, "workspace": 32 * MIB}}
    measured = {"nvml_used": None, "cuda_used": 20 * MIB, "torch_reserved": 20 * MIB}
    case = Case("gqa", "equal", (), 5 * MIB, 5 * MIB, measured, {}, "", {"allocated": 5 * MIB, "reserved": 20 * MIB})
    page = validation_page.page({"cuda-kinds": receipt("kinds", machine, cases=(case,))}, {})
    assert "GPUs measured: NVIDIA H200." in page
    assert "Beside tensors: CUDA's context 500.000 MiB, the first product's workspace 32.000 MiB." in page
    assert "| gqa | 5,242,880 | 5,242,880 | yes | 20,971,520 | 20,971,520 | 20,971,520 |" in page
