"""The command that says which engines are modelled, and what each takes."""

from __future__ import annotations

from typing import Any

import click

from kvplan import api
from kvplan.cli.options import FORMAT, Named, put
from kvplan.report import FOR_PEOPLE, STRUCTURED, render_data
from kvplan.report.screen import here


@click.command()
@click.argument("name", default="", type=Named("engine"))
@FORMAT
def engines(name: str, fmt: str) -> int:
    """The engines that are modelled; with a NAME its releases, formats and options, and what each option means.

    `kvplan engines vllm`
    """
    found = api.engines(name or None)
    if name and fmt == "table":
        put(_one(found[0]))
        return 0
    if name and fmt in STRUCTURED:
        from kvplan.report.structured import dump, rows_text

        put(rows_text(found, fmt) if fmt == "jsonl" else dump(found[0], fmt))
        return 0
    put(render_data([_row(one) for one in found] if fmt in FOR_PEOPLE else found, fmt))
    return 0


def _row(one: Any) -> dict[str, Any]:
    releases = one["releases"]
    return {
        "engine": one["engine"],
        "releases": f"{releases[0]} to {releases[-1]}" if releases else None,
        "runs on": ", ".join(one["vendors"]) or "any",
        "cache memory": one["pool"],
        "options": len(one["options"]),
    }


def _one(one: Any) -> str:
    screen = here()
    width = max((len(key) for key in (*one["options"], *one["unused"])), default=0)
    facts = {
        "releases": ", ".join(one["releases"]) or "none: arithmetic",
        "runs on": ", ".join(one["vendors"]) or "any device",
        "cache memory": one["pool"],
        "weight formats": ", ".join(one["weight_formats"]) or "any",
        "forms of cache": ", ".join(one["forms"]),
    }
    lines = [one["title"], *(screen.fold(f"{what}: {text}", "    ", "  ") for what, text in facts.items())]
    for title, pairs in (("options (--engine-option KEY=VALUE)", one["options"]), ("no use for", one["unused"])):
        if pairs:
            lines += ["", title, *(screen.fold(text, " " * (width + 4), f"  {key:<{width}}  ") for key, text in pairs.items())]
    return "\n".join(lines)
