"""Whether the tensors of files can be those of their model: an engine builds what a config says and stops at others.

A tensor that is missing, unknown or of another shape stops vLLM (0.33 model_loader/default_loader.py track_weights_loading) and llama.cpp
(src/llama-model-loader.cpp check_tensor_dims: "missing tensor", "has wrong shape"). Packed weights that hide how many they are can not be
compared, and files hold parts that are not counted here: towers, talkers, buffers.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from kvplan.spec import ModelSpec, lower
from kvplan.stored import StoredTensor, StoredWeights
from kvplan.tensors import CacheFormats, Lowered
from kvplan.weights import model_tensors

STOPS = "an engine that builds the config stops at a tensor that is missing, unknown or of another shape"
#: Of a layer's or a model's parameters: fewer than so many are not all of them.
LEAST = 0.97
_KEYS = re.compile(r"(?:\.k_proj|\.attn_k)\.weight$")
_DRAFT = re.compile(r"mtp|nextn|eh_proj|enorm")


def _of_all(spec: ModelSpec, model: Lowered, stored: StoredWeights) -> list[str]:
    """Layers that the config does not have, fewer parameters than it describes, or more."""
    beyond = [t for t in stored.tensors if t.stack == "draft"]
    if beyond and not (spec.mtp or spec.towers or spec.uncounted) and not any(_DRAFT.search(t.name) for t in beyond):
        return [f"the files have layers beyond the {spec.n_layers} that the config has, {beyond[0].name[:80]} among them: {STOPS}"]
    if stored.parameters is None or any(note.startswith("a drafter:") for note in spec.notes):  # a drafter may have its target's ends
        return []
    tensors = model_tensors(model)
    described = sum(n * w.elems for w, n in tensors if w.role not in ("buffer", "tower"))
    if stored.parameters < LEAST * described:
        return [f"the files hold {stored.parameters:,} parameters, the config describes {described:,}: {STOPS}"]
    if spec.encoder or spec.towers or spec.uncounted:
        return []
    generates = any(layer.caches for layer in model.layers)  # heads of encoders, which their engines drop, are of many kinds
    return _beyond(spec, described, stored, 1 / LEAST - 1 if generates else 1.2)


def _beyond(spec: ModelSpec, described: int, stored: StoredWeights, more: float) -> list[str]:
    """Parameters that the config does not describe, by more than a share; the copy that tied embeddings are stored with is dropped.

    vLLM 0.33 models/utils.py AutoWeightsLoader: "There is no module or parameter named"; llama.cpp: "wrong number of tensors".
    """
    own = [t for t in stored.tensors if t.stack not in ("draft", "tower") and not t.companion and t.role != "buffer"]
    own = [t for t in own if not (spec.tied_embeddings and t.role == "head")]
    held = sum(t.elems or 0 for t in own)
    strange = [t for t in own if t.role == "other"]
    named, beyond = sum(t.elems or 0 for t in strange), held - described
    if beyond <= described * more and not (more < 1 and beyond >= named > described // 1000):
        return []
    exact = strange and 20 * abs(beyond - named) <= beyond
    n_bytes = sum(t.n_bytes for t in strange) if exact else sum(t.n_bytes for t in own) * beyond // held
    such = f", {max(strange, key=lambda t: t.n_bytes).name[:80]} among them" if strange else ""
    said = f"{'' if exact else 'about '}{n_bytes:,} bytes of tensors that it does not have{such}"
    return [f"the files hold {held:,} parameters, the config describes {described:,}: {said}, are counted; {STOPS}"]


def _of_layers(model: Lowered, stored: StoredWeights) -> list[str]:
    """A layer that lacks a part of its tensors, where most have theirs; keys of other heads than the cache is counted by."""
    layers: dict[int, list[StoredTensor]] = {}
    for t in stored.tensors:
        if t.stack == "model" and t.layer is not None and not t.companion and t.role != "buffer":
            layers.setdefault(t.layer, []).append(t)
    held = {at: sum(t.elems for t in found if t.elems) for at, found in layers.items() if all(t.elems is not None for t in found)}
    lacks = Counter[int]()
    for at, layer in enumerate(model.layers):
        described = sum(w.elems for w in layer.weights if w.role != "buffer")
        if held.get(at, 0 if held and at not in layers else described) < LEAST * described:
            lacks[at] = described
        rows = {t.heads * t.elems_per_state for c in layer.caches for t in c.tensors if t.name == "k" and c.form == "kv"}
        keys = next((t for t in layers.get(at, ()) if _KEYS.search(t.name) and t.elems is not None and len(t.shape) == 2), None)
        if keys is not None and rows and keys.shape[0] not in rows:
            return [f"{keys.name[:80]} has {keys.shape[0]:,} rows, the config describes {min(rows):,}: {STOPS}"]
    if held and 0 < len(lacks) <= len(held) // 2:
        at = min(lacks)
        return [f"layer {at} of the files holds {held.get(at, 0):,} parameters, the config describes {lacks[at]:,}: {STOPS}"]
    return []


def compared(spec: ModelSpec, stored: StoredWeights) -> tuple[ModelSpec, StoredWeights]:
    """The model and its weights, with a note of the first way in which they can not belong together."""
    model = lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16"))
    notes = (_of_all(spec, model, stored) or _of_layers(model, stored))[:1]
    return noted(spec, notes), replace(stored, unlike=next(iter(notes), ""))


def noted(spec: ModelSpec, notes: list[str]) -> ModelSpec:
    """The spec with these notes behind its own."""
    return spec.changed(notes=(*spec.notes, *notes)) if notes else spec
