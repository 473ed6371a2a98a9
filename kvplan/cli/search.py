"""The commands that search over estimates: fit and compare."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from kvplan import api
from kvplan.api.found import is_path
from kvplan.cli import apart
from kvplan.cli.grid import expand, questions
from kvplan.cli.groups import Grouped
from kvplan.cli.options import FORMAT, MODEL, Named, chosen, put, question_options
from kvplan.devices import Device
from kvplan.errors import SpecError
from kvplan.planner.speed import RANKINGS
from kvplan.report import apart as apart_report
from kvplan.report import searches
from kvplan.report.printable import one_line

RANK_BY = click.option("--rank-by", type=click.Choice([name.replace("_", "-") for name in RANKINGS]), help="What the best is best by.")
PRICE = click.option("--price", "prices", multiple=True, metavar="DEVICE=PRICE", help="Price of one device (per hour); repeatable.")


@click.command(cls=Grouped)
@MODEL
@click.option("--devices", metavar="A,B,...", help="Candidates; by default every packaged device.")
@PRICE
@RANK_BY
@click.option("--most", type=click.IntRange(1, 4096), default=16, show_default=True, help="Try up to this many of one device.")
@click.option("--every-layout", is_flag=True, help="Any number of devices in any layout; else powers of two, tp within a machine first.")
@click.option("--all", "everything", is_flag=True, help="Show the devices that do not carry it too, and why.")
@apart.options
@question_options
@FORMAT
def fit(
    model: str,
    devices: str | None,
    prices: tuple[str, ...],
    rank_by: str | None,
    most: int,
    every_layout: bool,
    everything: bool,
    fmt: str,
    **options: Any,
) -> int:
    """Which hardware carries MODEL at this context and batch: the fewest of each device, ranked.

    Ranked by price where given, else by memory bought; or --rank-by tokens-per-second, first-token or cost-per-token (prices per hour):
    bounds from bytes and operations, as `kvplan roofline` says. What is too close to call comes last. Parallel sizes that you choose are
    kept.

    With --disaggregate, workers that prefill and workers that decode: the tp and the number of each among up to --most GPUs, or the fewest
    GPUs for --rate. `kvplan fit MODEL --disaggregate --devices h100,h200 --context 8k --output 500`.
    """
    question = chosen(options)
    apart_asked = {name: question.pop(name) for name in apart.NAMES if name in question}
    several = [name for name, value in question.items() if name != "device" and isinstance(value, str) and len(expand(name, value)) > 1]
    if several:
        raise SpecError("question", [(name, "one value at a time; fit answers one question") for name in several])
    names = devices.split(",") if devices is not None else None
    if apart.wanted(apart_asked, every_layout):
        with _watched() as watch:
            split = api.disaggregate(
                model, devices=names, prices=_prices(prices), most=most, rank_by=rank_by, watch=watch, **apart_asked, **question
            )
        put(apart_report.render(model, split, question | apart_asked, fmt, everything=everything or names is not None))
        return int(not any(row.split for row in split))
    with _watched() as watch:
        found = api.fit(
            model, devices=names, prices=_prices(prices), most=most, rank_by=rank_by, every_layout=every_layout, watch=watch, **question
        )
    shown = [c for c in found if c.plan is not None or everything or names]
    put(searches.fits(model, shown, question, rank_by, fmt))
    return int(not any(c.plan for c in found))


#: fit looks for it: refused with what to write instead, and not shown.
next(param for param in fit.params if isinstance(param, click.Option) and param.name == "device").hidden = True


@contextmanager
def _watched() -> Iterator[Callable[[int, int, Device], None] | None]:
    """On a terminal a line that says how far a search is, gone after it; None elsewhere."""

    def told(i: int, n: int, device: Device) -> None:
        sys.stderr.write(f"\r{i + 1:,} of {n:,} devices: {one_line(device.id)}\x1b[K")
        sys.stderr.flush()

    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    try:
        yield told
    finally:
        sys.stderr.write("\r\x1b[K")


def _prices(texts: tuple[str, ...]) -> dict[str, float]:
    return dict(_price(text) for text in texts)


def _price(text: str) -> tuple[str, float]:
    name, _, price = text.partition("=")
    try:
        return name, float(price)
    except ValueError:
        raise SpecError("price", [("", f"{text[:60]!r}: write DEVICE=PRICE such as h100-80gb=2.5")]) from None


@click.command(cls=Grouped)
@click.argument("models", nargs=-1, required=True, type=Named("model"))
@PRICE
@RANK_BY
@question_options
@click.option("--all", "everything", is_flag=True, help="Show the rows that are equal too.")
@FORMAT
def compare(models: tuple[str, ...], prices: tuple[str, ...], rank_by: str | None, everything: bool, fmt: str, **options: Any) -> int:
    """Several MODELS, or several values of an option, side by side; what differs first.

    `kvplan compare A B --context 32k`, `kvplan compare A --kv-dtype bf16,fp8 --tp 4,8`. A model may also be a deployment file: YAML with
    `model` and the names of the options. With --rank-by the best comes first; speeds are bounds, as `kvplan roofline` says.
    Exit code 1 where none of them fits.
    """
    named = [one.strip() for model in models for one in (model.split(",") if not is_path(model) else [model]) if one.strip()]
    asked = [{**api.question(model), **question} for model in named for question in questions(chosen(options))]
    if len(asked) == 1:
        raise SpecError("compare", [("", "one question has nothing beside it; name a second model, or several values: --device h100,l4")])
    found = api.compare(*asked, rank_by=rank_by, prices=_prices(prices))
    put(searches.side_by_side(found, asked, rank_by, fmt, everything=everything))
    return int(next((all(fits is False for fits in row.values) for row in found if row.name == "fits"), False))


@click.command(cls=Grouped)
@MODEL
@question_options
@FORMAT
def roofline(model: str, fmt: str, **options: Any) -> int:
    """How fast MODEL can decode and read a prompt on a device, at most: bounds from bytes and operations, a row per combination."""
    rows = [question | api.roofline(model, **question).as_dict() for question in questions(chosen(options))]
    put(searches.bounds(rows, fmt))
    return 0
