"""Reading a start-up log: which engine wrote it, what was asked of it, what it printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvplan.errors import FormatError, UnknownName
from kvplan.startup_logs import llama_cpp, sglang, tensorrt_llm, vllm
from kvplan.startup_logs.lines import Line, read_batches
from kvplan.startup_logs.literals import read_arguments, read_flags
from kvplan.startup_logs.patterns import Arguments, Figure, Table, Wording, apply, number

TABLES: tuple[Table, ...] = (vllm.TABLE, sglang.TABLE, tensorrt_llm.TABLE, llama_cpp.TABLE)
MAX_FIGURES = 20_000
#: Figures that only a server that has sized its cache prints: a start marker after one of them begins the next start.
_SIZED = ("tokens", "blocks", "kv_cache", "kv_size")
#: Argument values that mean: not chosen.
_UNSET = (None, False, 0, "", "auto", "None", "{}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStart:
    """One start of a server, as its log tells it.

    question  contract names; `device` where the log names one, else the total memory it prints as a size
    figures   in the order printed, one per rank and line; GiB and MiB are 2^30 and 2^20 bytes
    unread    arguments that change memory and that no name of a question says
    """

    engine: str
    version: str | None
    model: str | None
    question: Mapping[str, Any]
    figures: tuple[Figure, ...]
    unread: Mapping[str, Any] = field(default_factory=dict)

    def values(self, name: str) -> tuple[float, ...]:
        """Every value of that name."""
        return tuple(f.value for f in self.figures if f.name == name)

    def value(self, name: str) -> float | None:
        """One value of that name: the smallest rank's of the cache, since that one counts; the first of the weights, which later
        lines round; else the last."""
        values = self.values(name)
        if not values:
            return None
        return min(values) if name in ("kv_cache", "blocks") else values[0] if name == "weights" else values[-1]


class _Reader:
    """One engine's table at work on a stream of lines."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.wordings: tuple[tuple[Wording, re.Pattern[str]], ...] = tuple((w, w.compiled()) for w in table.wordings)
        self.done: list[LoggedStart] = []
        self._clear()

    def _clear(self) -> None:
        self.figures: list[Figure] = []
        self.facts: dict[str, Any] = {}
        self.arguments: dict[str, tuple[int, Any]] = {}

    def take(self, batch: list[Line], text: str) -> None:
        """Some lines, and the same as one text: what is not in that is in none of them."""
        wordings = tuple(pair for pair in self.wordings if pair[0].needle in text)
        arguments = tuple(a for a in self.table.arguments if a.needle in text)
        starts = tuple(start for start in self.table.starts if start in text)
        if wordings or arguments or starts:
            for line in batch:
                self._take(line, wordings, arguments, starts)

    def _take(
        self, line: Line, wordings: tuple[tuple[Wording, re.Pattern[str]], ...], arguments: tuple[Arguments, ...], starts: tuple[str, ...]
    ) -> None:
        text = line.text
        if any(start in text for start in starts) and any(f.name in _SIZED for f in self.figures[-200:]):
            self.close()
        for needle, form, rank in arguments:
            at = text.find(needle)
            if at >= 0:
                begin = at + len(needle) - (1 if needle.endswith("(") else 0)
                found = read_flags(text[begin:]) if form == "command" else read_arguments(text, begin)
                for name, value in found.items():
                    if value is not None and rank >= self.arguments.get(name, (0, None))[0]:
                        self.arguments[name] = (rank, value)
        found_here = apply(wordings, line)
        self.figures += found_here.figures[: MAX_FIGURES - len(self.figures)]
        for key, value in found_here.facts.items():
            self.facts.setdefault(key, value)

    def close(self) -> None:
        """Ends the start that is being read."""
        if self.figures or self.arguments:
            self.done.append(self._start())
        self._clear()

    def _start(self) -> LoggedStart:
        arguments = {name: value for name, (_, value) in self.arguments.items()}
        printed = {key[3:]: _plain(value) for key, value in self.facts.items() if key.startswith("q__")}
        if self.table.engine == "llama.cpp":
            arguments |= printed
            printed = {k: v for k, v in printed.items() if k in ("max_num_seqs", "max_num_batched_tokens", "n_gpu_layers")}
        known = self.table.printed_options
        question = {name: value for name, value in printed.items() if name not in known}
        question |= self.table.settle(arguments)
        options = {name: known[name][str(value).lower()] for name, value in printed.items() if name in known}
        if options:
            question["engine_option"] = {**options, **question.get("engine_option", {})}
        model = question.pop("model", None) or self.facts.get("model") or self.facts.get("model_file")
        figures = self.table.finish(self.figures)
        device = _device(self.facts.get("device"), figures)
        if device:
            question["device"] = device
        return LoggedStart(
            engine=self.table.engine,
            version=self.facts.get("version"),
            model=str(model).strip() if model else None,
            question=question,
            figures=tuple(figures),
            unread={name: arguments[name] for name in self.table.unread if arguments.get(name) not in _UNSET},
        )


def read_starts(source: str | Path, engine: str | None = None) -> tuple[LoggedStart, ...]:
    """Every start in a log (a Path to a file, or the text itself), oldest first; of the engine that printed most of it.

    Raises UnknownName for an engine without a table, FormatError where no line is an engine's, OSError.
    """
    tables = TABLES
    if engine is not None:
        key = "llama.cpp" if engine.lower() == "ollama" else engine.lower()
        tables = tuple(t for t in TABLES if t.engine == key)
        if not tables:
            raise UnknownName("engine", engine, [t.engine for t in TABLES])
    readers = [_Reader(table) for table in tables]
    n = 0
    for batch in read_batches(source):
        n = batch[-1].number
        text = "\n".join(line.text for line in batch)
        for reader in readers:
            reader.take(batch, text)
    for reader in readers:
        reader.close()
    best = max(readers, key=lambda r: sum(len(s.figures) + 3 * len(s.question) for s in r.done))
    if not any(s.figures for s in best.done):
        name = str(source) if isinstance(source, Path) else "log"
        known = ", ".join(t.engine for t in tables)
        raise FormatError(name, "start-up log", 0, f"none of its {n} lines is one that {known} prints about memory")
    return tuple(s for s in best.done if s.figures)


def read_log(source: str | Path, engine: str | None = None) -> LoggedStart:
    """The last start in a log that sized a cache, else the last. Raises as read_starts."""
    starts = read_starts(source, engine)
    sized = [s for s in starts if any(f.name in _SIZED for f in s.figures)]
    return (sized or starts)[-1]


def _plain(value: str) -> Any:
    try:
        number_ = number(value)
    except ValueError:
        return value
    return int(number_) if number_ == int(number_) and "." not in value else number_


def _device(name: str | None, figures: list[Figure]) -> str | None:
    if name:
        return name.replace("_", " ").strip()
    totals = [f for f in figures if f.name == "total_memory"]
    return f"{totals[-1].value:g}{totals[-1].unit}" if totals else None
