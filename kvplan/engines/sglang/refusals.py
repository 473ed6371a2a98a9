"""What SGLang does not start with, by release, in its own words.

Read from the wheels of sglang 0.3.6 to 0.5.23: `server_args.py` and `arg_groups/*`, `configs/model_config.py`, `model_loader/loader.py`,
`model_executor/*`, `layers/quantization/*`; `since` and `before` are releases in which the words were seen to come or go.
"""

from __future__ import annotations

from kvplan.engines.common.stops import Move, Stop
from kvplan.engines.sglang import backend_conditions as backend
from kvplan.engines.sglang import conditions as when
from kvplan.engines.sglang.code_refusals import CLASSES
from kvplan.engines.sglang.config_conditions import later_config, no_class, shared_prompts, whole_jitter
from kvplan.engines.sglang.deepseek_v41_conditions import CHECKS as SHARED_ROWS
from kvplan.engines.sglang.gpu_words import STOPS as GPU_WORDS
from kvplan.engines.sglang.inkling_refusals import STOPS as INKLING
from kvplan.engines.sglang.mega_moe import STOPS as MEGA_MOE
from kvplan.engines.sglang.one_pool import beside_one_pool, without_rows
from kvplan.engines.sglang.state_refusals import BUFFERS, RANKS, STRATEGY
from kvplan.engines.sglang.words import WORDS

_NEWER = Move("engine_version", "a newer release")
_STAGES = Move("pp", "more stages instead")
_FEWER = Move("tp", "a smaller one, or more stages (pp) beside it")
_TP = Move("tp", "a size that divides it")
_WHOLE_PAGES = (Move("max_num_batched_tokens", "a multiple of the page size"), Move("block_size", "one that divides it"))
_EP = Move("ep", "tp, which keeps experts whole")
_OTHER_GPU = Move("device", "a newer GPU")
_OTHER_FORMAT = Move("weight_dtype", "a checkpoint in another format")
_MODELS = "models/llama.py and its like"
_FP8 = "layers/quantization/fp8.py"
_CUT = "a rank's part of a matrix is {side} wide, and its FP8 scales are for blocks of {block}: a block would be cut in two"
_NEEDS = "its kernels need compute capability {least} (75 is 7.5) and this GPU has {has}"
_METHOD = "The quantization method {method:w} is not supported for the current GPU. Minimum capability: {least}. Current capability: {has}."
_LOADER = "model_loader/loader.py _get_quantization_config"

_TIER = (Move("option:disable_radix_cache", "false"), Move("option:enable_hierarchical_cache", "false"))
_OWN_DRAFTS = (Move("speculative", "mtp, or off"),)
_ANY_BACKEND = Move("option:attention_backend", "none, or triton")
_ONE_OF = (Move("speculative", "off, or ngram"), Move("lora", "off"))

#: Evaluated for every plan, in the order in which the engine comes to them.
CHECKS: tuple[Stop, ...] = (
    *WORDS,
    *GPU_WORDS,
    *MEGA_MOE,
    *CLASSES,
    Stop(
        "a class of later releases", "Model architectures ['{class:w}'] are not supported for now.",
        "neither the release nor the transformers that it asks for knows the model's class",
        (Move("engine_version", "a release that has it"), Move("engine", "another that does")),
        "models/registry.py _raise_for_unsupported", when=no_class, numbers="its first release is {first}",
    ),
    Stop(
        "a config of a later transformers", "but Transformers does not recognize this architecture",
        "{class:w} is of a later transformers than any release asks for, and no release has it itself",
        (Move("engine", "another that has it"),),
        "utils/hf_transformers/config.py get_config", when=later_config, numbers="its first transformers is {first}",
    ),
    Stop(
        "a config of other types", "Field 'moe_jitter_eps' with value 0 doesn't match any type",
        "the transformers that this release asks for takes no whole number there", (Move("engine_version", "a later or an earlier one"),),
        "transformers 5.6 to 5.12 models/dbrx, DbrxFFNConfig", since="0.5.11", before="0.5.22", when=whole_jitter,
    ),
    Stop(
        "ranks of a prompt", "Nemotron-H does not support --attn-cp-size > 1", "its states are not shared by ranks of a prompt",
        (Move("option:attn_cp_size", "1"),), "arg_groups/parallel_hook.py _boundary_parallelism_overrides", since="0.5.21",
        when=shared_prompts,
    ),
    Stop(
        "attention ranks", "assert self.tp_size % self.dp_size == 0", "attention is split over dp groups of the tp ranks, evenly",
        (Move("dp", "a size that divides tp"), Move("option:enable_dp_attention", "false")),
        "server_args.py _handle_data_parallelism", when=when.attention_ranks, numbers="tp {tp}, dp {dp}",
    ),
    Stop(
        "draft method", "argument --speculative-algorithm: invalid choice: '{method:w}'", "this release has no such way of drafting",
        (Move("speculative", "off, or mtp"), _NEWER), "server_args.py",
    ),
    Stop(
        "attention backend", "argument --attention-backend: invalid choice: '{backend:w}'", "this release has no such backend",
        (_ANY_BACKEND, _NEWER), "server_args.py", when=when.no_backend,
    ),
    Stop(
        "chunk and page", "assert self.chunked_prefill_size % self.page_size == 0",
        "a chunk of prefill must be whole pages", _WHOLE_PAGES,
        "server_args.py", since="0.4.6", before="0.4.10", when=when.chunk, numbers="chunks of {chunk} tokens, pages of {page}",
    ),
    Stop(
        "chunk and page", "chunked_prefill_size must be divisible by page_size",
        "a chunk of prefill must be whole pages", _WHOLE_PAGES,
        "server_args.py check_server_args; arg_groups/validation_hook.py", since="0.4.10", when=when.chunk,
        numbers="chunks of {chunk} tokens, pages of {page}",
    ),
    Stop(
        "stages", "Pipeline Parallel is not compatible with this model.", "this release runs a model of this class in one stage",
        (Move("pp", "1"), Move("tp", "more ranks, where its heads divide")), "model_executor/model_runner.py ModelRunner.initialize",
        since="0.4.6", when=when.stages, numbers="{architecture}",
    ),
    Stop(
        "stages and drafts",
        "Pipeline parallelism is not compatible with overlap schedule, speculative decoding, mixed chunked prefill.",
        "this release drafts in one pipeline stage alone", (Move("pp", "1"), Move("speculative", "off")),
        "server_args.py check_server_args", since="0.4.6", before="0.5.21", when=when.staged_drafts,
    ),
    Stop(
        "stages and drafts", "Pipeline parallelism currently only supports EAGLE (non-multi-layer) speculative decoding",
        "under pipeline parallelism this release drafts with EAGLE and MTP alone", (Move("pp", "1"), Move("speculative", "eagle or mtp")),
        "arg_groups/validation_hook.py check_pipeline_parallel_compat", since="0.5.21", when=when.staged_other_drafts,
    ),
    Stop(
        "a tier of prefixes",
        "The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive and cannot be used at the same time.",
        "the host's tier is of the prefix cache, which is turned off", _TIER, "server_args.py; arg_groups/kv_cache_hook.py", since="0.5.1",
        when=when.tier_without_prefixes,
    ),
    Stop(
        "a tier of prefixes", "HiCache with --dcp-size > 1 is only supported for MLA models",
        "the host's tier does not know how ranks split the tokens of K and V", (Move("dcp", "1"), *_TIER[1:]),
        "arg_groups/hicache_hook.py", since="0.5.17", when=when.tier_over_context_ranks,
    ),
    Stop(
        "a tier of prefixes", "HiCache with --dcp-size > 1 ... DCP index translation", "the drafter's rows in host memory are not split",
        (Move("dcp", "1"), Move("speculative", "off"), *_TIER[1:]), "server_args.py; arg_groups/hicache_hook.py", since="0.5.17",
        when=when.tier_over_context_ranks_drafts, numbers="{method}",
    ),
    Stop(
        "one pool", "--enable-unified-memory is not yet compatible with", "slots of the one pool lie elsewhere than others think",
        (Move("option:enable_unified_memory", "false"), _NEWER), "server_args.py; arg_groups/kv_cache_hook.py", since="0.5.15",
        when=beside_one_pool, numbers="{beside}",
    ),
    Stop(
        "one pool", "layer_num must be positive; got 0", "no layer keeps every token, of which the one pool has rows",
        (Move("option:enable_unified_memory", "false"),), "mem_cache/unified_memory_pool.py SubPoolSpec", since="0.5.15", when=without_rows,
    ),
    Stop(
        "window pool's share", "--swa-full-tokens-ratio should be in range (0, 1.0].", "that pool is no larger than the full one",
        (Move("option:swa_full_tokens_ratio", "above 0 and at most 1"),), "server_args.py; arg_groups/kv_cache_hook.py", since="0.5.7",
        when=when.window_share, numbers="{share}",
    ),
    Stop(
        "MXFP8 cache", "--kv-cache-dtype mxfp8 requires an SM100+ (Blackwell) GPU", "its attention kernels run on Blackwell alone",
        (Move("kv_dtype", "fp8 or auto"), _OTHER_GPU), "server_args.py; arg_groups/kv_cache_hook.py", since="0.5.16",
        when=when.mxfp8_cache, numbers="this GPU has {has}",
    ),
    Stop(
        "drafts of compressed caches", "Only EAGLE speculative algorithm is supported for {kind:w}", "it drafts with its own modules alone",
        _OWN_DRAFTS, "server_args.py", since="0.5.12", before="0.5.16", when=when.early_compressed_drafts,
    ),
    Stop(
        "drafts of compressed caches", "Only EAGLE and DSPARK speculative algorithms are supported for {kind:w}",
        "it drafts with its own modules and DSpark alone", _OWN_DRAFTS, "server_args.py; arg_groups/deepseek_v4_hook.py", since="0.5.16",
        when=when.compressed_drafts,
    ),
    *SHARED_ROWS,
    Stop(
        "flex attention and drafts", "Speculative decoding is currently not supported with Flex Attention backend",
        "that backend verifies no drafts", (Move("speculative", "off"), _ANY_BACKEND),
        "server_args.py; arg_groups/attention_hook.py", since="0.5.3", when=when.flex_drafts,
    ),
    Stop(
        "attention backend", "GptOssForCausalLM requires one of", "its sinks are read by other backends alone",
        (_ANY_BACKEND,), "server_args.py; arg_groups/model_hook.py", since="0.5.0", when=backend.sink_backend, numbers="not {backend}",
    ),
    Stop(
        "attention backend", "... is required for Llama4 model but got {backend:w}", "{backend} reads no chunks", (_ANY_BACKEND,),
        "server_args.py; arg_groups/model_hook.py", since="0.5.1", when=backend.chunked_backend,
    ),
    Stop(
        "attention backend", "fa3, ... is required for Llama4 model", "this release picks none for Llama 4 by itself",
        (Move("option:attention_backend", "fa3, aiter or triton"), _NEWER), "server_args.py", since="0.4.10", before="0.5.6",
        when=backend.chunked_unnamed,
    ),
    Stop(
        "attention backend", "Gemma4 only supports trtllm_mha, triton", "its layers are taken by these backends alone",
        (Move("option:attention_backend", "triton or trtllm_mha"),), "server_args.py; arg_groups/model_hook.py", since="0.5.13",
        when=backend.gemma4_backend, numbers="not {backend}",
    ),
    Stop(
        "attention backend", "TRTLLM MHA backend is only supported on Blackwell GPUs (SM100). Please use a different backend.",
        "its kernels are for compute capability 10.x", (_ANY_BACKEND, _OTHER_GPU), "server_args.py", since="0.5.0", before="0.5.10",
        when=backend.mha_blackwell, numbers="this GPU has {has}",
    ),
    Stop(
        "attention backend",
        "TRTLLM MHA backend for prefill is only supported on Blackwell GPUs (SM100). Please use a different prefill backend.",
        "its kernels are for compute capability 10.x", (_ANY_BACKEND, _OTHER_GPU), "server_args.py", since="0.5.10", before="0.5.19",
        when=backend.mha_prefill, numbers="this GPU has {has}",
    ),
    Stop(
        "attention backend", "TRTLLM MHA backend ... Hopper (SM90), Blackwell (SM100) ... SM120",
        "its kernels are for compute capability 9, 10 and 12", (_ANY_BACKEND, _OTHER_GPU),
        "server_args.py; arg_groups/attention_hook.py", since="0.5.10", when=backend.mha_gpus, numbers="this GPU has {has}",
    ),
    Stop(
        "attention backend", "Prefill context parallelism with the TRTLLM MHA prefill backend requires SM100",
        "its kernels for other GPUs do not know parts of a prompt", (_ANY_BACKEND, Move("option:attn_cp_size", "1")),
        "arg_groups/attention_hook.py", since="0.5.19", when=backend.mha_shared_prompts, numbers="this GPU has {has}",
    ),
    Stop(
        "attention backend", "TRTLLM MLA backend is only supported on Blackwell GPUs",
        "its kernels are for compute capability 10 and later", (_ANY_BACKEND, _OTHER_GPU),
        "server_args.py; arg_groups/overrides.py _mla_kv_cache_dtype_checks", since="0.4.10", when=backend.mla_blackwell,
        numbers="this GPU has {has}",
    ),
    Stop(
        "attention backend", "TensorRT-LLM MLA backend only supports kv-cache-dtype of",
        "the backend that Blackwell picks for latent attention reads fp8 rows as e4m3 alone",
        (Move("kv_dtype", "fp8_e4m3 or auto"), Move("option:attention_backend", "flashinfer")),
        "server_args.py; arg_groups/overrides.py _mla_kv_cache_dtype_checks", since="0.5.0", when=backend.mla_format,
    ),
    Stop(
        "backend of an fp4 cache", "KV4 MLA expects attention_backend to be one of", "other backends do not read fp4 rows of latents",
        (Move("option:attention_backend", "flashinfer or trtllm_mla"), Move("kv_dtype", "fp8 or auto")),
        "server_args.py; arg_groups/kv_cache_hook.py", since="0.5.7", when=backend.fp4_latent, numbers="not {backend}",
    ),
    Stop(
        "backend of an fp4 cache", "KV4 MHA expects attention_backend to be one of", "other backends do not read fp4 rows of K and V",
        (Move("option:attention_backend", "triton or trtllm_mha"), Move("kv_dtype", "fp8 or auto")),
        "server_args.py; arg_groups/kv_cache_hook.py", since="0.5.7", when=backend.fp4_heads, numbers="not {backend}",
    ),
    Stop(
        "n-grams in pages",
        "speculative_eagle_topk({topk}) > 1 with page_size({page}) > 1 is unstable and produces incorrect results for paged attention "
        "backends.",
        "n-grams are verified as a tree, which FlashInfer alone does in pages of more than one token",
        (Move("block_size", "1"), Move("option:attention_backend", "flashinfer")),
        "server_args.py; arg_groups/speculative_hook.py", since="0.5.3", when=backend.paged_ngram, numbers="{backend}",
    ),
    Stop(
        "tree of drafts", "trtllm_mha backend only supports topk = 1 for speculative decoding.", "it verifies a chain of drafts alone",
        (Move("option:speculative_num_draft_tokens", "the steps and one"), Move("option:attention_backend", "flashinfer")),
        "server_args.py; arg_groups/speculative_hook.py", since="0.5.1", when=backend.mha_tree,
    ),
    Stop(
        "tree of drafts", "speculative_eagle_topk > 1 with page_size > 1 is",
        "this backend does not verify a tree of drafts in pages of more than one token",
        (Move("option:speculative_num_draft_tokens", "the steps and one"), Move("option:attention_backend", "flashinfer")),
        "server_args.py; arg_groups/speculative_hook.py", since="0.5.2", when=backend.paged_tree, numbers="{backend}",
    ),
    Stop(
        "attention backend", "{architecture:w} does not support triton attention backend",
        "its first layer may have no attention, which that backend looks at", (_ANY_BACKEND,),
        "server_args.py; arg_groups/model_hook.py", since="0.5.7", when=backend.not_triton,
    ),
    Stop(
        "states and backend", "no_buffer do not support trtllm_mha attention backend.",
        "states that a prefix cache keeps without extra buffers want pages of one token",
        (Move("option:mamba_radix_cache_strategy", "extra_buffer"), Move("option:disable_radix_cache", "true")), STRATEGY,
        since="0.5.14", when=backend.unbuffered_mha,
    ),
    Stop(
        "text alone", "--language-model-only does not support [\'{architecture:w}\'].",
        "this release leaves the encoders of few classes out", (Move("option:language_model_only", "false"),),
        "server_args.py; arg_groups/model_hook.py handle_language_model_only", since="0.5.18", when=when.text_alone,
    ),
    Stop(
        "adapters and drafts", "Currently LoRA is only compatible with NGRAM speculative decoding.",
        "adapters and this drafter exclude each other",
        _ONE_OF, "server_args.py check_lora_server_args", since="0.5.6", before="0.5.19", when=when.early_adapted_drafts,
        numbers="not {method}",
    ),
    Stop(
        "adapters and drafts", "LoRA is only compatible with NGRAM, EAGLE, NEXTN, EAGLE3, DFLASH, or DSPARK speculative decoding",
        "adapters and this drafter exclude each other", _ONE_OF, "arg_groups/lora_hook.py", since="0.5.19", when=when.adapted_drafts,
        numbers="not {method}",
    ),
    Stop(
        "expert ranks", "assert self.cpu_group is not None", "expert groups are parts of tp, and some ranks would be in none",
        (Move("ep", "a size that divides tp"),), "distributed/parallel_state.py GroupCoordinator", since="0.4.10", when=when.expert_ranks,
        numbers="{tp} ranks in expert groups of {ep}",
    ),
    Stop(
        "decode context parallelism", "tensor_model_parallel_size ({tp}) must be divisible by decode_context_parallel_size ({dcp})",
        "ranks that share a sequence's tokens are parts of tp", (Move("dcp", "a size that divides {tp}"),),
        "distributed/parallel_state.py initialize_model_parallel", since="0.5.15", when=when.context_ranks,
    ),
    Stop(
        "decode context parallelism", "ZeroDivisionError: integer division or modulo by zero",
        "KV heads are split over the ranks of an attention group, and more of them share a sequence than it has",
        (Move("dcp", "the size of an attention group, or a part of it"),), "configs/model_config.py get_num_kv_heads", since="0.5.15",
        near=("get_num_kv_heads",), when=when.context_over_groups, numbers="dcp {dcp}, attention groups of {group} ranks",
    ),
    Stop(
        "longer than the model",
        "User-specified context_length ({length}) is greater than the derived context_length ({most}).",
        "the model was made for {most} tokens and {length} were asked for",
        (Move("max_model_len", "at most {most}"), Move("option:allow_overwrite_longer_context_len", "true, where its RoPE stretches")),
        "configs/model_config.py _derive_context_length", when=when.longer,
        tail=" This may lead to incorrect model outputs or CUDA errors. To allow overriding this maximum, set "
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
    ),
    Stop(
        "longer than the drafter", "Target model's context_length ({length}) is greater than the derived context_length ({most}).",
        "the drafter was made for {most} tokens and {length} were asked for",
        (Move("max_model_len", "at most {most}"), Move("option:allow_overwrite_longer_context_len", "true, where its RoPE stretches")),
        "configs/model_config.py _derive_context_length", since="0.5.1", when=when.longer_than_drafter,
        tail=" This may lead to incorrect model outputs or CUDA errors.",
    ),
    Stop(
        "longer than the drafter", "User-specified context_length ({length}) is greater than the derived context_length ({most}).",
        "the drafter was made for {most} tokens and {length} were asked for", (Move("max_model_len", "at most {most}"),),
        "configs/model_config.py ModelConfig.__init__", before="0.5.1", when=when.longer_than_drafter,
        tail=" This may lead to incorrect model outputs or CUDA errors.",
    ),
    *BUFFERS,
    *INKLING,
    Stop(
        "expert parallelism",
        "moe_intermediate_size {width} must be divisible by moe_tp_size ({moe_tp}) which is tp_size ({tp}) divided by",
        "the experts' width of {width} can not be dealt out evenly to {moe_tp} ranks", (_EP, _TP),
        "model_executor/model_runner.py check_quantized_moe_compatibility", since="0.5.6", when=when.experts_width, loading=True,
    ),
    Stop(
        "FP8 experts and tp",
        "For quantized MoE models, please make sure (moe_intermediate_size={width} / moe_tp_size={moe_tp}) % weight_block_size_n={block} "
        "== 0",
        "{width} / {moe_tp} is no whole number of the {block}-wide blocks that FP8 scales are for", (_EP, _FEWER, _OTHER_FORMAT),
        "model_executor/model_runner.py check_quantized_moe_compatibility", since="0.5.6", when=when.experts_blocks,
        loading=True, tail=" where moe_tp_size is equal to tp_size ({tp}) divided by ep_size ({ep}).",
    ),
    Stop(
        "too old a GPU", "SGLang only supports sm75 and above.", "its kernels are built for compute capability 7.5 and later",
        (_OTHER_GPU,), "model_executor/model_runner.py load_model", when=when.too_old, loading=True, numbers="this GPU has {has}",
    ),
    Stop("quantisation and GPU", _METHOD, _NEEDS, (_OTHER_FORMAT, _OTHER_GPU), _LOADER, since="0.4.3", when=when.capability, loading=True),
    Stop(
        "quantisation and GPU", _METHOD, _NEEDS, (_OTHER_FORMAT, _OTHER_GPU), _LOADER, since="0.4.6", before="0.5.15",
        when=when.fp4_before, loading=True,
    ),
    Stop("quantisation and GPU", _METHOD, _NEEDS, (_OTHER_FORMAT, _OTHER_GPU), _LOADER, since="0.5.15", when=when.fp4_after, loading=True),
    Stop(
        "EPLB", "assert self.ep_size > 1", "experts are dealt out anew among ranks that hold them whole",
        (Move("ep", "expert parallelism"), Move("option:enable_eplb", "false")), "server_args.py _handle_eplb_and_dispatch", since="0.4.10",
        when=when.unshared_experts,
    ),
    Stop(
        "copies of experts", "assert num_physical_experts % ep_size == 0", "every rank must hold as many experts, copies among them",
        (Move("option:ep_num_redundant_experts", "such that experts and copies are a multiple of the ranks"),),
        "eplb/expert_location.py _init_common", since="0.4.7", when=when.uneven_experts, loading=True,
        numbers="{experts} experts over {ep} ranks",
    ),
    Stop(
        "attention heads", "assert self.total_num_heads % tp_size == 0", "the model's heads can not be dealt out evenly to so many ranks",
        (_TP, _STAGES), _MODELS, when=when.heads, numbers="{heads} query heads over {tp} attention ranks",
    ),
    Stop(
        "KV heads", "assert self.total_num_kv_heads % tp_size == 0", "the model's KV heads can not be dealt out evenly to so many ranks",
        (_TP, _STAGES), _MODELS, when=when.kv_dealt, loading=True, numbers="{kv_heads} KV heads over {tp} attention ranks",
    ),
    Stop(
        "KV heads", "assert tp_size % self.total_num_kv_heads == 0", "the model's KV heads can not be copied evenly to so many ranks",
        (_TP, _STAGES), _MODELS, when=when.kv_copied, loading=True, numbers="{kv_heads} KV heads over {tp} attention ranks",
    ),
    *RANKS,
    Stop(
        "FP8 blocks and tp", "Weight output_partition_size = {side} is not divisible by weight quantization block_n = {block}.",
        _CUT, (_FEWER, _OTHER_FORMAT), f"{_FP8} create_weights", since="0.4.3", when=when.block_out, loading=True,
    ),
    Stop(
        "FP8 blocks and tp", "Weight input_size_per_partition = {side} is not divisible by weight quantization block_k = {block}.",
        _CUT, (_FEWER, _OTHER_FORMAT), f"{_FP8} create_weights", since="0.4.3", when=when.block_in, loading=True,
    ),
    Stop(
        "FP8 experts and tp",
        "The output_size of gate's and up's weight = {side} is not divisible by weight quantization block_n = {block}.",
        _CUT, (_EP, _FEWER, _OTHER_FORMAT), f"{_FP8} Fp8MoEMethod.create_weights", since="0.4.3", before="0.5.6",
        when=when.early_experts_blocks, loading=True,
    ),
    Stop(
        "quantised groups and tp",
        "The input size is not aligned with the quantized weight shape. This can be caused by too large tensor parallel size.",
        "a rank's part of a matrix is no whole number of the checkpoint's groups", (_FEWER, _OTHER_FORMAT),
        "layers/quantization/awq.py, gptq.py create_weights", since="0.4.6", when=when.groups, loading=True,
        numbers="{inputs} inputs a rank in groups of {group}",
    ),
    Stop(
        "GLM's rotary width", "param.shape=torch.Size([{rows}, {hidden}])",
        "the transformers of this release takes head_dim for the width of the rotary part, and the weights are of another",
        (_NEWER,), "sglang issue 28826; transformers models/glm_moe_dsa, GlmMoeDsaConfig.attribute_map", since="0.5.11", before="0.5.13",
        near=("fused_weight", "Glm"), when=when.rope_by_head_dim, loading=True, numbers="head_dim {rope} is read as qk_rope_head_dim",
    ),
    Stop(
        "attention backend", "No module named 'torch_npu'", "the pools of Ascend's backend are for its own processors", (_ANY_BACKEND,),
        "hardware_backend/npu/memory_pool_npu.py", since="0.5.7", before="0.5.12", when=backend.ascend_pools, numbers="this is {device}",
    ),
    Stop(
        "attention backend", "No module named 'torch_npu'", "Ascend's kernels are for its own processors", (_ANY_BACKEND,),
        "layers/attention/ascend_backend.py; hardware_backend/npu/attention/ascend_backend.py", since="0.4.8", when=backend.ascend_alone,
        loading=True, numbers="this is {device}",
    ),
    Stop(
        "FlashAttention 3 and GPU", "FlashAttention v3 Backend requires SM>=80 and SM<=90.",
        "FlashAttention 3 is for Hopper, and for 8.x without latent attention",
        (Move("option:attention_backend", "none, flashinfer or triton"), _OTHER_GPU),
        "layers/attention/attention_registry.py", since="0.4.6", when=when.flash3, loading=True, numbers="this GPU has {has}",
    ),
)  # fmt: skip
