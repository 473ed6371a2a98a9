"""The first screen of one plan: the answer, a picture, what it rests on, what people ask next. No table is made for it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import filterfalse

from kvplan import engines
from kvplan.names import file_of_release
from kvplan.planner.plan import Plan
from kvplan.report import answer, assumed
from kvplan.report.bars import bars
from kvplan.report.printable import printable
from kvplan.report.screen import Screen, here
from kvplan.report.words import model
from kvplan.units import size

_COLOURS = {True: 32, False: 31, None: 0}
MORE = "more: --detail (every line, the cache by layers, the phases of a start); kvplan explain (the formulas)"


def first_screen(plan: Plan, screen: Screen | None = None) -> str:
    """Text for a terminal; its colours are the only control characters in it."""
    screen = screen or here()
    notes = assumed.notes(plan)
    parts = [_sentence(plan, screen), _noted(filter(assumed.of_the_asked, notes), screen, "")]
    parts += [screen.fold(model_line(plan)), bars(plan, screen)]
    parts.append(_pairs(answer.next_numbers(plan)))
    if plan.advice:
        what = answer.advice_title(plan)
        parts.append("\n".join((what, *(screen.fold(line, "      ", "") for line in answer.advice_lines(plan)))))
    rest = _noted(filterfalse(assumed.of_the_asked, notes), screen)
    parts.append("\n".join(("assumed", *_assumed(plan, screen), *([rest] if rest else []))))
    return "\n\n".join([part for part in parts if part])


def _sentence(plan: Plan, screen: Screen) -> str:
    text = screen.fold(printable(answer.sentence(plan)))
    opening, colon, rest = text.partition(":")
    colour = 33 if plan.certainty == "too close to call" else _COLOURS[plan.fits]
    return screen.paint(opening, colour) + colon + rest if plan.fits is not None else text


def model_line(plan: Plan) -> str:
    """Who it is: its name, how many parameters, how large its weights."""
    facts = plan.model
    active = "" if facts.active_parameters == facts.parameters else f", {_billions(facts.active_parameters)} active"
    weights = f"{size(facts.weight_bytes)} of weights in {plan.asked('weight_dtype')}"
    return f"{model(plan)}: {_billions(facts.parameters)} parameters{active}, {weights}{_served_otherwise(plan)}"


def _served_otherwise(plan: Plan) -> str:
    """`; ollama run qwen3:8b is q4_k_m`: of a release of which the engine's own library has a file, in another format; else empty."""
    engine = plan.asked("engine")
    if not engine or not engines.facts(engine).bare_is_latest or plan.question["weight_dtype"][1] == "you":
        return ""
    tag = file_of_release(plan.model.known_as or plan.model.id, plan.model.id)
    stored = plan.asked("weight_dtype")
    return "" if tag is None or (tag.weights or stored) == stored else f", as released; `ollama run {tag.name}` is {tag.weights}"


def _billions(n: int) -> str:
    return f"{n / 1e9:,.2f} billion" if n >= 10**9 else f"{n / 1e6:,.1f} million"


def _pairs(rows: list[tuple[str, str]]) -> str:
    width = max(len(what) for what, _ in rows)
    return "\n".join(f"{what:<{width}}  {value}" for what, value in rows)


def _assumed(plan: Plan, screen: Screen) -> list[str]:
    rows = assumed.rows(plan)
    wide = max((len(text) for text, _, _ in rows), default=0), max((len(by) for _, by, _ in rows), default=0)
    lines = [f"  {text:<{wide[0]}}  {by:<{wide[1]}}  {flags}".rstrip() for text, by, flags in rows]
    if max(map(len, lines), default=0) > screen.width:
        lines = [screen.fold(f"{text} ({by}{f'; {flags}' if flags else ''})", "      ", "  ") for text, by, flags in rows]
    return lines


def _noted(notes: Iterable[str], screen: Screen, first: str = "  ") -> str:
    return "\n".join(screen.fold(f"note: {note}", f"{first}    ", first) for note in notes)
