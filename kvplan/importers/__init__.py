"""Model files of other projects, read into model specs: the weights they store too, where their headers say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from kvplan.errors import KvplanError, SpecError
from kvplan.files import opened
from kvplan.spec import ModelSpec
from kvplan.stored import StoredWeights


class Imported(NamedTuple):
    """A model read from its own files; `stored` is None where no weights are at hand."""

    spec: ModelSpec
    stored: StoredWeights | None


def read(path: str) -> Imported:
    """A config.json, a GGUF file, or a checkpoint's folder (its config, and the headers of its safetensors or its one GGUF file).

    Raises SpecError, FormatError, UnsupportedError.
    """
    name = Path(os.path.expanduser(path))
    if os.path.isdir(name):
        from kvplan.importers.folders import read_folder

        return Imported(*read_folder(name))
    if path.lower().endswith(".gguf") or _is_gguf(name):
        from kvplan.importers.gguf import read_gguf

        found = read_gguf(name)
        return Imported(found.spec, found.stored)
    if path.endswith((".safetensors", ".index.json")):
        raise SpecError(path, [("", "weights without the model's config; name the folder, with its config.json")])
    if (part := _no_config(name)) is not None:
        raise SpecError(path, [("", part)])
    from kvplan.importers.hf_config import read_config

    return Imported(read_config(name), None)


def _no_config(path: Path) -> str | None:
    """What a JSON file is whose name says that it is beside a model, not its config."""
    from kvplan.importers.folders import PARTS, adapter

    if not os.path.isfile(path):
        return None
    return adapter(path.parent) if path.name == "adapter_config.json" else PARTS.get(path.name)


def _is_gguf(path: Path) -> bool:
    """Whether a file begins as GGUF does, whatever it is called: Ollama keeps models as blobs/sha256-..."""
    try:
        with opened(path) as file:
            return file.read(4) == b"GGUF"
    except KvplanError:
        return False


def from_hub(model_id: str, revision: str | None = None) -> Imported:
    """A model of the Hugging Face Hub: its config and the headers of its weights, from the local cache first. Raises KvplanError."""
    from kvplan.importers.compared import compared
    from kvplan.importers.hf_config import import_config, load_config
    from kvplan.importers.hub import fetch
    from kvplan.spec import parse_spec

    files = fetch(model_id, revision)
    spec = parse_spec(import_config(load_config(files.config), model_id), model_id)
    stored = files.stored(spec.n_layers)
    return Imported(spec, None) if stored is None else Imported(*compared(spec, stored))
