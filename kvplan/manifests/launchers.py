"""Python programs that start a server: the defaults of their own options (argparse), and what they set in their environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

#: Names that hold the answer of parse_args where the function is handed it.
HANDED = ("args", "opts", "options")


def asked(tree: ast.Module) -> dict[str, ast.expr]:
    """Options of `add_argument("--name", default=...)` -> their defaults; what the program insists on is left out."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"):
            continue
        names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        given = {k.arg: k.value for k in node.keywords if k.arg}
        if not any(name.startswith("-") for name in names) or _is(given.get("required"), True):
            continue
        dest = given.get("dest")
        own = str(dest.value) if isinstance(dest, ast.Constant) else max(names, key=len).lstrip("-").replace("-", "_")
        switch = next((value for word, value in (("store_true", False), ("store_false", True)) if _is(given.get("action"), word)), None)
        found[own] = given.get("default") or ast.Constant(switch)
    return found


def parsed(tree: ast.Module) -> set[str]:
    """The names that hold what parse_args answers."""
    found = (
        {*HANDED} if any(isinstance(n, ast.Attribute) and n.attr in ("parse_args", "parse_known_args") for n in ast.walk(tree)) else set()
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            found |= {t.id for t in node.targets if isinstance(t, ast.Name) and node.value.func.attr == "parse_args"}
    return found


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Functions by name, where only one has it."""
    every = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    names = [node.name for node in every]
    return {node.name: node for node in every if names.count(node.name) == 1}


def environment(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """`os.environ["NAME"] = "text"` of the module itself: name, text, line."""
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            continue
        for target in node.targets:
            key = target.slice if isinstance(target, ast.Subscript) else None
            holder = target.value if isinstance(target, ast.Subscript) else None
            if isinstance(key, ast.Constant) and isinstance(holder, ast.Attribute) and holder.attr == "environ":
                yield str(key.value), node.value.value, node.lineno


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value and type(node.value) is type(value)


def grown(node: ast.Expr, names: Mapping[str, Any]) -> tuple[str, str, ast.expr] | None:
    """`words.append(x)`, `words.extend(x)` of a list that is known: its name, which of them, what is added."""
    call = node.value
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.args):
        return None
    name, how = call.func.value.id, call.func.attr
    return (name, how, call.args[0]) if how in ("append", "extend") and isinstance(names.get(name), list) else None


def class_of(node: ast.Call) -> str:
    """`C(...)`, `C.bind(...)`, `C.options(...).bind(...)`: C."""
    func = node.func
    while isinstance(func, ast.Attribute) and func.attr in ("bind", "remote", "deploy"):
        func = func.value
        if isinstance(func, ast.Call):
            func = func.func
            func = func.value if isinstance(func, ast.Attribute) and func.attr == "options" else func
    return func.id if isinstance(func, ast.Name) else ""


def given(call: ast.Call, names: Sequence[str]) -> Iterator[tuple[str, ast.expr]]:
    """Parameter -> what a call gives it; what stands behind `*rest` may be any of those that follow."""
    for n, value in enumerate(call.args[: len(names)]):
        if isinstance(value, ast.Starred):
            yield from ((name, ast.Name(ast.unparse(value), ast.Load())) for name in names[n:])
            break
        yield names[n], value
    yield from ((k.arg, k.value) for k in call.keywords if k.arg)


def left_over(tree: ast.Module) -> list[ast.AST]:
    """Lists that the module names and does not use itself: others import them."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    named = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)]
    return [node.value for node in named if not {t.id for t in node.targets if isinstance(t, ast.Name)} & used]


def calls(node: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a statement, without those of the blocks inside it."""
    parts = [child for name, child in ast.iter_fields(node) if name not in ("body", "orelse", "finalbody", "handlers")]
    for part in parts:
        for one in part if isinstance(part, list) else [part]:
            if isinstance(one, ast.AST):
                yield from (inner for inner in ast.walk(one) if isinstance(inner, ast.Call))


def bodies(node: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """The blocks of a statement."""
    for name in ("body", "orelse", "finalbody"):
        if isinstance(block := getattr(node, name, None), list):
            yield block
    for handler in getattr(node, "handlers", ()):
        yield handler.body


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an expression of names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ".".join(reversed(parts))


@contextmanager
def inside(within: list[ast.AST], node: ast.AST) -> Iterator[None]:
    """What is read meanwhile stands in this function: a call of itself is read no further."""
    within.append(node)
    yield
    within.pop()
