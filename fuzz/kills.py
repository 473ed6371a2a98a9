"""Kills and crowds: a sweep killed again and again and resumed, records kept by two processes at once, and writers that are killed.

    python fuzz/kills.py [--kills N] [--rounds N]

Prints counts; exit code 1 where a byte or a record was lost, or anything was left beside the files.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

KVPLAN = [sys.executable, "-m", "kvplan"]
SWEEP = ["sweep", "meta-llama/llama-3.1-8b", "--engine", "ideal", "--rows", "1000"]
LOG = """INFO 01-01 00:00:00 [llm_engine.py:1] Initializing a V1 LLM engine (v0.11.0) with config: model='meta-llama/Llama-3.1-8B'
INFO 01-01 00:00:00 [x.py:1] non-default args: {{'max_num_seqs': {seqs}}}
INFO 01-01 00:00:01 [gpu_model_runner.py:1] Model loading took {gib} GiB and 5.0 seconds
INFO 01-01 00:00:02 [gpu_worker.py:1] Available KV cache memory: {left} GiB
"""


def killed(command: Sequence[str], seconds: float, **env: str) -> bool:
    """Whether the command was still at work when it was killed."""
    process = subprocess.Popen(command, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def sweeps(folder: Path, kills: int, rng: random.Random) -> list[str]:
    """Faults of sweeps that are killed and resumed until they are whole, `kills` times in all."""
    whole, faults, n, files = folder / "whole.csv", [], 0, 0
    grid = ["--grid", "context=1:30000"]
    started = time.monotonic()
    subprocess.run([*KVPLAN, *SWEEP, *grid, "--out", str(whole)], check=True, stderr=subprocess.DEVNULL)
    length = time.monotonic() - started
    while n < kills:
        files += 1
        out = folder / f"killed{files}.csv"
        resume: list[str] = []
        for _ in range(min(10, kills - n)):
            n += killed([*KVPLAN, *SWEEP, *grid, "--out", str(out), *resume], rng.uniform(0, length))
            resume = ["--resume"] if out.exists() or out.with_name(out.name + ".progress").exists() else []
        last = subprocess.run([*KVPLAN, *SWEEP, *grid, "--out", str(out), *resume], capture_output=True, text=True, check=False)
        if last.returncode or out.read_bytes() != whole.read_bytes():
            faults.append(
                f"{out.name}: exit {last.returncode}, {out.stat().st_size:,} of {whole.stat().st_size:,} bytes, {last.stderr[-200:]}"
            )
    print(f"sweeps: {n} kills over {files} files, {len(faults)} of them not what a run without kills writes")
    return faults


def records(folder: Path, rounds: int, rng: random.Random) -> list[str]:
    """Faults of a calibration file that two processes add to at once, in each round beside one that is killed."""
    kept, faults, different = folder / "own" / "calibration.yaml", [], itertools.count(1)  # of equal questions the last record is kept
    command = [*KVPLAN, "calibrate"]
    more = ["--engine", "vllm", "--device", "h100-80gb", "--record"]

    def log(name: str) -> str:
        path = folder / f"{name}.log"
        path.write_text(LOG.format(seqs=next(different), gib=f"{15 + rng.random():.2f}", left=f"{40 + rng.random():.2f}"))
        return str(path)

    env, kills = {"KVPLAN_CALIBRATION": str(kept)}, 0
    for i in range(rounds):
        pair = [subprocess.Popen([*command, log(f"{i}-{side}"), *more], env=os.environ | env, stdout=subprocess.DEVNULL) for side in "ab"]
        kills += killed([*command, log(f"{i}-killed"), *more], rng.uniform(0.1, 0.8), **env)
        faults += [f"round {i}: exit {process.returncode}" for process in pair if process.wait()]
    found = len(yaml.safe_load(kept.read_text())["records"])
    least = 2 * rounds
    if not least <= found <= least + rounds:
        faults.append(f"{found} records of {least}")
    beside = [name for name in os.listdir(kept.parent) if name != kept.name]
    print(
        f"records: {rounds} x 2 writers and {kills} killed beside them: {found} records (at least {least}), left beside the file: {beside}"
    )
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        faults = [*sweeps(Path(folder), asked.kills, rng), *records(Path(folder), asked.rounds, rng)]
    print(*faults, sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
