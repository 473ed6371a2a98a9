"""Tables that tools write into pages, between a mark that names the tool and an end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

END = "<!-- end -->"


def begin(tool: str) -> str:
    return f"<!-- written by tools/{tool} -->"


def between(page: str, tool: str, text: str) -> str:
    """The page with `text`, which ends in a newline, between the tool's mark and the end of its part."""
    mark = begin(tool)
    before, _, rest = page.partition(mark)
    _, _, after = rest.partition(END)
    return f"{before}{mark}\n{text}{END}{after}"


def table(columns: Sequence[str], rows: Iterable[Iterable[object]], right: Collection[int] = ()) -> str:
    """Markdown, each line ended; the columns in these places are set to the right."""
    rule = "|".join("--:" if i in right else "---" for i in range(len(columns)))
    return "".join([_row(columns), f"|{rule}|\n", *map(_row, rows)])


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"
