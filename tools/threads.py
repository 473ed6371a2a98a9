"""What people reported of their deployments (tests/threads), and what kvplan says of each: what the tables and the tests of it share.

dev.jsonl, and held_out.jsonl to held_out_30.jsonl, which were set aside until they were asked once. `weak` threads leave out what decides
them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kvplan import api
from kvplan.errors import KvplanError
from kvplan.planner.plan import Plan

FOLDER = Path(__file__).parents[1] / "tests" / "threads"
#: The sets that were collected by somebody who never ran kvplan; the n-th is held_out_{n + 1}.jsonl.
BLIND = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth", "thirteenth",
         "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth", "twenty-first",
         "twenty-second", "twenty-third", "twenty-fourth", "twenty-fifth", "twenty-sixth",
         "twenty-seventh", "twenty-eighth", "twenty-ninth")  # fmt: skip
#: What a set is called -> its file.
SETS = {"dev": "dev", "once set aside": "held_out"} | {f"collected blind, {which}": f"held_out_{n}" for n, which in enumerate(BLIND, 2)}
#: Did it start? A part in RAM is no start on the card; what ran out later did start.
STARTED = {"starts": True, "oom-later": True, "refuses": False, "oom-at-start": False, "partial-offload": False}
#: Options by which somebody puts tensors beside a device.
MOVED = {"n_cpu_moe", "cpu_moe", "override_tensor", "no_kv_offload", "no_mmproj_offload"}
Case = dict[str, Any]


def cases(file: str) -> list[Case]:
    """The threads of a file of the folder, named without its suffix."""
    return [json.loads(line) for line in (FOLDER / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()]


def answers(threads: Iterable[Case]) -> Iterator[tuple[Case, Plan | None]]:
    """Each with its plan; None for a name that nobody here knows, which is said."""
    for case in threads:
        question, plan = dict(case["kvplan"]), None
        try:
            plan = api.estimate(question.pop("model"), batch=1, advise=False, **question)
        except KvplanError as error:
            print(f"{case['id']}: {error}", file=sys.stderr)
        yield case, plan


def deciding(file: str) -> Iterator[tuple[Case, Plan]]:
    """Those that say what decides them and have an answer."""
    for case, plan in answers(case for case in cases(file) if not case.get("weak")):
        if plan is not None and not plan.outcome.unknown:
            yield case, plan


def called_a_start(case: Case, plan: Plan) -> bool:
    """All of it on its devices, or what is beside them put there by hand: a split that an engine chose is none."""
    on, of = (plan.capacity and plan.capacity.offloaded) or (0, 0)
    whole = on == of and not (plan.capacity and plan.capacity.beside)
    by_hand = plan.question["n_gpu_layers"][1] == "you" or not MOVED.isdisjoint(case["kvplan"].get("engine_option", ()))
    return bool(plan.starts) and (whole or by_hand)


def how_sure(plan: Plan) -> str:
    """How sure `starts` is."""
    return plan.outcome.start_certainty or plan.certainty
