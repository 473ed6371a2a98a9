"""tools/engine_release.py: what it calls a change, on answers written by hand."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import engine_release

OLD = {"vllm llama-2.0": {"id": "vllm llama-2.0", "release": "1", "length": 10, "plans": [{"blocks": 5, "tokens": 80}, {"refused": "no"}]}}


def test_a_new_release_number_alone_is_no_change() -> None:
    assert not engine_release.changes(OLD, {"vllm llama-2.0": {**OLD["vllm llama-2.0"], "release": "2"}})


def test_changes_are_told_by_figure_and_family() -> None:
    new = {"vllm llama-2.0": {**OLD["vllm llama-2.0"], "length": 11, "plans": [{"blocks": 6, "tokens": 80}, {"blocks": 1, "tokens": 16}]}}
    found = engine_release.changes(OLD, new)
    assert found["length", "llama"] == [("vllm llama-2.0", 10, 11)]
    assert found["blocks", "llama"] == [("vllm llama-2.0", 5, 6), ("vllm llama-2.0", None, 1)]
    assert found["refused", "llama"] == [("vllm llama-2.0", "no", None)]
    assert ("tokens", "llama") in found
    assert not engine_release.changes(OLD, {})


def test_questions_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    draws = [list(engine_release.draw.transformers(1, seed)) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert len(draws[0]) == len(engine_release.draw.geometries.FAMILIES)
