"""The buffers that TensorRT-LLM's DFlash worker keeps beside the pools: K and V of every slot at every position, whatever is served.

tensorrt_llm/_torch/speculative/dflash.py, _lazy_init_ctx_buffers (1.3): [max_batch, layers, max_ctx + block, KV heads, head dim] twice,
in the type of the drafter's weights, where max_ctx is max_seq_len or the drafter's own maximum. NVIDIA/TensorRT-LLM#16005: 80 GB a rank.
"""

from __future__ import annotations

from kvplan.engines.common.protocol import Settled
from kvplan.engines.tensorrt_llm.cells import layer_cache
from kvplan.engines.tensorrt_llm.settle import TrtSettings
from kvplan.ledger import Entry, exact

_SOURCE = "tensorrt_llm/_torch/speculative/dflash.py, _lazy_init_ctx_buffers"


def buffers(settled: Settled) -> list[Entry]:
    """One line, in bytes; none where the drafter's cache is in the pools."""
    s: TrtSettings = settled.settings
    if settled.drafter is None or not s.own_buffers:
        return []
    longest = settled.question.drafter.max_context if settled.question.drafter else None
    positions = min(s.pools.max_seq_len, longest or s.pools.max_seq_len) + s.pools.draft_tokens + 1
    row = sum(layer_cache(layer, s.layout.attn_tp).token for layer in settled.drafts)
    n_bytes = s.pools.max_batch * positions * row
    what = f"{s.pools.max_batch} slots x {positions:,} positions x {row:,} B of {settled.drafter.name}"
    return [exact("drafter: context buffers", n_bytes, f"{what}; {_SOURCE}", "tables")._replace(phases=None)]
