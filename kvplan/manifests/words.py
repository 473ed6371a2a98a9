"""A word of a command: its text, where it stands, and the variables in it that nothing sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvplan.manifests.values import START, Place


class Word(NamedTuple):
    """`missing` names the variables that stay open; they stand in `text` as `$NAME`."""

    text: str
    place: Place = Place()
    missing: tuple[str, ...] = ()


class Command(NamedTuple):
    """A simple command with the environment it runs in: what the file sets, nothing else."""

    words: tuple[Word, ...]
    env: Mapping[str, Word]
    place: Place
    end_line: int


def words(*texts: str, place: Place = START) -> list[Word]:
    """Plain words that stand at one place."""
    return [Word(text, place) for text in texts]
