"""The commands that read and write what starts an engine: check and emit."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from kvplan import api
from kvplan.cli.options import MODEL, chosen, question_options
from kvplan.errors import SpecError
from kvplan.manifests import exit_code
from kvplan.report.structured import dump

CHECK_FORMATS = ["table", "json", "github", "junit", "sarif"]


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="ID or TEXT=ID",
    help="The model, where a file's own name for it is none of ours; repeatable.",
)
@click.option("--diff", "against", is_flag=True, help="Take two FILES as OLD and NEW, and show what the change does.")
@click.option("--env", "use_env", is_flag=True, help="Expand variables from this environment too; else only those that the files set.")
@click.option("--strict", is_flag=True, help="Count a verdict that is too close to call as: does not fit.")
@click.option("--allow-empty", is_flag=True, help="Files that start no engine count as fine.")
@question_options
@click.option("--format", "fmt", type=click.Choice(CHECK_FORMATS), default="table", show_default=True, help="How to print it.")
def check(
    files: tuple[str, ...],
    models: tuple[str, ...],
    against: bool,
    use_env: bool,
    strict: bool,
    allow_empty: bool,
    fmt: str,
    **options: Any,
) -> int:
    """Will what FILES describe start and fit? Serve commands, scripts, compose, Kubernetes manifests, Helm values; nothing is executed.

    Options given here (--device, --context, ...) come before what the files say. Exit code 0 all fit, 1 one does not, 2 something is
    not known or not readable.
    """
    given: dict[str, Any] = {"models": models, "strict": strict, "env": dict(os.environ) if use_env else None, **chosen(options)}
    if "engine_option" in given:
        given["engine_option"] = dict(pair.partition("=")[::2] for pair in given["engine_option"])
    if against:
        if len(files) != 2 or fmt not in ("table", "json"):
            raise SpecError("diff", [("", "takes two files, OLD and NEW, and the formats table and json")])
        changes = [change.as_dict() for change in api.diff([files[0]], [files[1]], **given)]
        click.echo(import_module("kvplan.report.findings").change_text(changes) if fmt == "table" else dump(changes, fmt))
        return 0
    verdicts = api.check(files, **given)
    plain = [verdict.as_dict() for verdict in verdicts]
    home = {"table": "findings"}.get(fmt, fmt)
    click.echo(dump(plain, fmt) if fmt == "json" else import_module(f"kvplan.report.{home}").text(plain))
    return exit_code(verdicts, allow_empty=allow_empty)


@click.command()
@click.argument("target")
@MODEL
@click.option("--serve", metavar="NAME", help="The name or path that the engine is to load; by default the catalogue's checkpoint.")
@question_options
def emit(target: str, model: str, serve: str | None, **options: Any) -> int:
    """The command line or manifest that starts the plan of MODEL: vllm, sglang, tensorrt-llm, llama.cpp, ollama, compose, k8s."""
    click.echo(api.emit(model, target, serve=serve, **chosen(options)).rstrip("\n"))
    return 0
