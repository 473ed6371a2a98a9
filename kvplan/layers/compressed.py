"""Compressed latent attention of DeepSeek-V4 and V4.1: a short window of rows, and one compressed row per `ratio` tokens."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from kvplan.forms import Form
from kvplan.layers.base import Count, CountOrNone, Dim, DimOrNone, LayerKind, Tokens
from kvplan.tensors import PLAIN, CacheFormats, CacheTensor, Keep, TokenWork, WeightTensor


class Compressed(LayerKind):
    """One shared KV row of `head_dim` per token for the last `window` tokens; with `ratio`, one compressed row per `ratio` tokens for all.

    `index_heads`: an indexer over compressed rows (the small ratio), with a key of `index_head_dim` per compressed row.
    `shared`: DeepSeek-V4.1's, where the rows of a few layers serve all: only `own_rows` makes some, one per 1 or 2 tokens, and keys of the
    rows for the indexers of several layers (the release's kv_source_layer_ids; vLLM 0.33 models/deepseek_v41/attention.py).
    The compressor's own buffers (less than two ratios of tokens per layer) are not counted.
    """

    source: ClassVar[str] = "DeepSeek-V4 release: config compress_ratios; transformers modeling_deepseek_v4.py"
    kind: Literal["compressed"]
    heads: Count
    head_dim: Dim
    rope_head_dim: Dim
    q_lora_rank: Dim
    o_groups: Count
    o_lora_rank: Dim
    window: Tokens
    ratio: CountOrNone = 0
    overlap: bool = False  # the compressor looks back one group: its projections are twice as wide
    index_heads: CountOrNone = 0
    index_head_dim: DimOrNone = 0
    index_topk: DimOrNone = 0
    shared: bool = False
    own_rows: bool = True

    def agree(self, _: Any) -> None:
        if self.index_heads and not (self.ratio and self.index_head_dim):
            raise ValueError("an indexer (index_heads) needs ratio and index_head_dim")
        if not self.own_rows and not self.shared:
            raise ValueError("own_rows: false, a layer that reads the rows of another, is of shared rows (shared: true)")
        if self.shared and (self.overlap or (self.ratio and self.own_rows and not self.index_head_dim)):
            raise ValueError("shared rows need index_head_dim, the size of their keys, and do not overlap")

    def cache_form(self) -> Form:
        return "compressed+shared" if self.shared else "compressed"

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        rows = [CacheTensor(name="window", heads=1, elems_per_state=self.head_dim, dtype=formats.k, keep=Keep("window", self.window))]
        lookback = 0 if self.ratio == 1 else self.ratio * (2 if self.overlap else 1)
        own = self.ratio and self.own_rows
        if own:
            rows.append(self._rows("compressed", self.head_dim, formats.k, lookback))
        if own if self.shared else self.index_heads:
            rows.append(self._rows("index_k", self.index_head_dim, formats.compute, lookback))
        return tuple(rows)

    def _rows(self, name: str, width: int, dtype: str, lookback: int) -> CacheTensor:
        return CacheTensor(name=name, heads=1, elems_per_state=width, dtype=dtype, tokens_per_state=self.ratio, lookback=lookback)

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        """Over the window, and of choosing compressed rows; reading those chosen is left out."""
        near = TokenWork(per_kept=4 * self.heads * self.head_dim, keep=Keep("window", self.window))
        index = 2 * self.index_heads * self.index_head_dim // self.ratio if self.index_heads else 0
        return (near, TokenWork(per_kept=index)) if index else (near,)

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        h, d, r = self.heads, self.head_dim, self.q_lora_rank
        ws = [
            WeightTensor("q_a", (r, hidden), "attention"),
            WeightTensor("q_a_norm", (r,), "norm"),
            WeightTensor("q_b", (h * d, r), "attention", h),
            WeightTensor("kv", (d, hidden), "attention"),
            WeightTensor("kv_norm", (d,), "norm"),
            WeightTensor("o_a", (self.o_groups * self.o_lora_rank, h * d // self.o_groups), "attention", self.o_groups),
            WeightTensor("o_b", (hidden, self.o_groups * self.o_lora_rank), "attention", self.o_groups),
            WeightTensor("sinks", (h,), "norm", h),
        ]
        if self.ratio and self.own_rows:
            ws += self._shared_compressor(hidden) if self.shared else self._compressor("compressor", hidden, d)
        if self.index_heads:
            ws += [
                WeightTensor("index_q", (self.index_heads * self.index_head_dim, r), "attention"),
                WeightTensor("index_weights", (self.index_heads, hidden), "router"),
                *([] if self.shared else self._compressor("index_compressor", hidden, self.index_head_dim)),
            ]
        return tuple(ws)

    def _shared_compressor(self, hidden: int) -> list[WeightTensor]:
        """Rows of one token have no gate; keys are made of rows."""
        d, gates = self.head_dim, ["compressor_kv", *(["compressor_gate"] if self.ratio > 1 else [])]
        return [
            *(WeightTensor(name, (d, hidden), "attention", own=PLAIN) for name in gates),
            WeightTensor("compressor_norm", (d,), "norm"),
            WeightTensor("index_k", (self.index_head_dim, d), "attention", own=PLAIN),
            WeightTensor("index_k_norm", (self.index_head_dim,), "norm"),
        ]

    def _compressor(self, name: str, hidden: int, dim: int) -> list[WeightTensor]:
        width = dim * (2 if self.overlap else 1)
        return [
            WeightTensor(f"{name}_kv", (width, hidden), "attention", own=PLAIN),
            WeightTensor(f"{name}_gate", (width, hidden), "attention", own=PLAIN),
            WeightTensor(f"{name}_position", (self.ratio, width), "norm"),
            WeightTensor(f"{name}_norm", (dim,), "norm"),
        ]
