"""What start-up logs say, as text: predicted beside logged, and the constants of one's own machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.planner.plan import plain
from kvplan.report import STRUCTURED, render_data
from kvplan.report.printable import one_line
from kvplan.report.structured import dump
from kvplan.units import MIB, show_bytes

if TYPE_CHECKING:
    from kvplan.startup_logs import Calibration, Reconciliation
    from kvplan.startup_logs.reconcile import Line


def reconciliation(found: Reconciliation, fmt: str) -> str | bytes:
    """A log beside its plan, line by line."""
    if fmt in STRUCTURED:
        return dump(plain(found.as_dict()), fmt)
    rows = [_line(line, fmt) for line in found.lines]
    heading = f"{one_line(found.model)}, {found.engine} {found.question['engine_version'] or ''}: {one_line(found.summary)}"
    if fmt == "html":
        from kvplan.report import html

        sections = {"Notes": html.listed(found.notes), "Not compared": html.listed(found.not_compared)}
        return html.report(heading, rows, sections | {"The question": html.facts(found.question)})
    if fmt != "table":
        return render_data(rows, fmt)
    table = [str(render_data(rows, fmt))] if rows else []
    causes = [f"{line.name}: usual cause: {line.cause}" for line in found.lines if line.cause]
    notes = [f"note: {one_line(note)}" for note in found.notes] + [f"not compared: {one_line(text)}" for text in found.not_compared]
    return "\n".join((heading, "", *table, *([""] if table and causes + notes else []), *causes, *notes)).rstrip("\n")


def _line(line: Line, fmt: str) -> dict[str, Any]:
    span = "" if line.low == line.high else f"{_figure(line.low, line.unit, fmt)} to {_figure(line.high, line.unit, fmt)}"
    row = {
        "line": line.name if fmt == "table" else f"{line.name} ({line.unit})",
        "predicted": _figure(line.predicted, line.unit, fmt),
        "90 % of cases": span,
        "logged": _figure(line.logged, line.unit, fmt),
        "of device": "" if line.of_device is None else f"{line.of_device:+.2%}",
        "verdict": line.verdict,
    }
    return row if fmt == "table" else row | {"usual cause": line.cause or ""}


def _figure(value: float, unit: str, fmt: str) -> str:
    if fmt == "table" and unit == "bytes":
        return show_bytes(int(value))
    return f"{value:,.2f}x" if unit == "x" else f"{value:,.0f}"


def calibration(found: Calibration, fmt: str) -> str | bytes:
    """Constants of one's own logs beside the published ones; for people the logged lines with both, and what was written."""
    if fmt in STRUCTURED:
        return dump(plain(found.as_dict()), fmt)
    constants = [
        {
            "engine": row.engine,
            "device": row.device,
            "constant": row.name,
            "from release": row.since,
            "published": _constant(row.published, fmt),
            "yours": _constant(row.value, fmt),
            "90 % of cases": f"{_constant(row.low, fmt)} to {_constant(row.high, fmt)}",
            "lines": row.cases,
            "note": row.note or "",
        }
        for row in found.constants
    ]
    if fmt not in ("table", "markdown"):
        return render_data(constants, fmt)
    lines = [
        {
            "log": row.source,
            "line": row.line,
            "logged": show_bytes(row.logged),
            "published constants": show_bytes(row.published),
            "with yours": show_bytes(row.fitted),
            "with the other logs'": "" if row.left_out is None else show_bytes(row.left_out),
        }
        for row in found.residuals
    ]
    parts = [str(render_data(rows, fmt)) for rows in (constants, lines) if rows]
    what = f"{len(found.records)} starts, {len(found.constants)} constants"
    written = f"written to {found.path}: {what}" if found.recorded else f"{what}; nothing written (--record writes {found.path})"
    return "\n\n".join([*parts, *([written] if fmt == "table" else [])])


def _constant(value: float, fmt: str) -> str:
    """A constant for people: one that counts bytes as a size, one that multiplies shapes as it is."""
    return show_bytes(int(value)) if fmt == "table" and value >= MIB else f"{value:,.6g}"
