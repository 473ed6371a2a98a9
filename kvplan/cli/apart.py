"""`fit --disaggregate`: its options, and its rows for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

import click

from kvplan.errors import SpecError
from kvplan.planner.disaggregate import BOUNDS, Disaggregated
from kvplan.report import FOR_PEOPLE, render_data
from kvplan.report.printable import noted, prose
from kvplan.report.words import seconds
from kvplan.units import show_bytes

_DECLARED = (
    click.option("--disaggregate", is_flag=True, help="Workers that prefill and that decode: devices, tp, and how many."),
    click.option("--output", metavar="TOKENS", help="Apart: tokens of an answer."),
    click.option("--prompt", metavar="TOKENS", help="Apart: tokens of a prompt; by default the context."),
    click.option("--decode-devices", metavar="A,B,...", help="Apart: of decode workers, where not the same device."),
    click.option("--decode-tp", metavar="COUNT", help="Apart: tp of decode workers; --tp is of those that prefill."),
    click.option("--rate", type=float, help="Apart: the fewest GPUs for so many requests a second; else the most for --most."),
    click.option("--first-token", metavar="TIME", help="Apart: what a prompt and its transfer may take at least, such as 2s."),
    click.option("--per-token", metavar="TIME", help="Apart: what a step of decoding may take at least, such as 50ms."),
    click.option("--link", metavar="LINK", help="Apart: a GPU's link between workers, or GB/s; by default 400gb."),
)
NAMES = ("disaggregate", "output", "prompt", "decode_devices", "decode_tp", "rate", "first_token", "per_token", "link")


def OPTIONS(command: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802
    """The options of `fit --disaggregate` on a command."""
    return reduce(lambda made, option: option(made), reversed(_DECLARED), command)


def wanted(asked: dict[str, Any], every_layout: bool) -> bool:
    """Whether workers apart are asked about; `asked` is left with what `api.disaggregate` takes. Raises SpecError for half a question."""
    on = asked.pop("disaggregate", False)
    if not on and asked:
        name = next(iter(asked))
        raise SpecError(name, [("", "is about workers that prefill and decode apart; add --disaggregate")])
    if on and every_layout:
        raise SpecError("every_layout", [("", "workers are tried at powers of two within a machine; choose tp and decode_tp instead")])
    if on and "output" not in asked:
        raise SpecError("output", [("", "how many workers decode depends on the tokens of an answer; say how many")])
    if "decode_devices" in asked:
        asked["decode_devices"] = [name.strip() for name in asked["decode_devices"].split(",")]
    return bool(on)


def render(model: str, found: Sequence[Disaggregated], asked: Mapping[str, Any], fmt: str, *, everything: bool) -> str | bytes:
    """The rows in a format."""
    shown = [row for row in found if row.split is not None or everything]
    if fmt not in FOR_PEOPLE:
        return render_data([dict(row.as_dict()) for row in shown], fmt)
    rows = [_for_people(row) for row in shown]
    rows = [{key: row[key] for key in rows[0] if any(one[key] is not None for one in rows)} for row in rows]
    if fmt == "html":
        html = import_module("kvplan.report.html")
        sections = {"Bounds": html.listed([BOUNDS]), "The question": html.facts(asked)}
        page: str = html.report(f"What prefills and what decodes {model}", rows, sections)
        return page
    return f"{render_data(rows, fmt)!s}\n\n{prose(noted([BOUNDS]), fmt)}"


def _for_people(row: Disaggregated) -> dict[str, Any]:
    split, one, other, moved = row.split, row.prefill, row.decode, row.moved
    names = row.prefill_device.id, row.decode_device.id
    if split is None or one is None or other is None or moved is None:
        empty = dict.fromkeys(("GPUs", "requests/s, at most", "bound by", "ratio", "a request moves", "first token", "a step", "price"))
        return {"prefill": names[0], "decode": names[1], **empty, "why not": row.reason}
    return {
        "prefill": f"{split.prefill:,} x tp {one.tp} {names[0]}",
        "decode": f"{split.decode:,} x tp {other.tp} {names[1]}, {other.batch:,} at once",
        "GPUs": split.gpus,
        "requests/s, at most": f"{split.requests_per_second:.3g}",
        "bound by": split.bound_by,
        "ratio": f"{other.per_second / one.per_second:.3g} : 1",
        "a request moves": f"{show_bytes(moved.total_bytes)}, {seconds(moved.times[0].seconds)} over {moved.times[0].link}",
        "first token": f"{seconds(row.first_token_seconds or 0)} at least",
        "a step": seconds(other.seconds),
        "price": row.price,
        "why not": None,
    }
