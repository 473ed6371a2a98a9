"""SGLang's own start-up arithmetic beside ours, live: random questions to every release whose wheel is unpacked.

SGLANG_WHEELS is a folder with one for each release, SGLANG_TRANSFORMERS one for each version of transformers that those pin, SGLANG_PYTHON
an environment's python with torch. The programs in shared/reference/oracles/sglang run the release's server arguments, model config and
pools on a CPU, as for the rows of `test_sglang_rows.py`, whose comparison this is. Models are those that a release answered there.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED
from tests.oracle.test_sglang_rows import DATA, ORACLE, RELEASES, is_fair, mismatches

PROGRAMS = SHARED / "reference" / "oracles" / "sglang"
WHEELS, LIBRARIES, PYTHON = (Path(os.environ.get(f"SGLANG_{name}", "")) for name in ("WHEELS", "TRANSFORMERS", "PYTHON"))
GIVEN = all(os.environ.get(f"SGLANG_{name}") for name in ("WHEELS", "TRANSFORMERS", "PYTHON"))
EXAMPLES, SEED = int(os.environ.get("SGLANG_EXAMPLES", "40")), os.environ.get("SGLANG_SEED", "1")
FOUND = sorted(folder.parent.name for folder in WHEELS.glob("*/sglang")) if GIVEN else []
pytestmark = [
    pytest.mark.skipif(not GIVEN, reason="needs SGLANG_WHEELS, SGLANG_TRANSFORMERS and SGLANG_PYTHON"),
    pytest.mark.skipif(not (PROGRAMS.exists() and ORACLE.exists()), reason=f"needs {PROGRAMS.name} and {ORACLE.name} beside the checkout"),
]


def numbers(release: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", release)[:3])


def models(release: str) -> list[tuple[str, str]]:
    """Config files and their kinds: of the rows that this release, or the last before it that was asked, answered."""
    last = max((r for r in RELEASES if numbers(r) <= numbers(release)), key=numbers)
    rows = map(json.loads, ORACLE.read_text().splitlines())
    return sorted({(row["file"], row["kind"]) for row in rows if row["sglang"] == last and "out" in row})


def job(file: str, kind: str, r: random.Random) -> dict[str, Any]:
    """One question: sizes, page, format, free memory before and after the weights, limits, and settings of that kind of cache."""
    tp, before, fraction = r.choice((1, 2, 4, 8)), r.choice((78.5, 94.5, 139.75)), r.choice((0.7, 0.8125, 0.875, 0.93))
    after = max(before - r.choice((5, 10.5, 33.125)), before * (1 - fraction) + r.choice((0.4, 4.5, 21.125)))
    formats = ("auto", "auto", "fp8_e4m3", "fp4") if kind in ("dsa", "dsv4") else ("auto", "auto", "fp8_e4m3", "fp8_e5m2", "fp4")
    args: dict[str, Any] = {}
    own: dict[str, tuple[Any, ...]] = {"max_total_tokens": (20_000, 131_072)}
    if kind in ("swa", "dsv4"):
        own |= {"swa_full_tokens_ratio": (0.1, 0.25, 0.5, 1.0), "disable_radix_cache": (True,), "disable_hybrid_swa_memory": (True,)}
    if kind == "hybrid":
        own |= {"mamba_full_memory_ratio": (0.2, 0.5, 1.5), "max_mamba_cache_size": (64, 200), "disable_radix_cache": (True,)}
        own |= {"disable_overlap_schedule": (True,)}
    args |= {name: r.choice(values) for name, values in own.items() if r.random() < 0.2}
    if kind in ("gqa", "mla") and tp >= 4 and r.random() < 0.2:
        args |= {"dp_size": tp // 2, "enable_dp_attention": True}
    return {
        "id": file, "file": file, "kind": kind, "tp": tp, "page": r.choice((None, 1, 16, 64)), "kv_dtype": r.choice(formats),
        "free_before_gib": before, "free_after_gib": round(min(after, before - 0.5), 4), "fraction": fraction,
        "context": r.choice((None, 4096, 8192, 32_768)), "max_running": r.choice((None, None, 4, 32, 256, 5000)), "args": args,
    }  # fmt: skip


@pytest.mark.parametrize("release", FOUND)
def test_drawn(release: str, tmp_path: Path) -> None:
    pinned = re.search(r"^Requires-Dist: transformers==([\d.]+)", next((WHEELS / release).glob("sglang-*/METADATA")).read_text(), re.M)
    if pinned is None or not (library := LIBRARIES / pinned[1]).exists():
        pytest.skip(f"sglang {release} pins a transformers that is not in SGLANG_TRANSFORMERS: {pinned and pinned[1]}")
    r, configs = random.Random(f"{SEED} {release}"), DATA / "hf_configs"
    jobs = [job(*r.choice(models(release)), r) for _ in range(EXAMPLES)]

    def ran(program: str, *words: object, stdin: str = "") -> str:
        command = [str(PYTHON), str(PROGRAMS / program), *map(str, words)]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    answers = tmp_path / "answers.jsonl"
    answers.write_text(ran("run_release.py", release, WHEELS, library, configs, stdin="".join(json.dumps(one) + "\n" for one in jobs)))
    fair = [row for row in map(json.loads, ran("finish.py", WHEELS, configs, answers).splitlines()) if is_fair(row)]
    assert len(fair) * 2 > EXAMPLES, f"{len(fair)} of {EXAMPLES} could be asked"
    wrong = {json.dumps({**row, "out": None}): found for row in fair if (found := mismatches(row))}
    assert not wrong, f"{len(wrong)} of {len(fair)}"
