"""What TensorRT-LLM holds beside its pools: a drafter's buffers, states as tensors, pages of adapters, and a pool in host memory.

Each is a function of its own, which names its source.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.engines.common import lora
from kvplan.engines.common.options import read_lora
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.tiers import Part, Tier, of_each, pool
from kvplan.engines.tensorrt_llm.cells import layer_cache
from kvplan.engines.tensorrt_llm.pools import TrtPools
from kvplan.engines.tensorrt_llm.settle import TrtSettings
from kvplan.ledger import Entry, exact
from kvplan.tensors import Layer
from kvplan.units import cdiv, show_bytes

#: Adapter sizes of a page: 8 rows as a rule, at most 64, or the largest rank.
OPTIMAL, MOST = 8, 64


def drafter_buffers(settled: Settled) -> list[Entry]:
    """K and V that the DFlash worker keeps of every slot at every position, whatever is served; none where its cache is in the pools.

    tensorrt_llm/_torch/speculative/dflash.py, _lazy_init_ctx_buffers (1.3): [max_batch, layers, max_ctx + block, KV heads, head dim] twice,
    in the type of the drafter's weights, where max_ctx is max_seq_len or the drafter's own. NVIDIA/TensorRT-LLM#16005: 80 GB a rank.
    """
    s: TrtSettings = settled.settings
    if settled.drafter is None or not s.own_buffers:
        return []
    longest = settled.question.drafter.max_context if settled.question.drafter else None
    positions = min(s.pools.max_seq_len, longest or s.pools.max_seq_len) + s.pools.draft_tokens + 1
    row = sum(layer_cache(layer, s.layout.attn_tp).token for layer in settled.drafts)
    what = f"{s.pools.max_batch} slots x {positions:,} positions x {row:,} B of {settled.drafter.name}"
    source = f"{what}; tensorrt_llm/_torch/speculative/dflash.py, _lazy_init_ctx_buffers"
    return [exact("drafter: context buffers", s.pools.max_batch * positions * row, source, "tables")._replace(phases=None)]


def states(layers: Sequence[Layer], s: TrtSettings) -> list[Entry]:
    """Recurrent states of the layers of a stage on one rank, for every slot: the V1 manager to 1.2; none where the pool has them.

    tensorrt_llm/_torch/pyexecutor/mamba_cache_manager.py, MambaCacheManager.__init__ (copies of autumn 2025 and of January 2026): conv and
    temporal states of max_batch_size requests; with drafts also one of each for every draft token and the sampled one, of every slot. They
    are there before the dry run, so that its peak holds them and the pool's fraction is of the rest.
    """
    k = s.pools
    one = sum(layer_cache(layer, s.layout.attn_tp).state for layer in layers)
    if s.v2 or not k.apart or not one:
        return []
    each = 1 + (k.draft_tokens + 1 if k.draft_tokens else 0)
    what = f"{k.max_batch} slots x {each} x {one:,} B; tensorrt_llm/_torch/pyexecutor/mamba_cache_manager.py, MambaCacheManager.__init__"
    return [exact("recurrent states", k.max_batch * each * one, what, "tables")._replace(phases=None)]


def adapter_pages(d: Deployment, layers: Sequence[Layer], tp: int, element_bytes: int) -> list[Entry]:
    """The device cache of adapters for the layers of a stage: pages as wide as the smallest module, for adapters of the largest rank.

    cpp/tensorrt_llm/batch_manager/peftCacheManager.cpp, getPageManagerConfig and getMaxNumSlots, with num_device_module_layer =
    max_lora_rank x layers x modules x max_loras (_torch/pyexecutor/_util.py).
    """
    asked, modules = read_lora(d.lora), lora.asked_modules(d)
    sizes = [one.inputs + one.outputs for one in lora.adapted(layers, tp, modules)] if asked else []
    if asked is None or not sizes:
        return []
    width = min(sizes)
    slots = asked.rank * len(sizes) * asked.adapters * cdiv(max(sizes), width)
    per_page = max(min(OPTIMAL, asked.rank) * sum(cdiv(n, width) for n in sizes), cdiv(min(MOST, asked.rank) * max(sizes), width))
    source = "pages of the LoRA device cache; batch_manager/peftCacheManager.cpp, getPageManagerConfig"
    return [exact("LoRA cache", cdiv(slots, per_page) * per_page * width * element_bytes, source, "weights")]


def host_pool(made: Sequence[TrtPools], block: int, n_bytes: int, tp: int, *, own: bool) -> tuple[Tier, ...]:
    """The pinned pool of one server for evicted blocks, each a block of all pools of a rank; none without bytes.

    n_bytes  host_cache_size, of every rank; own: nobody asked for it; made: of every pipeline stage

    tensorrt_llm/_torch/pyexecutor/resource_manager.py, blocks_in_secondary_pool; kv_cache/kv_cache_manager_v2.py.
    """
    pages = [block * sum(one.token_bytes for one in p.pools) for p in made]
    if not n_bytes or not all(pages):
        return ()
    ranks, pieces = tp * len(made), min(n_bytes // page for page in pages)
    setting = f"{'its own, ' if own else 'host_cache_size '}{show_bytes(n_bytes)}{of_each(ranks)}"
    part = Part("full", block, 1, max(pages))
    return (pool("cpu", "TensorRT-LLM's host pool", setting, n_bytes * ranks, sum(pages) * tp, (part,), ranks, pieces=pieces),)
