"""What the commands' options have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from kvplan.deployment import NAMES
from kvplan.errors import KvplanError, SpecError
from kvplan.report import FORMATS
from kvplan.report.printable import printable
from kvplan.units import THOUSANDS

Command = Callable[..., Any]


#: Names of a question whose values complete, and how many are offered at once.
COMPLETED, MOST_COMPLETIONS = ("device", "engine", "kv_dtype", "weight_dtype", "dtype"), 200


class Named(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A name of a model, a device, an engine, a format or what `emit` writes, completed from all that are known."""

    def __init__(self, what: str) -> None:
        self.name = what

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        word = incomplete.lower()
        return [CompletionItem(name) for name in _known(self.name) if name.lower().startswith(word)][:MOST_COMPLETIONS]


def _known(what: str) -> Iterable[str]:
    """Every name of a kind of thing."""
    from kvplan import catalogue, dtypes, engines

    if what == "model":
        return catalogue.model_names()
    if what == "device":
        return catalogue.device_ids()
    if what == "engine":
        return engines.ENGINES
    if what == "target":
        targets: tuple[str, ...] = import_module("kvplan.manifests.emit").TARGETS
        return targets
    if what == "kv_dtype":
        return ("auto", *dtypes.FORMATS, *dtypes.ALIASES)
    if what == "weight_dtype":
        return (*dtypes.WEIGHT_FORMATS, *dtypes.WEIGHT_ALIASES)
    return ("bf16", "f16", "f32")


MODEL = click.argument("model", type=Named("model"))
FORMAT = click.option("--format", "fmt", type=click.Choice(list(FORMATS)), default="table", show_default=True, help="How to print it.")


class NoReader(Exception):  # no OSError, which click would turn into an exit code of its own
    """Whoever read standard output has gone, as `head` does; nothing is wrong."""


def put(out: str | bytes, *, ready: bool = False) -> None:
    """Data to standard output, a line's end after text that has none: all that any command prints goes through here, made printable.

    ready  its texts are printable already, and what is not is meant: commands to a CI log, a terminal's colours

    Raises SpecError for bytes that would go to a terminal, KvplanError where it can not be written.
    """
    if sys.stdout is None:
        raise KvplanError("standard output is closed")
    if isinstance(out, bytes) and sys.stdout.isatty():
        raise SpecError("format", [("", "parquet is no text; redirect it to a file")])
    try:
        click.echo(printable(out) if isinstance(out, str) and not ready else out, nl=isinstance(out, str) and not out.endswith("\n"))
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


class Several(click.Option):
    """An option whose values, given one at a time (--tp 2 --tp 4), are those of one list (--tp 2,4): none is dropped."""

    def __init__(self, declarations: Sequence[str], **kwargs: Any) -> None:
        super().__init__(declarations, **{**kwargs, "multiple": True})

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        values = super().process_value(ctx, value)
        if not values or len(values) == 1:
            return values[0] if values else None
        return ",".join(str(one).replace(",", "") if THOUSANDS.fullmatch(str(one)) else str(one) for one in values)


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
            type_ = Named(name) if name in COMPLETED else None
            command = click.option(flag, name, cls=Several, type=type_, metavar=kind.upper(), help=text)(command)
    return command


def chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Only what was given on the command line."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    return {name: value[0] if name in NAMES and NAMES[name].parts and _alone(value) else value for name, value in given.items()}


def parted(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was given of the names of a question, and of a command's own."""
    given = chosen(options)
    return {n: value for n, value in given.items() if n in NAMES}, {n: value for n, value in given.items() if n not in NAMES}


def _alone(values: Any) -> bool:
    """One size without a name, which may be several of a grid."""
    return len(values) == 1 and "=" not in values[0]
