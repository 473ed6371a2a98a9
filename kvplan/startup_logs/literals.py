"""Arguments as engines print them, read without evaluating anything: `{'a': 1}`, `Namespace(a=1, b=C(x=2))`, `a=1, b='x'`.

One pass over the text cuts it at top-level commas; a value is read by `ast.literal_eval` where it is a literal, else kept as text
(`torch.bfloat16`, `<enum ...>`, `CompilationConfig(...)`).
"""

from __future__ import annotations

import ast
import json
import shlex
from typing import Any

from kvplan.engines.common.words import Word

MAX_TEXT, MAX_VALUE, MAX_PAIRS = 1 << 17, 1 << 12, 2000
_OPEN, _CLOSE = "([{", ")]}"


def read_arguments(text: str, start: int) -> dict[str, Any]:
    """The arguments in the bracket that opens at or after `start`, or in the bare list there. Cut-off text gives what is whole."""
    body = text[start : start + MAX_TEXT].lstrip()
    if body[:1] in ("(", "{"):
        body, mapping = body[1:], body[0] == "{"
    else:
        mapping = False
    pairs: dict[str, Any] = {}
    for piece in _pieces(body):
        key, separator, value = piece.partition(":" if mapping else "=")
        name = key.strip().strip("'\"")
        if separator and name.isidentifier() and len(pairs) < MAX_PAIRS:
            pairs[name] = read_value(value.strip())
    return pairs


def read_object(text: str) -> dict[str, Any]:
    """`KvCacheConfig(dtype='fp8')` -> its arguments."""
    at = text.find("(")
    return read_arguments(text, at) if at >= 0 and text[:at].replace(".", "").isidentifier() else {}


def read_value(text: str) -> Any:
    """A literal's value; text that is none stays text, cut at MAX_VALUE."""
    if len(text) <= MAX_VALUE:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            pass
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return text[:MAX_VALUE].strip("'\"")


def read_words(text: str) -> list[Word]:
    """The words of a command line that a log quotes. A number loses the punctuation of the sentence it is quoted in."""
    try:
        words = shlex.split(text[:MAX_TEXT], comments=False)
    except ValueError:
        words = text[:MAX_TEXT].split()
    return [Word(_trimmed(word)) for word in words[:MAX_PAIRS]]


def _trimmed(word: str) -> str:
    stem = word.rstrip(":;,.")
    return stem if stem.lstrip("-").replace(".", "", 1).isdigit() else word


def _pieces(body: str) -> list[str]:
    """`body` cut at its top-level commas, up to the bracket that closes it; a last piece that is cut off is left out."""
    pieces: list[str] = []
    depth, start, quote, escaped = 0, 0, "", False
    for i, char in enumerate(body):
        if quote:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth < 0:
                return [*pieces, body[start:i]]
        elif char == "," and depth == 0:
            pieces.append(body[start:i])
            start = i + 1
    return pieces if quote or depth else [*pieces, body[start:]]
