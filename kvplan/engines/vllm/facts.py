"""What vLLM is: forms, devices and formats it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.protocol import Apart, Facts, Setting
from kvplan.engines.vllm.rules import MEASURED_FROM, VERSIONS
from kvplan.engines.vllm.ways import ADAPTING, DRAFTING
from kvplan.forms import Form

#: engine_option keys, by vLLM's own names where it has one.
OPTIONS: dict[str, str] = {
    "platform": "cuda or cpu: the build",
    "use_v1": "VLLM_USE_V1: which of the two engines of 0.7 to 0.10",
    "v2_model_runner": "VLLM_USE_V2_MODEL_RUNNER: one batch more in flight under pipeline parallelism",
    "allocator": "PYTORCH_CUDA_ALLOC_CONF: how torch reserves memory",
    "quantization": "the method that weights are loaded with, which the checkpoint's own must be; awq or gptq, up to 0.23, by kernels that "
    "unpack a matrix, where Marlin's could run",
    "allow_deprecated_quantization": "a checkpoint in a method that the release is to lose is loaded all the same",
    "draft_max_model_len": "max_model_len of --speculative-config: no more than the drafter and the target take",
    "draft_quantization": "quantization of --speculative-config: how a drafter's weights are made as they are loaded, or what they are",
    "draft_kv_cache_dtype": "kv_cache_dtype of --speculative-config: the format of the drafter's cache, the model's where it is not given",
    "draft_tensor_parallel_size": "of --speculative-config: ranks of the drafter; V1 builds it over all ranks of its target",
    "quantize_on_load": "--quantization fp8 of a 16-bit checkpoint: what the load holds before it is quantised",
    "usage": "server or offline: whose batch defaults apply",
    "hf_overrides": 'keys of the model\'s config that are replaced, as JSON, such as {"max_position_embeddings": 65536}',
    "use_flashinfer_sampler": "VLLM_USE_FLASHINFER_SAMPLER: FlashInfer samples, which sorts no logits (0.8 to 0.16)",
    "driver": "NVIDIA's driver, such as 535.183.01: before 550 CUDA graphs hold three times as much",
    "estimate_graphs": "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS: the cache leaves room for CUDA graphs (from 0.18; by default from 0.20)",
    "flashinfer_workspace": "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE: bytes of FlashInfer's workspace; 394 MiB by default",
    "compiled": "a start that finds the compiled graph of one before, and holds nothing to make it",
    "allow_long_max_model_len": "VLLM_ALLOW_LONG_MAX_MODEL_LEN: lengths beyond the model's own",
    "async_scheduling": "one batch more in flight",
    "auto_fit": "--max-model-len -1: the longest that fits",
    "attention_backend": "the attention backend, which sets the block sizes it takes",
    "cpu_offload_gb": "GiB of weights of each rank that stay in host memory",
    "disable_hybrid_kv_cache_manager": "window layers keep every token",
    "disable_sliding_window": "no layer slides, and no request is longer than the window",
    "enable_chunked_prefill": "long prompts in several steps; without it a step must hold a whole one",
    "enable_prefix_caching": "prefix caching, which changes how states are kept",
    "kv_cache_dtype_skip_layers": "layers kept in the compute type, by number and joined by commas; sliding_window: those with a window",
    "mamba_cache_mode": "none, align or all: states kept of one sequence",
    "mamba_ssm_cache_dtype": "format of recurrent states",
    "mamba_cache_dtype": "format of convolutions' states, and of recurrent ones where nothing else says theirs",
    "mamba_block_size": "tokens between two states that prefix caching keeps",
    "prefix_cache_retention_interval": "tokens between what prefix caching keeps of windows and states, a multiple of their blocks",
    "prefix_match_unit": "tokens between the hashes of a prefix, of which all blocks are a multiple",
    "enable_return_routed_experts": "each answer says which experts its tokens went through, which takes memory that is not modelled",
    "use_replayssm": "the last inputs of a Mamba-2 layer are kept beside its state, which is written more rarely",
    "replayssm_buffer_len": "how many of them; 16 by default",
    "mamba_chunk_size": "tokens of one chunk of the scan",
    "kv_offloading_size": "GiB of host memory for blocks that left the devices, all ranks together",
    "kv_offloading_backend": "native or lmcache: what keeps them",
    "kv_offloading_block_size": "tokens of a chunk of the offloading connector (kv_connector_extra_config block_size); a block by default",
    "lmcache_chunk_size": "LMCache: tokens of a chunk; 256 by default",
    "lmcache_max_local_cpu_size": "LMCache: GiB of host memory of each rank; 5 by default",
    "lmcache_max_local_disk_size": "LMCache: GiB of disk of each rank",
    "lmcache_l1_size_gb": "GiB of host memory of an LMCache server, instead",
    "dyn_kvbm_cpu_cache_gb": "Dynamo KVBM: GB of host memory, all ranks together",
    "dyn_kvbm_disk_cache_gb": "Dynamo KVBM: GB of disk, all ranks together",
    "fully_sharded_loras": "factors that are copies on every rank are shared by the ranks",
    "specialize_active_lora": "graphs are captured for each power of two of active adapters",
    "enable_mixed_moe_lora_format": "experts stored as one matrix get two first factors",
    "enable_moe_shared_loras": "factors outside of experts are shared by all of them",
    "mm_encoder_tp_mode": "weights or data: whether each rank has a share of the encoders or all of them and a share of the items",
    "disable_chunked_mm_input": "no image or video may be cut between two steps: the largest must fit in one",
    "mm_processor_cache_gb": "GiB of host memory for processed images, of each process that keeps them; 4 by default, 0: none",
    "mm_processor_cache_type": "lru or shm: whether each process keeps its own",
    "api_server_count": "API servers, each of which may keep processed images",
    "max_cpu_loras": "adapters kept in host memory; as many as on the device by default",
    "enable_sleep_mode": "weights can be moved to host memory while nothing is served",
    "disable_custom_all_reduce": "sums over ranks are NCCL's",
    "max_logprobs": "most log-probabilities of a token that a request may ask for; 0: none",
    "limit_mm_per_prompt": 'items of a request by kind, such as {"image": 2, "video": 0}: a kind at 0 is not profiled',
    "mm_processor_kwargs": "the processor's settings as JSON; max_pixels sizes the largest image of a Qwen tower",
    "mm_ipc_gpu_memory_gb": "GiB that the cache leaves for media decoded on the device",
    "media_io_kwargs": "how media are read as JSON: video backend pynvvideocodec decodes on the device",
    "video_loader_backend": "VLLM_VIDEO_LOADER_BACKEND: the same",
    "skip_mm_profiling": "encoders are left out of the profile run: the cache takes their memory",
    "cudagraph_capture_sizes": "batches in tokens that CUDA graphs are captured for, such as 1,2,4,8",
    "max_cudagraph_capture_size": "the largest of them, in the release's own list",
    "cuda_graph_sizes": "--cuda-graph-sizes of 0.9.1 to 0.12: the same as one number or a list",
    "cudagraph_mode": "NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE: which graphs there are",
    "moe_backend": "the kernels of experts, which not every format and GPU has; what they take is not modelled",
    "all2all_backend": "how data-parallel ranks exchange the tokens of experts: DeepEP's kernels have buffers of their own",
    "deepep_buffer_size_mb": "VLLM_DEEPEP_BUFFER_SIZE_MB: MiB of each of DeepEP's fixed buffers; 1,024 by default",
    "moe_dp_chunk_size": "VLLM_MOE_DP_CHUNK_SIZE: tokens of a rank that are exchanged at once up to 0.19; 256 by default",
    "indexer_kv_dtype": "--attention-config indexer_kv_dtype: fp8 or mxfp4 keys of DeepSeek-V4's and V4.1's indexers",
    "engram_cpu_offload": "--engram-config cpu_offload (0.30: VLLM_PLE_CPU_OFFLOAD): n-gram tables in host memory, as they are by default",
    "expert_parallel": "--enable-expert-parallel on one rank, which no model without experts starts with",
    "enable_eplb": "experts are dealt out to the ranks anew while it serves",
    "num_redundant_experts": "copies of experts in every layer, dealt out with them (EPLB)",
    "eplb_window_size": "steps whose loads of experts EPLB keeps; 1,000 by default",
    "lora_target_modules": "modules that adapters change, joined by commas; all by default",
    "max_num_encoder_input_tokens": "encoder tokens of one step",
    "prefill_context_parallel_size": "ranks that share the tokens of a prompt, which no attention but latent has kernels for",
    "runner": "pooling: embeddings, scores or rewards are served, without an output layer; generate; auto: as the model is made",
    "pooling_type": "how a pooler makes one vector of many, such as LAST: prompts whose mean or first token is taken go in whole",
    "pp_layer_partition": "VLLM_PP_LAYER_PARTITION: layers of each pipeline stage, such as 20,12",
    "num_gpu_blocks_override": "blocks, whatever memory says",
    "performance_mode": "balanced, interactivity or throughput: batch defaults",
    "v0_options": "options of 0.8 to 0.10 that V1 does not have there, such as num_scheduler_steps=8, with which V0 runs",
    "trust_remote_code": "false: --trust-remote-code is not given; where it is needed a plan takes it as given, and says so",
    "swap_space": "GiB of host memory for swapped blocks (V0)",
}

#: Forms of cache that were read for this engine; a new one is refused until it is.
_FORMS: frozenset[Form] = frozenset({
    "none", "shared", "kv", "kv+index", "kv+blocks", "encoder-kv", "latent", "latent+index", "latent+pooled-index", "compressed",
    "compressed+shared",
    "mamba1", "mamba2", "gated-delta-net", "kda", "linear-attention", "short-conv", "rwkv",
    "depthwise-conv",
})  # fmt: skip

#: PYTORCH_ROCM_ARCH of docker/Dockerfile.rocm_base, v0.11.1 and v0.12.0; a build of one's own may have gfx906, gfx908, gfx1030.
_ROCM = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1200", "gfx1201", "gfx1150", "gfx1151")

FACTS = Facts(
    name="vllm",
    title="vLLM",
    machines=True,
    free_batch=True,
    versions=VERSIONS,
    options=OPTIONS,
    # rwkv is refused in the engine's own words; rows by blocks (InfLLM-V2) are kept without their mean keys
    forms=_FORMS,
    unused={
        "n_gpu_layers": "it leaves no layers in host memory",
        "host_memory": "it is what host lines are compared with: nothing of a device follows it",
    },
    # utils/torch_utils.py resolve_kv_cache_dtype_string; attention/layer.py kv_cache_scheme
    stated_caches=(("0.14", ("compressed-tensors",)), ("0.15", ())),
    drafting=DRAFTING,
    adapting=ADAPTING,
    pool="set aside",
    pages="blocks",
    null_blocks=1,
    vendors=frozenset({"nvidia", "amd", "intel"}),
    least_capability=70,  # docs.vllm.ai/en/v0.14.0/getting_started/installation/gpu
    kernels_from=(("", 70),),  # vllm-project/vllm issues 963, 3785, 19542
    default_from=(("0.20", 75),),  # pull request 39878: CUDA 13.0
    rocm_builds=(("0.12", _ROCM),),
    weight_schemes=frozenset({"plain", "fp8", "mxfp", "nvfp4", "int", "awq", "gptq", "affine", "bitsandbytes", "gguf", "unknown"}),
    kv_advice=(("fp8", 8),),
    weight_advice=(("fp8", 8), ("int4_g128", 4)),
    settings=(
        Setting("allow_long_max_model_len", ("true",), "allow more than the model's own maximum (VLLM_ALLOW_LONG_MAX_MODEL_LEN=1)"),
        Setting("disable_hybrid_kv_cache_manager", ("false",), "let window layers keep their window alone"),
        Setting("enable_prefix_caching", ("false",), "no prefix caching"),
        Setting("driver", ("550",), "NVIDIA's driver 550 or newer, whose graphs are smaller"),
        Setting("async_scheduling", ("false",), "no asynchronous scheduling"),
    ),
    fraction_ceiling=0.95,
    whole_prompts=(0, 8),
    constants="vllm",
    measured_from=MEASURED_FROM,
    driver_from="0.20",  # docker/Dockerfile CUDA_VERSION: 12.9.1 in 0.19.1, 13.0.2 in 0.20.0, which needs driver 580
    tiers="kv_offloading_size=64 (GiB), lmcache_l1_size_gb=64 or dyn_kvbm_cpu_cache_gb=64 asks for one",
    shares_experts=True,
    apart=Apart("rows", "0.29", ("disable_hybrid_kv_cache_manager", "0.22")),  # config/vllm.py: with a kv_transfer_config
)
