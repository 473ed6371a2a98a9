"""The tensor table of a GGUF file: roles by llama.cpp's tensor names (src/llama-arch.cpp LLM_TENSOR_NAMES, b11312), and traits it shows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from kvplan.importers.gguf.architectures import Arch
from kvplan.importers.gguf.header import TensorInfo
from kvplan.stored import Stack, StoredTensor, StoredWeights
from kvplan.tensors import Role

_BLOCK = re.compile(r"^(?:(enc|dec)\.)?blk\.(\d{1,6})\.(.+)$")
_TOWER = re.compile(r"^(?:v|a|mm|resampler)\.|vis_(?:attn|gate|up|down)")

#: First match wins, on the name without its block.
_ROLES: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("buffer", re.compile(r"^(?:rope_|attn_rot_embd|exp_probs_b|ffn_gate_tid2eid|masked_embd_ordering)")),
    ("router", re.compile(r"^(?:ffn_gate_inp|altup_router\.)")),
    ("norm", re.compile(r"norm|\.bias$|^attn_sinks|_ln\.|_scale\b")),
    ("experts", re.compile(r"^ffn_(?:gate|up|down|gate_up)_(?:ch)?exps|^ffn_(?:gate|up|down)\.\d")),
    ("shared_experts", re.compile(r"^ffn_(?:gate|up|down)_shexp")),
    ("mlp", re.compile(r"^(?:ffn_|channel_mix)")),
    ("state", re.compile(r"^(?:ssm_(?:a|d|dt|conv1d\w*)|shortconv\.conv|time_mix_(?:lerp|first|decay|[wav]\d|g\d|[kr]_))(?:\b|_|\.)")),
    ("attention", re.compile(r"^(?:attn_|cross_attn|ssm_|shortconv|time_mix|indexer)")),
    ("embedding", re.compile(r"^(?:token_embd|position_embd|token_types|per_layer_token_embd)")),
    ("head", re.compile(r"^output(?:\.|$)|^cls")),
)


def role_of(name: str) -> Role:
    """The role of a tensor name without its block; `other` where none is known."""
    return next((role for role, pattern in _ROLES if pattern.search(name)), "other")


class Table:
    """The tensors of all parts of one model; empty where the file has metadata only."""

    def __init__(self, tensors: Iterable[TensorInfo]) -> None:
        self.tensors = {t.name: t for t in tensors}
        self.empty = not self.tensors
        self._leaves = {m[3] for name in self.tensors if (m := _BLOCK.match(name))}

    def has(self, il: int, leaf: str) -> bool:
        """Whether layer `il` has such a tensor."""
        return f"blk.{il}.{leaf}" in self.tensors

    def any(self, leaf: str) -> bool:
        """Whether some layer has such a tensor."""
        return leaf in self._leaves

    def shape(self, name: str) -> tuple[int, ...]:
        """GGUF order, the row length first; empty where there is no such tensor."""
        found = self.tensors.get(name)
        return found.shape if found else ()

    def norms(self, il: int, hidden: int) -> int:
        """Norms of the hidden size in layer `il`."""
        prefix = f"blk.{il}."
        return sum(name.startswith(prefix) and name.endswith("norm.weight") and t.shape == (hidden,) for name, t in self.tensors.items())

    def attention_traits(self, il: int, arch: Arch, heads: int, k_dim: int) -> dict[str, Any]:
        """Biases, norms and gates of layer `il`: from the table, or the architecture's where the file has no tensors."""
        if self.empty:
            qkv, out, norm = arch.qkv_bias, arch.bias, arch.qk_norm
            gate, sinks = arch.output_gate, arch.sinks
        else:
            fused = self.has(il, "attn_qkv.bias")
            qkv, out = fused or self.has(il, "attn_q.bias"), self.has(il, "attn_output.bias")
            shape = self.shape(f"blk.{il}.attn_q_norm.weight")
            norm = "head" if shape == (k_dim,) else "full" if shape in ((k_dim, heads), (k_dim * heads,)) else "none"
            gate = self.shape(f"blk.{il}.attn_q.weight")[1:] == (2 * heads * k_dim,)
            sinks = self.has(il, "attn_sinks.weight")
        traits = {
            "q_bias": qkv, "kv_bias": qkv, "o_bias": out, "qk_norm": norm, "output_gate": "element" if gate else "none", "sinks": sinks,
        }  # fmt: skip
        return {key: value for key, value in traits.items() if value not in (False, "none")}

    def stored(self, n_layers: int) -> StoredWeights:
        """What the file stores: bytes of the block formats, exact. Shapes as checkpoints have them, the row length last."""
        tensors = []
        for t in self.tensors.values():
            match = _BLOCK.match(t.name)
            layer = int(match[2]) if match else None
            leaf = match[3] if match else t.name
            stack: Stack = "model"
            if _TOWER.search(t.name):
                stack = "tower"
            elif match and match[1] == "enc":
                stack = "encoder"
            elif "nextn." in t.name or (layer is not None and layer >= n_layers):
                stack = "draft"
            role: Role = "tower" if stack == "tower" else role_of(leaf)
            shape = t.shape[::-1]
            stacked = role == "experts" and len(shape) == 3
            tensors.append(
                StoredTensor(
                    name=t.name, dtype=t.type, shape=shape, n_bytes=t.n_bytes, role=role, layer=layer, stack=stack,
                    elems=math.prod(t.shape), experts=shape[0] if stacked else 0,
                )
            )  # fmt: skip
        return StoredWeights(source="GGUF tensor table", tensors=tuple(tensors))
