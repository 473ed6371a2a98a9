"""How llama.cpp says that it ends: what `kvplan why` knows. Its own checks of a question are `refusal` of context.py.

Read from `src/llama-context.cpp`, `src/llama-kv-cache.cpp`, `common/common.cpp`, `common/fit.cpp`, `ggml/src/ggml-alloc.c` and
`ggml/src/ggml-cuda/ggml-cuda.cu` (b11312); older words from public logs.
"""

from __future__ import annotations

from kvplan.engines.common.failures import EVERYWHERE
from kvplan.engines.common.stops import Move, Stop, words_of
from kvplan.engines.llama_cpp.ways import DRAFTING

_LAYERS = Move("n_gpu_layers", "fewer (-ngl): the others stay in host memory")
_SHORTER = Move("max_model_len", "lower: the cache is made for it at start")
_CACHE = Move("kv_dtype", "q8_0 (-ctk q8_0 -ctv q8_0): about half of f16")
_STEP = Move("option:n_ubatch", "lower: the compute buffer follows it")
_FLASH = Move("option:flash_attn", "on")
_SLOTS = Move("max_num_seqs", "fewer slots")
_EXPERTS = Move("option:n_cpu_moe", "experts of some layers in host memory")
_SMALLER = Move("weight_dtype", "a file in fewer bits")
_F16 = Move("kv_dtype", "f16, or K alone quantised (-ctk q8_0 -ctv f16)")
_CONTEXT = "src/llama-context.cpp llama_init_from_model"
_MALLOC = "allocating {wanted} MiB on device {gpu}: cudaMalloc failed: out of memory"
_NO_MALLOC = "{wanted} MiB were asked for on GPU {gpu} and were not there"


def _buffer(what: str, near: tuple[str, ...], *moves: Move) -> Stop:
    """CUDA's and HIP's words for a buffer that did not fit; which one it was the lines after it say."""
    return Stop("out of memory", _MALLOC, f"{what}: {_NO_MALLOC}", moves, "ggml/src/ggml-cuda/ggml-cuda.cu", near=near)


STOPS: tuple[Stop, ...] = (
    *words_of(DRAFTING, "a way of drafting", "this build has no such way of drafting", (Move("engine_version", "a newer build"),)),
    Stop(
        "quantised V", "quantized V cache requires flash_attn to be enabled", "V in blocks is read by flash attention alone",
        (_FLASH, _F16),
        _CONTEXT, since="b7850",
    ),
    Stop("quantised V", "V cache quantization requires flash_attn", "V in blocks is read by flash attention alone", (_FLASH, _F16),
        _CONTEXT),
    Stop(
        "quantised V", "quantized V cache was requested, but this requires Flash Attention",
        "V in blocks is read by flash attention alone, which "
        "this backend or model does not have", (_F16, _FLASH), _CONTEXT,
    ),
    Stop(
        "cache format", "{which:w} cache type {type:w} with block size {block} does not divide n_embd_head_{side:w}={dim}",
        "heads of {dim} elements are no whole number of blocks of {block}", (Move("kv_dtype", "f16, or a type with smaller blocks"),),
        _CONTEXT,
    ),
    Stop("cache format", "Unsupported cache type: {type:w}", "it has no such cache type", (Move("kv_dtype", "f16, q8_0 or q4_0"),),
        "common/arg.cpp"),
    Stop(
        "cache format", "model does not support different K ({k:w}) and V ({v:w}) cache types", "one latent row holds both K and V",
        (Move("kv_dtype", "one type for both"),), _CONTEXT,
    ),
    Stop(
        "cache format", "GGML_ASSERT(ne % ggml_blck_size(type) == 0)", "a row is no whole number of the type's blocks",
        (Move("kv_dtype", "f16"),), "ggml/src/ggml.c",
    ),
    Stop("architecture", "unknown model architecture", "this build has no code for the model", (Move("engine_version", "a newer one"),),
        "src/llama-model.cpp"),
    Stop(
        "out of memory", "ggml_vulkan: Device memory allocation of size {bytes} failed", "{bytes} B were asked for and were not there",
        (Move("n_gpu_layers", "fewer"), Move("max_model_len", "lower"), Move("kv_dtype", "q8_0: about half")),
        "ggml/src/ggml-vulkan/ggml-vulkan.cpp",
    ),
    Stop(
        "host memory", "mmap failed: Cannot allocate memory", "the host has no room to map the file: this is not the GPU's memory",
        (Move("host_memory", "more"),), "src/llama-mmap.cpp",
    ),
    Stop("slots", "n_seq_max must be <= {most}", "it has at most {most} sequences", (Move("max_num_seqs", "at most {most}"),), _CONTEXT),
    Stop("tensor split", "SPLIT_MODE_TENSOR requires flash_attn", "splitting by tensors needs flash attention", (_FLASH,), _CONTEXT),
    _buffer("the cache did not fit", ("failed to allocate buffer for kv cache", "llama_kv_cache_init() failed"),
        _SHORTER, _CACHE, _LAYERS, _SLOTS),
    _buffer(
        "the compute buffer did not fit", ("failed to allocate compute", "ggml_gallocr_reserve_n", "graph_reserve"),
        _STEP, _FLASH, _LAYERS, _SHORTER, _EXPERTS,
    ),
    _buffer("the weights did not fit", ("alloc_tensor_range", "unable to allocate", "error loading model"), _LAYERS, _EXPERTS, _SMALLER),
    _buffer("a buffer did not fit", (), _LAYERS, _SHORTER, _CACHE, _STEP),
    Stop(
        "out of memory", "failed to allocate {device:w} buffer of size {bytes}", "a buffer of {bytes} bytes did not fit on {device}",
        (_LAYERS, _SHORTER, _CACHE, _STEP), "ggml/src/ggml-alloc.c",
    ),
    Stop(
        "out of memory", "unable to allocate {device:w} buffer", "the weights did not fit on {device}", (_LAYERS, _EXPERTS, _SMALLER),
        "src/llama-model.cpp",
    ),
    Stop(
        "out of memory", "failed to allocate buffer for kv cache", "the cache did not fit", (_SHORTER, _CACHE, _LAYERS, _SLOTS),
        "src/llama-kv-cache.cpp",
    ),
    Stop("out of memory", "failed to allocate compute", "the compute buffer did not fit", (_STEP, _FLASH, _LAYERS), _CONTEXT),
    Stop(
        "out of memory", "ErrorOutOfDeviceMemory", "Vulkan found no memory on the device", (_LAYERS, _SHORTER, _CACHE, _STEP),
        "ggml/src/ggml-vulkan/ggml-vulkan.cpp",
    ),
    Stop(
        "out of memory", "kIOGPUCommandBufferCallbackErrorOutOfMemory", "Metal's working set is smaller than what was asked for",
        (_LAYERS, _SHORTER, _CACHE), "ggml/src/ggml-metal",
    ),
    Stop(
        "out of memory", "CUDA error: out of memory", "a pool or workspace that CUDA makes when it first computes did not fit",
        (_LAYERS, _SHORTER, _STEP, _CACHE), "ggml/src/ggml-cuda/ggml-cuda.cu",
    ),
    Stop(
        "--fit", "cannot meet free memory target of {target} MiB, need to reduce device memory by {over} MiB",
        "{over} MiB too much where {target} MiB are to stay free: what was not set by hand is made smaller, or layers go to host memory",
        (_SHORTER, _CACHE, _LAYERS, Move("option:fit_target", "less free memory")), "common/fit.cpp", since="b7406",
    ),
    Stop(
        "--fit", "failed to fit params to free device memory", "what was set by hand can not be made smaller",
        (Move("n_gpu_layers", "leave it to --fit"), _SHORTER, _CACHE), "common/fit.cpp", since="b7406",
    ),
    Stop(
        "pinned memory", "failed to allocate {wanted} MiB of pinned memory",
        "host memory that the GPU reads was not to be had: slower, no failure",
        (Move("host_memory", "more of it"),), "ggml/src/ggml-cuda/ggml-cuda.cu",
    ),
    Stop(
        "a request is too long", "exceeds the available context size", "the server runs; a request is longer than its slot",
        (Move("max_model_len", "higher"), _SLOTS), "tools/server/server.cpp",
    ),
    Stop(
        "full while serving", "failed to find a memory slot for batch of size {size}",
        "the server runs; no cells were left for {size} tokens",
        (Move("max_model_len", "higher"), _SLOTS), "src/llama-context.cpp",
    ),
    *EVERYWHERE,
    Stop(
        "the cause is above", "try reducing --n-gpu-layers if you're running out of VRAM",
        "this line only says that it failed: the reason is above",
        (_LAYERS, _SHORTER), "common/common.cpp",
    ),
)  # fmt: skip

#: The words by which its texts are known.
MARKS: tuple[str, ...] = (
    "ggml_",
    "llama.cpp",
    "llama-server",
    "llama_init",
    "llama_model_load",
    "llama_kv_cache",
    "llama_context",
    "fit_impl",
)
