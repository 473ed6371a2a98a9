"""Configs that a repository's own code reads: what a plan takes as given, and where it stops without it."""

from __future__ import annotations

import pytest

from kvplan.planner.plan import Plan
from tests.conftest import planned

TAKEN, STOPS = "--trust-remote-code is taken as given", "contains custom code which must be executed"


def ask(model: str, version: str, trust: str | None) -> Plan:
    options = {"trust_remote_code": trust} if trust else {}
    asked = {"kv_memory": "40GiB", "max_model_len": 4096, "tp": 8, "engine_option": options}
    return planned(model, engine="vllm", engine_version=version, **asked)


@pytest.mark.parametrize(("model", "version", "needed"), [
    ("xiaomimimo/mimo-7b-rl", "0.11.0", True),
    ("moonshotai/kimi-k2-instruct", "0.12", True),
    ("moonshotai/kimi-k2-instruct", "0.20", False),  # transformers_utils/config.py _CONFIG_REGISTRY, or a transformers that knows it
    ("qwen/qwen3-8b", "0.33", False),
])  # fmt: skip
def test_what_is_taken_as_given_and_what_stops(model: str, version: str, needed: bool) -> None:
    plans = {trust: ask(model, version, trust) for trust in (None, "true", "false")}
    assert any(TAKEN in note for note in plans[None].model.notes) is needed
    assert not any(TAKEN in note for trust in ("true", "false") for note in plans[trust].model.notes)
    assert (STOPS in (plans["false"].outcome.reason or "")) is needed
    assert plans["false"].starts is (False if needed else plans[None].starts)
