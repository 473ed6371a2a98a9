"""What users put on top of a model, against every engine: each is a line, a note, a refusal, or makes the answer unknown; never nothing."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engines import ENGINES
from kvplan.errors import KvplanError
from kvplan.planner.plan import Plan
from tests.contract import laws
from tests.contract.models import DEVICES, model

PLAIN = model("kv")
METHODS = ("mtp", "nextn", "eagle", "eagle3", "medusa", "draft_model", "standalone", "dflash", "dspark", "ngram", "suffix", "prompt_lookup")
DRAFTER = "qwen/qwen3-0.6b"


def asked(engine: str, **question: Any) -> Plan | None:
    """The plan; None where it is refused by name."""
    refusal = ""
    try:
        return laws.ask(PLAIN, engine=engine, context=2048, batch=1, device=DEVICES[engine][0], **question)
    except KvplanError as error:
        refusal = str(error)
    assert any(str(word).split(":")[0] in refusal for word in question.values()), (engine, question, refusal)
    return None


def said(plan: Plan, word: str) -> bool:
    """A line's name, a note or a warning has the word."""
    names = [e.name for ledger in plan.ledgers for e in (*ledger.entries, *ledger.outside)]
    return any(word in text for text in (*names, *plan.model.notes, *(plan.capacity.warnings if plan.capacity else ())))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_drafter_has_lines_where_it_is_named_and_is_unknown_where_not(engine: str) -> None:
    for method in METHODS:
        with laws.of(method):
            has_lines(engine, method)
            is_unknown(engine, method)


def has_lines(engine: str, method: str) -> None:
    """A drafter that is named."""
    plan = asked(engine, speculative=f"{method}:2:{DRAFTER}")
    if plan is None or "the same vocabulary size" in plan.verdict or "whole model of 28 layers" in plan.verdict:  # beside vLLM's target
        return
    if f"does not draft by {method}" in plan.verdict:
        assert plan.starts is False
        return
    if said(plan, "does not draft and goes on without"):
        assert not said(plan, "weights: drafter")
        return
    laws.adds_up(plan)
    laws.verdict_agrees(plan)
    assert said(plan, "weights: drafter" if method not in ("ngram", "suffix", "prompt_lookup") else "drafts come from the text")


def is_unknown(engine: str, method: str) -> None:
    """A drafter of unknown size."""
    plan = asked(engine, speculative=f"{method}:2")
    if plan is None or method in ("ngram", "suffix", "prompt_lookup") or said(plan, "does not draft and goes on without"):
        return
    if f"does not draft by {method}" in plan.verdict:
        return
    assert plan.fits is None
    assert f"give it with --speculative {method}:2:MODEL" in plan.verdict


@pytest.mark.parametrize("engine", ENGINES)
def test_adapters_have_a_line_or_a_note(engine: str) -> None:
    plan = asked(engine, lora="8x2")
    assert plan is None or said(plan, "LoRA") or said(plan, "lora")
