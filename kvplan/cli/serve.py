"""The command that serves the page and the API."""

from __future__ import annotations

import click

from kvplan.cli.options import tell
from kvplan.extras import missing


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve on; by default only this machine reaches it.")
@click.option("--port", type=click.IntRange(0, 65535), default=8642, show_default=True, help="0: any that is free.")
@click.option("--allow-files", is_flag=True, help="Clients may name model files of this machine, its GPU (auto) and its calibration.")
@click.option("--hub", is_flag=True, help="Ask the Hub for models that are not known here.")
@click.option("--name", "names", multiple=True, help="Another name that requests may call the server by, of a proxy before it; repeatable.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that answer.")
def serve(host: str, port: int, allow_files: bool, hub: bool, names: tuple[str, ...], workers: int) -> int:
    """A page that answers while you drag, and the same as a JSON API: /api/estimate, /api/fit, /api/check (/openapi.json).

    Needs the `web` extra. Nothing is asked of another host; without --allow-files no path that a client sends is read.
    """
    try:
        from kvplan.web.running import serve as run
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "kvplan":
            raise
        raise missing("serve needs starlette and uvicorn", "web") from None
    run(host, port, files=allow_files, hub=hub, names=names, workers=workers, tell=tell)
    return 0
