"""What stands in README.md and docs/*.md: fenced blocks, commands with the output they show, links and the anchors of headings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}

#: A fenced block; a comment before it chooses the lines of its command's output that are shown: `<!-- lines 1-4, 9 -->`, all `1-`,
#: `"text"` the first line that begins so, `"text"+5` five more after it.
_FENCE = re.compile(r"(?:^<!-- lines (?P<lines>[^\n]+) -->\n)?^```(?P<language>[\w-]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_PIECE = re.compile(r'"(?P<text>[^"]+)"(?:\+(?P<more>\d+))?|(?P<first>\d+)(?P<dash>-)?(?P<last>\d+)?')
_GAP = "…"


class Block(NamedTuple):
    """A fenced block. `lines` is the choice of lines, empty where it shows none."""

    language: str
    body: str
    lines: str

    @property
    def commands(self) -> list[str]:
        """Lines after a `$ `, without it."""
        return [line[2:] for line in self.body.splitlines() if line.startswith("$ ")] if self.language == "console" else []


def blocks(text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        yield Block(found["language"], found["body"], found["lines"] or "")


def shown(out: str, lines: str) -> str:
    """The chosen lines of an output, without blanks at their ends; what is left out before, between and after them is one `…`."""
    every = [line.rstrip() for line in out.rstrip("\n").splitlines()]
    kept: list[str] = []
    after = 0
    for piece in _PIECE.finditer(lines):
        start, end = _chosen(piece, every)
        kept += [_GAP] * (start > after) + every[start:end]
        after = end
    return "\n".join([*kept, *[_GAP] * (after < len(every))]) + "\n"


def _chosen(piece: re.Match[str], every: list[str]) -> tuple[int, int]:
    """First line, and the one after the last, counted from 0."""
    if piece["text"]:
        start = next(i for i, line in enumerate(every) if line.startswith(piece["text"]))
        return start, start + 1 + int(piece["more"] or 0)
    start = int(piece["first"]) - 1
    last = int(piece["last"] or piece["first"]) if piece["last"] or not piece["dash"] else len(every)
    return start, min(last, len(every))


def rewritten(text: str, answer: Callable[[str], str]) -> str:
    """The page with every output that it shows as `answer` gives it for the command."""

    def one(found: re.Match[str]) -> str:
        block = Block(found["language"], found["body"], found["lines"] or "")
        if not block.lines:
            assert all(line.startswith("$ ") for line in block.body.splitlines() if block.language == "console"), block.body
            return found.group()
        (command,) = block.commands
        return found.group().replace(block.body, f"$ {command}\n{shown(answer(command), block.lines)}")

    return _FENCE.sub(one, text)


def prose(text: str) -> str:
    """The page without its fenced blocks and code."""
    return re.sub(r"`[^`\n]+`", "", _FENCE.sub("", text))


def links(text: str) -> list[str]:
    """Targets of links and pictures that stay in the repository."""
    return [to for to in re.findall(r"\]\(([^)\s]+)\)", prose(text)) if "://" not in to and not to.startswith("mailto:")]


def anchors(text: str) -> set[str]:
    """Anchors of headings that GitHub and mkdocs spell alike."""
    return {
        slug for title in re.findall(r"^#{1,6} (.+)$", _FENCE.sub("", text), re.MULTILINE) if (slug := _github(title)) == _mkdocs(title)
    }


def _plain(title: str) -> str:
    return re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()


def _github(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", _plain(title)).replace(" ", "-")


def _mkdocs(title: str) -> str:
    """Python-Markdown's toc: ASCII alone, runs of blanks and hyphens as one."""
    ascii_ = _plain(title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_).strip())
