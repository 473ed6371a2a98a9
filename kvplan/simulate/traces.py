"""Public trace formats, streamed from an open file: request lengths, times and shared blocks.

azure      Azure LLM inference traces: CSV of TIMESTAMP, ContextTokens, GeneratedTokens
burstgpt   BurstGPT: CSV of Timestamp (seconds), ..., Request tokens, Response tokens
mooncake   Mooncake: JSON lines of timestamp (ms), input_length, output_length, hash_ids (one per 512 tokens, naming the whole prefix)
sharegpt   ShareGPT: a JSON array of conversations; lengths in tokens by a given counter, else characters / 4
lengths    CSV with arrival, prompt, output in the header, or JSON lines with these names; arrival may be missing
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from kvplan.errors import SpecError, UnknownName
from kvplan.simulate.workload import Arrivals, Request

MOONCAKE_BLOCK = 512
_FIRST_HASH = 1 << 42


#: Formats whose whole file may be one line: `read` takes any pieces of it, and of all others its lines.
IN_PIECES = ("sharegpt",)


def read(lines: Iterable[str], format_name: str, source: str, *, count_tokens: Callable[[str], int] | None = None) -> Iterator[Request]:
    """The requests of a trace, as the lines come; times count from the first. `source` names the file in errors.

    Requests without an answer or a prompt are left out, as they take no decode step. Raises SpecError with the line, UnknownName.
    """
    if format_name not in FORMATS:
        raise UnknownName("trace format", format_name, list(FORMATS))
    if format_name == "sharegpt":
        return _sharegpt(lines, source, count_tokens or (lambda text: math.ceil(len(text) / 4)))
    return _from_zero(FORMATS[format_name](lines, source), source)


def timed(requests: Iterable[Request], arrivals: Arrivals, seed: int = 0) -> Iterator[Request]:
    """The same requests in the same order, at other times: for traces without any, or to try another rate."""
    from numpy.random import default_rng

    rng, now = default_rng(seed), 0.0
    for request in requests:
        now += float(arrivals.gaps(rng, 1)[0])
        yield request._replace(arrival=now)


def _from_zero(requests: Iterator[tuple[int, Request]], source: str) -> Iterator[Request]:
    start: float | None = None
    before = 0.0
    for line, request in requests:
        start = request.arrival if start is None else start
        arrival = request.arrival - start
        if arrival < before:
            raise SpecError(source, [(f"line {line}", "is earlier than the line before it; sort the trace by time")])
        before = arrival
        if request.prompt > 0 and request.output > 0:
            yield request._replace(arrival=arrival)


def _number(value: Any, name: str, source: str, line: int) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 <= number < 1e15:
        raise SpecError(source, [(f"line {line}", f"{name} is {str(value)[:40]!r}, not a number of at least 0")])
    return number


def _tokens(value: Any, name: str, source: str, line: int) -> int:
    number = _number(value, name, source, line)
    if number != int(number):
        raise SpecError(source, [(f"line {line}", f"{name} is {str(value)[:40]!r}, not a whole number of tokens")])
    return int(number)


def _rows(lines: Iterable[str], source: str, needed: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(lines)
    try:
        header = [name.strip().lstrip("\ufeff").lower() for name in next(reader, [])]
        missing = [name for name in needed if name not in header]
        if missing:
            raise SpecError(source, [("line 1", f"the header lacks {', '.join(missing)}")])
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise SpecError(source, [(f"line {reader.line_num}", f"{len(row)} fields, the header has {len(header)}")])
            yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise SpecError(source, [(f"line {reader.line_num}", str(error))]) from None


def _azure(lines: Iterable[str], source: str) -> Iterator[tuple[int, Request]]:
    for line, row in _rows(lines, source, ("timestamp", "contexttokens", "generatedtokens")):
        try:
            when = datetime.fromisoformat(row["timestamp"].strip()[:26]).timestamp()
        except ValueError:
            raise SpecError(source, [(f"line {line}", f"TIMESTAMP {row['timestamp'][:40]!r} is no date and time")]) from None
        prompt = _tokens(row["contexttokens"], "ContextTokens", source, line)
        yield line, Request(when, prompt, _tokens(row["generatedtokens"], "GeneratedTokens", source, line))


def _burstgpt(lines: Iterable[str], source: str) -> Iterator[tuple[int, Request]]:
    for line, row in _rows(lines, source, ("timestamp", "request tokens", "response tokens")):
        prompt = _tokens(row["request tokens"], "Request tokens", source, line)
        output = _tokens(row["response tokens"], "Response tokens", source, line)
        yield line, Request(_number(row["timestamp"], "Timestamp", source, line), prompt, output)


def _objects(lines: Iterable[str], source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise SpecError(source, [(f"line {line}", "is no JSON")]) from None
        if not isinstance(found, dict):
            raise SpecError(source, [(f"line {line}", "is no JSON object")])
        yield line, found


def _mooncake(lines: Iterable[str], source: str) -> Iterator[tuple[int, Request]]:
    for line, row in _objects(lines, source):
        prompt = _tokens(row.get("input_length"), "input_length", source, line)
        ids = row.get("hash_ids", [])
        if not isinstance(ids, list) or any(isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < 1 << 62 for one in ids):
            raise SpecError(source, [(f"line {line}", "hash_ids is no list of numbers")])
        content = tuple((one + _FIRST_HASH, min((n + 1) * MOONCAKE_BLOCK, prompt)) for n, one in enumerate(ids))
        output = _tokens(row.get("output_length"), "output_length", source, line)
        yield line, Request(_number(row.get("timestamp"), "timestamp", source, line) / 1000, prompt, output, content)


def _lengths(lines: Iterable[str], source: str) -> Iterator[tuple[int, Request]]:
    from itertools import chain

    rest = iter(lines)
    first = next(rest, "")
    every = chain([first], rest)
    rows: Iterator[tuple[int, dict[str, Any]]]
    rows = _objects(every, source) if first.lstrip("\ufeff \t").startswith("{") else _rows(every, source, ("prompt", "output"))
    for line, row in rows:
        prompt, output = (_tokens(row.get(name), name, source, line) for name in ("prompt", "output"))
        yield line, Request(_number(row.get("arrival", 0), "arrival", source, line), prompt, output)


LARGEST_ITEM = 1 << 23  # characters of one conversation
_NOT_BLANK = re.compile(r"[^ \t\r\n\ufeff]")


def _array(pieces: Iterable[str], source: str) -> Iterator[tuple[int, Any]]:
    """The items of a JSON array and the line each begins in; of a text in pieces, of which little more than one item is ever held."""
    coming, text, at, line, state = iter(pieces), "", 0, 1, "start"
    while True:
        first = _NOT_BLANK.search(text, at)
        if first is None:
            line += text.count("\n", at)
            text, at = next(coming, ""), 0
            if not text:
                raise SpecError(source, [(f"line {line}", "the file ends before its JSON array does")])
            continue
        line += text.count("\n", at, first.start())
        at = first.start()
        if state == "start":
            if first[0] != "[":
                raise SpecError(source, [(f"line {line}", "is no JSON array of conversations")])
            at, state = at + 1, "item"
        elif first[0] == "]":
            return
        elif state == "comma":
            if first[0] != ",":
                raise SpecError(source, [(f"line {line}", "is no JSON: a comma or ] is missing")])
            at, state = at + 1, "item"
        else:
            item, text, at, end = _item(text, at, coming, source, line)
            yield line, item
            line += text.count("\n", at, end)
            at, state = end, "comma"


def _item(text: str, at: int, coming: Iterator[str], source: str, line: int) -> tuple[Any, str, int, int]:
    """The value that begins at `at`; the text, to which pieces were added as needed, and where in it the value begins and ends."""
    decode = json.JSONDecoder().raw_decode
    while True:
        broken, cut = at, False
        try:
            item, end = decode(text, at)
            return item, text, at, end
        except json.JSONDecodeError as error:
            broken, cut = error.pos, error.msg.startswith("Unterminated") or error.pos > len(text) - 16
        except (RecursionError, ValueError):  # nested too deep, a number of more digits than are read
            pass
        pieces, size = [text[at:]], len(text) - at
        least = 2 * size
        while cut and size < least and (piece := next(coming, "")):  # twice as much each time: never more than linear work
            pieces.append(piece)
            size += len(piece)
        if len(pieces) == 1 or size > LARGEST_ITEM:
            raise SpecError(source, [(f"line {line + text.count(chr(10), at, broken)}", "is no JSON, or a conversation is cut off")])
        text, at = "".join(pieces), 0


def _sharegpt(pieces: Iterable[str], source: str, count_tokens: Callable[[str], int]) -> Iterator[Request]:
    """Each answer of each conversation is a request whose prompt is all that came before it; no times: give arrivals with `timed`."""
    for n, (line, conversation) in enumerate(_array(pieces, source)):
        turns = conversation.get("conversations") if isinstance(conversation, dict) else None
        if not isinstance(turns, list) or not all(isinstance(turn, dict) and isinstance(turn.get("value"), str) for turn in turns):
            raise SpecError(source, [(f"line {line}", f"conversation {n} has no list of conversations with from and value")])
        past = 0
        for turn in turns:
            tokens = count_tokens(turn["value"])
            if turn.get("from") in ("gpt", "assistant", "chatgpt", "bard") and past and tokens:
                yield Request(0.0, past, tokens, ((_FIRST_HASH + n, past),), True)
            past += tokens


#: What the first line of a trace has, by format.
_MARKS = {
    "azure": ("contexttokens", "generatedtokens"), "burstgpt": ("request tokens", "response tokens"),
    "mooncake": ('"input_length"', '"output_length"'), "lengths": ("prompt", "output"),
}  # fmt: skip


def detect(beginning: str, source: str) -> str:
    """The format of a trace that begins like this. Raises SpecError where it is none of them."""
    text = beginning.lstrip("\ufeff \t\r\n")
    if text.startswith("["):
        return "sharegpt"
    first = text.partition("\n")[0].lower()
    for name, marks in _MARKS.items():
        if all(mark in first for mark in marks):
            return name
    raise SpecError(source, [("line 1", f"is like none of the formats {', '.join(FORMATS)}; say which with trace_format")])


FORMATS: dict[str, Callable[[Iterable[str], str], Iterator[tuple[int, Request]]]] = {
    "azure": _azure, "burstgpt": _burstgpt, "mooncake": _mooncake, "lengths": _lengths, "sharegpt": lambda lines, source: iter(()),
}  # fmt: skip
