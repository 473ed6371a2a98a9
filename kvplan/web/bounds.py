"""What one client may ask for at most, and what the person who starts the server allows."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.errors import SpecError

MAX_BODY = 1 << 20
BODY_SECONDS = 10.0
MAX_TEXT = 500  # characters of one value of a question
MAX_ITEMS = 256  # entries of a list or an object in a question, files of a check
MAX_DEVICES = 4096  # tp x pp x dp, or n_devices: a rank each
MAX_SECONDS = 20.0  # of a search or a check, looked at between its plans
MAX_AT_ONCE, MAX_WAITING = 4, 64  # requests that are worked on, and that wait for those
MAX_OPEN = 500  # connections of one process; more are told to come again
MAX_KEPT = 32 << 20  # bytes of answers kept for who asks the same again
MOST_NAMES = 200  # models and devices in one answer to a text


class Settings(NamedTuple):
    """What clients are allowed beyond questions: `files` and this machine's GPU read by name, models asked of the Hub.

    hosts  names that requests may call the server by; empty: any (behind a name that only its owner knows)
    """

    files: bool = False
    hub: bool = False
    hosts: tuple[str, ...] = ()


#: What holds unless the person who starts the server says otherwise.
CLOSED = Settings()


class Refused(Exception):
    """A request that is answered with an HTTP status and a line of text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def checked(question: dict[str, Any]) -> dict[str, Any]:
    """The question, its values no longer and its devices no more than one client may ask. Raises SpecError."""
    faults = [(name[:60], f"longer than {MAX_TEXT} characters") for name, value in question.items() if _long(value)]
    faults += [(name[:60], f"more than {MAX_ITEMS} entries") for name, value in question.items() if _many(value)]
    faults += [(name[:60], "a value, or a list or an object of values") for name, value in question.items() if _nested(value)]
    n = 1
    for name in ("tp", "pp", "dp"):
        n *= _count(question.get(name))
    n = max(n, *(_count(question.get(name)) for name in ("n_devices", "ep", "dcp")))
    if n > MAX_DEVICES:
        faults.append(("devices", f"{n:,} are more than the {MAX_DEVICES:,} that one request may ask for"))
    if faults:
        raise SpecError("question", faults)
    return question


def _long(value: Any) -> bool:
    return any(isinstance(part, str) and len(part) > MAX_TEXT for part in (value, *_parts(value)))


def _many(value: Any) -> bool:
    return len(_parts(value)) > MAX_ITEMS


def _nested(value: Any) -> bool:
    return any(part is None or isinstance(part, list | dict) for part in _parts(value))


def _parts(value: Any) -> list[Any]:
    """What a list or a mapping holds, its keys too."""
    return [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []


def _count(value: Any) -> int:
    """A parallel size; 1 for what is none, which the library refuses in its own words."""
    text = str(value).replace(",", "").replace("_", "").strip()
    return max(1, int(text)) if text.isdecimal() and len(text) < 19 else 1
