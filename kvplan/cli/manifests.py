"""The commands that read and write what starts an engine: check and emit."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from kvplan import __version__, api
from kvplan.cli.groups import Grouped
from kvplan.cli.options import HUB, MODEL, Named, chosen, put, question_options, tell
from kvplan.errors import SpecError
from kvplan.manifests import Source, exit_code
from kvplan.manifests.check import not_said
from kvplan.manifests.read import MAX_FILE_BYTES, decoded
from kvplan.report.structured import dump

CHECK_FORMATS = ["table", "json", "github", "junit", "sarif"]


@click.command(cls=Grouped)
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="ID or TEXT=ID",
    help="The model, where a file's own name for it is none of ours; repeatable.",
)
@click.option("--diff", "against", is_flag=True, help="Take two FILES as OLD and NEW: what the change does to memory and capacity.")
@click.option("--env", "use_env", is_flag=True, help="Expand variables from this environment too; else only those that the files set.")
@click.option("--strict", is_flag=True, help="Count a verdict that is too close to call as: does not fit.")
@click.option("--allow-empty", is_flag=True, help="Files that start no engine count as fine.")
@HUB
@question_options
@click.option("--format", "fmt", type=click.Choice(CHECK_FORMATS), default="table", show_default=True, help="How to print it.")
def check(
    files: tuple[str, ...],
    models: tuple[str, ...],
    against: bool,
    use_env: bool,
    strict: bool,
    allow_empty: bool,
    hub: bool,
    fmt: str,
    **options: Any,
) -> int:
    """Will what FILES describe start and fit? Serve commands, scripts, compose, Kubernetes manifests, Helm values; nothing is executed.
    `-` is standard input: `helm template . | kvplan check -`.

    Options given here (--device, --context, ...) come before what the files say. Exit code 0 all fit, 1 one does not, 2 something is
    not known or not readable; with --diff, of NEW.
    """
    given: dict[str, Any] = {
        "models": models,
        "strict": strict,
        "env": dict(os.environ) if use_env else None,
        "hub": hub,
        **chosen(options),
    }
    if "engine_option" in given:
        given["engine_option"] = dict(pair.partition("=")[::2] for pair in given["engine_option"])
    sources = [_standard_input() if file == "-" else file for file in files]
    if against:
        if len(files) != 2 or fmt not in ("table", "json"):
            raise SpecError("diff", [("", "takes two files, OLD and NEW, and the formats table and json")])
        changes = api.diff(sources[:1], sources[1:], **given)
        plain = [change.as_dict() for change in changes]
        put(import_module("kvplan.report.findings").change_text(plain) if fmt == "table" else dump(plain, fmt))
        return max((change.exit_code for change in changes), default=0 if allow_empty else 2)
    verdicts = api.check(sources, **given)
    for text in not_said(models, verdicts):
        tell(f"note: --model {text[:120]}: no file says {text.rpartition('=')[0][:60]!r} of its model")
    plain = [verdict.as_dict() for verdict in verdicts]
    home = {"table": "findings"}.get(fmt, fmt)
    more = [__version__] if fmt == "sarif" else []
    put(dump(plain, fmt) if fmt == "json" else import_module(f"kvplan.report.{home}").text(plain, *more), ready=fmt == "github")
    return exit_code(verdicts, allow_empty=allow_empty)


def _standard_input() -> Source:
    if sys.stdin is None:
        raise SpecError("-", [("", "standard input is closed")])
    return Source("-", decoded(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "-"))


@click.command(cls=Grouped)
@click.argument("target", type=Named("target"))
@MODEL
@click.option("--serve", metavar="NAME", help="The name or path that the engine is to load; by default the release that was typed.")
@click.option("--fixed-pool", is_flag=True, help="Write the size of the cache that is safe on the device.")
@question_options
def emit(target: str, model: str, serve: str | None, fixed_pool: bool, **options: Any) -> int:
    """The command line or manifest that starts the plan of MODEL: vllm, sglang, tensorrt-llm, lmdeploy, llama.cpp, ollama, compose, k8s.

    Exit code 1, and why on stderr, where the plan would not start or not hold what was asked.
    """
    found = api.emitted(model, target, serve=serve, fixed_pool=fixed_pool, **chosen(options))
    put(found.text.rstrip("\n"))
    for warning in found.warnings:
        tell(f"warning: {warning}")
    return int((found.plan.fits is False or found.plan.starts is False) and not found.plan.outcome.split)
