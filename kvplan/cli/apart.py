"""`fit --disaggregate`: its options, and whether a question is whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from kvplan.errors import SpecError

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


def options(command: Callable[..., Any]) -> Callable[..., Any]:
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
