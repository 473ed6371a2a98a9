"""Feed-forward layers, dense and mixture of experts. They keep nothing between steps."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from kvplan.layers.base import Count, Dim, DimOrNone, LayerKind
from kvplan.tensors import Role, WeightTensor


def matrices(prefix: str, hidden: int, width: int, gated: bool, bias: bool, role: Role) -> list[WeightTensor]:
    """Up (and gate) and down projections of one feed-forward network."""
    ups = ["up", "gate"] if gated else ["up"]
    ws = [WeightTensor(f"{prefix}{up}", (width, hidden), role, width) for up in ups]
    ws.append(WeightTensor(f"{prefix}down", (hidden, width), role, width))
    if bias:
        ws += [WeightTensor(f"{prefix}{up}_bias", (width,), "norm", width) for up in ups]
        ws.append(WeightTensor(f"{prefix}down_bias", (hidden,), "norm"))
    return ws


class Dense(LayerKind):
    """down(act(gate x) * up x), or down(act(up x)) where not gated."""

    source: ClassVar[str] = "GLU variants, arXiv 2002.05202"
    kind: Literal["dense"]
    intermediate_size: Dim
    gated: bool = True
    bias: bool = False

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        return tuple(matrices("mlp_", hidden, self.intermediate_size, self.gated, self.bias, "mlp"))


class Moe(LayerKind):
    """`experts` networks of which a router picks `experts_per_token`, beside `shared_intermediate_size` that every token passes.

    latent_size      experts work on a projection of the hidden state of this width
    shared_gate      a learned scalar gate on the shared network
    router_bias      a bias that the checkpoint keeps as a buffer (score correction); `router_linear_bias` is a parameter
    """

    source: ClassVar[str] = "Mixtral, arXiv 2401.04088; DeepSeekMoE, arXiv 2401.06066"
    kind: Literal["moe"]
    experts: Count
    experts_per_token: Count
    intermediate_size: Dim
    gated: bool = True
    bias: bool = False
    shared_intermediate_size: DimOrNone = 0
    shared_gated: bool | None = None
    shared_gate: bool = False
    router: bool = True
    router_bias: bool = False
    router_linear_bias: bool = False
    latent_size: Dim | None = None

    def agree(self, _: Any) -> None:
        if self.experts_per_token > self.experts:
            raise ValueError(f"experts_per_token ({self.experts_per_token}) is more than experts ({self.experts})")

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        e, k, width = self.experts, self.experts_per_token, self.latent_size or hidden
        ws = [
            w._replace(shape=(e, *w.shape), experts=e, active=k)
            for w in matrices("expert_", width, self.intermediate_size, self.gated, self.bias, "experts")
        ]
        if self.router:
            ws.append(WeightTensor("router", (e, hidden), "router"))
        if self.router_linear_bias:
            ws.append(WeightTensor("router_linear_bias", (e,), "norm"))
        if self.router_bias:
            ws.append(WeightTensor("router_bias", (e,), "buffer"))
        if self.latent_size:
            ws.append(WeightTensor("latent_down", (self.latent_size, hidden), "mlp"))
            ws.append(WeightTensor("latent_up", (hidden, self.latent_size), "mlp"))
        if self.shared_intermediate_size:
            gated = self.gated if self.shared_gated is None else self.shared_gated
            ws += matrices("shared_", hidden, self.shared_intermediate_size, gated, self.bias, "shared_experts")
        if self.shared_gate:
            ws.append(WeightTensor("shared_gate", (1, hidden), "router"))
        return tuple(ws)
