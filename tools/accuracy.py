"""How far kvplan is from what engines logged: `python tools/accuracy.py` prints the table, `--cases` every case.

Only the model and the flags are used, never logged weights; vLLM's constants are those of the other groups (leave-one-group-out). The pure
engine arithmetic (logged GiB -> tokens and concurrency) is a table of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

from fit_budget import COVERAGE, Prediction, conformal, leave_one_group_out, predict, quantile
from log_cases import Case, read_case, read_cases

from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.units import GIB

#: name -> limits on median and 90th percentile, in percent.
TARGETS = {"of device": (0.7, 2.5), "of cache": (2.5, 8.0), "concurrency": (3.0, None)}


def release(case: Case) -> tuple[int, ...]:
    version = case.deployment.engine_version if case.deployment else None
    return tuple(int(part) for part in (version or "99").split(".")[:2])


#: The ways the rows are told apart.
SPLITS: tuple[tuple[str, Callable[[Case], bool]], ...] = (
    ("all, noisy aside", lambda c: not c.noisy),
    ("  public sweep", lambda c: not c.noisy and c.id.startswith("pl-")),
    ("  the rest", lambda c: not c.noisy and not c.id.startswith("pl-")),
    ("  one GPU", lambda c: not c.noisy and (c.row["tp"] or 1) * (c.row["pp"] or 1) == 1),
    ("  tensor parallel", lambda c: not c.noisy and (c.row["tp"] or 1) > 1 and (c.row["pp"] or 1) == 1),
    ("  pipeline parallel", lambda c: not c.noisy and (c.row["pp"] or 1) > 1),
    ("  vLLM before 0.17", lambda c: not c.noisy and c.row["engine"] == "vllm" and release(c) < (0, 17)),
    ("  vLLM from 0.17 on", lambda c: not c.noisy and c.row["engine"] == "vllm" and release(c) >= (0, 17)),
    ("  other engines", lambda c: not c.noisy and c.row["engine"] != "vllm"),
    ("noisy (unified memory)", lambda c: c.noisy),
)


def of_device(p: Prediction) -> float | None:
    return None if p.error is None or p.refused else 100 * abs(p.error) / p.device


def of_cache(p: Prediction) -> float | None:
    return None if not p.logged or p.error is None or p.refused else 100 * abs(p.error) / p.logged


def of_concurrency(p: Prediction) -> float | None:
    logged = p.case.row["logged"]["max_concurrency"]
    return None if not logged or p.concurrency is None or p.refused else 100 * abs(p.concurrency - logged) / logged


MEASURES = {"of device": of_device, "of cache": of_cache, "concurrency": of_concurrency}


def covered(predictions: Sequence[Prediction]) -> tuple[float, float, int]:
    """Leave-one-out coverage of the interval of each case's kind, its mean half-width in percent of the device, and the cases."""
    inside, widths, n = 0, 0.0, 0
    for p in predictions:
        if p.error is None or p.refused:
            continue
        others = [
            abs(o.error) / o.device
            for o in predictions
            if o.kind == p.kind and o.case.id != p.case.id and o.error is not None and not o.refused
        ]
        if not others:
            continue
        bound = conformal(others)
        inside += abs(p.error) / p.device <= bound
        widths += bound
        n += 1
    return (100 * inside / n if n else 0.0, 100 * widths / n if n else 0.0, n)


def arithmetic(path_cases: Sequence[Case]) -> tuple[list[str], int]:
    """Logged GiB -> tokens and concurrency, within the rounding of the log: what disagrees, and how many were compared."""
    wrong, compared = [], 0
    for case in path_cases:
        logged, row = case.row["logged"], case.row
        if row["engine"] != "vllm" or logged["kv_cache_gib"] in (None, 0) or row["quality"] not in ("A", "B"):
            continue
        d = case.deployment or unplaced(row)
        if d is None or (logged["kv_tokens"] is None and logged["max_concurrency"] is None):
            continue
        try:
            ends = [
                evaluate(replace(d, kv_memory=int((logged["kv_cache_gib"] + side * 0.0051) * GIB), constants=None)).capacity
                for side in (-1, 1)
            ]
        except KvplanError:
            continue
        compared += 1
        for key, name, slack in (("kv_tokens", "tokens", 0), ("max_concurrency", "max_concurrency", 0.0051)):
            if logged[key] is None or None in ends:
                continue
            low, high = (getattr(end, name) for end in ends)
            if not low - slack <= logged[key] <= high + slack:
                unsaid = "" if row["engine_version"] else " (release not logged)"
                wrong.append(f"{case.id}: {name} logged {logged[key]}, computed {low:.7g} to {high:.7g}{unsaid}")
    return wrong, compared


def unplaced(row: dict[str, object]) -> object | None:
    """The question of a row whose device is not known: enough for the engine's arithmetic."""
    return read_case({**row, "gpu_total_gib_logged": 80.0}).deployment


def percent(values: Sequence[float]) -> str:
    if not values:
        return f"{'-':>15s}"
    ordered = sorted(values)
    return f"{median(ordered):6.2f} /{quantile(ordered, 0.9):7.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", action="store_true", help="every case, the largest error first")
    arguments = parser.parse_args()
    cases = read_cases()
    predictions = leave_one_group_out(cases)
    done = {p.case.id for p in predictions}
    others = [c for c in cases if c.row["engine"] != "vllm" and c.row["quality"] in ("A", "B") and c.id not in done]
    predictions += [p for c in others if (p := predict(c, None)) is not None]  # type: ignore[arg-type]
    print("Predicted against logged, leave-one-group-out, from the model and the flags alone; percent, median / 90th percentile")
    print(f"{'':26s}{'cases':>6s}  {'of device':>15s}  {'of cache':>15s}  {'concurrency':>15s}  {'coverage, width':>20s}")
    for name, belongs in SPLITS:
        mine = [p for p in predictions if belongs(p.case)]
        columns = [percent([v for p in mine if (v := measure(p)) is not None]) for measure in MEASURES.values()]
        inside, width, n = covered([p for p in mine if p.case.row["engine"] == "vllm"])
        cover = f"{inside:5.1f} %, +-{width:.2f} %" if n else "-"
        print(f"{name:26s}{len(mine):6d}  {columns[0]:>15s}  {columns[1]:>15s}  {columns[2]:>15s}  {cover:>20s}")
    refused = [p for p in predictions if p.refused]
    print(f"refused by the engine: {len(refused)}; called a start all the same: {[p.case.id for p in refused if p.starts] or 'none'}")
    started = [p for p in predictions if not p.refused and p.starts is False]
    print(f"started, called a refusal: {[p.case.id for p in started] or 'none'}")
    wrong, compared = arithmetic(cases)
    print(f"engine arithmetic from the logged GiB: {compared} cases, {len(wrong)} figures outside the log's rounding")
    for line in wrong:
        print("  " + line)
    skipped = [c for c in cases if c.row["quality"] in ("A", "B") and not any(p.case.id == c.id for p in predictions)]
    print(f"{len(skipped)} A and B rows not predicted:")
    for c in skipped:
        print(f"  {c.id}: {c.skipped or 'the engine is not asked'}")
    if arguments.cases:
        print(f"\n{'case':50s} {'predicted':>9s} {'logged':>8s} {'error of device':>15s}  kind")
        for p in sorted(predictions, key=lambda p: -(of_device(p) or 0)):
            if p.error is not None:
                print(f"{p.case.id[:50]:50s} {p.predicted / GIB:9.2f} {p.logged / GIB:8.2f} {100 * p.error / p.device:14.2f}%  {p.kind}")
    overall = [p for p in predictions if not p.case.noisy]
    met = True
    for name, (middle, tail) in TARGETS.items():
        values = sorted(v for p in overall if (v := MEASURES[name](p)) is not None)
        met &= median(values) <= middle and (tail is None or quantile(values, 0.9) <= tail)
    inside, *_ = covered(overall)
    met &= 85 <= inside <= 97 and not any(p.starts for p in refused)
    print(f"targets {'met' if met else 'missed'}: {TARGETS}, coverage 85 to 97 % of the {100 * COVERAGE:.0f} % interval")
    return 0


if __name__ == "__main__":
    sys.exit(main())
