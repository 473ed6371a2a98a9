"""What adapters hold beside the matrices they adapt: two factors of each, of `rank` rows or columns, for every slot.

Row-parallel matrices (`o`, `mlp_down`) split the first factor's input over the ranks, all others the second one's output, KV heads as
heads are; vLLM (lora/layers/base_linear.py create_lora_weights), SGLang (lora/mem_pool.py get_lora_A_shape and _B_shape, whose stacked
modules are the sum of theirs), LMDeploy (pytorch/models/patch.py). Routed experts are not adapted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.conditions import ROW_PARALLEL
from kvplan.engines.common.options import Lora, Options, read_lora
from kvplan.errors import SpecError
from kvplan.ledger import Entry, exact
from kvplan.parallel import heads_per_rank
from kvplan.tensors import Layer, WeightTensor, routed
from kvplan.units import cdiv

#: Names of a checkpoint's modules, and of those that engines store as one -> ours.
MODULES: dict[str, str] = {
    "q_proj": "q", "k_proj": "k", "v_proj": "v", "o_proj": "o", "gate_proj": "mlp_gate", "up_proj": "mlp_up", "down_proj": "mlp_down",
    "qkv_proj": "q k v", "gate_up_proj": "mlp_gate mlp_up",
    "q_a_proj": "q_a", "q_b_proj": "q_b", "kv_a_proj_with_mqa": "kv_a", "kv_b_proj": "kv_b",
    **dict.fromkeys(("in_proj_qkvz", "in_proj_qkv", "in_proj_z"), "in_proj_qkvz"),
    **dict.fromkeys(("in_proj_ba", "in_proj_b", "in_proj_a"), "in_proj_ba"), "out_proj": "out_proj",
}  # fmt: skip
#: Classes whose gates of attention's outputs are rows of q_proj (transformers models/qwen3_next, qwen3_5).
GATED_QUERIES = frozenset({
    "Qwen3NextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip
ADAPTED = ("attention", "mlp")
SOURCE = "slots x rank x (inputs + outputs) of every adapted matrix"


class Adapted(NamedTuple):
    """One adapted matrix on a rank: inputs of its first factor, outputs of its second."""

    inputs: int
    outputs: int


def asked_names(d: Deployment) -> list[str] | None:
    """`lora_target_modules` as they are written; None: all."""
    text = Options(d).text("lora_target_modules")
    if text in (None, "all", "all-linear"):
        return None
    return [name.strip().strip("'\"") for name in str(text).strip("[]() ").split(",")]


def asked_modules(d: Deployment, *, read: bool = False, beside: Container[str] = ()) -> frozenset[str] | None:
    """`lora_target_modules`, as our names; None: all. Raises SpecError for a module that is not known.

    read    the engine has read them by a list of its own: others are no matrices of layers (an embedding, a head)
    beside  what the engine has of those
    """
    names = asked_names(d)
    if names is None:
        return None
    if (strange := [name for name in names if name not in MODULES and name not in beside]) and not read:
        raise SpecError("engine_option", [("lora_target_modules", f"{strange[0][:40]!r} is not one of all, {', '.join(MODULES)}")])
    return frozenset(ours for name in names for ours in MODULES.get(name, "").split())


def adapted(
    layers: Iterable[Layer],
    tp: int,
    modules: frozenset[str] | None,
    roles: tuple[str, ...] = ADAPTED,
    *,
    sharded: bool = False,
    gated: bool = False,
) -> list[Adapted]:
    """The matrices of layers that adapters may change, as one of `tp` ranks holds their factors.

    sharded  the factor of which every rank has a copy is shared by the ranks, too (vLLM fully_sharded_loras)
    gated    gates of attention are rows of q_proj, whose first factor is theirs too
    """
    if gated and modules and "q" in modules:
        modules |= {"gate"}
    found = [
        (w, _split(w, tp, tp if sharded else 1))
        for layer in layers
        for w in layer.weights
        if w.role in roles and len(w.shape) == 2 and (modules is None or w.name in modules)
    ]
    return [one._replace(inputs=0) if gated and w.name == "gate" else one for w, one in found]


def _split(w: WeightTensor, tp: int, copies: int) -> Adapted:
    outputs, inputs = w.shape
    if tp == 1 or w.units == 1:
        return Adapted(inputs, outputs)
    if w.name in ROW_PARALLEL:
        return Adapted(cdiv(inputs, tp), cdiv(outputs, copies))
    return Adapted(cdiv(inputs, copies), outputs // w.units * heads_per_rank(w.units, tp))


def slots(
    d: Deployment, layers: Iterable[Layer], tp: int, element_bytes: int, source: str = SOURCE, roles: tuple[str, ...] = ADAPTED
) -> list[Entry]:
    """The line of the adapters' slots; none without adapters. `element_bytes`: of one element of a factor."""
    asked: Lora | None = read_lora(d.lora)
    if asked is None:
        return []
    return [exact("LoRA slots", asked.adapters * adapter_bytes(d, asked.rank, layers, tp, element_bytes, roles), source, "weights")]


def adapter_bytes(d: Deployment, rank: int, layers: Iterable[Layer], tp: int, element_bytes: int, roles: tuple[str, ...] = ADAPTED) -> int:
    """One adapter on a rank: both factors of every matrix that it may change."""
    given = {key for key, _ in d.engine_option}
    modules = asked_modules(d, read=True) if "lora_target_modules" in given else None
    sharded = "fully_sharded_loras" in given and Options(d).flag("fully_sharded_loras")
    gated = d.model.architecture in GATED_QUERIES
    return rank * sum(one.inputs + one.outputs for one in adapted(layers, tp, modules, roles, sharded=sharded, gated=gated)) * element_bytes


def note(d: Deployment, layers: Iterable[Layer]) -> tuple[str, ...]:
    """What of a model with experts is not counted of its adapters."""
    if read_lora(d.lora) is None or not routed(layers):
        return ()
    return ("lora: adapters of routed experts are not counted",)
