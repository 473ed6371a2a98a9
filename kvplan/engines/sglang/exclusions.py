"""Options that SGLang refuses together or alone, in its words: server_args.py and arg_groups/* of 24 releases, 0.4.3 to 0.5.23."""

from __future__ import annotations

from kvplan.engines.common.exclusions import Exclusion
from kvplan.engines.sglang import draft_exclusions, serving_exclusions

_PDMUX, _KEEPS_NONE, _DWDP = "enable_pdmux=*", "prefill_only_disable_kv_cache=*", "dwdp_size>1"
_ONE_STAGE = "pipeline_parallel_size=,1"
_NEVER, _FP4_EXPERTS = "quantization=", "modelopt_fp4 quantization is required for Flashinfer MOE"

_DENSE = "|".join(f"moe_dense_tp_size={n}&tensor_parallel_size={n}" for n in (2, 4, 8, 16))

EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion("moe_dense_tp_size>1", _DENSE, "moe_dense_tp_size only supports None, 1, or tp_size currently", "0.5.13"),
    Exclusion("moe_dense_tp_size>1", "moe_dense_tp_size=1", "moe_dense_tp_size only support 1 and None currently", before="0.5.13"),
    Exclusion(_PDMUX, _ONE_STAGE, "PD-Multiplexing is only supported with pipeline parallelism disabled (pp_size=1).", "0.5.4"),
    Exclusion(
        _PDMUX, "chunked_prefill_size=-1|enable_mis=*", "PD-Multiplexing is not compatible with chunked prefill: --chunked-prefill-size -1",
        "0.5.4",
    ),
    Exclusion(_PDMUX, "disaggregation_mode=,null", "PD-Multiplexing is not compatible with disaggregation mode.", "0.5.4"),
    Exclusion(_PDMUX, "disable_overlap_schedule=*", "PD-Multiplexing is not compatible with overlap schedule.", "0.5.4"),
    Exclusion(
        "enable_double_sparsity=*", "ds_channel_config_path=*",
        "--enable-double-sparsity without --ds-channel-config-path opens no file: TypeError: expected str, bytes or os.PathLike object",
        before="0.5.11",
    ),
    Exclusion(
        "dcp_size>1&enable_hierarchical_cache=*", "hicache_storage_backend=",
        "--hicache-storage-backend (L3) with --dcp-size > 1 is not supported yet", "0.5.17", "0.5.23",
    ),
    Exclusion(
        "dcp_size>1&enable_hierarchical_cache=*", "enable_lmcache=", "--enable-lmcache with --dcp-size > 1 is not supported", "0.5.17",
    ),
    Exclusion(
        "hicache_host_memory_fraction=*", "hicache_host_memory_fraction>0&hicache_host_memory_fraction<=1",
        "--hicache-host-memory-fraction must be in (0, 1].", "0.5.21",
    ),
    Exclusion(_KEEPS_NONE, "is_embedding=*", "--prefill-only-disable-kv-cache currently requires --is-embedding.", "0.5.12"),
    Exclusion(_KEEPS_NONE, "chunked_prefill_size=-1", "--prefill-only-disable-kv-cache requires --chunked-prefill-size=-1", "0.5.12"),
    Exclusion(_KEEPS_NONE, "disable_radix_cache=*", "--prefill-only-disable-kv-cache requires --disable-radix-cache", "0.5.12"),
    Exclusion(_KEEPS_NONE, "attn_cp_size=,1", "--prefill-only-disable-kv-cache is incompatible with --attn-cp-size > 1", "0.5.12"),
    Exclusion("language_only=*", "encoder_urls=*", "requires at least one encoder urls to be set via --encoder-urls", "0.5.7", "0.5.13"),
    *(
        Exclusion(f"{flag}=*", f"{flag}=", f"NOTE: --{flag.replace('_', '-')} is deprecated", "0.5.3", "0.5.5")
        for flag in (
            "enable_ep_moe", "enable_deepep_moe", "enable_flashinfer_cutlass_moe", "enable_flashinfer_cutedsl_moe",
            "enable_flashinfer_trtllm_moe", "enable_triton_kernel_moe", "enable_flashinfer_mxfp4_moe",
        )
    ),
    Exclusion(
        "enable_flashinfer_trtllm_moe=*", "quantization=modelopt_fp4,fp8",
        "modelopt_fp4 quantization is required for Flashinfer TRTLLM MoE", "0.5.2", "0.5.3",
    ),
    Exclusion(
        "cuda_graph_backend_prefill=full", "cuda_graph_backend_prefill=", "--cuda-graph-config[prefill].backend='full' not allowed",
        "0.5.14", "0.5.15",
    ),
    Exclusion("enable_lmcache=*", "disable_radix_cache=", "--enable-lmcache requires radix cache to be enabled", "0.5.21"),
    Exclusion(
        "enable_priority_scheduling=*", "schedule_policy=,fcfs,lof",
        "To use priority scheduling, schedule_policy must be 'fcfs' or 'lof'.", "0.5.3",
    ),
    Exclusion(
        "radix_eviction_policy=tlru", "radix_eviction_policy_config=*",
        "--radix-eviction-policy tlru needs 'threshold' in --radix-eviction-policy-config", "0.5.21",
    ),
    Exclusion(
        "enable_page_major_kv_layout=*", "enable_unified_memory=*",
        "--enable-page-major-kv-layout without --enable-unified-memory is temporarily unsupported", "0.5.20",
    ),
    Exclusion(
        "disable_cuda_graph_padding=*", "enable_torch_compile=",
        "--disable-cuda-graph-padding is incompatible with --enable-torch-compile.", "0.5.12",
    ),
    Exclusion(
        "enable_dsa_cache_layer_split=*", "disaggregation_mode=prefill",
        "--enable-dsa-cache-layer-split is only supported on PD prefill workers.", "0.5.16",
    ),
    Exclusion(
        "moe_a2a_backend=flashinfer", "moe_runner_backend=flashinfer_cutlass",
        "Flashinfer MoE A2A is only supported with flashinfer_cutlass moe runner backend", "0.5.9", "0.5.13",
    ),
    Exclusion(
        "moe_a2a_backend=flashinfer", "enable_dp_attention=*",
        "Flashinfer MoE A2A is only supported with dp_size == tp_size and --enable-dp-attention", "0.5.14", "0.5.23",
    ),
    Exclusion(
        "moe_a2a_backend=flashinfer", "enable_dp_attention=*|attn_dp_size=*|enable_layernorm_sp=*",
        "Flashinfer MoE A2A requires --attn-dp-size equal to --tp-size", "0.5.23",
    ),
    Exclusion(
        "moe_a2a_backend=mori", "chunked_prefill_size<=4096|enable_dp_attention=*",
        "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK (default 4096) must be larger or equal to chunked_prefill_size", "0.5.9", "0.5.10",
    ),
    Exclusion(
        "moe_a2a_backend=mori", "chunked_prefill_size<=4096|disaggregation_mode=decode|enable_dp_attention=*|enable_mis=*",
        "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK (default 4096) must be >= the per-rank MoRI dispatch tokens", "0.5.10",
    ),
    Exclusion(
        "enable_hisparse=*", "disable_radix_cache=*|disaggregation_mode=decode|enable_mis=*",
        "Hierarchical sparse attention currently requires --disable-radix-cache.", "0.5.10",
    ),
    Exclusion("enable_hisparse=*", "enable_mixed_chunk=", "--enable-hisparse does not support --enable-mixed-chunk yet.", "0.5.20"),
    Exclusion(
        "moe_runner_backend=lora_cutedsl,lora_triton,lora_marlin", "enable_lora=*|lora_paths=*",
        "--moe-runner-backend of adapters requires --enable-lora (or --lora-paths)", "0.5.22",
    ),
    Exclusion(
        "nnodes>1&data_parallel_size>1", "enable_dp_attention=*", "multi-node data parallel is not supported unless dp attention!",
        before="0.5.23",
    ),
    Exclusion("elastic_ep_backend=*", _ONE_STAGE, "PP size should be set to 1 under elastic EP", "0.5.11"),
    Exclusion(
        "enable_ssl_refresh=*", "ssl_certfile=*&ssl_keyfile=*",
        "--enable-ssl-refresh requires --ssl-certfile and --ssl-keyfile to be specified.", "0.5.10",
    ),
    Exclusion(
        "weight_cache_mode=client,daemon&speculative_algorithm=*", "weight_cache_mode=off",
        "--weight-cache-mode is not supported together with speculative decoding", "0.5.18",
    ),
    Exclusion(
        "quantize_and_serve=*", "quantization=modelopt,modelopt_fp4,modelopt_fp8,modelopt_mixed",
        "quantize_and_serve requires ModelOpt quantization (set with --quantization)", "0.5.4",
    ),
    *(
        Exclusion(f"{flag}=*", f"{flag}=", f"--{flag.replace('_', '-')} is deprecated", "0.4.6", "0.4.8")
        for flag in ("enable_flashinfer_mla", "enable_flashmla")
    ),
    Exclusion(
        "enable_dp_attention=*", "data_parallel_size>1", "Please set a dp-size > 1. You can use 1 < dp-size <= tp-size", "0.4.3", "0.5.2",
    ),
    Exclusion(
        "moe_a2a_backend=flashinfer_megamoe", "moe_runner_backend=,auto,flashinfer_megamoe",
        "FlashInfer MegaMOE a2a backend requires --moe-runner-backend flashinfer_megamoe",
    ),
    Exclusion(
        "moe_a2a_backend=pplx", "enable_dp_attention=*|attn_dp_size>1",
        "moe_a2a_backend='pplx' requires attention DP with at least 2 groups (--attn-dp-size >= 2).",
    ),
    Exclusion(
        "moe_a2a_backend=pplx", "disaggregation_mode=decode|chunked_prefill_size=-1",
        "SGLANG_PPLX_NUM_MAX_DISPATCH_TOKENS_PER_RANK (default 128) must be >= the per-rank pplx dispatch tokens",
    ),
    Exclusion("moe_a2a_backend=deepep_v2,megamoe", "enable_two_batch_overlap=", "it has no two-batch overlap", "0.5.19"),
    Exclusion("moe_a2a_backend=deepep_v2,megamoe", "enable_single_batch_overlap=", "it has no single-batch overlap", "0.5.19"),
    Exclusion(
        "enable_kv_cache_sharding=*", "disaggregation_mode=prefill", "--enable-kv-cache-sharding is only supported on PD prefill workers",
        "0.5.22",
    ),
    Exclusion("enable_layernorm_sp=*", "enable_dp_attention=", "--enable-layernorm-sp is not compatible with attention DP", "0.5.20"),
    Exclusion("attn_cp_size>1", _ONE_STAGE, "PP is not supported with context parallelism", "0.5.9", "0.5.10"),
    *(
        Exclusion(f"{name}>1", _ONE_STAGE, "PP is not supported with context parallelism", "0.5.9", "0.5.10")
        for name in ("moe_dp_size", "moe_data_parallel_size")
    ),
    Exclusion("enable_prefill_cp=*", "cp_strategy=*", "--cp-strategy must be set when --enable-prefill-cp is enabled.", "0.5.14"),
    Exclusion(
        "disaggregation_decode_enable_offload_kvcache=*", "disaggregation_mode=decode",
        "disaggregation-decode-enable-offload-kvcache is only supported for decode side.", "0.5.3",
    ),
    Exclusion(
        "disaggregation_decode_enable_offload_kvcache=*", "hicache_storage_backend=*",
        "disaggregation-decode-enable-offload-kvcache is only supported when hicache-storage-backend is provided.", "0.5.10",
    ),
    Exclusion(
        "disaggregation_decode_retraction_backup=host_pool", "disaggregation_mode=decode",
        "--disaggregation-decode-retraction-backup=host_pool is only supported on a PD decode server.", "0.5.18",
    ),
    Exclusion(
        "disaggregation_decode_host_receive_threshold>0", "disaggregation_mode=decode",
        "--disaggregation-decode-retraction-backup=host_pool is only supported on a PD decode server.", "0.5.21",
    ),
    Exclusion(
        "disaggregation_decode_allocation_policy=prefill_complete", "disaggregation_mode=prefill,decode",
        "--disaggregation-decode-allocation-policy prefill_complete does not yet support aggregated serving", "0.5.22",
    ),
    Exclusion(
        "attn_dp_size>1&data_parallel_size>1", "enable_dp_attention=*",
        "data-parallel replicas combined with attention data parallelism are not supported.", "0.5.22",
    ),
    Exclusion("enable_prefix_mm_cache=*", "encoder_only=*", "--enable-prefix-mm-cache requires --encoder-only to be enabled", "0.5.7"),
    Exclusion(
        "enable_deepep_moe=*&enable_dp_attention=*", "deepep_mode=normal,low_latency|data_parallel_size=,1",
        "DeepEP MoE `auto` mode is not supported with DP Attention.", before="0.4.9",
    ),
    Exclusion(
        "enable_mamba_cache_stochastic_rounding=*", "mamba_ssm_dtype=float16",
        "Stochastic rounding for the Mamba SSM cache requires --mamba-ssm-dtype float16", "0.5.15",
    ),
    Exclusion(
        "enable_quant_communications=*", "device=npu", "Communications quantization is only supported for NPU device", "0.5.11",
    ),
    Exclusion(
        "flashinfer_a2a_dispatch_type=bf16,nvfp4,mxfp8", "moe_a2a_backend=flashinfer",
        "--flashinfer-a2a-dispatch-type requires --moe-a2a-backend flashinfer.", "0.5.20",
    ),
    Exclusion(
        "ep_dispatch_algorithm=static,lp",
        "moe_a2a_backend=deepep,deepep_v2,mooncake,nixl,mori,flashinfer,flashinfer_megamoe,megamoe,pplx,ascend_fuseep,ascend_tp",
        "--ep-dispatch-algorithm picks a different physical replica per rank: use dynamic with --moe-a2a-backend none.", "0.5.17",
    ),
    Exclusion(
        "attn_cp_size>1", "enable_aiter_allreduce_fusion=", "Aiter allreduce fusion is not supported with context parallelism", "0.5.10",
    ),
    *(
        Exclusion(f"{name}>1", "attn_cp_size>1", "attn_cp_size != moe_dp_size is only supported when moe_dp_size == 1", "0.5.11")
        for name in ("moe_dp_size", "moe_data_parallel_size")
    ),
    Exclusion(
        "dcp_comm_backend=a2a,fi_a2a", "dcp_size>1", "--dcp-comm-backend ... requires --dcp-size / --decode-context-parallel-size > 1",
        "0.5.17",
    ),
    Exclusion(
        "elastic_ep_rejoin=*", "elastic_ep_backend=mooncake,nixl", "--elastic-ep-join-mode requires --elastic-ep-backend to be set.",
        "0.5.16",
    ),
    Exclusion(
        "elastic_ep_rejoin=*", "elastic_ep_backend=mooncake,nixl", "Elastic EP rejoin requires elastic_ep_backend to be set.", "0.5.11",
        "0.5.16",
    ),
    Exclusion(
        "elastic_ep_join_mode=*", "elastic_ep_backend=mooncake,nixl", "--elastic-ep-join-mode requires --elastic-ep-backend to be set.",
        "0.5.16",
    ),
    Exclusion(
        "enable_unified_memory=*&speculative_algorithm=NGRAM,STANDALONE", "speculative_algorithm=DSPARK",
        "--enable-unified-memory: other speculative algorithms are not yet audited for the unified pool", "0.5.18",
    ),
    Exclusion(
        "return_aux_hidden_state_layer_ids=*", "enable_return_aux_hidden_states=*",
        "--return-aux-hidden-state-layer-ids requires --enable-return-aux-hidden-states.", "0.5.23",
    ),
    Exclusion(
        "enable_return_aux_hidden_states=*", "speculative_algorithm=EAGLE3,DFLASH,DSPARK",
        "--enable-return-aux-hidden-states needs --speculative-algorithm EAGLE3, DFLASH or DSPARK to name the capture convention", "0.5.23",
    ),
    Exclusion(
        "enable_http_worker_reuseport=*", "tokenizer_worker_num>1",
        "--enable-http-worker-reuseport requires --tokenizer-worker-num > 1 and has no effect with --enable-http2.", "0.5.23",
    ),
    Exclusion(_DWDP, "disaggregation_mode=,null,prefill", "DWDP requires --disaggregation-mode null or prefill", "0.5.18"),
    Exclusion(_DWDP, "enable_eplb=", "EPLB dynamic migration conflicts with static DWDP partitioning", "0.5.18"),
    Exclusion(_DWDP, "speculative_algorithm=", "DWDP does not support speculative decoding (MTP/draft workers)", "0.5.18"),
    Exclusion(_DWDP, _ONE_STAGE, "DWDP requires pp_size == 1", "0.5.18"),
    Exclusion(_DWDP, "enable_two_batch_overlap=", "DWDP's prefetch event protocol does not support two-batch overlap", "0.5.18"),
    Exclusion("quantization=bitsandbytes", _NEVER, "Unknown quantization method: bitsandbytes.", "0.5.5", "0.5.8"),
    Exclusion("quantization=marlin", _NEVER, "Unknown quantization method: marlin.", "0.5.5", "0.5.20"),
    Exclusion("quantization=gptq", "device=cpu,npu,xpu", "Unknown quantization method: gptq.", "0.5.20"),
    Exclusion("quantization=mlx_q4,mlx_q8", "device=mps", "Unknown quantization method: mlx_q4 and mlx_q8 are Apple's.", "0.5.11"),
    *(
        Exclusion(f"{flag}=*", "quantization=modelopt_fp4", _FP4_EXPERTS, before="0.5.6")
        for flag in ("enable_flashinfer_moe", "enable_flashinfer_cutlass_moe")
    ),
    Exclusion("moe_runner_backend=flashinfer_cutlass", "quantization=modelopt_fp4", _FP4_EXPERTS, "0.5.1", "0.5.6"),
    Exclusion(
        "moe_runner_backend=flashinfer_cutlass", "quantization=,modelopt_fp4,modelopt_fp8,modelopt_mixed",
        "FlashInfer Cutlass MOE supports only: 'modelopt_fp4', 'modelopt_fp8', 'modelopt_mixed', or bfloat16 (None).", "0.5.6",
    ),
    Exclusion(
        "moe_runner_backend=flashinfer_cutedsl", "quantization=,modelopt_fp4,modelopt_mixed,nvfp4_online",
        "FlashInfer CuteDSL MOE currently supports only: 'modelopt_fp4', 'modelopt_mixed', 'nvfp4_online', or hybrid NVFP4 models.",
        "0.5.11",
    ),
    Exclusion(
        "retraction_policy=priority", "enable_priority_scheduling=*", "--retraction-policy priority requires --enable-priority-scheduling",
        "0.5.16",
    ),
    Exclusion(
        "enable_megamoe_for_layernorm_sp=*", "enable_layernorm_sp=*", "--enable-megamoe-for-layernorm-sp requires --enable-layernorm-sp.",
        "0.5.23",
    ),
    Exclusion(
        "export_metrics_to_file=*", "export_metrics_to_file_dir=*",
        "--export-metrics-to-file-dir is required when --export-metrics-to-file is enabled", "0.5.6",
    ),
    Exclusion("dcp_replicate_q_proj=*", "dcp_size>1", "--dcp-replicate-q-proj requires --dcp-size > 1.", "0.5.17"),
    Exclusion(
        "dcp_replicate_q_proj=*", "dcp_comm_backend=a2a,fi_a2a",
        "--dcp-replicate-q-proj only applies to the a2a/fi_a2a DCP communication backend", "0.5.17",
    ),
    Exclusion(
        "enable_tp_lm_head_all_to_all=*", "enable_dp_attention=*|attn_dp_size>1",
        "--enable-tp-lm-head-all-to-all requires attention data parallelism", "0.5.18",
    ),
    Exclusion("enable_tp_lm_head_all_to_all=*", "enable_dp_lm_head=", "it is incompatible with --enable-dp-lm-head.", "0.5.18"),
    Exclusion(
        "linear_attn_decode_backend=flashkda", "linear_attn_decode_backend=",
        "--linear-attn-decode-backend flashkda is not supported: FlashKDA is prefill-only.", "0.5.15",
    ),
    Exclusion(
        "enable_linear_replayssm=*&enable_linear_replayssm_spec=*", "enable_linear_replayssm=",
        "--enable-linear-replayssm-spec and --enable-linear-replayssm are mutually exclusive", "0.5.16",
    ),
    Exclusion(
        "enable_linear_replayssm=*", "disaggregation_mode=,null", "--enable-linear-replayssm is not supported under PD disaggregation yet",
        "0.5.15",
    ),
    Exclusion(
        "enable_int8_mamba_checkpoint=*", "enable_hierarchical_cache=",
        "--enable-int8-mamba-checkpoint is not supported together with --enable-hierarchical-cache", "0.5.14",
    ),
    Exclusion(
        "prefill_kv_cache_dequant_dtype=nvfp4,fp8_e4m3", "kv_cache_dtype=nvfp4",
        "--prefill-kv-cache-dequant-dtype applies only with --kv-cache-dtype=nvfp4.", "0.5.21",
    ),
    Exclusion(
        "enable_linker_mla_dedup=*", "enable_unified_cache_external_linker=*", "--enable-linker-mla-dedup requires the Mooncake linker.",
        "0.5.21",
    ),
    *(
        Exclusion(
            f"enable_unified_cache_external_linker=*&{other}=*", f"{other}=",
            f"--enable-unified-cache-external-linker beside {other}: it is the radix cache's only lower tier", since,
        )
        for other, since in (
            ("hicache_storage_backend", "0.5.20"), ("enable_hierarchical_cache", "0.5.23"), ("disable_radix_cache", "0.5.23"),
        )
    ),
    Exclusion("sampling_backend=intel_xpu", "device=xpu", "--sampling-backend intel_xpu requires --device xpu", "0.5.21"),
    Exclusion(
        "enable_expert_distribution_metrics=*", "enable_expert_distribution_metrics=",
        "--enable-expert-distribution-metrics is no longer supported. Use --expert-balancedness-report-mode", "0.5.18", "0.5.20",
    ),
    Exclusion(
        "enable_tokenizer_batch_encode=*", "enable_dynamic_batch_tokenizer=",
        "Cannot enable both --enable-tokenizer-batch-encode and --enable-dynamic-batch-tokenizer.", "0.5.3",
    ),
    Exclusion(
        "mm_feature_transport=cuda_ipc", "nnodes=,1|encoder_only=*", "--mm-feature-transport=cuda_ipc only supports a single node.",
        "0.5.16",
    ),
    Exclusion(
        "mm_feature_transport=cuda_vmm", _ONE_STAGE, "--mm-feature-transport=cuda_vmm does not support pipeline parallelism.", "0.5.18",
    ),
    Exclusion("kv_canary_sweep_interval>0", "kv_canary=log,raise", "--kv-canary-sweep-interval requires --kv-canary", "0.5.13"),
    Exclusion("min_free_slots_delay=*", _ONE_STAGE, "--min-free-slots-delay is not supported with pipeline parallelism", "0.5.18"),
    *(
        Exclusion("enable_lmcache=*", wants, f"--enable-lmcache: {what} is not supported", "0.5.21")
        for wants, what in (
            ("enable_hierarchical_cache=", "a second tier"), ("speculative_algorithm=", "speculative decoding"),
            ("enable_dp_attention=", "DP attention"), ("dcp_size=,1", "--dcp-size > 1"),
            ("enable_streaming_session=", "a streaming session"), ("disaggregation_mode=,null", "PD disaggregation"),
            ("enable_unified_memory=", "--enable-unified-memory"),
        )
    ),
    Exclusion(
        "disaggregation_decode_retraction_backup=host_pool", "dcp_size=,1",
        "--disaggregation-decode-retraction-backup=host_pool does not support --dcp-size > 1.", "0.5.18",
    ),
    Exclusion(
        "enable_unified_memory=*", "enable_two_batch_overlap=", "--enable-unified-memory does not support --enable-two-batch-overlap",
        "0.5.20",
    ),
    Exclusion(
        "enable_response_store=*", "disaggregation_mode=,null",
        "--enable-response-store is not supported with --disaggregation-mode=prefill or decode", "0.5.20",
    ),
    Exclusion(
        "moe_a2a_backend=deepep_v2", "enforce_shared_experts_fusion=",
        "DeepEP v2 MoE has not validated fused shared experts yet. Remove --enforce-shared-experts-fusion", "0.5.19",
    ),
    Exclusion(
        "moe_a2a_backend=deepep_v2", "moe_runner_backend=,auto,deep_gemm",
        "DeepEP v2 MoE currently supports only --moe-runner-backend deep_gemm.", "0.5.19",
    ),
    Exclusion(
        "moe_a2a_backend=pplx", "moe_runner_backend=,auto,deep_gemm",
        "moe_a2a_backend='pplx' is only supported with --moe-runner-backend deep_gemm (or auto).", "0.5.17",
    ),
    Exclusion("moe_a2a_backend=pplx", "deepep_mode=,auto,low_latency", "moe_a2a_backend='pplx' only supports low-latency mode", "0.5.17"),
    Exclusion(
        "disable_fast_image_processor=*", "image_processor_backend=,auto,pil",
        "--disable-fast-image-processor conflicts with --image-processor-backend", "0.5.18",
    ),
    Exclusion(
        "enable_hierarchical_cache=*&attention_backend=dual_chunk_flash_attn", "enable_hierarchical_cache=",
        "dual_chunk_flash_attn keeps no prefixes: enable-hierarchical-cache and disable-radix-cache are mutually exclusive", "0.5.3",
    ),
    *(  # kernels of packages that no release asks for
        Exclusion(f"{flag}=*", f"{flag}=", f"{named} cannot run this setup: {why}; install the plugin that provides it", "0.5.23")
        for flag, named, why in (
            ("enable_amd_monokernel", "--enable-amd-monokernel", "no monokernel backend 'amd' is registered"),
            ("monokernel_backend", "--monokernel-backend", "no monokernel backend is registered"),
            ("enable_nvidia_megakernel", "--enable-nvidia-megakernel", "the plugin is not installed"),
        )
    ),
    Exclusion("sidecar_args=*", "sidecar=*", "--sidecar-args requires --sidecar.", "0.5.16"),
    Exclusion(
        "language_model_only=*", "disaggregation_mode=,null",
        "--language-model-only is incompatible with --disaggregation-mode prefill/decode", "0.5.18",
    ),
    *draft_exclusions.EXCLUSIONS,
    *serving_exclusions.EXCLUSIONS,
)  # fmt: skip
