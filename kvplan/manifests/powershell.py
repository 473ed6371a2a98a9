"""PowerShell as far as it is shell text in another spelling: line for line.

learn.microsoft.com/powershell: parameters with a default, variables, arrays and splatting, `if` as a statement and as a value, Join-Path,
Start-Process, lines that a backtick continues. Hash tables and methods are open; which branch runs is not known.
"""

from __future__ import annotations

import re

from kvplan.manifests.budget import spend

_COMMENT = re.compile(r"<#.{0,20000}?#>|@(?P<quote>[\"'])[ \t]*\n.{0,5000}?\n(?P=quote)@", re.DOTALL)
_PARAMETERS = re.compile(r"^\s*param\s*\(", re.IGNORECASE)
_SETS = re.compile(
    r"^\s*(?:\[[^\]]*\]\s*)*\$(?P<env>env:)?(?:script:|global:|local:)?(?P<name>[A-Za-z_]\w*)\s*(?P<adds>\+?)=\s*(?P<value>.*)$",
    re.IGNORECASE,
)
_STARTS = re.compile(r"^\s*start-process\s+(?P<rest>.*)$", re.IGNORECASE)
#: Options of Start-Process: alone, with a value, with what is started.
_ASIDE = re.compile(r"-(nonewwindow|passthru|wait)\b|-(windowstyle|verb|redirect\w+|workingdirectory)\s+(\"[^\"]*\"|\S+)", re.IGNORECASE)
_TOLD = re.compile(r"-(filepath|argumentlist|args)\s+", re.IGNORECASE)
_CHOICE = re.compile(r"^if\s*\(\s*\$env:(\w+)\s*\)\s*\{\s*\$env:\1\s*\}\s*else\s*\{\s*(.*?)\s*\}$", re.IGNORECASE)
_FOUND = re.compile(r"^\(?get-command\s+[\"']?([\w.-]+)", re.IGNORECASE)
_BLOCK = re.compile(r"^\s*(?P<word>if|elseif|else|function|foreach|for|while|do|try|catch|finally|switch)\b", re.IGNORECASE)
_INNER = re.compile(r"^\s*if\s*(\(.*\))\s*\{\s*(.*?)\s*\}\s*(?:#.*)?$", re.IGNORECASE)
_PART = re.compile(
    r"(?P<single>'(?:[^']|'')*')|(?P<double>\"(?:`.|\"\"|[^\"`])*\")|(?P<remark>#.*)|(?P<cast>\[[\w.]+(?:\[\])?\](?=[$('\"]))"
    r"|(?P<variable>\$(?:env:)?[A-Za-z_]\w*(?:\[[\"']?\w+[\"']?\]|(?:\.[A-Za-z_]\w*\b(?!\())+)?)|@(?P<splat>[A-Za-z_]\w*)|(?P<list>@\()"
    r"|(?P<table>@\{)|(?P<open>\()|(?P<close>\))|(?P<comma>,)|(?P<slash>\\)|(?P<tick>`)|(?P<other>[^'\"#$@(),\\`\[]+|.)"
)
_IN_TEXT = re.compile(r"\$\(\s*(\$[\w:.]+)\s*\)|(\$(?:env:)?[A-Za-z_]\w*)")
_WORD = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|\S+")


NESTED = 8  # Join-Path within Join-Path
LONGEST = 8000  # characters of a line that is put into a shell's words


def as_shell(text: str) -> str:
    """The text as a POSIX shell would have it written, a line for each line."""
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text.replace("\r\n", "\n"))
    reader = _Reader()
    return "\n".join(reader.line(line.rstrip()) if len(line) <= LONGEST else line for line in text.splitlines()) + "\n"


class _Reader:
    """One pass over the lines; local to as_shell."""

    def __init__(self) -> None:
        self._arrays: set[str] = set()
        self._blocks: list[str] = []  # what ends each block that is open
        self._depth = 0  # of brackets of the list or table that goes on in the next line
        self._inside = ""  # parameters, list, table
        self._goes_on = self._starts = False

    def line(self, line: str) -> str:
        spend(1 + len(line) // 200, 1)
        if self._inside:
            return self._more(line)
        goes_on, self._goes_on = self._goes_on, bool(re.search(r"(?<=\s)`$", line))
        line = re.sub(r"(?<=\s)`$", "", line)
        self._starts = self._starts and goes_on
        done = self._started(line) if self._starts else self._words(line) if goes_on else self._statement(line)
        return f"{done} \\" if self._goes_on else done

    def _more(self, line: str) -> str:
        """A line inside brackets that an earlier one opened."""
        self._depth += _opened(line)
        over = self._depth <= 0
        inside = self._inside
        self._inside = "" if over else inside
        if inside == "table":
            return ""
        if inside == "parameters":
            return self._parameter(line)
        body = line.rsplit(")", 1)[0] if over else line
        return self._words(body, commas=True) + (" )" if over else "")

    def _parameter(self, line: str) -> str:
        plain = re.sub(r"^\s*(\[[^$]*\]\s*)?(?=\$)", "", re.sub(r"^\s*param\s*\(", "", line, flags=re.IGNORECASE))
        match = _SETS.match(re.sub(r"[,)]\s*(#.*)?$", "", plain))
        return self._assign(match) if match else ""

    def _statement(self, line: str) -> str:
        if _PARAMETERS.match(line):
            self._depth = _opened(line)
            self._inside = "parameters" if self._depth > 0 else ""
            return self._parameter(line)
        if match := _SETS.match(line):
            return self._assign(match)
        if match := _INNER.match(line):
            return f"if unknown; then {self._statement(match[2])}; fi" if match[2] else ""
        ends = re.match(r"^\s*(\}+)\s*(.*)$", line)
        if ends:
            closed = [self._blocks.pop() for _ in ends[1] if self._blocks]
            if re.match(r"(else|elseif)\b", ends[2], re.IGNORECASE) and closed:
                self._blocks.append("fi")
                return "; ".join([*closed[:-1], "else" if re.match(r"else\b", ends[2], re.IGNORECASE) else "elif unknown; then"])
            return "; ".join([*closed, *([self._statement(ends[2])] if ends[2] else [])])
        if line.rstrip().endswith("{") and not line.rstrip().endswith("@{"):
            match = _BLOCK.match(line)
            plain = bool(match and match["word"].lower() in ("try", "finally", "do"))
            self._blocks.append("}" if plain else "fi")
            return "{" if plain else "if unknown; then"
        return self._command(line)

    def _assign(self, match: re.Match[str]) -> str:
        name, value, adds = match["name"], match["value"].strip(), match["adds"]
        if match["env"] and not adds:
            return f"export {name}={self._value(value)}" if self._value(value) else f"unset {name}"
        if value.startswith(("@(", "@{")):
            depth = _opened(value)
            is_table = "@{" in value
            self._depth, self._inside = (depth, "table" if is_table else "list") if depth > 0 else (0, "")
            if is_table:
                return f"unset {name}"
            self._arrays.add(name)
            body = value[2:] if depth > 0 else value[2:].rsplit(")", 1)[0]
            return f"{name}{adds}=( {self._words(body, commas=True)}" + ("" if depth > 0 else " )")
        if found := _FOUND.match(value):
            return f"{name}={found[1]}; {name}_Source={found[1]}; {name}_Path={found[1]}"
        if re.match(r"(&\s|docker\b|podman\b|start-process\b)", value, re.IGNORECASE):  # what it answers is kept
            return self._command(value)
        shell = self._value(value)
        if value.endswith("{"):
            self._blocks.append("fi")
            return f"unset {name}; if unknown; then"
        return f"{name}{adds}={shell}" if shell else f"unset {name}"

    def _value(self, text: str) -> str:
        """One word; empty for what is open."""
        if match := _CHOICE.match(text):
            return '"${' + match[1] + ":-" + self._value(match[2]).strip("\"'") + '}"'
        if re.match(r"\(?\s*join-path\b", text, re.IGNORECASE):
            return self._joined(re.sub(r"^\(|\)\s*$", "", text.strip()) if text.startswith("(") else text)
        plain = re.fullmatch(r"(\[\w+\])?(\"(?:`.|[^\"`])*\"|'[^']*'|-?[\d.]+|\$(env:)?[A-Za-z_]\w*)(\s*#.*)?", text)
        return self._words(plain[2]) if plain else ""

    def _joined(self, text: str) -> str:
        """`Join-Path A B`."""
        words = [word for word in _WORD.findall(self._words(text))[1:] if not re.match(r"-\w*path$", word, re.IGNORECASE)]
        return '"' + "/".join(word.strip("\"'").rstrip("/\\") for word in words[:4]) + '"'

    def _command(self, line: str) -> str:
        if match := _STARTS.match(line):
            self._starts = self._goes_on
            return self._started(match["rest"])
        return self._words(re.sub(r"^(\s*)[&.]\s+", r"\1", line))

    def _started(self, text: str) -> str:
        """What Start-Process is told, without its own options; a text of several words is a command line."""
        words = self._words(_TOLD.sub("", _ASIDE.sub("", text)), commas=True)
        program, blank, rest = re.sub(r"(?<=\s)\"(-(?:\\.|[^\"\\])*\s(?:\\.|[^\"\\])*)\"", r"\1", words).lstrip().partition(" ")
        return program + blank + re.sub(r"\"\$\{?([A-Za-z_]\w*)\}?\"", r"$\1", rest)  # a text that a variable holds, too

    def _words(self, text: str, *, commas: bool = False) -> str:
        """An expression's words, each quoted as a shell has it."""
        out: list[str] = []
        at, depth, is_closed = 0, 0, True
        while at < len(text) and (match := _PART.match(text, at)):
            kind, part, at = match.lastgroup or "", match[0], match.end()
            if kind == "remark" and (not out or out[-1][-1:].isspace()):
                break
            if kind == "open" and is_closed and (is_closed := (end := _closing(text, at)) >= 0):
                inner = text[at:end]
                is_path = re.match(r"\s*join-path\b", inner, re.IGNORECASE) and inner.count("(") < NESTED
                out.append(self._joined(inner) if is_path else '"${expression}"')
                at = end + 1
            elif kind == "list":
                depth += 1
            elif kind == "close" and depth:
                depth -= 1
            elif kind in ("cast", "tick"):
                pass
            elif kind == "table":
                end = text.find("}", at)
                out.append('"${table}"')
                at = end + 1 if end >= 0 else len(text)
            elif kind == "double":
                out.append(_text(part))
            elif kind == "single":
                out.append("'" + part[1:-1].replace("''", "") + "'")
            elif kind == "splat":
                out.append('"${' + match["splat"] + '[@]}"')
            elif kind == "variable":
                name = _name(part)
                out.append('"${' + name + ('[@]}"' if name in self._arrays else '}"') if name != "." else ".")
            elif kind == "comma":
                out.append(" " if commas or depth else part)
            else:
                out.append("\\\\" if kind == "slash" else part)
        return "".join(out)


def _name(variable: str) -> str:
    """`$env:X`, `$x`, `$x.y`, `$x["y"]` as a name that a shell can have."""
    name = re.sub(r"\W+", "_", re.sub(r"^\$(env:)?", "", variable, flags=re.IGNORECASE)).strip("_")
    return "." if name.lower() == "psscriptroot" else name or "_"


def _text(part: str) -> str:
    """A text in double quotes."""

    def variable(match: re.Match[str]) -> str:
        name = _name(match[1] or match[2])
        return name if name == "." else "${" + name + "}"

    plain = part[1:-1].replace("\\", "\\\\").replace('""', '\\"')
    plain = re.sub(r"`(.)", lambda m: {'"': '\\"', "$": "\\$", "`": "\\`"}.get(m[1], " " if m[1] in "nt" else m[1]), plain)
    return '"' + _IN_TEXT.sub(variable, plain) + '"'


def _opened(line: str) -> int:
    """Brackets that a line opens and does not close."""
    plain = re.sub(r"'[^']*'|\"(?:`.|[^\"`])*\"|#.*", "", line)
    return sum(plain.count(one) for one in "({[") - sum(plain.count(one) for one in ")}]")


def _closing(text: str, at: int) -> int:
    """Where the bracket that is open at `at` is closed; -1 where it is not."""
    depth = 1
    for match in re.compile(r"'[^']*'|\"(?:`.|[^\"`])*\"|[()]").finditer(text, at):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return -1
