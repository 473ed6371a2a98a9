"""The layer kinds: name -> the file and class that model it. A file is read only when a spec names one of its kinds."""

from __future__ import annotations

from importlib import import_module

from kvplan.errors import UnknownName
from kvplan.layers.base import LayerKind

MIXERS: dict[str, tuple[str, str]] = {
    "mha": ("attention", "Mha"),
    "gqa": ("attention", "Gqa"),
    "mqa": ("attention", "Mqa"),
    "gqa_indexed": ("attention", "GqaIndexed"),
    "block_sparse": ("attention", "BlockSparse"),
    "encoder": ("attention", "Encoder"),
    "shared": ("attention", "Shared"),
    "sliding": ("windowed", "Sliding"),
    "chunked": ("windowed", "Chunked"),
    "mla": ("latent", "Mla"),
    "mla_sparse": ("latent", "MlaSparse"),
    "compressed": ("compressed", "Compressed"),
    "cross": ("cross", "Cross"),
    "mamba1": ("recurrent", "Mamba1"),
    "mamba2": ("recurrent", "Mamba2"),
    "short_conv": ("recurrent", "ShortConv"),
    "depthwise_conv": ("recurrent", "DepthwiseConv"),
    "rg_lru": ("recurrent", "RgLru"),
    "gated_delta_net": ("linear", "GatedDeltaNet"),
    "kda": ("linear", "Kda"),
    "lightning": ("linear", "Lightning"),
    "rwkv": ("linear", "Rwkv"),
    "mlstm": ("linear", "Mlstm"),
    "convolved_qkv": ("recurrent", "ConvolvedQkv"),
}
MLPS: dict[str, tuple[str, str]] = {
    "dense": ("mlp", "Dense"),
    "moe": ("mlp", "Moe"),
}


def find(table: dict[str, tuple[str, str]], kind: str) -> type[LayerKind]:
    """The class of a kind. Raises UnknownName."""
    if kind not in table:
        raise UnknownName("layer kind", kind, list(table))
    module, name = table[kind]
    found: type[LayerKind] = getattr(import_module(f"kvplan.layers.{module}"), name)
    return found
