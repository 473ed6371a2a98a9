"""One answer as the page draws it: the sentence, the bars, what people ask next, the changes, the command. The words are the report's."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from kvplan.deployment import NAMES
from kvplan.planner.plan import Advice, Plan
from kvplan.report import answer, html
from kvplan.report.drawn import cache_curve, device_bars, text
from kvplan.report.first import model_line
from kvplan.report.printable import one_line
from kvplan.report.words import flag
from kvplan.units import size
from kvplan.web.answers import CONFIG, Body, planned
from kvplan.web.page import SLIDERS


def shown(body: Body) -> Any:
    """The sentence, markup under it, and what the controls need: settled values, changes of each advice, the command."""
    plan = planned(body)
    return {
        "html": "".join(_parts(plan)),
        "sentence": one_line(answer.sentence(plan)),
        "verdict": html.verdict(plan),
        "fits": plan.fits,
        "settled": {name: plan.asked(name) for name in ("engine", *SLIDERS)},
        "advice": [{one.option: one.value, **one.also} for one in answer.changes(plan)],
        "command": command(body),
    }


def _parts(plan: Plan) -> Iterator[str]:
    if plan.advice:
        what = answer.advice_title(plan).capitalize()
        yield f'<h3>{what}</h3><ul class="advice">{"".join(_button(one) for one in answer.changes(plan))}</ul>'
    yield device_bars(plan) + html.table(("what", "how much"), answer.next_numbers(plan))
    yield f"<p>{text(model_line(plan))}</p>"
    yield _folded("Assumed, by whom", html.what_is_assumed(plan))
    lines = "".join(html.section(title, content) for title, content in html.every_line(plan) if content)
    yield _folded("Every line", cache_curve(plan) + lines)


def _button(one: Advice) -> str:
    sure = "" if one.certainty == "certain" else f", {one.certainty}"
    says = f"{one.change}, leaves {size(one.margin_bytes)}{sure}"
    return f'<li><button type="button">{text(answer.options(one))}</button> {text(says)}</li>'


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>"


def command(body: Body) -> str:
    """What to type for the same answer."""
    words = ["kvplan", "estimate", str(body.get("model") or f"./{CONFIG}")]
    for name, value in body.items():
        if name in NAMES and value is not None and value is not False:
            several = value if isinstance(value, list) else [f"{k}={v}" for k, v in value.items()] if isinstance(value, dict) else [value]
            words += [part for one in several for part in flag(name, one).split(" ", 1)]
    return one_line(shlex.join(words))
