"""How SGLang says that it ends, where no condition of a question tells it beforehand: what `kvplan why` knows beside the checks."""

from __future__ import annotations

from kvplan.engines.common.failures import EVERYWHERE, Phase, of_checkpoints, out_of_memory
from kvplan.engines.common.stops import Move, Stop
from kvplan.engines.sglang.refusals import CHECKS

_MORE = Move("memory_fraction", "higher: the share that weights and cache may take together")
_LESS = Move("memory_fraction", "lower: what it leaves is for activations and graphs")
_CHUNK = Move("max_num_batched_tokens", "lower: activations follow it")
_RUNNING = Move("max_num_seqs", "lower")
_GRAPHS = Move("option:cuda_graph_max_bs", "lower")
_EAGER = Move("enforce_eager", "true: no CUDA graphs")
_SPLIT = Move("tp", "more GPUs, which hold less of the weights each")
_SMALLER = Move("weight_dtype", "a quantised checkpoint")
_OTHERS = Move("reserve", "stop what else is on the GPU, or say it, so that the plan knows")
_POOLS = "mem_cache/kv_cache_configurator.py"

_PHASES = (
    Phase(" while CUDA graphs were captured", ("cuda_graph_runner.py", "Capture cuda graph", "capture_one_batch_size"),
        (_LESS, _GRAPHS, _EAGER)),
    Phase(" while the pools were allocated", ("init_memory_pool", "memory_pool.py", "_create_buffers"), (_LESS, _OTHERS)),
    Phase(
        " while the weights were loaded", ("load_model", "load_weights", "create_weights", "process_weights_after_loading"),
        (_SMALLER, _SPLIT, Move("device", "a larger GPU"), _OTHERS),
    ),
    Phase("", (), (_LESS, _CHUNK, _RUNNING)),
)  # fmt: skip

KNOWN: tuple[Stop, ...] = (
    Stop(
        "no cache",
        "Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={fraction}. Raise --mem-fraction-static "
        "above {least}",
        "weights and what they need take more than {fraction} of what was free; above {least} something is left",
        (Move("memory_fraction", "above {least}"), _SMALLER, _SPLIT, _OTHERS), _POOLS, since="0.5.15",
    ),
    Stop(
        "no cache", "Not enough memory. Please try to increase --mem-fraction-static", "weights take all that the fraction allows",
        (_MORE, _SMALLER, _SPLIT, _OTHERS), "model_executor/model_runner.py init_memory_pool",
    ),
    Stop(
        "unequal GPUs", "The memory capacity is unbalanced. Some GPUs may be occupied by other processes",
        "less than 0.9 of one GPU's free memory is free on another", (_OTHERS,), "model_executor/model_runner.py init_torch_distributed",
    ),
    Stop(
        "graphs", "Capture cuda graph failed: {why:t} Possible solutions", "the graphs' memory comes on top of the fraction: {why}",
        (_LESS, _GRAPHS, _EAGER), "model_executor/cuda_graph_runner.py",
    ),
    *out_of_memory(*_PHASES),
    Stop("graphs", "Capture cuda graph failed", "the graphs' memory comes on top of the fraction", (_LESS, _GRAPHS, _EAGER),
         "model_executor/cuda_graph_runner.py"),
    Stop(
        "window pool",
        "SWA pool ({tokens} tokens) cannot hold even one request: the prefill admission floor is sliding_window_size ({window}) + "
        "page_size ({page})",
        "the window layers' pool of {tokens} tokens is smaller than one window of {window} and a page of {page}",
        (Move("option:swa_full_tokens_ratio", "higher"), _MORE), "model_executor/pool_configurator.py validate_swa_pool_size",
        since="0.5.18",
    ),
    Stop(
        "window pool", "leaves no room for the full KV pool within the available {have} G",
        "the window layers' pool takes the whole budget",
        (_RUNNING, _MORE), "model_executor/pool_configurator.py", since="0.5.18",
    ),
    Stop(
        "states", "Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed max_mamba_cache_size={slots}",
        "not one request's state fits beside the weights", (_RUNNING, _MORE, Move("option:mamba_full_memory_ratio", "higher")),
        f"{_POOLS} _handle_max_mamba_cache", since="0.5.15",
    ),
    Stop(
        "states", "state cache is too small to serve any requests. max_mamba_cache_size={slots}",
        "{slots} state slots are fewer than one request needs with its buffers", (_MORE, Move("option:max_mamba_cache_size", "higher"),
        _RUNNING),
        f"{_POOLS} resolve_max_num_reqs", since="0.5.15",
    ),
    Stop(
        "states", "Not enough space for mamba cache, try to increase --mamba-full-memory-ratio or --max-mamba-cache-size",
        "more requests ran than there are state slots", (Move("option:mamba_full_memory_ratio", "higher"), _RUNNING),
        "mem_cache/memory_pool.py HybridReqToTokenPool.alloc", since="0.5.3",
    ),
    Stop(
        "full while serving", "Prefill out of memory. Try to lower your batch size. Try to allocate {tokens} tokens",
        "the server runs; its pool had no {tokens} tokens left", (_RUNNING, Move("kv_dtype", "fp8"), _CHUNK), "mem_cache/allocation.py",
    ),
    Stop(
        "full while serving", "Decode out of memory. Try to lower your batch size",
        "the server runs; its pool had no token left for each request",
        (_RUNNING, Move("kv_dtype", "fp8")), "mem_cache/allocation.py",
    ),
    Stop(
        "full while serving", "alloc_req_slots runs out of memory. ... num_reqs={requests}",
        "the server runs; {requests} requests came to a pool with fewer slots left", (_RUNNING,),
        "managers/schedule_batch.py alloc_req_slots",
    ),
    Stop(
        "full while serving", "KV cache pool is full. Retract requests", "the server runs; requests are put back to wait, nothing is lost",
        (_RUNNING, Move("kv_dtype", "fp8"), _MORE), "managers/scheduler.py", since="0.4.8",
    ),
    Stop(
        "full while serving", "Decode out of memory happened", "the server runs; requests are put back to wait, nothing is lost",
        (_RUNNING, Move("kv_dtype", "fp8"), _MORE), "managers/scheduler.py", before="0.4.8",
    ),
    Stop(
        "attention backend and GPU", "TRTLLM {kind:w} backend is only supported on Blackwell",
        "its kernels are for compute capability 10 alone",
        (Move("option:attention_backend", "none"),), "server_args.py; arg_groups/attention_hook.py", since="0.5.1",
    ),
    Stop(
        "expert parallelism", "tp_size {tp} must be divisible by ep_size {ep}", "expert parallel groups are parts of tp",
        (Move("ep", "a size that divides {tp}"),), "model_executor/model_runner.py", since="0.5.6",
    ),
    *of_checkpoints(),
    *EVERYWHERE,
    Stop(
        "the cause is above", "Received sigquit from a child process", "this line only says that a rank failed: the reason is further up",
        (Move("", "paste the lines above it"),), "entrypoints/engine.py",
    ),
)  # fmt: skip

#: All that `kvplan why` knows of it, the telling ones first, and the words by which its texts are known.
STOPS: tuple[Stop, ...] = (*CHECKS, *KNOWN)
MARKS: tuple[str, ...] = ("sglang", "mem-fraction-static", "mem_fraction_static")
