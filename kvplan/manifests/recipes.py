"""Makefiles, justfiles, PowerShell and batch files, as far as they are shell text in another spelling: line for line.

gnu.org/software/make/manual: variables (`?=`, `:=`, `=`, `+=`), `$(NAME)`, `$$`, `define` with `$(call NAME,...)`; just.systems/man:
`name := "value"`, `{{name}}`, parameters with a default. Conditions are not weighed; the value that stands last is taken.
"""

from __future__ import annotations

import re

from kvplan.manifests import powershell
from kvplan.manifests.budget import grown

_NAME = re.compile(r"(^|/)(gnu)?makefile$|\.mk$", re.IGNORECASE)
_JUST = re.compile(r"(^|/)\.?justfile$|\.just$", re.IGNORECASE)
_SETS = re.compile(r"(?:export\s+|override\s+)*([A-Za-z_][\w.-]*)\s*(:{1,3}|\?|\+|!)?=\s*(.*)$")
_JUST_SETS = re.compile(r"(?:export\s+)?([A-Za-z_][\w-]*)\s*:=\s*(.*)$")
_CALL = re.compile(r"\$\(call\s+([\w.-]+)\s*,((?:[^()]|\([^()]*\))*)\)")
_REFERENCE = re.compile(r"(?<!\$)\$[({]([A-Za-z_][\w.-]*)[)}]")
_POWERSHELL = re.compile(r"\.ps1$", re.IGNORECASE)
_BATCH = re.compile(r"\.(bat|cmd)$", re.IGNORECASE)
_BATCH_SET = re.compile(r"""^\s*set\s+(?:/[aA]\s+)?"?([A-Za-z_]\w*)=([^"\n]*)"?\s*$""", re.IGNORECASE)
MAX_NESTED = 8
_PARAMETER = re.compile(r"([A-Za-z_][\w-]*)=(\"[^\"]*\"|'[^']*')")


def is_make(source: str) -> bool:
    """By its name."""
    return bool(_NAME.search(source) or _JUST.search(source))


def as_shell(text: str, source: str) -> str:
    """The text as a POSIX shell would have it written, a line for each line; each recipe is a shell of its own, which `exec` ends alone."""
    return re.sub(r"^(\s*)exec[ \t]+", r"\1", _justfile(text) if _JUST.search(source) else _makefile(text), flags=re.MULTILINE)


def _makefile(text: str) -> str:
    """Variables stand for their text, as make puts it in before a shell sees the line."""
    bodies, values = _bodies(text), _values(text)
    out, inside, goes_on = list[str](), False, False
    for line in text.splitlines():
        is_define = bool(re.match(r"\s*(define|endef)\b", line))
        inside = line.lstrip().startswith("define") if is_define else inside
        if (goes_on or line.startswith("\t")) and not inside:
            called = _CALL.sub(lambda match: _called(match, bodies), line)
            out.append(_filled_in(called if goes_on else re.sub(r"^\t[\s@+-]*", "", called), values, len(out) + 1))
        else:
            out.append("")
        goes_on = line.endswith("\\") and out[-1] != ""
    return "\n".join(out) + "\n"


def _values(text: str) -> dict[str, str]:
    """The file's variables; what a line adds comes behind."""
    found: dict[str, str] = {}
    for line in re.sub(r"\\\n[ \t]*", " ", text).splitlines():
        if not line.startswith("\t") and (match := _SETS.match(line)):
            value = re.sub(r"(^|\s)#.*", "", match[3]).strip()
            found[match[1]] = f"{found[match[1]]} {value}" if match[2] == "+" and match[1] in found else value
    return found


def _filled_in(line: str, values: dict[str, str], n: int) -> str:
    for _ in range(MAX_NESTED):
        filled = _REFERENCE.sub(lambda match: values.get(match[1], match[0]), line)
        grown(len(line), len(filled), n)
        if filled == line:
            break
        line = filled
    return _REFERENCE.sub(lambda match: "${" + _plain(match[1]) + "}", line).replace("$$", "$")


def _bodies(text: str) -> dict[str, str]:
    """What each `define` holds, as one line."""
    found, name = dict[str, list[str]](), ""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if match := re.match(r"define\s+([\w.-]+)", line):
            name = match[1]
            found[name] = []
        elif line.startswith("endef"):
            name = ""
        elif name and line.strip():
            found[name].append(re.sub(r"^[\s@+-]+", "", line))
    return {key: " ; ".join(lines) for key, lines in found.items()}


def _called(match: re.Match[str], bodies: dict[str, str]) -> str:
    """`$(call NAME,one,two)`: the text of NAME with $(1), $(2) in it."""
    given = match[2].split(",")
    return re.sub(r"\$[({](\d)[)}]", lambda m: given[int(m[1]) - 1] if 0 < int(m[1]) <= len(given) else "", bodies.get(match[1], ""))


def _plain(name: str) -> str:
    """A name that a shell can have."""
    return re.sub(r"\W", "_", name)


def _justfile(text: str) -> str:
    out, goes_on = list[str](), False
    for line in text.splitlines():
        if line[:1] in (" ", "\t"):
            out.append(_filled(line.lstrip() if goes_on else re.sub(r"^\s+[@-]*", "", line)))
        elif match := _JUST_SETS.match(line):
            plain = re.fullmatch(r"(\"[^\"]*\"|'[^']*')\s*(#.*)?", match[2].strip())
            out.append(f"export {_plain(match[1])}={plain[1]}" if plain else f"unset {_plain(match[1])}")
        else:
            out.append("; ".join(f"{_plain(name)}={value}" for name, value in _PARAMETER.findall(line)))
        goes_on = line.endswith("\\")
    return "\n".join(out) + "\n"


def _filled(line: str) -> str:
    return re.sub(r"\{\{\s*([A-Za-z_][\w-]*)\s*\}\}", lambda match: "${" + _plain(match[1]) + "}", line)


def is_windows(source: str) -> bool:
    """By its name."""
    return bool(_POWERSHELL.search(source) or _BATCH.search(source))


def of_windows(text: str, source: str) -> str:
    """The text as a POSIX shell would have it written, a line for each line."""
    if _POWERSHELL.search(source):
        return powershell.as_shell(text)
    return "\n".join(_batch(line.rstrip()) for line in text.splitlines()) + "\n"


def _batch(line: str) -> str:
    if re.match(r"\s*(@?rem\b|::|@?echo\b|title\b|setlocal\b|endlocal\b|pause\b|goto\b|:\w)", line, re.IGNORECASE):
        return ""
    if match := _BATCH_SET.match(line):
        return f"export {match[1]}='{_expanded(match[2])}'" if "%" not in match[2] else f'export {match[1]}="{_expanded(match[2])}"'
    if match := re.match(r"\s*(?:(if|for)\b.*\(|\)\s*(else)\s*\(|\))\s*$", line, re.IGNORECASE):  # which of them runs is not known
        return "if unknown; then" if match[1] else "else" if match[2] else "fi"
    line = re.sub(r"^\s*(@|start\s+(\"[^\"]*\"\s+)?(/\w+\s+)*|call\s+)", "", line, flags=re.IGNORECASE)
    line = re.sub(r'^\s*cmd(\.exe)?\s+/[kc]\s+"(.*)"\s*$', r"\2", line, flags=re.IGNORECASE)
    line = re.sub(r"\^$", "\0", line)
    if line.replace('\\"', "").count('"') % 2 == 0:  # `\\"` within quotes, as Microsoft's C runtime takes a command line apart
        line = line.replace('\\"', '\1"')
    return _expanded(line.replace("\\", "\\\\")).replace("\0", "\\").replace("\1", "\\")


def _expanded(text: str) -> str:
    """Variables, and what the file is called with."""
    text = re.sub(r"([%!])([A-Za-z_]\w*)\1", r"${\2}", text)
    return re.sub(r"%~?([1-9])", r"$\1", text.replace("%*", "$@"))
