"""The tables beside the code: a row a line, columns parted by tabs; lines that begin with # say what they are and where that is from."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def rows(table: str | Path) -> list[list[str]]:
    """The rows of a table by its path, in this package where that is not a whole one, in its order."""
    lines = (_PACKAGE / table).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]
