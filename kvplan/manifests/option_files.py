"""A file of an engine's own options, checked by itself: what `vllm serve --config FILE` and SGLang's `--config` read."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan import engines
from kvplan.engines.common.words import Finding, Word
from kvplan.manifests import images
from kvplan.manifests.command import Start
from kvplan.manifests.config import option_words
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.marked import Item

FEWEST = 3  # of the engine's options, the model's among them


def engine_of(document: Item) -> str:
    """The engine whose options all the keys of a flat mapping are, a model among them; empty for anything else."""
    keys = [key for key, _ in document.items()]
    if len(keys) < FEWEST or not {"model", "model-path", "model_path", "model-tag", "model_tag"} & set(keys):
        return ""
    engine = images.by_options([Word(f"--{key.replace('_', '-')}") for key in keys])
    return engine if engine and engines.arguments(engine).config == "options" else ""


def read(document: Item, n: int) -> Iterator[tuple[Start, Site]]:
    """The engine that is started with such a file."""
    engine = engine_of(document)
    words = tuple(option_words(document, placed=True))
    message = f"read as a file of {engine}'s --config: options of the command that names it win over it"
    note = Finding("option-file", "note", message, document.place)
    yield (
        Start(engine, words, {}, document.place, document.end_line),
        Site("", n, None, None, 1, NO_DEVICE, document.place, (note,), (document.place.line, document.end_line)),
    )
