"""Markdown pages: the fenced blocks that hold commands or manifests, each by itself; what stands around them is text for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

SHELL = frozenset({"", "bash", "sh", "shell", "zsh", "console", "shell-session", "terminal"})
YAML = frozenset({"yaml", "yml", "json"})
_FENCE = re.compile(r"^([ \t>]*)(`{3,}|~{3,})[ \t]*\{?\.?([\w-]*)[^`\n]*$")
_PROMPT = re.compile(r"^[ \t]*[$>][ \t]+(?=\S)", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: its text, whether it is YAML, and the line that it starts on."""

    text: str
    is_yaml: bool
    line: int


def is_page(source: str) -> bool:
    """By its name."""
    return source.lower().endswith((".md", ".markdown", ".mdx"))


def blocks(text: str) -> Iterator[Block]:
    """The blocks of shells and of YAML, without prompts; a block that nothing closes ends with the page."""
    mark, kind, indent, start, held = "", "", "", 0, list[str]()
    lines = text.splitlines()
    for number, line in enumerate([*lines, ""], 1):
        fence = _FENCE.match(line)
        closes = fence is not None and mark != "" and fence[2].startswith(mark) and not fence[3]
        if mark and (closes or number > len(lines)):
            if kind in SHELL | YAML:
                body = "\n".join(held)
                prompted = kind not in YAML and re.search(r"^[ \t]*\$ \S", body, re.MULTILINE) is not None
                yield Block(_PROMPT.sub("", body) if prompted else body, kind in YAML, start + 1)
            mark = ""
        elif mark:
            held.append(line[len(indent) :] if line.startswith(indent) else line.lstrip())
        elif fence is not None:
            indent, mark, kind, start, held = fence[1], fence[2], fence[3].lower(), number, []
