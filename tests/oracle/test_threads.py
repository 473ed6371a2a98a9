"""What people reported of their deployments, asked through the library: who failed is not called a start, who ran is not refused.

dev.jsonl and held_out.jsonl are what we learn from: they were split by the first byte of sha256(id) (even: dev) before anything was asked;
held_out.jsonl was set aside, asked once, and is learnt from since. What is set aside (held_out_2.jsonl) is asked when KVPLAN_HELD_OUT=1.
Each case states its public source; `weak` ones leave out what decides them (their note says what) and are only asked. A start that is
`too close to call` is no wrong answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kvplan import api

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from reliability import STARTED

FOLDER = Path(__file__).parents[1] / "threads"
#: Cases that are wrong today and why; one that agrees is to be taken out.
KNOWN_WRONG: dict[str, str] = {
    "s396-minimax27-awq-2xgb10-80": "14.6 GiB of two GB10's caches are elsewhere, 5.1 of it graphs; its log does not say where",
    "r831-qwen38-27b-fp8-pro6000": "1,124 blocks of states planned, 939 logged: 9 GiB more are taken on that image, by what is not said",
    "z1439-llama405b-fp8-16xa40": "FP8 on cards without it: out of memory after the last shard, whatever the cache",
    "k601-qwen36-35b-2x5060ti-256k": "four copies of the inputs are counted; 1.6 GiB of a card are left by what shapes say",
    "t5872-qwen3-235b-fp8-8xh200": "the cache of 0.9 of 108.86 GiB that were free could not be had; nothing says what took it in between",
}


def cases(half: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()]


def judged(case: dict[str, Any]) -> str | None:
    """None where the plan agrees (or the case is weak), else what is wrong."""
    question = dict(case["kvplan"])
    plan = api.estimate(question.pop("model"), batch=1, **question).as_dict()
    wanted = STARTED[case["outcome"]]
    if case.get("weak") or plan["starts"] == wanted or plan["start_certainty"] == "too close to call":
        return None
    return f"false {'refusal' if wanted else 'start'}, {plan['start_certainty']}: {plan['verdict']} ({case['source']}: {case['outcome']})"


@pytest.mark.parametrize("case", [*cases("dev"), *cases("held_out")], ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    wrong = judged(case)
    if case["id"] in KNOWN_WRONG:
        assert wrong, f"{case['id']} agrees now: take it out of KNOWN_WRONG ({KNOWN_WRONG[case['id']]})"
    else:
        assert wrong is None, wrong


@pytest.mark.skipif(os.environ.get("KVPLAN_HELD_OUT") != "1", reason="set aside; KVPLAN_HELD_OUT=1 asks")
def test_what_is_set_aside() -> None:
    wrong = [said for case in cases("held_out_2") if (said := judged(case))]
    assert len(wrong) <= 1, wrong


def test_halves_are_split_by_rule_and_state_their_source() -> None:
    both = {half: cases(half) for half in ("dev", "held_out")}
    ids = [case["id"] for rows in both.values() for case in rows]
    assert len(ids) == len(set(ids)) >= 100
    for half, rows in both.items():
        for case in rows:
            assert (hashlib.sha256(case["id"].encode()).digest()[0] % 2 == 0) == (half == "dev"), case["id"]
            assert all(case[name] for name in ("source", "note", "gpu")), case["id"]
            assert case["outcome"] in STARTED, case["id"]
    assert set(KNOWN_WRONG) <= set(ids)
