"""List comprehensions over what is known: `[word for k, v in OPTIONS.items() for word in (f"--{k}", str(v))]`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from kvplan.manifests.literals import Open

MOST = 200  # words that one makes
Value = Callable[[ast.expr, Mapping[str, Any]], Any]


def unrolled(node: ast.ListComp, names: Mapping[str, Any], value: Value) -> Any:
    """Its words, `value` of each part with the names of its turn; Open where it goes over what is not known, or asks more than truth."""
    try:
        return [value(node.elt, turn) for turn in islice(_turns(node.generators, names, value), MOST)]
    except LookupError:
        return Open("a list")


def _turns(left: list[ast.comprehension], names: Mapping[str, Any], value: Value) -> Iterator[Mapping[str, Any]]:
    if not left:
        yield names
        return
    first, *rest = left
    for one in _over(first.iter, names, value):
        turn = {**names, **_bound(first.target, one)}
        if all(_holds(asked, turn, value) for asked in first.ifs):
            yield from _turns(rest, turn, value)


def _over(node: ast.expr, names: Mapping[str, Any], value: Value) -> list[Any]:
    """What it goes over: a list, a mapping's keys or its items. Raises LookupError."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
    held = value(node.func.value, names) if is_call and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if isinstance(held, dict) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return {"items": [list(pair) for pair in held.items()], "keys": [*held], "values": [*held.values()]}[node.func.attr]
    held = value(node, names)
    if isinstance(held, (list, dict)):
        return list(held)
    raise LookupError


def _bound(target: ast.expr, one: Any) -> dict[str, Any]:
    """The names of a turn. Raises LookupError."""
    if isinstance(target, ast.Name):
        return {target.id: one}
    if isinstance(target, ast.Tuple) and isinstance(one, list) and len(one) == len(target.elts):
        return {name: part for each, got in zip(target.elts, one, strict=True) for name, part in _bound(each, got).items()}
    raise LookupError


def _holds(asked: ast.expr, names: Mapping[str, Any], value: Value) -> bool:
    """Whether a turn counts: a name that is true, one that is open too. Raises LookupError for any other question."""
    if not isinstance(asked, ast.Name):
        raise LookupError
    return bool(value(asked, names))
