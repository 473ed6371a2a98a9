"""Keys of the JSON objects that vLLM's options take, and what some of them may be, by release.

Fields of the dataclasses in config/*.py of 29 wheels, 0.9.1 to 0.33.0, without those that only the engine sets (`init=False`), and the
members of their Literals; connectors are those that the factories register. A key that a class has not is dropped in silence up to 0.15
and stops the engine from 0.16 on (config/utils.py `extra="forbid"`); of compilation from 0.13 on (config/compilation.py).
"""

from __future__ import annotations

from kvplan.engines.common.arguments import Config, Times

_SINCE_0_16 = ("", "0.16")

_IR_OPS = Config({("", ""): "rms_norm", ("0.20.2", ""): "fused_add_rms_norm", ("0.29.0", ""): "gelu_and_mul_sparse"}, _SINCE_0_16)

#: Kinds of a cache's layers (v1/kv_cache_interface.py KVCacheSpecKind).
KINDS = """chunked_local_attention cross_attention encoder_only_attention full_attention mamba mla_attention sink_full_attention
    sliding_window sliding_window_mla unknown"""

LOADS = """device download_dir ignore_patterns load_format model_loader_extra_config pt_load_map_location safetensors_load_strategy
    use_tqdm_on_load"""
HISTOGRAMS = """inter_token_latency iteration_tokens kv_cache_residency request_latency request_num_preemptions request_params_n
    request_tokens time_to_first_token"""

#: Objects of any keys (dict fields of config/model.py, multimodal.py, vllm.py).
FREE = (
    "--additional-config", "--default-mm-loras", "--hf-overrides", "--limit-mm-per-prompt", "--media-io-kwargs", "--mm-processor-kwargs",
    "--model-class-overrides", "--override-generation-config", "--override-pooler-config", "--rope-scaling",
)  # fmt: skip

OBJECTS: dict[str, Config] = {
    "--aux-output-config": Config({("", ""): "enable_return_routed_experts max_bytes"}, _SINCE_0_16),
    "--diffusion-config": Config({("", ""): "canvas_length max_denoising_steps"}, _SINCE_0_16),
    "--ec-manager-config": Config({("", ""): "encoder_cache_manager_cls", ("0.27.1", ""): "manager_config"}, _SINCE_0_16),
    "--engram-config": Config(
        {("", ""): "cpu_offload dp_shared_memory embedding_across_dp", ("0.30.0", ""): "use_thp"},
        _SINCE_0_16,
    ),
    "--fault-tolerance-config": Config({("", ""): "engine_recovery_timeout_sec"}, _SINCE_0_16),
    "--logging-config": Config(
        {("", ""): "configure_logging log_level pylogging_config_file", ("0.31.0", ""): "formatter"},
        _SINCE_0_16,
    ),
    "--pooler-config": Config(
        {
            ("", ""): "pooling_type returned_token_ids step_tag_id",
            ("", "0.16.0"): "normalize softmax",
            ("0.10.0", ""): "dimensions enable_chunked_processing max_embed_len",
            ("0.10.0", "0.16.0"): "activation",
            ("0.10.1", "0.23.0"): "logit_bias",
            ("0.11.0", ""): "use_activation",
            ("0.13.0", ""): "seq_pooling_type tok_pooling_type",
            ("0.18.1", ""): "task",
            ("0.19.1", ""): "logit_mean logit_sigma",
            ("0.19.1", "0.23.0"): "logit_scale",
            ("0.31.0", ""): "enable_flash_late_interaction",
        },
        _SINCE_0_16,
    ),
    "--quantization-config": Config({("", ""): "ignore linear moe", ("0.29.0", ""): "targets"}, _SINCE_0_16),
    "--attention-config.backend_per_kind": Config({("", ""): KINDS}, _SINCE_0_16),
    "--custom-histogram-buckets": Config({("", ""): HISTOGRAMS}),
    "--reasoning-effort-map": Config({("", ""): "none minimal low medium high xhigh max"}),
    "--speculative-config.draft_load_config": Config(
        {("", ""): LOADS, ("0.20.2", ""): "safetensors_prefetch_block_size safetensors_prefetch_num_threads"}, _SINCE_0_16
    ),
    "--reasoning-config": Config(
        {("", ""): "reasoning_end_str reasoning_start_str", ("0.19.1", ""): "reasoning_parser"},
        _SINCE_0_16,
    ),
    "--watchdog-config": Config({("", ""): "check_interval dump_dir timeout"}, _SINCE_0_16),
    "--watermark-config": Config(
        {
            ("", ""): (
                "algorithm allow_target_only_watermarking alpha context_width deduplicate_contexts deduplicate_contexts_max_history key prf"
            ),
        },
        _SINCE_0_16,
    ),
    "--weight-transfer-config": Config({("", ""): "backend"}, _SINCE_0_16),
    **{option: Config({("", ""): "*"}) for option in FREE},
    "--attention-config": Config(
        {
            ("", ""): (
                "backend disable_flashinfer_q_quantization flash_attn_max_num_splits_for_cuda_graph flash_attn_version use_trtllm_attention"
            ),
            ("", "0.22.1"): "disable_flashinfer_prefill use_cudnn_prefill use_trtllm_ragged_deepseek_prefill",
            ("", "0.29.0"): "use_prefill_decode_attention",
            ("0.16.0", ""): "use_prefill_query_quantization",
            ("0.19.1", ""): "tq_max_kv_splits_for_cuda_graph",
            ("0.19.1", "0.30.0"): "use_fp4_indexer_cache",
            ("0.20.2", ""): "mla_prefill_backend use_non_causal",
            ("0.21.0", ""): "flex_attn_block_m flex_attn_block_n flex_attn_kv_block_size flex_attn_q_block_size",
            ("0.23.0", ""): "indexer_kv_dtype",
            ("0.25.1", ""): "backend_per_kind sparse_mla_force_mqa",
            ("0.26.0", ""): "minimax_m3_msa_decode_backend",
            ("0.29.0", ""): "hisparse_config",
            ("0.30.0", ""): "indexer_sparse_logits",
            ("0.31.0", ""): "sparse_mla_prefill_workspace_factor tokenspeed_mla_min_split_kv",
            ("0.32.0", ""): "indexer_tp_shard_min_rows minimax_m3_indexer_cp trtllm_ragged_backend",
        },
        _SINCE_0_16,
    ),
    "--compilation-config": Config(
        {
            ("", ""): (
                "backend cache_dir compile_sizes cudagraph_capture_sizes cudagraph_copy_inputs cudagraph_num_of_warmups custom_ops "
                "debug_dump_path inductor_compile_config inductor_passes pass_config splitting_ops"
            ),
            ("", "0.11.1"): "full_cuda_graph use_cudagraph",
            ("", "0.12.0"): "use_inductor",
            ("", "0.18.0"): "level",
            ("0.10.0", ""): "cudagraph_mode",
            ("0.10.2", ""): "use_inductor_graph_partition",
            ("0.11.0", ""): "compile_cache_save_format compile_mm_encoder cudagraph_specialize_lora max_cudagraph_capture_size mode",
            ("0.11.2", ""): "dynamic_shapes_config",
            ("0.12.0", "0.18.0"): "compile_ranges_split_points",
            ("0.15.0", ""): "fast_moe_cold_start",
            ("0.17.1", ""): "compile_ranges_endpoints",
            ("0.18.1", ""): "cudagraph_mm_encoder encoder_cudagraph_token_budgets",
            ("0.18.1", "0.20.0"): "encoder_cudagraph_max_images_per_batch",
            ("0.19.1", ""): "encoder_cudagraph_max_frames_per_batch encoder_cudagraph_max_vision_items_per_batch ir_enable_torch_wrap",
            ("0.31.0", ""): "cudagraph_decoder_replay decoder_replay_cudagraph_capture_sizes decoder_replay_trim_threshold",
        },
        ("0.8", "0.13"),
        alone="0.9.2",  # config.py CompilationConfig.from_cli takes a level before
    ),
    "--compilation-config.pass_config": Config(
        {
            ("", "0.10.0"): "dump_graph_dir dump_graph_stages",
            ("", "0.13.0"): "enable_async_tp enable_fusion enable_noop enable_sequence_parallelism",
            ("0.9.1", "0.13.0"): "enable_attn_fusion",
            ("0.9.2", "0.11.1"): "fi_allreduce_fusion_max_token_num",
            ("0.9.2", "0.13.0"): "enable_fi_allreduce_fusion",
            ("0.11.0", ""): "enable_qk_norm_rope_fusion fi_allreduce_fusion_max_size_mb",
            ("0.11.2", ""): "eliminate_noops fuse_act_quant fuse_allreduce_rms fuse_attn_quant fuse_norm_quant",
            ("0.11.2", "0.32.0"): "enable_sp fuse_gemm_comms",
            ("0.15.0", ""): "fuse_act_padding",
            ("0.16.0", ""): "fuse_rope_kvcache rope_kvcache_fusion_max_token_num",
            ("0.16.0", "0.32.0"): "sp_min_token_num",
            ("0.18.1", "0.24.0"): "fuse_minimax_qk_norm",
            ("0.19.1", ""): "fuse_mla_dual_rms_norm",
            ("0.21.0", ""): "fuse_rope_kvcache_cat_mla",
            ("0.25.1", ""): "fuse_qk_norm_rope_kvcache",
        },
        ("0.8", "0.13"),
    ),
    "--ec-transfer-config": Config(
        {
            ("", ""): (
                "ec_buffer_device ec_buffer_size ec_connector ec_connector_extra_config ec_connector_module_path ec_ip ec_port ec_role "
                "engine_id"
            ),
            ("", "0.32.0"): "ec_parallel_size ec_rank",
        },
        _SINCE_0_16,
    ),
    "--eplb-config": Config(
        {
            ("", ""): "log_balancedness num_redundant_experts step_interval window_size",
            ("0.11.2", ""): "use_async",
            ("0.12.0", ""): "policy",
            ("0.13.0", ""): "log_balancedness_interval",
            ("0.19.1", ""): "communicator",
            ("0.31.0", ""): "enable_migration_batching",
        },
        _SINCE_0_16,
    ),
    "--kernel-config": Config(
        {
            ("", ""): "enable_flashinfer_autotune",
            ("0.16.0", ""): "moe_backend",
            ("0.19.1", ""): "ir_op_priority",
            ("0.21.0", ""): "linear_backend",
            ("0.24.0", ""): "enable_cutedsl_warmup",
            ("0.25.1", "0.30.0"): "enable_bf16x3_router_gemm",
            ("0.26.0", ""): "enable_jit_warmup",
            ("0.29.0", ""): "linear_backend_per_quant sparse_indexer_topk_backend",
            ("0.31.0", ""): "enable_rocm_segmented_attn_autotune",
            ("0.32.0", ""): "monokernel",
        },
        _SINCE_0_16,
    ),
    "--ir-op-priority": _IR_OPS,
    "--kernel-config.ir_op_priority": _IR_OPS,
    "--compilation-config.dynamic_shapes_config": Config(
        {("", ""): "type", ("0.12.0", ""): "evaluate_guards", ("0.13.0", ""): "assume_32_bit_indexing"}, _SINCE_0_16
    ),
    "--kv-events-config": Config(
        {
            ("", ""): "buffer_steps enable_kv_cache_events endpoint hwm max_queue_size publisher replay_endpoint topic",
        },
        _SINCE_0_16,
    ),
    "--kv-transfer-config": Config(
        {
            ("", ""): "engine_id kv_buffer_device kv_connector kv_connector_extra_config kv_connector_module_path kv_port kv_role",
            ("", "0.32.0"): "kv_buffer_size kv_ip kv_parallel_size kv_rank",
            ("0.11.0", ""): "enable_permute_local_kv",
            ("0.12.0", ""): "kv_load_failure_policy",
        },
        _SINCE_0_16,
    ),
    "--profiler-config": Config(
        {
            ("", ""): (
                "delay_iterations ignore_frontend max_iterations profiler torch_profiler_dir torch_profiler_dump_cuda_time_total "
                "torch_profiler_record_shapes torch_profiler_use_gzip torch_profiler_with_flops torch_profiler_with_memory "
                "torch_profiler_with_stack"
            ),
            ("0.17.1", ""): "active_iterations wait_iterations warmup_iterations",
            ("0.25.1", ""): "capture_torch_profiler detailed_trace_annotation",
            ("0.27.0", ""): "proton_backend proton_context proton_data proton_hook proton_mode proton_output_format proton_profiler_dir",
            ("0.29.0", ""): "proton_graph_attribution",
            ("0.30.0", ""): "torch_profiler_activities",
        },
        _SINCE_0_16,
    ),
    "--speculative-config": Config(
        {
            ("", ""): (
                "code_revision draft_model_config draft_parallel_config draft_tensor_parallel_size max_model_len method model "
                "num_speculative_tokens prompt_lookup_max prompt_lookup_min quantization revision target_model_config "
                "target_parallel_config"
            ),
            ("", "0.10.0"): "acceptance_method disable_mqa_scorer posterior_alpha posterior_threshold",
            ("", "0.11.1"): "disable_log_stats disable_logprobs enable_chunked_prefill",
            ("", "0.17.1"): "disable_by_batch_size",
            ("", "0.21.0"): "speculative_token_tree",
            ("0.10.2", ""): "disable_padded_drafter_batch enforce_eager",
            ("0.11.0", ""): (
                "suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor suffix_decoding_max_tree_depth "
                "suffix_decoding_min_token_prob"
            ),
            ("0.14.1", ""): "tensor_parallel_size",
            ("0.15.0", ""): "parallel_drafting",
            ("0.16.0", ""): "draft_load_config use_local_argmax_reduction",
            ("0.17.1", ""): "rejection_sample_method",
            ("0.18.1", ""): "moe_backend",
            ("0.18.1", "0.20.0"): "synthetic_acceptance_rate",
            ("0.19.1", ""): "synthetic_acceptance_length synthetic_acceptance_rates",
            ("0.20.2", ""): "attention_backend draft_sample_method",
            ("0.23.0", ""): "num_speculative_tokens_per_batch_size",
            ("0.24.0", ""): "use_heterogeneous_vocab",
            ("0.25.1", ""): "kv_cache_dtype",
            ("0.27.0", ""): "dspark_draft_topk enable_adaptive_verification",
            ("0.28.0", ""): "index_share_for_mtp_iteration",
            ("0.29.0", ""): "disable_eagle_block_drop",
            ("0.32.0", ""): (
                "disable_lookahead_block_hashes draft_lm_head_quantization fly_entropy_threshold fly_entropy_top_k fly_window_size "
                "xpress_topc"
            ),
        },
        ("0.9.1", "0.16"),
        "0.26",
    ),
    "--structured-outputs-config": Config(
        {
            ("", ""): "backend disable_additional_properties disable_any_whitespace reasoning_parser",
            ("", "0.18.0"): "disable_fallback",
            ("0.11.0", ""): "enable_in_reasoning reasoning_parser_plugin",
        },
        _SINCE_0_16,
    ),
}

#: Connectors of --kv-transfer-config that a release brings; others need their kv_connector_module_path.
CONNECTORS: Times = {
    ("", ""): "LMCacheConnectorV1 MultiConnector NixlConnector",
    ("", "0.10.2"): "LMCacheConnector PyNcclConnector",
    ("", "0.13.0"): "SharedStorageConnector",
    ("0.9.1", "0.24.0"): "P2pNcclConnector",
    ("0.10.2", ""): "OffloadingConnector",
    ("0.11.0", ""): "DecodeBenchConnector LMCacheMPConnector",
    ("0.12.0", ""): "ExampleConnector MooncakeConnector",
    ("0.13.0", ""): "MoRIIOConnector",
    ("0.16.0", ""): "ExampleHiddenStatesConnector",
    ("0.17.1", ""): "FlexKVConnectorV1",
    ("0.18.1", ""): "SimpleCPUOffloadConnector",
    ("0.19.1", ""): "HF3FSKVConnector",
    ("0.23.0", ""): "NixlPullConnector NixlPushConnector",
    ("0.20.2", ""): "MooncakeStoreConnector",
    ("0.29.0", ""): "HiSparseConnector",
}

_PREFILL = "FLASHINFER FLASH_ATTN TOKENSPEED_MLA TRTLLM_RAGGED"
_MODES = "NONE STOCK_TORCH_COMPILE DYNAMO_TRACE_ONCE VLLM_COMPILE"

_ONLINE: Times = {
    ("", ""): (
        "None fp8_per_block fp8_per_block_dynamic fp8_per_block_static fp8_per_tensor fp8_per_tensor_dynamic fp8_per_tensor_static "
        "fp8_per_token int8_per_channel_static mxfp4 mxfp8"
    ),
    ("0.22.1", ""): "fp8_per_channel fp8_per_channel_static",
    ("0.25.1", ""): "nvfp4_per_token",
    ("0.30.0", ""): "int4_per_group_32 int8_per_group_32",
}

#: What is no free text among them: `option.key` -> values.
VALUES: dict[str, Times] = {
    "--attention-config.flash_attn_version": {
        ("", ""): "2 3 None",
        ("0.16.0", ""): "4",
    },
    "--ec-transfer-config.ec_role": {
        ("", ""): "None ec_consumer ec_producer",
        ("0.16.0", ""): "ec_both",
    },
    "--attention-config.mla_prefill_backend": {
        ("", ""): f"{_PREFILL} {_PREFILL.lower()}",
        ("0.22.1", ""): "CUSTOM custom",
        ("0.24.0", ""): "ROCM_AITER_FA rocm_aiter_fa",
        ("0.28.0", ""): "CPU cpu",
        ("0.30.0", ""): "ZEN_CPU zen_cpu",
    },
    "--attention-config.minimax_m3_msa_decode_backend": {("", ""): "cutlass triton"},
    "--attention-config.trtllm_ragged_backend": {("", ""): "cute-dsl trtllm-gen"},
    "--compilation-config.compile_cache_save_format": {("", ""): "binary unpacked"},
    "--compilation-config.dynamic_shapes_config.type": {("", ""): "backed backed_size_oblivious unbacked"},
    "--eplb-config.communicator": {
        ("", ""): "None nixl pynccl torch_gloo torch_nccl",
        ("0.30.0", ""): "torch_xccl",
    },
    "--eplb-config.policy": {
        ("", ""): "default",
    },
    "--kv-events-config.publisher": {
        ("", ""): "null zmq",
    },
    "--kv-transfer-config.kv_load_failure_policy": {
        ("", ""): "fail recompute",
    },
    "--kv-transfer-config.kv_role": {
        ("", ""): "kv_both kv_consumer kv_producer",
        ("0.11.0", ""): "None",
    },
    "--pooler-config.pooling_type": {("", "0.12.0"): "*", ("", ""): "None ALL CLS LAST MEAN STEP"},
    "--pooler-config.task": {("", ""): "None classify embed embed&token_classify plugin score token_classify token_embed"},
    "--pooler-config.seq_pooling_type": {("", ""): "None CLS LAST MEAN"},
    "--pooler-config.tok_pooling_type": {("", ""): "None ALL STEP"},
    "--profiler-config.profiler": {
        ("", ""): "None cuda torch",
        ("0.27.0", ""): "proton",
    },
    "--profiler-config.proton_backend": {("", ""): "None cupti"},
    "--profiler-config.proton_context": {("", ""): "python shadow"},
    "--profiler-config.proton_data": {("", ""): "trace tree"},
    "--profiler-config.proton_hook": {("", ""): "None triton"},
    "--profiler-config.proton_output_format": {("", ""): "None chrome_trace hatchet hatchet_msgpack"},
    "--watermark-config.algorithm": {("", ""): "dual_key_gumbel gumbel"},
    "--watermark-config.deduplicate_contexts": {("", ""): "all none single_turn"},
    "--watermark-config.prf": {("", ""): "philox"},
    "--quantization-config.linear": _ONLINE,
    "--quantization-config.moe": {**_ONLINE, ("0.21.0", ""): "int8_per_channel_weight_only"},
    "--speculative-config.draft_lm_head_quantization": {("", ""): "None fp8 nvfp4"},
    "--speculative-config.draft_sample_method": {
        ("", ""): "greedy",
        ("", "0.22.1"): "gumbel",
        ("0.21.0", ""): "probabilistic",
    },
    "--speculative-config.rejection_sample_method": {
        ("", "0.21.0"): "probabilistic strict",
        ("0.18.1", ""): "synthetic",
        ("0.20.2", ""): "standard",
        ("0.24.0", ""): "block",
        ("0.32.0", ""): "fly",
    },
    "--speculative-config.method": {  # SpeculativeMethod of config/speculative.py, 30 wheels
        ("", ""): "None deepseek_mtp draft_model eagle eagle3 ngram",
        ("", "0.33.0"): "medusa mlp_speculator",
        ("0.10.0", ""): "ernie_mtp qwen3_next_mtp",
        ("0.10.2", ""): "longcat_flash_mtp mimo_mtp mtp",
        ("0.11.0", ""): "glm4_moe_mtp pangu_ultra_moe_mtp suffix",
        ("0.13.0", ""): "exaone_moe_mtp",
        ("0.14.1", ""): "glm4_moe_lite_mtp",
        ("0.15.0", ""): "step3p5_mtp",
        ("0.15.1", ""): "glm_ocr_mtp",
        ("0.16.0", ""): "extract_hidden_states nemotron_h_mtp qwen3_5_mtp",
        ("0.18.0", ""): "ngram_gpu",
        ("0.19.0", ""): "dflash exaone4_5_mtp hy_v3_mtp",
        ("0.20.0", ""): "gemma4_mtp mimo_v2_mtp",
        ("0.21.0", ""): "custom_class",
        ("0.23.0", ""): "minimax_m3_mtp",
        ("0.24.0", ""): "bailing_hybrid_mtp dspark",
        ("0.25.0", ""): "inkling_mtp",
        ("0.26.0", ""): "kimi_k3_mtp",
        ("0.27.0", ""): "bailing_hybrid_v3_mtp dots3_note_mtp",
        ("0.28.0", ""): "hy_v4_mtp qwen4_exp_mtp",
        ("0.29.0", ""): "glm5_next_mtp",
        ("0.32.0", ""): "step5_mtp",
    },
    "--structured-outputs-config.backend": {
        ("", ""): "auto guidance lm-format-enforcer outlines xgrammar",
    },
    "--compilation-config.mode": {("", ""): f"0 1 2 3 {_MODES} {_MODES.lower()}"},
}
