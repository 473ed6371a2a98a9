"""From whatever wraps a log to the engine's own lines: decoding, cutting, unwrapping, and the rank that printed a line.

Memory stays bounded whatever the file: it is read in chunks, a longer line is cut at MAX_LINE, a carriage return ends a line
(progress bars). Time is linear: every expression here is anchored or has bounded repeats.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

CHUNK = 1 << 16
MAX_LINE = 1 << 18

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]{0,40}[A-Za-z]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")
#: JSON log records keep the line under one of these keys (docker, fluent-bit, Google and Azure logging, structlog).
_KEYS = ("log", "message", "msg", "textPayload", "line", "content", "event", "MESSAGE")
#: What collectors put before a line; stripped again and again, since they nest.
_WRAPPERS = tuple(
    re.compile(pattern)
    for pattern in (
        # docker, CRI; but SGLang's own stamp, which goes on with the rank: `[2025-01-01 00:00:00 TP0]`
        r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?"
        r"(?: \| | (?:stdout|stderr) [FP] |\s(?![A-Z_]{2,8}\d{1,4}[ \]]))",
        r"\[(?:pod|container)/[^\]\s]{1,300}\]\s?",  # kubectl logs --prefix
        r"[A-Za-z0-9][\w.-]{0,120}\s{1,40}\|\s",  # docker compose
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,80} [\w./@-]{1,80}(?:\[\d{1,9}\])?:\s",  # journald, syslog
        r"\d{1,4}: (?=\()",  # ray and slurm task numbers
    )
)
_RANKS = (
    re.compile(r"\((?:Vllm)?Worker(?:Proc)?[ _](?:rank=)?((?:(?:DP|PP|TP|EP|DCP|PCP)\d{1,4}_?)+|\d{1,4})(?=[ )_])"),
    re.compile(r"\(EngineCore_((?:DP)?\d{1,4})[ )]"),
    re.compile(r"^\[[^\]]{0,40}? ((?:(?:ATTN_)?(?:DP|PP|TP|EP|MOE_EP)\d{1,4} ?)+)\]"),  # SGLang
    re.compile(r"\[RANK (\d{1,4})\]", re.I),
    re.compile(r"\b(?:TP|tp_rank|rank)[ =:]{1,3}(\d{1,4})\b"),
)


class Line(NamedTuple):
    """One line without its wrapping. `rank` is the printer's own word (`TP0`, `PP1_TP0`, `3`); None where it says none."""

    number: int
    text: str
    rank: str | None


def read_lines(source: str | Path) -> Iterator[Line]:
    """The lines of a file (a Path) or of a text, cleaned, in order; blank ones left out. Raises OSError."""
    chunks = _chunks(source) if isinstance(source, Path) else (source[i : i + CHUNK] for i in range(0, len(source), CHUNK))
    for number, raw in enumerate(_cut(chunks), 1):
        text = clean(raw)
        if text:
            yield Line(number, text, rank_of(text))


def clean(raw: str) -> str:
    """One line without colours and wrappers."""
    text = _ANSI.sub("", raw) if "\x1b" in raw else raw
    text = text.strip()
    for _ in range(4):
        shorter = _unwrap(text)
        if shorter == text:
            break
        text = shorter
    return text


def rank_of(text: str) -> str | None:
    """The rank named by a cleaned line's prefix."""
    head = text[:120]
    for pattern in _RANKS:
        match = pattern.search(head)
        if match:
            return match[1].strip("_ ").replace(" ", "_")
    return None


def _unwrap(text: str) -> str:
    if text.startswith("{") and text.endswith("}"):
        return _json_message(text).strip()
    for wrapper in _WRAPPERS:
        match = wrapper.match(text)
        if match and match.end() < len(text):
            return text[match.end() :].strip()
    return text


def _json_message(text: str) -> str:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for key in _KEYS:
        if isinstance(record.get(key), str):
            message: str = record[key]
            return _ANSI.sub("", message)
    return text


def _chunks(path: Path) -> Iterator[str]:
    with open(path, "rb") as file:
        first = file.read(CHUNK)
        encoding = next((name for bom, name in _BOMS if first.startswith(bom)), "utf-8")
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        while first:
            yield decoder.decode(first)
            first = file.read(CHUNK)


def _cut(chunks: Iterable[str]) -> Iterator[str]:
    parts: list[str] = []
    held = 0
    for chunk in chunks:
        *ended, rest = chunk.replace("\r", "\n").split("\n")
        for piece in ended:
            if held < MAX_LINE:
                parts.append(piece[: MAX_LINE - held])
            yield "".join(parts)
            parts, held = [], 0
        if held < MAX_LINE and rest:
            rest = rest[: MAX_LINE - held]
            parts.append(rest)
            held += len(rest)
    if parts:
        yield "".join(parts)
