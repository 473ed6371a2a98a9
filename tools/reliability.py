"""How often a verdict is right, by how sure it says it is, and what it says of service.

    python tools/reliability.py           the first, in lines
    python tools/reliability.py write     the second, a table in docs/limits.md

Asked are the start-up logs beside the checkout (all of which started, but those that say they did not) and the threads of tools/threads.py
that say what decides them. A verdict is `starts`. The constants are the packaged ones: logs that they were fitted on are in.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import marks
from log_cases import Case, read_cases
from threads import SETS, STARTED, called_a_start, deciding, how_sure

from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate

PAGE = Path(__file__).parents[1] / "docs" / "limits.md"
#: What becomes of a start -> in words.
SERVED = {"oom-later": "ran out of memory in service", "starts": "no more is said of it"}
SURE = ("certain", "likely", "too close to call")


class Verdict(NamedTuple):
    """What was said of a start that somebody tried, and what became of it."""

    id: str
    said: bool
    sure: str
    started: bool


def of_logs(cases: list[Case]) -> Iterator[Verdict]:
    """Logs whose question can be asked on a device."""
    for case in cases:
        if case.deployment is None or case.deployment.device is None or case.row["quality"] not in ("A", "B"):
            continue
        try:
            plan = evaluate(case.deployment)
        except KvplanError:
            continue
        failed = "DOES NOT START" in str(case.row["note"]) or case.row["logged"]["kv_cache_gib"] == 0
        yield Verdict(case.id, bool(plan.starts), how_sure(plan), not failed)


def table(name: str, verdicts: list[Verdict]) -> list[str]:
    """Right and wrong by certainty, and the ids of those that are wrong and not too close to call."""
    right: Counter[str] = Counter(v.sure for v in verdicts if v.said == v.started)
    wrong: Counter[str] = Counter(v.sure for v in verdicts if v.said != v.started)
    cells = "  ".join(f"{sure}: {right[sure]} of {right[sure] + wrong[sure]} right" for sure in SURE)
    lost = [f"{v.id} ({'called a start' if v.said else 'called a refusal'}, {v.sure})" for v in verdicts if v.said != v.started]
    return [f"{name}, {len(verdicts)} verdicts: {cells}", *(f"  {one}" for one in lost if "too close" not in one)]


def of_service() -> str:
    """Markdown: what plans that say a start say of service, by what became of it."""
    said: Counter[tuple[str, str]] = Counter()
    for file in SETS.values():
        for case, plan in deciding(file):
            if case["outcome"] in SERVED and called_a_start(case, plan):
                sums = plan.fits is False or plan.outcome.survives is False
                said[case["outcome"], "out" if sums else "risk" if plan.outcome.risks else "room"] += 1
    columns = ("what became of a start", "threads", "it runs out, or does not fit", "a risk is larger than what is left", "neither")
    counts = {words: [said[outcome, word] for word in ("out", "risk", "room")] for outcome, words in SERVED.items()}
    return marks.table(columns, ((words, sum(each), *each) for words, each in counts.items()))


def tables() -> list[str]:
    """The lines that `make accuracy` shows."""
    lines = table("logs", list(of_logs(read_cases())))
    for name, file in SETS.items():
        found = [Verdict(case["id"], called_a_start(case, plan), how_sure(plan), STARTED[case["outcome"]]) for case, plan in deciding(file)]
        lines += table(f"threads, {name}", found)
    return lines


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        PAGE.write_text(marks.between(PAGE.read_text(encoding="utf-8"), "reliability.py", of_service()), encoding="utf-8")
    else:
        print(*tables(), sep="\n")
