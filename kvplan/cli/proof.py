"""The commands that hold predictions against the world: validate (real allocations), reconcile (start-up logs), doctor (this machine)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kvplan import api
from kvplan.cli.options import Named, chosen, question_options
from kvplan.errors import SpecError
from kvplan.planner.plan import plain
from kvplan.report import render_rows
from kvplan.report.structured import dump
from kvplan.units import parse_bytes

FORMAT = click.option("--format", "fmt", type=click.Choice(["table", "json", "csv", "markdown"]), default="table", show_default=True)


@click.command()
@click.argument("model", type=Named("model"), required=False)
@click.option("--all-kinds", is_flag=True, help="Every layer kind, layout and storage format, instead of a MODEL.")
@click.option("--speed", is_flag=True, help="Decode steps with and without a cache as the length grows, instead of a MODEL.")
@click.option("--on", "where", default="cpu", show_default=True, help="Where to allocate: cpu, cuda, cuda:1.")
@click.option("--layout", type=click.Choice(["contiguous", "growing"]), default="contiguous", show_default=True)
@click.option("--size", default="256MiB", show_default=True, help="Bytes of each case of --all-kinds.")
@click.option("--limit", metavar="SIZE", help="Allocate fewer layers of each kind where the plan takes more; the receipt says so.")
@click.option("--force", is_flag=True, help="Try even what the plan says can not fit.")
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False), help="Keep the receipt in this JSON file.")
@question_options
@FORMAT
def validate(
    model: str | None,
    all_kinds: bool,
    speed: bool,
    where: str,
    layout: str,
    size: str,
    limit: str | None,
    force: bool,
    record: Path | None,
    fmt: str,
    **options: Any,
) -> int:
    """Allocate the caches that MODEL's plan names, write to them, measure, and compare with the plan line by line.

    With --engine transformers and a config.json as MODEL, the real model is built with random weights and run. Needs the `gpu` extra
    (torch). Exit code 1 where anything differs.
    """
    if (model is not None) + all_kinds + speed != 1:
        raise SpecError("validate", [("", "name a MODEL, or --all-kinds, or --speed")])
    what: dict[str, Any] = {"on": where, "limit": None if limit is None else parse_bytes(limit, "limit")}
    if model is not None:
        found = api.validate(model, layout=layout, force=force, **what, **chosen(options))
    elif all_kinds:
        found = api.validate_all_kinds(on=where, size=parse_bytes(size, "size"))
    else:
        found = api.validate_speed(on=where)
    if record:
        api.keep_receipt(found, record)
    click.echo(_receipt(found, fmt))
    return int(any(case.status not in ("equal", "measured") for case in found.cases))


def _receipt(found: Any, fmt: str) -> str:
    from kvplan.validate.run import table

    if fmt == "json":
        return dump(plain(found), fmt)
    if found.speed:
        lines = [render_rows(found.speed["points"], fmt)]
        lines += [f"{name}: {value}" for name, value in found.speed.items() if name != "points"]
        return "\n".join(lines)
    return render_rows(table(found), fmt)


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--model", "model", type=Named("model"), help="The model, where the log does not name one of the catalogue.")
@click.option("--record", is_flag=True, help="Keep the measured lines in the user's calibration file, for --calibration user.")
@question_options
@FORMAT
def reconcile(log: Path, model: str | None, record: bool, fmt: str, **options: Any) -> int:
    """Predicted beside logged: reads an engine's start-up LOG, works out the question, and compares line by line.

    Options given here come before what the log says. Exit code 1 where a line is outside its interval.
    """
    found = api.reconcile(log, model=model, record=record, **chosen(options))
    if fmt == "json":
        click.echo(dump(plain(found.as_dict()), fmt))
        return int(not found.agrees)
    rows = [
        {
            "line": f"{line.name} ({line.unit})",
            "predicted": _figure(line.predicted, line.unit),
            "90 % of cases": "" if line.low == line.high else f"{_figure(line.low, line.unit)} to {_figure(line.high, line.unit)}",
            "logged": _figure(line.logged, line.unit),
            "of device": "" if line.of_device is None else f"{line.of_device:+.2%}",
            "verdict": line.verdict,
            "usual cause": line.cause or "",
        }
        for line in found.lines
    ]
    if rows:
        click.echo(render_rows(rows, fmt))
    click.echo(f"\n{found.model}, {found.engine} {found.version or ''}: {found.summary}" if fmt == "table" else "", nl=fmt == "table")
    return int(not found.agrees)


def _figure(value: float, unit: str) -> str:
    return f"{value:,.2f}" if unit == "x" else f"{value:,.0f}"


@click.command()
@FORMAT
def doctor(fmt: str) -> int:
    """What kvplan finds here: its version, extras, catalogue, the user's calibration file, and GPUs."""
    click.echo(render_rows(api.doctor(), fmt))
    return 0
