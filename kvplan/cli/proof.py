"""The commands that hold predictions against the world: validate (real allocations), reconcile and calibrate
(start-up logs), doctor (this machine)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kvplan import api
from kvplan.cli.groups import Grouped
from kvplan.cli.options import FORMAT, HUB, Named, chosen, put, question_options, tell
from kvplan.errors import SpecError
from kvplan.planner.plan import plain
from kvplan.report import STRUCTURED, render_data
from kvplan.report import logs as logs_report
from kvplan.report.structured import dump
from kvplan.units import parse_bytes

MOST_SKIPPED = 20  # logs not used that are listed


@click.command(cls=Grouped)
@click.argument("names", metavar="[MODEL]", type=Named("model"), nargs=-1)
@click.option("--all-kinds", is_flag=True, help="Every layer kind, layout and storage format, instead of a MODEL.")
@click.option("--speed", is_flag=True, help="Decode steps with and without a cache as the length grows, instead of a MODEL.")
@click.option("--on", "where", default="cpu", show_default=True, help="Where to allocate: cpu, cuda, cuda:1.")
@click.option("--layout", type=click.Choice(["contiguous", "growing"]), default="contiguous", show_default=True,
              help="Each cache allocated whole, or grown by concatenation.")  # fmt: skip
@click.option("--size", default="256MiB", show_default=True, help="Bytes of each case of --all-kinds.")
@click.option("--limit", metavar="SIZE", help="Allocate fewer layers of each kind where the plan takes more; the receipt says so.")
@click.option("--force", is_flag=True, help="Try even what the plan says can not fit.")
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the receipt in this JSON file. On a GPU, what its context and libraries took also goes into the user's calibration file, "
    "as a line that --calibration user adds to later estimates of that device.",
)
@click.option("--check", "checks", is_flag=True, help="Check receipts again instead: name their files. Allocates nothing, needs no torch.")
@question_options
@FORMAT
def validate(
    names: tuple[str, ...],
    all_kinds: bool,
    speed: bool,
    where: str,
    layout: str,
    size: str,
    limit: str | None,
    force: bool,
    record: Path | None,
    checks: bool,
    fmt: str,
    **options: Any,
) -> int:
    """Allocate the caches that MODEL's plan names, write to them, measure, and compare with the plan line by line.

    With --engine transformers and a config.json as MODEL, the real model is built with random weights and run. Needs the `gpu` extra
    (torch). Exit code 1 where anything differs.
    """
    if not checks and len(names) + all_kinds + speed != 1:
        raise SpecError("validate", [("", "name one MODEL, or --all-kinds, or --speed; with --check, receipts")])
    mode = "--check" if checks else "--all-kinds" if all_kinds else "--speed" if speed else "a MODEL"
    _belong(mode)
    if checks:
        return _check(names, fmt)
    model = names[0] if names else None
    what: dict[str, Any] = {"on": where, "limit": None if limit is None else parse_bytes(limit, "limit")}
    if model is not None:
        found = api.validate(model, layout=layout, force=force, **what, **chosen(options))
    elif all_kinds:
        found = api.validate_all_kinds(on=where, size=parse_bytes(size, "size"))
    else:
        found = api.validate_speed(on=where)
    if record:
        api.keep_receipt(found, record)
        kept = api.keep_overheads(found)
        if kept:
            tell(f"context and libraries of {found.machine['name']} kept in {kept}; --calibration user adds them")
    put(_receipt(found, fmt))
    return int(any(case.status not in ("equal", "measured") for case in found.cases))


#: What validate does -> the options that it has a use for; those of a question, and the others, are of a MODEL.
_USED = {"--check": {"names", "fmt"}, "--all-kinds": {"where", "size", "record", "fmt"}, "--speed": {"where", "record", "fmt"}}


def _belong(mode: str) -> None:
    """Raises SpecError for options that were given and would do nothing."""
    ctx = click.get_current_context()
    used = _USED.get(mode, {*ctx.params} - {"size"}) | {mode.lstrip("-").replace("-", "_"), "checks"}
    given = [param for param in ctx.command.params if ctx.get_parameter_source(str(param.name)) == ParameterSource.COMMANDLINE]
    if idle := [param.opts[0] for param in given if param.name not in used]:
        raise SpecError("validate", [("", f"{mode} has no use for {', '.join(idle)}; leave it out")])


def _check(files: tuple[str, ...], fmt: str) -> int:
    """A row for each receipt; exit code 1 where one does not hold."""
    if not files:
        raise SpecError("validate --check", [("", "name the receipts to check")])
    rows = []
    for file in files:
        faults = api.check_receipt(file)
        rows += [{"receipt": file, "holds": not faults, "fault": text} for text in faults or ("",)]
    put(render_data(rows, fmt))
    return int(not all(row["holds"] for row in rows))


def _receipt(found: Any, fmt: str) -> str | bytes:
    from kvplan.validate.run import table

    if fmt in STRUCTURED:
        return dump(plain(found), fmt)
    said = {name: value for name, value in (found.speed or {}).items() if name != "points"}
    if fmt == "html":
        html = import_module("kvplan.report.html")
        rows = found.speed["points"] if found.speed else table(found)
        machine = {**found.machine, "date": found.date, "kvplan": found.kvplan}
        heading = f"kvplan validate: {found.subject}, {found.status}"
        page: str = html.report(heading, rows, {"Found": html.facts(said), "Machine": html.facts(machine)})
        return page
    if found.speed:
        return "\n".join([str(render_data(found.speed["points"], fmt)), *(f"{name}: {value}" for name, value in said.items())])
    return render_data(table(found), fmt)


@click.command(cls=Grouped)
@click.argument("log")
@click.option("--model", "model", type=Named("model"), help="The model, where the log does not name one of the catalogue.")
@click.option("--record", is_flag=True, help="Keep the measured lines in the user's calibration file, for --calibration user.")
@HUB
@question_options
@FORMAT
def reconcile(log: str, model: str | None, record: bool, hub: bool, fmt: str, **options: Any) -> int:
    """Predicted beside logged: reads an engine's start-up LOG, works out the question, and compares line by line.

    LOG is a file, or a saved page of metrics of vLLM or SGLang, or the address of a running one (http://host:8000/metrics), read once.

    Options given here come before what the log says. Exit code 1 where a line is outside its interval.
    """
    found = api.reconcile(log, model=model, record=record, hub=hub, **chosen(options))
    put(logs_report.reconciliation(found, fmt))
    return int(not found.agrees)


@click.command(cls=Grouped)
@click.argument("logs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--model", "model", type=Named("model"), help="The model of all these logs, where they do not name one of the catalogue.")
@click.option("--record", is_flag=True, help="Write starts and constants into the user's calibration file, for --calibration user.")
@HUB
@question_options
@FORMAT
def calibrate(logs: tuple[Path, ...], model: str | None, record: bool, hub: bool, fmt: str, **options: Any) -> int:
    """Measured constants from your own start-up LOGS: files, or folders of them.

    Works out the question of every start, solves each logged line for the constant that moves it most, and shows what your machines say
    beside what is published. Nothing is written without --record. Options given here fill in what a log does not say.
    """
    found = api.calibrate(logs, model=model, record=record, hub=hub, **chosen(options))
    skipped = () if fmt in STRUCTURED else found.skipped
    for log, why in skipped[:MOST_SKIPPED]:
        tell(f"not used: {log}: {why}")
    if len(skipped) > MOST_SKIPPED:
        tell(f"not used: {len(skipped) - MOST_SKIPPED} more (--format json lists them)")
    put(logs_report.calibration(found, fmt))
    return 0


@click.command()
@FORMAT
def doctor(fmt: str) -> int:
    """What kvplan finds here: its version, extras, catalogue, the user's calibration file, and GPUs."""
    put(render_data(api.doctor(), fmt))
    return 0
