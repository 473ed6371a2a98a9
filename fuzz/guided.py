"""The same targets, guided by coverage (atheris, on Pythons that it has wheels for): each in a process of its own, from its seeds.

    pip install atheris; python fuzz/guided.py [--seconds N] [TARGET ...]

libFuzzer prints inputs, the slowest and the peak of memory at each end; an input that raises anything but a KvplanError, or takes longer
than LIMIT, ends its target and is kept in fuzz/crashes.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
LIMIT, MEMORY = 20, 2048  # seconds and MiB of one input
CRASHES = Path(__file__).parent / "crashes"


def one(name: str, seconds: int) -> None:
    """Fuzzes one target until the time is over; never returns."""
    import atheris

    with atheris.instrument_imports(include=["kvplan"]):
        from fuzz.targets import TARGETS
        from kvplan.errors import KvplanError

    target = TARGETS[name]

    def test(data: bytes) -> None:
        with contextlib.suppress(KvplanError):
            target.call(data)

    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds):
            (Path(corpus) / f"{number}").write_bytes(seed)
        CRASHES.mkdir(exist_ok=True)
        words = [f"-max_total_time={seconds}", f"-timeout={LIMIT}", f"-rss_limit_mb={MEMORY}", "-max_len=65536", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *words, f"-artifact_prefix={CRASHES}/{name.replace(' ', '-')}-", corpus], test)
        atheris.Fuzz()


def main() -> int:
    from fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="over all targets")
    parser.add_argument("--one", choices=[*TARGETS], help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []])
    asked = parser.parse_args()
    if asked.one:
        one(asked.one, asked.seconds)
    names, faults = asked.targets or list(TARGETS), 0
    for name in names:
        command = [sys.executable, __file__, "--one", name, "--seconds", str(max(1, asked.seconds // len(names)))]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        stats = [
            line
            for line in done.stderr.splitlines()
            if line.startswith("stat::") and any(w in line for w in ("executed", "slowest", "peak"))
        ]
        print(f"{name}: exit {done.returncode};", *(" ".join(line.removeprefix("stat::").split()) for line in stats), sep=" ", flush=True)
        if done.returncode:
            faults += 1
            print(done.stderr[-3000:])
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
