"""How ExLlamaV3, and TabbyAPI in front of it, say that they end: what `kvplan why` knows of it."""

from __future__ import annotations

from kvplan.engines.common.failures import EVERYWHERE, Phase, out_of_memory
from kvplan.engines.common.stops import Move, Stop

_MOVES = (
    Move("option:cache_tokens", "fewer (TabbyAPI's cache_size): the cache is made whole"),
    Move("option:k_bits", "fewer, and v_bits (TabbyAPI's cache_mode 8,8 or 6,6)"),
    Move("option:cpu_moe_split_experts", "more experts of each layer in host memory, or cpu_moe_offload_layers: all of more layers"),
    Move("option:gpu_split", "more of each card, where it is set"),
    Move("weight_dtype", "a file in fewer bits"),
    Move("reserve", "stop what else is on the GPUs"),
)

STOPS: tuple[Stop, ...] = (
    Stop(
        "out of memory", "Insufficient VRAM in split for model and cache",
        "the cards are filled one after the other, and the last had no room for what was left: layers, their cache and a step's tensors",
        _MOVES, "exllamav3/model/model_ls.py",
    ),
    *out_of_memory(Phase("", ("exllamav3", "tabbyAPI"), _MOVES)),
    *EVERYWHERE,
)  # fmt: skip
MARKS: tuple[str, ...] = ("exllamav3", "tabbyAPI")
