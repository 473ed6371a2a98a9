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
from kvplan.cli.groups import Grouped
from kvplan.cli.options import MODEL, chosen, put, question_options
from kvplan.deployment import NAMES
from kvplan.errors import SpecError, UnknownName
from kvplan.report import FORMATS, render_data, sweep_files

#: Formats that are written as points come; the others hold all of them at once.
STREAMED = ("csv", "jsonl", "parquet")
MOST_ROWS = 10_000
MOST_VALUES = 1_000_000  # of one axis: each is read and kept


@click.command(cls=Grouped)
@MODEL
@click.option(
    "--grid",
    "grids",
    multiple=True,
    metavar="NAME=VALUES",
    help="An axis: context=8k:1m:x2, tp=1,2,4,8; repeatable. Several values of an option are one too.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write there; by default to standard output.")
@click.option("--format", "fmt", type=click.Choice([*FORMATS]), help="By default what --out ends in, else csv.")
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
    """Grids over any names of a question, a row a point, streamed to CSV, JSON lines or Parquet; other formats for small ones.

    Context and batch are evaluated on arrays, millions of points a second, by ideal, and by vllm with --max-model-len; without it vLLM's
    settings follow the context, and batch alone is. Other engines answer point by point. Points that can not be
    asked, or that the engine stops at, say why (error).
    """
    named = [_axis(text) for text in grids]
    twice = sorted({name for name, _ in named if [n for n, _ in named].count(name) > 1})
    if twice:
        raise SpecError("grid", [(name, "named twice; write its values with commas") for name in twice])
    asked = chosen(options)
    axes = dict(named) | {name: values for name, text in asked.items() if name not in dict(named) and (values := _several(name, text))}
    asked = {name: value for name, value in asked.items() if name in dict(named) or name not in axes}
    fmt = fmt or {".jsonl": "jsonl", ".parquet": "parquet"}.get(out.suffix if out else "", "csv")
    question = json.dumps({"model": model, "question": asked, "grid": axes}, sort_keys=True, default=str)
    job = api.sweep(model, axes, **asked)
    if fmt not in STREAMED:
        if out is not None or resume:
            raise SpecError("format", [("", f"a file is {', '.join(STREAMED)}; leave --out out for {fmt}")])
        if job.over.size > MOST_ROWS:
            raise SpecError("format", [("", f"{job.over.size:,} points are too many for {fmt}; at most {MOST_ROWS:,}, or csv")])
        put(render_data(_rows(api.sweep_ranges(job, rows, scheduler=scheduler, workers=workers)), fmt))
        return 0
    if out is None:
        if fmt == "parquet" or resume:
            raise SpecError("out", [("", "parquet and --resume need a file; name one with --out")])
        for i, (_, columns) in enumerate(api.sweep_ranges(job, rows, scheduler=scheduler, workers=workers)):
            put(sweep_files.text(columns, fmt, header=i == 0))
        return 0
    found = sweep_files.done(out, fmt, question, job.over.size)
    start = found or 0
    if found is not None and not resume:
        raise SpecError(str(out), [("", f"holds {start:,} points of this sweep; add --resume to go on, or name another file")])
    try:
        written = sweep_files.append(out, fmt, question, job.over.size, start, api.sweep_ranges(job, rows, start, scheduler, workers))
        for _ in _progress(written, job.over.size, start):
            pass
    except OSError as error:
        raise SpecError(str(out), [("", f"can not be written: {error.strerror or error}")]) from None
    return 0


def _rows(ranges: Iterator[tuple[int, Any]]) -> list[dict[str, Any]]:
    """Every point as a row, without the column of errors where there is none."""
    rows = [
        dict(zip(columns, row, strict=True))
        for _, columns in ranges
        for row in zip(*(values.tolist() for values in columns.values()), strict=True)
    ]
    return rows if any(row["error"] for row in rows) else [{k: v for k, v in row.items() if k != "error"} for row in rows]


def _several(name: str, value: Any) -> list[Any]:
    """The values of an option that names several (--context 8k,16k), which make an axis as --grid does; else none."""
    many = isinstance(value, str) and name in NAMES and NAMES[name].kind != "options"
    values = expand(name, value, most=MOST_VALUES) if many else []
    return values if len(values) > 1 else []


def _axis(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    name = name.replace("-", "_")
    if not equals:
        raise SpecError("grid", [("", f"{text[:60]!r}: write NAME=VALUES such as context=8k:1m:x2")])
    if name not in NAMES:
        raise UnknownName("name of a question", name, list(NAMES))
    return name, expand(name, values, most=MOST_VALUES)


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
