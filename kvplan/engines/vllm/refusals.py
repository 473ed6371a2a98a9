"""What vLLM does not start with: the checks between its arguments and its first request, by release, in its own words.

Read from the wheels of vllm 0.5.5 to 0.33.0; `since` and `before` are releases in which the words were seen to come or go.
"""

from __future__ import annotations

from functools import partial

from kvplan.engines.common.failures import unpacked
from kvplan.engines.common.stops import Move, Stop
from kvplan.engines.vllm import (
    block_sizes,
    by_transformers,
    captures,
    checkpoints,
    context_parallel,
    deepseek_v41_conditions,
    drafting,
    experts,
    layer_conditions,
    no_v1,
    on_amd,
    overrides,
    registered,
    selection,
    state_blocks,
    windows,
)
from kvplan.engines.vllm import conditions as when
from kvplan.engines.vllm import exchange_conditions as over
from kvplan.engines.vllm.quantised import NEEDS_SETTINGS, another_draft_method, another_method, made_draft, unpacked_draft

TP = "a size that divides it"
FEWER = Move("tp", "a smaller one, or pipeline parallelism (pp) beside it")
_CONFIG, _LINEAR, _FP8 = "config/model.py", "model_executor/layers/linear.py", "model_executor/layers/quantization/fp8.py"
_MODELS = "model_executor/models/llama.py and its like, LlamaAttention.__init__"
_WHY_BLOCKS = "a rank's part of a matrix is {side} wide, and its FP8 scales are for blocks of {block}: a block would be cut in two"
_WHY_GROUPS = "a rank's part of a matrix has {inputs} inputs, no whole number of the checkpoint's groups of {group}"
_OTHER_GPU, _OTHER_FORMAT = Move("device", "a newer GPU"), Move("weight_dtype", "a checkpoint in another format")
_STAGES = Move("pp", "more stages instead")
_BACKEND = Move("option:attention_backend", "none, TRITON_ATTN or FLASHINFER")
_VERIFY, _PARALLEL = f"{_CONFIG} verify_with_parallel_config", "config/parallel.py"
_WHY_NO_COPIES = "decode context parallelism splits the copies of KV heads: {tp} ranks and {kv_heads} heads leave none"
_NO_DCP, _MORE_RANKS = Move("dcp", "1"), Move("tp", "more than {kv_heads}")
_WHY_COPIES, _COPIES = "only {most} copies of each KV head exist to be split", Move("dcp", "at most {most}")
_WHY_QUERIES = "the {queries} query heads of one KV head are not shared evenly by {dcp} ranks"
_QUERIES = Move("dcp", "a size that divides {queries}")
_WHY_EPLB = "copies of experts are there for balancing alone"
_EPLB = (Move("option:enable_eplb", "true"), Move("option:num_redundant_experts", "0"))
_EVEN = Move("option:num_redundant_experts", "such that experts and copies are a multiple of the ranks")
_FUSED = "model_executor/layers/fused_moe/layer.py"
_EP = Move("ep", "expert parallelism, which keeps experts whole")

_TWO_METHODS = Stop(
    "two quantisations",
    "Quantization method specified in the model config ({own:w}) does not match the quantization method specified in the "
    "`quantization` argument ({asked:w})",
    "the checkpoint is {own} and {asked} was asked for",
    (Move("option:quantization", "none: the checkpoint says its own"), Move("weight_dtype", "what the checkpoint is")),
    f"{_CONFIG} _verify_quantization", when=another_method,
)  # fmt: skip

#: Evaluated for every plan, in the order in which the engine comes to them.
CHECKS: tuple[Stop, ...] = (
    *no_v1.CHECKS,
    block_sizes.CHOICE,
    Stop(
        "longer than the model",
        "User-specified max_model_len ({length}) is greater than the derived max_model_len (max_position_embeddings={most}",
        "the model was made for {most} tokens and {length} were asked for",
        (Move("max_model_len", "at most {most}"), Move("option:allow_long_max_model_len", "true, where the model's RoPE stretches so far")),
        f"{_CONFIG} _get_and_verify_max_len", when=when.longer,
        tail=" or model_max_length=None in model's config.json). To allow overriding this maximum, set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1",
    ),
    *checkpoints.CHECKS,
    Stop(
        "quantisation of a drafter", "hf_overrides must be a dict for get_quant_config to get the quantization config from it.",
        "this release quantises no drafter as it is loaded", (Move("option:draft_quantization", "unset"), Move("engine_version", "0.29")),
        "model_loader/weight_utils.py get_quant_config", since="0.19", before="0.29", when=made_draft, loading=True, numbers="{method}",
    ),
    _TWO_METHODS, _TWO_METHODS._replace(when=another_draft_method),
    *windows.CHECKS, *overrides.CHECKS, *captures.CHECKS,
    *layer_conditions.CHECKS,
    *registered.CHECKS, *by_transformers.CHECKS,
    *drafting.CHECKS,
    *deepseek_v41_conditions.CHECKS,
    Stop(
        "tiers before their connector knew groups",
        "Connector {connector:w} does not support HMA but HMA is enabled. Please set `--disable-hybrid-kv-cache-manager`.",
        "the connector of the tier asked for takes one block table alone, and this release does not turn the hybrid manager off for it",
        (Move("option:disable_hybrid_kv_cache_manager", "true"), Move("engine_version", "0.22 or later")),
        "distributed/kv_transfer/kv_connector/factory.py create_connector", since="0.11.1", before="0.22", when=when.one_group_connector,
    ),
    Stop(
        "offloading before it was sized", "num_cpu_blocks must be specified in kv_connector_extra_config",
        "these releases hand their own offloading connector 0 blocks (config/vllm.py _post_init_kv_transfer_config)",
        (Move("engine_version", "0.14 or later"), Move("option:kv_offloading_size", "none: num_cpu_blocks by --kv-transfer-config")),
        "v1/kv_offload/cpu.py CPUOffloadingSpec", since="0.11.1", before="0.14", when=when.unsized_offloading,
    ),
    Stop(
        "float16", "The model type {kind:w} does not support float16. Reason: Numerical instability.",
        "models of this class overflow in 16-bit floats", (Move("dtype", "bfloat16 or float32"),),
        f"{_CONFIG} _check_valid_dtype", since="0.9.1", when=when.f16,
    ),
    Stop(
        "attention heads", "Total number of attention heads ({heads}) must be divisible by tensor parallel size ({tp}).",
        "{heads} heads can not be dealt out evenly to {tp} ranks", (Move("tp", "a size that divides {heads}"), _STAGES),
        _VERIFY, when=when.heads,
    ),
    Stop(
        "no experts", "Number of experts in the model must be greater than 0 when expert parallelism is enabled.",
        "expert parallelism was asked for and the model has no experts", (Move("ep", "1"),),
        f"{_CONFIG} _verify_with_expert_parallelism", since="0.8.5", when=when.no_experts,
    ),
    Stop(
        "copies of experts", "num_redundant_experts should be used with EPLB.", _WHY_EPLB, _EPLB, _PARALLEL, since="0.9.2", before="0.10.2",
        when=over.copies_alone,
    ),
    Stop(
        "copies of experts",
        "num_redundant_experts is set to {copies} but EPLB is not enabled. Either enable EPLB or unset num_redundant_experts.", _WHY_EPLB,
        _EPLB, _PARALLEL, since="0.10.2", when=over.copies_alone,
    ),
    Stop(
        "EPLB", "enable_expert_parallel must be True to use EPLB.", "experts are dealt out anew among ranks that hold them whole",
        (Move("ep", "expert parallelism over tp x dp"), Move("option:enable_eplb", "false")), _PARALLEL, since="0.9.2",
        when=over.unshared_experts,
    ),
    Stop(
        "EPLB", "EPLB currently only supports even distribution of experts across ranks.",
        "every rank must hold as many experts, copies among them", (_EVEN,), _FUSED, since="0.9.2", before="0.22",
        when=over.uneven_experts, loading=True, numbers="{experts} experts and {ep} ranks",
    ),
    Stop(
        "EPLB", "EPLB currently only supports even distribution of experts across ranks. Got {experts} experts and {ep} EP ranks.",
        "every rank must hold as many experts, copies among them", (_EVEN,), _FUSED, since="0.22", when=over.uneven_experts, loading=True,
    ),
    Stop(
        "sizes of graphs",
        "customized max_cudagraph_capture_size(={most}) should be consistent with the max value of cudagraph_capture_sizes(={largest})",
        "both were given and say different sizes", (Move("option:max_cudagraph_capture_size", "none, or {largest}"),),
        "config/vllm.py _set_cudagraph_sizes", since="0.11.1", when=when.two_ceilings,
    ),
    Stop(
        "DeepEP and width", "Hidden Size {hidden} is greater than the maximum supported hidden size {most}",
        "DeepEP's low-latency kernels take tokens of certain widths alone", (Move("option:all2all_backend", "another"),),
        "model_executor/layers/fused_moe/prepare_finalize/deepep_ll.py", since="0.11.1", when=over.wide_tokens, loading=True,
    ),
    Stop(
        "decode context parallel", "tensor parallel size {tp} must be greater than total num kv heads {kv_heads} when enable",
        _WHY_NO_COPIES, (_NO_DCP, _MORE_RANKS), _VERIFY, since="0.11.1", before="0.27", when=when.dcp,
    ),
    Stop(
        "decode context parallel",
        "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` ({tp}) to be greater than the model's total number of KV "
        "heads ({kv_heads}).",
        _WHY_NO_COPIES, (_NO_DCP, _MORE_RANKS), _VERIFY, since="0.27", when=when.dcp,
    ),
    Stop(
        "decode context parallel",
        "decode context parallel size must less than or equal to (tensor parallel size {tp} // total num kv heads {kv_heads}) = {most}, "
        "but got {dcp}",
        _WHY_COPIES, (_COPIES,), _VERIFY, since="0.11.1", before="0.27", when=when.dcp_most,
    ),
    Stop(
        "decode context parallel",
        "`--decode-context-parallel-size` ({dcp}) exceeds the maximum supported value ({most}) for `--tensor-parallel-size` ({tp})",
        _WHY_COPIES, (_COPIES,), _VERIFY, since="0.27", when=when.dcp_most,
    ),
    Stop(
        "decode context parallel",
        "Total number of q per kv attn heads ({queries}) must be divisible by dcp world size when enable decode context parallel for GQA "
        "({dcp}).",
        _WHY_QUERIES, (_QUERIES,), _VERIFY, since="0.11.1", before="0.27", when=when.dcp_queries,
    ),
    Stop(
        "decode context parallel",
        "The model's number of query heads per KV head ({queries}) must be divisible by `--decode-context-parallel-size` ({dcp}) for "
        "GQA/MQA.",
        _WHY_QUERIES, (_QUERIES,), _VERIFY, since="0.27", when=when.dcp_queries,
    ),
    *context_parallel.CHECKS, *experts.CHECKS,
    Stop(
        "stages", "Pipeline parallelism is not supported for this model", "its class has no pipeline stages",
        (Move("pp", "1, with a larger tp"),), _VERIFY, since="0.6", when=when.stages,
        tail=". Supported models implement the `SupportsPP` interface.",
    ),
    Stop(
        "prefix caching of states", "Chunked prefill is required for mamba cache mode 'align'", "prompts stop where states are kept",
        (Move("option:enable_chunked_prefill", "true"), Move("option:enable_prefix_caching", "false")),
        "model_executor/models/config.py MambaModelConfig", since="0.15", when=when.whole_states,
    ),
    *state_blocks.CHECKS,
    Stop(
        "stages", "No model architectures are specified", "the text model is built without its class's name, which stages ask for",
        (Move("pp", "1, with a larger tp"), Move("engine_version", "0.30")), _VERIFY, since="0.17", before="0.30", when=when.unnamed,
    ),
    Stop(
        "NVFP4 cache", "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends.",
        "latent attention has formats of its own: fp8, or nvfp4_ds_mla for sparse models", (Move("kv_dtype", "auto or fp8"),),
        "config/vllm.py", since="0.22", when=when.latent_nvfp4,
    ),
    Stop(
        "adapters", "LoRA is not supported for {kind:w} ({name:t}). Supported models implement the `SupportsLoRA` interface.",
        "its class takes no adapters", (Move("lora", "off"),), "config/lora.py verify_with_model_config", since="0.33", when=when.adapters,
    ),
    Stop(
        "adapters", "{kind:w} does not support LoRA yet.", "its class takes no adapters", (Move("lora", "off"),),
        "v1/worker/lora_model_runner_mixin.py; V0 worker/model_runner.py", since="0.6", before="0.33", when=when.adapters, loading=True,
    ),
    Stop(
        "LoRA rank", "max_lora_rank ({rank}) must be one of {ranks:t}.", "this release has kernels for certain ranks alone",
        (Move("lora", "the next larger of {ranks}"),), "config/lora.py", before="0.12", when=when.lora_rank,
    ),
    Stop(
        "LoRA rank", "max_lora_rank Input should be {ranks:t} [type=literal_error, input_value={rank}",
        "this release has kernels for certain ranks alone", (Move("lora", "the next larger of {ranks}"),),
        "config/lora.py MaxLoRARanks", since="0.12", when=when.lora_rank,
    ),
    Stop(
        "runner", "This model does not support `--runner generate`.", "an encoder generates nothing",
        (Move("option:runner", "pooling or auto"),), _CONFIG, since="0.10.2", before="0.22", when=when.generates,
    ),
    Stop(
        "runner", "Embedding models do not support `--runner generate`. Use `--runner pooling` or `--runner auto` for embedding models.",
        "an encoder generates nothing", (Move("option:runner", "pooling or auto"),), _CONFIG, since="0.22", when=when.generates,
    ),
    Stop(
        "fewer tokens than sequences", "max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({seqs}).",
        "a step of {tokens} tokens can not hold one token of each of {seqs} sequences",
        (Move("max_num_seqs", "at most {tokens}"), Move("max_num_batched_tokens", "at least {seqs}")),
        "config/scheduler.py verify_max_model_len", when=when.few_tokens,
    ),
    Stop(
        "chunked prefill is off", "max_num_batched_tokens ({tokens}) is smaller than max_model_len ({length}).",
        "without chunked prefill a step must hold a whole prompt of {length} tokens",
        (Move("max_num_batched_tokens", "at least {length}"), Move("max_model_len", "at most {tokens}"),
         Move("option:enable_chunked_prefill", "true")),
        "config/scheduler.py verify_max_model_len", since="0.2.2", when=when.whole_prompts,
        tail=" This effectively limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences.",
    ),
    Stop(
        "an item in one step",
        "Chunked MM input disabled but max_tokens_per_mm_item ({item}) is larger than max_num_batched_tokens ({tokens}). Please increase "
        "max_num_batched_tokens.",
        "the largest item has {item} tokens, which may not be cut, and a step has {tokens}",
        (Move("max_num_batched_tokens", "at least {item}"),
         Move("option:limit_mm_per_prompt", "0 for the kind that is largest")),
        "v1/core/encoder_cache_manager.py compute_mm_encoder_budget", since="0.9", when=when.whole_items, loading=True,
    ),
    Stop(
        "sleep mode and growing segments", "Expandable segments are not compatible with memory pool.",
        "the allocator of sleep mode does not work with expandable_segments:True",
        (Move("option:allocator", "none"), Move("option:enable_sleep_mode", "false")),
        "device_allocator/cumem.py CuMemAllocator.__init__", since="0.8", before="0.21", when=when.sleeping, loading=True,
    ),
    unpacked(NEEDS_SETTINGS), unpacked(NEEDS_SETTINGS)._replace(when=unpacked_draft),
    Stop(
        "quantisation and GPU",
        "The quantization method {method:w} is not supported for the current GPU. Minimum capability: {least}. Current capability: {has}.",
        "its kernels need compute capability {least} (75 is 7.5) and this GPU has {has}", (_OTHER_FORMAT, _OTHER_GPU),
        "config/vllm.py _get_quantization_config, get_min_capability", when=when.capability, loading=True,
    ),
    Stop(
        "cache and compute type", 'kv_cache_dtype="{cache:w}" is incompatible with dtype="{compute:w}". Please set `--kv-cache-dtype` to',
        "a 16-bit cache must be in the type that the model computes in", (Move("kv_dtype", "auto"), Move("dtype", "{cache}")),
        "config/vllm.py _reject_mismatched_float_kv_cache", since="0.33", when=when.float_cache,
    ),
    Stop(
        "bfloat16",
        "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your {gpu:t} GPU has compute capability {has}.",
        "GPUs before Ampere do not compute in bfloat16", (Move("dtype", "float16 (half)"), _OTHER_GPU),
        "platforms/cuda.py check_if_supports_dtype; V0 worker/worker.py _check_if_gpu_supports_dtype", when=when.bf16, loading=True,
        tail=" You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.",
    ),
    Stop(
        "attention backend", "Selected backend AttentionBackendEnum.{backend:w} is not valid for this configuration. Reason:",
        "the backend that was named does not run this model on this GPU",
        (Move("option:attention_backend", "none: it chooses one that does"), _OTHER_GPU),
        "platforms/cuda.py get_attn_backend_cls; v1/attention/backend.py validate_configuration",
        since="0.12", when=when.backend, loading=True, numbers="{reason}",
    ),
    *block_sizes.CHECKS,
    *selection.CHECKS, *on_amd.CHECKS,
    Stop(
        "FP8 cache and FlashAttention", "FlashAttention does not support fp8 kv-cache on this device.",
        "FlashAttention reads an FP8 cache on Hopper alone", (_BACKEND, Move("kv_dtype", "auto")),
        "v1/attention/backends/flash_attn.py", since="0.8", before="0.12", when=when.flash_fp8, loading=True,
    ),
    Stop(
        "FP8 cache and FlashAttention",
        "Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this configuration. Reason: ['kv_cache_dtype not supported']",
        "FlashAttention reads an FP8 cache on Hopper and later alone",
        (_BACKEND, Move("kv_dtype", "auto")),
        "platforms/cuda.py get_attn_backend_cls", since="0.12", when=when.flash_fp8, loading=True,
    ),
    Stop(
        "FP8 cache and Triton", "type fp8e4nv not supported in this architecture.",
        "the attention kernels that run on this GPU read an FP8 cache from compute capability 8.9 on",
        (Move("kv_dtype", "auto"), _OTHER_GPU), "v1/attention/backends/triton_attn.py; vllm-project/vllm issue 26431, pull request 45829",
        since="0.12", before="0.24", when=when.triton_e4m3, loading=True,
    ),
    Stop(
        "FP8 cache and Triton",
        "FP8 KV cache is not supported by the Triton attention backend on {gpu:t} (compute capability {has}); native FP8 (fp8e4nv) "
        "requires SM89+. Re-run with --kv-cache-dtype {other:w}.",
        "the attention kernels that run on this GPU read an FP8 cache from compute capability 8.9 on, and it has {has}",
        (Move("kv_dtype", "auto"), _OTHER_GPU), "v1/attention/backends/triton_attn.py; flashinfer.py and flash_attn.py need 8.0",
        since="0.24", when=selection.triton_fp8, loading=True,
    ),
    Stop(
        "FP8 cache of another kind", "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
        "FP8 weights come with scales of an e4m3 cache", (Move("kv_dtype", "fp8"),),
        "attention/layer.py; from 0.17 on layers/attention/attention.py", since="0.10", when=when.e5m2_checkpoint, loading=True,
    ),
    Stop(
        "NVFP4 cache", "No valid attention backend found for {gpu:t}", "an NVFP4 cache needs compute capability 8.0",
        (Move("kv_dtype", "auto"), _OTHER_GPU), "platforms/cuda.py get_attn_backend_cls; v1/attention/backends/flashinfer.py",
        since="0.32", near=("kv_cache_dtype=nvfp4",), when=when.nvfp4_cache, loading=True,
    ),
    Stop(
        "KV heads", "assert self.total_num_kv_heads % tp_size == 0",
        "the model's KV heads can not be dealt out evenly to so many ranks", (Move("tp", TP), _STAGES),
        _MODELS, when=when.kv_dealt, loading=True, numbers="{kv_heads} KV heads over {tp} ranks",
    ),
    Stop(
        "KV heads", "assert tp_size % self.total_num_kv_heads == 0",
        "the model's KV heads can not be copied evenly to so many ranks", (Move("tp", TP), _STAGES),
        _MODELS, when=when.kv_copied, loading=True, numbers="{kv_heads} KV heads over {tp} ranks",
    ),
    Stop(
        "quantisation and GPU",
        "Quantization scheme is not supported for the current GPU. Min capability: {least}. Current capability: {has}.",
        "its kernels need compute capability {least} (75 is 7.5) and this GPU has {has}", (_OTHER_FORMAT, _OTHER_GPU),
        "model_executor/layers/quantization/compressed_tensors, _check_scheme_supported",
        when=partial(when.capability, by_scheme=True), loading=True,
    ),
    Stop(
        "quantised groups and tp",
        "The input size is not aligned with the quantized weight shape. This can be caused by too large tensor parallel size.",
        "a rank's part of a matrix is no whole number of the checkpoint's groups", (FEWER, _OTHER_FORMAT),
        "model_executor/layers/quantization/awq.py, gptq.py create_weights", when=when.groups, loading=True,
        numbers="{inputs} inputs a rank in groups of {group}",
    ),
    Stop(
        "quantised groups and tp",
        "Failed to find a kernel that can implement the WNA16 linear layer. ... in_features per partition {inputs} is not divisible by "
        "group_size = {group}",
        _WHY_GROUPS, (FEWER, _OTHER_FORMAT), "model_executor/kernels/linear choose_mp_linear_kernel", since="0.6.6",
        when=when.kernel_groups, loading=True,
    ),
    Stop(
        "FP8 blocks and tp", "Weight output_partition_size = {side} is not divisible by weight quantization block_n = {block}.",
        _WHY_BLOCKS, (FEWER, _OTHER_FORMAT), f"{_FP8} create_weights", since="0.6.6", before="0.14",
        when=when.blocks, loading=True,
    ),
    Stop(
        "FP8 blocks and tp", "Weight output_partition_size = {side} is not divisible by weight quantization block_n = {block}.",
        _WHY_BLOCKS, (FEWER, _OTHER_FORMAT), f"{_FP8} create_weights; 0.30 on utils/fp8_utils.py; not where several matrices lie in one "
        "(layers/linear.py _maybe_allow_fp8_block_shape_mismatch)", since="0.14", when=partial(when.blocks, names=when.ALONE), loading=True,
    ),
    Stop(
        "FP8 blocks and tp", "Weight input_size_per_partition = {side} is not divisible by weight quantization block_k = {block}.",
        _WHY_BLOCKS, (FEWER, _OTHER_FORMAT), f"{_FP8} create_weights; 0.30 on utils/fp8_utils.py", since="0.6.6",
        when=partial(when.blocks, row=True), loading=True,
    ),
    Stop(
        "FP8 blocks and tp",
        "The output_size of gate's and up's weight = {side} is not divisible by weight quantization block_n = {block}.",
        _WHY_BLOCKS, (_EP, FEWER, _OTHER_FORMAT), f"{_FP8} Fp8MoEMethod.create_weights", since="0.6.6",
        when=partial(when.blocks, of_experts=True), loading=True,
    ),
    Stop(
        "feed-forward width", "assert all(output_size % tp_size == 0 for output_size in output_sizes)",
        "the model's feed-forward width can not be dealt out evenly to so many ranks", (Move("tp", TP),),
        f"{_LINEAR} MergedColumnParallelLinear", before="0.10",
        when=when.widths, loading=True, numbers="a width of {width} over {tp} ranks",
    ),
    Stop(
        "feed-forward width", "assert all(output_size % self.tp_size == 0 for output_size in output_sizes)",
        "the model's feed-forward width can not be dealt out evenly to so many ranks", (Move("tp", TP),),
        f"{_LINEAR} MergedColumnParallelLinear", since="0.10", when=when.widths, loading=True, numbers="a width of {width} over {tp} ranks",
    ),
    Stop(
        "experts' width", "assert intermediate_size % self.tp_size == 0",
        "the experts' width can not be dealt out evenly to so many ranks", (_EP, Move("tp", TP)),
        "model_executor/layers/fused_moe/layer.py", since="0.6.6", before="0.24", when=when.expert_widths, loading=True,
        numbers="a width of {width} over {tp} ranks",
    ),
    Stop(
        "experts' width", "assert self.intermediate_size % tp_size == 0",
        "the experts' width can not be dealt out evenly to so many ranks", (_EP, Move("tp", TP)),
        "model_executor/layers/fused_moe/config.py", since="0.24", when=when.expert_widths, loading=True,
        numbers="a width of {width} over {tp} ranks",
    ),
)  # fmt: skip
