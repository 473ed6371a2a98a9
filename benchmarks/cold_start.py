"""A cold `kvplan estimate` beside what its dependencies cost to import, interleaved in one run: ratios, not seconds.

    python benchmarks/cold_start.py [RUNS]

`import pydantic` alone loads a stub (its names are lazy); the second baseline also imports BaseModel, which every use of it loads.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

PYTHON = sys.executable
KVPLAN = str(Path(PYTHON).with_name("kvplan"))
MODEL = ["meta-llama/llama-3.1-8b", "--engine", "ideal", "--context", "32768", "--batch", "16"]
COMMANDS = {
    "bare python": [PYTHON, "-c", "pass"],
    "import click, yaml, pydantic, tabulate": [PYTHON, "-c", "import click, yaml, pydantic, tabulate"],
    "the same with pydantic.BaseModel": [PYTHON, "-c", "import click, yaml, tabulate; from pydantic import BaseModel"],
    "kvplan estimate, table": [KVPLAN, "estimate", *MODEL, "--device", "h100-80gb"],
    "kvplan estimate, json": [KVPLAN, "estimate", *MODEL, "--format", "json"],
}


def seconds(command: list[str]) -> float:
    """Wall time of one whole process, its output thrown away."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    """Every command in turn, RUNS times after one warm-up; medians, and the median of the ratios run by run."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for command in COMMANDS.values():
        seconds(command)
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    bases = list(COMMANDS)[:3]
    print(f"{'':40} {'median ms':>10} " + " ".join(f"{'x ' + base[:22]:>24}" for base in bases))
    for name, taken in times.items():
        ratios = [statistics.median(a / b for a, b in zip(taken, times[base], strict=True)) for base in bases]
        print(f"{name:40} {statistics.median(taken) * 1000:>10.0f} " + " ".join(f"{ratio:>24.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
