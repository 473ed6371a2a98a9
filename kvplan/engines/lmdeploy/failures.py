"""How LMDeploy says that it ends: what `kvplan why` knows of it."""

from __future__ import annotations

from kvplan.engines.common.failures import EVERYWHERE, Phase, out_of_memory
from kvplan.engines.common.stops import Move, Stop

_LESS = Move("memory_fraction", "lower (--cache-max-entry-count): the pool is that share of what the weights leave free")
_TOKENS = Move("max_num_batched_tokens", "lower: activations follow it")
_MOVES = (_LESS, _TOKENS, Move("weight_dtype", "a quantised checkpoint"), Move("tp", "more GPUs, which hold less of the weights each"))

STOPS: tuple[Stop, ...] = (
    Stop(
        "out of memory", "[TM][ERROR] CUDA runtime error: out of memory",
        "TurboMind found no memory: weights while they load, or what a step needs beside the pool", _MOVES,
        "src/turbomind/utils/memory_utils.cu, allocator.h",
    ),
    *out_of_memory(Phase("", ("lmdeploy", "turbomind"), _MOVES)),
    *EVERYWHERE,
)  # fmt: skip
MARKS: tuple[str, ...] = ("lmdeploy", "turbomind", "[TM]")
