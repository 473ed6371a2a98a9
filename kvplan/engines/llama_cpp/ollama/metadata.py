"""What Ollama's scheduler reads of a model file: the sizes of its layers and the numbers of its header, as GGUF states them.

fs/ggml/ggml.go KV, Tensors.GroupLayers (0.11); llm/memory.go.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.llama_cpp.loaded import Loaded
from kvplan.engines.llama_cpp.ollama.names import gguf_name
from kvplan.stored import StoredWeights
from kvplan.tensors import Layer
from kvplan.weights import stored_bytes, total_bytes


class Metadata(NamedTuple):
    """Bytes and counts.

    arch      general.architecture, as Ollama writes it
    heads, k_dim, v_dim, kv_heads  the widest layer's; `kv_heads_of`: each layer's, 0 where it has no attention
    states    bytes in f32 that a recurrent layer keeps for one sequence
    cross     layers that attend to images
    gate_experts, feed_forward  bytes of the first layer's stack of gates and one gate's rows, 0 without; gate_apart: rows of one expert's
              gate, in old files of Mixtral that hold every expert as a tensor of its own
    output    the norm and the matrix at the end, or the embedding where that is the matrix
    tower     the tower's tensors, without the projector; projector: both
    """

    arch: str
    embedding: int
    vocab: int
    heads: int
    kv_heads: int
    k_dim: int
    v_dim: int
    kv_heads_of: tuple[int, ...]
    states: tuple[int, ...]
    cross: frozenset[int]
    window: int
    gate_experts: int
    feed_forward: int
    gate_apart: int
    layers: tuple[int, ...]
    output: int
    tower: int
    projector: int

    @property
    def blocks(self) -> int:
        return len(self.layers)

    @property
    def grouped(self) -> int:
        """Query heads of one KV head, of the layer with the fewest; all of them where a layer has none."""
        return self.heads // (min(self.kv_heads_of) or 1)


def read(f: Loaded) -> Metadata:
    """The metadata of the model that is asked about, in the format asked for."""
    model, d = f.model, f.question
    known: dict[int, tuple[int, tuple[int, int, int, int]]] = {}
    for layer in model.layers:
        if id(layer) not in known:
            known[id(layer)] = total_bytes(layer.weights, f.formats), _attention(layer)
    sizes = [known[id(layer)] for layer in model.layers]
    attention = [shape for _, shape in sizes]
    gates = [w for w in model.layers[0].weights if w.name == "expert_gate"]
    stored = f.question.stored if any(w.stored is not None for w in model.layers[0].weights) else None
    stacked, apart = _gates(stored) if stored else (None, 0)
    ends = total_bytes(model.last, f.formats)
    if model.tied and model.embedding:
        ends += stored_bytes(model.embedding, f.formats)
    towers = [w for w in model.first if w.role == "tower"] if (d.multimodal or "on") == "on" else []
    return Metadata(
        arch=gguf_name(d.model.architecture or ""),
        embedding=d.model.hidden_size,
        vocab=d.model.vocab_size or 0,
        heads=max(shape[0] for shape in attention),
        kv_heads=max(shape[1] for shape in attention),
        k_dim=max(shape[2] for shape in attention),
        v_dim=max(shape[3] for shape in attention),
        kv_heads_of=tuple(shape[1] for shape in attention),
        states=tuple(4 * (row.r + row.s) for row in f.rows),
        cross=frozenset(i for i, layer in enumerate(model.layers) if any(cache.form == "encoder-kv" for cache in layer.caches)),
        window=max((row.window for row in f.rows), default=0),
        gate_experts=0 if apart else stacked if stacked is not None else sum(stored_bytes(w, f.formats) for w in gates),
        feed_forward=gates[0].shape[-2] if gates else 0,
        gate_apart=apart,
        layers=tuple(size for size, _ in sizes),
        output=ends,
        tower=_tower(stored) if towers and stored else total_bytes([w for w in towers if "projector" not in w.name], f.formats),
        projector=total_bytes(towers, f.formats),
    )


def _gates(stored: StoredWeights) -> tuple[int | None, int]:
    """Of a file's first layer: bytes of its stack of gates, and rows of one gate that is a tensor of its own."""
    first = {t.name.removeprefix("blk.0."): t for t in stored.tensors if t.layer == 0}
    stack, apart = first.get("ffn_gate_exps.weight"), first.get("ffn_gate.0.weight")
    return stack.n_bytes if stack else None, apart.shape[0] if apart else 0


def _tower(stored: StoredWeights) -> int:
    """Bytes of a file's tower, whose tensors begin with v. (VisionGraphSize); what begins with mm. is not counted."""
    return sum(t.n_bytes for t in stored.tensors if t.stack == "tower" and t.name.startswith("v."))


def _attention(layer: Layer) -> tuple[int, int, int, int]:
    """Heads, KV heads, elements of a key and of a value, before a latent is taken for what it is: as files stated it until 2026."""
    found = {w.name: w for w in layer.weights}
    q = found.get("q_b") or found.get("q")
    if q is None:
        return 0, 0, 0, 0
    if "kv_b" in found:
        return q.units, q.units, q.shape[0] // q.units, found["o"].shape[-1] // q.units
    k = found.get("k")
    v = found.get("v") or k
    if k is None or v is None:
        return q.units, 0, 0, 0
    return q.units, k.units, k.shape[0] // k.units, v.shape[0] // v.units
