"""Configs as real files differ, read by kvplan and by transformers itself: parameters and cache bytes compared, a table by class.

    python tools/fuzz_configs.py --mutants 20000 --seed 1 [--seconds N] [--only REGEX] [--jobs 2] [--keep rows.jsonl]

`--keep` writes each mutant with what transformers made of it, and a second run goes on where the rows end; `--again rows.jsonl...` asks
kvplan alone about those once more.
Exit code 1 where one is wrong. tests/oracle/test_config_mutants.py runs a few hundred of the same.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")


def work(job: tuple[int, argparse.Namespace]) -> list[dict[str, Any]]:
    """The rows of one worker: every `jobs`-th base."""
    from tests.oracle.mutants import judge, truth

    worker, a = job
    kept = Path(f"{a.keep}.{worker}")
    rows: list[dict[str, Any]] = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.is_file() else []
    done = {(r["base"], r["seed"], r["i"]) for r in rows}
    until = time.time() + a.seconds if a.seconds else None
    mine = judge.starts(a.only)[worker :: a.jobs]
    most = a.mutants // a.jobs if a.mutants else None
    with tempfile.TemporaryDirectory() as scratch, truth.quiet():
        folder = Path(scratch) / "x"
        folder.mkdir()
        for i in range(a.first, 1 << 30):
            for name, start in mine:
                if (until and time.time() > until) or (most and len(rows) >= most):
                    return rows
                if (name, a.seed, i) in done:
                    continue
                rows.append({"seed": a.seed, **row(name, start, i, a, folder)})
                if a.keep:
                    with open(kept, "a", encoding="utf-8") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
            if not mine:
                return rows
    return rows


def row(name: str, start: Any, i: int, a: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from tests.oracle.mutants import judge

    try:
        m = judge.mutant(name, start, a.seed, i)
        found = judge.facts(m.config, folder)
    except judge.Refused as error:
        return {"base": name, "i": i, "word": "skipped", "why": str(error), "class": name}
    except Exception as error:
        return {"base": name, "i": i, "word": "skipped", "why": f"base: {error!r:.200}", "class": name}
    edits = [f"{e.kind} {e.what}" for e in m.edits]
    return told({"base": name, "i": i, "edits": edits, "config": m.config, "truth": found}, found, folder)


def told(kept: dict[str, Any], found: list[Any], folder: Path) -> dict[str, Any]:
    from tests.oracle.mutants import judge

    verdict = judge.compare(kept["config"], found, folder)
    return {**kept, "word": verdict.word, "why": verdict.why, "class": verdict.built, "notes": verdict.notes}


def again(paths: list[str]) -> list[dict[str, Any]]:
    """Kept mutants, judged by kvplan as it is now."""
    from tests.oracle.mutants.truth import Truth

    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for line in (line for path in paths for line in Path(path).read_text(encoding="utf-8").splitlines()):
            kept = json.loads(line)
            if kept["word"] != "skipped":
                found = [Truth(name, n, b, h, {int(k): v for k, v in cache.items()}, by) for name, n, b, h, cache, by in kept["truth"]]
                kept = told(kept, found, Path(scratch))
            rows.append(kept)
    return rows


def _by_kind(rows: list[dict[str, Any]], words: tuple[str, ...]) -> None:
    from tests.oracle.mutants import bases

    kinds = {f"{model_type}/{name}": kind for (model_type, name), kind in bases.classes().items()}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for r in rows:
        counts[kinds.get(r["base"], "a real file")][r["word"]] += 1
    print(f"{'kind':56}" + "".join(f"{w:>9}" for w in words))
    for kind, found in counts.items():
        print(f"{kind:56}" + "".join(f"{found[w] or '':>9}" for w in words))
    print()


def table(rows: list[dict[str, Any]], show: int) -> int:
    """Prints the table and the wrong ones; returns how many are wrong."""
    by_class: dict[str, Counter[str]] = defaultdict(Counter)
    for r in rows:
        by_class[r["class"]][r["word"]] += 1
    words = ("right", "refused", "wrong", "crash", "skipped")
    _by_kind(rows, words)
    print(f"{'class':56}" + "".join(f"{w:>9}" for w in words))
    for name, counts in sorted(by_class.items()):
        if counts["right"] + counts["refused"] + counts["wrong"] + counts["crash"]:
            print(f"{name[:55]:56}" + "".join(f"{counts[w] or '':>9}" for w in words))
    total = Counter(r["word"] for r in rows)
    print(f"{'all':56}" + "".join(f"{total[w]:>9}" for w in words))
    taken = total["right"] + total["wrong"] + total["crash"] + total["refused"]
    print(
        f"{len(rows)} mutants, {taken} that transformers takes: {100 * total['refused'] / max(taken, 1):.1f} % refused,"
        f" {total['wrong']} wrong"
    )
    for r in [r for r in rows if r["word"] in ("wrong", "crash")][:show]:
        print(f"{r['word']} {r['base']} {r['i']} {r['edits']}: {r['why'][:300]}")
    return total["wrong"] + total["crash"]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=0)
    p.add_argument("--mutants", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=0, help="the first number of each base; 0 and 1 are the bases as they are")
    p.add_argument("--only", default="", help="a regular expression over base names")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--keep", help="rows as they come, one file a worker")
    p.add_argument("--show", type=int, default=40)
    p.add_argument("--again", nargs="+", metavar="ROWS", help="judge kept mutants once more")
    a = p.parse_args()
    if a.again:
        return 1 if table(again(a.again), a.show) else 0
    if not a.seconds and not a.mutants:
        p.error("say how long: --seconds N or --mutants N")
    with multiprocessing.get_context("spawn").Pool(a.jobs) as pool:
        rows = [r for part in pool.map(work, [(i, a) for i in range(a.jobs)]) for r in part]
    return 1 if table(rows, a.show) else 0


if __name__ == "__main__":
    sys.exit(main())
