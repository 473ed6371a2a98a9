"""Conformance vectors: answers beside what engines' own code made of the same questions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvplan.vectors import judge, read
from kvplan.vectors.judge import Verdict


class Checked(NamedTuple):
    """A verdict for each vector, and how many of each word by engine and release."""

    verdicts: list[Verdict]
    counts: list[dict[str, Any]]

    @property
    def wrong(self) -> int:
        return sum(row["wrong"] for row in self.counts)

    def as_dict(self) -> dict[str, Any]:
        """Counts, and what is wrong with the engine's figure and the answer's."""
        wrong = [
            {"id": v.vector.id, "faults": [{"name": name, "engine": theirs, "answer": ours} for name, theirs, ours in v.faults]}
            for v in self.verdicts
            if v.word == "wrong"
        ]
        return {"counts": self.counts, "wrong": wrong}


def check_vectors(
    answers: str | os.PathLike[str] | None = None, folder: str | os.PathLike[str] = "vectors", *, engine: str | None = None
) -> Checked:
    """Holds a file of answers (one JSON object a line), or kvplan's own, against the vectors of a folder. Raises KvplanError for what can
    not be read.

    >>> check_vectors("answers.jsonl").wrong  # doctest: +SKIP
    0
    """
    given = {row["id"]: row for row in answer_vectors(folder, engine=engine)} if answers is None else read.answers(answers)
    verdicts = judge.judged(read.vectors(folder, engine), given)
    return Checked(verdicts, judge.counted(verdicts))


def answer_vectors(folder: str | os.PathLike[str] = "vectors", *, engine: str | None = None) -> Iterator[dict[str, Any]]:
    """kvplan's own answers to the vectors of a folder, one after the other."""
    from kvplan.vectors.answer import answers

    return answers(read.vectors(folder, engine))
