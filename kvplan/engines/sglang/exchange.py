"""Experts over ranks: DeepEP's buffers, copies of experts and what dealing them out anew (EPLB) takes.

sglang 0.4.6 to 0.5.23 layers/moe/token_dispatcher/deepep.py (DeepEPBuffer), eplb/*, server_args.py _handle_a2a_moe (0.5.23:
arg_groups/moe_hook.py, parallel_hook.py). Buffers are made with the first step, after the pools: nothing of the fraction holds them.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common import conditions as on
from kvplan.engines.common import deepep
from kvplan.engines.common.copies import in_exchange
from kvplan.engines.common.lines import modelled
from kvplan.engines.common.options import Options
from kvplan.engines.common.settling import weight_formats
from kvplan.ledger import Entry, exact
from kvplan.tensors import Lowered, distinct, routed

#: --moe-a2a-backend.
BACKENDS = (
    "none", "deepep", "deepep_v2", "mooncake", "nixl", "mori", "ascend_fuseep", "ascend_tp", "flashinfer", "flashinfer_megamoe", "megamoe",
    "pplx",
)  # fmt: skip
DEEPEP, DEEPEP_V2 = "deepep", "deepep_v2"
MODES = ("auto", "normal", "low_latency")
#: Tokens of a rank that low-latency kernels, and DeepEP v2's, send at once (SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK, ..._V2_...).
DISPATCHED = 128
#: Options that bound the tokens of a rank in the kernels of an exchange.
BOUNDS = ("deepep_v2_num_max_dispatch_tokens_per_rank", "mega_moe_num_max_tokens_per_rank")
#: Steps whose loads EPLB keeps (expert_distribution_recorder_buffer_size, from eplb_rebalance_num_iterations).
STEPS = 1000


def backend(d: Deployment) -> str:
    return Options(d).text("moe_a2a_backend", BACKENDS) or "none"


def spread(d: Deployment) -> Deployment:
    """The question with experts over all of tp, where an exchange was asked for and nobody said how many ranks share them."""
    if backend(d) in ("none", "flashinfer") or d.ep is not None or (d.tp or 1) == 1:
        return d
    return replace(d, ep=d.tp)


def copies(d: Deployment) -> int:
    """Copies of experts in every layer: there with EPLB or without."""
    return Options(d).count("ep_num_redundant_experts", 0) or 0


def without_graphs(d: Deployment) -> bool:
    """DeepEP's high-throughput kernels alone turn CUDA graphs off, once the fraction is chosen."""
    return Options(d).text("deepep_mode", MODES) == "normal" and backend(d) == DEEPEP


def buffers(d: Deployment, model: Lowered, ep: int) -> list[Entry]:
    """What DeepEP holds on a rank from its first step on. `model`: with its copies of experts."""
    options, hidden = Options(d), d.model.hidden_size
    mode = options.text("deepep_mode", MODES) or "auto"
    tokens = options.count("deepep_num_max_dispatch_tokens_per_rank") or DISPATCHED
    if backend(d) != DEEPEP or ep == 1 or not routed(model.layers):
        return []
    experts = on.experts(model)
    near, far = deepep.normal_bytes(hidden, ep) if mode != "low_latency" else (0, 0)
    said = [f"high-throughput kernels of {ep} ranks"] if near else []
    if mode != "normal":
        far = max(far, deepep.low_latency_bytes(tokens, hidden, experts))
        said.append(f"low-latency kernels: {tokens:,} tokens of {hidden:,} for each of {experts} experts, twice there and back")
    return [modelled("DeepEP buffers", deepep.held(near, far), "; ".join(said), "process", ("capture", "warm up", "serve"))]


def balancing(d: Deployment, model: Lowered, ep: int) -> list[Entry]:
    """What EPLB's recorder holds on a rank, made before the weights are loaded: a number for each expert of each layer and step."""
    if not Options(d).flag("enable_eplb") or not routed(model.layers):
        return []
    said = f"{STEPS:,} steps x layers x experts"
    return [exact("EPLB: loads of experts", 4 * STEPS * len(model.layers) * on.experts(model), said, "process")]


def rebalanced(d: Deployment, model: Lowered, tp: int, ep: int) -> list[Entry]:
    """What dealing out anew takes in service (eplb/expert_location_updater.py create_temp_buffers)."""
    layers = [layer for layer in distinct(model.layers) if routed([layer])]
    if not Options(d).flag("enable_eplb") or not layers:
        return []
    return [in_exchange(layers[0], weight_formats(d), tp=tp, ep=ep)]


def unsized(d: Deployment, model: Lowered) -> tuple[str, ...]:
    """Why a start is too close to call: an exchange whose buffers nothing here sizes."""
    asked = backend(d)
    if asked in ("none", DEEPEP) or (d.tp or 1) == 1 or not routed(model.layers):
        return ()
    return (f"the buffers of moe_a2a_backend {asked} are not modelled",)
