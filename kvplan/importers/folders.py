"""A folder of model files: which of them are the model, what they say beside its config, and what a folder without a model is."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvplan.errors import KvplanError, SpecError
from kvplan.files import unreadable
from kvplan.spec import ModelSpec, lower
from kvplan.stored import StoredWeights
from kvplan.tensors import CacheFormats
from kvplan.weights import model_tensors

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
    return noted(spec, [*notes, *differs(spec, stored)]), stored


def noted(spec: ModelSpec, notes: list[str]) -> ModelSpec:
    """The spec with these notes behind its own."""
    return spec.changed(notes=(*spec.notes, *notes)) if notes else spec


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


_DRAFT = re.compile(r"mtp|nextn|eh_proj|enorm")


def differs(spec: ModelSpec, stored: StoredWeights) -> list[str]:
    """A note where the tensors can not be those of the config: layers that it does not have, fewer parameters than it describes, or more
    than twice as many.

    An engine builds what the config says, and stops at a tensor that is missing, unknown or of another shape (vLLM 0.33
    model_loader/default_loader.py track_weights_loading). Packed weights that hide how many they are can not be compared, and files hold
    parts that are not counted here: towers, talkers, buffers.
    """
    stops = "an engine that builds the config stops at a tensor that is missing, unknown or of another shape"
    beyond = [t for t in stored.tensors if t.stack == "draft"]
    if beyond and not (spec.mtp or spec.towers or spec.uncounted) and not any(_DRAFT.search(t.name) for t in beyond):
        return [f"the files have layers beyond the {spec.n_layers} that the config has, {beyond[0].name[:80]} among them: {stops}"]
    if stored.parameters is None or any(note.startswith("a drafter:") for note in spec.notes):  # a drafter may have its target's ends
        return []
    tensors = model_tensors(lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16")))
    described = sum(n * w.elems for w, n in tensors if w.role not in ("buffer", "tower"))
    more = 2.2 if not (spec.encoder or spec.towers or spec.uncounted) else float("inf")
    if 0.97 * described <= stored.parameters <= more * described:
        return []
    return [f"the files hold {stored.parameters:,} parameters, the config describes {described:,}: {stops}"]


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
