"""Softmax attention over all tokens: MHA, GQA, MQA, block-sparse; layers that reuse another's cache; bidirectional encoder layers."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from kvplan.forms import Form
from kvplan.layers.base import Count, Dim, LayerKind, TokensOrNone, divides
from kvplan.tensors import ALL, CacheFormats, CacheTensor, Keep, TokenWork, WeightTensor


class Attention(LayerKind):
    """Fields that all head-wise softmax attention shares.

    qk_norm: `head` normalises each head (2 x head dim weights), `full` the whole projection, `heads` each head with weights of
    its own. `output_gate`: a gate as wide as the query. `sinks`: one learned logit per head (no token is stored for it).
    """

    heads: Count
    head_dim: Dim
    v_head_dim: Dim | None = None
    q_bias: bool = False
    kv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["none", "head", "full", "heads"] = "none"
    qk_norm_bias: bool = False
    output_gate: Literal["none", "element", "head"] = "none"
    sinks: bool = False
    input_size: Dim | None = None  # width of what is projected, where it is not the hidden size
    q_lora_rank: Dim | None = None  # the query passes a normed latent of this width (multi-matrix factorisation, Step-3)
    value: Literal["own", "key"] = "own"  # key: V is K before its norm, cached apart, with no projection

    @property
    def n_kv(self) -> int:
        return self.heads

    @property
    def v_dim(self) -> int:
        return self.v_head_dim or self.head_dim

    def kv_tensors(self, formats: CacheFormats, keep: Keep) -> tuple[CacheTensor, ...]:
        """K and V: [KV heads, tokens kept, head dim] each."""
        return (
            CacheTensor(name="k", heads=self.n_kv, elems_per_state=self.head_dim, dtype=formats.k, keep=keep),
            CacheTensor(name="v", heads=self.n_kv, elems_per_state=self.v_dim, dtype=formats.v, keep=keep),
        )

    def query_weights(self, hidden: int) -> list[WeightTensor]:
        """Q and O projections and what sits on them."""
        q, o, n, width = self.heads * self.head_dim, self.heads * self.v_dim, self.heads, self.input_size or hidden
        ws = [WeightTensor("q", (q, self.q_lora_rank or width), "attention", n), WeightTensor("o", (hidden, o), "attention", n)]
        if self.q_lora_rank:
            rank = self.q_lora_rank
            ws += [WeightTensor("q_a", (rank, width), "attention"), WeightTensor("q_a_norm", (rank,), "norm")]
        if self.q_bias:
            ws.append(WeightTensor("q_bias", (q,), "norm", n))
        if self.o_bias:
            ws.append(WeightTensor("o_bias", (hidden,), "norm"))
        if self.output_gate != "none":
            ws.append(WeightTensor("gate", (q if self.output_gate == "element" else n, hidden), "attention", n))
        if self.sinks:
            ws.append(WeightTensor("sinks", (n,), "norm", n))
        ws += self._norm("q_norm", self.heads)
        return ws

    def kv_weights(self, hidden: int) -> list[WeightTensor]:
        """K and V projections and what sits on them."""
        k, v, n = self.n_kv * self.head_dim, self.n_kv * self.v_dim, self.n_kv
        width = self.input_size or hidden
        ws = [WeightTensor("k", (k, width), "attention", n)]
        if self.value == "own":
            ws.append(WeightTensor("v", (v, width), "attention", n))
        if self.kv_bias:
            ws.append(WeightTensor("k_bias", (k,), "norm", n))
            if self.value == "own":
                ws.append(WeightTensor("v_bias", (v,), "norm", n))
        ws += self._norm("k_norm", self.n_kv)
        return ws

    def _norm(self, name: str, heads: int) -> list[WeightTensor]:
        if self.qk_norm == "none":
            return []
        width = self.head_dim if self.qk_norm == "head" else heads * self.head_dim
        units = 1 if self.qk_norm == "head" else heads
        norm = [WeightTensor(name, (width,), "norm", units)]
        return norm + ([WeightTensor(name + "_bias", (width,), "norm", units)] if self.qk_norm_bias else [])

    def scores(self, keep: Keep) -> tuple[TokenWork, ...]:
        """q k and p v of every query head with every kept token."""
        return (TokenWork(per_kept=2 * self.heads * (self.head_dim + self.v_dim), keep=keep),)

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return self.kv_tensors(formats, ALL)

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        return self.scores(ALL)

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        return (*self.query_weights(hidden), *self.kv_weights(hidden))


class Mha(Attention):
    """Multi-head attention: 2 x heads x head dim x bytes per token and layer."""

    source: ClassVar[str] = "Vaswani et al. 2017, arXiv 1706.03762"
    form: ClassVar[Form] = "kv"
    kind: Literal["mha"]


class Mqa(Attention):
    """Multi-query attention: one K and V head for all query heads."""

    source: ClassVar[str] = "Shazeer 2019, arXiv 1911.02150"
    form: ClassVar[Form] = "kv"
    kind: Literal["mqa"]

    @property
    def n_kv(self) -> int:
        return 1


class Grouped(Attention):
    """Attention with its own number of KV heads."""

    kv_heads: Count

    @property
    def n_kv(self) -> int:
        return self.kv_heads

    def agree(self, _: Any) -> None:
        divides(self.heads, self.kv_heads, "heads", "kv_heads")


class Gqa(Grouped):
    """Grouped-query attention: 2 x KV heads x head dim x bytes per token and layer."""

    source: ClassVar[str] = "Ainslie et al. 2023, arXiv 2305.13245"
    form: ClassVar[Form] = "kv"
    kind: Literal["gqa"]


class GqaIndexed(Grouped):
    """Grouped-query attention whose queries read only `index_topk` tokens (whole blocks), chosen by an indexer with one key per token."""

    source: ClassVar[str] = "MiniMax-M3: vLLM 0.32 models/minimax_m3/common/indexer.py; transformers 5.23 modeling_minimax_m3_vl.py"
    form: ClassVar[Form] = "kv+index"
    kind: Literal["gqa_indexed"]
    index_heads: Count
    index_head_dim: Dim
    index_topk: Count
    index_group: Count = 1  # tokens that an engine may keep one key for (transformers keeps them all)

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        key = CacheTensor(name="index_k", heads=1, elems_per_state=self.index_head_dim, dtype=formats.compute)
        return (*self.kv_tensors(formats, ALL), key)

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        return (TokenWork(per_kept=2 * self.index_heads * self.index_head_dim), *self.scores(Keep("window", self.index_topk)))

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        n, d = self.index_heads, self.index_head_dim
        return (
            *super().weights(hidden),
            WeightTensor("index_q", (n * d, hidden), "attention", n),
            WeightTensor("index_k", (d, hidden), "attention"),
            WeightTensor("index_q_norm", (d,), "norm"),
            WeightTensor("index_k_norm", (d,), "norm"),
        )


class BlockSparse(Grouped):
    """Attends to selected blocks but keeps every K and V, and one mean key per `stride` tokens to select by."""

    source: ClassVar[str] = "Native Sparse Attention, arXiv 2502.11089; InfLLM-V2 (MiniCPM4), arXiv 2506.07900"
    form: ClassVar[Form] = "kv+blocks"
    kind: Literal["block_sparse"]
    stride: Count

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        select = CacheTensor(name="k_blocks", heads=self.n_kv, elems_per_state=self.head_dim, dtype=formats.k, tokens_per_state=self.stride)
        return (*self.kv_tensors(formats, ALL), select)

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        """Of choosing blocks alone: how many are then read the spec does not say."""
        return (TokenWork(per_kept=2 * self.heads * self.head_dim // self.stride),)


class Shared(Grouped):
    """Reads the cache of an earlier layer and keeps none of its own.

    own_kv_weights  the checkpoint still has its K and V
    window          tokens that it reads, where the layer it reads keeps only these
    """

    source: ClassVar[str] = "You Only Cache Once, arXiv 2405.05254; Gemma 3n"
    form: ClassVar[Form] = "shared"
    kind: Literal["shared"]
    own_kv_weights: bool = False
    window: TokensOrNone = 0

    def reads(self, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return self.kv_tensors(formats, Keep("window", self.window) if self.window else ALL)

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return ()

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        return (*self.query_weights(hidden), *(self.kv_weights(hidden) if self.own_kv_weights else ()))

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        """Left out: which layer's cache it reads, and so how much, the spec does not say."""
        return ()


class Encoder(Grouped):
    """Bidirectional attention of an encoder: everything is read at once, so nothing is kept."""

    source: ClassVar[str] = "Devlin et al. 2018, arXiv 1810.04805"
    kind: Literal["encoder"]

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return ()

    def reads(self, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        """K and V of the prompt at hand: an engine with one pool for all layers gives them rows."""
        return self.kv_tensors(formats, ALL)

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        return ()
