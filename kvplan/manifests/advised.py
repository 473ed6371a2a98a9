"""What would make a file's plan fit, in the words of its own engine: what to write into the file."""

from __future__ import annotations

from kvplan import engines
from kvplan.engines.common.written import write
from kvplan.errors import KvplanError
from kvplan.manifests.values import Found
from kvplan.planner.plan import Advice, Plan


def advised(found: Found, plan: Plan, most: int) -> str:
    """The first changes of a plan's advice, each with the engine's options that make it, where options do: `a (--x 1) | b`."""
    version = str(plan.question["engine_version"][0] or "") or None
    return " | ".join(_with_words(found.engine, version, one) for one in plan.advice[:most])


def _with_words(engine: str, version: str | None, one: Advice) -> str:
    try:
        made = write(engines.arguments(engine), {one.option: one.value, **one.also}, version, checked=False)
    except KvplanError:  # no option of it says so: another checkpoint, another device
        return one.change
    words = [*made.words, *(f"{name}={value}" for name, value in made.env.items())]
    return f"{one.change} ({' '.join(words)})" if words and {one.option, *one.also} <= made.said else one.change
