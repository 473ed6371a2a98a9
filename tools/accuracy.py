"""How far kvplan is from what engines logged: `python tools/accuracy.py` prints the table, `--cases` every case.

Only the model and the flags are used, never logged weights; the constants are those of the other groups (leave-one-group-out). The pure
engine arithmetic (logged GiB -> tokens and concurrency) is a table of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

import accuracy_kinds
import fit_engines
import reliability
from budget_spreads import KINDS, Prediction
from engine_arithmetic import Compared, compare
from fit_budget import COVERAGE, leave_one_group_out, predict
from fit_graphs import quantile
from log_cases import Case, read_cases
from marks import between
from own_logs import read_own

from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.units import GIB

#: name -> limits on median and 90th percentile, in percent.
TARGETS = {"of device": (0.7, 2.5), "of cache": (2.5, 8.0), "concurrency": (3.0, 8.0)}


def release(case: Case) -> tuple[int, ...]:
    version = case.deployment.engine_version if case.deployment else None
    return tuple(int(part) for part in (version or "99").split(".")[:2])


def counted(case: Case) -> bool:
    """Rows the targets are about: not those of shared memory, and the device identified by its name or by a total that was logged."""
    return not case.noisy and not case.inferred


#: The ways the rows are told apart.
SPLITS: tuple[tuple[str, Callable[[Case], bool]], ...] = (
    ("all, the next two aside", counted),
    ("device's total inferred", lambda c: c.inferred),
    ("noisy (unified memory)", lambda c: c.noisy),
    ("  public sweep", lambda c: counted(c) and c.id.startswith("pl-")),
    ("  the rest", lambda c: counted(c) and not c.id.startswith("pl-")),
    ("  one GPU", lambda c: counted(c) and (c.row["tp"] or 1) * (c.row["pp"] or 1) == 1),
    ("  tensor parallel", lambda c: counted(c) and (c.row["tp"] or 1) > 1 and (c.row["pp"] or 1) == 1),
    ("  pipeline parallel", lambda c: counted(c) and (c.row["pp"] or 1) > 1),
    ("  vLLM before 0.17", lambda c: counted(c) and c.row["engine"] == "vllm" and release(c) < (0, 17)),
    ("  vLLM from 0.17 on", lambda c: counted(c) and c.row["engine"] == "vllm" and release(c) >= (0, 17)),
    ("  other engines", lambda c: counted(c) and c.row["engine"] != "vllm"),
)


def of_device(p: Prediction) -> float | None:
    return None if p.error is None or p.refused else 100 * abs(p.error) / p.device


def of_cache(p: Prediction) -> float | None:
    return None if not p.logged or p.logged < 0 or p.error is None or p.refused else 100 * abs(p.error) / p.logged


def of_concurrency(p: Prediction) -> float | None:
    logged = p.case.row["logged"]["max_concurrency"]
    return None if not logged or p.concurrency is None or p.refused else 100 * abs(p.concurrency - logged) / logged


MEASURES = {"of device": of_device, "of cache": of_cache, "concurrency": of_concurrency}


def line(name: str, mine: Sequence[Prediction], vllm: Sequence[Prediction]) -> str:
    """A row of the table."""
    columns = [percent([v for p in mine if (v := measure(p)) is not None]) for measure in MEASURES.values()]
    cover = accuracy_kinds.held([p for p in mine if p.case.row["engine"] == "vllm"], vllm)
    told = f"{cover.percent:5.1f} %, +-{100 * cover.width:.2f} %" if cover.n else "-"
    return f"{name:26s}{len(mine):6d}  {columns[0]:>15s}  {columns[1]:>15s}  {columns[2]:>15s}  {told:>20s}"


def percent(values: Sequence[float]) -> str:
    if not values:
        return f"{'-':>15s}"
    ordered = sorted(values)
    return f"{median(ordered):6.2f} /{quantile(ordered, 0.9):7.2f}"


def table(cases: Sequence[Case], predictions: Sequence[Prediction], own: Sequence[Prediction]) -> list[str]:
    """Errors and coverage by split and by kind, refusals, the engine's arithmetic.

    predictions  of the log set beside the checkout
    own          of the logs kept in the repository
    """
    vllm = [*(p for p in predictions if p.case.row["engine"] == "vllm"), *own]
    heads = "".join(f"  {name:>15s}" for name in MEASURES)
    lines = [f"{'percent, median / 90th':26s}{'cases':>6s}{heads}  {'coverage, width':>20s}"]
    lines += [line(name, [p for p in predictions if belongs(p.case)], vllm) for name, belongs in SPLITS]
    lines.append("with the logs kept in the repository, by what vLLM's intervals are taken by")
    lines += [line(f"  {kind}", [p for p in vllm if p.kind == kind], vllm) for kind in KINDS]
    lines.append("the same without the public sweep, by what a rule could name")
    lines += accuracy_kinds.lines(vllm)
    refused = [p for p in predictions if p.refused]
    wrong = [p.case.id for p in refused if p.starts], [p.case.id for p in predictions if not p.refused and p.starts is False]
    lines.append(f"refused by the engine: {len(refused)}; called a start all the same: {wrong[0] or 'none'}")
    lines.append(f"started, called a refusal: {wrong[1] or 'none'}")
    lines.append(promised([p for p in predictions if counted(p.case)]))
    return [*lines, *arithmetic(compare(cases))]


def promised(predictions: Sequence[Prediction]) -> str:
    """How often a start's memory was under-predicted, so that a plan shows more cache than was left, and the three worst by name."""
    found = [(100 * p.error / p.device, p.case.id) for p in predictions if p.error is not None and not p.refused]
    over = sorted((share for share in found if share[0] > 1), reverse=True)
    worst = ", ".join(f"{name} {share:.2f} %" for share, name in over[:3])
    return f"memory under-predicted by more than 1 % of the device: {len(over)} of {len(found)}; worst: {worst or 'none'}"


def arithmetic(compared: Sequence[Compared]) -> list[str]:
    """Rows inside the rounding, rows that one thing explains, rows that nothing known explains (tools/engine_arithmetic.py)."""
    outside = [c for c in compared if c.outside]
    unexplained = [c for c in outside if c.explained_by is None]
    return [
        f"engine arithmetic from the logged GiB: {len(compared)} rows, {len(compared) - len(outside)} within the log's rounding, "
        f"{len(outside) - len(unexplained)} by one thing left out, {len(unexplained)} unexplained",
        *(f"  {c.case.id}: {'; '.join(c.outside)}: {c.explained_by or 'unexplained'}" for c in outside),
    ]


def documented(text: str, lines: Sequence[str]) -> str:
    """The text with the table between its marks."""
    return between(text, "accuracy.py", "\n".join(["```", *(row.rstrip() for row in lines), "```"]) + "\n")


def unasked(case: Case) -> str:
    """Why a question that could be read has no prediction."""
    try:
        evaluate(case.deployment)  # type: ignore[arg-type]
    except KvplanError as error:
        return str(error).splitlines()[0][:120]
    return "its group has figures that do not add up"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", action="store_true", help="every case, the largest error first")
    parser.add_argument("--document", type=Path, help="a page whose table is written anew")
    arguments = parser.parse_args()
    cases = read_cases()
    mine = read_own()
    found = leave_one_group_out([*cases, *mine])
    here = {case.id for case in mine}
    predictions, own = [p for p in found if p.case.id not in here], [p for p in found if p.case.id in here]
    done = {p.case.id for p in predictions}
    others = [c for c in cases if c.row["engine"] != "vllm" and c.row["quality"] in ("A", "B") and c.id not in done]
    engines = fit_engines.build()
    left_out = fit_engines.left_out(engines)
    predictions += [p for c in others if (p := predict(c, left_out[c.id])) is not None]
    vllm = [*(p for p in predictions if p.case.row["engine"] == "vllm"), *own]
    lines = [*table(cases, predictions, own), "verdicts by how sure they are", *reliability.tables()]
    print("Predicted against logged, leave-one-group-out, from the model and the flags alone", *lines, sep="\n")
    if arguments.document:
        arguments.document.write_text(documented(arguments.document.read_text(encoding="utf-8"), lines), encoding="utf-8")
    skipped = [c for c in cases if c.row["quality"] in ("A", "B") and not any(p.case.id == c.id for p in predictions)]
    print(f"{len(skipped)} A and B rows not predicted:")
    for c in skipped:
        print(f"  {c.id}: {c.skipped or unasked(c)}")
    if arguments.cases:
        print(f"\n{'case':50s} {'predicted':>9s} {'logged':>8s} {'error of device':>15s}  kind")
        for p in sorted([*predictions, *own], key=lambda p: -(of_device(p) or 0)):
            if p.error is not None:
                print(f"{p.case.id[:50]:50s} {p.predicted / GIB:9.2f} {p.logged / GIB:8.2f} {100 * p.error / p.device:14.2f}%  {p.kind}")
    print("\nThe other engines, apart: constants, then each log's cache without its own group's constants (tools/fit_engines.py)")
    fit_engines.show(engines)
    overall = [p for p in predictions if counted(p.case)]
    met = True
    for name, (middle, tail) in TARGETS.items():
        values = sorted(v for p in overall if (v := MEASURES[name](p)) is not None)
        met &= median(values) <= middle and quantile(values, 0.9) <= tail
    cover = accuracy_kinds.held([p for p in overall if p.case.row["engine"] == "vllm"], vllm)
    met &= 85 <= cover.percent <= 97 and not any(p.starts for p in predictions if p.refused)
    print(f"targets {'met' if met else 'missed'}: {TARGETS}, coverage 85 to 97 % of the {100 * COVERAGE:.0f} % interval")
    return 0


if __name__ == "__main__":
    sys.exit(main())
