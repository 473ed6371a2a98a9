"""The command line: options in, one call of the library, a report out, an exit code."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING

from kvplan.errors import KvplanError
from kvplan.extras import missing_module

if TYPE_CHECKING:
    import click

EXIT_DONE, EXIT_INPUT, EXIT_INTERNAL = 0, 2, 3


def main(args: list[str] | None = None) -> None:
    """Runs the command line and exits: 0 fits or done, 1 does not fit, 2 wrong input, 3 internal error."""
    # Nothing that starts up is ever garbage, and no plugin of pydantic's takes part: both only cost the first tenth of a second.
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.exit(run(args))


def run(args: list[str] | None = None) -> int:
    """Runs the command line; returns its exit code."""
    import click

    from kvplan.cli.commands import cli
    from kvplan.cli.groups import TooMany
    from kvplan.cli.options import NoReader, tell

    gc.freeze()
    gc.set_threshold(100_000)  # what a command reads and imports lives as long as it does
    gc.enable()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # what a terminal's encoding lacks
    try:
        return int(cli.main(args=args, prog_name="kvplan", standalone_mode=False) or 0)
    except KvplanError as error:
        tell(f"error: {error}")
        _unwritten()
        return EXIT_INPUT
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return 130
    except click.NoSuchOption as error:
        from kvplan.cli.meant import elsewhere, meant, nearest, typed

        option = typed(error.option_name, sys.argv[1:] if args is None else args)
        has = [name for one in error.ctx.command.params for name in one.opts] if error.ctx else []
        known = elsewhere(option, has, str(error.ctx and error.ctx.info_name)) or meant(option, has)
        near = nearest(option)
        tell(f"error: No such option: {option}; {known or (f'did you mean {near}?' if near else 'see --help')}")
        return EXIT_INPUT
    except click.MissingParameter as error:
        words = [one.name for one in error.ctx.command.params if isinstance(one, click.Argument)] if error.ctx else []
        if words not in (["model"], ["target", "model"]):
            return _usage(error)
        from kvplan.cli.meant import misplaced

        tell(f"error: {misplaced(_command(error), ())}")
        return EXIT_INPUT
    except TooMany as error:
        from kvplan.cli.meant import misplaced

        tell(f"error: {misplaced(_command(error), error.words, error.model)}")
        return EXIT_INPUT
    except click.ClickException as error:
        return _usage(error)
    except NoReader:
        _unwritten()
        return EXIT_DONE
    except Exception as error:
        absent = missing_module(error) if isinstance(error, ImportError) else None
        if absent is not None:
            tell(f"error: {absent}")
            return EXIT_INPUT
        tell(f"internal error: {type(error).__name__}: {error}; please report it with the command line")
        _unwritten()
        return EXIT_INTERNAL


def _usage(error: click.ClickException) -> int:
    """One line for a command line that is not understood; the help of a group that was named without a command."""
    import click

    from kvplan.cli.meant import valued
    from kvplan.cli.options import tell

    if isinstance(error, click.exceptions.NoArgsIsHelpError) or not isinstance(error, click.UsageError):
        shown = StringIO()
        error.show(shown)
        tell(shown.getvalue())
        return EXIT_INPUT
    said = valued(error) or " ".join(error.format_message().split()).rstrip(".")
    more = f"see kvplan {_command(error)}".rstrip() + " --help"
    tell(f"error: {said}{' ' if said.endswith('?') else '; '}{more}" if error.ctx else f"error: {said}")
    return EXIT_INPUT


def _command(error: click.UsageError) -> str:
    """The command that was typed, without the program: `models show`."""
    return error.ctx.command_path.partition(" ")[2] if error.ctx else ""


def _unwritten() -> None:
    """Drops what standard output would not take, so that it is not tried again, and complained about, at the end of the process."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
