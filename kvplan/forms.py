"""What a cache is: the closed set of forms, each with the tensors it is made of. Layers lower to them, engines declare which they model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

Form = Literal[
    "none", "shared", "kv", "kv+sinks", "kv+index", "kv+blocks", "encoder-kv", "latent", "latent+index", "latent+pooled-index",
    "compressed", "mamba1", "mamba2", "gated-delta-net", "kda", "linear-attention", "short-conv", "rg-lru", "rwkv",
    "mlstm", "convolved-qkv", "depthwise-conv",
    "latent+window", "compressed+shared",
]  # fmt: skip
Rows = Literal["token", "tokens", "sequence"]
"""What one row of a tensor is for: one token, several tokens together, or the whole sequence (a state)."""

_STATE: dict[str, Rows] = {"conv": "sequence", "state": "sequence"}
#: Form -> its tensors and what their rows are for.
#:
#: shared: reads the cache of an earlier layer. kv+sinks: the first tokens stay beside a window. kv+blocks: mean keys to choose blocks by.
#: index: an indexer's keys. compressed: DeepSeek-V4's window with or without rows for several tokens and an indexer's keys over those.
#: compressed+shared: DeepSeek-V4.1's, whose rows most layers read of another.
FORMS: dict[Form, dict[str, Rows]] = {
    "none": {},
    "shared": {},
    "kv": {"k": "token", "v": "token"},
    "kv+sinks": {"k": "token", "v": "token"},
    "kv+index": {"k": "token", "v": "token", "index_k": "token"},
    "kv+blocks": {"k": "token", "v": "token", "k_blocks": "tokens"},
    "encoder-kv": {"k": "token", "v": "token"},
    "latent": {"latent": "token"},
    "latent+window": {"latent": "token"},
    "latent+index": {"latent": "token", "index_k": "token"},
    "latent+pooled-index": {"latent": "token", "index_k": "tokens"},
    "compressed": {"window": "token", "compressed": "tokens", "index_k": "tokens"},
    "compressed+shared": {"window": "token", "compressed": "tokens", "index_k": "tokens"},
    "mamba1": _STATE,
    "mamba2": {"conv_x": "sequence", "conv_bc": "sequence", "state": "sequence"},
    "gated-delta-net": {"conv_qk": "sequence", "conv_v": "sequence", "state": "sequence"},
    "kda": _STATE,
    "linear-attention": {"state": "sequence"},
    "short-conv": {"conv": "sequence"},
    "rg-lru": _STATE,
    "rwkv": {"shift": "sequence", "state": "sequence"},
    "mlstm": {"state": "sequence"},
    "convolved-qkv": _STATE,
    "depthwise-conv": {"conv": "sequence"},
}
_OPTIONAL = {form: frozenset({"compressed", "index_k"}) for form in ("compressed", "compressed+shared")}
#: Forms of one state per sequence, whatever its length.
STATES: frozenset[Form] = frozenset(form for form, tensors in FORMS.items() if "sequence" in tensors.values())
#: Forms of softmax attention, over which paged engines keep rows.
ATTENTION: frozenset[Form] = frozenset(FORMS) - STATES - {"none", "shared"}


class _Tensor(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def tokens_per_state(self) -> int | None: ...


def misfit(form: Form, tensors: Iterable[_Tensor]) -> str | None:
    """Why these tensors are not of that form; None where they are. A layer kind that lowers to something new needs a form of its own."""
    found: dict[str, Rows] = {
        t.name: "sequence" if t.tokens_per_state is None else "token" if t.tokens_per_state == 1 else "tokens" for t in tensors
    }
    declared = FORMS[form]
    for name, rows in found.items():
        if name not in declared:
            return f"form {form} has no tensor {name}"
        if declared[name] != rows and not (declared[name] == "tokens" and rows == "token"):
            return f"form {form}: a row of {name} is for one {declared[name]}, not {rows}"
    missing = declared.keys() - found.keys() - _OPTIONAL.get(form, frozenset())
    return f"form {form} lacks {', '.join(sorted(missing))}" if missing else None
