"""The weights as vLLM loads them on a rank: padding, shared towers, rotary tables, LoRA slots.

vLLM 0.33 `vllm/model_executor/layers/vocab_parallel_embedding.py`, `quantization/mxfp4.py`, `rotary_embedding/*.py`, `vllm/lora/layers`.
"""

from __future__ import annotations

import re

from kvplan.deployment import Deployment
from kvplan.engines.shared import stage_weights
from kvplan.engines.vllm.settings import Settings
from kvplan.errors import SpecError
from kvplan.tensors import Lowered, WeightTensor
from kvplan.units import cdiv, round_up
from kvplan.weights import WeightFormats

VOCAB_PADDING = 64  # vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE
MXFP4_HIDDEN, MXFP4_INNER = 256, 128  # mxfp4.py create_weights: what the kernels want the hidden size and an expert's width to be
#: Classes whose rotary tables are longer than the model's maximum: linear scaling stretches the table (linear_scaling_rope.py).
STRETCHED_TABLES: dict[str, int] = {"Gemma3ForConditionalGeneration": 8}
_LORA = re.compile(r"(\d{1,4})[x\u00d7](\d{1,4})")
_ADAPTED = ("attention", "mlp")


def loaded_weights(d: Deployment, model: Lowered, stage: range, s: Settings, formats: WeightFormats) -> list[WeightTensor]:
    """What the ranks of one stage hold between them: no tower without images, vocabularies padded, packed experts padded."""
    weights = stage_weights(model, stage)
    if stage.stop == len(model.layers) and s.method == "mtp":
        weights += [w for layer in model.draft for w in layer.weights]
    return [_padded(w, formats, s.tp) for w in weights if not (w.role == "tower" and d.multimodal == "off")]


def _padded(w: WeightTensor, formats: WeightFormats, tp: int) -> WeightTensor:
    if w.role in ("embedding", "head") and len(w.shape) == 2 and w.units == w.shape[0]:
        rows = round_up(w.shape[0], VOCAB_PADDING)
        return w._replace(shape=(rows, w.shape[1]), units=rows)
    if w.role == "tower":
        return w._replace(units=tp)  # towers are tensor-parallel layers too
    if w.experts and len(w.shape) == 3 and formats[w.role] == "mxfp4":
        n, out, into = w.shape
        sides = (MXFP4_HIDDEN, MXFP4_INNER) if w.name.endswith("down") else (MXFP4_INNER, MXFP4_HIDDEN)
        return w._replace(shape=(n, round_up(out, sides[0]), round_up(into, sides[1])))
    return w


def rotary_bytes(d: Deployment, model: Lowered, s: Settings) -> int:
    """Cosines and sines of every position, in the compute type, once for each head width that rotates."""
    positions = d.model.max_context or s.max_model_len
    widths = {t.elems_per_state for layer in model.layers for cache in layer.caches for t in cache.tensors if t.name == "k"}
    if any(t.name == "latent" for layer in model.layers for cache in layer.caches for t in cache.tensors):
        widths.add(64)
    windowed = any(t.keep.kind == "window" for layer in model.layers for cache in layer.caches for t in cache.tensors)
    value = 4 if s.formats.compute == "f32" else 2
    tables = STRETCHED_TABLES.get(d.model.architecture or "", 1) + (1 if windowed else 0)
    return positions * sum(widths) * value * tables


def lora_bytes(d: Deployment, model: Lowered, stage: range, s: Settings) -> int:
    """Slots for adapters: both factors of every adapted matrix, at the largest rank. Raises SpecError for anything but RANKxADAPTERS."""
    if d.lora in (None, "off", ""):
        return 0
    match = _LORA.fullmatch(str(d.lora))
    if match is None:
        raise SpecError("lora", [("", f"{str(d.lora)[:60]!r}: write RANKxADAPTERS such as 16x4, or off")])
    rank, slots = int(match[1]), int(match[2])
    values = 0
    for i in stage:
        for w in model.layers[i].weights:
            if w.role in _ADAPTED and len(w.shape) == 2:
                out = cdiv(w.shape[0], s.tp) if w.units > 1 and w.name not in ("o", "mlp_down") else w.shape[0]
                values += rank * (out + w.shape[1])
    return 2 * slots * values
