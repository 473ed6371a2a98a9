"""What people reported of their deployments, asked through the library: who failed is not called a start, who ran is not refused.

dev.jsonl and held_out.jsonl were split by the first byte of sha256(id) (even: dev) before anything was asked; held_out.jsonl was set aside,
asked once, and is learnt from since; so are held_out_2.jsonl to held_out_22.jsonl, each collected by somebody who never ran kvplan. Nothing
is set aside today.
Each case states its public source; `weak` ones leave out what decides them (their note says what) and are only asked. A start that is
`too close to call` is no wrong answer.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.rows import rows
from tests.conftest import planned

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from threads import BLIND, FOLDER, SETS, STARTED, called_a_start, cases

#: Cases that are wrong today and why; names and releases that are refused by name, offline.
TODAY = rows(FOLDER / "today.tsv")
KNOWN_WRONG = {row[0]: row[2] for row in TODAY if row[1] == "wrong"}
NOT_KNOWN = {row[0] for row in TODAY if row[1] == "not known"}


def judged(case: dict[str, Any]) -> str | None:
    """None where the plan agrees (or the case is weak), else what is wrong."""
    question = dict(case["kvplan"])
    try:
        plan = planned(question.pop("model"), batch=1, **question)
    except KvplanError as error:  # a model or release that is not known here is refused by name
        return None if case["id"] in NOT_KNOWN else f"is not answered: {error}"
    if case["id"] in NOT_KNOWN and not plan.outcome.unknown:
        return "is answered now: take it out of today.tsv"
    wanted = STARTED[case["outcome"]]
    sure = plan.outcome.start_certainty
    if case.get("weak") or plan.outcome.unknown or called_a_start(case, plan) == wanted or sure == "too close to call":
        return None
    return f"false {'refusal' if wanted else 'start'}, {sure}: {plan.verdict} ({case['source']}: {case['outcome']})"


@pytest.mark.parametrize("file", SETS.values())
def test_every_case(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    wrong = {case["id"]: said for case in cases(file) if (said := judged(case))}
    known = KNOWN_WRONG.keys() & {case["id"] for case in cases(file)}
    assert wrong.keys() - known == set(), "\n".join(f"{name} {said}" for name, said in wrong.items() if name not in known)
    assert known - wrong.keys() == set(), "these agree now: take them out of today.tsv"


def test_halves_are_split_by_rule_and_state_their_source() -> None:
    both = {half: cases(half) for half in ("dev", "held_out")}
    ids = [case["id"] for half in both.values() for case in half]
    assert len(ids) == len(set(ids)) >= 100
    for half, of in both.items():
        for case in of:
            assert (hashlib.sha256(case["id"].encode()).digest()[0] % 2 == 0) == (half == "dev"), case["id"]
            assert all(case[name] for name in ("source", "note", "gpu")), case["id"]
            assert case["outcome"] in STARTED, case["id"]
    blind = [case["id"] for n in range(len(BLIND)) for case in cases(f"held_out_{n + 2}")]
    assert set(KNOWN_WRONG) | NOT_KNOWN <= {*ids, *blind}
    assert len(set(blind)) == len(blind) == 3804
