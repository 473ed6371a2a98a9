"""The vectors (vectors/README.md: what engines' own code made of five thousand questions), asked of kvplan."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kvplan.vectors import answer, judge, read

FOLDER = Path(__file__).parents[2] / "vectors"
ENGINES = sorted(path.name.removesuffix(".jsonl") for path in FOLDER.glob("*.jsonl") if path.name != "models.jsonl")
#: Models that are read otherwise. A Falcon of the new decoder with one KV head: transformers keeps K and V for every query head, and a spec
#: does not tell it from an old one, which keeps one; a note says so. No release is like that.
KNOWN = {"falcon-1.7"}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_vector(engine: str) -> None:
    vectors = list(read.vectors(FOLDER, engine))
    verdicts = judge.judged(vectors, {row["id"]: row for row in answer.answers(vectors)})
    wrong = {v.vector.id: v.faults for v in verdicts if v.word == "wrong" and v.vector.model["id"] not in KNOWN}
    assert not wrong
    words = Counter(v.word for v in verdicts)
    assert words["unanswered"] == 0
    assert words["right"] > len(verdicts) / 2


@pytest.mark.parametrize("engine", ENGINES)
def test_models_without_a_length_are_answered(engine: str) -> None:
    vectors = [v for v in read.vectors(FOLDER, engine) if "max_position_embeddings" not in v.model.get("config", {})]
    assert not [row for row in answer.answers(vectors[:200]) if "unsupported" in row]


def test_there_are_five_thousand() -> None:
    vectors = list(read.vectors(FOLDER))
    assert len(vectors) >= 5000
    assert len({v.id for v in vectors}) == len(vectors)
    assert sum("refused" in v.expect for v in vectors) > 300
