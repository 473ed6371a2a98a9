"""What the commands' options have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from kvplan.deployment import NAMES
from kvplan.errors import KvplanError, SpecError
from kvplan.report import FORMATS
from kvplan.report.printable import printable

Command = Callable[..., Any]


class Named(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A model or device name, completed from the catalogue."""

    def __init__(self, what: str) -> None:
        self.name = what

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from kvplan import catalogue

        ids = catalogue.model_ids() if self.name == "model" else catalogue.device_ids()
        return [CompletionItem(id_) for id_ in ids if id_.startswith(incomplete.lower())]


MODEL = click.argument("model", type=Named("model"))
FORMAT = click.option("--format", "fmt", type=click.Choice(list(FORMATS)), default="table", show_default=True, help="How to print it.")


class NoReader(Exception):  # no OSError, which click would turn into an exit code of its own
    """Whoever read standard output has gone, as `head` does; nothing is wrong."""


def put(out: str | bytes, *, commands: bool = False) -> None:
    """Data to standard output, a line's end after text that has none: all that any command prints goes through here, made printable.

    commands  its lines are commands to a CI log, and their texts are printable already

    Raises SpecError for bytes that would go to a terminal, KvplanError where it can not be written.
    """
    if sys.stdout is None:
        raise KvplanError("standard output is closed")
    if isinstance(out, bytes) and sys.stdout.isatty():
        raise SpecError("format", [("", "parquet is no text; redirect it to a file")])
    try:
        click.echo(printable(out) if isinstance(out, str) and not commands else out, nl=isinstance(out, str) and not out.endswith("\n"))
    except BrokenPipeError:
        raise NoReader from None
    except OSError as error:
        raise KvplanError(f"standard output can not be written: {error.strerror or error}") from None


def tell(text: str) -> None:
    """A line for people, on standard error; nothing where that can not be written."""
    with suppress(OSError, ValueError):
        click.echo(printable(text.rstrip("\n")), err=True)


def _go_offline(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        os.environ["HF_HUB_OFFLINE"] = "1"


OFFLINE = click.option(
    "--offline", is_flag=True, expose_value=False, callback=_go_offline, help="Never ask the network for a model (as HF_HUB_OFFLINE=1)."
)
HUB = click.option("--hub", is_flag=True, help="Ask the Hub for models that are not known here; else a file's own names are not asked for.")


def question_options(command: Command) -> Command:
    """One option for every name of the contract, and --offline."""
    command = OFFLINE(command)
    for name, (kind, text, parts) in reversed(NAMES.items()):
        flag = f"--{name.replace('_', '-')}"
        if kind == "flag":
            command = click.option(flag, name, is_flag=True, default=None, help=text)(command)
        elif parts:
            command = click.option(flag, name, multiple=True, metavar=f"[NAME=]{kind.upper()}", help=text)(command)
        elif kind == "options":
            command = click.option(flag, name, multiple=True, metavar="KEY=VALUE", help=text)(command)
        else:
            type_ = Named("device") if kind == "device" else None
            command = click.option(flag, name, type=type_, metavar=kind.upper(), help=text)(command)
    return command


def chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Only what was given on the command line."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    return {name: value[0] if name in NAMES and NAMES[name].parts and _alone(value) else value for name, value in given.items()}


def _alone(values: Any) -> bool:
    """One size without a name, which may be several of a grid."""
    return len(values) == 1 and "=" not in values[0]
