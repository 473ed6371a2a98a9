"""Attention layers with random weights, each run two ways: a full forward without a cache, and token by token over a real one."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from kvplan.validate.attention import Rule, attend, expanded_attend, latent_attend, mask, select

CAUSAL = Rule()


class Store(Protocol):
    """What a layer needs of a cache."""

    def append(self, sequence: int, rows: Tensor) -> None: ...
    def read(self, sequence: int) -> tuple[Tensor, Tensor]: ...


def _weight(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64).div(shape[-1] ** 0.5)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary position embedding on the last dimension (arXiv 2104.09864), so that a wrong position gives a wrong answer."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(half, dtype=x.dtype, device=x.device) / half)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Heads:
    """MHA, GQA or MQA by the number of KV heads; sliding, chunked or cross by the rule."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, width: int, rule: Rule = CAUSAL, v_width: int = 0, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.width, self.rule = width, rule
        self.q = _weight(generator, heads, width, hidden)
        self.k = _weight(generator, kv_heads, width, hidden)
        self.v = _weight(generator, kv_heads, v_width or width, hidden)
        self.o = _weight(generator, hidden, heads * (v_width or width))

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """K and V rows of tokens x [n, hidden]."""
        k = x @ self.k.transpose(-1, -2)
        return (rotate(k, positions) if self.rule.causal else k), x @ self.v.transpose(-1, -2)

    def output(self, x: Tensor, positions: Tensor, k: Tensor, v: Tensor, keys: Tensor) -> Tensor:
        q = x @ self.q.transpose(-1, -2)
        q = rotate(q, positions) if self.rule.causal else q
        out = attend(q, k, v, mask(self.rule, positions, keys), self.width**-0.5)
        return out.transpose(0, 1).flatten(1) @ self.o.T

    def full(self, x: Tensor, source: Tensor | None = None) -> Tensor:
        """Every token at once, nothing kept. `source`: the encoder's tokens, for cross-attention."""
        positions = torch.arange(len(x))
        keys = positions if source is None else torch.arange(len(source))
        return self.output(x, positions, *self.project(x if source is None else source, keys), keys)

    def step(self, x: Tensor, start: int, k: Store, v: Store, sequence: int = 0) -> Tensor:
        """Tokens x from position `start` on (many: prefill; one: decode), over what the caches hold."""
        positions = torch.arange(start, start + len(x))
        if self.rule.causal:
            new_k, new_v = self.project(x, positions)
            k.append(sequence, new_k)
            v.append(sequence, new_v)
        keys, held_k = k.read(sequence)
        _, held_v = v.read(sequence)
        return self.output(x, positions, held_k, held_v, keys)

    def run(self, x: Tensor, prefill: int, k: Store, v: Store, sequence: int = 0) -> Tensor:
        """Prefill, then decode token by token. A cache that forgets is prefilled a token at a time: it never held a whole prompt."""
        forgets = self.rule.window or self.rule.chunk
        cuts = [*range(prefill)] if forgets else [0]
        cuts += [*range(prefill, len(x)), len(x)]
        return torch.cat([self.step(x[a:b], a, k, v, sequence) for a, b in pairwise(cuts) if b > a])


class Latent:
    """MLA; with `top`, sparse: an indexer with its own small keys picks what is read."""

    def __init__(
        self, hidden: int, heads: int, rank: int, nope: int, rope: int, v: int, index: tuple[int, int] = (0, 0), top: int = 0, seed: int = 0
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.rank, self.top = rank, top
        self.q_nope, self.q_rope = _weight(generator, heads, nope, hidden), _weight(generator, heads, rope, hidden)
        self.down, self.rope = _weight(generator, rank, hidden), _weight(generator, rope, hidden)
        self.up_k, self.up_v = _weight(generator, heads, nope, rank), _weight(generator, heads, v, rank)
        index_heads, index_width = index
        self.index_q = _weight(generator, index_heads, index_width, hidden) if top else None
        self.index_k = _weight(generator, index_width, hidden) if top else None
        self.index_w = _weight(generator, index_heads, hidden) if top else None

    def rows(self, x: Tensor, positions: Tensor) -> Tensor:
        """What is kept of tokens x: [1, n, rank + rope]."""
        return torch.cat((x @ self.down.T, rotate(x @ self.rope.T, positions)), dim=-1)[None]

    def index_rows(self, x: Tensor) -> Tensor:
        """The indexer's keys: [1, n, index width]."""
        assert self.index_k is not None
        return (x @ self.index_k.T)[None]

    def _seen(self, x: Tensor, positions: Tensor, keys: Tensor, index_rows: Tensor | None) -> Tensor:
        seen = mask(CAUSAL, positions, keys)
        if index_rows is None or self.index_q is None or self.index_w is None:
            return seen
        return select(x @ self.index_q.transpose(-1, -2), (x @ self.index_w.T).T, index_rows[0], seen, self.top)

    def _queries(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        return x @ self.q_nope.transpose(-1, -2), rotate(x @ self.q_rope.transpose(-1, -2), positions)

    def full(self, x: Tensor, index_rows: Tensor | None = None) -> Tensor:
        """Every token at once with the heads' keys and values written out. `index_rows`: the indexer's keys as stored (quantised)."""
        positions = torch.arange(len(x))
        rows = self.rows(x, positions)[0]
        if self.top and index_rows is None:
            index_rows = self.index_rows(x)
        seen = self._seen(x, positions, positions, index_rows)
        return expanded_attend(*self._queries(x, positions), rows[:, : self.rank], rows[:, self.rank :], self.up_k, self.up_v, seen)

    def step(self, x: Tensor, start: int, latent: Store, index: Store | None = None, sequence: int = 0) -> Tensor:
        """Tokens x from `start` on, in latent form over the cache."""
        positions = torch.arange(start, start + len(x))
        latent.append(sequence, self.rows(x, positions))
        keys, rows = latent.read(sequence)
        stored = None
        if index is not None:
            index.append(sequence, self.index_rows(x))
            stored = index.read(sequence)[1].to(x.dtype)
        seen = self._seen(x, positions, keys, stored)
        row = rows[0]
        return latent_attend(*self._queries(x, positions), row[:, : self.rank], row[:, self.rank :], self.up_k, self.up_v, seen)
