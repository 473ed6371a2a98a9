"""Sweeps as files: whole, resumable, the same bytes however often they were interrupted; on a cluster the same again."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from kvplan.cli import run

MODEL = "meta-llama/llama-3.1-8b"
GRID = ["--engine", "ideal", "--device", "h100", "--grid", "context=1k:40k:+1k", "--grid", "tp=1,2", "--grid", "batch=1:5"]


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
    progress = {"question": state["question"], "format": fmt, "points": 128, "bytes": len(written)}
    broken.with_name(broken.name + ".progress").write_text(json.dumps(progress))
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
    progress = out.with_name(out.name + ".progress")
    while not progress.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    at = json.loads(progress.read_text())
    assert 0 < at["points"] < 300_000
    assert os.path.getsize(out) >= at["bytes"]
    assert out.read_bytes()[: at["bytes"]].endswith(b"\n")
    subprocess.run([*command, "--resume"], check=True)
    with out.open() as file:
        contexts = [int(row["context"]) for row in csv.DictReader(file)]
    assert contexts == list(range(1, 300_001))


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
def test_bad_grids(args, told, capsys):
    assert run(["sweep", MODEL, *args]) == 2
    assert told in capsys.readouterr().err


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


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_gives_the_same_points(tmp_path):
    pytest.importorskip("distributed", reason="the dask extra brings it")
    script = tmp_path / "lose.py"
    script.write_text(CLUSTER)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "same", done.stderr[-2000:]
