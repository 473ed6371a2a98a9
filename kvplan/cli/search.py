"""The commands that search over estimates: fit and compare."""

from __future__ import annotations

from typing import Any

import click

from kvplan import api
from kvplan.cli.grid import questions
from kvplan.cli.options import FORMAT, MODEL, Named, chosen, question_options
from kvplan.errors import SpecError
from kvplan.report import render_rows
from kvplan.units import show_bytes


@click.command()
@MODEL
@click.option("--devices", metavar="A,B,...", help="Candidates; by default every packaged device.")
@click.option("--price", "prices", multiple=True, metavar="DEVICE=PRICE", help="Price of one device, to rank by; repeatable.")
@click.option("--most", type=int, default=16, show_default=True, help="Try up to this many of one device.")
@click.option("--all", "everything", is_flag=True, help="Show the devices that do not carry it too, and why.")
@question_options
@FORMAT
def fit(model: str, devices: str | None, prices: tuple[str, ...], most: int, everything: bool, fmt: str, **options: Any) -> int:
    """Which hardware carries MODEL at this context and batch: the fewest of each device, ranked.

    Ranked by --price where given, else by memory bought. Parallel sizes that you choose are kept.
    """
    names = devices.split(",") if devices else None
    carriers = api.fit(model, devices=names, prices=dict(_price(text) for text in prices), most=most, **chosen(options))
    shown = [c for c in carriers if c.plan is not None or everything or names]
    rows = [
        {
            "device": c.device.id,
            "devices": c.n_devices,
            **{name: c.plan.question[name][0] if c.plan else None for name in ("tp", "pp", "dp")},
            "price": c.price,
            "left a rank": show_bytes(c.plan.margin_bytes or 0) if c.plan else None,
            "certainty": c.plan.certainty if c.plan else None,
            "why not": c.reason,
        }
        for c in shown
    ]
    if rows and fmt in ("table", "markdown", "html"):
        rows = [{key: value for key, value in row.items() if any(r[key] is not None for r in rows)} for row in rows]
    click.echo(render_rows(rows, fmt))
    return int(not any(c.plan for c in carriers))


def _price(text: str) -> tuple[str, float]:
    name, _, price = text.partition("=")
    try:
        return name, float(price)
    except ValueError:
        raise SpecError("price", [("", f"{text[:60]!r}: write DEVICE=PRICE such as h100-80gb=2.5")]) from None


@click.command()
@click.argument("models", nargs=-1, required=True, type=Named("model"))
@question_options
@click.option("--all", "everything", is_flag=True, help="Show the rows that are equal too.")
@FORMAT
def compare(models: tuple[str, ...], everything: bool, fmt: str, **options: Any) -> int:
    """Several MODELS, or several values of an option, side by side; what differs first.

    `kvplan compare A B --context 32k`, `kvplan compare A --kv-dtype bf16,fp8 --tp 4,8`. A model may also be a deployment file: YAML with
    `model` and the names of the options.
    """
    asked = [{**api.question(model), **question} for model in models for question in questions(chosen(options))]
    rows = [row for row in api.compare(*asked) if row.differs or everything]
    headers = [_header(i, question, asked) for i, question in enumerate(asked)]
    table = [
        {"": f"{row.name} ({row.unit})" if row.unit else row.name, **dict(zip(headers, map(_value, row.values, row.ratios), strict=True))}
        for row in rows
    ]
    click.echo(render_rows(table if fmt in ("table", "markdown", "html") else [_flat(row, headers) for row in rows], fmt))
    return 0


def _header(i: int, question: dict[str, Any], asked: list[dict[str, Any]]) -> str:
    varied = [str(value) for name, value in question.items() if any(other.get(name) != value for other in asked)]
    return f"{i + 1}: {' '.join(varied)}" if varied else str(i + 1)


def _value(value: Any, ratio: float | None) -> str:
    text = "-" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
    return text if ratio is None or ratio == 1 else f"{text} (x {ratio:.3g})"


def _flat(row: Any, headers: list[str]) -> dict[str, Any]:
    return {"name": row.name, "unit": row.unit, **dict(zip(headers, row.values, strict=True))}


@click.command()
@MODEL
@question_options
@FORMAT
def roofline(model: str, fmt: str, **options: Any) -> int:
    """How fast MODEL can decode and read a prompt on a device, at most: bounds from bytes and operations, a row per combination."""
    rows = []
    for question in questions(chosen(options)):
        found = api.roofline(model, **question)
        rows.append({
            **question,
            "tokens_per_second": round(found.tokens_per_second, 1),
            "without_cache": round(found.without_cache, 1),
            "step_ms": round(found.decode.seconds * 1000, 3),
            "bound_by": found.decode.bound_by,
            "weight_bytes": found.decode.weight_bytes,
            "cache_bytes": found.decode.cache_bytes,
            "first_token_ms": round(found.first_token_seconds * 1000, 1),
            "compute_bound_batch": found.compute_bound_batch,
        })  # fmt: skip
    click.echo(render_rows(rows, fmt))
    return 0
