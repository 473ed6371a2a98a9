"""Sweeps as files: whole, resumable, the same bytes however often they were interrupted; on a cluster the same again."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvplan.cli import run
from kvplan.errors import SpecError
from kvplan.report import progress, sweep_files

MODEL = "meta-llama/llama-3.1-8b"
GRID = ["--engine", "ideal", "--device", "h100", "--grid", "context=1k:40k:+1k", "--grid", "tp=1,2", "--grid", "batch=1:5"]


def state_of(out: Path) -> dict[str, Any]:
    path = progress.path_of(out)
    return json.loads(path.read_text()) if path.exists() else {"points": 0}


def sweep(*args: str) -> int:
    return run(["sweep", MODEL, *GRID, *map(str, args)])


@pytest.mark.parametrize("fmt", ["csv", "jsonl"])
def test_interrupted_and_resumed_is_the_same_file(tmp_path, fmt, capsys):
    whole, broken = tmp_path / f"whole.{fmt}", tmp_path / f"broken.{fmt}"
    assert sweep("--out", whole, "--rows", "64") == 0
    state = json.loads(whole.with_name(whole.name + ".progress").read_text())
    assert state["points"] == 40 * 2 * 5
    content = whole.read_bytes()
    # a run that died after two ranges, in the middle of writing the third
    lines = content.splitlines(keepends=True)
    written = b"".join(lines[: 128 + (fmt == "csv")])
    broken.write_bytes(written + lines[130][:7])
    tail = sha256(written[-65536:]).hexdigest()
    progress.write(broken, progress.Progress(state["question"], fmt, 128, len(written), tail))
    assert sweep("--out", broken) == 2
    assert "add --resume" in capsys.readouterr().err
    assert sweep("--out", broken, "--resume", "--rows", "100") == 0
    assert broken.read_bytes() == content


def test_another_question_and_foreign_files_are_refused(tmp_path, capsys):
    out = tmp_path / "out.csv"
    assert sweep("--out", out) == 0
    assert run(["sweep", MODEL, "--grid", "context=1,2", "--out", str(out), "--resume"]) == 2
    assert "holds another sweep" in capsys.readouterr().err
    foreign = tmp_path / "mine.csv"
    foreign.write_text("precious")
    assert sweep("--out", foreign) == 2
    assert foreign.read_text() == "precious"


def test_killed_it_leaves_whole_lines_and_resumes(tmp_path):
    out = tmp_path / "out.csv"
    command = [
        sys.executable,
        "-m",
        "kvplan",
        "sweep",
        MODEL,
        "--engine",
        "ideal",
        "--grid",
        "context=1:300000",
        "--out",
        str(out),
        "--rows",
        "2000",
    ]
    process = subprocess.Popen(command)
    while not (at := state_of(out))["points"]:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    at = state_of(out)
    assert 0 < at["points"] < 300_000
    assert os.path.getsize(out) >= at["bytes"]
    assert out.read_bytes()[: at["bytes"]].endswith(b"\n")
    subprocess.run([*command, "--resume"], check=True)
    with out.open() as file:
        contexts = [int(row["context"]) for row in csv.DictReader(file)]
    assert contexts == list(range(1, 300_001))


SMALL = ["--engine", "ideal", "--grid", "context=1:90"]


def small(*args: str | Path) -> int:
    return run(["sweep", MODEL, *SMALL, *map(str, args)])


def cut_off(out: Path) -> tuple[bytes, dict[str, Any]]:
    """A sweep of 90 points of which 30 are written; the whole file's bytes, and the state."""
    assert small("--out", out) == 0
    whole, size = out.read_bytes(), 30
    kept = b"".join(whole.splitlines(keepends=True)[: size + 1])
    state = progress.read(out)
    out.write_bytes(kept)
    progress.write(out, state._replace(points=size, bytes=len(kept), tail=sha256(kept).hexdigest()))
    return whole, state_of(out)


def test_a_file_that_its_progress_does_not_describe_is_refused_and_left_alone(tmp_path, capsys):
    """Gone, shorter, changed: never padded, never a second copy, never counted as done."""
    out = tmp_path / "out.csv"
    _, _ = cut_off(out)
    content = out.read_bytes()
    for made, told in ((None, "is gone"), (content[:-1], "is shorter"), (content[:-3] + b"9,\n", "was changed"), (b"", "is shorter")):
        if made is None:
            out.unlink()
        else:
            out.write_bytes(made)
        assert small("--out", out, "--resume") == 2
        assert told in capsys.readouterr().err
        assert (out.read_bytes() if out.exists() else None) == made
    out.unlink()
    os.mkfifo(out)
    assert small("--out", out, "--resume") == 2
    assert "no regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"points": -5}, {"points": 10**30}, {"points": 91}, {"bytes": 10**13},
        {"bytes": -1}, {"points": "30"}, {"points": 30.0},
        {"points": True}, {"question": 5}, {"format": None}, {"tail": None},
        {"tail": "x"}, {"check": "x"}, {"check": None}, {"more": 1}, {"points": None},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("signed", [False, True])
def test_a_progress_that_was_changed_is_refused(tmp_path, capsys, change, signed):
    out = tmp_path / "out.csv"
    _, state = cut_off(out)
    content = out.read_bytes()
    state |= change
    if signed and "check" not in change:  # by someone who makes its digest anew: the file still does not agree
        state["check"] = progress.digest({k: v for k, v in state.items() if k != "check"})
    progress.path_of(out).write_text(json.dumps(state))
    assert small("--out", out, "--resume") == 2
    assert re.search(r"progress|shorter|changed", capsys.readouterr().err)
    assert out.read_bytes() == content


def test_a_progress_that_is_anything_else_is_refused(tmp_path, capsys):
    out = tmp_path / "out.csv"
    cut_off(out)
    place = progress.path_of(out)
    for text in ("", "[]", "null", "{", "[" * 10_000, '"x"', "9" * 5000, "\0"):
        place.write_text(text)
        assert small("--out", out, "--resume") == 2, text
    place.unlink()
    os.mkfifo(place)
    assert small("--out", out, "--resume") == 2
    place.unlink()
    place.symlink_to("/dev/zero")
    assert small("--out", out, "--resume") == 2
    assert capsys.readouterr().err.count("error: ") == 10


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
def test_killed_before_the_first_range_it_resumes(tmp_path, fmt, capsys, monkeypatch):
    if fmt == "parquet":
        pytest.importorskip("pyarrow", reason="the sweep extra brings pyarrow")
    out = tmp_path / f"out.{fmt}"

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kvplan.api.sweep_ranges", killed)
        small("--out", out)
        patch.setattr("kvplan.api.sweep_ranges", lambda *args: (killed() for _ in range(1)))
        small("--out", out)
    assert small("--out", out) == 2
    assert "add --resume" in capsys.readouterr().err
    assert small("--out", out, "--resume") == 0
    whole = tmp_path / f"whole.{fmt}"
    assert small("--out", whole) == 0
    if fmt != "parquet":
        assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{n}.{fmt}{e}" for n in ("out", "whole") for e in ("", ".progress"))


def test_parts_that_are_gone_or_others_are_refused(tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the sweep extra brings pyarrow")
    out = tmp_path / "out.parquet"
    assert small("--out", out, "--rows", "30") == 0
    parts = sorted(out.glob("part-*"))
    middle = parts[1].read_bytes()
    for change in (
        parts[1].unlink,
        lambda: parts[1].write_bytes(b"PAR1"),
        lambda: parquet.write_table(parquet.read_table(parts[0])[:5], parts[1]),
    ):
        change()
        assert small("--out", out, "--rows", "30", "--resume") == 2
        assert re.search(r"part-000000000\d\d0|lacks parts", capsys.readouterr().err)
        parts[1].write_bytes(middle)
    parts[2].rename(out / "part-000000000061.parquet")
    assert small("--out", out, "--rows", "30", "--resume") == 2
    # killed between a part and its record: the part is written again
    (out / "part-000000000061.parquet").rename(parts[2])
    progress.write(out, progress.read(out)._replace(points=60))
    (out / "part-000000000060.unfinished").write_bytes(b"PAR")
    assert small("--out", out, "--rows", "30", "--resume") == 0
    assert parquet.read_table(out).num_rows == 90
    assert len(list(out.iterdir())) == 3


def test_two_sweeps_do_not_write_one_file(tmp_path):
    out = tmp_path / "out.csv"
    ranges = ((1, {}) for _ in range(1))
    first = sweep_files.append(out, "csv", "q", 2, 0, ((1, {"a": np.arange(1)}) for _ in range(2)))
    assert next(first) == 1
    with pytest.raises(SpecError, match="another kvplan is writing it"):
        next(sweep_files.append(out, "csv", "q", 2, 1, ranges))
    assert list(first) == [2]
    with pytest.raises(SpecError, match="written to by another sweep"):
        next(sweep_files.append(out, "csv", "q", 2, 1, ranges))


def test_a_disk_that_fills_up_is_said_and_the_rest_resumes(tmp_path, capsys, monkeypatch):
    out, sync, calls = tmp_path / "out.csv", os.fsync, []

    def full(number):
        calls.append(number)
        if len(calls) == 6:  # progress and file of the first range, then the file of a later one
            raise OSError(28, "No space left on device")
        sync(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert small("--out", out, "--rows", "20") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert small("--out", out, "--rows", "20", "--resume") == 0
    assert small("--out", tmp_path / "whole.csv") == 0
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_parquet_parts_hold_every_point(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the sweep extra brings pyarrow")
    out = tmp_path / "out.parquet"
    assert sweep("--out", out, "--rows", "150") == 0
    assert len(list(out.glob("part-*.parquet"))) == 3
    table = parquet.read_table(out)
    assert table.num_rows == 400
    assert set(table.column("tp").to_pylist()) == {1, 2}


def test_standard_output_is_csv(capsys):
    assert sweep() == 0
    assert len(list(csv.DictReader(capsys.readouterr().out.splitlines()))) == 400


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--grid", "context"], "NAME=VALUES"),
        (["--grid", "colour=1,2"], "unknown name"),
        (["--grid", "context=1,x"], "is not a size"),
        ([], "at least one axis"),
        (["--grid", "context=1,2", "--context", "4"], "is an axis and an option"),
        (["--grid", "context=1,2", "--resume"], "need a file"),
        (["--grid", "engine_option=a"], "unknown axis"),
        (["--grid", "context=1,2", "--scheduler", "tcp://127.0.0.1:1"], "no Dask scheduler answers"),
    ],
)
def test_bad_grids(args, told, refused):
    assert told in refused("sweep", MODEL, *args)


CLUSTER = """
import os, signal, sys, threading, time
from kvplan import api, cluster
from kvplan.planner.sweep import chunks

if __name__ == "__main__":
    job = api.sweep("meta-llama/llama-3.1-8b", {"context": range(1, 20_001), "tp": [1, 2]}, engine="ideal", device="h100")
    here = [c["margin_bytes"].tolist() for _, c in api.sweep_ranges(job, 500)]
    with cluster.connected("local", 2) as client:
        there = []
        for i, (_, c) in enumerate(cluster.columns(client, job.question, job.over, chunks(job.over, 500))):
            there.append(c["margin_bytes"].tolist())
            if i == 10:
                victim = list(client.run(os.getpid).values())[0]
                os.kill(victim, signal.SIGKILL)
    print("same" if here == there and len(here) == 80 else "different")
"""


def test_a_cluster_that_loses_a_worker_gives_the_same_points(tmp_path):
    pytest.importorskip("distributed", reason="the dask extra brings it")
    script = tmp_path / "lose.py"
    script.write_text(CLUSTER)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "same", done.stderr[-2000:]
