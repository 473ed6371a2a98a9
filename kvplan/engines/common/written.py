"""A question as an engine's words, variables and configuration file: its table read backwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.deployment import NAMES
from kvplan.dtypes import ALIASES
from kvplan.engines.common.arguments import Argument, Arguments, has
from kvplan.engines.common.choices import spoken
from kvplan.engines.common.command_line import read
from kvplan.engines.common.kinds import KINDS, truth, written
from kvplan.engines.common.passed import named
from kvplan.engines.common.passed import variable as variable_of
from kvplan.engines.common.words import words as as_words
from kvplan.errors import SpecError, UnsupportedError

#: Sizes whose value 1 is what an engine does unasked.
SIZES = ("tp", "pp", "dp", "ep", "dcp")


class Written(NamedTuple):
    """What starts an engine. `said`: names of the question that it carries; `aside`: engine options that nothing of it says.

    config   the tree of its configuration file, where some of it stands there
    """

    words: tuple[str, ...]
    env: Mapping[str, str]
    config: Mapping[str, Any]
    said: frozenset[str]
    aside: Mapping[str, str]


def write(table: Arguments, asked: Mapping[str, Any], version: str | None, *, checked: bool = True) -> Written:
    """The question `asked` (engine options as `option:KEY`) for a release.

    checked  whether what the engine would stop at is refused

    Raises UnsupportedError for what the engine can not be told or would stop at, SpecError for an option whose value is none of its kind.
    """
    says, said = table.say(asked)
    aside: dict[str, str] = {}
    direct: dict[str, Any] = {}
    more: list[str] = []
    env: dict[str, str] = {}
    for name in sorted(asked, key=lambda name: (name.startswith("option:"), list(NAMES).index(name) if name in NAMES else 0)):
        if name in said:
            continue
        value, key = asked[name], name.removeprefix("option:")
        if (name in SIZES and value == 1) or value is False:
            said = said | {name}
        elif find(table, name, value, version) is not None:
            direct[name] = value
        elif key == name:
            continue
        elif row := _passed(table, key, version):
            if row.names and not _can_say(row, value):  # a flag that is off is not written
                said = said | {name}
            elif row.names:
                more += _words(row, value)
            else:
                env[row.variables[0]] = str(value)
        elif variable := variable_of(table, key):
            env[variable] = str(value)
        else:
            aside[key] = str(value)
    words: list[str] = []
    config: dict[str, Any] = {}
    for to, value in {**direct, **says}.items():
        row = find(table, to, value, version)
        if row is None or (row.key and table.config == "modelfile"):
            raise UnsupportedError(f"{table.name} has no option for {to.removeprefix('option:').lstrip('@')}; leave it out of the plan")
        if row.names:
            words += _words(row, value)
        elif row.variables:
            env[row.variables[0]] = _text(row, value)
        else:
            _put(config, row.key.split("."), _plain(row, value))
    words += more
    if checked:
        _refuse_what_stops(table, words, version)
    return Written(tuple(words), env, config, frozenset(said | set(direct)), aside)


def _put(config: dict[str, Any], path: list[str], value: Any) -> None:
    """A value into a tree of mappings."""
    for part in path[:-1]:
        config = config.setdefault(part, {})
    config[path[-1]] = value


def _refuse_what_stops(table: Arguments, words: list[str], version: str | None) -> None:
    """Raises UnsupportedError for words that the release itself would stop at: what is written is read back."""
    for finding in read(table, as_words(*words), {}, version).findings:
        if finding.stops:
            raise UnsupportedError(f"{table.name} would be told {' '.join(words)}: {finding.as_stop}")


def _passed(table: Arguments, key: str, version: str | None) -> Argument | None:
    """The row of an option that no name of a question stands for (passed.py)."""
    return next((row for row in named(table, key) if (row.names or row.variables) and has(table, row, version)), None)


def find(table: Arguments, to: str, value: Any, version: str | None) -> Argument | None:
    """The row that says a value: of those the release has, else of all; None where none can say it."""
    rows = [row for row in table.rows if row.to == to and _can_say(row, value)]
    found = next((row for row in rows if has(table, row, version)), rows[0] if rows else None)
    return found and spoken(table, found, version)


def _can_say(row: Argument, value: Any) -> bool:
    """A flag says one value alone, and a variable that is on or off no third."""
    if row.takes != "flag":
        return True
    return _bool(row, value) == bool(row.value) if row.names else str(value).lower() != "auto"


def _words(row: Argument, value: Any) -> list[str]:
    name = next((name for name in row.names if name.startswith("--")), row.names[0])
    if row.takes == "flag":
        return [name]
    if row.takes == "switch":
        return [name if _bool(row, value) == bool(row.value) else f"--no-{name[2:]}"]
    if row.takes == "many" and isinstance(value, list):
        return [name, *(_text(row, one) for one in value)]
    return [name, _text(row, value)]


def _text(row: Argument, value: Any) -> str:
    """A value as the row's kind writes it; the text of an option is read first, so that nothing but a value of its kind is written."""
    if row.takes in ("flag", "switch"):
        return "1" if _bool(row, value) else "0"
    kind = KINDS[row.kind]
    if row.kind == "compute":  # our names of a format are others than torch's
        value = kind.write(value)
    try:
        text = kind.write(kind.read(value) if isinstance(value, str) else value)
    except ValueError as error:
        raise _fault(row, error) from None
    return row.says.get(text) or row.says.get(ALIASES.get(text, text)) or text


def _plain(row: Argument, value: Any) -> Any:
    """A value of a configuration file."""
    if value is None or isinstance(value, (dict, list)):
        return value
    if row.takes in ("flag", "switch") or row.kind == "truth":
        return _bool(row, value)
    text = _text(row, value)
    if row.kind == "counts":
        return [int(part) for part in text.split(",")]
    return KINDS[row.kind].read(text) if row.kind in ("int", "human", "si", "float") else text


def _bool(row: Argument, value: Any) -> bool:
    try:
        return value if isinstance(value, bool) else truth(written(value))
    except ValueError as error:
        raise _fault(row, error) from None


def _fault(row: Argument, error: ValueError) -> Exception:
    if row.to.startswith("option:"):
        return SpecError("engine_option", [(row.to[7:], str(error))])
    return UnsupportedError(f"{row.to}: {error}")
