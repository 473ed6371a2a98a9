"""JSON from strangers: no key twice, no NaN, bounded in values and depth before anything is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kvplan.errors import FormatError

MAX_VALUES = 1 << 20  # commas; the largest published index (DeepSeek-V3 in AWQ) has 140,000
MAX_CONTAINERS = 1 << 18
MAX_DEPTH = 32

Fail = Callable[[int, str], Exception]
"""Makes the error for a break at a byte offset."""


def fail_in(source: str, format_name: str = "JSON", start: int = 0) -> Fail:
    """A FormatError of this file; `start` is where the text lies in it."""
    return lambda at, message: FormatError(source, format_name, start + at, message)


def parse(data: bytes, fail: Fail, *, infinity: bool = False) -> Any:
    """Plain data. Raises what `fail` makes. `infinity`: the JavaScript word is taken as a number."""
    if data.count(b",") > MAX_VALUES or data.count(b"{") + data.count(b"[") > MAX_CONTAINERS:
        raise fail(0, f"more than {MAX_VALUES} values or {MAX_CONTAINERS} objects and arrays")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    raise fail(0, f"{key[:80]}: is there twice; keep one")
                seen.add(key)
        return found

    def constant(name: str) -> float:
        if name == "NaN" or not infinity:
            raise fail(0, f"{name} is no number in JSON")
        return float(name.replace("Infinity", "inf"))

    text = ""
    try:
        text = data.decode("utf-8-sig" if infinity else "utf-8")
        found = json.loads(text, object_pairs_hook=once, parse_constant=constant)
    except UnicodeDecodeError as error:
        raise fail(error.start, "not UTF-8") from None
    except json.JSONDecodeError as error:
        raise fail(len(text[: error.pos].encode("utf-8")), f"not JSON: {error.msg}") from None
    except RecursionError:
        raise fail(0, "not JSON: nested too deep") from None
    except ValueError:
        raise fail(0, "not JSON: a number of more digits than are read") from None
    if _depth(found) > MAX_DEPTH:
        raise fail(0, f"nested deeper than {MAX_DEPTH}")
    return found


def _depth(value: Any) -> int:
    level, deep = [value], 0
    while level and deep <= MAX_DEPTH:
        deep += 1
        level = [inner for v in level for inner in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else ())]
    return deep
