"""What SGLang's own command line and its checks of settings against one another refuse, by release, in its own words (see refusals.py).

Read from `server_args.py` and `arg_groups/*` of sglang 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from kvplan.engines.common.stops import Move, Stop
from kvplan.engines.sglang import backend_conditions as backend
from kvplan.engines.sglang import config_conditions as configs
from kvplan.engines.sglang import expert_conditions as experts
from kvplan.engines.sglang import word_conditions as when

_ARGS, _VERIFY = "server_args.py", "configs/model_config.py _verify_quantization"
_NEWER = Move("engine_version", "a newer release")
_ANY_BACKEND = Move("option:attention_backend", "none, or triton")
_WINDOWS = (Move("option:disable_hybrid_swa_memory", "false"),)
_DETERMINISTIC = (_ANY_BACKEND, Move("option:enable_deterministic_inference", "false"))
_HELD = Move("option:deepep_v2_num_max_dispatch_tokens_per_rank", "as many as are required")
_V2 = "arg_groups/moe_hook.py validate_deepep_v2_dispatch_token_budget"
_CHAIN = (Move("option:speculative_num_draft_tokens", "the steps and one"),)
_V4 = "arg_groups/deepseek_v4_hook.py apply_deepseek_v4_defaults"
_CUTEDSL = "arg_groups/overrides.py _cutedsl_prefill_backend_fill"
_DSA_DCP = "arg_groups/model_overrides/deepseek_v2.py"
_TWO_BATCHES = (Move("option:enable_two_batch_overlap", "false"), Move("option:moe_a2a_backend", "deepep"))

WORDS: tuple[Stop, ...] = (
    Stop(
        "cache format", "argument --kv-cache-dtype: invalid choice: '{format:w}'", "this release does not know that format",
        (Move("kv_dtype", "auto or fp8_e4m3"), _NEWER), _ARGS, when=when.no_format,
    ),
    Stop(
        "cache format", "--kv-cache-dtype=fp4_e2m1 is deprecated. Use --kv-cache-dtype=fp4_mx_block16.",
        "the format goes by another name since 0.5.16", (Move("kv_dtype", "fp4_mx_block16"),),
        "mem_cache/kv_cache_dtype.py; layers/quantization/fp4_kv_cache_quant_method.py", since="0.5.16", before="0.5.21",
        when=when.old_format,
    ),
    Stop(
        "cache format", "argument --kv-cache-dtype: invalid choice: 'fp4_e2m1'", "the format goes by another name since 0.5.16",
        (Move("kv_dtype", "fp4_mx_block16"),), "arg_groups/fields/model.py", since="0.5.21", when=when.old_format,
    ),
    Stop(
        "cache format", "TensorRT-LLM MLA backend only supports kv-cache-dtype of", "that backend knows 16-bit rows as bf16, not bfloat16",
        (Move("kv_dtype", "bf16 or auto"),), "server_args.py; arg_groups/overrides.py _mla_kv_cache_dtype_checks", since="0.5.4",
        when=when.latent_word,
    ),
    Stop(
        "lazy buffers", "argument --mamba-scheduler-strategy: invalid choice: 'extra_buffer_lazy'",
        "this release takes auto, no_buffer and extra_buffer", (Move("option:mamba_radix_cache_strategy", "extra_buffer"), _NEWER), _ARGS,
        before="0.5.13", when=when.lazy_buffers,
    ),
    Stop(
        "attention backend", "FA4 backend is only supported for prefill.", "this release decodes with other backends",
        (_ANY_BACKEND, _NEWER),
        _ARGS, since="0.5.4", before="0.5.8", when=when.decodes_with_fa4,
    ),
    Stop(
        "attention backend", "Invalid attention backend for MLA: {backend:w}", "it has no latent attention", (_ANY_BACKEND,),
        "model_executor/model_runner.py", since="0.4.6", before="0.5.5", when=backend.not_latent,
    ),
    Stop(
        "attention backend", "CuteDSL MLA backend is only supported on Blackwell GPUs (SM100). Please use a different backend.",
        "its kernels are for compute capability 10.x", (_ANY_BACKEND,), _CUTEDSL, since="0.5.13", when=backend.cutedsl_blackwell,
        numbers="this GPU has {has}",
    ),
    Stop(
        "attention backend", "CuteDSL MLA only supports decoding for now", "prompts want another backend",
        (Move("option:prefill_attention_backend", "trtllm_mla, or none"),), _CUTEDSL, since="0.5.13", when=backend.cutedsl_prompts,
    ),
    Stop(
        "cache format", "CuteDSL MLA backend only supports kv-cache-dtype of fp8_e4m3, bf16, or auto.", "it reads no other rows",
        (Move("kv_dtype", "fp8_e4m3 or auto"), _ANY_BACKEND), _CUTEDSL, since="0.5.13", when=backend.cutedsl_format,
    ),
    Stop(
        "cache format", "tokenspeed_mla backend requires kv-cache-dtype=fp8_e4m3", "it reads no other rows",
        (Move("kv_dtype", "fp8_e4m3"), _ANY_BACKEND), "server_args.py; arg_groups/overrides.py", since="0.5.11", before="0.5.23",
        when=backend.tokenspeed_format,
    ),
    Stop(
        "attention backend", "fa3 is required for Llama4 model", "no other backend reads chunks in this release",
        (Move("option:attention_backend", "fa3"), _NEWER), "server_args.py check_server_args", since="0.4.10", before="0.5.1",
        when=backend.not_fa3,
    ),
    Stop(
        "compressed caches", "AttributeError: 'ModelRunner' object has no attribute 'swa_max_total_num_tokens'",
        "its pools are made around the window pool that was turned off", _WINDOWS, "model_executor/model_runner_kv_cache_mixin.py",
        since="0.5.12", before="0.5.13", when=when.compressed_whole,
    ),
    Stop(
        "compressed caches", "TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'",
        "its pools are made around the window pool that was turned off", _WINDOWS, "mem_cache/deepseek_v4_memory_pool.py",
        since="0.5.13", near=("deepseek_v4_memory_pool",), when=when.compressed_whole,
    ),
    Stop(
        "rows in host memory", "--enable-hisparse is only supported for DSA (DeepSeek Sparse Attention) models",
        "other models have no sparse attention that would read them", (Move("option:enable_hisparse", "false"),),
        "server_args.py; arg_groups/hisparse_hook.py validate_hisparse", since="0.5.10",
        when=when.sparse_host, numbers="not {architecture}",
    ),
    Stop(
        "norms over ranks", "--enable-layernorm-sp is only supported for ['MuseSparkForConditionalGeneration', 'Qwen3ForCausalLM']",
        "other classes keep the sequence whole", (Move("option:enable_layernorm_sp", "false"),), "arg_groups/layernorm_sp_hook.py",
        since="0.5.20", when=when.norms_over_ranks, numbers="not {architecture}",
    ),
    Stop(
        "quantisation", "Quantization method specified in the model config", "such weights are not loaded by another method",
        (Move("option:quantization", "none: the checkpoint says its own"),), _VERIFY, since="0.4.3",
        when=configs.another_method, numbers="{stored} is not {method}",
        tail=" does not match the quantization method specified in the `quantization` argument",
    ),
    Stop(
        "runner of experts", "The expert parallel size must be 1 or the same as the tensor parallel size",
        "these kernels take experts whole on every rank of tp, or dealt out over all of them",
        (Move("ep", "1, or tp"), Move("option:moe_runner_backend", "auto")), "server_args.py; arg_groups/moe_hook.py", since="0.5.0",
        when=when.cutlass_experts, numbers="ep {ep}, tp {tp}",
    ),
    Stop(
        "runner of experts", "... quantization is required for Flashinfer TRTLLM MoE", "these kernels are for FP8 and NVFP4",
        (Move("option:moe_runner_backend", "auto"), _NEWER), _ARGS, since="0.5.2", before="0.5.7", when=when.plain_experts,
        numbers="not {stored}",
    ),
    Stop(
        "runner of experts", "FlashInfer CuteDSL MOE currently supports only", "these kernels are for NVFP4",
        (Move("option:moe_runner_backend", "auto"),), "server_args.py; arg_groups/moe_hook.py", since="0.5.11", when=when.fp4_experts,
        numbers="not {stored}",
    ),
    Stop(
        "quantisation", "--quantization nvfp4_online is supported only on NVIDIA Blackwell SM100/SM103 GPUs.",
        "weights are made FP4 by kernels for compute capability 10.x", (Move("option:quantization", "none, or fp8"),),
        "arg_groups/overrides.py _moe_runner_backend_quant_constraints", since="0.5.14", when=when.online_fp4,
    ),
    Stop(
        "index keys in FP4", "--enable-deepseek-v4-fp4-indexer requires SM100", "its kernels are for compute capability 10 and 12",
        (Move("option:enable_deepseek_v4_fp4_indexer", "false"),), "server_args.py; arg_groups/serving_hook.py", since="0.5.13",
        when=when.fp4_index,
    ),
    Stop(
        "states and prefixes", "--mamba-radix-cache-strategy ... needs mamba state, got {architecture:w}.", "it keeps no states",
        (Move("option:mamba_radix_cache_strategy", "auto"),), "arg_groups/model_hook.py handle_mamba_radix_cache", since="0.5.21",
        when=when.buffers_without_states,
    ),
    Stop(
        "quantisation", "Unknown quantization method: . Must be one of", "the checkpoint names its algorithm and no method",
        (_NEWER, Move("option:quantization", "its method")), _VERIFY, since="0.4.3", before="0.5.9", when=configs.unnamed_method,
    ),
    Stop(
        "quantisation", "Unknown quantization method: fbgemm_fp8.", "this release does not load such checkpoints any more",
        (Move("weight_dtype", "another checkpoint"),), _VERIFY, since="0.5.16", when=configs.gone_method,
    ),
    Stop(
        "Nemotron-H's config", "AttributeError: 'ServerArgs' object has no attribute 'model_config'",
        "this release looks into a config that it reads only where no fraction is given",
        (Move("memory_fraction", "none: the release picks one"), _NEWER), _ARGS, since="0.5.6", before="0.5.7",
        when=configs.unread_config,
    ),
    Stop(
        "text model inside", "Unsupported architecture: {text:w}", "its config class takes other text models", (_NEWER,),
        "configs/internvl.py InternVLChatConfig", since="0.4.6", when=configs.text_class,
    ),
    Stop(
        "quantisation", "{method:w} quantization is currently not supported in ROCm.", "AMD GPUs load weights by other methods",
        (Move("option:quantization", "none, or fp8"),), _VERIFY, when=when.not_on_rocm,
    ),
    Stop(
        "format of states", "--linear-attn-decode-backend flashinfer on SM100+ requires --mamba-ssm-dtype bfloat16",
        "its kernels for Blackwell keep states in bf16", (Move("option:mamba_ssm_dtype", "bfloat16"),), "server_args.py", since="0.5.10",
        when=when.recurrent_format, numbers="{states}",
    ),
    Stop(
        "attention of prompt ranks", "--enable-cp-decode-attn-tp is only supported for models whose attention linears are replicated",
        "other classes split attention already", (Move("option:enable_cp_decode_attn_tp", "false"),), "layers/cp/cp_decode_attn_tp.py",
        since="0.5.17", when=when.decode_over_prompt_ranks, numbers="not {architecture}",
    ),
    Stop(
        "shared experts", "--shared-experts-tp-size is only supported for Kimi-K3.", "other classes deal them out over tp",
        (Move("option:shared_experts_tp_size", "none"),), "arg_groups/parallel_hook.py", since="0.5.21", when=when.shared_experts_ranks,
        numbers="not {architecture}",
    ),
    Stop(
        "exchange of experts", "DeepEP v2 MoE is not validated for '{architecture:w}'.", "this release runs it for other classes alone",
        (Move("option:moe_a2a_backend", "deepep, or none"),), "arg_groups/moe_hook.py; configs/moe_model_registry.py", since="0.5.19",
        when=when.second_deepep,
    ),
    Stop(
        "exchange of experts", "DeepEP v2 per-rank prefill budget exceeds SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK",
        "a step of prompts is more than its buffers hold", (_HELD, Move("max_num_batched_tokens", "smaller chunks")), _V2, since="0.5.20",
        when=when.second_deepep_prompts, numbers="required={sent}, capacity={held}",
    ),
    Stop(
        "exchange of experts", "DeepEP v2 per-rank decode CUDA graph exceeds SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK",
        "a decode graph is more than its buffers hold", (_HELD, Move("option:cuda_graph_max_bs", "smaller graphs")), _V2, since="0.5.20",
        when=when.second_deepep_graphs, numbers="required={sent}, capacity={held}",
    ),
    Stop(
        "pages of sparse attention", "assert self.page_size == 64", "index keys lie in pages of 64 tokens, and this backend has 128",
        (Move("option:attention_backend", "none"), Move("option:decode_attention_backend", "none")),
        "mem_cache/memory_pool.py NSATokenToKVPool; server_args.py", since="0.5.3", before="0.5.20", when=backend.sparse_pages,
    ),
    Stop(
        "attention backend", "{backend:w} backend does not support speculative decoding yet.", "it verifies no drafts in this release",
        (Move("option:attention_backend", "none"), Move("speculative", "off"), _NEWER), _ARGS, since="0.4.10", before="0.5.1",
        when=backend.unverified,
    ),
    Stop(
        "attention backend", "intel_xpu backend is only supported on decode for MLA models", "it reads no prompts of latent attention",
        (Move("option:attention_backend", "none"),), _ARGS, since="0.5.11", before="0.5.20", when=backend.xpu_prompts,
    ),
    Stop(
        "checks of rows", "kv-canary: no attacher registered for pool class {pool:w}",
        "only pools of K and V and DeepSeek-V4's can be checked", (Move("option:kv_canary", "none"),),
        "kv_canary/pool_patcher/api.py", since="0.5.13", when=when.unchecked_pool,
    ),
    Stop(
        "one pool", "--enable-unified-memory only supports hybrid Mamba and hybrid sliding-window-attention models",
        "there is one kind of cache alone", (Move("option:enable_unified_memory", "false"),), "mem_cache/kv_cache_configurator.py",
        since="0.5.15", when=when.one_pool, numbers="not {architecture}",
    ),
    Stop(
        "pages of all layers", "--enable-page-major-kv-layout requires the Triton attention backend for the full-attention layers",
        "other kernels want the rows of a layer side by side",
        (Move("option:attention_backend", "triton"), Move("option:enable_unified_memory", "false")),
        "server_args.py _handle_page_major_kv_layout", since="0.5.15", before="0.5.19", when=when.strided, numbers="not {backend}",
    ),
    Stop(
        "one pool", "--enable-unified-memory does not yet support decode cuda graphs with the trtllm_mha attention backend",
        "its graphs read page tables of the step before", (Move("enforce_eager", "true"), _ANY_BACKEND), "arg_groups/kv_cache_hook.py",
        since="0.5.22", before="0.5.23", when=backend.unified_graphs,
    ),
    Stop(
        "pages of all layers", "--enable-page-major-kv-layout: the resolved attention backends ... are not in the allowed set",
        "not every kernel reads a layer's rows in a buffer of all", (_ANY_BACKEND, Move("option:enable_unified_memory", "false")),
        "arg_groups/kv_cache_hook.py handle_page_major_kv_layout", since="0.5.19", when=when.strided, numbers="not {backend}",
    ),
    Stop(
        "replayed states", "--enable-linear-replayssm requires --mamba-radix-cache-strategy no_buffer",
        "states that are kept in extra buffers are not replayed",
        (Move("option:mamba_radix_cache_strategy", "no_buffer"), Move("option:enable_linear_replayssm", "false")),
        "server_args.py; arg_groups/attention_hook.py", since="0.5.16", when=when.replayed_buffers, numbers="{strategy}",
    ),
    Stop(
        "attention ranks", "tp_size must be divisible by dp_size * attn_cp_size", "ranks of a prompt are parts of an attention group",
        (Move("option:attn_cp_size", "a size that divides tp / dp"),), "server_args.py; arg_groups/parallel_hook.py", since="0.5.9",
        when=when.prompt_ranks,
    ),
    Stop(
        "requests of attention groups", "max_running_request is zero", "each attention group has its share of the requests, and it is none",
        (Move("max_num_seqs", "as many as there are groups, or more"),), "managers/tp_worker.py", before="0.5.23", when=when.no_requests,
    ),
    Stop(
        "multi-item scoring", "Multi-item scoring requires flashinfer attention backend for custom attention mask support.",
        "its masks are known to FlashInfer alone", (Move("option:attention_backend", "flashinfer"), Move("option:enable_mis", "false")),
        "server_args.py; arg_groups/attention_hook.py", since="0.5.11", when=backend.scored,
    ),
    Stop(
        "stages and drafts", "Pipeline parallelism is not compatible with overlap schedule, speculative decoding, mixed chunked prefill.",
        "a step of a stage has no decoding beside its prompts", (Move("pp", "1"), Move("option:enable_mixed_chunk", "false")),
        "server_args.py check_server_args", since="0.4.6", before="0.5.11", when=when.staged_mixtures,
    ),
    Stop(
        "stages and drafts", "PP + speculative decoding (MTP) is only supported on prefill nodes",
        "only a worker that prefills drafts over stages",
        (Move("pp", "1"), Move("speculative", "off"), Move("option:disaggregation_mode", "prefill")),
        "arg_groups/validation_hook.py check_pipeline_parallel_compat", since="0.5.21",
        when=when.staged_here,
    ),
    Stop(
        "two batches at once", "When enabling two batch overlap, moe_a2a_backend cannot be 'none'.",
        "two batches overlap where experts are spread over ranks", _TWO_BATCHES, "server_args.py check_server_args", since="0.5.7",
        before="0.5.15", when=when.batches_overlap,
    ),
    Stop(
        "two batches at once", "When enabling two batch overlap without an EP a2a backend (moe_a2a_backend='none')",
        "two batches overlap where experts are spread over ranks, or attention is data-parallel", _TWO_BATCHES,
        "server_args.py; arg_groups/validation_hook.py check_two_batch_overlap", since="0.5.15", when=when.batches_overlap_alone,
    ),
    Stop(
        "output layer of attention groups", "enable_dp_lm_head", "the output layer is dealt out like attention data parallelism",
        (Move("option:enable_dp_attention", "true"), Move("option:enable_dp_lm_head", "false")),
        "server_args.py; arg_groups/overrides.py _dp_lm_head_validation", since="0.4.6", when=when.lm_head,
        tail=" requires attention data parallelism",
    ),
    Stop(
        "attention backend",
        "One of the attention backends in ['fa3', 'triton', 'trtllm_mha'] is required for {architecture:w}, but got None",
        "this release picks none for EXAONE 4 by itself", (Move("option:attention_backend", "fa3, triton or trtllm_mha"), _NEWER), _ARGS,
        since="0.5.9", before="0.5.19", when=when.exaone_unnamed,
    ),
    Stop(
        "attention backend", "One of the attention backends in ... is required for {architecture:w}, but got {backend:w}",
        "its windows are read by other backends alone", (_ANY_BACKEND,), "server_args.py; arg_groups/model_hook.py", since="0.5.9",
        when=when.exaone_backend,
    ),
    Stop(
        "deterministic inference", "Currently only ... attention backends are supported for deterministic inference",
        "results of other backends depend on the batch", _DETERMINISTIC,
        "server_args.py; arg_groups/overrides.py _deterministic_attention_backend",
        since="0.5.3", when=when.deterministic_backend, numbers="not {backend}",
    ),
    Stop(
        "deterministic inference", "attention backends are supported for deterministic inference with",
        "latent attention is deterministic in other backends alone", _DETERMINISTIC,
        "server_args.py; arg_groups/attention_hook.py handle_deterministic_inference", since="0.5.4", when=when.deterministic_latent,
        numbers="not {backend}",
    ),
    Stop(
        "rows of compressed caches", "assert self.store_dtype == torch.uint8", "DeepSeek-V4's rows are packed, in 8 bits, and no others",
        (Move("kv_dtype", "auto or fp8_e4m3"),), "mem_cache/deepseek_v4_memory_pool.py create_buffer", since="0.5.12",
        when=when.compressed_rows,
    ),
    Stop(
        "drafts of compressed caches", "speculative algorithms are supported for {kind:w}",
        "its own modules draft under the name EAGLE: NEXTN is not read as that before this check",
        (Move("speculative", "eagle, or off"),), _V4, since="0.5.12", when=when.compressed_nextn,
    ),
    Stop(
        "tree of drafts", "Only EAGLE speculative algorithm with topk == 1 is supported for {kind:w}",
        "it verifies a chain of drafts alone", _CHAIN, f"server_args.py; {_V4}", since="0.5.12", when=when.compressed_tree,
    ),
    Stop(
        "tree of drafts", "DSA DCP requires --speculative-eagle-topk 1.", "ranks that share a sequence verify a chain of drafts alone",
        (*_CHAIN, Move("dcp", "1")), _DSA_DCP, since="0.5.22", when=when.shared_context_tree,
    ),
    Stop(
        "a tier of prefixes", "DSA DCP does not support HiSparse or HiCache.",
        "the host's tier does not know how ranks split index keys", (Move("dcp", "1"), Move("option:enable_hierarchical_cache", "false")),
        _DSA_DCP, since="0.5.22", when=when.shared_context_tier,
    ),
    Stop(
        "text alone", "Model type {architecture:w} is not supported for encoder disaggregation",
        "encoders of few classes are served apart", (Move("option:language_only", "false"), Move("option:encoder_only", "false")),
        "server_args.py; arg_groups/pd_disaggregation_hook.py", since="0.5.10", when=when.encoded_apart,
    ),
    Stop(
        "servers of one role", "Prefill round robin balance is required when dp size > 1.",
        "a server that only decodes wants to know that prompts come to its groups in turn",
        (Move("option:prefill_round_robin_balance", "true"), Move("dp", "1")), _ARGS, since="0.5.2", before="0.5.8",
        when=when.unbalanced_groups, numbers="dp {dp}",
    ),
    Stop(
        "groups of experts", "ep_size * moe_dp_size must be", "groups of ranks with all experts are parts of tp",
        (Move("option:moe_dp_size", "such that it and ep make tp"),), "server_args.py; arg_groups/parallel_hook.py", since="0.5.9",
        when=experts.expert_groups, numbers="tp {tp}, ep {ep}, {groups} groups", tail=" equal to tp_size",
    ),
    Stop(
        "runner of experts", "Cutlass MoE is only supported with ep_size == 1", "these kernels take FP8 experts on one rank alone",
        (Move("ep", "1"), Move("option:moe_runner_backend", "auto")), "server_args.py; arg_groups/moe_hook.py", since="0.5.5",
        when=experts.cutlass_fp8, numbers="ep {ep}, {method}",
    ),
    Stop(
        "runner of experts", "Triton kernel MoE is only supported when ep_size == 1", "these kernels do not know experts on other ranks",
        (Move("ep", "1"), Move("option:moe_runner_backend", "auto")), "server_args.py; arg_groups/model_hook.py", since="0.5.1",
        when=experts.triton_kernels, numbers="ep {ep}",
    ),
    Stop(
        "runner of experts", "Invalid quantization '{method:w}'.", "on 10.x the checkpoint says its method, and this runner has others",
        (Move("option:moe_runner_backend", "auto"),), "server_args.py; arg_groups/moe_hook.py", since="0.5.6", when=experts.other_method,
        numbers="{runner}",
    ),
    Stop(
        "cache format", "--kv-cache-dtype=nvfp4 requires Blackwell SM100 or SM120.", "its kernels are for compute capability 10 and 12",
        (Move("kv_dtype", "fp8 or auto"),), "server_args.py; arg_groups/kv_cache_hook.py", since="0.5.16", when=backend.nvfp4_gpu,
        numbers="this GPU has {has}",
    ),
    Stop(
        "backend of an fp4 cache", "NVFP4 prefill supports an FP8 E4M3 workspace or native NVFP4",
        "FlashInfer unpacks it for prompts, TensorRT-LLM's attention reads it, on 10.x for prompts too",
        (Move("option:attention_backend", "none"), Move("kv_dtype", "fp8 or auto")), "arg_groups/kv_cache_hook.py", since="0.5.21",
        when=backend.nvfp4_backends, numbers="prompts {backend}, decoding {decode}",
    ),
    Stop(
        "backend of an fp4 cache", "SM100 native NVFP4", "rows as TensorRT-LLM's kernels want them are not sent, copied or drafted for",
        (Move("kv_dtype", "fp8 or auto"), Move("option:enable_hierarchical_cache", "false")), "arg_groups/kv_cache_hook.py", since="0.5.21",
        when=backend.native_fp4, numbers="{beside}",
    ),
    Stop(
        "one pool", "FP4 KV cache does not yet support --enable-unified-memory", "the shared pool has no scales of FP4 rows",
        (Move("option:enable_unified_memory", "false"), Move("kv_dtype", "fp8 or auto")), "arg_groups/kv_cache_hook.py", since="0.5.21",
        when=backend.unified_fp4,
    ),
    Stop(
        "servers of one role", "DSA DCP does not support PD disaggregation.", "index keys that ranks split are not sent to another server",
        (Move("dcp", "1"), Move("option:disaggregation_mode", "null")), _DSA_DCP, since="0.5.22", when=when.shared_context_servers,
    ),
    Stop(
        "decode context parallelism", "--dcp-size > 1 is not supported for DSA with index_kpool={pool}",
        "an index key of {pool} tokens would be of several ranks", (Move("dcp", "1"),), _DSA_DCP, since="0.5.22",
        when=when.shared_pooled_index,
    ),
    Stop(
        "drafts and attention groups", "Currently {method:w} speculative decoding does not support dp attention.",
        "this drafter knows no attention data parallelism",
        (Move("option:enable_dp_attention", "false"), Move("speculative", "eagle, or off")),
        "server_args.py; arg_groups/speculative_hook.py", since="0.5.2", when=when.drafts_over_groups,
    ),
    Stop(
        "attention backend", "TRTLLM FMHAv2 prefill on SM120 does not support fp8_e4m3 KV cache or skip-softmax.",
        "its prefill kernel for compute capability 12 reads 16-bit rows", (_ANY_BACKEND, Move("kv_dtype", "auto")),
        "arg_groups/attention_hook.py", since="0.5.19", when=when.fp8_prefill,
    ),
)  # fmt: skip
