"""Words of a command, where they stand, and what is to be said about them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning", "note"]
#: Where a text that a format folded into one line began new lines: (offset in the text, line of the file).
Breaks = tuple[tuple[int, int], ...]


class Place(NamedTuple):
    """A position in a file; lines and columns count from 1."""

    line: int = 1
    column: int = 1


START = Place()


class Word(NamedTuple):
    """`missing` names the variables that stay open; they stand in `text` as `$NAME`. `maybe`: of an open word, all that it may hold;
    an empty text first: it is empty unless the environment says otherwise."""

    text: str
    place: Place = START
    missing: tuple[str, ...] = ()
    breaks: Breaks = ()
    maybe: tuple[str, ...] = ()


class Given(NamedTuple):
    """An option that was given: its value, its spelling and its place."""

    value: Any
    spelled: str
    place: Place = START


#: How a finding ends that says that the engine does not go on: as it would, or as it was seen to.
WOULD_STOP, STOPS = "the engine would stop", "the engine stops"


class Finding(NamedTuple):
    """One thing to say about one place. `rule` is a short name that stays the same over releases."""

    rule: str
    severity: Severity
    message: str
    place: Place
    file: str = ""

    @property
    def stops(self) -> bool:
        """Whether the engine ends at this: at a choice that the release does not have, or as the message says."""
        return self._is_choice or self.message.endswith((WOULD_STOP, STOPS))

    @property
    def as_stop(self) -> str:
        """The message, saying that the engine would stop."""
        message = self.message.replace(STOPS, WOULD_STOP)
        return f"{message}; {WOULD_STOP}" if self._is_choice else message

    @property
    def _is_choice(self) -> bool:
        return self.rule == "unknown-choice" and self.severity == "error"


class Unresolved(NamedTuple):
    """A fact that the file does not hold: which name of the question, why it is open, and the option that gives it."""

    what: str
    why: str
    give: str
    place: Place


def words(*texts: str, place: Place = START) -> list[Word]:
    """Plain words that stand at one place."""
    return [Word(text, place) for text in texts]


def warn(rule: str, message: str, place: Place) -> Finding:
    return Finding(rule, "warning", message, place)


def refuse(message: str, place: Place, rule: str = "bad-value") -> Finding:
    return Finding(rule, "error", message, place)
