"""What TensorRT-LLM is: forms, devices and formats it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.protocol import Facts, Setting
from kvplan.engines.tensorrt_llm.rules import VERSIONS
from kvplan.engines.tensorrt_llm.ways import ADAPTING, DRAFTING
from kvplan.forms import Form

#: engine_option keys, by the names of its arguments.
OPTIONS: dict[str, str] = {
    "backend": "pytorch or tensorrt: an engine that trtllm-build made",
    "built": "here, or elsewhere: trtllm-build ran on a larger card",
    "cross_kv_cache_fraction": "share of the cache for cross-attention",
    "enable_attention_dp": "attention data parallelism over the tp ranks",
    "enable_block_reuse": "prefix reuse, which keeps snapshots of states",
    "enable_chunked_prefill": "prompts are read in chunks, which bound the workspace of FP8 latent attention",
    "enable_swa_scratch_reuse": "window layers of one shape share scratch pages",
    "host_cache_size": "bytes of pinned host memory for evicted blocks",
    "lora_target_modules": "modules that adapters change, joined by commas; all by default",
    "mamba_ssm_cache_dtype": "format of recurrent states",
    "mamba_state_cache_interval": "tokens between snapshots of states",
    "max_attention_window": "window of each layer in tokens, repeated over the layers",
    "max_tokens": "tokens of the pool, at most",
    "peak_memory": "bytes in use at the peak, as it logged them",
    "temporary_kv_memory": "bytes of the dry run's own cache, as it logged them",
    "use_kv_cache_manager_v2": "auto, true or false",
    "window_size_shares": "shares of memory by window size",
}

_GRAPHS = "what its CUDA graphs hold is part of its measured constants, whatever is captured"
#: Forms of cache that were read for this engine; a new one is refused until it is.
_FORMS: frozenset[Form] = frozenset({
    "none", "shared", "kv", "kv+blocks", "encoder-kv", "latent", "latent+index", "latent+pooled-index", "mamba1", "mamba2",
    "gated-delta-net", "kda", "linear-attention", "short-conv", "rg-lru", "rwkv",
})  # fmt: skip

FACTS = Facts(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    machines=True,
    versions=VERSIONS,
    options=OPTIONS,
    forms=_FORMS,
    unused={"n_gpu_layers": "it leaves no layers in host memory", "enforce_eager": _GRAPHS},
    drafting=DRAFTING,
    adapting=ADAPTING,
    pool="set aside",
    pages="pools",
    vendors=frozenset({"nvidia"}),
    least_capability=80,  # nvidia.github.io/TensorRT-LLM/0.18.2/reference/support-matrix.html
    kernels_from=(("0.15", 75),),  # NVIDIA/TensorRT-LLM issue 2400: "Target GPU SM 70 is not supported by this TensorRT release"
    default_from=(("0.14", 80),),  # issue 2620: T4 is no longer supported
    weight_schemes=frozenset({"plain", "fp8", "mxfp", "nvfp4", "int", "awq", "gptq", "w4afp8", "unknown"}),
    kv_advice=(("fp8", 8),),
    weight_advice=(("fp8", 8), ("int4_g128", 4)),
    settings=(Setting("enable_block_reuse", ("false",), "no block reuse"),),
    fraction_ceiling=0.95,
    constants="tensorrt-llm",
    measured_names=("max_model_len", "n_gpu_layers"),
    tiers="host_cache_size=64GiB asks for one",
)
