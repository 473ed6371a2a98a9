"""Values of the environment (`check --env`) are read and never printed: wherever one would leave, the variable's name stands instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

SHORTEST = 8  # characters of a part of a value that is still told by
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RUN = re.compile(r"[^\s\"'`,;()\[\]{}<>|=:]+")


class Private(NamedTuple):
    """Value -> its variable, the longest first; `own`: what the file itself says, which is no secret."""

    values: Mapping[str, str] = {}
    own: str = ""

    def out_of(self, data: Any) -> Any:
        """Plain data without these values, nor long parts of them: messages cut them, and shells split them at blanks."""
        if not self.values:
            return data
        if isinstance(data, str):
            return _without(data, self.values, self.own)
        if isinstance(data, dict):
            return {self.out_of(key): self.out_of(value) for key, value in data.items()}
        return [self.out_of(item) for item in data] if isinstance(data, list | tuple) else data


def private(env: Mapping[str, str], text: str, read: Iterable[str], public: Callable[[str], bool]) -> Private:
    """Those variables that the text of a file names, and those that its engines read unasked. A number becomes a figure of the plan, and
    what `public` knows (models, devices) is no secret: both stay."""
    named = {*_NAME.findall(text), *read}
    found = {value: name for name, value in env.items() if name in named and value.strip() and not value.isdecimal() and not public(value)}
    return Private(dict(sorted(found.items(), key=lambda pair: -len(pair[0]))), text)


def _without(text: str, values: Mapping[str, str], own: str) -> str:
    for value, name in values.items():
        for form in dict.fromkeys((value, repr(value)[1:-1], value.lower())):
            text = text.replace(form, f"${name}") if len(form) >= SHORTEST else re.sub(_alone(form), f"${name}", text)

    def part(match: re.Match[str]) -> str:
        run = match[0]
        return next((f"${name}" for value, name in values.items() if _is_part(run, value, own)), run)

    return _RUN.sub(part, text)


def _alone(value: str) -> str:
    return rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])"


def _is_part(run: str, value: str, own: str) -> bool:
    """Whether a run of characters is a piece of the value, or begins with one that a message cut; and not the file's own word."""
    plain, whole = run.strip(".…-").casefold(), value.casefold()
    if len(plain) < SHORTEST or run in own:
        return False
    return plain in whole or any(plain[n : n + SHORTEST] == whole[:SHORTEST] for n in range(len(plain) - SHORTEST + 1))
