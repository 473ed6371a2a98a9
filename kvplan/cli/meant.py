"""What somebody meant who typed an option by another tool's name: read only when an option is not known."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from kvplan import catalogue
from kvplan.api import called
from kvplan.deployment import NAMES
from kvplan.errors import KvplanError, UnknownName
from kvplan.manifests import TARGETS

_COMMANDS = {"verbose": "--detail", "json": "--format json", "csv": "--format csv", "output": "--format", "o": "--format"}


#: What there is instead of commands that people look for.
COMMANDS = {
    "estimate says it, and what one change would help: kvplan estimate MODEL --device NAME": (
        "advise advice advisor capacity size sizing calc calculate vram memory plan will-it-fit can-i-run info run fits max-context"
    ),
    "fit looks for the hardware: kvplan fit MODEL --context 32k": "recommend suggest gpu gpus hardware buy find search which cheapest",
    "check reads commands and manifests: kvplan check FILE, or kvplan check - for what is piped": "lint verify parse scan audit deploy",
    "several values are compared side by side: kvplan compare MODEL --engine-version 0.20,0.33": "diff versus vs upgrade releases",
    "models list has them, and models show NAME one: kvplan models list": "model list ls catalogue catalog",
    "devices list has them: kvplan devices list": "device cards card",
    "why explains what an engine printed: kvplan why 'CUDA out of memory'": "error oom debug diagnose",
    "reconcile sets a log beside what was predicted: kvplan reconcile LOG": "log logs",
    "roofline says how fast at most: kvplan roofline MODEL --device NAME": "speed throughput latency tps tokens bench benchmark perf",
    "serve shows the page: kvplan serve": "ui web gui dashboard",
}
#: What is no option at all.
_WORDS = {
    "model": "write the model itself, as the first word: kvplan estimate meta-llama/llama-3.1-8b",
    "d": "write --device: device id, product name, auto (this machine) or a size such as 24GiB",
    "target": "write the target before the model: kvplan emit vllm meta-llama/llama-3.1-8b",
    "c": "write --context: tokens per sequence, e.g. 32k",
}


def meant(option: str, has: Sequence[str] = ()) -> str:
    """`write --tp (vLLM: --tensor-parallel-size)`, such as follows an error; empty where nothing is known by that name.

    has  the options of the command that it was typed after
    """
    word = option.lstrip("-").replace("_", "-").lower()
    if word in _WORDS:
        return _WORDS[word]
    if word in ("o", "output") and "--out" in has:
        return "write --out"
    if word in _COMMANDS and _COMMANDS[word].split()[0] in has:
        return f"write {_COMMANDS[word]}"
    found = called.meant(word)
    ways = [_said(one, option) for one in found if one.name]
    if found and not ways:
        one = found[0]
        told = "no plan moves with it: leave it out" if one.idle else "kvplan check reads whole commands, from a file or piped (-)"
        return f"it is {one.whose[0]}'s; {told}"
    return ", or ".join(ways)


def typed(option: str, words: Sequence[str]) -> str:
    """An option as it was typed: `-ngl`, of which a parser of single letters says `-n`."""
    letter = len(option) == 2 and option[0] == "-" != option[1]
    return next((word for word in words if word.startswith(option)), option) if letter else option


def _said(one: called.Meant, option: str) -> str:
    whose = f" ({', '.join(one.whose)}'s {option})" if one.whose else ""
    if one.key:
        return f"write --engine-option {one.key}={one.value}{whose}: {one.help()}"
    flag = f"--{one.name.replace('_', '-')}"
    longer = ", or --context for the tokens that each sequence holds" if one.name == "max_model_len" else ""
    return f"write {flag}{whose}{longer}: {one.help()}"


def elsewhere(option: str, has: Sequence[str], command: str) -> str:
    """What to write of an option that other commands take: a question's name after one that asks none."""
    name = option.lstrip("-").replace("-", "_")
    if name not in NAMES or "--context" in has or not option.startswith("--"):
        return ""
    return f"kvplan {command} takes none; whether a model runs is asked so: kvplan estimate MODEL {option} {name.upper()}"


def command(word: str) -> str:
    """What to write for the name of a command that there is not; empty where nothing is known by it."""
    known = next((told for told, words in COMMANDS.items() if word.lower().replace("_", "-") in words.split()), "")
    if not known and os.path.isfile(word):
        known = f"a file is checked: kvplan check {word}"
    elif not known and _is_model(word):
        known = f"a model is asked for: kvplan estimate {word}"
    return f"No such command {word[:40]!r}; {known}" if known else ""


def misplaced(command: str, typed: Sequence[str], model: object = None) -> str:
    """What to write instead of a command line with words left over, or without a model: one line."""
    if not typed and command == "emit":
        return f"kvplan emit needs a target and a model, such as: kvplan emit vllm meta-llama/llama-3.1-8b (targets: {', '.join(TARGETS)})"
    if not typed:
        return f"kvplan {command} needs a model, such as: kvplan {command} meta-llama/llama-3.1-8b"
    rest = " ".join(typed)[:60]
    if len(typed) == 1 and (card := _device(rest)):
        return f"{rest!r} is one word too many; if it is the device, write --device {card}"
    if command == "sweep" and all(word.partition("=")[0] in NAMES for word in typed):
        return f"an axis is an option: write {' '.join(f'--grid {word[:60]}' for word in typed)}"
    whole = (
        f': kvplan {command} "{model} {rest}"' if isinstance(model, str) and _is_model(f"{model} {rest}") else ", or is written with dashes"
    )
    return f"{rest!r} is too much: a name with blanks goes in quotes{whole}; sizes and devices are options (--help)"


def valued(error: click.UsageError) -> str:
    """What is missing, of an option without its value and of an argument that was left out; empty for all else."""
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        name = error.option_name.lstrip("-").replace("-", "_")
        return f"{error.option_name} needs a value" + (f": {NAMES[name].help}" if name in NAMES else "")
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument) and error.ctx:
        return f"{error.ctx.command_path} needs {error.param.make_metavar(error.ctx)}"
    return ""


def _is_model(name: str) -> bool:
    try:
        return catalogue.find_model(name) is not None
    except KvplanError:
        return False


def _device(word: str) -> str:
    try:
        return word if catalogue.find_device(word) else ""
    except KvplanError:
        return ""


def nearest(option: str) -> str:
    """The names of the question that are spelled like it."""
    found = UnknownName("option", option.lstrip("-").replace("-", "_"), list(NAMES)).nearest
    return " or ".join(f"--{name.replace('_', '-')}" for name in found)
