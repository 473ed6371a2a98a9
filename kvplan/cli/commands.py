"""The commands. Each parses its options, calls one public function, renders what comes back and says how to exit."""

from __future__ import annotations

import os
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from kvplan import __version__, api, files
from kvplan.cli.grid import note_thousands, questions
from kvplan.cli.groups import Grouped
from kvplan.cli.options import FORMAT, MODEL, OFFLINE, Named, chosen, put, question_options, tell
from kvplan.errors import SpecError
from kvplan.planner.plan import Plan
from kvplan.report import render

#: Files of commands that are read when one is asked for, and the commands in them.
_IN = {
    "manifests": "check emit",
    "proof": "doctor reconcile calibrate validate",
    "search": "fit compare roofline",
    "engines": "engines",
    "serve": "serve",
    "simulate": "simulate",
    "sweep": "sweep",
    "beyond": "tiers transfer",
    "vectors": "vectors",
    "why": "why",
}
LAZY = {name: home for home, names in _IN.items() for name in names.split()}
#: `kvplan --help`: what commands are for, and each in a line.
SHOWN: dict[str, dict[str, str]] = {
    "Will it run": {
        "estimate": "whether MODEL fits, what it needs, what one change would help",
        "fit": "which hardware carries MODEL: the fewest of each device",
        "compare": "models, or several values of an option, side by side",
        "sweep": "a row for each point of a grid, streamed to a file",
        "roofline": "how fast MODEL decodes and reads a prompt, at most",
        "explain": "where each number comes from: its formula and its source",
    },
    "What you deploy": {
        "check": "whether what manifests, scripts and commands describe will start",
        "emit": "the command line or manifest that starts a plan",
        "why": "what an engine's error means, and which setting moves it",
        "reconcile": "predicted beside logged: an engine's start-up log, line by line",
        "calibrate": "measured constants from your own start-up logs",
    },
    "Under load": {
        "simulate": "what requests do to MODEL's cache, how many users it carries",
        "tiers": "what CPU and disk tiers hold, how long a prefix takes to return",
        "transfer": "what moves between workers that prefill and decode apart",
    },
    "What is known, and how well": {
        "models": "list and show the packaged models, import others",
        "devices": "list and show the packaged devices",
        "engines": "the engines that are modelled, their releases and options",
        "schema": "the JSON Schema of what kvplan prints or reads",
        "validate": "allocate a plan's caches for real, measure, compare",
        "vectors": "what engines' own code answered, for anyone's planner",
        "doctor": "what kvplan finds here: version, extras, catalogue, GPUs",
        "serve": "a page that answers while you drag, and a JSON API",
    },
}


class Lazy(click.Group):
    """A group whose further commands are imported when named."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for group in SHOWN.values() for name in group)
        for title, group in SHOWN.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in group.items()])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *LAZY])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"] and len(args) < 3:  # as other tools take it
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, ["--version"] if args == ["version"] else args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0][:1] != "-" and self.get_command(ctx, args[0]) is None:
            from kvplan.cli.meant import command
            from kvplan.errors import KvplanError

            if told := command(args[0]):
                raise KvplanError(told)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in LAZY:
            return super().get_command(ctx, cmd_name)
        found: click.Command = getattr(import_module(f"kvplan.cli.{LAZY[cmd_name]}"), cmd_name)
        return found


class Listing(click.Group):
    """A group that lists: a word that is none of its commands, nor nearly one, is looked for (`kvplan devices 4090`)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_text = bool(args) and not args[0].startswith("-") and not get_close_matches(args[0], self.commands)
        return super().parse_args(ctx, ["list", *args] if is_text else args)


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="kvplan")
def cli() -> None:
    """Does this model, at this context and concurrency, fit this hardware?

    \b
    Exit codes: 0 fits or done, 1 does not fit, 2 wrong input or not known, 3 internal error.
    Shell completion: eval "$(_KVPLAN_COMPLETE=bash_source kvplan)" (or zsh_source, fish_source).
    """


@cli.command(cls=Grouped)
@MODEL
@question_options
@click.option("--strict", is_flag=True, help="Count a verdict that is too close to call as: does not fit.")
@click.option("--detail", "-v", is_flag=True, help="Every line too: the cache by layers, each device's bytes, the phases of a start.")
@click.option("--plot", type=click.Path(dir_okay=False, writable=True), help="Draw it there (.png, .svg, .pdf); needs the `plot` extra.")
@FORMAT
def estimate(model: str, strict: bool, detail: bool, plot: str | None, fmt: str, **options: Any) -> int:
    """Whether MODEL fits, what it needs, and what that rests on; --detail says every line.

    MODEL is a catalogue id (`kvplan models list`), an alias, or a path to a spec. Sizes: 128k tokens, 40GiB. Several values of one
    option (--context 8k,32k or 8k:1m:x2) make a row each.
    """
    given = chosen(options)
    note_thousands(given)
    asked = questions(given)
    if plot is not None:
        import_module("kvplan.report.plot").ready(plot)
        if len(asked) > 1:
            raise SpecError("plot", [("", "one picture shows one question; give one value of each option")])
    told = len(asked) == 1 or fmt in ("json", "jsonl", "yaml")  # rows have no place for advice
    plans = [api.estimate(model, advise=told, **question) for question in asked]
    put(render(plans, fmt, detail=detail), ready=fmt == "table" and len(plans) == 1)
    if plot is not None:
        import_module("kvplan.report.picture").draw(plans[0], plot)
    return max(_exit_code(plan, strict) for plan in plans)


def _exit_code(plan: Plan, strict: bool) -> int:
    if plan.outcome.unknown:
        return 2
    return int(plan.fits is False or (strict and plan.certainty == "too close to call"))


@cli.command(cls=Grouped)
@MODEL
@question_options
@FORMAT
def explain(model: str, fmt: str, **options: Any) -> int:
    """Where each number comes from: its formula with the values in it, and the source."""
    from kvplan.report.explain import render_lines

    put(render_lines(api.explain(model, **chosen(options)), fmt))
    return 0


@cli.group(cls=Listing)
def models() -> None:
    """Model specs: list and show the packaged ones, import others, schema."""


@models.command("list")
@click.argument("text", default="")
@FORMAT
def models_list(text: str, fmt: str) -> int:
    """Ids of the packaged models, those that contain TEXT."""
    from kvplan.report import render_data

    rows = [{"id": id_} for id_ in api.models() if text.lower() in id_]
    if not rows:
        tell(f"note: no id has {text[:60]!r} in it; hub ids, Ollama tags and short names are more: `kvplan models show NAME`")
    put(render_data(rows, fmt))
    return 0


@models.command("show")
@MODEL
@OFFLINE
@click.option("--format", "fmt", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="How to print it.")
def models_show(model: str, fmt: str) -> int:
    """The spec of a MODEL, as declared."""
    from kvplan.report.structured import dump

    put(dump(api.model(model).plain(), fmt))
    return 0


@models.command("import")
@click.argument("source")
@OFFLINE
@click.option("--revision", help="Branch, tag or commit of a Hub model.")
@click.option("--out", type=click.Path(dir_okay=False, writable=True), help="Write the spec there; by default to standard output.")
def models_import(source: str, revision: str | None, out: str | None) -> int:
    """A reviewable spec of SOURCE: a config.json, a checkpoint's folder, a GGUF file, or a Hub id."""
    text = api.import_model(source, revision)
    if out is None:
        put(text)
        return 0
    if os.path.lexists(out):
        raise SpecError(out, [("", "exists; name another file")])
    files.write_text(out, text)
    return 0


@models.command("schema")
def models_schema() -> int:
    """The JSON Schema of a model spec, for editors."""
    from kvplan.report.structured import dump

    put(dump(api.schema("model"), "json"))
    return 0


@cli.group(cls=Listing)
def devices() -> None:
    """The packaged devices: list, show."""


@devices.command("list")
@click.argument("text", default="")
@FORMAT
def devices_list(text: str, fmt: str) -> int:
    """Devices with their memory and rates, those whose id or name contains TEXT."""
    from kvplan.report import render_data

    rows = [d.as_dict() for d in api.devices() if text.lower() in d.id or text.lower() in d.name.lower()]
    if not rows:
        tell(f"note: no device has {text[:60]!r} in its id or name; any other goes by its memory, such as --device 24GiB")
    put(render_data(rows, fmt))
    return 0


@devices.command("show")
@click.argument("device", type=Named("device"))
@click.option("--format", "fmt", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="How to print it.")
def devices_show(device: str, fmt: str) -> int:
    """Every fact of one DEVICE and its source."""
    from kvplan.report.structured import dump

    put(dump(api.device(device).plain(), fmt))
    return 0


@cli.command()
@click.argument("what", type=click.Choice(api.SCHEMAS))
def schema(what: str) -> int:
    """The JSON Schema of what kvplan prints (a plan, a simulation, rows of fit, compare, ...) or reads (model, device)."""
    from kvplan.report.structured import dump

    put(dump(api.schema(what), "json"))
    return 0
