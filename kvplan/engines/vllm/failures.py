"""How vLLM says that it ends, where no condition of a question tells it beforehand: what `kvplan why` knows beside the checks."""

from __future__ import annotations

from kvplan.engines.common.failures import EVERYWHERE, Phase, of_checkpoints, out_of_memory
from kvplan.engines.common.stops import Move, Stop
from kvplan.engines.vllm.refusals import CHECKS, FEWER

_MORE = Move("memory_fraction", "higher, where nothing else is on the GPU")
_LESS = Move("memory_fraction", "lower: what it does not count (graphs, NCCL, libraries) needs room too")
_SEQS = Move("max_num_seqs", "lower")
_TOKENS = Move("max_num_batched_tokens", "lower: activations follow it")
_EAGER = Move("enforce_eager", "true: no CUDA graphs")
_SPLIT = Move("tp", "more GPUs, which hold less of the weights each")
_SMALLER = Move("weight_dtype", "a quantised checkpoint")
_SHORTER = Move("max_model_len", "lower")
_PACKED = Move("kv_dtype", "fp8: half the bytes a token")
_TOWERS = Move("multimodal", "off, or fewer and smaller items (--limit-mm-per-prompt)")
_NO_ROOM = (_MORE, _TOKENS, _SEQS, _EAGER, _SMALLER, _SPLIT, Move("reserve", "stop what else is on the GPU"))
_KV = "v1/core/kv_cache_utils.py _check_enough_kv_cache_memory; V0 worker/worker.py"
_FREE = "v1/worker/gpu_worker.py init_device; v1/worker/utils.py request_memory"
_OTHERS = Move("reserve", "stop what else is on the GPU, or say it, so that the plan knows")

_PHASES = (
    Phase(
        " while CUDA graphs were captured", ("capture_model", "_capture_cudagraphs", "graph_capture(", "cuda_graph.py",
        "cudagraph_utils.py"),
        (_LESS, _EAGER, _SEQS, Move("option:driver", "550 or newer: graphs hold a third of what an older one makes of them")),
    ),
    Phase(
        " while the cache was allocated", ("_allocate_kv_cache", "allocate_gpu_cache", "initialize_kv_cache_tensors"),
        (_LESS, _OTHERS),
    ),
    Phase(
        " in the profile run, which holds the largest batch",
        ("profile_run", "determine_num_available_blocks", "determine_available_memory", "_dummy_run", "_dummy_sampler_run"),
        (_TOKENS, _SEQS, _TOWERS, _SMALLER, _SPLIT),
    ),
    Phase(
        " while the weights were loaded",
        ("load_model", "load_weights", "create_weights", "process_weights_after_loading", "initialize_model", "WorkerProc failed"),
        (_SMALLER, _SPLIT, Move("pp", "more stages"), Move("device", "a larger GPU"), _OTHERS),
    ),
    Phase("", (), (_LESS, _TOKENS, _SEQS, _EAGER)),
)  # fmt: skip

KNOWN: tuple[Stop, ...] = (
    Stop(
        "GPUs of a cluster", "The number of required {device:w}s exceeds the total number of available",
        "the parallel sizes need more {device}s than Ray shows: this is no want of memory",
        (Move("tp", "lower"), Move("pp", "lower"), Move("", "`ray status` shows what the cluster has")),
        "v1/executor/ray_utils.py initialize_ray_cluster",
    ),
    Stop(
        "one longest request", "max seq len ({length}), ({needed} GiB KV cache is needed, which is larger than the available KV cache "
        "memory ({have} GiB). Based on the available memory, the estimated maximum model length is {longest}.",
        "one request of {length} tokens takes {needed} GiB of cache and {have} GiB are left for it; {longest} tokens would fit",
        (Move("max_model_len", "at most {longest}"), _MORE, _PACKED, _TOKENS, _SEQS, _SPLIT), _KV, since="0.8.5",
    ),
    Stop(
        "one longest request", "max seq len ({length}), ({needed} GiB KV cache is needed, which is larger than the available KV cache "
        "memory ({have} GiB)",
        "one request of {length} tokens takes {needed} GiB of cache and {have} GiB are left for it", (_SHORTER, _MORE, _PACKED, _SPLIT),
        _KV,
        since="0.7",
    ),
    Stop(
        "one longest request",
        "max seq len ({length}) is larger than the maximum number of tokens that can be stored in KV cache ({tokens})",
        "one request may have {length} tokens and the cache holds {tokens}",
        (Move("max_model_len", "at most {tokens}"), _MORE, _PACKED, _EAGER, _SPLIT), _KV, since="0.2.6", before="0.11",
    ),
    Stop("no cache", "No available memory for the cache blocks", "weights and activations take all that the fraction allows",
        _NO_ROOM, _KV),
    Stop("no cache", "Cannot auto-fit max_model_len: not enough GPU memory", "not even one token fits", _NO_ROOM, _KV, since="0.14"),
    Stop(
        "too little is free", "Free memory on device...({free}/{total} GiB) on startup is less than desired GPU memory utilization "
        "({fraction}, {wanted} GiB)",
        "{wanted} GiB were asked for and {free} of {total} GiB were free beside vLLM's own context (about 0.5 GiB): others hold the rest",
        (_OTHERS, Move("memory_fraction", "at most {free} / {total}")), _FREE, since="0.9.1",
    ),
    Stop(
        "too little is free", "Free memory on device...({free}/{total} GiB) on startup is less than the engine's budget",
        "{free} of {total} GiB were free, fewer than the engine's share beside the weights of another process",
        (_OTHERS, Move("memory_fraction", "lower")), _FREE, since="0.32",
    ),
    Stop(
        "memory moved", "Error in memory profiling. Initial free memory {before}",
        "another process gave memory back while vLLM measured, so that its figures mean nothing",
        (Move("reserve", "start the servers of one GPU one after another"),), "v1/worker/gpu_worker.py determine_available_memory",
    ),
    Stop(
        "states and sequences", "max_num_seqs ({seqs}) exceeds available Mamba cache blocks ({blocks})",
        "each running sequence keeps a state, and only {blocks} blocks were left for them",
        (Move("max_num_seqs", "at most {blocks}"), _MORE, Move("max_model_len", "lower")), "config/compilation.py", since="0.20",
    ),
    Stop(
        "sampler", "CUDA out of memory occurred when warming up sampler with {seqs} dummy requests",
        "the sampler's warm-up holds logits of {seqs} sequences over the whole vocabulary, on top of what was counted",
        (Move("max_num_seqs", "lower than {seqs}"), _LESS), "v1/worker/gpu_model_runner.py _dummy_sampler_run", since="0.8",
    ),
    Stop(
        "pooler", "CUDA out of memory occurred when warming up pooler", "the pooler's warm-up did not fit", (_SEQS, _LESS),
        "v1/worker/gpu_model_runner.py _dummy_pooler_run", since="0.9",
    ),
    *out_of_memory(*_PHASES),
    Stop(
        "fraction", "GPU memory utilization must be less than 1.0. Got {fraction}", "the fraction is a share of the GPU",
        (Move("memory_fraction", "above 0 and below 1"),), "config/cache.py", before="0.12",
    ),
    Stop(
        "swap space", "Too large swap space. {swap} GiB out of the {host} GiB total CPU memory is allocated for the swap space",
        "the ranks' swap space together is {swap} GiB of the host's {host}", (Move("option:swap_space", "fewer GiB a rank, or 0"),),
        "config.py CacheConfig.verify_with_parallel_config", before="0.19",
    ),
    Stop(
        "Marlin's tiles and tp", "Weight input_size_per_partition = {side} is not divisible by min_thread_k = {tile}",
        "a rank's part of a quantised matrix has {side} inputs, no whole number of the kernel's {tile}", (FEWER,),
        "model_executor/layers/quantization/utils/marlin_utils.py verify_marlin_supports_shape",
    ),
    Stop(
        "Marlin's tiles and tp", "Weight output_size_per_partition = {side} is not divisible by min_thread_n = {tile}",
        "a rank's part of a quantised matrix has {side} outputs, no whole number of the kernel's {tile}", (FEWER,),
        "model_executor/layers/quantization/utils/marlin_utils.py verify_marlin_supports_shape",
    ),
    Stop(
        "MoE tiles and tp", "size_k must divisible by BLOCK_SIZE_K",
        "a rank's part of a quantised expert is narrower than the kernel's tile",
        (Move("ep", "expert parallelism, which keeps experts whole"), FEWER), "csrc/moe (moe_wna16)",
    ),
    Stop(
        "quantised kernels", "Failed to find a kernel that can implement the WNA16 linear layer",
        "no kernel takes these shapes on this GPU",
        (FEWER, Move("device", "a newer GPU")), "model_executor/kernels/linear choose_mp_linear_kernel", since="0.6.6",
    ),
    Stop(
        "LoRA rank", "LoRA rank {rank} is greater than max_lora_rank {most}", "an adapter is wider than the slots",
        (Move("lora", "slots of rank {rank}"),), "lora/peft_helper.py",
    ),
    Stop(
        "cache format", "Invalid kv_cache_dtype: {name:t}.", "this release has no such cache format", (Move("kv_dtype", "auto, or fp8"),),
        "config/cache.py, v1/attention/selector.py", since="0.12",
    ),
    Stop(
        "cache format", "Unknown kv cache dtype: {name:w}", "this release has no such cache format", (Move("kv_dtype", "auto, or fp8"),),
        "config.py CacheConfig._verify_cache_dtype", before="0.12",
    ),
    Stop(
        "attention backend", "No valid attention backend found for", "no backend takes this cache format, head size and GPU together",
        (Move("kv_dtype", "auto"), Move("option:attention_backend", "none"), Move("device", "a newer GPU")),
        "platforms/cuda.py get_attn_backend_cls", since="0.12",
    ),
    Stop(
        "attention backend", "is not valid for this configuration. Reason:", "the backend that was named does not take this configuration",
        (Move("option:attention_backend", "none: it chooses one that does"), Move("kv_dtype", "auto")),
        "platforms/cuda.py get_attn_backend_cls", since="0.12",
    ),
    Stop(
        "drafts and steps", "max_num_scheduled_tokens is set to {tokens} based on the speculative decoding settings",
        "the slots that drafts take leave a step no token", (Move("max_num_batched_tokens", "higher"), Move("speculative", "fewer tokens")),
        "config/vllm.py _set_max_num_scheduled_tokens", since="0.28",
    ),
    Stop(
        "devices", "local rank {rank} is out of bounds", "more ranks were asked for than GPUs are visible",
        (Move("n_devices", "as many as are visible (CUDA_VISIBLE_DEVICES)"), Move("tp", "smaller")), "v1/worker/gpu_worker.py init_device",
    ),
    Stop(
        "a request is too long", "maximum context length is {length} tokens. However, you requested {asked} tokens",
        "the server runs; one request is longer than max_model_len", (Move("max_model_len", "at least {asked}"),), "entrypoints/openai",
    ),
    Stop(
        "a request is too long", "prompt (length {asked}) is longer than the maximum model length of {length}",
        "the server runs; one prompt of {asked} tokens, those of its images counted, is longer than max_model_len {length}",
        (Move("max_model_len", "more than {asked}"),), "v1/engine/input_processor.py _validate_prompt_len",
    ),
    Stop(
        "full while serving", "is preempted by PreemptionMode.{mode:w} mode because there is not enough KV cache space",
        "the server runs; its cache is full, and a request is put back and computed again: slower, nothing is lost",
        (_SEQS, _MORE, _PACKED, _SPLIT), "core/scheduler.py _preempt", before="0.11",
    ),
    Stop(
        "a rank is busy", "No available shared memory broadcast block found",
        "a rank compiles, loads or captures longer than the others wait, or it hangs: this is no want of the GPU's memory",
        (Move("", "wait, where it starts: a first start compiles for minutes"), Move("", "later: look for the rank that died or hangs"),
         Move("option:disable_custom_all_reduce", "true, where GPUs do not reach one another"), _EAGER),
        "distributed/device_communicators/shm_broadcast.py",
    ),
    *of_checkpoints(),
    *EVERYWHERE,
    Stop(
        "the cause is above", "Engine core initialization failed. See root cause above",
        "this line only says that it failed: the reason is further up, at the first ERROR", (Move("", "paste the lines above it"),),
        "v1/engine/utils.py", since="0.8",
    ),
    Stop(
        "the cause is above", "Engine process failed to start", "this line only says that it failed: the reason is further up",
        (Move("", "paste the lines above it"),), "entrypoints/openai/api_server.py", before="0.11",
    ),
    Stop(
        "the cause is above", "WorkerProc initialization failed due to an exception in a background process",
        "this line only says that it failed: the reason is further up", (Move("", "paste the lines above it"),),
        "v1/executor/multiproc_executor.py",
        since="0.8",
    ),
)  # fmt: skip

#: All that `kvplan why` knows of it, the telling ones first, and the words by which its texts are known.
STOPS: tuple[Stop, ...] = (*CHECKS, *KNOWN)
MARKS: tuple[str, ...] = ("vllm", "gpu_memory_utilization", "EngineCore")
