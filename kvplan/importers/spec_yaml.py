"""A model spec as YAML that people read: one block per layer kind, one mixer or network per line, patterns inside brackets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./+-]*( [A-Za-z0-9_./+(-][A-Za-z0-9_./+()-]*)*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_WIDTH = 130
_KIND_WIDTH = 200  # one mixer or network per line reads best, even a long one


def dump_spec(data: Mapping[str, Any], header: tuple[str, ...] = ()) -> str:
    """YAML text of the data of a model spec, `header` as comment lines above it."""
    lines = [f"# {line}" for line in header]
    for key, value in data.items():
        if value in (None, [], {}, ()) and key != "vocab_size":
            continue
        lines += _entry(key, value, 0)
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, depth: int) -> list[str]:
    pad = "  " * depth
    flow = f"{pad}{_scalar(key)}: {_flow(value)}"
    if not isinstance(value, Mapping | list | tuple) or not value:
        return [flow]
    nested = isinstance(value, Mapping) or any(isinstance(item, Mapping) for item in value)
    if not nested and len(flow) <= _WIDTH:
        return [flow]
    lines = [f"{pad}{_scalar(key)}:"]
    if isinstance(value, Mapping):
        for inner, item in value.items():
            lines += _entry(str(inner), item, depth + 1)
        return lines
    return lines + [line for item in value for line in _item(item, depth + 1)]


def _item(item: Any, depth: int) -> list[str]:
    """One entry of a list: on one line where it fits."""
    pad = "  " * depth
    line = f"{pad}- {_flow(item)}"
    if not isinstance(item, Mapping) or len(line) <= (_KIND_WIDTH if "kind" in item else _WIDTH):
        return [line]
    lines: list[str] = []
    for key, value in item.items():
        lines += _entry(str(key), value, depth + 1)
    return [f"{pad}- {lines[0].lstrip()}", *lines[1:]]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, int | float):
        return json.dumps(value)
    text = str(value)
    items = re.fullmatch(r"\d+\*[A-Za-z][A-Za-z0-9_.-]*", text)
    if items or (text.startswith("https://") and " " not in text and "#" not in text):
        return text
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)
