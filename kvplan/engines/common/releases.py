"""Tables of an engine's releases, and the one whose rules apply."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

_VERSION = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")

R = TypeVar("R")
"""An engine's rules of one release."""


class Releases(NamedTuple, Generic[R]):
    """The releases of `engine` that are known, oldest first, each with its rules."""

    engine: str
    rules: Mapping[str, R]

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(self.rules)

    def find(self, asked: str | None) -> tuple[str, R, tuple[str, ...]]:
        """The release whose rules apply (without a question the newest), its rules, and a note where it is not the one asked for."""
        found, notes = nearest_version(asked, self.versions, self.engine)
        return found, self.rules[found], notes


def cumulative(rules: R, changes: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, R]:
    """The rules of every release, from what each changed in those before it; `rules`, a named tuple, are those before the first."""
    found = {}
    for version, changed in changes:
        rules = found[version] = rules._replace(**changed)  # type: ignore[attr-defined]
    return found


def is_version(text: str) -> bool:
    """Whether a text is the name of a release or build: `0.19.0`, `v1.1.0rc3`, `b10488`, `main-2026-08`."""
    return _VERSION.fullmatch(text) is not None


@lru_cache(maxsize=1024)
def release(version: str) -> tuple[int, ...]:
    """`0.5.10.post1` -> (0, 5, 10): the numbers before the first part that is none, so that a post-release counts as its release."""
    numbers = []
    for part in version.strip().lower().removeprefix("v").split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > 9:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def nearest_version(asked: str | None, versions: tuple[str, ...], engine: str) -> tuple[str, tuple[str, ...]]:
    """The known release whose rules apply, and a note where it is not the one asked for. `versions` are oldest first.

    The newest one not newer than what was asked; the oldest for older ones; the newest without a question or for a name
    that is no number.
    """
    if asked is None:
        return versions[-1], ()
    wanted = release(asked)
    older = [v for v in versions if three_parts(v) <= three_parts(asked)]
    found = versions[-1] if not wanted else older[-1] if older else versions[0]
    patch = release(found) == wanted[: len(release(found))] and len(wanted) <= max(len(release(found)), 3)
    if wanted and (patch or three_parts(found) == three_parts(asked)):
        return found, ()
    return found, (f"{engine} {asked[:40]} is not a release we know: the rules of {found}, the nearest known, are used",)


def in_force(since: str, before: str, version: str | None) -> bool:
    """Whether what is there from `since` on and before `before` (empty: always) is in a release; one that is no number is the newest."""
    asked = build_or_release(version)
    if not asked:
        return not before
    return (not since or asked >= build_or_release(since)) and (not before or asked < build_or_release(before))


@lru_cache(maxsize=256)
def build_or_release(version: str | None) -> tuple[int, ...]:
    """`0.9.2` and `v0.9.2` -> (0, 9, 2), `0.5` -> (0, 5, 0), `b5427` -> (5427, 0, 0); of no number: ()."""
    found = release((version or "").strip().removeprefix("b"))
    return found + (0,) * (3 - len(found)) if found else ()


def three_parts(version: str) -> tuple[int, ...]:
    """A release by its first three numbers, those that are not written being 0: 0.5 and 0.5.0 are one."""
    return (*release(version), 0, 0, 0)[:3]
