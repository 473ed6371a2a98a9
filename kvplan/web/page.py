"""The page itself: one form, as a template that the script copies for each of up to four configurations. Its files are in static/."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from kvplan import catalogue, dtypes, engines
from kvplan.deployment import NAMES
from kvplan.report import html

_FOLDER = Path(__file__).parent / "static"


class Slider(NamedTuple):
    """A size on a scale of powers of two: from and to, how many steps lie between two powers, what values are multiples of."""

    label: str
    low: int
    high: int
    steps: int = 1
    grain: int = 1


SLIDERS: dict[str, Slider] = {
    "context": Slider("Tokens a request", 9, 20, 8, 128),
    "batch": Slider("Requests", 0, 11, 4),
    "tp": Slider("Tensor parallel", 0, 5),
    "pp": Slider("Pipeline parallel", 0, 4),
    "dp": Slider("Data parallel", 0, 5),
}
#: Names with a place of their own in the form; the others are text fields under "More".
_OWN = ("device", "engine", "engine_version", "kv_dtype", "weight_dtype", *SLIDERS)


def _static() -> dict[str, tuple[bytes, str]]:
    """Every file of the page -> its bytes and its type; the answers' look is that of `--format html`."""
    types = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
    files = {path.name: (path.read_bytes(), types[path.suffix]) for path in sorted(_FOLDER.iterdir()) if path.suffix in types}
    return files | {"report.css": (html.STYLE.encode(), types[".css"])}


STATIC = _static()


def page() -> str:
    """The document, without a script or a style in it."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>kvplan</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark">'
        '<meta name="description" content="Does this model, at this context and concurrency, fit this hardware?">'
        '<link rel="icon" href="static/icon.svg"><link rel="stylesheet" href="static/report.css">'
        '<link rel="stylesheet" href="static/page.css"><script src="static/page.js" defer></script></head>\n<body>'
        "<header><h1>kvplan</h1><p>Does this model, at this context and concurrency, fit this hardware?</p>"
        '<button type="button" id="add">Add a configuration</button></header>\n'
        '<main id="cards"></main><noscript><p>This page asks its questions with a script. Without one: '
        "<code>kvplan estimate</code>.</p></noscript>\n"
        f"{_options('models', catalogue.model_ids())}{_options('devices', catalogue.device_ids())}"
        f"{_options('weight_formats', [*dtypes.WEIGHT_FORMATS, *dtypes.WEIGHT_ALIASES])}"
        f'\n<template id="card">{_card()}</template>\n'
        '<footer>The same as JSON: <a href="openapi.json">openapi.json</a>. Nothing you type leaves the server that you opened.</footer>'
        "</body></html>\n"
    )


def _options(id_: str, names: list[str]) -> str:
    options = "".join(f'<option value="{escape(name)}">' for name in names)
    return f'<datalist id="{id_}">{options}</datalist>'


def _card() -> str:
    parts = [
        '<section class="card"><div class="top"><h2></h2><button type="button" data-do="remove">Remove</button></div>',
        '<div class="head"><p class="verdict" role="status"></p><p class="error" role="alert" hidden></p></div><form autocomplete="off">',
        _text("model", "Model", "a name, or drop a config.json here", "models"),
        '<p class="config" hidden><span></span> <button type="button" data-do="forget">Forget it</button></p>',
        '<label class="file">or a config.json: <input type="file" accept=".json,application/json"></label>',
        _text("device", "Device", "h100, 24GiB, 8xH100", "devices"),
        '<div class="two">',
        _select("engine", "Engine", [("", "kvplan chooses"), *((name, engines.facts(name).title) for name in engines.ENGINES)]),
        _select("engine_version", "Release", [("", "newest known")]),
        "</div>",
        *(_slider(name, slider) for name, slider in SLIDERS.items()),
        '<div class="two">',
        _select("kv_dtype", "Cache format", [("", "as the engine"), *((name, name) for name in ("fp8", *dtypes.FORMATS))]),
        _text("weight_dtype", "Weights", "as released", "weight_formats"),
        "</div><details><summary>More</summary>",
        *_more(),
        '</details></form><div class="answer" aria-busy="false"></div>',
        '<div class="copy"><button type="button" data-do="command">Copy the command</button>',
        '<label>as <select name="target"></select></label><button type="button" data-do="manifest">Copy what starts it</button></div>',
        '<pre class="copied" tabindex="0" hidden></pre><p class="said" role="status"></p></section>',
    ]
    return "".join(parts)


def _text(name: str, label: str, hint: str, choices: str) -> str:
    return (
        f'<label class="field"><span>{label}</span><input name="{name}" list="{choices}" spellcheck="false" placeholder="{hint}"></label>'
    )


def _select(name: str, label: str, choices: list[tuple[str, str]]) -> str:
    options = "".join(f'<option value="{escape(value)}">{escape(says)}</option>' for value, says in choices)
    return f'<label class="field"><span>{label}</span><select name="{name}">{options}</select></label>'


def _slider(name: str, one: Slider) -> str:
    return (
        f'<div class="slider"><span>{one.label}</span>'
        f'<input type="range" data-name="{name}" data-steps="{one.steps}" data-grain="{one.grain}" aria-label="{one.label}, slider"'
        f' min="{one.low * one.steps}" max="{one.high * one.steps}" step="1">'
        f'<input name="{name}" aria-label="{one.label}" spellcheck="false"></div>'
    )


def _more() -> Iterator[str]:
    for name, (kind, text, _) in NAMES.items():
        if name in _OWN:
            continue
        hint = {"flag": "true", "options": "KEY=VALUE, KEY=VALUE"}.get(kind, "")
        label = escape(name.replace("_", " "))
        yield (
            f'<label class="field"><span>{label}</span><input name="{name}" data-kind="{kind}" spellcheck="false" placeholder="{hint}">'
            f"<small>{escape(text)}</small></label>"
        )
