"""YAML with places: every value knows its line. Several documents, anchors and merge keys, all bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from kvplan.engines.common.words import START, Breaks, Given, Place, Word
from kvplan.errors import SpecError
from kvplan.files import scalar, yaml_problem

_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
MAX_NODES, MAX_DEPTH, MAX_DOCUMENTS = 100_000, 64, 500


@dataclass(frozen=True, slots=True)
class Item:
    """A value: a dict of Items, a list of Items, or a scalar (`value` as YAML reads it, `text` as written)."""

    value: Any
    text: str
    place: Place
    end_line: int
    style: str = ""
    breaks: Breaks = ()

    def get(self, *path: str | int) -> Item:
        """The Item at a path; NOTHING where there is none."""
        item = self
        for key in path:
            if isinstance(item.value, dict) and isinstance(key, str):
                item = item.value.get(key, NOTHING)
            elif isinstance(item.value, list) and isinstance(key, int) and 0 <= key < len(item.value):
                item = item.value[key]
            else:
                return NOTHING
        return item

    def items(self) -> Iterator[tuple[str, Item]]:
        """The pairs of a mapping; none of anything else."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def __iter__(self) -> Iterator[Item]:
        """The parts of a list; none of anything else."""
        if isinstance(self.value, list):
            yield from self.value

    def __bool__(self) -> bool:
        return self is not NOTHING and self.value is not None

    @property
    def word(self) -> Word:
        """A scalar as a word of a command; a whole `$NAME` is open: envsubst's, or of a shell that is not read."""
        named = _NAME.fullmatch(self.text)
        return Word(self.text, self.place, (named[1],) if named else ())

    @property
    def span(self) -> tuple[int, int]:
        """Its first and last line."""
        return self.place.line, self.end_line

    def count(self, spelled: str) -> Given | None:
        """A number that is written in digits, and what it is called; None for all else."""
        return Given(int(self.text[:6]), spelled, self.place) if self.text.isdecimal() else None

    def number(self, default: int = 1) -> int:
        """A number that is written in digits."""
        return int(self.text[:6]) if self.text.isdecimal() else default

    def options(self, named: Mapping[str, str]) -> list[Word]:
        """Those of its keys that stand for options (key -> option), as words of a command."""
        return [word for key, option in named.items() if (item := self.get(key)) for word in (Word(option, item.place), item.word)]

    def plain(self) -> Any:
        """As plain data."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value

    @property
    def body(self) -> Place:
        """Where the text of a scalar starts: a literal block starts on the line after its mark."""
        return Place(self.place.line + 1, 1) if self.style in ("|", ">") else self.place


NOTHING = Item(None, "", Place(), 1)


def documents(text: str, source: str, base: Place = START) -> list[Item]:
    """The documents of a YAML text. Raises SpecError with the line where it is none, or too large or deep."""
    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    budget = _Budget(source, base, text.splitlines())
    try:
        _measure(text, loader_class, budget)
        loader = loader_class("")
        nodes = list(yaml.compose_all(text, Loader=loader_class))
        return [budget.build(node, loader, 0) for node in nodes if node is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = base.line + mark.line if mark else base.line
        raise SpecError(source, [(f"line {line}", yaml_problem(error, f"nested deeper than {MAX_DEPTH} levels"))]) from None


def _measure(text: str, loader_class: Any, budget: _Budget) -> None:
    """Depth and size before anything is built."""
    depth = n_documents = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader_class)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            n_documents += 1
        if depth > MAX_DEPTH:
            raise budget.fault(event, f"nested deeper than {MAX_DEPTH} levels")
        if count > 2 * MAX_NODES or n_documents > MAX_DOCUMENTS:
            raise budget.fault(event, f"more than {MAX_NODES:,} values or {MAX_DOCUMENTS} documents; no manifest is that large")


class _Budget:
    """Builds Items and counts them, so that aliases can not multiply without end."""

    def __init__(self, source: str, base: Place, lines: list[str]) -> None:
        self._source, self._base, self._lines, self._left = source, base, lines, MAX_NODES
        self._known_breaks: dict[int, Breaks] = {}  # of nodes that aliases name again and again

    def fault(self, node: Any, message: str) -> SpecError:
        return SpecError(self._source, [(f"line {self._base.line + node.start_mark.line}", message)])

    def build(self, node: Any, loader: Any, depth: int) -> Item:
        self._left -= 1
        if self._left < 0:
            raise self.fault(node, f"aliases grow it beyond {MAX_NODES:,} values; no manifest is that large")
        if depth > MAX_DEPTH:
            raise self.fault(node, f"nested deeper than {MAX_DEPTH} levels, or an alias inside itself")
        place = Place(self._base.line + node.start_mark.line, node.start_mark.column + 1)
        end = self._base.line + node.end_mark.line - (1 if node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line else 0)
        if isinstance(node, yaml.MappingNode):
            return Item(self._mapping(node, loader, depth), "", place, end)
        if isinstance(node, yaml.SequenceNode):
            return Item([self.build(child, loader, depth + 1) for child in node.value], "", place, end)
        try:
            value = scalar(node, loader)
        except ValueError:
            value = node.value
        if id(node) not in self._known_breaks:
            self._known_breaks[id(node)] = self._breaks(node)
        return Item(value, node.value, place, end, node.style or "", self._known_breaks[id(node)])

    def _breaks(self, node: Any) -> Breaks:
        """Where a folded scalar began new lines; none where its text is not those lines with blanks between."""
        first, last = node.start_mark.line, node.end_mark.line
        if first == last or node.style == "|" or "\n" in node.value.strip():
            return ()
        lines = list(enumerate(self._lines[first : last + 1], first))
        if node.style == ">":
            lines = [(line, text) for line, text in lines[1:] if line < last or node.end_mark.column]
        else:
            quote = 1 if node.style else 0
            lines[-1] = (last, lines[-1][1][: max(node.end_mark.column - quote, 0)])
            lines[0] = (first, lines[0][1][node.start_mark.column + quote :])
        parts = [(line, text.strip()) for line, text in lines if text.strip()]
        if " ".join(text for _, text in parts) != node.value.strip():
            return ()
        breaks, at = [], len(node.value) - len(node.value.lstrip())
        for line, text in parts:
            breaks.append((at, self._base.line + line))
            at += len(text) + 1
        return tuple(breaks if node.style == ">" else breaks[1:])

    def _mapping(self, node: Any, loader: Any, depth: int) -> dict[str, Item]:
        own: dict[str, Item] = {}
        merged: dict[str, Item] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.fault(key, "a key that is no text")
            if key.tag == "tag:yaml.org,2002:merge":
                many = child.value if isinstance(child, yaml.SequenceNode) else [child]
                for one in many:
                    if isinstance(one, yaml.MappingNode):
                        merged = {**self.build(one, loader, depth + 1).value, **merged}
            elif key.value in own:
                raise self.fault(key, f"the key {key.value[:60]!r} is there twice; keep one")
            else:
                own[key.value] = self.build(child, loader, depth + 1)
        return {**merged, **own}


def made(value: Any, at: Item) -> Item:
    """An Item of plain mappings of Items, which stand where `at` does."""
    if isinstance(value, Item):
        return value
    return Item({key: made(one, at) for key, one in value.items()}, "", at.place, at.end_line)


def moved(item: Item, place: Place) -> Item:
    """What another file says, told where this one names it."""
    value: Any = item.value
    if isinstance(value, dict):
        value = {key: moved(one, place) for key, one in value.items()}
    elif isinstance(value, list):
        value = [moved(one, place) for one in value]
    return replace(item, value=value, place=place, end_line=place.line)
