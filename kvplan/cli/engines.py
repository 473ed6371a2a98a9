"""The command that says which engines are modelled, and what each takes."""

from __future__ import annotations

import click

from kvplan import api
from kvplan.cli.options import FORMAT, Named, put
from kvplan.report import engines as engine_report


@click.command()
@click.argument("name", default="", type=Named("engine"))
@FORMAT
def engines(name: str, fmt: str) -> int:
    """The engines that are modelled; with a NAME its releases, formats and options, and what each option means.

    `kvplan engines vllm`
    """
    found = api.engines(name or None)
    put(engine_report.render_one(found[0], fmt) if name else engine_report.render(found, fmt))
    return 0
