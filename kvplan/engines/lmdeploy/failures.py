"""How LMDeploy says that it ends: what `kvplan why` knows of it."""

from __future__ import annotations

from kvplan.engines.common.failures import EVERYWHERE, Phase, out_of_memory
from kvplan.engines.common.stops import Move, Stop

_LESS = Move("memory_fraction", "lower (--cache-max-entry-count): the pool is that share of what the weights leave free")
_TOKENS = Move("max_num_batched_tokens", "lower: activations follow it")
_MOVES = (_LESS, _TOKENS, Move("weight_dtype", "a quantised checkpoint"), Move("tp", "more GPUs, which hold less of the weights each"))
_EXECUTOR = "pytorch/engine/executor/base.py update_configs"

STOPS: tuple[Stop, ...] = (
    Stop(
        "out of memory", "[TM][ERROR] CUDA runtime error: out of memory",
        "TurboMind found no memory: weights while they load, or what a step needs beside the pool", _MOVES,
        "src/turbomind/utils/memory_utils.cu, allocator.h",
    ),
    Stop(
        "no cache", "No enough gpu memory for runtime", "what a step of a prompt needs beside the weights is more than is free",
        (_TOKENS, *_MOVES[2:]), _EXECUTOR,
    ),
    Stop(
        "no cache", "No enough gpu memory for state cache", "the states of max_batch_size sequences take more than the cache's share",
        (Move("max_num_seqs", "lower: every sequence has a state"), *_MOVES[2:]), _EXECUTOR,
    ),
    Stop(
        "no cache", "No enough gpu memory for kv cache", "the cache's share holds too few blocks",
        (Move("memory_fraction", "higher (--cache-max-entry-count)"), *_MOVES[1:]), _EXECUTOR,
    ),
    *out_of_memory(Phase("", ("lmdeploy", "turbomind"), _MOVES)),
    *EVERYWHERE,
)  # fmt: skip
MARKS: tuple[str, ...] = ("lmdeploy", "turbomind", "[TM]")
