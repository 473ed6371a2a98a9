"""What LMDeploy's log says at start: its settings and its pool. It prints neither what the weights took nor what else it holds.

Wordings from lmdeploy/serve/core (settings), src/turbomind/models/llama/BlockManager.cc, src/turbomind/engine/engine.cc,
src/turbomind/turbomind.cc and lmdeploy/pytorch/engine/executor/base.py, 0.6 to 0.16.
"""

from __future__ import annotations

from kvplan.engines.common.logs import COUNTS, Dump, Log, Range, Rule, Wording, entries
from kvplan.engines.common.protocol import Outcome

W = Wording

WORDINGS: tuple[Wording, ...] = (
    W("LMDeploy:", r"LMDeploy: (?P<version>[0-9][\w.+-]{1,60})"),
    W("input backend=", r"input backend=(?P<q__backend>turbomind|pytorch)"),
    W("block_size = ", r"block_size = {block__MiB} MB", "0.2", "0.14"),
    W("max_block_count = ", r"max_block_count = {blocks__blocks}", "0.2", "0.14"),
    W("max cached tokens", r"max cached tokens: {tokens__tokens}", "0.12", "0.14"),
    W("truncated to", r"`session_len` truncated to {longest__tokens}", "0.2", "0.14"),
    W("Object cache budget:", r"Object cache budget: {kv_cache__MiB} MB from free {free_memory__MiB} MB", "0.15"),
    W(
        "CacheConfig(max_batches=",
        r"CacheConfig\(max_batches={q__max_num_seqs}, block_size={q__block_size}, num_cpu_blocks={n}, num_gpu_blocks={blocks__blocks}",
    ),
)


def a_block(outcome: Outcome) -> Range | None:
    """Bytes of a block, exact."""
    n = outcome.capacity.bytes_per_block if outcome.capacity else None
    return Range(n, n, n) if n else None


LOG = Log(
    engine="lmdeploy",
    wordings=WORDINGS,
    dumps=(
        Dump("backend_config=TurbomindEngineConfig(", "call", 2),
        Dump("backend_config=PytorchEngineConfig(", "call", 2),
        Dump("lmdeploy serve api_server ", "command", 0),
    ),
    starts=("input backend=",),
    measured=lambda _: [],
    rules=(
        Rule("cache", "kv_cache", "bytes", entries("cache: pool"), "what the weights, the context and libraries took before the pool"),
        Rule("block", "block", "bytes", a_block, "another cache format, block length or number of layers"),
        *COUNTS,
    ),
    needs="prints no figure of weights or of what else it holds",
    printed_options={"backend": {"turbomind": "turbomind", "pytorch": "pytorch"}},
    unread=("adapters", "hf_overrides", "speculative_algorithm", "num_cpu_blocks"),
    free_late=True,
)
