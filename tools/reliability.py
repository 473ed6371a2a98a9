"""How often a verdict is right, by how sure it says it is, and what it says of service.

    python tools/reliability.py           the first, in lines
    python tools/reliability.py write     the second, a table in docs/limits.md

Asked are the start-up logs beside the checkout (all of which started, but those that say they did not) and the threads of tests/threads:
dev.jsonl, and held_out.jsonl to held_out_15.jsonl, which were set aside until they were asked once. A verdict is `starts`; `weak` threads,
which leave out what decides them, are not counted. The constants are the packaged ones: logs that they were fitted on are in.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from log_cases import Case, read_cases
from marks import between

from kvplan import api
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan

THREADS, PAGE = (Path(__file__).parents[1] / part for part in ("tests/threads", "docs/limits.md"))
#: Did it start? A part in RAM is no start on the card; what ran out later did start.
STARTED = {"starts": True, "oom-later": True, "refuses": False, "oom-at-start": False, "partial-offload": False}
BLIND = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
)
#: What the sets of threads are called -> their files.
SETS = (
    ("dev", "dev"),
    ("once set aside", "held_out"),
    *((f"collected blind, {which}", f"held_out_{n}") for n, which in enumerate(BLIND, 2)),
)
#: What becomes of a start -> in words.
SERVED = {"oom-later": "ran out of memory in service", "starts": "no more is said of it"}
SURE = ("certain", "likely", "too close to call")


class Verdict(NamedTuple):
    """What was said of a start that somebody tried, and what became of it."""

    id: str
    said: bool
    sure: str
    started: bool


#: Options by which somebody puts tensors beside a device.
MOVED = {"n_cpu_moe", "cpu_moe", "override_tensor", "no_kv_offload", "no_mmproj_offload"}


def called_a_start(plan: Plan) -> bool:
    """All of it on its devices, or what is beside them put there by hand: a split that an engine chose is none."""
    on, of = (plan.capacity and plan.capacity.offloaded) or (0, 0)
    whole = on == of and not (plan.capacity and plan.capacity.beside)
    options, who = plan.question["engine_option"]
    by_hand = plan.question["n_gpu_layers"][1] == "you" or (who == "you" and not MOVED.isdisjoint(options))
    return bool(plan.starts) and (whole or by_hand)


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
        yield Verdict(case.id, bool(plan.starts), plan.outcome.start_certainty or plan.certainty, not failed)


def of_threads(path: Path) -> Iterator[Verdict]:
    """Threads that say what decides them."""
    for case in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if not case.get("weak"):
            question = dict(case["kvplan"])
            try:
                plan = api.estimate(question.pop("model"), batch=1, advise=False, **question)
            except KvplanError as error:  # a name that nobody here knows: no verdict
                print(f"{case['id']}: {error}", file=sys.stderr)
                continue
            if plan.outcome.unknown:
                continue
            yield Verdict(case["id"], called_a_start(plan), plan.outcome.start_certainty or plan.certainty, STARTED[case["outcome"]])


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
    for _, half in SETS:
        for case in map(json.loads, (THREADS / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()):
            question = dict(case["kvplan"])
            if case.get("weak") or case["outcome"] not in SERVED:
                continue
            try:
                plan = api.estimate(question.pop("model"), batch=1, advise=False, **question)
            except KvplanError:
                continue
            if plan.outcome.unknown or not called_a_start(plan):
                continue
            sums = plan.fits is False or plan.outcome.survives is False
            said[case["outcome"], "out" if sums else "risk" if plan.outcome.risks else "room"] += 1
    lines = [
        "| what became of a start | threads | it runs out, or does not fit | a risk is larger than what is left | neither |",
        "|---|---|---|---|---|",
    ]
    for outcome, words in SERVED.items():
        counts = [said[outcome, word] for word in ("out", "risk", "room")]
        lines.append(f"| {words} | {' | '.join(map(str, (sum(counts), *counts)))} |")
    return "\n".join(lines) + "\n"


def tables() -> list[str]:
    """The lines that `make accuracy` shows."""
    lines = table("logs", list(of_logs(read_cases())))
    for name, half in SETS:
        lines += table(f"threads, {name}", list(of_threads(THREADS / f"{half}.jsonl")))
    return lines


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), "reliability.py", of_service()), encoding="utf-8")
    else:
        print(*tables(), sep="\n")
