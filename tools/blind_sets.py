"""What kvplan answered to threads that nobody here had seen: docs/limits.md's table of sets that were asked once.

    python tools/blind_sets.py ask N COMMIT     asks tests/threads/held_out_{N + 1}.jsonl, set N, and keeps the answers as they are: once
    python tools/blind_sets.py write            writes the table from the answers kept, benchmarks/kept/first_answers.jsonl

The answers kept are those of the commit that each of them names, the last before anything was learnt from its set; so are the outcomes.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import marks
from threads import BLIND, STARTED, called_a_start, cases, how_sure
from threads import answers as asked

PAGE = ROOT / "docs" / "limits.md"
KEPT = ROOT / "benchmarks" / "kept" / "first_answers.jsonl"
Row = dict[str, Any]


def answers() -> list[Row]:
    return [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]


def right(row: Row) -> bool:
    return (row["said"] == "starts") == STARTED[row["outcome"]]


def counts(number: int, rows: list[Row]) -> dict[str, int]:
    """Of one set: cases; weak ones; models not known; the rest by certainty and whether right; false starts and refusals."""
    mine = [row for row in rows if row["set"] == number]
    judged = [row for row in mine if not row["weak"] and row["said"] != "not known"]
    sure: Counter[tuple[str | None, bool]] = Counter((row["certainty"], right(row)) for row in judged if row["said"] != "unknown")
    wrong: Counter[str] = Counter(
        row["said"] for row in judged if row["said"] != "unknown" and not right(row) and row["certainty"] != "too close to call"
    )
    return {
        "cases": len(mine),
        "weak": sum(row["weak"] for row in mine),
        "not known": sum(not row["weak"] and row["said"] == "not known" for row in mine),
        "judged": len(judged),
        "certain right": sure["certain", True],
        "certain": sure["certain", True] + sure["certain", False],
        "likely right": sure["likely", True],
        "likely": sure["likely", True] + sure["likely", False],
        "too close": sure["too close to call", True] + sure["too close to call", False],
        "unknown": sum(row["said"] == "unknown" for row in judged),
        "false starts": wrong["starts"],
        "false refusals": wrong["does not start"],
    }


def table() -> str:
    """Markdown: a line per set."""
    rows = answers()
    columns = ["set", "asked at", "cases that decide", "certain", "likely", "false starts", "false refusals", "too close", "unknown"]
    lines = []
    for number in sorted({row["set"] for row in rows}):
        c, commit = counts(number, rows), next(row["commit"] for row in rows if row["set"] == number)
        sure = (f"{c[f'{word} right']} of {c[word]} right" for word in ("certain", "likely"))
        cells = BLIND[number - 1], f"`{commit}`", f"{c['judged']} of {c['cases']}", *sure, *(str(c[word]) for word in columns[5:])
        lines.append(cells)
    return marks.table(columns, lines)


def written(page: str) -> str:
    """The page with the table between the marks."""
    return marks.between(page, "blind_sets.py", table())


def ask(number: int, commit: str) -> list[Row]:
    """Raises SystemExit where that set has been asked."""
    if any(row["set"] == number for row in answers()):
        raise SystemExit(f"set {number} has been asked: its answers are in {KEPT}")
    os.environ["HF_HUB_OFFLINE"], found = "1", []
    for case, plan in asked(cases(f"held_out_{number + 1}")):
        said, sure = "not known", None
        if plan is not None:
            said = "unknown" if plan.outcome.unknown else "starts" if called_a_start(case, plan) else "does not start"
            sure = how_sure(plan)
        outcome, weak = case["outcome"], bool(case.get("weak"))
        found.append({"set": number, "commit": commit, "id": case["id"], "said": said, "certainty": sure, "outcome": outcome, "weak": weak})
    return found


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        kept = answers() + ask(int(sys.argv[2]), sys.argv[3])
        KEPT.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
