"""Nix expressions as values: NixOS modules, home-manager and flakes, as far as they name commands, containers and options of engines.

nix.dev/manual/nix (language): sets, lists, strings and indented strings with `${}`, `let`, `rec`, `with`, `//`, `++`, functions. Names of
the file stand for their values; of lib's functions a few that put words together are known, and all else is open. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.engines.common.words import Place
from kvplan.errors import SpecError
from kvplan.manifests.budget import CHARACTERS, spend
from kvplan.manifests.literals import operated
from kvplan.manifests.marked import Item

MAX_TOKENS, MAX_DEPTH = 60_000, 60
_TOKEN = re.compile(
    r"(?P<skip>\s+|\#[^\n]*|/\*.*?\*/)|(?P<long>'')|(?P<quote>\")|(?P<number>-?\d+(\.\d+)?)(?![\w-])"
    r"|(?P<path>(~|\.{1,2})?(/[\w.+-]+)+|<[\w./-]+>)|(?P<name>[A-Za-z_][\w'-]*)|(?P<sign>\.\.\.|\+\+|//|==|!=|<=|>=|&&|\|\||->|.)",
    re.DOTALL,
)
_OPERATORS = frozenset({"++", "//", "+", "==", "!=", "<=", ">=", "<", ">", "&&", "||", "->", "-", "*", "/", "?"})
_ENDS = frozenset({";", ")", "]", "}", ",", "then", "else", "in", ""})
_SIGNS = {"*": ast.Mult(), "+": ast.Add(), "-": ast.Sub()}


class _Node(NamedTuple):
    """kind: text, list, set, name, apply, sign, let, function, choice, open; parts: what it is made of; style: of a
    text its quotes, of a function the name of what it takes."""

    kind: str
    parts: Any
    line: int
    end: int = 0
    style: str = ""


class _Scope(NamedTuple):
    names: Mapping[str, tuple[_Node, Any]]


def is_nix(source: str) -> bool:
    """By its name."""
    return source.lower().endswith(".nix")


def tree(text: str, source: str) -> Item:
    """The value of the whole expression. Raises SpecError where it is no Nix that can be read."""
    parser = _Parser(text, source)
    node = parser.expression(0)
    return _value(node, _Scope({}), 0)


class _Parser:
    """One pass over the text; local to tree."""

    def __init__(self, text: str, source: str) -> None:
        self._text, self._source, self._at, self._line, self._n = text, source, 0, 1, 0
        self._held: tuple[str, str, int] | None = None

    def _fault(self, message: str) -> SpecError:
        return SpecError(self._source, [(f"line {self._line}", message)])

    def _read(self) -> tuple[str, str, int]:
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            assert match is not None  # the last of its choices is any character
            self._at = match.end()
            line = self._line
            self._line += match[0].count("\n")
            self._n += 1
            if self._n > MAX_TOKENS:
                raise self._fault(f"more than {MAX_TOKENS:,} words; check it in parts")
            if match.lastgroup != "skip" and match["skip"] is None:
                kind = next(key for key in ("long", "quote", "number", "path", "name", "sign") if match[key] is not None)
                return kind, match[0], line
        return "end", "", self._line

    def _next(self) -> tuple[str, str, int]:
        token, self._held = self._held or self._read(), None
        return token

    def _peek(self) -> tuple[str, str, int]:
        self._held = self._held or self._read()
        return self._held

    def _take(self, text: str) -> bool:
        if self._peek()[1] == text and self._peek()[0] in ("sign", "name"):
            self._next()
            return True
        return False

    def expression(self, depth: int) -> _Node:
        """A function, `let`, `if`, `with`, `assert`, or operators over applications."""
        spend(1, self._line)
        _, text, line = self._peek()
        if text == "let":
            self._next()
            names = self._bindings("in", depth + 1)
            return _Node("let", (names, self.expression(depth + 1)), line)
        if text in ("with", "assert"):
            self._next()
            self.expression(depth + 1)
            self._take(";")
            return self.expression(depth + 1)
        if text == "if":
            self._next()
            self.expression(depth + 1)
            self._take("then")
            first = self.expression(depth + 1)
            self._take("else")
            return _Node("choice", (first, self.expression(depth + 1)), line)
        left = self._applied(depth + 1)
        if self._take(":"):
            named = left.parts[0] if left.kind == "name" and len(left.parts) == 1 else ""
            return _Node("function", self.expression(depth + 1), line, style=named)
        while self._peek()[0] == "sign" and self._peek()[1] in _OPERATORS:
            sign = self._next()[1]
            left = _Node("sign", (sign, left, self._applied(depth + 1)), line)
        return left

    def _applied(self, depth: int) -> _Node:
        parts = [self._one(depth)]
        while self._peek()[1] not in _ENDS | _OPERATORS | {":", "=", "@"} and self._peek()[0] != "end":
            parts.append(self._one(depth))
        if self._take("@"):
            self._one(depth)
        return parts[0] if len(parts) == 1 else _Node("apply", parts, parts[0].line)

    def _one(self, depth: int) -> _Node:
        """A value that needs no brackets in a list, with the attributes picked from it."""
        if depth > MAX_DEPTH:
            raise self._fault("nested too deep")
        kind, text, line = self._next()
        node = _Node("open", text, line)
        if kind in ("quote", "long"):
            node = self._string(kind, line, depth + 1)
        elif kind in ("number", "path"):
            node = _Node("text", [text], line, line)
        elif text == "(":
            node = self.expression(depth + 1)
            self._take(")")
        elif text == "[":
            parts = []
            while self._peek()[1] != "]" and self._peek()[0] != "end":
                parts.append(self._one(depth + 1))
            node = _Node("list", parts, line, self._next()[2])
        elif text == "{" or (text == "rec" and self._take("{")):
            node = self._set(line, depth + 1, own=text == "rec")
        elif text in ("!", "-"):
            self._one(depth + 1)
        elif text == "$" and self._take("{"):
            self.expression(depth + 1)
            self._take("}")
        elif kind == "name":
            node = _Node("name", [text], line)
        picked = list[str]()
        while self._peek()[1] == "." and self._peek()[0] == "sign":
            self._next()
            picked.append(self._key(depth))
        if picked:
            node = _Node("name", [*node.parts, *picked], line) if node.kind == "name" else _Node("open", ".".join(picked), line)
        if self._peek()[1] == "or" and self._take("or"):
            self._one(depth + 1)
        return node

    def _key(self, depth: int) -> str:
        kind, text, line = self._next()
        if kind in ("quote", "long"):
            return "".join(part if isinstance(part, str) else "_" for part in self._string(kind, line, depth).parts)
        if text == "$" and self._take("{"):
            self.expression(depth + 1)
            self._take("}")
            return "_"
        return text

    def _set(self, line: int, depth: int, *, own: bool) -> _Node:
        """A set, or the names that a function takes."""
        held = (self._at, self._line, self._held)
        first, second = self._next(), self._peek()
        if first[1] == "..." or (first[0] == "name" and second[1] in (",", "?", "}") and first[1] != "inherit"):
            level = 1
            self._at, self._line, self._held = held
            while level and self._peek()[0] != "end":
                level += {"{": 1, "}": -1}.get(self._next()[1], 0)
            return _Node("open", "arguments", line)
        self._at, self._line, self._held = held
        names = self._bindings("}", depth)
        return _Node("set", (names, own), line, self._line)

    def _bindings(self, end: str, depth: int) -> list[tuple[list[str], _Node, int]]:
        found: list[tuple[list[str], _Node, int]] = []
        while self._peek()[1] != end:
            if self._peek()[0] == "end":
                raise self._fault(f"{end!r} is missing")
            line = self._peek()[2]
            key = self._key(depth)
            if key == "inherit":
                while self._peek()[1] != ";" and self._peek()[0] != "end":
                    self._one(depth + 1)
                self._take(";")
                continue
            path = [key]
            while self._take("."):
                path.append(self._key(depth))
            if not self._take("="):
                raise self._fault(f"{'.'.join(path)[:60]} is followed by {self._peek()[1][:20]!r}, not by =")
            found.append((path, self.expression(depth + 1), line))
            self._take(";")
        self._next()
        return found

    def _string(self, kind: str, line: int, depth: int) -> _Node:
        """A string up to its end: texts, and what stands in `${}`."""
        parts: list[Any] = []
        text, at, began = self._text, self._at, line
        plain: list[str] = []
        while True:
            if at >= len(text):
                raise SpecError(self._source, [(f"line {line}", "a string is not ended")])
            two = text[at : at + 2]
            if kind == "quote" and text[at] == "\\":
                plain.append({"n": "\n", "t": "\t"}.get(two[1:], two[1:]))
                at += 2
            elif kind == "long" and two == "''" and text[at + 2 : at + 3] in ("'", "$", "\\"):
                mark = text[at + 2]
                plain.append({"'": "''", "$": "$"}.get(mark, {"n": "\n", "t": "\t"}.get(text[at + 3 : at + 4], "")))
                at += 4 if mark == "\\" else 3
            elif two == "$$":
                plain.append(two)
                at += 2
            elif two == "${":
                parts += ["".join(plain)]
                plain = []
                self._line, self._at, self._held = line + text.count("\n", self._at, at), at + 2, None
                parts.append(self.expression(depth + 1))
                line = self._line
                if not self._take("}"):
                    raise self._fault("a ${ in a string is not ended")
                at = self._at
            elif (kind == "quote" and text[at] == '"') or (kind == "long" and two == "''"):
                end = at + (1 if kind == "quote" else 2)
                break
            else:
                plain.append(text[at])
                at += 1
        self._line, self._held = (self._line if parts else line) + text.count("\n", self._at, end), None
        self._at = end
        return _Node("text", [*parts, "".join(plain)], began, self._line, "|" if kind == "long" else "")


def _value(node: _Node, scope: _Scope, depth: int) -> Item:
    """What an expression is worth, as far as the file says it."""
    spend(1, node.line)
    if depth > MAX_DEPTH:
        return _open(node, "value")
    if node.kind == "text":
        parts = [part if isinstance(part, str) else _part(part, scope, depth + 1) for part in node.parts if part]
        spend(sum(len(part if isinstance(part, str) else part.text) for part in parts) // CHARACTERS, node.line)
        if len(parts) == 1 and isinstance(parts[0], Item):  # "${script}"
            return parts[0]
        text = "".join(part if isinstance(part, str) else _shown(part) for part in parts)
        text = _unindented(text) if node.style else text
        return Item(text, text, Place(node.line), node.end, node.style)
    if node.kind == "list":
        return Item([_value(part, scope, depth + 1) for part in node.parts], "", Place(node.line), node.end)
    if node.kind == "set":
        names, own = node.parts
        inner = _within(names, scope) if own else scope
        return Item(_merged(names, inner, depth), "", Place(node.line), node.end)
    if node.kind == "let":
        names, body = node.parts
        return _value(body, _within(names, scope), depth + 1)
    if node.kind == "function":
        return _value(node.parts, scope, depth + 1)
    if node.kind == "choice":  # a branch that throws is none
        left = [one for one in node.parts if not (one.kind == "apply" and one.parts[0].parts in (["throw"], ["abort"]))]
        return _value(left[0], scope, depth + 1) if len(left) == 1 else _open(node, "value")
    if node.kind == "name":
        return _named(node, scope, depth)
    if node.kind == "sign":
        return _joined(node, scope, depth)
    return _called(node, scope, depth) if node.kind == "apply" else _open(node, node.parts if isinstance(node.parts, str) else "value")


def _part(node: _Node, scope: _Scope, depth: int) -> Item:
    """What stands in a text; a package there is its path, by the name that it has."""
    item = _value(node, scope, depth)
    return _open(node, ".".join(node.parts)) if node.kind == "name" and not item.text else item


def _within(names: list[tuple[list[str], _Node, int]], scope: _Scope) -> _Scope:
    held: dict[str, tuple[_Node, Any]] = dict(scope.names)
    inner = _Scope(held)
    held |= {path[0]: (node, inner) for path, node, _ in names if len(path) == 1}
    return inner


def _merged(names: list[tuple[list[str], _Node, int]], scope: _Scope, depth: int) -> dict[str, Item]:
    """The attributes of a set; `a.b = x` and `a.c = y` are of one set a."""
    found: dict[str, Item] = {}
    for path, node, line in names:
        item = _value(node, scope, depth + 1)
        for key in reversed(path[1:]):
            item = Item({key: item}, "", Place(line), item.end_line)
        before = found.get(path[0])
        found[path[0]] = _over(before, item) if before is not None else item
    return found


def _over(first: Item, second: Item) -> Item:
    """Two sets of one name; of anything else the second."""
    if not (isinstance(first.value, dict) and isinstance(second.value, dict)):
        return second
    both = {**first.value, **{k: _over(first.value[k], v) if k in first.value else v for k, v in second.value.items()}}
    return Item(both, "", first.place, max(first.end_line, second.end_line))


def _named(node: _Node, scope: _Scope, depth: int) -> Item:
    first, *rest = node.parts
    if first in ("true", "false", "null"):
        return Item({"true": True, "false": False}.get(first), first if first != "null" else "", Place(node.line), node.line)
    if first not in scope.names:
        return _open(node, ".".join(node.parts))
    bound, inner = scope.names[first]
    item = _value(bound, inner, depth + 1).get(*rest)
    return item if item.text or isinstance(item.value, (dict, list, bool)) else _open(node, ".".join(node.parts))


def _joined(node: _Node, scope: _Scope, depth: int) -> Item:
    sign, *sides = node.parts
    left, right = (_value(side, scope, depth + 1) for side in sides)
    end = max(left.end_line, right.end_line)
    if sign == "//" and isinstance(left.value, dict) and isinstance(right.value, dict):
        return Item({**left.value, **right.value}, "", left.place, end)
    if sign == "++":
        parts = [one for side in (left, right) for one in (side if isinstance(side.value, list) else [side])]
        spend(len(parts) // 4, node.line)
        return Item(parts, "", left.place, end)
    if sign in ("*", "+", "-") and left.text.isdecimal() and right.text.isdecimal():
        result = str(operated(_SIGNS[sign], int(left.text[:12]), int(right.text[:12])))
        return Item(result, result, left.place, end)
    if sign == "+" and isinstance(left.value, str) and isinstance(right.value, str):
        return Item(left.text + right.text, left.text + right.text, left.place, end, left.style)
    return next((one for one in (left, right) if sign == "//" and isinstance(one.value, dict)), _open(node, "value"))


def _called(node: _Node, scope: _Scope, depth: int) -> Item:
    """`lib.mkIf c { }`, `pkgs.writeShellScript n ''x''`, `toString x` and their like: the argument that holds what is meant."""
    first, *arguments = node.parts
    name = first.parts[-1] if first.kind == "name" else ""
    if len(first.parts) == 1 and name in scope.names and (own := _own(*scope.names[name], arguments, scope, depth)) is not None:
        return own
    given = [_value(one, scope, depth + 1) for one in arguments[:6]]
    last = given[-1]
    if name == "fetchurl" and last.get("url").text:
        return last.get("url")
    whole = isinstance(last.value, dict) and any(isinstance(one.value, dict) for one in last.value.values())
    if name.startswith("optional") and not whole:  # only where a condition holds; a whole server is read all the same
        return _open(node, "optional")
    if name in ("concatStringsSep", "escapeShellArgs", "concatStrings", "toGNUCommandLineShell") and isinstance(last.value, list):
        between = given[0].text if name == "concatStringsSep" else "" if name == "concatStrings" else " "
        text = between.join(_shown(one) for one in last)
        return Item(text, text, last.place, last.end_line)
    known = name in ("toString", "getExe'", "escapeShellArg") or isinstance(last.value, (dict, list)) or last.style or name.startswith("mk")
    return last if known else _open(node, name or "value")


def _own(function: _Node, inner: _Scope, arguments: list[_Node], scope: _Scope, depth: int) -> Item | None:
    """What a function of the file makes of its arguments; None where it takes a set, or more of them."""
    for one in arguments:
        if function.kind != "function" or not function.style:
            return None
        inner = _Scope({**inner.names, function.style: (one, scope)})
        function = function.parts
    return _value(function, inner, depth + 1) if function.kind != "function" else None


def _shown(item: Item) -> str:
    """A value in a text; a script stands there by its path."""
    return item.text if isinstance(item.value, (str, bool)) and "\n" not in item.text else "${value}"


def _open(node: _Node, name: str) -> Item:
    """What the file does not say, as a variable of that name."""
    text = "${" + (re.sub(r"\W+", "_", name).strip("_") or "value")[:60] + "}"
    return Item(text, text, Place(node.line), node.end or node.line)


def _unindented(text: str) -> str:
    """An indented string without the blanks that all of its lines begin with."""
    lines = text.split("\n")
    lines = lines[1:] if not lines[0].strip() else lines
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines)
