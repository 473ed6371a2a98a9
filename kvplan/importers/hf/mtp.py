"""Draft modules (multi-token prediction) that a config declares."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.stack import Block, weight


class Draft(NamedTuple):
    """The key that counts the modules, the norms of hidden size, and the projection of two hidden states to one.

    unsaid  modules of a checkpoint whose config does not count them
    """

    key: str
    norms: tuple[str, ...]
    projection: str
    unsaid: int = 0


_QWEN_NORMS = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")
DRAFTS = {
    "deepseek": Draft("num_nextn_predict_layers", ("enorm", "hnorm", "shared_head_norm"), "eh_proj"),
    "mimo": Draft("num_nextn_predict_layers", ("token_layernorm", "hidden_layernorm", "final_layernorm"), "input_proj"),
    "qwen": Draft("mtp_num_hidden_layers", _QWEN_NORMS, "fc"),
    # vLLM models/qwen3_next_mtp.py: one where num_nextn_predict_layers is not there
    "qwen_next": Draft("num_nextn_predict_layers", _QWEN_NORMS, "fc", unsaid=1),
}


def declared(f: Fields, kind: str | None, layer: Block) -> dict[str, Any]:
    """The spec's `mtp` where the config counts modules; embedding and head are shared with the model."""
    draft = DRAFTS[kind] if kind else None
    modules = (f.count(draft.key) if f.opt(draft.key) is not None else draft.unsaid) if draft else 0
    if not draft or not modules:
        return {}
    hidden = f.dim("hidden_size")
    weights = [weight(name, hidden, role="norm") for name in draft.norms]
    return {"mtp": {"modules": modules, "block": layer, "weights": [*weights, weight(draft.projection, hidden, 2 * hidden)]}}
