"""Numbers and texts of a command line, read as the engine reads them. Each reader raises ValueError with the engine's complaint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

LARGEST = 1 << 62
_HUMAN = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([kKmMgGtT])")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_C_INT = re.compile(r"\s*([+-]?\d{1,18})")


def whole(text: str) -> int:
    """Python's int(), as argparse and click call it."""
    try:
        value = int(text) if len(text) < 64 else LARGEST + 1
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a whole number") from None
    if abs(value) > LARGEST:
        raise ValueError(f"{text[:60]!r} is out of range")
    return value


def human(text: str) -> int:
    """vLLM's human_readable_int (vllm/utils/argparse_utils.py, 0.8.5 to 0.33): 32k = 32,000, 32K = 32,768; no fractions with capitals."""
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return whole(text.strip())
    number, unit = match[1], match[2]
    if unit in _DECIMAL:
        return int(float(number) * _DECIMAL[unit])
    if "." in number:
        raise ValueError(f"{text[:60]!r}: decimals are not allowed with binary suffixes like {unit}; did you mean {number}{unit.lower()}?")
    return int(number) * _BINARY[unit]


def human_or_auto(text: str) -> int:
    """vLLM's human_readable_int_or_auto (from 0.14): -1 for `auto`."""
    return -1 if text.strip().lower() in ("-1", "auto") else human(text)


def number(text: str) -> float:
    """Python's float()."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a number") from None
    if value != value or abs(value) > LARGEST:
        raise ValueError(f"{text[:60]!r} is out of range")
    return value


def c_int(text: str) -> int:
    """std::stoi, as llama.cpp calls it: what follows the digits is dropped without a word, so 32k is 32."""
    match = _C_INT.match(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a whole number")
    return int(match[1])


def structure(text: str) -> Any:
    """A JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text[:60]!r} is not JSON") from None
    return value


def truth(text: str) -> bool:
    """true, 1, yes, on and their opposites."""
    word = text.strip().lower()
    if word not in ("true", "1", "yes", "on", "false", "0", "no", "off"):
        raise ValueError(f"{text[:60]!r} is not true or false")
    return word in ("true", "1", "yes", "on")


READERS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "int": whole,
    "human": human,
    "auto": human_or_auto,
    "float": number,
    "c_int": c_int,
    "json": structure,
    "truth": truth,
}
