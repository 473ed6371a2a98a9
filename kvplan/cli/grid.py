"""Several values of one name: `8k,32k`, `1:4`, `1k:8k:+1k`, `8k:1m:x2`."""

from __future__ import annotations

from itertools import product
from typing import Any

from kvplan.deployment import NAMES
from kvplan.errors import SpecError
from kvplan.units import parse_bytes, parse_tokens

MOST = 10_000


def expand(name: str, text: str, most: int = MOST) -> list[str | int]:
    """The values that one option names, in order. Raises SpecError for a range that is none."""
    values: list[str | int] = []
    for part in text.split(","):
        if not part.strip():
            raise SpecError(name, [("", f"{text[:60]!r}: an empty value between commas")])
        values += _range(name, part.strip(), most) if ":" in part and NAMES[name].kind in ("tokens", "count", "bytes") else [part.strip()]
        if len(values) > most:
            raise SpecError(name, [("", f"more than {most:,} values; `sweep` is made for that many")])
    return values


def _range(name: str, part: str, most: int) -> list[str | int]:
    first, last, *step = part.split(":")
    parse = parse_bytes if NAMES[name].kind == "bytes" else parse_tokens
    low, high = parse(first, name), parse(last, name)
    how = step[0] if step else "+1"
    if len(step) > 1 or how[:1] not in ("+", "x"):
        raise SpecError(name, [("", f"{part[:60]!r}: write first:last, first:last:+step or first:last:xfactor")])
    by = parse(how[1:], name)
    if by < (2 if how[0] == "x" else 1) or (how[0] == "x" and low < 1):
        raise SpecError(name, [("", f"{part[:60]!r}: the step must lead upwards")])
    values: list[str | int] = []
    while low <= high and len(values) <= most:
        values.append(low)
        low = low * by if how[0] == "x" else low + by
    return values


def questions(options: dict[str, Any]) -> list[dict[str, Any]]:
    """One question per combination of values, the last name varying fastest."""
    lists = {name: expand(name, value) if isinstance(value, str) else [value] for name, value in options.items()}
    n = 1
    for values in lists.values():
        n *= len(values)
        if n > MOST:
            raise SpecError("question", [("", f"more than {MOST:,} combinations; `sweep` is made for that many")])
    return [dict(zip(lists, combination, strict=True)) for combination in product(*lists.values())]
