"""How TensorRT-LLM says that it ends, where no condition of a question tells it beforehand: what `kvplan why` knows beside the checks."""

from __future__ import annotations

from kvplan.engines.common.failures import EVERYWHERE, Phase, out_of_memory
from kvplan.engines.common.stops import Move, Stop, words_of
from kvplan.engines.tensorrt_llm.refusals import CHECKS
from kvplan.engines.tensorrt_llm.ways import DRAFTING

_LESS = Move("memory_fraction", "lower: what it leaves is for activations and graphs")
_MORE = Move("memory_fraction", "higher: the share of what is left that the cache gets")
_TOKENS = Move("max_num_batched_tokens", "lower: activations follow it")
_BATCH = Move("max_num_seqs", "lower: slots, logits and graphs follow it")
_LENGTH = Move("max_model_len", "lower")
_SPLIT = Move("tp", "more GPUs, which hold less of the weights each")
_SMALLER = Move("weight_dtype", "a quantised checkpoint")
_CREATOR = "tensorrt_llm/_torch/pyexecutor/py_executor_creator.py _maybe_explain_if_oom"
_BLOCKS = "cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp"
_PART = (
    "Executor creation failed due to insufficient GPU memory. The following component could not be created: {part} Total GPU memory (GiB): "
    "{total} Free GPU memory before component creation attempt (GiB): {free}"
)  # fmt: skip


def _component(part: str, means: str, *moves: Move) -> Stop:
    """One component of the executor for which memory was not enough."""
    told = f"{means}; {{free}} of {{total}} GiB were free before it"
    return Stop("executor", _PART.replace("{part}", part), told, moves, _CREATOR, since="0.20")


_PHASES = (
    Phase(" while CUDA graphs were captured", ("cuda_graph_runner.py", "_run_cuda_graph_warmup", "capture_generation_cuda_graphs"),
        (_LESS, _BATCH)),
    Phase(" while the weights were loaded", ("load_weights", "load_single_module", "load_model", "model_loader.py"), (_SMALLER, _SPLIT)),
    Phase("", (), (_LESS, _TOKENS, _BATCH)),
)  # fmt: skip

KNOWN: tuple[Stop, ...] = (
    _component("Model", "the weights did not fit", _SMALLER, _SPLIT, Move("pp", "more stages"), _TOKENS),
    _component("KV cache", "the cache did not fit beside what the dry run did not see", _LESS),
    _component("Initial KV cache (temporary for KV cache size estimation)", "the dry run's own cache did not fit",
        _TOKENS, _SMALLER, _SPLIT),
    _component("Sampler", "the sampler's buffers did not fit", _LENGTH, _BATCH),
    _component("Drafter", "the drafter did not fit", _LENGTH, Move("speculative", "off, or fewer tokens")),
    _component("Additional executor resources", "activations and graphs did not fit", _TOKENS, _BATCH, _LESS),
    Stop(
        "executor", "Executor creation failed due to insufficient GPU memory", "the lines after it say which part did not fit",
        (_TOKENS, _LESS, _SMALLER, _SPLIT), _CREATOR, since="0.20",
    ),
    *out_of_memory(*_PHASES),
    Stop(
        "out of memory", "CUDA runtime error in ...: out of memory", "the C++ runtime found no memory for a buffer",
        (_LESS, _BATCH, _TOKENS),
        "cpp/tensorrt_llm/runtime/tllmBuffers.h",
    ),
    Stop(
        "one longest request",
        "maxTokensInPagedKvCache ({tokens}) must be large enough to process at least 1 sequence to completion (i.e. must be "
        "larger than beam_width ({beams}) * tokensPerBlock ({block}) * maxBlocksPerSeq ({blocks}))",
        "the cache holds {tokens} tokens and one sequence may take {beams} x {block} x {blocks}", (_LENGTH, _MORE, Move("kv_dtype",
        "fp8"), _BATCH),
        _BLOCKS, before="0.12",
    ),
    Stop(
        "one longest request", "must be large enough to process at least 1 sequence to completion",
        "the cache holds fewer tokens than one sequence",
        (_LENGTH, _MORE, Move("kv_dtype", "fp8"), _BATCH), _BLOCKS, before="0.12",
    ),
    Stop(
        "one longest request", "Attention window size {window} exceeds upper bound {most} for available blocks. Reducing to {most}",
        "the cache has no room for one request of {window} tokens: the server starts, and takes {most} at most",
        (_MORE, Move("kv_dtype", "fp8"), _TOKENS, _SPLIT), "tensorrt_llm/_torch/pyexecutor/resource_manager.py", since="0.20",
    ),
    Stop(
        "no cache", "Impossible to fit in any sequence in kvCache", "what is left does not hold one block of each pool",
        (_MORE, _TOKENS, _BATCH, Move("kv_dtype", "fp8"), _SMALLER, _SPLIT), _BLOCKS,
    ),
    *EVERYWHERE,
)  # fmt: skip

#: All that `kvplan why` knows of it, the telling ones first, and the words by which its texts are known.
_LACKS = words_of(DRAFTING, "a way of drafting", "this release has no such way of drafting", (Move("speculative", "another"),))
STOPS: tuple[Stop, ...] = (*CHECKS, *_LACKS, *KNOWN)
MARKS: tuple[str, ...] = ("tensorrt_llm", "TensorRT-LLM", "TRT-LLM", "trtllm")
