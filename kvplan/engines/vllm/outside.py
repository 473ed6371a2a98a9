"""What a rank holds beside the memory that vLLM's fraction counts, and that the device must hold all the same.

V1 counts what grows between its two looks at the device (`gpu_worker.py` determine_available_memory); a context and, from 0.11 on, NCCL's
start lie before the first (V0 and V1 up to 0.9.1 differ: budget.py). CUDA graphs are captured after the cache is allocated and were
not counted at all before 0.20; since then their estimate is, from a capture with a small cache. Then V1 warms its sampler up once more
(`compile_or_warm_up_model`), so the peak of the profile run comes back with everything else in place.
"""

from __future__ import annotations

from kvplan.constants import Constants
from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.common import drivers
from kvplan.engines.common.lines import CONTEXT, Span, modelled
from kvplan.engines.common.measured import scaled
from kvplan.engines.common.options import Options, read_lora
from kvplan.engines.vllm.captures import beyond_logs, captured, graph_counts
from kvplan.engines.vllm.encoders import unprofiled
from kvplan.engines.vllm.flashinfer import LEAST_GRAPH, workspace
from kvplan.engines.vllm.rules import VERSIONS
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.sparse import captured_logits
from kvplan.ledger import Entry, exact, system
from kvplan.units import GIB

#: Held before vLLM looks at free memory: it enters the check that enough is free, and up to 0.9.1 the budget (V1's
#: determine_available_memory took all memory in use that torch does not own).
CONTEXT_BYTES, CONTEXT_LOW, CONTEXT_HIGH = CONTEXT
#: Modes that no published log has: such graphs take as much as both kinds at most.
UNPUBLISHED = ("FULL", "FULL_DECODE_ONLY")
#: Share of the graphs by which their capture exceeds the estimate that 0.20 and later charge, at most (vllm#57475: 0.12 of 0.46 GiB).
BEYOND_ESTIMATE = 0.3
#: Graphs with adapters and without (config/compilation.py cudagraph_specialize_lora): between once and twice those of a model alone, which
#: share most of their memory. The request that brought it logs 1.62 GiB before and 2.38 after (vllm#25914).
BOTH_GRAPHS = (2.38 / 1.62, 1.0, 2.0)
#: NCCL's buffers of one captured all-reduce between cards without links of their own, where graphs capture NCCL's kernels: of more than two
#: cards (distributed/device_communicators/custom_all_reduce.py: not on more than two PCIe-only GPUs), and of two before 0.3, which had no
#: all-reduce of its own (worker/worker.py init_custom_ar). V0, where a graph is the whole step:
#: (vllm#7553: 2,464 MiB with and without graphs for 60 layers x 2 x 35 sizes on four RTX 4090; vllm#11452: 6.56 GiB against 1.43 on A30).
COLLECTIVE = Span(520_000, 0, 1_600_000)
#: V1: graphs of 1.88 GiB for 48 layers x 2 x (67 sizes in pieces + 35 whole) on four RTX 4090, 1.26 more than on one card (vllm#27782);
#: up to what GLM-4.7 of 92 layers lacked on four RTX PRO 6000. A log of four RTX 3090 with few sizes has 0.17 GiB in all.
COLLECTIVE_V1 = Span(130_000, 0, 1_000_000)
#: What graphs of ranks on machines of their own may take beside that: 5.1 GiB on two GB10 (eugr/spark-vllm-docker#396, logged).
NETWORK_HIGH = 5 * GIB
#: The same where the processes' host side shares the memory: what 14.6 GiB of the cache of two GB10 went to is not said there.
SHARED_HIGH = 14 * GIB
#: What Intel's GPUs hold beside a context: on four Arc Pro B70 one start with 2.55 GiB beside its share ran out in the warm-up, and one of
#: another model with 1.6 GiB did not.
INTEL = Span(GIB // 2, 0, 3 * GIB)


def context(others: int, name: str = "CUDA context") -> Entry:
    """The context of a process, and `others` bytes that others hold."""
    held = Span(others + CONTEXT_BYTES, others + CONTEXT_LOW, others + CONTEXT_HIGH)
    return modelled(name, held, "held before the server looks at free memory", "process")


def graphs(d: Deployment, n_layers: int, s: VllmSettings, constants: Constants, said: str) -> Entry:
    """CUDA graphs of every captured batch size."""
    rocm = d.device is not None and d.device.vendor == "amd"
    each = constants.at("graph_rocm_bytes" if rocm else "graph_bytes", VERSIONS, s.graphs_as)
    if rocm:
        found = Span(*(int(captured(s) * size) for size in each.ends))
    else:
        layer = constants.at("graph_layer_bytes", VERSIONS, s.graphs_as)

        def sized(mode: str) -> Span:
            whole, pieces = graph_counts(s, mode)
            return Span(*(int(whole * size + pieces * n_layers * more) for size, more in zip(each.ends, layer.ends, strict=True)))

        found = sized(s.captures.mode)
        if s.rules.v1 and s.captures.mode in UNPUBLISHED:
            both = sized("FULL_AND_PIECEWISE")
            point = found.point if 20 * found.point > both.point else both.point  # an era whose logs hardly tell the two apart
            found = Span(point, 0, max(found.high, both.high))
        found = _more(drivers.held(found, d), d, s)
        logits = captured_logits(d, s.served.layers, s)
        found = Span(*(a + b for a, b in zip(found, logits, strict=True)))
        if held := workspace(d, s):
            least = sum(graph_counts(s, s.captures.mode)) * LEAST_GRAPH if s.charges_graphs else found.point
            found, said = Span(held + least, held, held + max(found.high, least)), f"{said}; FlashInfer's workspace"
    found = found._replace(high=int(found.high * beyond_logs(s)))  # InferenceX 93612317: up to 2,048, 15 GiB more on four B200
    return modelled(drivers.LINE, found, said, "graphs", sources=each.groups)


def _more(found: Span, d: Deployment, s: VllmSettings) -> Span:
    """Graphs with those of adapters beside them; more where all-reduces between machines are captured with them."""
    if s.rules.lora_graphs and d.lora not in (None, "off"):
        sets = _adapted_sets(d)
        found = Span(*(int(end * (1 + (times - 1) * sets)) for end, times in zip(found, BOTH_GRAPHS, strict=True)))
    apart = s.tp > 1 and d.device is not None and d.device.link == "none"
    more = SHARED_HIGH if d.device is not None and d.device.unified else NETWORK_HIGH
    return found._replace(high=found.high + more) if apart else found


def _adapted_sets(d: Deployment) -> int:
    """Sets of graphs with adapters: for the most; under `specialize_active_lora` for each power of two, too (lora/utils.py)."""
    asked = read_lora(d.lora)
    if asked is None or not Options(d).flag("specialize_active_lora"):
        return 1
    most = asked.adapters + 1
    return most.bit_length() + (most & (most - 1) != 0)


def outside(d: Deployment, n_layers: int, s: VllmSettings, constants: Constants, charged: Entry | None) -> list[Entry]:
    """Lines that the fraction does not count. `charged`: the graphs where the budget has them."""
    found = [exact("held by others", d.reserve, "the question", "others")] if d.reserve and not counts_context(s) else []
    if not counts_context(s):
        found.append(context(0))
    if d.device is not None and d.device.unified and not d.reserve:
        found.append(system(d.device.memory_bytes))
    if s.tp > 1 and s.since("0.11") and not reduces(d.device, s):
        entry = scaled("NCCL", constants.at(linked(d.device), VERSIONS, s.measured_as), "process")
        if d.device is not None and not d.device.link:  # either kind of link
            entry = entry._replace(high=max(entry.high, int(constants.at("outside_torch_links", VERSIONS, s.measured_as).high)))
        found.append(entry)
    if d.device is not None and d.device.vendor == "intel":
        said = "libraries, oneCCL and the warm-up: 1.33 GiB in use before the load (intel/llm-scaler#703)"
        most = INTEL.high if s.tp > 1 else INTEL.high // 2
        found.append(modelled("outside torch, Intel", INTEL._replace(high=most), said, "process", sources=2))
    if images := unprofiled(d, s):
        span = Span(images, 0, images)
        found.append(modelled("encoders, not profiled", span, "skip_mm_profiling: the largest items beside the cache", "activations"))
    if not s.graphs:
        return found
    if charged is not None:
        beyond = Span(0, 0, int(charged.bytes * BEYOND_ESTIMATE))
        return [
            *found,
            modelled("CUDA graphs beyond their estimate", beyond, "estimated with a small cache, captured with all of it", "graphs"),
        ]
    found.append(graphs(d, n_layers, s, constants, "captured after the cache is allocated"))
    own = s.rules.own_reduce and not Options(d).flag("disable_custom_all_reduce")
    if s.tp > (2 if own else 1) and d.device is not None and d.device.link in ("pcie", "none"):
        calls = 2 * n_layers * captured(s) * (1 if s.rules.v1 else s.pp)
        buffers = Span(*(calls * size for size in (COLLECTIVE_V1 if s.rules.v1 else COLLECTIVE)))
        found.append(modelled("NCCL in graphs", buffers, f"{calls:,} all-reduces captured over PCIe", "graphs", sources=3))
    return found


def reduces(device: Device | None, s: VllmSettings) -> bool:
    """Whether the switch reduces for NCCL, which registers buffers with it: of two ranks only where NCCL is new enough."""
    return device is not None and device.link == "nvls" and s.tp > (1 if s.rules.reduces_pairs else 2)


def linked(device: Device | None) -> str:
    """The constant of NCCL's buffers: on the cards over NVLink, in the host's memory between cards without peer access.

    Each of two communicators (torch's and pynccl's) keeps 9.2 MiB for each connection of a channel (NCCL src/init.cc computeBuffSizes:
    4 MiB simple, 4.7 LL128, 0.5 LL; transport/p2p.cc, shm.cc): up to 24 channels over NVSwitch, 0.7 to 2 GiB.
    """
    return "outside_torch_links" if device is not None and device.is_module else "outside_torch_nccl"


def counts_context(s: VllmSettings) -> bool:
    """The budget itself counts the context and what others hold."""
    return s.rules.profile == "peak" if s.rules.v1 else s.rules.counted == "device"


def outside_torch(s: VllmSettings, device: Device | None) -> str:
    """Which constant covers memory outside torch: libraries' workspaces, and communication buffers by kind of link.

    Where switches reduce in the network, NCCL registers buffers with them. Elsewhere only releases up to 0.10 charged NCCL's start:
    since then it lies before the snapshot. ROCm's libraries hold more than CUDA's, and Intel's more than those (a log of 0.28 on an Arc Pro
    B60 says 1.50 GiB; of 0.20 and 0.21 no log says the weights, and two starts had no such memory). Where the GPU shares the host's
    memory, what is free is what the system says (utils/mem_utils.py MemorySnapshot.measure: psutil), and what the server's own processes
    take counts.
    """
    if device is not None and device.vendor == "amd":
        return "outside_torch_rocm"
    if device is not None and device.unified:
        return "outside_torch_unified"
    if device is not None and device.vendor == "intel":
        return "outside_torch_intel"
    if s.tp == 1:
        return "outside_torch"
    if reduces(device, s):
        return "outside_torch_switch"
    return linked(device) if not s.since("0.11") else "outside_torch"
