"""Command lines of LMDeploy, and what the release's own Python made of them: rows/lmdeploy.jsonl, described in rows/README.md.

`free`: bytes that were free on every rank once the weights were loaded. `out`: the backend, tokens of a block, requests; of the PyTorch
engine also bytes of a block, blocks, tokens of a prompt's step, the longest session, slots of states and bytes of one. `error`: it refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvplan.catalogue import find_device, find_model
from kvplan.deployment import Deployment
from kvplan.engines import settle
from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.lmdeploy.arguments import ARGUMENTS
from kvplan.engines.lmdeploy.plan import Plan as Inside
from kvplan.errors import KvplanError, UnsupportedError
from kvplan.planner.evaluate import evaluate
from tests.conftest import rows_of

ROWS = rows_of(Path(__file__).parent / "rows" / "lmdeploy.jsonl")
_LARGE = 1 << 42


def asked(row: dict[str, Any]) -> Deployment | str:
    """The row as a question; a string: why the words are refused. The device has what the weights take and `free` bytes beside them."""
    answer = read(ARGUMENTS, words(row["model"], *row["argv"]), {}, row["lmdeploy"])
    if refused := [one.message for one in answer.findings if one.severity == "error"]:
        return refused[0]
    question = {name: one.value for name, one in answer.question.items()}
    options = {name.partition(".")[2]: question.pop(name) for name in list(question) if name.startswith("engine_option.")}
    written = tuple((key, str(value).lower() if isinstance(value, bool) else str(value)) for key, value in options.items())
    device = find_device(row["device"]).changed(size_bytes=_LARGE)
    question |= {"model": find_model(row["model"]), "engine": "lmdeploy", "engine_version": row["lmdeploy"]}
    d = Deployment(device=device, engine_option=written, **question)
    weights = sum(entry.bytes for entry in Inside(settle(d)[1]).weights)
    return Deployment(device=device.changed(size_bytes=weights + row["free"]), engine_option=written, **question)


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Our figures by the row's names; `error`: why it does not start."""
    try:
        question = asked(row)
        if isinstance(question, str):
            return {"error": question}
        plan, s = evaluate(question, limits=False), settle(question)[1].settings
    except UnsupportedError:
        raise  # a refusal is the engine's own: what we do not model is none
    except KvplanError as error:
        return {"error": str(error)}
    c = plan.capacity
    if c is None or plan.starts is False:
        return {"error": plan.verdict}
    found = {"backend": s.backend, "block": c.block_tokens, "max_batch": s.max_batch}
    if s.backend == "turbomind":
        return found
    prefill = [re.search(r"max_prefill_token_num=(\d+)", line) for line in c.warnings]
    state = next((group for group in c.groups if group.role == "state"), None)
    found |= {"block_bytes": c.bytes_per_block, "blocks": c.blocks, "longest": c.max_context}
    found |= {"prefill": next((int(one[1]) for one in prefill if one), s.max_prefill)}
    return found | ({"slots": state.cells, "slot_bytes": state.page_bytes} if state else {})


def differing(row: dict[str, Any]) -> dict[str, Any]:
    """Name -> (the release's, ours) where they differ."""
    theirs, ours = row.get("out") or {"error": row["error"]}, predicted(row)
    if "error" in ours or "error" in theirs:
        return {} if "error" in ours and "error" in theirs else {"error": (theirs.get("error"), ours.get("error"))}
    return {key: (value, ours.get(key)) for key, value in theirs.items() if ours.get(key) != value}


@pytest.mark.parametrize("release", sorted({row["lmdeploy"] for row in ROWS}))
def test_lmdeploy(release: str) -> None:
    rows = [row for row in ROWS if row["lmdeploy"] == release]
    wrong = {(row["model"], " ".join(row["argv"])): found for row in rows if (found := differing(row))}
    assert not wrong
