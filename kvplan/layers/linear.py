"""Linear attention with a matrix state per head: gated delta nets, Kimi delta attention, lightning attention, RWKV."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from kvplan.dtypes import canonical
from kvplan.forms import Form
from kvplan.layers.base import Count, CountOrNone, Dim, DimOrNone, LayerKind, divides
from kvplan.layers.recurrent import Recurrent, conv_state, state
from kvplan.tensors import CacheFormats, CacheTensor, WeightTensor


class GatedDeltaNet(Recurrent):
    """State: value heads x key head dim x value head dim; the convolution covers queries, keys and values.

    separate_projections: Qwen3.5 stores qkv, z, b and a apart (same sizes in all).
    generator: width of the network that makes a JetBlock's kernels of its input; its convolution is of values alone, and SGLang keeps the
    columns of queries and keys all the same (configs/jet_nemotron.py mamba2_cache_params).
    """

    source: ClassVar[str] = "Gated Delta Networks, arXiv 2412.06464; transformers modeling_qwen3_next.py"
    form: ClassVar[Form] = "gated-delta-net"
    kind: Literal["gated_delta_net"]
    key_heads: Count
    value_heads: Count
    key_head_dim: Dim
    value_head_dim: Dim
    generator: Dim | None = None

    def agree(self, _: Any) -> None:
        super().agree(_)
        divides(self.value_heads, self.key_heads, "value_heads", "key_heads")

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return (
            conv_state("conv_qk", self.key_heads, 2 * self.key_head_dim, self.d_conv, formats),
            conv_state("conv_v", self.value_heads, self.value_head_dim, self.d_conv, formats),
            state(self.value_heads, self.key_head_dim * self.value_head_dim, self.state_dtype, formats),
        )

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        n, k, v = self.value_heads, self.key_heads * self.key_head_dim, self.value_heads * self.value_head_dim
        return (
            WeightTensor("in_proj_qkvz", (2 * k + 2 * v, hidden), "attention", self.key_heads),
            WeightTensor("in_proj_ba", (2 * n, hidden), "attention", self.key_heads),
            *self._kernels(hidden, 2 * k + v, v),
            WeightTensor("dt_bias", (n,), "state", n),
            WeightTensor("A_log", (n,), "state", n),
            WeightTensor("norm", (self.value_head_dim,), "norm"),
            WeightTensor("out_proj", (hidden, v), "attention", n),
        )

    def _kernels(self, hidden: int, channels: int, values: int) -> tuple[WeightTensor, ...]:
        """The kernels of the convolution, or what makes them (sglang 0.5.23 models/jet_nemotron.py DynamicShortConvolution)."""
        if self.generator is None:
            return (WeightTensor("conv1d", (channels, 1, self.d_conv), "state", self.key_heads),)
        n = self.value_heads
        return (
            WeightTensor("kernel_generator_w1", (self.generator, hidden), "attention", n),
            WeightTensor("kernel_generator_w2", (values * self.d_conv, self.generator), "attention", n),
            WeightTensor("kernel_generator_bias", (values * self.d_conv,), "norm", n),
        )


class Kda(Recurrent):
    """Kimi delta attention: per-channel gates, a head_dim x head_dim state per head, one convolution each for q, k and v."""

    source: ClassVar[str] = "Kimi Linear, arXiv 2510.26692; transformers modeling_kimi_linear.py"
    form: ClassVar[Form] = "kda"
    kind: Literal["kda"]
    heads: Count
    head_dim: Dim
    low_rank_decay: bool = True  # the decay passes head_dim; false: one full projection
    low_rank_gate: bool = True  # so does the output gate

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return (
            conv_state("conv", self.heads, 3 * self.head_dim, self.d_conv, formats),
            state(self.heads, self.head_dim**2, self.state_dtype, formats),
        )

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        n, d, w = self.heads, self.head_dim, self.heads * self.head_dim
        projections = [WeightTensor(f"{x}_proj", (w, hidden), "attention", n) for x in "qkv"]
        convs = [WeightTensor(f"{x}_conv1d", (w, 1, self.d_conv), "state", n) for x in "qkv"]
        gates: list[WeightTensor] = []
        for name, low in (("f", self.low_rank_decay), ("g", self.low_rank_gate)):
            if low:
                gates.append(WeightTensor(f"{name}_a_proj", (d, hidden), "attention"))
            gates.append(WeightTensor(f"{name}_b_proj" if low else f"{name}_proj", (w, d if low else hidden), "attention", n))
        return (
            *projections, *convs, *gates,
            WeightTensor("b_proj", (n, hidden), "attention", n),
            WeightTensor("A_log", (n,), "state", n), WeightTensor("dt_bias", (w,), "state", n),
            WeightTensor("o_norm", (d,), "norm"), WeightTensor("o_proj", (hidden, w), "attention", n),
        )  # fmt: skip


class Lightning(LayerKind):
    """Lightning attention: a head_dim x head_dim state per head, no convolution."""

    source: ClassVar[str] = "MiniMax-01, arXiv 2501.08313"
    form: ClassVar[Form] = "linear-attention"
    kind: Literal["lightning"]
    heads: Count
    head_dim: Dim
    state_dtype: str | None = None

    def agree(self, _: Any) -> None:
        if self.state_dtype is not None:
            canonical(self.state_dtype, "state dtype")

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return (state(self.heads, self.head_dim**2, self.state_dtype, formats),)

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        n, w = self.heads, self.heads * self.head_dim
        return (
            WeightTensor("qkv_proj", (3 * w, hidden), "attention", n),
            WeightTensor("output_gate", (w, hidden), "attention", n),
            WeightTensor("norm", (w,), "norm", n),
            WeightTensor("out_proj", (hidden, w), "attention", n),
        )


class Mlstm(LayerKind):
    """xLSTM's matrix memory: per head a qk_head_dim x v_head_dim matrix, a vector of qk_head_dim and one number, all in one type."""

    source: ClassVar[str] = "xLSTM 7B, arXiv 2503.13427; transformers modeling_xlstm.py, xLSTMCache"
    form: ClassVar[Form] = "mlstm"
    kind: Literal["mlstm"]
    heads: Count
    qk_head_dim: Dim
    v_head_dim: Dim
    bias: bool = False

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return (state(self.heads, self.qk_head_dim * (self.v_head_dim + 1) + 1, None, formats),)

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        n, qk, v = self.heads, self.heads * self.qk_head_dim, self.heads * self.v_head_dim
        ws = [WeightTensor(name, (rows, hidden), "attention", n) for name, rows in (("q", qk), ("k", qk), ("v", v), ("gate", v))]
        ws += [WeightTensor("in_forget_gates", (2 * n, hidden), "attention", n), WeightTensor("in_forget_gates_bias", (2 * n,), "norm", n)]
        ws += [WeightTensor("head_norm", (v,), "norm", n), WeightTensor("out", (hidden, v), "attention", n)]
        if self.bias:
            ws += [WeightTensor("qkv_gate_bias", (2 * qk + 2 * v,), "norm", n), WeightTensor("head_norm_bias", (v,), "norm", n)]
            ws.append(WeightTensor("out_bias", (hidden,), "norm"))
        return tuple(ws)


class Rwkv(LayerKind):
    """RWKV: `token_shifts` previous hidden states (2: time mix and channel mix), and the wkv state.

    RWKV 5 to 7 keep a head_dim x head_dim matrix per head; RWKV 4 keeps three vectors (numerator, denominator, maximum):
    say `state_vectors: 3` and no heads. The mixing and decay tensors differ by version: declare them in the block's `weights`.
    """

    source: ClassVar[str] = "RWKV-4, arXiv 2305.13048; Eagle and Finch, arXiv 2404.05892; llama.cpp llama-hparams.cpp n_embd_r, n_embd_s"
    form: ClassVar[Form] = "rwkv"
    kind: Literal["rwkv"]
    heads: CountOrNone = 0
    head_dim: DimOrNone = 0
    token_shifts: Count = 2
    state_vectors: CountOrNone = 0
    attention_size: Dim | None = None
    projections: Count = 4
    state_dtype: str | None = None

    def agree(self, _: Any) -> None:
        if not self.heads * self.head_dim and not self.state_vectors:
            raise ValueError("say heads and head_dim (RWKV 5 to 7) or state_vectors (RWKV 4)")
        if self.state_dtype is not None:
            canonical(self.state_dtype, "state dtype")

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        shift = CacheTensor(name="shift", heads=1, elems_per_state=self.token_shifts * hidden, dtype=formats.conv, tokens_per_state=None)
        if self.state_vectors:
            return (shift, state(1, self.state_vectors * (self.attention_size or hidden), self.state_dtype, formats))
        return (shift, state(self.heads, self.head_dim**2, self.state_dtype, formats))

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        width = self.attention_size or hidden
        units = self.heads or 1
        out = WeightTensor("output", (hidden, width), "attention", units)
        return (*(WeightTensor(f"proj_{i}", (width, hidden), "attention", units) for i in range(self.projections - 1)), out)
