"""Values of Python's literals, and of what is open in them, as words of a command."""

from __future__ import annotations

import ast
import json
import operator
import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvplan.engines.common.words import Place, Word


class Open(NamedTuple):
    """A value that hangs on what is not in the file; `name` says on what."""

    name: str


TYPES = {"int": int, "float": float, "str": str, "bool": bool}  # as arguments of a program's own functions


def flat(parts: list[tuple[Any, bool]]) -> list[Any]:
    return [value for part, spread in parts for value in (part if spread and isinstance(part, list) else [part])]


def joined(parts: list[Any]) -> Any:
    """One text; with an open part, an Open text that shows it."""
    text = "".join(f"${part.name.replace(' ', '_')}" if isinstance(part, Open) else str(part) for part in parts)[:65_536]
    first = next((part.name for part in parts if isinstance(part, Open)), None)
    return text if first is None else Partly(text, first)


class Partly(str):
    """A text with an open part in it, which `name` names."""

    name: str

    def __new__(cls, text: str, name: str) -> Partly:
        made = super().__new__(cls, text)
        made.name = name
        return made


def operated(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Add) and isinstance(left, list) and isinstance(right, Open):
        return [*left, right]
    for one in (left, right):
        if isinstance(one, Open):
            return one
    if isinstance(op, ast.Add) and isinstance(left, list) and isinstance(right, list):
        return [*left, *right]
    if isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return joined([left, right])
    numbers = all(isinstance(one, (int, float)) and abs(one) < 1 << 50 for one in (left, right))
    if numbers and isinstance(op, (ast.Add, ast.Sub, ast.Mult)):
        return left + right if isinstance(op, ast.Add) else left - right if isinstance(op, ast.Sub) else left * right
    if numbers and right and isinstance(op, (ast.Div, ast.FloorDiv)):
        return left / right if isinstance(op, ast.Div) else left // right
    if isinstance(op, ast.Pow) and isinstance(left, int) and isinstance(right, int) and 0 < left <= 1024 and 0 <= right <= 60:
        return left**right if left**right < 1 << 62 else Open("a value")
    if isinstance(op, ast.Div) and isinstance(left, str) and isinstance(right, str):  # pathlib
        return f"{left}/{right}"
    return Open("a value")


def known(value: Any) -> bool | None:
    """Whether a value counts as true; None for what is not known."""
    return None if isinstance(value, (Open, Partly)) else bool(value)


def compared(sign: ast.cmpop, left: Any, right: Any) -> bool | None:
    """`==`, `!=`, `is`, `is not`, `in`, `<`, `>` and their like between two values that are known."""
    if isinstance(left, (Open, Partly)) or isinstance(right, (Open, Partly)):
        return None
    if isinstance(sign, (ast.Eq, ast.Is)):
        return bool(left == right)
    if isinstance(sign, (ast.NotEq, ast.IsNot)):
        return bool(left != right)
    if (
        isinstance(sign, (ast.In, ast.NotIn))
        and isinstance(right, (str, list, dict))
        and (isinstance(left, str) or not isinstance(right, str))
    ):
        return (left in (list(right) if isinstance(right, dict) else right)) == isinstance(sign, ast.In)
    numbers = all(isinstance(one, (int, float)) for one in (left, right))
    orders = {ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le}
    return bool(orders[type(sign)](left, right)) if numbers and type(sign) in orders else None


def cast(name: str, value: Any) -> Any:
    try:
        return value if isinstance(value, Open) else TYPES[name](value)
    except (TypeError, ValueError, OverflowError):
        return Open("a number")


def split(name: str, text: Any, asked: Sequence[Any]) -> Any:
    """What `split` and `rsplit` of a text, or shlex.split, make of it."""
    whole = asked[0] if name == "shlex.split" and asked else text if not asked else None
    if isinstance(whole, Partly):
        return [Partly(part, left[1]) if (left := re.search(r"\$([\w.]+)", part)) else part for part in whole.split()]
    if name == "shlex.split":
        return asked[0].split() if asked and type(asked[0]) is str and not re.search(r"[\"'\\\\]", asked[0]) else Open(name)
    plain = type(text) is str and all(type(one) in (str, int) for one in asked)
    return (text.rsplit if name.endswith("rsplit") else text.split)(*asked) if plain else Open(name)


def word(value: Any, place: Place) -> Word:
    if isinstance(value, type):  # a type as an argument of a program's own
        value = Open(value.__name__)
    if isinstance(value, (Open, Partly)):
        text = str(value) if isinstance(value, Partly) else f"${value.name}"
        return Word(text, place, (value.name,))
    return Word(str(value), place)


def shown(value: Any) -> Any:
    """A value for a file: what is open stands as a variable."""
    if isinstance(value, type):
        return f"${value.__name__}"
    if isinstance(value, Open):
        return f"${value.name}"
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    return [shown(one) for one in value] if isinstance(value, list) else value


def as_json(value: Any) -> str:
    """What json.dumps makes of it; with an open part, an open text that shows it."""
    text, name = json.dumps(shown(value), default=str)[:65_536], _open_part(value)
    return Partly(text, name) if name else text


def _open_part(value: Any) -> str:
    if isinstance(value, (Open, Partly)):
        return value.name
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((name for part in parts if (name := _open_part(part))), "")


def option(key: str, value: Any, place: Place) -> list[Word]:
    """One keyword as words of a command line."""
    option = f"--{key.replace('_', '-')}"
    if value is None:
        return []
    if value is True or (type(value) is str and value.lower() == "true"):  # a text that is not empty counts as true in Python
        return [Word(option, place)]
    if value is False:
        return [Word(f"--no-{option[2:]}", place)]
    if isinstance(value, (dict, list)):
        return [Word(option, place), word(as_json(value), place)]
    return [Word(option, place), word(value, place)]


def parse(text: str, mode: str = "exec") -> Any:
    """The tree of a module, or with mode `eval` of an expression; what the parser would warn of is nobody's here.

    Raises SyntaxError, ValueError, RecursionError, MemoryError.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(text, mode=mode)
