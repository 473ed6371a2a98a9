"""PowerShell and batch files, as far as they are shell text in another spelling: line for line, so that places stay true.

Continuations (a backquote, `^`), variables (`$env:NAME = ...`, `$name = ...`, `set NAME=...`, `%NAME%`), comments, `&` before a program.
"""

from __future__ import annotations

import re

_POWERSHELL = re.compile(r"\.ps1$", re.IGNORECASE)
_BATCH = re.compile(r"\.(bat|cmd)$", re.IGNORECASE)
_SET = re.compile(r"""^\s*set\s+(?:/[aA]\s+)?"?([A-Za-z_]\w*)=([^"\n]*)"?\s*$""", re.IGNORECASE)
_ASSIGNED = re.compile(r"^\s*\$(?:env:|script:|global:)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$", re.IGNORECASE)


def is_windows(source: str) -> bool:
    """By its name."""
    return bool(_POWERSHELL.search(source) or _BATCH.search(source))


def as_shell(text: str, source: str) -> str:
    """The text as a POSIX shell would have it written, a line for each line."""
    change = _powershell if _POWERSHELL.search(source) else _batch
    text = re.sub(r"<#.*?#>", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL) if change is _powershell else text
    return "\n".join(change(line.rstrip()) for line in text.splitlines()) + "\n"


def _powershell(line: str) -> str:
    if match := _ASSIGNED.match(line):
        value = match[2]
        plain = re.fullmatch(r"\"[^\"`]*\"|'[^']*'|[\w./:-]+", value)
        return f"export {match[1]}={_named(value)}" if plain else f"unset {match[1]}"
    line = re.sub(r"^(\s*)&\s+", r"\1", line)
    line = re.sub(r"(?<=\s)`$", r"\\", line)
    return _named(line).replace("`", "")


def _named(text: str) -> str:
    return re.sub(r"\$env:([A-Za-z_]\w*)", r"${\1}", text, flags=re.IGNORECASE)


def _batch(line: str) -> str:
    if re.match(r"\s*(@?rem\b|::|@?echo\b|title\b|setlocal\b|endlocal\b|pause\b|goto\b|:\w)", line, re.IGNORECASE):
        return ""
    if match := _SET.match(line):
        return f"export {match[1]}='{_expanded(match[2])}'" if "%" not in match[2] else f'export {match[1]}="{_expanded(match[2])}"'
    line = re.sub(r"^\s*(@|start\s+(\"[^\"]*\"\s+)?(/\w+\s+)*|call\s+)", "", line, flags=re.IGNORECASE)
    line = re.sub(r"\^$", "\0", line).replace("\\", "\\\\")
    return _expanded(line).replace("\0", "\\")


def _expanded(text: str) -> str:
    return re.sub(r"%([A-Za-z_]\w*)%", r"${\1}", text)
