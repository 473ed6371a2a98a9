"""How far advice looks; formats and settings are the engine's facts. Whether a change helps is evaluated, never assumed."""

from __future__ import annotations

MOST_HUNDREDTHS = 40  # how far below the asked fraction one is looked for
LEAST_STEP_TOKENS = 2048
TP_SIZES = (1, 2, 4, 8, 16)
MOST_STAGES = 16
ROOM = 0.02  # of a device: a number that leaves less is followed by a rounder one that leaves it
AS_FAST = 3 / 4  # of its rates: a larger device with less than that is the last that is offered
ROUND_TOKENS = 1024
LEAST_TOKENS = 256  # of a request: a shorter one is no advice to somebody who asked for more
RAM_GIB = (48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)  # sizes that machines are sold with
PAGES = (256, 128, 64, 32, 16, 8, 1)


def shortest(now: int) -> int:
    """The shortest request that is looked for below this one, in tokens."""
    return LEAST_TOKENS if now > LEAST_TOKENS else 1


def smaller_pages(now: int | None) -> tuple[int, ...]:
    """Page sizes below this one, the nearest first."""
    return tuple(size for size in PAGES if now is not None and size < now)
