"""Options of vLLM that want another beside them: entrypoints cli_args.py validate_parsed_serve_args, config/ observability.py, offload.py,
vllm.py."""

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
)  # fmt: skip
