"""Reference attention: who may look at whom, and the weighted sum. Plain torch on positions, so that any cache can be read.

Queries are [heads, n, width]; keys and values [KV heads, m, width]; positions say where in the sequence each row stands.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Rule(NamedTuple):
    """Which earlier tokens a token sees: all; the last `window` (itself one of them) and the first `sinks`; those of its own `chunk`.

    causal False: every key (an encoder's tokens).
    """

    window: int = 0
    sinks: int = 0
    chunk: int = 0
    causal: bool = True


def mask(rule: Rule, queries: Tensor, keys: Tensor) -> Tensor:
    """[queries, keys], true where a query sees a key; both are positions."""
    q, k = queries[:, None], keys[None, :]
    if not rule.causal:
        return torch.ones(len(queries), len(keys), dtype=torch.bool, device=queries.device)
    seen = k <= q
    if rule.window:
        seen &= (k > q - rule.window) | (k < rule.sinks)
    if rule.chunk:
        seen &= k // rule.chunk == q // rule.chunk
    return seen


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float) -> Tensor:
    """softmax(scale q k^T) v with query heads dealt out evenly over the KV heads (MHA, GQA, MQA). Returns [heads, n, width of v]."""
    repeat = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(repeat, dim=0), v.repeat_interleave(repeat, dim=0)
    scores = (q @ k.transpose(-1, -2)) * scale
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v


def latent_attend(q_nope: Tensor, q_rope: Tensor, latent: Tensor, rope: Tensor, up_k: Tensor, up_v: Tensor, seen: Tensor) -> Tensor:
    """Multi-head latent attention on the latents themselves: keys and values of the heads are never formed.

    q_nope [heads, n, d]; q_rope [heads, n, r]; latent [m, rank]; rope [m, r]; up_k [heads, d, rank]; up_v [heads, dv, rank].
    A head's key is up_k c, so q . (up_k c) = (up_k^T q) . c (DeepSeek-V2, arXiv 2405.04434, section 2.1.2).
    """
    scale: float = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
    scores: Tensor = ((q_nope @ up_k) @ latent.T + q_rope @ rope.T) * scale
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    mixed: Tensor = weights @ latent
    return mixed @ up_v.transpose(-1, -2)


def expanded_attend(q_nope: Tensor, q_rope: Tensor, latent: Tensor, rope: Tensor, up_k: Tensor, up_v: Tensor, seen: Tensor) -> Tensor:
    """The same with every head's keys and values written out: what latent_attend must equal."""
    k = torch.cat((latent @ up_k.transpose(-1, -2), rope.expand(up_k.shape[0], *rope.shape)), dim=-1)
    v = latent @ up_v.transpose(-1, -2)
    q = torch.cat((q_nope, q_rope), dim=-1)
    return attend(q, k, v, seen, q.shape[-1] ** -0.5)


def select(index_q: Tensor, weights: Tensor, index_k: Tensor, seen: Tensor, top: int) -> Tensor:
    """The indexer of sparse latent attention: of the keys a query sees, the `top` with the highest weighted score.

    index_q [heads, n, d]; weights [heads, n]; index_k [m, d]. Returns a narrower `seen`.
    """
    scores = (weights[..., None] * (index_q @ index_k.T).relu()).sum(0).masked_fill(~seen, float("-inf"))
    best = scores.sort(dim=-1, descending=True, stable=True).indices[:, :top]  # stable: of equal scores the earlier token
    return torch.zeros_like(seen).scatter(-1, best, True) & seen
