"""Options of vLLM that want another beside them: entrypoints cli_args.py validate_parsed_serve_args, config/ observability.py, offload.py,
parallel.py, scheduler.py, structured_outputs.py, vllm.py (of 0.10.2 to 0.33)."""

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
        "--data-parallel-hybrid-lb requires --data-parallel-size-local", "0.27",
    ),
    Exclusion(
        'attention_backend=*&attention_config~"backend"', "attention_config=",
        "attention_backend and attention_config.backend are mutually exclusive", "0.13",
    ),
)  # fmt: skip
