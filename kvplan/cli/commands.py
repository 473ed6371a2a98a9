"""The commands. Each parses its options, calls one public function, renders what comes back and says how to exit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from kvplan import __version__, api
from kvplan.cli.grid import questions
from kvplan.deployment import NAMES
from kvplan.report import FORMATS, render

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


def question_options(command: Command) -> Command:
    """One option for every name of the contract."""
    for name, (kind, text) in reversed(NAMES.items()):
        flag = f"--{name.replace('_', '-')}"
        if kind == "flag":
            command = click.option(flag, name, is_flag=True, default=None, help=text)(command)
        elif kind == "options":
            command = click.option(flag, name, multiple=True, metavar="KEY=VALUE", help=text)(command)
        else:
            type_ = Named("device") if kind == "device" else None
            command = click.option(flag, name, type=type_, metavar=kind.upper(), help=text)(command)
    return command


def chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Only what was given on the command line."""
    return {name: value for name, value in options.items() if value not in (None, ())}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="kvplan")
def cli() -> None:
    """Does this model, at this context and concurrency, fit this hardware?

    \b
    Exit codes: 0 fits or done, 1 does not fit, 2 wrong input, 3 internal error.
    Shell completion: eval "$(_KVPLAN_COMPLETE=bash_source kvplan)" (or zsh_source, fish_source).
    """


@cli.command()
@MODEL
@question_options
@click.option("--strict", is_flag=True, help="Count a verdict that is too close to call as: does not fit.")
@FORMAT
def estimate(model: str, strict: bool, fmt: str, **options: Any) -> int:
    """What MODEL needs, line by line, and whether it fits.

    MODEL is a catalogue id (`kvplan models list`), an alias, or a path to a spec. Sizes: 128k tokens, 40GiB. Several values of one
    option (--context 8k,32k or 8k:1m:x2) make a row each.
    """
    plans = [api.estimate(model, **question) for question in questions(chosen(options))]
    click.echo(render(plans, fmt), nl=fmt not in ("csv",))
    return max(_exit_code(plan.fits, plan.certainty, strict) for plan in plans)


def _exit_code(fits: bool | None, certainty: str, strict: bool) -> int:
    return int(fits is False or (strict and certainty == "too close to call"))


@cli.command()
@MODEL
@question_options
@click.option("--format", "fmt", type=click.Choice(["table", "json"]), default="table", show_default=True, help="How to print it.")
def explain(model: str, fmt: str, **options: Any) -> int:
    """Where each number comes from: its formula with the values in it, and the source."""
    from kvplan.report.explain import render_lines

    click.echo(render_lines(api.explain(model, **chosen(options)), fmt))
    return 0


@cli.group()
def models() -> None:
    """The packaged model specs: list, show, schema."""


@models.command("list")
@click.argument("text", default="")
@FORMAT
def models_list(text: str, fmt: str) -> int:
    """Ids of the packaged models, those that contain TEXT."""
    from kvplan.report import render_rows

    rows = [{"id": id_} for id_ in api.models() if text.lower() in id_]
    click.echo(render_rows(rows, fmt))
    return 0


@models.command("show")
@MODEL
@click.option("--format", "fmt", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="How to print it.")
def models_show(model: str, fmt: str) -> int:
    """The spec of a MODEL, as declared."""
    from kvplan.report.structured import dump

    click.echo(dump(api.model(model).plain(), fmt))
    return 0


@models.command("schema")
def models_schema() -> int:
    """The JSON Schema of a model spec, for editors."""
    from kvplan.report.structured import dump

    click.echo(dump(api.schema("model"), "json"))
    return 0


@cli.group()
def devices() -> None:
    """The packaged devices: list, show."""


@devices.command("list")
@click.argument("text", default="")
@FORMAT
def devices_list(text: str, fmt: str) -> int:
    """Devices with their memory and rates, those whose id or name contains TEXT."""
    from kvplan.report import render_rows

    rows = [
        {
            "id": d.id,
            "name": d.name,
            "memory_gb": d.memory_gb,
            "nvml_total_mib": d.nvml_total_mib,
            "cuda_total_mib": d.cuda_total_mib,
            "bandwidth_gb_per_s": d.bandwidth_gb_per_s,
            "bf16_tflops": d.dense_tflops.get("bf16", d.dense_tflops.get("fp16")),
        }
        for d in api.devices()
        if text.lower() in d.id or text.lower() in d.name.lower()
    ]
    click.echo(render_rows(rows, fmt))
    return 0


@devices.command("show")
@click.argument("device", type=Named("device"))
@click.option("--format", "fmt", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="How to print it.")
def devices_show(device: str, fmt: str) -> int:
    """Every fact of one DEVICE and its source."""
    from kvplan.report.structured import dump

    click.echo(dump(api.device(device).plain(), fmt))
    return 0


@cli.command()
@click.argument("what", type=click.Choice(["plan", "model"]))
def schema(what: str) -> int:
    """The JSON Schema of what kvplan prints (plan) or reads (model)."""
    from kvplan.report.structured import dump

    click.echo(dump(api.schema(what), "json"))
    return 0
