"""Experts over ranks: what exchanging their tokens takes, and what dealing them out anew (EPLB) does.

vLLM 0.9 to 0.33 distributed/device_communicators/all2all.py, distributed/eplb/*, model_executor/layers/fused_moe/config.py
(use_all2all_kernels: data-parallel ranks and expert parallelism), fused_moe/all2all_utils.py; envs.py.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common import conditions as on
from kvplan.engines.common import deepep
from kvplan.engines.common.copies import in_exchange, of_one_layer
from kvplan.engines.common.lines import Span, modelled
from kvplan.engines.common.options import Options
from kvplan.engines.vllm.rules import since
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.ledger import Entry, Phase, exact
from kvplan.tensors import Lowered, distinct, layer_counts, routed
from kvplan.units import MIB, cdiv
from kvplan.weights import WeightFormats

#: --all2all-backend (config/parallel.py All2AllBackend), VLLM_ALL2ALL_BACKEND before 0.11.1.
BACKENDS = (
    "allgather_reducescatter", "naive", "pplx", "deepep_high_throughput", "deepep_low_latency", "deepep_v2", "mori", "mori_high_throughput",
    "mori_low_latency", "moonep", "nixl_ep", "flashinfer_all2allv", "flashinfer_nvlink_one_sided", "flashinfer_nvlink_two_sided",
)  # fmt: skip
HIGH_THROUGHPUT, LOW_LATENCY = "deepep_high_throughput", "deepep_low_latency"
#: Those without buffers of their own. `pplx` has some, and is another name of the default from 0.20 on.
PLAIN = ("allgather_reducescatter", "naive")
#: Those whose step has so few tokens from 0.20 on, where nobody says more (SchedulerConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP).
SMALL_STEPS, SMALL = (LOW_LATENCY, "nixl_ep"), 256
#: MiB of DeepEP's buffer over NVLink, and over the network between machines (VLLM_DEEPEP_BUFFER_SIZE_MB, from 0.11 on).
BUFFER_MIB = 1024
#: Tokens that are exchanged at once up to 0.19 (VLLM_MOE_DP_CHUNK_SIZE); later all of a step.
CHUNK = 256
#: Widths of a token that DeepEP's low-latency kernels take; others are rounded up (prepare_finalize/deepep_ll.py SUPPORTED_HIDDEN_SIZES).
HIDDEN = (2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192)


def kernels_of(options: Options, d: Deployment, model: Lowered, release: str) -> str:
    """The exchange that was asked for and takes memory of its own; empty: none does. Without data parallelism none is used."""
    asked = options.text("all2all_backend", BACKENDS)
    if asked is None or asked in PLAIN or (d.dp or 1) == 1 or (d.ep or 1) == 1 or not routed(model.layers):
        return ""
    return "" if asked == "pplx" and since(release, "0.20") else asked


def small_steps(options: Options, d: Deployment, release: str) -> bool:
    """Whether a step has 256 tokens where nobody says more (config/parallel.py use_batched_dp_moe)."""
    asked = options.text("all2all_backend", BACKENDS)
    return asked in SMALL_STEPS and (d.dp or 1) > 1 and (d.ep or 1) > 1 and since(release, "0.20")


def unsized(s: VllmSettings) -> tuple[str, ...]:
    """Why a start is too close to call: an exchange whose buffers nothing here sizes."""
    if s.exchange in ("", HIGH_THROUGHPUT, LOW_LATENCY):
        return ()
    return (f"the buffers of all2all_backend {s.exchange} are not modelled",)


def buffers(d: Deployment, s: VllmSettings) -> list[Entry]:
    """What DeepEP holds on a rank: made while the weights are loaded, so the budget counts it."""
    if s.exchange not in (HIGH_THROUGHPUT, LOW_LATENCY):
        return []
    near, ranks = s.deepep_mib * MIB, s.tp * s.dp
    if s.exchange == LOW_LATENCY:
        tokens, hidden, experts = _exchanged(s), _hidden(d.model.hidden_size), on.experts(s.served)
        far = deepep.low_latency_bytes(tokens, hidden, experts)
        said = f"low-latency kernels: {tokens:,} tokens of {hidden:,} for each of {experts} experts, twice there and back"
    else:
        far = near if ranks > deepep.PEERS else 0
        said = "high-throughput kernels" + (", over NVLink and the network" if far else ", over NVLink")
    return [modelled("DeepEP buffers", deepep.held(near, far), f"{said}; VLLM_DEEPEP_BUFFER_SIZE_MB {s.deepep_mib}", "process", sources=1)]


def batched(d: Deployment, s: VllmSettings, value_bytes: int) -> list[Entry]:
    """What low-latency kernels' experts work in: room for every rank's tokens in each expert of a rank, whoever chose it.

    The wider of two products, the one between and the result (experts/batched_deep_gemm_moe.py workspace_shapes), which stay once the
    profile run has made them (modular_kernel.py SharedBuffers, later the workspace manager), and at most the received tokens beside.
    """
    if s.exchange != LOW_LATENCY:
        return []
    ranks, hidden = s.tp * s.dp, _hidden(d.model.hidden_size)
    rows = cdiv(on.experts(s.served), ranks) * _exchanged(s) * ranks
    stacks = [w for layer in distinct(s.served.layers) for w in layer.weights if w.experts and len(w.shape) == 3]
    inner = max((w.shape[2] for w in stacks if w.name.endswith("down")), default=0)
    point = rows * value_bytes * (max(2 * inner, hidden) + inner + hidden)
    size = Span(point, point // 2, point + rows * value_bytes * hidden)
    said = f"{rows:,} rows: every rank's tokens in each expert of a rank"
    return [modelled("experts' batches", size, said, "activations", _PROFILED, sources=1)]


_PROFILED: tuple[Phase, ...] = ("profile", "allocate", "capture", "warm up", "serve")


def balancing(model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats, ep: int) -> list[Entry]:
    """What EPLB holds on a rank of one stage, beside the copies of experts: its books, and room for one layer's experts."""
    layers = [layer for layer, n in layer_counts(model.layers[stage.start : stage.stop]) for _ in range(n) if routed([layer])]
    if s.redundant is None or not layers or ep == 1:
        return []
    experts, steps = on.experts(model), s.load_window + 1
    seen = cdiv(experts, ep) if not s.since("0.11") else experts
    found = [exact("EPLB: loads of experts", 4 * steps * len(layers) * seen, f"{steps - 1:,} steps and one, layers x experts", "process")]
    if s.since("0.12"):
        held = of_one_layer(layers[0], formats, tp=s.tp, ep=ep)
        staged = (ep + 1) * held.bytes if s.since("0.20") and not s.since("0.23") else 0
        said = "one layer's experts of a rank, which arrive there"
        found.append(held._replace(name="EPLB: room for experts", high=held.high + staged, source=said, kind="process"))
    return found


def rebalanced(model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats, ep: int) -> list[Entry]:
    """What dealing out anew takes in service before 0.23, which made that room for each time (eplb/rebalance_execute.py)."""
    layers = [layer for layer in distinct(model.layers[stage.start : stage.stop]) if routed([layer])]
    if s.redundant is None or not layers or ep == 1 or s.since("0.23"):
        return []
    return [in_exchange(layers[0], formats, tp=s.tp, ep=ep)]


def _exchanged(s: VllmSettings) -> int:
    """Tokens that a rank exchanges at once."""
    return s.max_num_batched_tokens if s.since("0.20") else s.exchanged


def _hidden(hidden: int) -> int:
    return next((known for known in HIDDEN if known >= hidden), hidden)
