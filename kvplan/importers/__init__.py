"""Model files of other projects, read into model specs: the weights they store too, where their headers say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from kvplan.errors import SpecError
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
        return _folder(name)
    if path.endswith(".gguf"):
        from kvplan.importers.gguf import read_gguf

        found = read_gguf(name)
        return Imported(found.spec, found.stored)
    if path.endswith((".safetensors", ".index.json")):
        raise SpecError(path, [("", "weights without the model's config; name the folder, with its config.json")])
    from kvplan.importers.hf_config import read_config

    return Imported(read_config(name), None)


def from_hub(model_id: str, revision: str | None = None) -> Imported:
    """A model of the Hugging Face Hub: its config and the headers of its weights, from the local cache first. Raises KvplanError."""
    from kvplan.importers.hf_config import import_config, load_config
    from kvplan.importers.hub import fetch
    from kvplan.spec import parse_spec

    files = fetch(model_id, revision)
    spec = parse_spec(import_config(load_config(files.config), model_id), model_id)
    return Imported(spec, files.stored(spec.n_layers))


def _folder(folder: Path) -> Imported:
    from kvplan.importers.hf_config import read_config

    if os.path.isfile(folder / "config.json"):
        spec = read_config(folder / "config.json")
        if not any(folder.glob("*.safetensors")):
            return Imported(spec, None)
        from kvplan.importers.safetensors import read_checkpoint

        return Imported(spec, read_checkpoint(folder, spec.n_layers))
    models = sorted(folder.glob("*.gguf"))
    first = [path for path in models if "-of-" not in path.name or "-00001-of-" in path.name]
    if len(first) == 1:
        return read(str(first[0]))
    what = f"{len(first)} GGUF models; name one of them" if first else "no config.json and no .gguf; name the folder of a checkpoint"
    raise SpecError(str(folder), [("", what)])
