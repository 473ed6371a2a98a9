"""Plans as text. FORMATS names the file that prints each format; a file is read when its format is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar

from kvplan.planner.plan import Plan

FORMATS: dict[str, str] = {
    "table": "table",
    "markdown": "table",
    "html": "html",
    "json": "structured",
    "jsonl": "structured",
    "yaml": "structured",
    "csv": "flat",
    "parquet": "parquet",
}


#: Formats that hold more than rows: an object is printed whole.
STRUCTURED = tuple(fmt for fmt, file in FORMATS.items() if file == "structured")
#: Formats whose cells are said in words and units; the others carry plain values.
FOR_PEOPLE = ("table", "markdown", "html")


def render(plans: Sequence[Plan], fmt: str, *, detail: bool = False) -> str | bytes:
    """The plans in a format: structured ones print an object for one plan and an array for several. Parquet is bytes.

    As a table one plan is its first screen, printable and perhaps in colours; with `detail` every line follows.
    """
    if fmt == "table" and len(plans) == 1:
        from kvplan.report.first import MORE, first_screen

        tables: str = import_module("kvplan.report.table").details(plans[0]) if detail else MORE
        return f"{first_screen(plans[0])}\n\n{tables}"
    text: str | bytes = import_module(f"kvplan.report.{FORMATS[fmt]}").plans_text(plans, fmt)
    return text


class Answer(Protocol):
    """What `render_answers` prints."""

    def as_dict(self) -> dict[str, Any]: ...


A = TypeVar("A", bound=Answer)


def render_answers(
    found: Sequence[A],
    fmt: str,
    flat: Callable[[A], Iterable[dict[str, Any]]],
    one: Callable[[A, str], str],
    page: Callable[[Sequence[A]], str] | None = None,
) -> str | bytes:
    """Answers in a format: structured ones print an object for one and an array for several.

    flat  an answer's rows of plain values; one: an answer as text; page: all of them as HTML, where that is not their texts
    """
    if fmt in ("json", "yaml"):
        objects = [answer.as_dict() for answer in found]
        dumped: str = import_module("kvplan.report.structured").dump(objects[0] if len(objects) == 1 else objects, fmt)
        return dumped
    if fmt in ("csv", "jsonl", "parquet"):
        return render_data([row for answer in found for row in flat(answer)], fmt)
    if fmt == "html" and page is not None:
        return page(found)
    return "\n\n".join(one(answer, fmt) for answer in found)


def plain_text(plan: Plan) -> str:
    """One plan's first screen without a terminal: what `print(plan)` shows."""
    from kvplan.report.first import first_screen
    from kvplan.report.screen import Screen

    return first_screen(plan, Screen())


def render_rows(rows: Sequence[dict[str, Any]], fmt: str) -> str:
    """Rows of equal keys in a format that is text."""
    return str(render_data(rows, fmt))


def render_data(rows: Sequence[dict[str, Any]], fmt: str) -> str | bytes:
    """Rows of equal keys in any format. Parquet is bytes."""
    data: str | bytes = import_module(f"kvplan.report.{FORMATS[fmt]}").rows_text(rows, fmt)
    return data
