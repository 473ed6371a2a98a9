"""Several values of one name: `8k,32k`, `1:4`, `1k:8k:+1k`, `8k:1m:x2`."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

from kvplan.cli.options import tell
from kvplan.deployment import NAMES
from kvplan.errors import SpecError
from kvplan.units import THOUSANDS, parse_bytes, parse_tokens

MOST = 10_000


def expand(name: str, text: str, most: int = MOST) -> list[str | int]:
    """The values that one option names, in order. Raises SpecError for a range that is none."""
    if is_thousands(name, text):
        return [text.replace(",", "")]
    values: list[str | int] = []
    for part in text.split(","):
        if not part.strip():
            said = ": an empty value between commas" if text.strip() else " says nothing; write a value, or leave the option out"
            raise SpecError(name, [("", f"{text[:60]!r}{said}")])
        values += _range(name, part.strip(), most) if ":" in part and NAMES[name].kind in ("tokens", "count", "bytes") else [part.strip()]
        if len(values) > most:
            instead = "`sweep` is made for that many" if most == MOST else "write a step, such as 1k:1m:x2"
            raise SpecError(name, [("", f"more than {most:,} values; {instead}")])
    return values


def is_thousands(name: str, text: str) -> bool:
    """Whether a text with commas is one number: of tokens `32,768`; of counts only where it can be nothing else (`1,024`)."""
    kind = NAMES[name].kind
    return bool(THOUSANDS.fullmatch(text)) and (kind == "tokens" or (kind in ("count", "bytes") and ",0" in text))


def note_thousands(options: dict[str, Any]) -> None:
    """Says on standard error which values with commas were read as one number, and how several are written."""
    for name, text in options.items():
        if isinstance(text, str) and is_thousands(name, text):
            parts = ", ".join(text.split(","))
            tell(f"note: --{name.replace('_', '-')} {text} is read as the number {text.replace(',', '')}; several values: {parts!r}")


def _range(name: str, part: str, most: int) -> list[str | int]:
    first, last, *step = part.split(":")
    parse = parse_bytes if NAMES[name].kind == "bytes" else parse_tokens
    if not all(one.strip() for one in (first, last, *step)):
        raise SpecError(name, [("", f"{part[:60]!r}: write first:last, first:last:+step or first:last:xfactor")])
    low, high = parse(first, name), parse(last, name)
    how = step[0] if step else "+1"
    if len(step) > 1 or how[:1] not in ("+", "x"):
        raise SpecError(name, [("", f"{part[:60]!r}: write first:last, first:last:+step or first:last:xfactor")])
    after = _times(how[1:], parse, name) if how[0] == "x" else _plus(parse(how[1:], name))
    if after(low) <= low:
        raise SpecError(name, [("", f"{part[:60]!r}: the step must lead upwards")])
    if low > high:
        raise SpecError(name, [("", f"{part[:60]!r} is empty: the first value is above the last")])
    values: list[str | int] = []
    while low <= high and len(values) <= most:
        values.append(low)
        low = after(low)
    return values


def _plus(step: int) -> Callable[[int], int]:
    return lambda n: n + step


def _times(text: str, parse: Callable[[str, str], int], name: str) -> Callable[[int], int]:
    """`2`, or `1.5`: whole values, rounded down, each larger than the last where the factor is above 1."""
    by = Fraction(text) if re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", text) else Fraction(parse(text, name))
    return lambda n: max(int(n * by), n + 1) if by > 1 and n > 0 else n


def questions(options: dict[str, Any]) -> list[dict[str, Any]]:
    """One question per combination of values, the last name varying fastest."""
    lists = {name: expand(name, value) if isinstance(value, str) else [value] for name, value in options.items()}
    n = 1
    for values in lists.values():
        n *= len(values)
        if n > MOST:
            raise SpecError("question", [("", f"more than {MOST:,} combinations; `sweep` is made for that many")])
    return [dict(zip(lists, combination, strict=True)) for combination in product(*lists.values())]
