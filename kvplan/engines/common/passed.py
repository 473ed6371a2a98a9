"""Options of an engine that no line of a plan follows: those of its table that move memory, each with its direction, and all others.

A plan is given without them; it says so, and is no surer than they let it be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.common.arguments import Argument, Arguments, Effect, is_flag, lacks
from kvplan.engines.common.kinds import KINDS, truth
from kvplan.engines.common.lines import least_sure
from kvplan.engines.common.protocol import Certainty, Outcome
from kvplan.engines.common.words import Given
from kvplan.errors import SpecError

_MEANS: dict[Effect, str] = {"more": "takes more memory", "less": "takes less memory on the device", "either": "changes memory"}
#: The answers that an option could turn, by its direction, and how sure they are at most.
_TURNED: dict[Effect, tuple[tuple[bool, ...], Certainty]] = {
    "more": ((True,), "too close to call"),
    "less": ((False,), "too close to call"),
    "either": ((True, False), "likely"),
}

#: How a note begins of what changes memory and has no line.
NOT_COMPUTED = "not computed: "

#: What a command line says of where it runs and what it loads: a question has names of its own for that.
ELSEWHERE = frozenset({
    "@config", "@model", "@path", "@hub", "@hub_file", "@elsewhere", "@router", "@rpc",
    "@device", "@nodes", "@rank", "@headless", "@local_dp",
})  # fmt: skip


class Passed(NamedTuple):
    """An option that was asked for and is not modelled. `spelled`: as the engine takes it; effect empty: no memory hangs on it."""

    key: str
    value: str
    spelled: str
    effect: Effect

    @property
    def reason(self) -> str:
        means = f"{_MEANS[self.effect]} in a way that is not modelled" if self.effect else "is taken to move no memory"
        return f"{self.spelled} {means}"


def find(table: Arguments, key: str, value: str, version: str | None) -> tuple[Passed, ...]:
    """The option of that name (`moe_backend`, or a variable's: `flashinfer_workspace_buffer_size`), where a plan takes it as it is.

    Once for each direction that the table gives it.

    Raises SpecError where this release does not have it.
    """
    rows = named(table, key)
    if not rows:
        return _variable(table, key, value)
    had = of_release(table, key, rows, version)
    effects = {effect for row in had for effect in _effects(table, row, key, value)}
    own = [name for name in rows[0].names if is_flag(name, key)]
    spelled = next(name for name in (*own, *rows[0].names, rows[0].key, *rows[0].variables) if name)
    return tuple(Passed(key, value, spelled, effect) for effect in sorted(effects))


def _effects(table: Arguments, row: Argument, key: str, value: str) -> set[Effect]:
    """How a value moves memory that is not modelled: as its row has it, or as the engine's own reading of it says."""
    if _is_off(row, key, value):
        return {""}
    if row.effect or row.to[:1] != "@" or row.takes != "one":
        return {row.effect}
    said = table.finish({row.to: Given(KINDS[row.kind].read(value), key)}, ()).findings
    return {effect for effect in _MEANS if any(finding.rule == f"not-modelled-{effect}" for finding in said)} or {""}


def of_release(table: Arguments, key: str, rows: Sequence[Argument], version: str | None) -> list[Argument]:
    """The rows of an option that a release may have. Raises SpecError where it has none of them."""
    had = [row for row in rows if not lacks(table, row, version)]
    if rows and not had:
        spans = " and ".join(_span(row) for row in rows)
        name = next((one for row in rows for one in (*row.names, *row.variables)), key)
        which = f"{table.name} {version}" if version else f"the newest {table.name}"
        raise SpecError("engine_option", [(key, f"{which} has no {name}: it is there {spans}")])
    return had


def followed(table: Arguments, key: str) -> list[Argument]:
    """The flags of an option that a plan follows; none where a variable sets it too, of which no table says since when it is there, or
    where more options make it together."""
    rows = [row for row in table.rows if row.to == f"option:{key}" and (row.names or row.variables)]
    return [] if any(row.variables for row in rows) else rows


def named(table: Arguments, key: str) -> list[Argument]:
    """The rows of that name which no name of a question stands for."""
    rows = [row for row in table.rows if any(is_flag(name, key) for name in row.names)] or by_key(table, key)
    rows = rows or [row for row in table.rows if set(variables(table, key)) & set(row.variables)]
    return [row for row in rows if row.to[:1] in ("", "!", "@") and row.to not in ELSEWHERE]


def by_key(table: Arguments, key: str) -> list[Argument]:
    """The rows of a configuration file's key, said with its path or without."""
    return [row for row in table.rows if row.key and f".{row.key}".endswith(f".{key}")]


def _is_off(row: Argument, key: str, value: str) -> bool:
    """Whether a switch is off. Raises SpecError for a value that the option does not take."""
    try:
        if row.takes in ("flag", "switch"):
            return not truth(value)
        if row.takes not in ("many", "maybe"):
            KINDS[row.kind].read(value)
    except ValueError as error:
        raise SpecError("engine_option", [(key, str(error))]) from None
    return False


def _variable(table: Arguments, key: str, value: str) -> tuple[Passed, ...]:
    name = variable(table, key)
    return (Passed(key, value, name, "either" if name in table.loud_variables else ""),) if name else ()


def variable(table: Arguments, key: str) -> str:
    """The environment variable of that name, without the engine's prefix or with it; empty: it has none."""
    return next((name for name in variables(table, key) if name in table.loud_variables or name in table.quiet_variables), "")


def variables(table: Arguments, key: str) -> tuple[str, ...]:
    """How a variable of that name may be spelled."""
    return key.upper(), *(f"{prefix}{key.upper()}" for prefix in table.prefix)


def _span(row: Argument) -> str:
    since, until = f"from {row.since} on" if row.since else "", f"up to {row.until}" if row.until else ""
    return " ".join(part for part in (since, until) if part)


def notes(passed: tuple[Passed, ...]) -> tuple[str, ...]:
    """What is said of each: how sure the answer is at most, or that nothing hangs on it."""
    return tuple(f"{NOT_COMPUTED}{one.reason}" if one.effect else one.reason for one in passed)


def capped(outcome: Outcome, passed: tuple[Passed, ...]) -> Outcome:
    """The outcome no surer than the options allow that could turn it."""
    for effect in dict.fromkeys(one.effect for one in passed if one.effect):
        turned, most = _TURNED[effect]
        if outcome.starts in turned:
            outcome = outcome._replace(start_certainty=least_sure(outcome.start_certainty or outcome.certainty, most))
        if outcome.fits in turned:
            outcome = outcome._replace(certainty=least_sure(outcome.certainty, most))
    return outcome
