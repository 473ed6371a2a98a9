"""What of a model stands in for itself where it does not run on the meta device, or only slowly. None of it touches a cache."""

from __future__ import annotations

import re
from typing import Any


def quick(model: Any) -> list[Any]:
    """Norms and feed-forward networks hand on what they get: neither touches a cache, both are slow on meta. Returns what was changed."""
    changed = []
    for module in model.modules():
        name = type(module).__name__
        if (
            re.search(r"(MLP|RMSNorm|LayerNorm)$", name)
            and not re.search(r"Vision|Audio|Gated|Moe", name)
            and not hasattr(module, "experts")
        ):
            module.forward = lambda hidden_states, *a, **k: hidden_states
            changed.append(module)
    still(model)
    return changed


def still(model: Any) -> list[Any]:
    """Experts hand back their input's shape, rotary embeddings do not rescale: neither touches a cache, neither runs on meta."""
    import torch

    for module in model.modules():
        if re.search(r"Experts?$", type(module).__name__):
            module.forward = lambda hidden_states, *a, **k: torch.zeros_like(hidden_states)
        if hasattr(module, "_rnn_scan"):  # RecurrentGemma steps through the tokens one by one
            module._rnn_scan = lambda hidden_states, *a, **k: (hidden_states, torch.zeros_like(hidden_states[:, 0], dtype=torch.float32))
        if type(module).__name__ == "Qwen4ExpTextQSAIndexer":  # chooses tokens by nonzero; what it keeps is its raw keys
            module.forward = _indexes(module)
        kind = getattr(module, "rope_type", None)
        if isinstance(kind, str) and kind in ("dynamic", "longrope"):
            module.rope_type = "default"
        elif isinstance(kind, dict):
            module.rope_type = {k: "default" if v in ("dynamic", "longrope") else v for k, v in kind.items()}
    return []


def _indexes(indexer: Any) -> Any:
    def forward(hidden_states: Any, position_embeddings: Any, attention_mask: Any, past_key_values: Any) -> Any:
        keys = indexer.index_qk_proj(hidden_states)[..., -indexer.index_head_dim :]
        past_key_values.update_indexer(keys, indexer.layer_idx)
        return attention_mask.bool()

    return forward


def whole_blocks(model: Any) -> list[Any]:
    """Whole mixture-of-experts blocks, where their routing can not run on meta."""
    import inspect

    import torch

    for module in model.modules():
        if re.search(r"(SparseMoe|MoE|Moe|MOE)(Block|MLP|Mlp|FFN|Layer)?$|DbrxFFN", type(module).__name__):
            two = re.search(r"return \w+, router", inspect.getsource(type(module).forward)) is not None

            def forward(hidden_states: Any, *a: Any, _two: bool = two, **k: Any) -> Any:
                zeros = torch.zeros_like(hidden_states)
                return (zeros, None) if _two else zeros

            module.forward = forward
    return []
