"""What TensorRT-LLM does not start with, in its own words: PyTorch backend, and engines that trtllm-build makes.

Read from the repository's copies of `tensorrt_llm/_torch/modules/attention.py` and `linear.py`, `tensorrt_llm/layers/attention.py`.
KV heads are rounded up to whole ones a rank, so that they refuse nothing.
"""

from __future__ import annotations

from kvplan.engines.common import conditions as on
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.tensorrt_llm.settle import settings_of

_TP = Move("tp", "a size that divides it")
_STAGES = Move("pp", "more stages instead")


def expert_ranks(settled: Settled) -> Values:
    tp, ep = settings_of(settled).layout.tp, settled.question.ep or 1
    return {"made": tp // ep * ep, "tp": tp} if tp % ep else None


def heads(settled: Settled) -> Values:
    s = settings_of(settled)
    return on.uneven_heads(settled.model, s.layout.attn_tp) if s.profiled else None


def built_heads(settled: Settled) -> Values:
    s = settings_of(settled)
    return None if s.profiled else on.uneven_heads(settled.model, s.layout.attn_tp)


def widths(settled: Settled) -> Values:
    s = settings_of(settled)
    return on.uneven_widths(settled.model, s.layout.tp, experts_whole=True, of=("mlp_down", "shared_down")) if s.profiled else None


def cache_format(settled: Settled) -> Values:
    """A cache in a format that this backend makes none of; the type that it computes in is what `auto` says."""
    s = settings_of(settled)
    asked = None if "kv_dtype" in settled.chosen_by else settled.question.kv_dtype
    return {"asked": asked} if asked and s.profiled and s.formats.k not in ("fp8_e4m3", "nvfp4", s.formats.compute) else None


#: Evaluated for every plan, in the order in which the engine comes to them.
CHECKS: tuple[Stop, ...] = (
    Stop(
        "cache format", "Overriding KV cache quantization with an invalid type", "its PyTorch backend keeps K and V in fp8, nvfp4 or as is",
        (Move("kv_dtype", "fp8 or auto"), Move("option:backend", "tensorrt, which has others")),
        "tensorrt_llm/_torch/pyexecutor/model_loader.py validate_and_set_kv_cache_quant", when=cache_format, numbers="{asked}",
    ),
    Stop(
        "expert ranks", "moe_tp_size * moe_ep_size * moe_cluster_size must equal to moe_world_size, but got {made} != {tp}",
        "experts are dealt out over ep groups of the tp ranks, evenly", (Move("ep", "a size that divides tp"),),
        "tensorrt_llm/mapping.py Mapping.__init__", when=expert_ranks,
    ),
    Stop(
        "attention heads", "assert self.num_heads % tp_size == 0", "the model's heads can not be dealt out evenly to so many ranks",
        (_TP, _STAGES), "tensorrt_llm/_torch/modules/attention.py", when=heads, loading=True, numbers="{heads} heads over {tp} ranks",
    ),
    Stop(
        "attention heads", "num_attention_heads must be divisible by tp_size",
        "the model's heads can not be dealt out evenly to so many ranks",
        (_TP, _STAGES), "tensorrt_llm/layers/attention.py", when=built_heads, loading=True, numbers="{heads} heads over {tp} ranks",
    ),
    Stop(
        "feed-forward width", "out_features {width} must be divisible by tp_size {tp}", "{width} can not be dealt out evenly to {tp} ranks",
        (_TP,), "tensorrt_llm/_torch/modules/linear.py", when=widths, loading=True,
    ),
)  # fmt: skip
