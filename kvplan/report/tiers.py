"""Tiers as text: a line for each pool, what coming back takes from each place, the contract's object, or flat rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.engines.common.tiers import Tier
from kvplan.planner.tiers import Load, Tiers
from kvplan.report import render_answers, render_rows
from kvplan.report.printable import noted, one_line, prose
from kvplan.report.words import chosen, engine, hardware, link, model, seconds
from kvplan.units import counted, show_bytes

_PLACES = {"cpu": "RAM", "disk": "disk", "remote": "remote store"}


def render(found: Sequence[Tiers], fmt: str) -> str | bytes:
    """The tiers in a format."""
    return render_answers(found, fmt, _flat, _one)


def _flat(one: Tiers) -> list[dict[str, Any]]:
    asked = {"model": one.plan.model.id, "prefix_tokens": one.prefix_tokens, "recompute_seconds": one.recompute_seconds, **chosen(one.plan)}
    loads = {load.place: load for load in one.loads}
    rows = []
    for tier in one.tiers:
        load = loads.get(tier.place)
        row = {
            name: getattr(tier, name) for name in ("place", "system", "what", "bytes", "pieces", "piece_bytes", "piece_tokens", "tokens")
        }
        rows.append(asked | row | ({} if load is None else {k: v for k, v in load._asdict().items() if k not in ("place", "piece_bytes")}))
    return rows


def _one(one: Tiers, fmt: str) -> str:
    if one.plan.starts is False:
        return prose(one_line(one.plan.verdict), fmt)
    parts = [prose(_head(one), fmt), render_rows([_gpu(one), *map(_row, one.tiers)], fmt)]
    if one.loads:
        parts.append(render_rows([_load(one, load) for load in one.loads], fmt))
    notes = [*one.plan.model.notes, *(one.plan.capacity.warnings if one.plan.capacity else ()), *one.notes]
    if one.plan.outcome.risk:
        notes.insert(0, one.plan.outcome.risk)
    return "\n\n".join((*parts, *([prose(noted(notes), fmt)] if notes else [])))


def _head(one: Tiers) -> str:
    plan = one.plan
    ram = sum(tier.bytes for tier in one.tiers if tier.place == "cpu")
    files = sum(tier.bytes for tier in one.tiers if tier.place == "disk")
    where = f" on {hardware(plan)}" if plan.asked("device") else ""
    takes = " and ".join(
        part for part in (f"{show_bytes(ram)} of RAM" if ram else "", f"{show_bytes(files)} of disk" if files else "") if part
    )
    who = f"{model(plan)}, {engine(plan)}{where}"
    first = f"{who}: the tiers of one server take {takes}"
    if one.recompute_seconds is None:
        return first
    return f"{first}\na prefix of {one.prefix_tokens:,} tokens is computed again in {seconds(one.recompute_seconds)} at least"


def _gpu(one: Tiers) -> dict[str, str]:
    capacity = one.plan.capacity
    gpu = one.as_dict()["gpu"]
    cells = ("GPU", "", "-", "-", "-", "-") if capacity is None or gpu is None else (
        "GPU", engine(one.plan), show_bytes(gpu["bytes"]),
        f"{capacity.blocks:,}" if capacity.blocks else "-", f"{capacity.block_tokens:,}" if capacity.block_tokens else "-",
        f"{capacity.tokens:,}" if capacity.tokens else "-",
    )  # fmt: skip
    return dict(zip(_COLUMNS, (*cells, ""), strict=True))


_COLUMNS = ("tier", "kept by", "bytes of a server", "pieces", "tokens each", "tokens", "set by")


def _row(tier: Tier) -> dict[str, str]:
    place = _PLACES[tier.place] + ("" if tier.what == "cache" else f", {tier.what}")
    copies = "one copy for " if tier.shared else ""
    tokens = ("-", "-") if tier.tokens is None else (f"{tier.piece_tokens:,}", f"{tier.tokens:,}")
    setting = f"{tier.setting}; {copies}{counted(tier.ranks, 'rank')}"
    return dict(zip(_COLUMNS, (place, tier.system, show_bytes(tier.bytes), f"{tier.pieces:,}", *tokens, one_line(setting)), strict=True))


def _load(one: Tiers, load: Load) -> dict[str, str]:
    again = one.recompute_seconds
    return {
        "back from": _PLACES[load.place],
        "over": link(load.link, load.gb_per_s),
        "one piece": f"{show_bytes(load.piece_bytes)}, {seconds(load.piece_seconds)}",
        f"{one.prefix_tokens:,} tokens": f"{show_bytes(load.prefix_bytes)}, {seconds(load.prefix_seconds)}",
        "to computing": "-" if again is None else f"{load.prefix_seconds / again:.2g} x",
        "pays from": "-" if again is None else f"{load.pays_from:,} tokens" if load.pays_from else "no length tried",
    }
