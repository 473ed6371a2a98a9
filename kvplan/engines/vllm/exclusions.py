"""Options of vLLM that want another beside them, or do not go with one: entrypoints cli_args.py validate_parsed_serve_args,
engine/arg_utils.py create_engine_config, config/*.py (of 0.10.2 to 0.33)."""

from __future__ import annotations

from kvplan.engines.common.exclusions import Exclusion

EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion("enable_auto_tool_choice=True", "tool_call_parser=*", "--enable-auto-tool-choice requires --tool-call-parser"),
    Exclusion("enable_log_outputs=True", "enable_log_requests=True", "--enable-log-outputs requires --enable-log-requests", "0.11"),
    Exclusion(
        "enable_per_request_metrics=True",
        "disable_log_stats=",
        "--enable-per-request-metrics requires engine statistics logging",
        "0.25",
    ),
    Exclusion("collect_detailed_traces=*", "otlp_traces_endpoint=*", "collect_detailed_traces requires --otlp-traces-endpoint to be set"),
    Exclusion(
        "enable_batch_sharded_sampling=True", "tensor_parallel_size>1", "batch-sharded sampling: tensor_parallel_size is 1",
        "0.29",
    ),
    Exclusion(
        "per_request_spec_decode_metrics=detailed,summary", "speculative_config=*|spec_method=*|spec_model=*|spec_tokens=*",
        "--per-request-spec-decode-metrics requires speculative decoding to be enabled", "0.29",
    ),
    Exclusion(
        "enable_return_routed_experts=True", "pipeline_parallel_size=,1",
        "--enable-return-routed-experts is incompatible with pipeline parallelism (PP > 1)", "0.22",
    ),
    Exclusion(
        "enable_return_routed_experts=True", "decode_context_parallel_size=,1&prefill_context_parallel_size=,1",
        "--enable-return-routed-experts is incompatible with context parallelism (DCP > 1 or PCP > 1)", "0.28",
    ),
    Exclusion(
        "enable_return_routed_experts=True", "kv_transfer_config=",
        "--enable-return-routed-experts is incompatible with KV connectors (PD disaggregation, KV cache offload)", "0.22", "0.31",
    ),
    Exclusion(
        "enable_mamba_cache_stochastic_rounding=True", "mamba_ssm_cache_dtype=float16",
        "Stochastic rounding for Mamba cache requires the SSM cache to be float16", "0.20",
    ),
    Exclusion(
        "return_sampling_mask=True", "logprobs_mode=processed_logprobs",
        "sampling distribution replay requires logprobs_mode='processed_logprobs'", "0.28",
    ),
    Exclusion(
        "offload_backend=prefetch", "offload_group_size>0", "offload_num_in_group (1) must be <= offload_group_size (0)", "0.17",
    ),
    Exclusion(
        "offload_group_size>0", "offload_num_in_group=|offload_num_in_group<=offload_group_size",
        "offload_num_in_group must be <= offload_group_size", "0.17",
    ),
    Exclusion(
        "offload_group_size>0", "offload_prefetch_step=|offload_prefetch_step>0",
        "offload_prefetch_step must be >= 1 when prefetch offloading is enabled (offload_group_size > 0)", "0.17",
    ),
    Exclusion(
        "enable_batch_sharded_sampling=True&max_num_seqs=*", "tensor_parallel_size<=max_num_seqs",
        "batch-sharded sampling: max_num_seqs is below tensor_parallel_size", "0.29",
    ),
    Exclusion(
        "enable_batch_sharded_sampling=True", "max_logprobs=|max_logprobs>-1",
        "batch-sharded sampling: max_logprobs is -1, allowing vocab-size logprob requests", "0.29",
    ),
    Exclusion(
        "enable_batch_sharded_sampling=True", "return_sampling_mask=",
        "batch-sharded sampling: return_sampling_mask is set and the batch-sharded gather does not forward sampling masks", "0.29",
    ),
    *(
        Exclusion(
            f"enable_return_routed_experts=True&kv_transfer_config~{connector}", "enable_return_routed_experts=",
            f"--enable-return-routed-experts is incompatible with {connector}", "0.31",
        )
        for connector in ("NixlConnector", "NixlPullConnector", "NixlPushConnector", "MoRIIOConnector", "MooncakeConnector")
    ),
    Exclusion(
        "data_parallel_size_local=*&data_parallel_size=*", "data_parallel_size_local<=data_parallel_size",
        "data_parallel_size_local must be <= data_parallel_size", "0.10",
    ),
    Exclusion(
        "data_parallel_rank=*&data_parallel_size>1", "data_parallel_size>data_parallel_rank",
        "data_parallel_rank must be in the range [0, data_parallel_size)", "0.10",
    ),
    Exclusion(
        "data_parallel_external_lb=True", "data_parallel_size>1",
        "data_parallel_external_lb can only be set when data_parallel_size > 1", "0.10",
    ),
    Exclusion(
        "data_parallel_multi_port_external_lb=True", "data_parallel_size_local>1",
        "--data-parallel-multi-port-external-lb requires --data-parallel-size-local >= 2", "0.22.1",
    ),
    *(
        Exclusion(
            f"enable_dbo=True&{tokens}=*", f"{tokens}>1",
            "dbo_decode_token_threshold and dbo_prefill_token_threshold must be at least the number of microbatches (2)", "0.30",
        )
        for tokens in ("dbo_decode_token_threshold", "dbo_prefill_token_threshold")
    ),
    Exclusion(
        "enable_elastic_ep=True", "pipeline_parallel_size=,1", "Elastic EP is not supported with pipeline parallelism", "0.17",
    ),
    *(
        Exclusion(
            f'eplb_config~"communicator":"{nccl}"', 'eplb_config~"use_async":false',
            f"{nccl} communicator is incompatible with async EPLB", "0.24",
        )
        for nccl in ("torch_nccl", "pynccl")
    ),
    Exclusion(
        'language_model_only=True&compilation_config~"cudagraph_mm_encoder":true', "language_model_only=",
        "--language-model-only is incompatible with cudagraph_mm_encoder=True", "0.29",
    ),
    Exclusion(
        "max_num_active_seqs=*&max_num_seqs=*", "max_num_active_seqs<=max_num_seqs",
        "max_num_active_seqs cannot be greater than max_num_seqs", "0.31",
    ),
    Exclusion(
        'structured_outputs_config~"disable_any_whitespace":true',
        'structured_outputs_config~"backend":"xgrammar"|structured_outputs_config~"backend":"guidance"',
        "disable_any_whitespace is only supported for xgrammar and guidance backends", "0.11",
    ),
    Exclusion(
        'structured_outputs_config~"disable_additional_properties":true', 'structured_outputs_config~"backend":"guidance"',
        "disable_additional_properties is only supported for the guidance backend", "0.11",
    ),
    Exclusion(
        "spec_tokens=*", "speculative_config=*|spec_method=*|spec_model=*",
        "num_speculative_tokens was provided but without speculative model", "0.22",
    ),
    Exclusion(
        "data_parallel_size_local>1", "data_parallel_size=*|data_parallel_rank=*|data_parallel_start_rank=*",
        "data_parallel_size_local must be <= data_parallel_size (1)", "0.10",
    ),
    Exclusion(
        "data_parallel_rank>0", "data_parallel_size>1", "data_parallel_external_lb can only be set when data_parallel_size > 1", "0.30",
    ),
    Exclusion(
        "data_parallel_hybrid_lb=True", "data_parallel_size_local=*",
        "--data-parallel-hybrid-lb requires --data-parallel-size-local", "0.10.2",
    ),
    Exclusion(
        'attention_backend=*&attention_config~"backend"', "attention_config=",
        "attention_backend and attention_config.backend are mutually exclusive", "0.13",
    ),
    Exclusion(
        "mamba_ssu_algorithm=*", "mamba_backend=flashinfer,FLASHINFER",
        "Mamba SSU algorithm selection is only supported with the FlashInfer backend", "0.27",
    ),
    *(
        Exclusion(f"{numa}=*", "numa_bind=True", "numa_bind_nodes and numa_bind_cpus require numa_bind=True", "0.20")
        for numa in ("numa_bind_nodes", "numa_bind_cpus")
    ),
    Exclusion(
        "enable_fault_tolerance=True",
        "data_parallel_external_lb=True|data_parallel_multi_port_external_lb=True|data_parallel_rank=*",
        "Fault tolerance requires external load balancer mode (--data-parallel-external-lb or --data-parallel-rank)", "0.27",
    ),
    Exclusion(
        "enable_fault_tolerance=True&api_server_count>1", "enable_fault_tolerance=",
        "Fault tolerance requires a single API server process (--api-server-count=1)", "0.27",
    ),
    Exclusion(
        "data_parallel_external_lb=True&data_parallel_size>1", "data_parallel_rank=*|nnodes>1",
        "Invalid data-parallel launch options: `--data-parallel-external-lb` requires a data-parallel rank", "0.12",
    ),
    Exclusion(
        "data_parallel_hybrid_lb=True&data_parallel_external_lb=True", "data_parallel_hybrid_lb=",
        "`--data-parallel-hybrid-lb` and `--data-parallel-external-lb` cannot be enabled together", "0.12",
    ),
    Exclusion(
        "data_parallel_rank=*&data_parallel_size_local>1", "data_parallel_rank=",
        "an external data-parallel rank requires `--data-parallel-size-local 1`", "0.12",
    ),
    Exclusion(
        "nnodes>1&data_parallel_backend=ray", "data_parallel_backend=,mp", "`--nnodes` requires `--data-parallel-backend mp`", "0.12",
    ),
    Exclusion(
        "nnodes>1&distributed_executor_backend=ray", "distributed_executor_backend=",
        "nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher", "0.12",
    ),
    Exclusion("nnodes>1&node_rank=*", "nnodes>node_rank", "`--node-rank` must be less than nnodes", "0.12"),
    Exclusion(
        "enable_elastic_ep=True&data_parallel_hybrid_lb=True", "data_parallel_hybrid_lb=",
        "Elastic EP is not compatible with data_parallel_hybrid_lb", "0.17",
    ),
    *(
        Exclusion(
            f"enable_elastic_ep=True&{outside}", "enable_elastic_ep=", "Elastic EP is not compatible with data_parallel_external_lb",
            "0.17", "0.33",
        )
        for outside in ("data_parallel_external_lb=True", "data_parallel_rank=*")
    ),
    Exclusion(
        "dcp_comm_backend=a2a", "decode_context_parallel_size>1",
        "dcp_comm_backend='a2a' requires decode_context_parallel_size > 1", "0.18", "0.29",
    ),
    Exclusion(
        "ray_workers_use_nsight=True", "distributed_executor_backend=ray|data_parallel_backend=ray",
        "Unable to use nsight profiling unless workers run with Ray",
    ),
    Exclusion(
        'ec_transfer_config~"ec_connector"', 'ec_transfer_config~"ec_role"', "Please specify ec_role when ec_connector is set", "0.12",
    ),
    Exclusion(
        'ec_manager_config~"manager_config"', 'ec_manager_config~"encoder_cache_manager_cls"',
        "manager_config requires encoder_cache_manager_cls to be set", "0.28",
    ),
    *(
        Exclusion(
            f'profiler_config~"profiler":"{kind}"', f'profiler_config~"{kind}_profiler_dir"',
            f"{kind}_profiler_dir must be set when profiler is '{kind}'", since,
        )
        for kind, since in (("torch", "0.13"), ("proton", "0.28"))
    ),
    Exclusion(
        'profiler_config~"torch_profiler_dir"', 'profiler_config~"profiler":"torch"',
        "torch_profiler_dir is only applicable when profiler is set to 'torch'", "0.13",
    ),
    Exclusion(
        'profiler_config~"torch_profiler_activities"', 'profiler_config~"profiler":"torch"',
        "torch_profiler_activities is only applicable when profiler is set to 'torch'", "0.31",
    ),
    *(
        Exclusion(
            f'pooler_config~"pooling_type"&pooler_config~"{other}"', "pooler_config=", f"Cannot set both `pooling_type` and `{other}`",
            "0.14",
        )
        for other in ("seq_pooling_type", "tok_pooling_type")
    ),
    Exclusion('pooler_config~"task":"score"', "pooler_config=", "`score` task was removed; use `classify` instead", "0.19"),
    *(
        Exclusion(
            f'quantization_config~"targets"&quantization_config~"{layers}"', "quantization_config=",
            "quantization_config.targets is mutually exclusive with quantization_config.linear/moe", "0.30",
        )
        for layers in ("linear", "moe")
    ),
    Exclusion("quantization=online", "quantization_config=*", "OnlineQuantizationConfig.__init__() missing 'args'", "0.20"),
    *(
        Exclusion(
            f"quantization={methods}", "allow_deprecated_quantization=True",
            "The quantization method is deprecated. To bypass, set `--allow-deprecated-quantization`", "0.14", before,
        )
        for methods, before in (
            ("fbgemm_fp8,fp_quant", ""), ("tpu_int8", "0.23"), ("experts_int8,petit_nvfp4", "0.20"), ("ptpc_fp8", "0.19.1"),
            ("auto-round,bitblas,deepspeedfp,gptq_bitblas,gptq_marlin_24,hqq,ipex,rtn", "0.15"),
        )
    ),
    *(
        Exclusion(
            f'{sizes}=*&compilation_config~"{sizes}"', "compilation_config=",
            f"{sizes} and compilation_config.{sizes} are mutually exclusive", "0.11.2",
        )
        for sizes in ("cudagraph_capture_sizes", "max_cudagraph_capture_size")
    ),
    *(
        Exclusion(
            f'{flag}=*&speculative_config~"{key}"', "speculative_config=",
            f"--{flag.replace('_', '-')} and --speculative-config['{key}'] are mutually exclusive", "0.22",
        )
        for flag, key in (("spec_method", "method"), ("spec_model", "model"), ("spec_tokens", "num_speculative_tokens"))
    ),
    Exclusion(
        'enable_flashinfer_autotune=*&kernel_config~"enable_flashinfer_autotune"', "kernel_config=",
        "enable_flashinfer_autotune and kernel_config.enable_flashinfer_autotune are mutually exclusive", "0.16",
    ),
    Exclusion(
        "prefill_context_parallel_size>1", "prefill_context_parallel_size=",
        "Prefill context parallelism is not fully supported. Please set prefill_context_parallel_size to 1", "0.12", "0.13",
    ),
    *(
        Exclusion(
            f"{run}=*&block_size=*&decode_context_parallel_size>1", f"{run}<=block_size",
            f"Block_size should be greater than or equal to and divisible by {run}", since,
        )
        for run, since in (("dcp_kv_cache_interleave_size", "0.11.1"), ("cp_kv_cache_interleave_size", "0.12.0"))
    ),
    Exclusion(
        "default_mm_loras=*", "default_mm_loras=", "Default modality-specific LoRA(s) were provided for a non multimodal model", "0.10",
        of="text",
    ),
    *(
        Exclusion(
            f"{outside}&data_parallel_size>1", "data_parallel_size=",
            "Non-MoE models do not support external data parallel mode. For external load balancing, launch independent vLLM instances",
            "0.21", of="dense",
        )
        for outside in ("data_parallel_rank=*", "data_parallel_external_lb=True")
    ),
    Exclusion(
        "enable_prompt_embeds=True", "enable_prompt_embeds=", "--enable-prompt-embeds is not supported with encoder-decoder models",
        "0.29", of="encoder-decoder",
    ),
    *(
        Exclusion(
            f"mm_tensor_ipc=torch_shm&{size}>1", "mm_tensor_ipc=",
            "mm_tensor_ipc='torch_shm' is not supported with data_parallel_size > 1 or tensor_parallel_size > 1 or "
            "pipeline_parallel_size > 1", "0.19", of="media",
        )
        for size in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    ),
    *(
        Exclusion(
            f"{path}=*", "mm_encoder_attn_dtype=fp8",
            "'mm_encoder_fp8_scale_path' and 'mm_encoder_fp8_scale_save_path' require 'mm_encoder_attn_dtype' to be 'fp8'", "0.21",
            of="media",
        )
        for path in ("mm_encoder_fp8_scale_path", "mm_encoder_fp8_scale_save_path")
    ),
    Exclusion(
        "mm_shm_cache_max_object_size_mb=*", "mm_processor_cache_type=shm",
        "'mm_shm_cache_max_object_size_mb' should only be set when 'mm_processor_cache_type' is 'shm'", "0.12", of="media",
    ),
    Exclusion(
        'ec_transfer_config~"ec_role":"ec_producer"', "ec_transfer_config=", "An EC producer-only instance requires a multimodal model",
        "0.29", of="text",
    ),
    Exclusion(
        "video_pruning_rate=*", "video_pruning_rate<=0.9999", "video_pruning_rate Input should be less than 1", "0.12", of="media",
    ),
)  # fmt: skip
