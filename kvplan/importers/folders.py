"""A folder of model files: which of them are the model, what they say beside its config, and what a folder without a model is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvplan.errors import KvplanError, SpecError
from kvplan.files import unreadable
from kvplan.importers.compared import compared, noted
from kvplan.spec import ModelSpec
from kvplan.stored import StoredWeights

Found = tuple[ModelSpec, StoredWeights | None]

#: What lies in a folder that is no model's, or no more than a part of one -> what it is and what to name instead.
PARTS = {
    "model_index.json": "a diffusion pipeline (model_index.json), which keeps no cache of tokens; name the folder of a language model",
    "modules.json": "a pipeline of sentence-transformers (modules.json); name the folder of its Transformer module",
    "tokenizer_config.json": "a tokenizer without its model; name the folder that has config.json",
    "tokenizer.json": "a tokenizer without its model; name the folder that has config.json",
    "generation_config.json": "a generation_config.json without its model; name the folder that has config.json",
}


def read_folder(folder: Path) -> Found:
    """The model of a folder, its weights where they are there. Raises SpecError, FormatError, UnsupportedError."""
    from kvplan.importers.hf_config import read_config
    from kvplan.importers.safetensors import is_adapter, read_checkpoint

    names = _names(folder)
    files = ["config.json", "params.json"]
    if any(name.endswith(".gguf") for name in names):  # Meta's params.json lies beside what llama.cpp made of its files
        files.remove("params.json")
    config = next((folder / name for name in files if os.path.isfile(folder / name)), None)
    if config is None:
        return _gguf(folder)
    checkpoint = [name for name in names if name.endswith(".safetensors") and not is_adapter(name)]
    spec = read_config(config)
    has_adapter = "adapter_config.json" in names
    pickled = any(name.startswith("pytorch_model") and name.endswith(".bin") for name in names)
    if has_adapter and not checkpoint and not pickled:
        raise SpecError(str(folder), [("", adapter(folder))])
    notes = ["the adapter beside it (adapter_config.json) is not counted; --lora counts it"] if has_adapter else []
    if not checkpoint:
        return noted(spec, notes if pickled else [*notes, *_absent(folder, names)]), None
    stored = read_checkpoint(folder, spec.n_layers)
    return compared(noted(spec, notes), stored)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if os.path.isfile(folder / name))
    except OSError as error:
        raise unreadable(str(folder), error) from None


def _absent(folder: Path, names: list[str]) -> list[str]:
    """An index of files of which none has been fetched says what they hold, which is not read from it."""
    from kvplan.importers.hf_config import load_json

    for name in (name for name in names if name.endswith(".index.json")):
        try:
            total = load_json(folder / name).get("metadata")
        except KvplanError:  # larger than a config may be
            total = None
        size = total.get("total_size") if isinstance(total, dict) else None
        said = f", which are {int(size):,} bytes by it," if isinstance(size, int | float) and 0 < size < 1 << 50 else ""
        return [f"none of the files that {name} names{said} is here: the weights are counted from the config"]
    return []


def _gguf(folder: Path) -> Found:
    """The one model of GGUF files in a folder, with the projector beside it."""
    from kvplan.importers.gguf import read_gguf

    models = [folder / name for name in _names(folder) if name.lower().endswith(".gguf")]
    first = [path for path in models if "-of-" not in path.name or "-00001-of-" in path.name]
    projectors = [path for path in first if "mmproj" in path.name.lower()]
    first = [path for path in first if path not in projectors]
    if len(first) != 1:
        raise SpecError(str(folder), [("", _why_no_model(folder, first, models))])
    read: Any = read_gguf(first[0])
    found: Found = read.spec, read.stored
    return _with_projector(found, projectors[0]) if projectors else found


def _with_projector(found: Found, path: Path) -> Found:
    """The model with the tensors of the tower and projector that lie beside it, as `llama-server -hf` loads both."""
    from kvplan.importers.gguf.header import read_header
    from kvplan.importers.gguf.tensors import Table

    spec, stored = found
    if stored is None:
        return found
    tower = Table(read_header(path).tensors).stored(0).tensors
    tensors = stored.tensors + tuple(t._replace(stack="tower", role="tower", layer=None) for t in tower)
    return noted(spec, [f"{path.name}, beside it, is counted: without images, multimodal off"]), replace(stored, tensors=tensors)


def adapter(folder: Path) -> str:
    """What an adapter's folder is, and what to name instead."""
    from kvplan.importers.hf_config import load_json

    base = load_json(folder / "adapter_config.json").get("base_model_name_or_path")
    named = f", {base[:200]}," if isinstance(base, str) else ""
    return f"an adapter (adapter_config.json); name its base model{named} and the adapter with --lora"


def _why_no_model(folder: Path, first: list[Path], models: list[Path]) -> str:
    """What a folder is, where it is no model's, and what to name instead."""
    if first:
        names = ", ".join(path.name for path in first[:3])
        return f"{len(first)} GGUF models; name one of them, such as {names}"
    if os.path.isfile(folder / "adapter_config.json"):
        return adapter(folder)
    if split := [path.name for path in models if "-of-" in path.name]:
        return f"{split[0]} is a part of a split GGUF model whose first, -00001-of-, is not here; fetch it"
    what = next((said for name, said in PARTS.items() if os.path.isfile(folder / name)), None)
    return what or "no config.json and no .gguf; name the folder of a checkpoint"
