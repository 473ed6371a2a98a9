"""What moves between prefill and decode workers as text: the groups, the times, the workers, the contract's object, or flat rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.planner.plan import Plan
from kvplan.planner.transfer import Moved, Time, Transfer
from kvplan.planner.workers import Workers
from kvplan.report import render_answers, render_rows
from kvplan.report.printable import noted, prose
from kvplan.report.words import chosen, engine, link, model, seconds
from kvplan.units import counted, show_bytes

_KINDS = {"full": "every token", "window": "a window", "state": "a state"}


def render(found: Sequence[Transfer], fmt: str) -> str | bytes:
    """The transfers in a format."""
    return render_answers(found, fmt, _flat, _one)


def _flat(one: Transfer) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"model": one.plan.model.id}
    asked |= chosen(one.plan)
    asked |= {"decode_tp": one.decode.asked("tp"), "decode_device": one.decode.asked("device")}
    figures = {
        name: getattr(one, name) for name in ("prompt_tokens", "rank_bytes", "total_bytes", "sent_bytes", "sources", "prefill_seconds")
    }
    return [asked | figures | time._asdict() for time in one.times]


def _one(one: Transfer, fmt: str) -> str:
    parts = [prose(_head(one), fmt), render_rows(list(map(_moved, one.moved)), fmt)]
    if one.times:
        parts.append(render_rows([_time(time, one.prefill_seconds) for time in one.times], fmt))
    if one.workers is not None:
        parts.append(prose(_workers(one.workers), fmt))
    notes = [*one.plan.model.notes, *one.notes]
    return "\n\n".join((*parts, prose(noted(notes), fmt)))


def _worker(plan: Plan) -> str:
    where = f" on {plan.asked('device')}" if plan.asked("device") else ""
    return f"tp {plan.asked('tp') or 1}{where}"


def _head(one: Transfer) -> str:
    who = f"{model(one.plan)}, {engine(one.plan)}"
    ways = f"prefill {_worker(one.plan)}, decode {_worker(one.decode)}"
    moved = (
        f"{show_bytes(one.rank_bytes)} to each decode GPU from {counted(one.sources, 'prefill GPU')}, {show_bytes(one.total_bytes)} in all"
    )
    sent = f"the busiest prefill GPU sends {show_bytes(one.sent_bytes)}"
    return f"A prompt of {one.prompt_tokens:,} tokens moves {moved}; {sent}.\n{who}: {ways}"


def _moved(group: Moved) -> dict[str, str]:
    return {
        "keeps": _KINDS[group.kind], "groups": f"{group.groups:,}", "pieces of each": f"{group.pieces:,}",
        "a piece": show_bytes(group.piece_bytes), "a decode GPU reads": show_bytes(group.bytes), "descriptors": f"{group.descriptors:,}",
    }  # fmt: skip


def _time(time: Time, prompt: float | None) -> dict[str, str]:
    share = "-" if prompt is None else f"{100 * time.seconds / prompt:.2g} % of {seconds(prompt)}"
    return {
        "over, each GPU": link(time.link, time.gb_per_s),
        "after the prompt": seconds(time.seconds),
        "of the prompt's time": share,
        "by layer, left": "-" if time.by_layer_seconds is None else seconds(time.by_layer_seconds),
    }


def _workers(made: Workers) -> str:
    lines = [
        f"requests of {made.prompt_tokens:,} tokens in and {made.output_tokens:,} out: a prefill worker carries at most "
        f"{made.prefill_per_second:.3g} a second, a decode worker {made.decode_per_second:.3g} with {made.decode_batch:,} at once",
        f"{made.prefill_per_decode:.3g} prefill workers feed one decode worker where both are as far from their bounds",
    ]
    if made.split is not None:
        split = made.split
        lines.append(
            f"{split.gpus:,} GPUs: {counted(split.prefill, 'prefill worker')} and {counted(split.decode, 'decode worker')}, at most "
            f"{split.requests_per_second:.3g} requests a second, bound by {split.bound_by}"
        )
    return "\n".join(lines)
