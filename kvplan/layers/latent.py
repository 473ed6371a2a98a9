"""Multi-head latent attention: one compressed row per token for all heads, replicated under tensor parallelism."""

from __future__ import annotations

from typing import ClassVar, Literal

from kvplan.forms import Form
from kvplan.layers.base import Count, Dim, DimOrNone, LayerKind, TokensOrNone
from kvplan.tensors import ALL, CacheFormats, CacheTensor, Keep, TokenWork, WeightTensor


class Mla(LayerKind):
    """Keeps the latent (`kv_lora_rank`) and the shared rotary key (`qk_rope_head_dim`) of each token; no separate V."""

    source: ClassVar[str] = "DeepSeek-V2, arXiv 2405.04434, section 2.1"
    kind: Literal["mla"]
    heads: Count
    q_lora_rank: Dim | None = None
    kv_lora_rank: Dim
    qk_nope_head_dim: Dim
    qk_rope_head_dim: DimOrNone
    v_head_dim: Dim
    bias: bool = False
    q_norm: bool = True  # a norm on the query latent
    output_gate: Literal["none", "element", "head"] = "none"
    sinks: bool = False
    own_latent: bool = True  # false: reads the cache of an earlier layer and projects none itself
    window: TokensOrNone = 0  # only the last so many tokens; 0: all

    def cache_form(self) -> Form:
        return "shared" if not self.own_latent else "latent+window" if self.window else "latent"

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        if not self.own_latent:
            return ()
        width = self.kv_lora_rank + self.qk_rope_head_dim
        return (CacheTensor(name="latent", heads=1, elems_per_state=width, dtype=formats.k, keep=self._keep()),)

    def _keep(self) -> Keep:
        return Keep("window", self.window) if self.window else ALL

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        """In latent form, as decoding does it: scores over rank + rope, values over rank, for every head; of a prompt over K and V of every
        head, made of the latents (vLLM model_executor/layers/attention/mla_attention.py forward_mha)."""
        latent = 2 * self.heads * (2 * self.kv_lora_rank + self.qk_rope_head_dim)
        apart = 2 * self.heads * (self.qk_nope_head_dim + self.qk_rope_head_dim + self.v_head_dim)
        return (TokenWork(per_kept=latent, keep=self._keep(), prompt=min(latent, apart)),)

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        h, q_dim = self.heads, self.qk_nope_head_dim + self.qk_rope_head_dim
        ws: list[WeightTensor] = []
        if self.q_lora_rank is None:
            ws.append(WeightTensor("q", (h * q_dim, hidden), "attention", h))
        else:
            ws.append(WeightTensor("q_a", (self.q_lora_rank, hidden), "attention"))
            ws.append(WeightTensor("q_b", (h * q_dim, self.q_lora_rank), "attention", h))
            if self.q_norm:
                ws.append(WeightTensor("q_a_norm", (self.q_lora_rank,), "norm"))
        if self.own_latent:
            ws += [
                WeightTensor("kv_a", (self.kv_lora_rank + self.qk_rope_head_dim, hidden), "attention"),
                WeightTensor("kv_a_norm", (self.kv_lora_rank,), "norm"),
            ]
        if self.output_gate != "none":
            ws.append(WeightTensor("gate", (h * (self.v_head_dim if self.output_gate == "element" else 1), hidden), "attention", h))
        if self.sinks:
            ws.append(WeightTensor("sinks", (h,), "norm", h))
        ws += [
            WeightTensor("kv_b", (h * (self.qk_nope_head_dim + self.v_head_dim), self.kv_lora_rank), "attention", h),
            WeightTensor("o", (hidden, h * self.v_head_dim), "attention", h),
        ]
        if self.bias:
            if self.own_latent:
                ws.append(WeightTensor("kv_a_bias", (self.kv_lora_rank + self.qk_rope_head_dim,), "norm"))
            ws.append(WeightTensor("o_bias", (hidden,), "norm"))
            if self.q_lora_rank is not None:
                ws.append(WeightTensor("q_a_bias", (self.q_lora_rank,), "norm"))
        return tuple(ws)


class MlaSparse(Mla):
    """MLA whose queries read only `index_topk` tokens, chosen by an indexer that keeps one small key per token."""

    source: ClassVar[str] = "DeepSeek-V3.2, arXiv 2512.02556; inference/model.py of the release (e4m3 keys, one f32 scale per 128)"
    kind: Literal["mla_sparse"]  # type: ignore[assignment]
    index_heads: Count
    index_head_dim: Dim
    index_topk: Count
    index_dtype: str = "fp8_scale128"
    index_pool: Count = 1  # tokens per key of the indexer

    def cache_form(self) -> Form:
        return "latent+index" if self.index_pool == 1 else "latent+pooled-index"

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        key = CacheTensor(
            name="index_k", heads=1, elems_per_state=self.index_head_dim, dtype=self.index_dtype, tokens_per_state=self.index_pool
        )
        return (*super().cache(hidden, formats), key)

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        (dense,) = super().work(hidden)
        index = TokenWork(per_kept=2 * self.index_heads * self.index_head_dim // self.index_pool)
        return (index, dense._replace(keep=Keep("window", self.index_topk)))

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        n, d = self.index_heads, self.index_head_dim
        return (
            *super().weights(hidden),
            WeightTensor("index_q", (n * d, self.q_lora_rank or hidden), "attention"),
            WeightTensor("index_k", (d, hidden), "attention"),
            WeightTensor("index_k_norm", (d,), "norm"),
            WeightTensor("index_k_norm_bias", (d,), "norm"),
            WeightTensor("index_weights", (n, hidden), "router"),
        )
