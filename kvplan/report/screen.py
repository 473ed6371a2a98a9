"""What a text is drawn on: how wide it is, and whether it shows blocks and colours."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import NamedTuple

NARROWEST, NO_TERMINAL = 40, 100


class Screen(NamedTuple):
    """Columns; whether Unicode blocks can be written; whether colours may be (ECMA-48 SGR)."""

    width: int = NO_TERMINAL
    blocks: bool = True
    colour: bool = False

    def paint(self, text: str, colour: int) -> str:
        """Text in one of the terminal's own sixteen colours, or as it is."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour and text else text

    def fold(self, text: str, indent: str = "", first: str | None = None) -> str:
        """Text in lines of the screen's width, the further ones indented."""
        lines = textwrap.wrap(
            text,
            self.width,
            initial_indent=indent if first is None else first,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
        return "\n".join(lines)


def here(env: Mapping[str, str] = os.environ) -> Screen:
    """Standard output: a terminal's width and colours unless NO_COLOR is set (no-color.org); blocks where its encoding has them."""
    out = sys.stdout
    terminal = out is not None and out.isatty()
    dumb = env.get("TERM") == "dumb"
    width = max(shutil.get_terminal_size((NO_TERMINAL, 24)).columns, NARROWEST) if terminal else NO_TERMINAL
    return Screen(width, not dumb and _writes_blocks(getattr(out, "encoding", None)), terminal and not dumb and not env.get("NO_COLOR"))


def _writes_blocks(encoding: str | None) -> bool:
    try:
        "█▓▒░·│▞".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
