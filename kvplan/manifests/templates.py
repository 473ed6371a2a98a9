"""Texts that another tool fills in first: Jinja's `{{ name }}` (Ansible's templates, by their name), Python's `{name}` (recipes).

A name without a value becomes `${name}`, which every reader leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvplan.engines.common.words import Finding, Place, Unresolved
from kvplan.errors import SpecError

_NAME = re.compile(r"\.(j2|jinja2?|tpl|tftpl|tmpl|template|in|dist|example|sample)$", re.IGNORECASE)
_JINJA = re.compile(r"\.(j2|jinja2?)$", re.IGNORECASE)
MOST_MARKS = 2_000
_ASIDE = re.compile(r"\{#.{0,4000}?#\}|\{%.{0,4000}?%\}", re.DOTALL)
_MACRO = re.compile(r"\{%-?\s*macro\b.{0,20000}?\bendmacro\s*-?%\}", re.DOTALL)
_CHOICE = re.compile(r"\{%-?\s*(if|for|macro|include|set)\b")
_MANAGED = re.compile(r"^\{\{-?\s*(?:[^{}\n]*\bansible_managed\b|\w+\()[^{}\n]*\}\}", re.MULTILINE)  # or a macro that is called
_BLOCK = re.compile(r"\{%-?\s*(if|elif|else|endif|for|endfor)\b.{0,4000}?%\}", re.DOTALL)
_SET = re.compile(r"\{%-?\s*set\s+(\w+)\s*=\s*(.{1,400}?)-?%\}", re.DOTALL)
_VALUE = re.compile(r"\{\{-?(.{0,2000}?)\}\}", re.DOTALL)
_DEFAULT = re.compile(r"""[\w.]+\s*\|\s*default\(\s*(?:'([^'{}]*)'|"([^"{}]*)"|(-?\d[\w.]*|\w+))\s*(?:,\s*true\s*)?\)""", re.IGNORECASE)
_LITERAL = re.compile(r"""'([^'{}]*)'|"([^"{}]*)"|(-?\d[\w.]*)""")
_MARK = re.compile(r"\{\{\{?[ \t]*([A-Za-z_]\w*)[ \t]*\}?\}\}")
_DIRECTIVE = re.compile(r"^[ \t]*%\{[^{}\n]*\}[ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"\{\{|\}\}|(?<!\$)\{([A-Za-z_]\w*)\}")


def unmarked(text: str) -> str:
    """A text that YAML does not read for its Mustache marks (`{{NAME}}`, `{{{NAME}}}`), with each as `${NAME}`, and without Terraform's
    directives (`%{ if NAME ~}`), whose branches are all left; other marks stay."""
    return _DIRECTIVE.sub("", _MARK.sub(r"${\1}", text))


def plain_name(source: str) -> str:
    """The name that the filled-in text will have: `vllm.service.j2` is a vllm.service."""
    return _NAME.sub("", source)


def filled(text: str, source: str, *, last: bool = False) -> str:
    """A template's text with its names open and its remarks, branches and loops taken out; the lines stay where they are.

    last  of `{% if %} ... {% else %} ...` the last branch alone
    """
    if not _JINJA.search(source):
        return text if source == plain_name(source) or "{{" in text else formatted(text, {}, "${%s}")
    if sum(text.count(mark) for mark in ("{{", "{%", "{#")) > MOST_MARKS:
        raise SpecError(source, [("", f"more than {MOST_MARKS:,} marks of a template; no manifest has so many")])
    text = _MACRO.sub(_apart, text)
    text = _MANAGED.sub("# made from a template", text)
    text = _lasts(text, inline=not last)
    sets = {name: value for name, expression in _SET.findall(text) if "$" not in (value := _value(expression))}
    text = _ASIDE.sub(_apart, text)
    return _VALUE.sub(lambda m: sets.get(m[1].strip("- "), _value(m[1])) + "\n" * m[0].count("\n"), text)


def _lasts(text: str, *, inline: bool) -> str:
    """Of branches that exclude each other the last; the lines of the others are empty. `inline`: of those alone that end in their line."""
    opened, gone = list[int](), list[tuple[int, int]]()
    for mark in _BLOCK.finditer(text):
        if mark[1] in ("if", "for"):
            opened.append(mark.end() if mark[1] == "if" else -1)
        elif mark[1].startswith("end"):
            opened = opened[:-1]
        elif opened and opened[-1] >= 0:  # `{% for %} ... {% else %}` has a last branch that is none
            if not (inline and "\n" in text[opened[-1] : mark.start()]):
                gone.append((opened[-1], mark.start()))
            opened[-1] = mark.end()
    at, parts = 0, list[str]()
    for start, end in sorted(gone, key=lambda span: (span[0], -span[1])):
        if start >= at:
            parts += [text[at:start], "\n" * text.count("\n", start, end)]
            at = end
    return "".join([*parts, text[at:]])


def _apart(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()]
    return "\n" * match[0].count("\n") or (" " if before.strip() else "")


def said(text: str, source: str) -> tuple[tuple[Finding, ...], tuple[Unresolved, ...]]:
    """What is to be said of it: values that are filled in elsewhere, and branches of which all are read."""
    if not _JINJA.search(source):
        return (), ()
    message = "a template of Jinja: what fills in {{ }} is not read, and a default of its own stands where it has one"
    findings = (Finding("template", "note", message, Place(1)),)
    choice = _CHOICE.search(text)
    if choice is None:
        return findings, ()
    place = Place(text.count("\n", 0, choice.start()) + 1)
    why = "{% %} is not evaluated: what stands in its branches is read (of two that exclude each other the last), and a loop once"
    return findings, (Unresolved("template", why, "check the text that it is filled in to", place),)


def _value(expression: str) -> str:
    expression = expression.removesuffix("-").strip()
    if match := _DEFAULT.fullmatch(expression) or _LITERAL.fullmatch(expression):
        return next(group for group in match.groups() if group is not None)
    name = re.match(r"[A-Za-z_][\w.]*", expression)
    return f"${{{name[0].replace('.', '_') if name else 'value'}}}"


def formatted(text: str, values: Mapping[str, str], left: str = "{{%s}}") -> str:
    """As str.format makes it of these values: `{{` is a brace. `left`: what becomes of a name without a value."""

    def replace(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else values.get(match[1], left % match[1])

    return _FIELD.sub(replace, text)
