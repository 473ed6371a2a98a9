"""What a shell makes of a known text: `${X##*/}`, `$(( ))`, and the commands that scripts ask for a folder, a file's name or a count."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from kvplan.engines.common.words import Word
from kvplan.manifests.literals import parse

MAX_TEXT = 4096
_DEFAULTED = re.compile(r"\$\{([A-Za-z_]\w*):?-(\d+)\}")
_NUMBER = re.compile(r"\$?\{?\b([A-Za-z_]\w*)\}?")
PART_OF = re.compile(r"""\s*(basename|dirname)\s+["']?\$\{?([A-Za-z_]\w*)\}?["']?(?:\s+["']?(\.\w+)["']?)?\s*""")
#: `$(echo "$GPUS" | tr ',' '\\n' | wc -l)`, `$(awk -F, '{print NF}' <<< "$GPUS")`: how many a list names.
_COUNTED = (
    r"""echo\s+(?:-n\s+)?{}\s*\|\s*tr\s+["']?,["']?\s+["']?\\\\?n["']?\s*\|\s*wc\s+-[lw]""",
    r"""echo\s+{}\s*\|\s*awk\s+-F\s*["']?,["']?\s+["']\{{\s*print NF\s*\}}["']""",
    r"""awk\s+-F\s*["']?,["']?\s+["']\{{\s*print NF\s*\}}["']\s*<<<\s*{}""",
)
COUNTED = re.compile("|".join(one.format(r"""["']?\$\{?([A-Za-z_]\w*)\}?["']?""") for one in _COUNTED))


def cut(text: str, operation: str) -> str | None:
    """What POSIX sh and bash make of a variable's text (2.6.2, "Parameter Expansion"); None for what is not read here."""
    if operation in (",,", "^^"):
        return text.lower() if operation == ",," else text.upper()
    if match := re.fullmatch(r"//?([^/*?\[\]]{1,80})/([^*?$`]{0,80})", operation, re.DOTALL):
        return text.replace(match[1], match[2]) if operation.startswith("//") else text.replace(match[1], match[2], 1)
    match = re.fullmatch(r"(##?|%%?)(.{1,80})", operation, re.DOTALL)
    if match is None or re.search(r"[$`\\\[\]]", match[2]) or len(text) > MAX_TEXT:
        return None
    pattern = re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in match[2]), re.DOTALL)
    sizes = range(len(text) + 1)
    longest, front = len(match[1]) == 2, match[1][0] == "#"
    order = reversed(sizes) if longest else sizes
    n = next((n for n in order if pattern.fullmatch(text[:n] if front else text[len(text) - n :])), 0) if match[2].count("*") < 3 else None
    return None if n is None else text[n:] if front else text[: len(text) - n]


def own_folder(command: str) -> str | None:
    """The folder of the script itself, as scripts find it: `cd "$(dirname "$0")" && pwd`, `dirname "$(readlink -f "$0")"`, `pwd`."""
    text = re.sub(r"[\"']|--|2>\s*/dev/null|>\s*/dev/null|&>\s*/dev/null|-[PLef]\b", "", command)
    text = re.sub(r"\$\{BASH_SOURCE(\[0\])?(:-\$0)?\}|\$BASH_SOURCE|\$\{0\}|\$\{\(%\):-%[xN]\}", "$0", text)
    text = re.sub(r"\s+", " ", text).strip()
    for _ in range(3):
        text = re.sub(r"\$\((readlink|realpath) \$0\)", "$0", text)
        text = re.sub(r"\$\(dirname \$0\)|\$\{0%/\*\}", ".", text).replace("$(pwd)", ".").replace("$PWD", ".")
    if text in ("dirname $0", "pwd", "dirname $(readlink $0)"):
        return "."
    match = re.fullmatch(r"(?:cd (\.[./\w-]*) ?(?:&&|;) ?pwd|(?:realpath|readlink) (\.[./\w-]*)|dirname (\.))", text)
    if match is None:
        return None
    return match[1] or match[2] or ".."


def shown(command: str) -> str:
    """A command whose output is not known, short, and such that it can be read as shell text again."""
    text = command.strip()[:40]
    program = re.split(r"[^\w./-]", text)[0] or "command"
    return f"$({program})" if re.search(r"[\"'`()\\]", text) else f"$({text})"


def arithmetic(text: str, held: Mapping[str, Word]) -> tuple[int | None, tuple[str, ...]]:
    """What `$(( ))` comes to, over whole numbers and variables that hold them, and the variables that do not; None where it is open."""
    missing: list[str] = []

    def number(match: re.Match[str]) -> str:
        word = held.get(match[1])
        if word is not None and not word.missing and word.text.strip().isdecimal():
            return word.text.strip()[:12]
        missing.append(match[1])
        return "0"

    plain = _NUMBER.sub(number, _DEFAULTED.sub(lambda m: m[0] if m[1] in held else m[2], text).strip())
    return (None if missing else calculate(plain)), tuple(missing)


def calculate(text: str) -> int | None:
    """Whole numbers with + - * / % and brackets, as a shell reckons; None for anything else."""
    if len(text) > 200 or not re.fullmatch(r"[\d\s+*/%()-]+", text) or "**" in text:
        return None

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
        raise ValueError

    try:
        return value(parse(text.strip().replace("//", "? ").replace("/", "//"), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
