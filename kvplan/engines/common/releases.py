"""Finding the release of an engine whose rules apply."""

from __future__ import annotations


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
    older = [v for v in versions if release(v) <= wanted]
    found = versions[-1] if not wanted else older[-1] if older else versions[0]
    if wanted and release(found) == wanted[: len(release(found))] and len(wanted) <= max(len(release(found)), 3):
        return found, ()
    return found, (f"{engine} {asked[:40]} is not a release we know: the rules of {found}, the nearest known, are used",)
