"""docs/performance.md: what the benchmarks print, run one after the other on one machine.

    python tools/performance_page.py run [--peers VENV] [--vllm PYTHON]    runs them, keeps what they print in benchmarks/kept
    python tools/performance_page.py write                                 writes docs/performance.md from that

`make bench` does both. VENV has peers (tools/peers.py), PYTHON vLLM, both beside kvplan's dependencies; without them
those comparisons are left out and the page says so. Only ratios are the same from machine to machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
KEPT, PAGE = ROOT / "benchmarks" / "kept" / "performance.json", ROOT / "docs" / "performance.md"


class Bench(NamedTuple):
    """A benchmark: its command after the interpreter, what the page says of it, whose interpreter runs it where there is one."""

    title: str
    command: tuple[str, ...]
    says: str
    by: str = "ours"


BENCHES = (
    Bench("A cold start", ("benchmarks/cold_start.py", "9"),
          "One whole process for one answer, beside a bare Python, the imports that kvplan needs, and peers that answer from local files. "
          "Processor time; medians, and the median of the ratios run by run."),
    Bench("An estimate in process, and a sweep", ("benchmarks/sweep.py",),
          "Points a second of processor time: one `evaluate` after another (scalar), and on arrays; peers are asked for the cache of one "
          "configuration a call, which is less than a point. Below, how time and peak memory grow with the grid.", "peers"),
    Bench("A simulation", ("benchmarks/simulate.py", "--largest", "100000"),
          "Requests and tokens a second with 256 live at once, and how that grows; where vLLM is installed, its own manager is driven "
          "through the same requests in the same run: one run of it, the best of three of ours.", "vllm"),
    Bench("Hits at every size of the cache", ("benchmarks/hit_curve.py", "--largest", "1000000"),
          "References to blocks a minute, all sizes of the cache in one pass."),
)  # fmt: skip

_HEAD = """# How fast it is

Made by `make bench`; a test compares the page with what was kept of the last run. Times are of the processor, so that what else runs
on the machine counts little; each block is one run, and only its ratios carry over to other machines.
"""


def run(peers: Path | None, vllm: Path | None, only: str = "") -> None:
    """Runs every benchmark, or those whose file has `only` in its name, and keeps what it prints."""
    before = {done["command"]: done for done in json.loads(KEPT.read_text(encoding="utf-8"))["runs"]} if only else {}
    pythons = {"vllm": vllm, "peers": peers and peers / "bin" / "python"}
    outputs = []
    for bench in BENCHES:
        if only not in bench.command[0]:
            outputs.append(before[" ".join(("python", *bench.command))])
            continue
        python = str(pythons.get(bench.by) or sys.executable)
        env = {**os.environ, "PYTHONPATH": str(ROOT), **({"PEERS": str(peers)} if peers else {})}
        done = subprocess.run([python, *bench.command], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{bench.command[0]}: {done.stderr.strip().splitlines()[-1:]}")
        outputs.append({"command": " ".join(("python", *bench.command)), "output": done.stdout})
        print(done.stdout, flush=True)
    kept = {"date": datetime.now(tz=UTC).date().isoformat(), "python": platform.python_version(), "cores": os.cpu_count(), "runs": outputs}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def page() -> str:
    """The page, Markdown, from what is kept."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    parts = [_HEAD, f"The last run was on {kept['date']}: Python {kept['python']}, {kept['cores']} cores of a shared machine.\n"]
    for bench, done in zip(BENCHES, kept["runs"], strict=True):
        shown = "\n".join(line.rstrip() for line in done["output"].strip("\n").splitlines())
        parts.append(f"## {bench.title}\n\n{bench.says} `{done['command']}`\n\n```text\n{shown}\n```\n")
    return "\n".join(parts)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", nargs="+", choices=["run", "write"])
    p.add_argument("--peers", type=Path)
    p.add_argument("--vllm", type=Path)
    p.add_argument("--only", default="", help="benchmarks with this in their file's name; the others as they were")
    a = p.parse_args()
    if "run" in a.what:
        run(a.peers, a.vllm, a.only)
    if "write" in a.what:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
