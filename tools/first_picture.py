"""docs/first-answer.svg: the answer that README.md opens with, as a picture, made with the drawing of `--format html`.

`python tools/first_picture.py docs/first-answer.svg` writes it; a test compares the two.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import kvplan
from kvplan.planner.plan import Plan
from kvplan.report import answer
from kvplan.report.drawn import WIDTH, cache_curve, device_bars, text
from kvplan.report.html import STYLE

COMMAND = "kvplan estimate meta-llama/llama-3.3-70b --device h100 --tp 4 --context 8k --batch 32"
QUESTION = {"device": "h100", "tp": 4, "context": "8k", "batch": 32}
_MARGIN, _LINE, _COLUMNS = 24, 22, 64
#: The page's colours, light and dark, and what is drawn with them.
_COLOURS = STYLE[: STYLE.index("\nbody{")]
_PARTS = ("weights", "cache", "cache-to-spare", "overhead", "lacking", "free")
_DRAWN = "".join(f".{part}{{fill:var(--{part})}}" for part in _PARTS) + (
    "line.limit{stroke:var(--ink);stroke-width:2;stroke-dasharray:5 3}line.asked{stroke:var(--faint)}rect.limit{fill:var(--ink)}"
    ".axis{fill:none;stroke:var(--faint)}.curve{fill:none;stroke:var(--cache);stroke-width:2.5}"
    "text{font:13px system-ui,sans-serif;fill:var(--ink)}.said{font-size:19px;font-weight:600}.asked{font:12.5px ui-monospace,monospace}"
)


def picture() -> str:
    """The whole file: the question, the sentence, a bar for each distinct device, the cache's curve with its limit."""
    plan = kvplan.estimate("meta-llama/llama-3.3-70b", advise=False, **QUESTION)
    drawn = list(_lines(plan))
    high = sum(space for space, _ in drawn) + 2 * _MARGIN
    y = _MARGIN
    body = []
    for space, markup in drawn:
        body.append(f'<g transform="translate({_MARGIN} {y})">{markup}</g>')
        y += space
    wide = WIDTH + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img">\n'
        f"<title>{text(answer.sentence(plan))}</title>\n<style>{_COLOURS}\n{_DRAWN}</style>\n"
        f'<rect width="{wide}" height="{high}" rx="10" style="fill:var(--paper);stroke:var(--rule)"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _lines(plan: Plan) -> Iterator[tuple[int, str]]:
    """Height and markup of each part, from the top."""
    yield 32, _text(f"$ {COMMAND}", "asked")
    for line in textwrap.wrap(answer.sentence(plan), _COLUMNS):
        yield _LINE + 4, _text(line, "said")
    yield 12, ""
    for figure in _figures(device_bars(plan)):
        yield from _bar(*figure)
    yield 14, ""
    for title, drawing, _ in _figures(cache_curve(plan)):
        yield _LINE, _text(title)
        yield _height(drawing), drawing


def _bar(title: str, drawing: str, legend: str) -> Iterator[tuple[int, str]]:
    yield _LINE - 8, _text(title)
    yield _height(drawing) + 10, drawing
    x, row, marks = 0, 0, []
    for name, words in re.findall(r'<li><i class="([\w-]+)"></i>(.*?)</li>', legend):
        width, takes = 3 if name == "limit" else 12, 30 + 7 * len(words)
        x, row = (x, row) if x + takes <= WIDTH else (0, row + _LINE)
        marks += [f'<rect class="{name}" x="{x}" y="{row}" height="12" width="{width}"/>']
        marks += [f'<text x="{x + 5 + width}" y="{row + 11}">{words}</text>']
        x += takes
    yield _LINE + row, "".join(marks)


def _figures(markup: str) -> Iterator[tuple[str, str, str]]:
    """Caption, drawing and legend of each figure of a page."""
    for caption, drawing, rest in re.findall(r"<figcaption>(.*?)</figcaption>(<svg.*?</svg>)(.*?)</figure>", markup):
        yield caption, drawing.replace("<svg ", f'<svg width="{WIDTH}" height="{_height(drawing)}" ', 1), rest


def _height(drawing: str) -> int:
    found = re.search(rf'viewBox="0 0 {WIDTH} (\d+)"', drawing)
    assert found, "a drawing of the page's width"
    return int(found[1])


def _text(words: str, kind: str = "") -> str:
    return f'<text y="14" class="{kind}">{words if kind == "" else text(words)}</text>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
