"""Options whose name is a path, `--speculative-config.method mtp`, and `-O3`, as vLLM takes them (FlexibleArgumentParser.parse_args)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kvplan.engines.common.kinds import human
from kvplan.engines.common.words import Word


def undotted(words: Iterable[Word]) -> Iterator[Word]:
    """Dotted options gathered into one JSON value each, behind the other words, and -O3 spelled out."""
    nested: dict[str, tuple[dict[str, Any], Word]] = {}
    queue = iter(words)
    for word in queue:
        name, equals, value = word.text.partition("=")
        if word.text.startswith("-O") and len(word.text) > 2:
            level = word.text[3:] if word.text[2] == "=" else word.text[2:]
            yield from (word._replace(text="-O"), word._replace(text=level))
        elif name.startswith("-") and "." in name and not is_negative(name):
            if not equals:
                follows = next(queue, None)
                value, word = (follows.text, word._replace(missing=follows.missing)) if follows else ("", word)
            key, *path = name.removesuffix("+").split(".")
            tree, first = nested.setdefault(key, ({}, word))
            _plant(tree, path, value.split(",") if name.endswith("+") else _literal(value))
            nested[key] = (tree, first._replace(missing=(*first.missing, *word.missing)))
        else:
            yield word
    for key, (tree, word) in nested.items():
        yield from (word._replace(text=key, missing=()), word._replace(text=json.dumps(tree)))


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return human(text)
    except ValueError:
        return text


def _plant(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        inner = tree.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    if path:
        tree[path[-1]] = value


def is_negative(text: str) -> bool:
    """Whether a word with a dash is a number."""
    return len(text) > 1 and text[0] == "-" and (text[1].isdigit() or text[1] == ".")
