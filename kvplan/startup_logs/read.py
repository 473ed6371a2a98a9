"""Reading a start-up log: which engine wrote it, what was asked of it, what it printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvplan import engines
from kvplan.deployment import NAMES
from kvplan.engines.common.command_line import answered, parse
from kvplan.engines.common.kinds import written
from kvplan.engines.common.logs import Dump, Figure, Log, Wording, value_of
from kvplan.engines.common.printed import by_printed, read_printed
from kvplan.engines.common.words import Given, Word
from kvplan.errors import FormatError, UnknownName
from kvplan.startup_logs import metrics
from kvplan.startup_logs.lines import Line, read_batches
from kvplan.startup_logs.literals import read_arguments, read_object, read_words
from kvplan.startup_logs.patterns import apply, number

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
    unread    arguments that change memory and that no name of a question says; `unknown`: those that the engine's table does not have
    is_page   it is a page of metrics, which says neither parallel sizes nor a release
    """

    engine: str
    version: str | None
    model: str | None
    question: Mapping[str, Any]
    figures: tuple[Figure, ...]
    unread: Mapping[str, Any] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    is_page: bool = False

    def values(self, name: str) -> tuple[float, ...]:
        """Every value of that name."""
        return tuple(f.value for f in self.figures if f.name == name)

    def value(self, name: str) -> float | None:
        """One value of that name, as `value_of` chooses it."""
        return value_of(self.figures, name)


class _Reader:
    """One engine's wordings at work on a stream of lines."""

    def __init__(self, log: Log) -> None:
        self.log, self.table = log, engines.arguments(log.engine)
        self.names = by_printed(self.table).keys()
        self.wordings: tuple[tuple[Wording, re.Pattern[str]], ...] = tuple((w, w.compiled()) for w in log.wordings)
        self.done: list[LoggedStart] = []
        self._clear()

    def _clear(self) -> None:
        self.figures: list[Figure] = []
        self.facts: dict[str, Any] = {}
        self.given: dict[str, tuple[int, Given]] = {}
        self.printed: dict[str, Any] = {}
        self.positional: list[Word] = []
        self.served = False
        self.is_page = False

    def take(self, batch: list[Line], text: str) -> None:
        """Some lines, and the same as one text: what is not in that is in none of them."""
        wordings = tuple(pair for pair in self.wordings if pair[0].needle in text)
        dumps = tuple(dump for dump in self.log.dumps if dump.needle in text)
        starts = tuple(start for start in self.log.starts if start in text)
        if self.log.gauges and f"{self.log.engine}:" in text:
            for line in batch:
                self._sample(line)
        if wordings or dumps or starts:
            for line in batch:
                self._take(line, wordings, dumps, starts)

    def _take(
        self, line: Line, wordings: tuple[tuple[Wording, re.Pattern[str]], ...], dumps: tuple[Dump, ...], starts: tuple[str, ...]
    ) -> None:
        text = line.text
        if any(start in text for start in starts) and any(f.name in _SIZED for f in self.figures[-200:]):
            self.close()
        for dump in dumps:
            at = text.find(dump.needle)
            if at >= 0:
                self._read(dump, text, at + len(dump.needle), line.number)
        found_here = apply(wordings, line)
        self.figures += found_here.figures[: MAX_FIGURES - len(self.figures)]
        for key, value in found_here.facts.items():
            self.facts.setdefault(key, value)

    def _sample(self, line: Line) -> None:
        """A sample of a page of metrics."""
        one = metrics.sample(line.text) if line.text.startswith(f"{self.log.engine}:") else None
        if one is None:
            return
        figures, facts = metrics.read_sample(one, self.log.gauges, line.number)
        self.figures += figures[: MAX_FIGURES - len(self.figures)]
        self.facts = facts | self.facts
        if one.name == self.log.settings:
            printed = metrics.settings(one.labels)
            self.given |= {to: (1, given) for to, given in read_printed(self.table, printed, read_object, line.number).items()}
            self.printed |= {name: value for name, value in printed.items() if value != "None"}
            found = {figure.name: figure.value for figure in figures}
            if "tokens" in found and "concurrency" in found and (n := metrics.length(found["tokens"], found["concurrency"])):
                self.facts.setdefault("q__max_model_len", str(n))
        self.is_page = self.is_page or bool(figures)

    def _read(self, dump: Dump, text: str, begin: int, number: int) -> None:
        """The arguments behind a needle, by what they set."""
        if dump.form == "command":
            words = read_words(text[begin:])
            parsed = parse(self.table, words, None)
            given, printed = parsed.given, parsed.seen
            if not self.given and words[:1] and words[0] in parsed.positional and "/" in words[0].text:
                self.positional = words[:1]
            self.served = self.served or dump.needle.split()[0] == self.table.program[0]
        else:
            printed = read_arguments(text, begin - (1 if dump.needle.endswith("(") else 0))
            given = read_printed(self.table, printed, read_object, number)
        for to, one in given.items():
            if dump.rank >= self.given.get(to, (0, one))[0]:
                self.given[to] = (dump.rank, one)
        self.printed |= {name: value for name, value in printed.items() if value is not None}

    def _is_unknown(self, name: str) -> bool:
        """Whether an option that was printed is none of the table's; a page prints fields beside the options."""
        return not self.is_page and name.lstrip("-").replace("-", "_") not in self.names

    def close(self) -> None:
        """Ends the start that is being read."""
        if self.figures or self.given or self.printed:
            self.done.append(self._start())
        self._clear()

    def _start(self) -> LoggedStart:
        facts = {key[3:]: _plain(value) for key, value in self.facts.items() if key.startswith("q__")}
        resolved = read_printed(self.table, {name: value for name, value in facts.items() if name not in NAMES}, read_object)
        answer = answered(
            self.table, {**{to: one for to, (_, one) in self.given.items()}, **resolved}, self.positional, is_command=self.served
        )  # fmt: skip
        question = {name: value for name, value in facts.items() if name in NAMES}
        options = {name: words[str(facts[name]).lower()] for name, words in self.log.printed_options.items() if name in facts}
        for name, one in answer.question.items():
            if name.startswith("engine_option."):
                options[name.removeprefix("engine_option.")] = written(one.value)
            else:
                question[name] = one.value
        if options:
            question["engine_option"] = options
        model = (answer.model.value if answer.model else None) or self.facts.get("model") or self.facts.get("model_file")
        figures = self.log.finish(self.figures)
        device = _device(self.facts.get("device"), figures)
        if device:
            question["device"] = device
        return LoggedStart(
            engine=self.log.engine,
            version=self.facts.get("version"),
            model=str(model).strip() if model else None,
            question=question,
            figures=tuple(figures),
            unread={name: self.printed[name] for name in self.log.unread if self.printed.get(name) not in (*_UNSET, "0")},
            unknown=tuple(sorted(name for name, value in self.printed.items() if value not in _UNSET and self._is_unknown(name))),
            is_page=self.is_page,
        )


def read_starts(source: str | Path, engine: str | None = None) -> tuple[LoggedStart, ...]:
    """Every start in a log (a Path to a file, or the text itself), oldest first; of the engine that printed most of it.

    Raises UnknownName for an engine without a table, FormatError where no line is an engine's, OSError.
    """
    logs = [engines.log(name) for name in engines.logged()]
    if engine is not None:
        key = engine.lower()
        chosen = [log for log in logs if key in (log.engine, *log.known_as)]
        if not chosen:
            raise UnknownName("engine", engine, list(engines.logged()))
        logs = chosen
    readers = [_Reader(log) for log in logs]
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
        known = ", ".join(log.engine for log in logs)
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
