"""Least and most of vLLM's numbers: the `Field(ge=, gt=, le=, lt=)` of config/*.py in 29 wheels, 0.9.1 to 0.33.0.

Those of a model's media are left out: MultiModalConfig is made for models that have a tower alone. So are the memory fraction, the parallel
sizes, lengths, sequences and steps, which the question itself refuses for any release.
"""

from __future__ import annotations

from kvplan.engines.common.bounds import Bound

_SPECULATIVE = "draft_tensor_parallel_size max_model_len num_speculative_tokens prompt_lookup_max prompt_lookup_min"

BOUNDS = (
    Bound("--device-memory-utilization", above=0, most=1, since="0.31"),
    Bound("--mamba-block-size --stream-interval", least=1, since="0.11.1"),
    Bound("--max-long-partial-prefills --max-num-partial-prefills", least=1, most=1, since="0.11"),  # arg_utils.py: V1 has none
    Bound("--cpu-offload-gb --eplb-config.num_redundant_experts --num-lookahead-slots --swap-space", least=0, since="0.11.1"),
    Bound(" ".join(f"--speculative-config.{key}" for key in _SPECULATIVE.split()), least=1, since="0.11.1"),
    Bound("--speculative-config.disable_by_batch_size", least=2, since="0.11.1"),
    Bound("--kv-cache-metrics-sample", above=0, most=1, since="0.12"),
    Bound("--profiler-config.delay_iterations --profiler-config.max_iterations", least=0, since="0.13"),
    Bound("--offload-group-size --offload-prefetch-step", least=0, since="0.17"),
    Bound("--offload-num-in-group", least=1, since="0.17"),
    Bound("--profiler-config.active_iterations", least=1, since="0.18"),
    Bound("--profiler-config.wait_iterations --profiler-config.warmup_iterations --shutdown-timeout", least=0, since="0.18"),
    Bound("--eplb-config.log_balancedness_interval --eplb-config.step_interval --eplb-config.window_size", least=1, since="0.20"),
    Bound("--safetensors-prefetch-block-size --safetensors-prefetch-num-threads", least=1, since="0.21"),
    Bound(
        "--max-parallel-loading-workers --nnodes --prefill-context-parallel-size", least=1, since="0.23",
    ),
    Bound(
        "--data-parallel-rank --data-parallel-size-local --dbo-decode-token-threshold --dbo-prefill-token-threshold --node-rank "
        "--ubatch-size",
        least=0, since="0.23",
    ),
    Bound("--max-num-scheduled-tokens", least=0, since="0.23", before="0.32"),
    Bound("--max-num-scheduled-tokens", least=1, since="0.32"),
    Bound("--diffusion-config.canvas_length --prefill-schedule-interval", least=1, since="0.24"),
    Bound("--watermark", least=0, below=1, since="0.24"),
    Bound("--long-prefill-token-threshold", least=0, since="0.25"),
    Bound("--max-logprobs", least=-1, since="0.25"),
    Bound("--prefix-match-unit", least=1, since="0.26"),
    Bound("--replayssm-buffer-len", least=1, since="0.27"),
    Bound("--data-parallel-rpc-port", least=1, most=65535, since="0.28"),
    Bound("--speculative-config.dspark_draft_topk", least=1, since="0.28"),
    Bound("--max-num-queued-reqs --max-num-queued-tokens --prefix-cache-retention-interval", least=0, since="0.29"),
    Bound("--dp-sync-interval --elastic-ep-max-dp-size", least=1, since="0.30"),
    Bound("--max-num-active-seqs", least=1, since="0.31"),
    Bound("--attention-config.sparse_mla_prefill_workspace_factor", least=2, since="0.32"),
    Bound("--attention-config.tokenspeed_mla_min_split_kv", least=1, most=256, since="0.32"),
    Bound("--compilation-config.decoder_replay_trim_threshold", least=0, since="0.32"),
    Bound("--sse-keep-alive-interval", least=0, since="0.29"),
    Bound("--aux-output-config.max_bytes", above=0, since="0.31"),
    Bound("--watchdog-config.check_interval --watchdog-config.timeout", above=0, since="0.33"),
    Bound("--attention-config.indexer_tp_shard_min_rows --speculative-config.fly_window_size", least=1, since="0.33"),
    Bound("--speculative-config.fly_entropy_top_k", least=1, since="0.33"),
    Bound("--speculative-config.fly_entropy_threshold --speculative-config.xpress_topc", least=0, since="0.33"),
)  # fmt: skip
