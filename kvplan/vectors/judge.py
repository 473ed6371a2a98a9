"""Answers beside what engines' own code made of the same questions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kvplan.vectors.read import Row, Vector

#: A ratio of two integers that each side divides itself.
CLOSE = 1e-9


class Verdict(NamedTuple):
    """word: right, refused (both refuse), wrong, unsupported (the implementation says so), unanswered. faults: (name, theirs, ours)."""

    vector: Vector
    word: str
    faults: tuple[tuple[str, Any, Any], ...] = ()


def judged(vectors: Iterable[Vector], answers: Mapping[str, Row]) -> list[Verdict]:
    """A verdict for each vector."""
    return [_judge(vector, answers.get(vector.id)) for vector in vectors]


def _judge(vector: Vector, answer: Row | None) -> Verdict:
    if answer is None:
        return Verdict(vector, "unanswered")
    if answer.get("unsupported"):
        return Verdict(vector, "unsupported")
    expected, refuses = vector.expect.get("refused"), bool(answer.get("refused"))
    if expected or refuses:
        same = bool(expected) == refuses
        return Verdict(vector, "refused" if same else "wrong", () if same else (("refused", expected, answer.get("refused")),))
    faults = tuple((name, value, answer.get(name)) for name, value in vector.expect.items() if not _same(value, answer.get(name)))
    return Verdict(vector, "wrong" if faults else "right", faults)


def _same(theirs: Any, ours: Any) -> bool:
    """Equal, as far as the vector says: of an object the keys that it has, of a list of objects in any order."""
    if isinstance(theirs, float) and isinstance(ours, int | float):
        return math.isclose(theirs, ours, rel_tol=CLOSE)
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(_same(value, ours.get(key)) for key, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list) and theirs and isinstance(theirs[0], dict):
        left = [item for item in ours if isinstance(item, dict)]
        for item in theirs:
            match = next((other for other in left if _same(item, other)), None)
            if match is None:
                return False
            left.remove(match)
        return not left and len(theirs) == len(ours)
    return type(theirs) is type(ours) and bool(theirs == ours)


def counted(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """One row an engine and release: how many of each word."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for verdict in verdicts:
        row = found.setdefault((verdict.vector.engine, verdict.vector.release), dict.fromkeys(WORDS, 0))
        row[verdict.word] += 1
    return [{"engine": engine, "release": release, "vectors": sum(row.values()), **row} for (engine, release), row in sorted(found.items())]


WORDS = ("right", "refused", "wrong", "unsupported", "unanswered")
