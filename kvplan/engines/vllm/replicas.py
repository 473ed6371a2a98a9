"""What experts hold of all data-parallel replicas' tokens, which each rank gathers before its experts and scatters after them.

vLLM 0.8 to 0.33: distributed/device_communicators/all2all.py (naive_multicast; AgRsAll2AllManager dispatch, combine: outputs of
all_gatherv and reduce_scatterv), fused_moe/prepare_finalize/naive_dp_ep.py, the kernels' workspace_shapes. FlashInfer's kernels size theirs
inside for every token and expert that it chose, whichever rank has it (csrc/fused_moe/cutlass_backend, getWorkspaceDeviceBufferSizes;
trtllm_fused_moe_runner). Whether the two products of an expert lie in the same memory differs between kernels, and with it the upper end.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common.lines import Span, modelled
from kvplan.engines.common.widths import QUANTISED_INPUTS, expert_widths
from kvplan.ledger import Entry
from kvplan.tensors import Layer
from kvplan.weights import WeightFormats


class Gathered(NamedTuple):
    """Sizes of one pipeline stage's experts under several replicas, per rank.

    tokens          of all replicas, that experts see at once
    width_bytes     the widest sublayer of the rank's own tokens alone
    reserved_bytes  the shared workspace for them
    apart_bytes     what experts hold of all tokens where nothing shares memory
    """

    tokens: int
    width_bytes: int
    reserved_bytes: int
    apart_bytes: int


def apart_values(layer: Layer, hidden: int, tp: int, ep: int, formats: WeightFormats) -> float:
    """Values of a gathered token in experts' kernels that share nothing: its state, gathered and brought back (the result, and what
    reduce_scatterv is handed), the scores of all experts in f32, and for each chosen expert the copy that it reads, up (and gate), the
    product between, and its result. Inputs that are quantised are there in one byte beside.
    """
    stacks = [w for w in layer.weights if w.experts and len(w.shape) == 3]
    if not stacks:
        return 0.0
    chosen, ups, inner = expert_widths(layer.weights, tp, ep)
    copy = 0.5 if formats.of(stacks[0]) in QUANTISED_INPUTS else 1.0
    return 3 * hidden + 2 * stacks[0].experts + chosen * (copy * (hidden + inner) + ups + hidden)


def of_all_replicas(found: Gathered, point: int, high: int) -> Entry:
    """The line. `point`: the profile run's peak beyond that of the rank's own tokens; `high`: the same where nothing shares memory."""
    said = f"{found.tokens:,} tokens of all replicas in experts' kernels, beyond the rank's own"
    size = Span(point, point // 2, max(point, high))
    return modelled("activations: replicas' tokens", size, said, "activations", ("profile", "serve"), sources=None)
