"""From whatever wraps a log to the engine's own lines: decoding, cutting, joining, unwrapping, and the rank that printed a line.

Memory stays bounded whatever the file: it is read in chunks, a longer line is cut at MAX_LINE, a carriage return ends a line
(progress bars). Time is linear: every expression here is anchored or has bounded repeats. Collectors that cut lines at 16 KiB are
undone: CRI marks the pieces (`P`), docker's JSON ends them without a newline.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kvplan import files

CHUNK = 1 << 16
MAX_LINE = 1 << 18
DOCKER_PIECE = 16_000  # docker cuts at 16,384 bytes, which may be fewer characters

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CRI_PIECE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.,]{8,24}(?:Z|[+-]\d\d:?\d\d) (?:stdout|stderr) ([PF]) ")
_BLANK = " \t\n\r\v\f\ufeff"
_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]{0,40}[A-Za-z]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")
#: JSON log records keep the line under one of these keys (docker, fluent-bit, Google and Azure logging, structlog).
_KEYS = ("log", "message", "msg", "textPayload", "line", "content", "event", "MESSAGE")
#: What collectors put before a line; stripped again and again, since they nest.
_WRAPPERS = (
    # docker, CRI; but SGLang's own stamp, which goes on with the rank: `[2025-01-01 00:00:00 TP0]`
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"(?: \| | (?:stdout|stderr) [FP] |\s(?![A-Z_]{2,8}\d{1,4}[ \]])|\t)",
    r"\[(?:pod|container)/[^\]\s]{1,300}\]\s?",  # kubectl logs --prefix
    r"[A-Za-z0-9][\w.-]{0,120}\s{1,40}\|\s",  # docker compose
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |(?=[\w.-]{1,80} [\w./@-]{1,80}\[))"
    r"[\w.-]{1,80} [\w./@-]{1,80}(?:\[\d{1,9}\])?:\s",  # journald, syslog
    r"\d{1,4}: (?=[(\[A-Z])",  # slurm task numbers
    r"\[\d{1,4},\d{1,4}\]<std(?:out|err)>:\s?",  # mpirun --tag-output
    r"\[rank\d{1,4}\]:?\s",  # torchrun
    r"\((?:(?:Ray|ServeReplica|LLM)[\w:.-]{0,100} )?pid=\d{1,9}(?:, ip=[\d.:a-f]{2,45})?\)\s",  # ray, whose own name is no rank
)
_WRAPPER = re.compile("|".join(f"(?:{wrapper})" for wrapper in _WRAPPERS))
_RANKS = (
    re.compile(r"\((?:Vllm)?Worker(?:Proc)?[ _](?:rank=)?((?:(?:DP|PP|TP|EP|DCP|PCP)\d{1,4}_?)+|\d{1,4})(?=[ )_])"),
    re.compile(r"\(EngineCore_((?:DP)?\d{1,4})[ )]"),
    re.compile(r"^\[[^\]]{0,40}? ((?:(?:ATTN_)?(?:DP|PP|TP|EP|MOE_EP)\d{1,4} ?)+)\]"),  # SGLang
    re.compile(r"\[RANK (\d{1,4})\]", re.I),
    re.compile(r"\b(?:TP|tp_rank|rank)[ =:]{1,3}(\d{1,4})\b"),
)


class Line(NamedTuple):
    """One line without its wrapping. `wrapped`: as it came, for the rank that its wrapping may name."""

    number: int
    text: str
    wrapped: str

    @property
    def rank(self) -> str | None:
        """The printer's own word for its rank (`TP0`, `PP1_TP0`, `3`); None where it says none."""
        return rank_of(self.text) or (rank_of(self.wrapped) if self.wrapped != self.text else None)


def read_batches(source: str | Path) -> Iterator[list[Line]]:
    """The lines of a file (a Path) or of a text, cleaned, in order, some at a time; blank ones left out. Raises SpecError."""
    chunks = _chunks(source) if isinstance(source, Path) else (source[i : i + CHUNK] for i in range(0, len(source), CHUNK))
    batch: list[Line] = []
    size = 0
    for number, raw in enumerate(_joined(_cut(chunks)), 1):
        raw = raw.replace("\0", "") if "\0" in raw else raw
        for text in _inside(raw):
            batch.append(Line(number, text, raw[:200]))
            size += len(text)
        if size > CHUNK:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _inside(raw: str, depth: int = 4) -> Iterator[str]:
    """The cleaned lines in one: a record's message may hold several, and progress bars that a carriage return overwrites."""
    text = clean(raw)
    if depth and ("\r" in text or "\n" in text):
        for part in text.splitlines():
            yield from _inside(part, depth - 1)
    elif text:
        yield text


def _joined(lines: Iterator[str]) -> Iterator[str]:
    """Lines that a collector cut, put together again."""
    held: list[str] = []
    length = 0
    for raw in lines:
        piece, goes_on = _piece(raw)
        if not held and not goes_on:
            yield raw
            continue
        if piece is None:  # something else came between
            yield "".join(held)
            held, length = [], 0
            yield raw
            continue
        held.append(piece[: MAX_LINE - length])
        length += len(held[-1])
        if not goes_on:
            yield "".join(held)
            held, length = [], 0
    if held:
        yield "".join(held)


def _piece(raw: str) -> tuple[str | None, bool]:
    """A collector's piece of a line, and whether the line goes on; None where the line is no such piece."""
    if raw[:2] == "20":
        match = _CRI_PIECE.match(raw)
        return (raw[match.end() :], match[1] == "P") if match else (None, False)
    if raw[:7] == '{"log":':
        try:
            record = json.loads(raw)
        except (ValueError, RecursionError):
            return None, False
        text = record.get("log") if isinstance(record, dict) else None
        if isinstance(text, str):
            return text.rstrip("\n"), len(text) >= DOCKER_PIECE and not text.endswith("\n")
    return None, False


def clean(raw: str) -> str:
    """One line without colours and wrappers."""
    text = _ANSI.sub("", raw) if "\x1b" in raw else raw
    text = text.strip(_BLANK)
    for _ in range(6):
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
        return _json_message(text).strip(_BLANK)
    match = _WRAPPER.match(text)
    return text[match.end() :].strip(_BLANK) if match and match.end() < len(text) else text


def _json_message(text: str) -> str:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for key in _KEYS if isinstance(record, dict) else ():
        if isinstance(record.get(key), str):
            message: str = record[key]
            return _ANSI.sub("", message).replace("\0", "")
    return text


def _chunks(path: Path) -> Iterator[str]:
    decoder: codecs.IncrementalDecoder | None = None
    for piece in files.chunks(path, whole=False):
        if decoder is None:
            encoding = next((name for bom, name in _BOMS if piece.startswith(bom)), None) or _guessed(piece)
            decoder = codecs.getincrementaldecoder(encoding)("replace")
        yield decoder.decode(piece)


def _guessed(first: bytes) -> str:
    """UTF-16 without its mark has a zero in every other byte of plain text."""
    half = len(first) // 2
    if half > 8 and first[1::2].count(0) > 0.4 * half:
        return "utf-16-le"
    return "utf-16-be" if half > 8 and first[0::2].count(0) > 0.4 * half else "utf-8"


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
