"""docs/reference.md: every command, its arguments and options, read from the command line itself.

`python tools/reference.py docs/reference.md` writes it; a test compares the two.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent))

from marks import table

from kvplan.cli.commands import cli
from kvplan.cli.groups import GROUPS
from kvplan.deployment import NAMES
from kvplan.engines import ENGINES

_HEAD = """# Every command

Made from the command line itself by `python tools/reference.py docs/reference.md`; a test compares the two. `kvplan COMMAND --help`
says the same.

Exit codes: 0 fits or done, 1 does not fit, 2 wrong input or not known, 3 internal error. `kvplan engines NAME` lists what
`--engine-option` takes for an engine.

## The names of a question

Commands marked "takes a question" have these options. The library takes the same names (`kvplan.estimate(model, kv_dtype="fp8")`), and
what is left out is chosen by the engine or the model, and said.
"""

#: What stands for a value where an option names none, by click's name of its type.
_KINDS = {"integer": "N", "integer range": "N", "float": "X", "float range": "X", "path": "FILE"}


def page() -> str:
    """The page, Markdown."""
    return "\n".join([_HEAD, *_question(), *_commands(cli, "kvplan")]).rstrip("\n") + "\n"


def _question() -> Iterator[str]:
    for title, example, names in GROUPS:
        yield f"**{title}**, such as `{example}`\n"
        yield table(("option", "what it says"), [(f"`--{name.replace('_', '-')}`", NAMES[name].help) for name in names])
    yield f"Engines: {', '.join(f'`{name}`' for name in ENGINES)}.\n"


def _commands(group: click.Group, name: str) -> Iterator[str]:
    context = click.Context(group, info_name=name)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if isinstance(command, click.Group):
            yield f"## {name} {word}\n\n{_about(command)}\n"
            yield from _commands(command, f"{name} {word}")
        elif command is not None:
            yield from _command(command, f"{name} {word}", "##" if name == "kvplan" else "###")


def _command(command: click.Command, name: str, level: str) -> Iterator[str]:
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    options = [param for param in command.params if isinstance(param, click.Option)]
    asks = sum(option.name in NAMES for option in options) > len(NAMES) // 2
    yield f"{level} {name}\n"
    yield f"`{' '.join([name, *map(_argument, arguments), *(['[OPTIONS]'] if options else [])])}`{' takes a question.' if asks else ''}\n"
    yield f"{_about(command)}\n"
    own = [option for option in options if not (asks and option.name in NAMES)]
    if own:
        yield table(("option", "what it says"), [(_spelled(option), _meaning(option)) for option in own])


def _about(command: click.Command) -> str:
    text = inspect.cleandoc(command.help or "").replace("\b\n", "").partition("\f")[0]
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).replace("<", "&lt;")


def _argument(argument: click.Argument) -> str:
    word = (argument.metavar or argument.name or "").upper() + ("…" if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def _spelled(option: click.Option) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    kind = _KINDS.get(option.type.name, option.type.name.upper())
    value = option.metavar or (f"{{{','.join(map(str, choices))}}}" if choices else kind)
    return f"`{names}`" if option.is_flag or option.count else f"`{names} {value}`"


def _meaning(option: click.Option) -> str:
    default = option.default if option.show_default and isinstance(option.default, (str, int, float)) else None
    return (option.help or "") + ("" if default is None or option.is_flag else f" Default: {default}.")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
