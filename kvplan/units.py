"""Sizes: integers in, integers out. GiB is 2^30 bytes, GB is 10^9; for tokens k is 1024."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kvplan.errors import SpecError

#: Bytes of a value of 32 bits.
F32 = 4
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LARGEST = 1 << 62  # no size, count or product of a real deployment comes near it
MOST_TOKENS = 1 << 40  # of a request, and the most requests: no question asks for more
MOST_DEVICES = 1 << 14  # of one deployment, and the most ranks: each has lines of its own

_BYTE_UNITS = {
    "": 1, "b": 1,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": 1 << 40,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_SECOND_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TOKEN_UNITS = {"": 1, "k": 1024, "m": 1024**2}
#: `32,768`: thousands as people write them.
THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
_SIZE = re.compile(r"([0-9]{1,40})(?:\.([0-9]{1,9}))?\s*([A-Za-z]*)")


def cdiv(a: int, b: int) -> int:
    """Ceiling of a / b for b > 0."""
    return -(-a // b)


def round_up(a: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `a`."""
    return cdiv(a, multiple) * multiple


def longest(holds: Callable[[int], bool], most: int = LARGEST, near: int = 0) -> int:
    """The largest n up to `most` for which `holds` is true, 0 where it holds for none; `holds` turns false once and stays so.

    near  a guess: it saves steps where it is right, and changes nothing where it is wrong
    """
    if holds(most):
        return most
    low, high, step = 0, most, 1
    if 0 < near < most and not holds(near):
        high = near
        while high - step > 0 and not holds(high - step):
            high, step = high - step, 2 * step
        low = max(high - step, 0)
    else:
        low = near if 0 < near < most else 0
        while low + step < most and holds(low + step):
            low, step = low + step, 2 * step
        high = min(low + step, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def crossing(spare: Callable[[int], int], start: int, most: int) -> int:
    """About where `spare`, which falls as n grows, turns negative, by straight lines through tries from `start` on; `most`: nowhere."""
    (x, y), (other, its) = ((n, spare(n)) for n in (start, 2 * start))
    for _ in range(4):
        if y == its:
            return most if y >= 0 else 0
        x, y, other = other, its, min(max(x + y * (other - x) // (y - its), 1), most)
        if other == x:
            break
        its = spare(other)
    return other


def scalar(value: Any) -> Any:
    """A number of numpy's, or a tensor of one, as Python's own; anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def plain_number(text: str) -> str:
    """A number without its commas, where they part thousands (32,768); other text as it is."""
    return text.replace(",", "") if THOUSANDS.fullmatch(text) else text


def _parse(text: str | float, units: dict[str, int], name: str, example: str) -> int:
    if isinstance(text, float) and text.is_integer():  # of a table's column
        text = int(text)
    if isinstance(text, bool) or not isinstance(text, (int, str)) or (isinstance(text, int) and text < 0):
        raise SpecError(name, [("", f"{str(text)[:60]!r} is not a size; write a number such as {example}")])
    value: int
    if isinstance(text, int):
        value = text
    else:
        match = _SIZE.fullmatch(plain_number(text.strip()).replace("_", ""))
        unit = match[3].lower() if match else ""
        if match is not None and f"{unit}ib" in units and unit not in units:
            n = text.strip()[: -len(match[3])].strip()
            raise SpecError(
                name, [("", f"{text[:60]!r} is {n}{unit.upper()}iB (powers of 1024) or {n}{unit.upper()}B (of 1000)? Write which")]
            )
        if match is None or unit not in units:
            raise SpecError(name, [("", f"{text[:60]!r} is not a size; write a number such as {example}")])
        whole, fraction = match[1], match[2] or ""
        if fraction.strip("0") and units[unit] == 1:
            raise SpecError(
                name, [("", f"{text[:60]!r} is no whole number; write {whole}{fraction} if the dot parts thousands, or a unit")]
            )
        value = int(whole + fraction) * units[unit] // 10 ** len(fraction)
    if not 0 <= value <= LARGEST:
        bounds = f"at least 1, at most {MOST_TOKENS}" if units is _TOKEN_UNITS else f"0 to {LARGEST}"
        raise SpecError(name, [("", f"{str(text)[:60]} is out of range: {bounds}")])
    return value


def parse_tokens(text: str | float, name: str = "tokens") -> int:
    """A token count: 4096, "32,768", "128k" (131,072), "1m" (1,048,576)."""
    return _parse(text, _TOKEN_UNITS, name, "32768 or 32k")


def parse_bytes(text: str | float, name: str = "bytes") -> int:
    """A byte count: 1024, "40GiB" (40 x 2^30), "80GB" (80 x 10^9)."""
    return _parse(text, _BYTE_UNITS, name, "40GiB or 80GB")


def parse_seconds(text: str | float, name: str = "seconds") -> float:
    """A time: 30, "30s", "500ms", "2m", "1h", in seconds."""
    value = -1.0
    if isinstance(text, int | float) and not isinstance(text, bool):
        value = float(text)
    elif isinstance(text, str) and (match := _SIZE.fullmatch(text.strip())) and match[3].lower() in _SECOND_UNITS:
        value = float(f"{match[1]}.{match[2] or 0}") * _SECOND_UNITS[match[3].lower()]
    if not 0 <= value < 1e12:
        raise SpecError(name, [("", f"{str(text)[:60]!r} is no time of at least 0; write a number of seconds, 30s, 500ms or 2m")])
    return value


def show_bytes(n: int) -> str:
    """For people: exact below 1 KiB, else three decimals of the largest binary unit."""
    for unit, size in (("TiB", 1 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(n) >= size:
            return f"{n / size:,.3f} {unit}"
    return f"{n} B"


def size(n_bytes: int) -> str:
    """One decimal of GiB and above, whole MiB and KiB below; never 0.0 for what is something."""
    for unit, one, decimals in (("TiB", 1 << 40, 2), ("GiB", GIB, 1), ("MiB", MIB, 0), ("KiB", KIB, 0)):
        if abs(n_bytes) >= one:
            return f"{n_bytes / one:,.{decimals}f} {unit}"
    return f"{n_bytes} B"


def counted(n: int, what: str) -> str:
    """`1 request`, `32 requests`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def spelled(value: Any) -> str:
    """An option's value as the command line spells it: `true`, `1,2,4`, `{"mode": 0}`."""
    if isinstance(value, Mapping) or (isinstance(value, list | tuple) and any(isinstance(one, Mapping | list | tuple) for one in value)):
        return json.dumps(value, default=str)
    if isinstance(value, list | tuple):
        return ",".join(map(spelled, value)) or "[]"
    return str(value).lower() if isinstance(value, bool) else str(value)
