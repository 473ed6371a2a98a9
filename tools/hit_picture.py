"""docs/hit-curve.svg: what a prefix cache finds by its size, the example of docs/beyond-one-gpu.md, with the drawing of `--format html`.

`python tools/hit_picture.py docs/hit-curve.svg` writes it; a test compares the two.
"""

from __future__ import annotations

import sys
from pathlib import Path

import kvplan
from kvplan.report.drawn import WIDTH, text
from kvplan.report.hits_drawn import hits_figure
from tools.first_picture import _COLOURS, _MARGIN, _bar, _figures

QUESTION = {
    "engine": "vllm", "engine_version": "0.32", "kv_memory": "1536MiB", "max_model_len": "8k", "turns": 6, "prefixes": 8,
    "prefix_tokens": 512, "requests": 200, "engine_option": {"kv_offloading_size": "32"},
}  # fmt: skip
_STYLE = (
    "line.limit{stroke:var(--ink);stroke-width:2;stroke-dasharray:5 3}.axis{fill:none;stroke:var(--faint)}"
    "polyline{fill:none;stroke-width:2.5}polyline.curve{stroke:var(--cache)}"
    "polyline.bound{stroke:var(--faint);stroke-width:1.5;stroke-dasharray:4 3}"
    "rect.curve{fill:var(--cache)}rect.bound{fill:var(--faint)}text{font:13px system-ui,sans-serif;fill:var(--ink)}"
)


def picture() -> str:
    """The whole file: the curve between its bounds, with the plan's own pool on it."""
    curve = kvplan.hit_curve("meta-llama/llama-3.1-8b", **QUESTION)
    y, body = _MARGIN, []
    for figure in _figures(hits_figure(curve)):
        for space, markup in _bar(*figure):
            body.append(f'<g transform="translate({_MARGIN} {y})">{markup}</g>')
            y += space
    high, wide = y + _MARGIN, WIDTH + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img">\n'
        f"<title>{text('prompt tokens found in the prefix cache, by its size')}</title>\n<style>{_COLOURS}\n{_STYLE}</style>\n"
        f'<rect width="{wide}" height="{high}" rx="10" style="fill:var(--paper);stroke:var(--rule)"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
