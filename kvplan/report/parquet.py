"""Parquet: rows as one table, columns typed by what is in them. Needs pyarrow."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from kvplan.extras import missing
from kvplan.planner.plan import Plan
from kvplan.report.flat import flat

_PLAIN = (bool, int, float, str)
_MOST = 1 << 63


def plans_text(plans: Sequence[Plan], fmt: str) -> bytes:
    """A row for each plan, as in CSV."""
    return rows_text([flat(plan) for plan in plans], fmt)


def rows_text(rows: Sequence[dict[str, Any]], fmt: str) -> bytes:
    """A file of the rows. A column of several types is text; what is neither a number nor text is JSON."""
    pyarrow, parquet = import_pyarrow()
    names = list(rows[0]) if rows else []
    table = pyarrow.table({name: _column([row[name] for row in rows]) for name in names})
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


def import_pyarrow() -> tuple[Any, Any]:
    """pyarrow and its parquet module. Raises KvplanError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing("parquet needs pyarrow", "sweep", "write csv") from None
    return pyarrow, pyarrow.parquet


def _column(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    alike = kinds <= {int, float} or len(kinds) == 1
    fits = all(abs(value) < _MOST for value in values if type(value) is int)
    if alike and fits and kinds <= set(_PLAIN):
        return [None if value is None else float(value) for value in values] if float in kinds else values
    return [value if value is None or isinstance(value, str) else json.dumps(value, default=str) for value in values]
