"""Recurrent layers that keep one state per sequence, whatever its length: Mamba 1 and 2, short convolutions, the real-gated LRU.

A convolution state holds the last kernel - 1 inputs of every channel; engines that keep other columns scale by CacheTensor.columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

from kvplan.dtypes import canonical
from kvplan.forms import Form
from kvplan.layers.base import Count, Dim, LayerKind, divides
from kvplan.tensors import CacheFormats, CacheTensor, WeightTensor


def conv_state(name: str, heads: int, channels: int, kernel: int, formats: CacheFormats) -> CacheTensor:
    """The inputs a causal convolution still needs: heads x channels x (kernel - 1)."""
    n = kernel - 1
    return CacheTensor(name=name, heads=heads, elems_per_state=channels * n, dtype=formats.conv, tokens_per_state=None, columns=n)


def state(heads: int, elems: int, pinned: str | None, formats: CacheFormats) -> CacheTensor:
    """The recurrent state: heads x elems, in the format that the model pins or the engine chooses."""
    dtype = formats.forced_state or (canonical(pinned) if pinned else formats.state)
    return CacheTensor(name="state", heads=heads, elems_per_state=elems, dtype=dtype, tokens_per_state=None)


class Recurrent(LayerKind):
    """`state_dtype`: only where the released config pins it; else the engine chooses (f32 without one)."""

    d_conv: Count
    state_dtype: str | None = None

    def agree(self, _: Any) -> None:
        if self.d_conv < 2:
            raise ValueError("d_conv is the kernel width: at least 2")
        if self.state_dtype is not None:
            canonical(self.state_dtype, "state dtype")


class Mamba1(Recurrent):
    """Selective state space: state d_inner x d_state, convolution over d_inner channels."""

    source: ClassVar[str] = "Mamba, arXiv 2312.00752; state-spaces/mamba mamba_simple.py"
    form: ClassVar[Form] = "mamba1"
    kind: Literal["mamba1"]
    d_inner: Dim
    d_state: Dim
    dt_rank: Dim
    conv_bias: bool = True
    proj_bias: bool = False
    inner_norms: bool = False  # Jamba: norms on dt, B and C

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return (
            conv_state("conv", self.d_inner, 1, self.d_conv, formats),
            state(self.d_inner, self.d_state, self.state_dtype, formats),
        )

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        d, n, r = self.d_inner, self.d_state, self.dt_rank
        ws = [
            WeightTensor("in_proj", (2 * d, hidden), "attention", d),
            WeightTensor("conv1d", (d, 1, self.d_conv), "state", d),
            WeightTensor("x_proj", (r + 2 * n, d), "attention", d),
            WeightTensor("dt_proj", (d, r), "attention", d),
            WeightTensor("dt_proj_bias", (d,), "norm", d),
            WeightTensor("A_log", (d, n), "state", d),
            WeightTensor("D", (d,), "state", d),
            WeightTensor("out_proj", (hidden, d), "attention", d),
        ]
        if self.conv_bias:
            ws.append(WeightTensor("conv1d_bias", (d,), "norm", d))
        if self.proj_bias:
            ws += [WeightTensor("in_proj_bias", (2 * d,), "norm", d), WeightTensor("out_proj_bias", (hidden,), "norm")]
        if self.inner_norms:
            ws += [
                WeightTensor("dt_norm", (r,), "norm"),
                WeightTensor("b_norm", (n,), "norm"),
                WeightTensor("c_norm", (n,), "norm"),
            ]
        return tuple(ws)


class Mamba2(Recurrent):
    """State space duality: state heads x head dim x d_state; the convolution also covers B and C of every group.

    `chunk`: tokens of one chunk of the scan, where the config says it; engines align kept states to it.
    """

    source: ClassVar[str] = "Mamba-2, arXiv 2405.21060; state-spaces/mamba mamba2.py"
    form: ClassVar[Form] = "mamba2"
    kind: Literal["mamba2"]
    heads: Count
    head_dim: Dim
    groups: Count
    d_state: Dim
    conv_bias: bool = True
    proj_bias: bool = False
    gate_norm: bool = True
    chunk: Count | None = None

    def agree(self, _: Any) -> None:
        super().agree(_)
        divides(self.heads, self.groups, "heads", "groups")

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return (
            conv_state("conv_x", self.heads, self.head_dim, self.d_conv, formats),
            conv_state("conv_bc", self.groups, 2 * self.d_state, self.d_conv, formats),
            state(self.heads, self.head_dim * self.d_state, self.state_dtype, formats),
        )

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        h, d, bc = self.heads, self.heads * self.head_dim, 2 * self.groups * self.d_state
        ws = [
            WeightTensor("in_proj", (2 * d + bc + h, hidden), "attention", h),
            WeightTensor("conv1d", (d + bc, 1, self.d_conv), "state", h),
            WeightTensor("dt_bias", (h,), "state", h),
            WeightTensor("A_log", (h,), "state", h),
            WeightTensor("D", (h,), "state", h),
            WeightTensor("out_proj", (hidden, d), "attention", h),
        ]
        if self.gate_norm:
            ws.append(WeightTensor("norm", (d,), "norm", h))
        if self.conv_bias:
            ws.append(WeightTensor("conv1d_bias", (d + bc,), "norm", h))
        if self.proj_bias:
            ws += [WeightTensor("in_proj_bias", (2 * d + bc + h,), "norm", h), WeightTensor("out_proj_bias", (hidden,), "norm")]
        return tuple(ws)


class ShortConv(Recurrent):
    """A gated short convolution and nothing else: `d_conv` - 1 columns of the hidden state."""

    source: ClassVar[str] = "LFM2: transformers modeling_lfm2.py, Lfm2ShortConv"
    form: ClassVar[Form] = "short-conv"
    kind: Literal["short_conv"]
    bias: bool = False

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return (conv_state("conv", hidden, 1, self.d_conv, formats),)

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        ws = [
            WeightTensor("in_proj", (3 * hidden, hidden), "attention", hidden),
            WeightTensor("conv", (hidden, 1, self.d_conv), "state", hidden),
            WeightTensor("out_proj", (hidden, hidden), "attention", hidden),
        ]
        if self.bias:
            ws += [
                WeightTensor("in_proj_bias", (3 * hidden,), "norm", hidden),
                WeightTensor("conv_bias", (hidden,), "norm", hidden),
                WeightTensor("out_proj_bias", (hidden,), "norm"),
            ]
        return tuple(ws)


class DepthwiseConv(Recurrent):
    """Causal convolutions of `channels` in all, beside what they follow: the last (`d_conv` - 1) x `dilation` inputs of each channel.

    exact_columns: transformers keeps just these, not the kernel's width.
    """

    source: ClassVar[str] = "Inkling, Qwen4-Exp: transformers 5.23 modeling_inkling.py (four a layer), modeling_qwen4_exp.py (PLE)"
    form: ClassVar[Form] = "depthwise-conv"
    kind: Literal["depthwise_conv"]
    channels: Dim
    dilation: Count = 1
    exact_columns: bool = False

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        made = conv_state("conv", 1, self.channels, 1 + (self.d_conv - 1) * self.dilation, formats)
        made = replace(made, columns=0, lookback=made.columns) if self.exact_columns else made
        return (replace(made, dtype=canonical(self.state_dtype)) if self.state_dtype else made,)

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        return (WeightTensor("conv", (self.channels, 1, self.d_conv), "state", self.channels),)


class ConvolvedQkv(LayerKind):
    """ZAYA's compressed convolutional attention: queries and keys pass two causal convolutions, half of each value is a token late.

    What stands beside an attention layer: the inputs that both convolutions still need and the late half of the values, in one type.
    """

    source: ClassVar[str] = "CCA, arXiv 2510.04476; transformers modeling_zaya.py, ZayaCCAProjection"
    form: ClassVar[Form] = "convolved-qkv"
    kind: Literal["convolved_qkv"]
    heads: Count
    kv_heads: Count
    head_dim: Dim
    kernels: tuple[Dim, Dim]

    def agree(self, _: Any) -> None:
        divides(self.heads, self.kv_heads, "heads", "kv_heads")
        divides(self.kv_heads * self.head_dim, 2, "kv_heads x head_dim", "2")
        if sum(self.kernels) < 3:
            raise ValueError("two convolutions of width 1 keep nothing")

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        channels = (self.heads // self.kv_heads + 1) * self.head_dim
        late = CacheTensor(
            name="state", heads=1, elems_per_state=self.kv_heads * self.head_dim // 2, dtype=formats.conv, tokens_per_state=None
        )
        return (conv_state("conv", self.kv_heads, channels, sum(self.kernels) - 1, formats), late)

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        n = (self.heads + self.kv_heads) * self.head_dim
        return (
            WeightTensor("conv_depthwise", (n, 1, self.kernels[0]), "state", self.kv_heads),
            WeightTensor("conv_grouped", (n, self.head_dim, self.kernels[1]), "state", self.kv_heads),
            WeightTensor("conv_biases", (2, n), "norm"),
        )


class RgLru(Recurrent):
    """The real-gated linear recurrent unit: a state of `width` elements and a convolution over as many channels."""

    source: ClassVar[str] = "Griffin, arXiv 2402.19427; transformers modeling_recurrent_gemma.py"
    form: ClassVar[Form] = "rg-lru"
    kind: Literal["rg_lru"]
    width: Dim
    heads: Count

    def agree(self, _: Any) -> None:
        super().agree(_)
        divides(self.width, self.heads, "width", "heads")

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        per_head = self.width // self.heads
        return (
            conv_state("conv", self.heads, per_head, self.d_conv, formats),
            state(self.heads, per_head, self.state_dtype, formats),
        )

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        w, n = self.width, self.heads
        b = w // n
        gates = [WeightTensor(f"{gate}_gate", (n, b, b), "attention", n) for gate in ("input", "recurrent")]
        gates += [WeightTensor(f"{gate}_gate_bias", (n, b), "norm", n) for gate in ("input", "recurrent")]
        return (
            WeightTensor("linear_x", (w, hidden), "attention", n), WeightTensor("linear_x_bias", (w,), "norm", n),
            WeightTensor("linear_y", (w, hidden), "attention", n), WeightTensor("linear_y_bias", (w,), "norm", n),
            WeightTensor("linear_out", (hidden, w), "attention", n), WeightTensor("linear_out_bias", (hidden,), "norm"),
            WeightTensor("conv_1d", (w, 1, self.d_conv), "state", n), WeightTensor("conv_1d_bias", (w,), "norm", n),
            WeightTensor("recurrent_param", (w,), "state", n), *gates,
        )  # fmt: skip
