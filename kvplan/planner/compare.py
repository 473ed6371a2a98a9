"""Plans side by side: one row per figure, a value per plan, what differs first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvplan.deployment import NAMES
from kvplan.planner.plan import Plan


class Row(NamedTuple):
    """One figure of every plan. `ratios`: each value over the first, where both are numbers; `differs`: not all values are equal."""

    name: str
    unit: str
    values: tuple[Any, ...]
    ratios: tuple[float | None, ...]
    differs: bool


_FIGURES: tuple[tuple[str, str, Callable[[Plan], Any]], ...] = (
    ("fits", "", lambda plan: plan.fits),
    ("starts", "", lambda plan: plan.starts),
    ("margin", "B", lambda plan: plan.margin_bytes),
    ("parameters", "", lambda plan: plan.model.parameters),
    ("active parameters", "", lambda plan: plan.model.active_parameters),
    ("weights", "B", lambda plan: plan.model.weight_bytes),
    ("cache of all sequences", "B", lambda plan: plan.cache.total_bytes),
    ("cache of a sequence", "B", lambda plan: plan.cache.bytes_per_sequence),
    ("cache of one more token", "B", lambda plan: plan.cache.bytes_per_token),
    ("fullest rank", "B", lambda plan: max(ledger.total_bytes for ledger in plan.ledgers)),
    ("cache memory of a rank", "B", lambda plan: plan.capacity and plan.capacity.kv_bytes),
    ("tokens held", "", lambda plan: plan.capacity and plan.capacity.tokens),
    ("sequences held at the context", "", lambda plan: plan.capacity and plan.capacity.max_concurrency),
    ("largest context", "tokens", lambda plan: plan.capacity and plan.capacity.max_context),
)


def compare(plans: Sequence[Plan]) -> tuple[Row, ...]:
    """The question's names and the main figures of at least one plan, rows that differ first, each in its usual order."""
    rows = [_row(name, "", [_answer(plan, name) for plan in plans]) for name in ("model", *NAMES)]
    rows += [_row(name, unit, [figure(plan) for plan in plans]) for name, unit, figure in _FIGURES]
    return tuple(sorted(rows, key=lambda row: not row.differs))


def _answer(plan: Plan, name: str) -> Any:
    value = plan.question[name][0]
    return ", ".join(f"{k}={v}" for k, v in value.items()) or None if isinstance(value, dict) else value


def _row(name: str, unit: str, values: list[Any]) -> Row:
    base = values[0]
    ratios = tuple(v / base if _is_number(v) and _is_number(base) and base else None for v in values)
    return Row(name, unit, tuple(values), ratios, any(v != base for v in values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
