"""The command that evaluates grids."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from kvplan import api
from kvplan.cli.grid import expand
from kvplan.cli.options import MODEL, chosen, question_options
from kvplan.deployment import NAMES
from kvplan.errors import SpecError, UnknownName
from kvplan.report import sweep_files


@click.command()
@MODEL
@click.option("--grid", "grids", multiple=True, metavar="NAME=VALUES", help="An axis: context=8k:1m:x2, tp=1,2,4,8; repeatable.")
@click.option("--out", type=click.Path(path_type=Path), help="Write there; by default to standard output.")
@click.option("--format", "fmt", type=click.Choice(["csv", "jsonl", "parquet"]), help="By default what --out ends in, else csv.")
@click.option("--resume", is_flag=True, help="Go on where an interrupted sweep of the same question stopped.")
@click.option(
    "--rows", type=click.IntRange(1, 10_000_000), default=100_000, show_default=True, help="Points evaluated and written at once."
)
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler (tcp://host:port), or `local` for a cluster of processes here.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes of a local cluster.")
@question_options
def sweep(
    model: str,
    grids: tuple[str, ...],
    out: Path | None,
    fmt: str | None,
    resume: bool,
    rows: int,
    scheduler: str | None,
    workers: int | None,
    **options: Any,
) -> int:
    """Grids over any names of a question, a row a point, streamed to CSV, JSON lines or Parquet.

    Context and batch are evaluated on arrays where the engine allows (ideal): millions of points a second.
    """
    axes = dict(_axis(text) for text in grids)
    fmt = fmt or {".jsonl": "jsonl", ".parquet": "parquet"}.get(out.suffix if out else "", "csv")
    question = json.dumps({"model": model, "question": chosen(options), "grid": axes}, sort_keys=True, default=str)
    job = api.sweep(model, axes, **chosen(options))
    if out is None:
        if fmt == "parquet" or resume:
            raise SpecError("out", [("", "parquet and --resume need a file; name one with --out")])
        for i, (_, columns) in enumerate(api.sweep_ranges(job, rows, scheduler=scheduler, workers=workers)):
            click.echo(sweep_files.text(columns, fmt, header=i == 0), nl=False)
        return 0
    start = sweep_files.done(out, fmt, question)
    if start and not resume:
        raise SpecError(str(out), [("", f"holds {start:,} points of this sweep; add --resume to go on, or name another file")])
    for _ in _progress(
        sweep_files.append(out, fmt, question, start, api.sweep_ranges(job, rows, start, scheduler, workers)), job.over.size, start
    ):
        pass
    return 0


def _axis(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    name = name.replace("-", "_")
    if not equals:
        raise SpecError("grid", [("", f"{text[:60]!r}: write NAME=VALUES such as context=8k:1m:x2")])
    if name not in NAMES:
        raise UnknownName("name of a question", name, list(NAMES))
    return name, expand(name, values, most=100_000_000)


def _progress(points: Iterator[int], size: int, start: int) -> Iterator[int]:
    terminal = sys.stderr
    if not terminal.isatty():
        yield from points
        return
    with click.progressbar(length=size, label=f"{size:,} points", file=terminal) as bar:
        bar.update(start)
        before = start
        for now in points:
            bar.update(now - before)
            before = now
            yield now
