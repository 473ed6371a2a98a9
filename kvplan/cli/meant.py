"""What somebody meant who typed an option by another tool's name: read only when an option is not known."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan import catalogue
from kvplan.api import called
from kvplan.deployment import NAMES
from kvplan.errors import KvplanError, UnknownName
from kvplan.manifests import TARGETS

_COMMANDS = {"verbose": "--detail", "json": "--format json", "csv": "--format csv", "output": "--format", "o": "--format"}


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


def misplaced(command: str, typed: Sequence[str]) -> str:
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
    return f"{rest!r} is too much: a name with blanks goes in quotes, or is written with dashes; sizes and devices are options (--help)"


def _device(word: str) -> str:
    try:
        return word if catalogue.find_device(word) else ""
    except KvplanError:
        return ""


def nearest(option: str) -> str:
    """The names of the question that are spelled like it."""
    found = UnknownName("option", option.lstrip("-").replace("-", "_"), list(NAMES)).nearest
    return " or ".join(f"--{name.replace('_', '-')}" for name in found)
