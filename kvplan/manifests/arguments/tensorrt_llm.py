"""`trtllm-serve` and the YAML of its --config / --extra_llm_api_options: tensorrt_llm/commands/serve.py and llmapi/llm_args.py (1.x).

The YAML wins over the command line, as update_llm_args_with_extra_dict does. Click takes no shortened options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.manifests.arguments.plain import moved, names, number, refuse, warn
from kvplan.manifests.arguments.table import Answer, Engine, Given, block, row
from kvplan.manifests.values import Finding

ROWS = (
    row("--model", "@model"),
    row("--config --extra_llm_api_options", "@config"),
    row("--max_batch_size", "max_num_seqs", "int"),
    row("--max_num_tokens", "max_num_batched_tokens", "int"),
    row("--max_seq_len", "max_model_len", "int"),
    row("--tp_size --tp --tensor_parallel_size", "tp", "int"),
    row("--pp_size --pp --pipeline_parallel_size", "pp", "int"),
    row("--ep_size --ep --moe_expert_parallel_size", "ep", "int"),
    row("--cp_size --context_parallel_size", "!cp", "int", effect="either"),
    row("--cluster_size --moe_cluster_parallel_size", "!cluster", "int", effect="either"),
    row("--kv_cache_free_gpu_memory_fraction --free_gpu_memory_fraction --kv_cache_free_gpu_mem_fraction", "memory_fraction", "float"),
    row("--kv_cache_dtype", "kv_dtype"),
    row("--tokens_per_block", "block_size", "int"),
    row("--max_beam_width", "@beams", "int"),
    row("--backend", "@backend"),
    row("--disable_kv_cache_reuse", "@no_reuse", takes="flag"),
    row("--enable_attention_dp", "@attention_dp", takes="flag"),
    row("--max_input_len --gpus_per_node", "", "int"),
    row("--server_role", "!role", effect="either"),
    *block({("", ""): """
        -h=help! tokenizer custom_tokenizer host port log_level num_postprocess_workers trust_remote_code! revision hf_revision
        reasoning_parser tool_parser metadata_server_config_file fail_fast_on_attention_window_too_large! otlp_traces_endpoint
        disagg_cluster_uri enable_chunked_prefill! media_io_kwargs chat_template custom_module_dirs skip_tokenizer_init!
        served_model_name allow_request_chat_template! grpc! telemetry!
    """}),
)  # fmt: skip

#: Keys of the YAML: path -> what a row of the command line would set.
CONFIG = {
    "max_batch_size": "max_num_seqs",
    "max_num_tokens": "max_num_batched_tokens",
    "max_seq_len": "max_model_len",
    "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp",
    "moe_expert_parallel_size": "ep",
    "dtype": "dtype",
    "kv_cache_config.free_gpu_memory_fraction": "memory_fraction",
    "kv_cache_config.dtype": "kv_dtype",
    "kv_cache_config.tokens_per_block": "block_size",
    "kv_cache_config.max_gpu_total_bytes": "kv_memory",
    "kv_cache_config.max_tokens": "option:max_tokens",
    "kv_cache_config.enable_block_reuse": "option:enable_block_reuse",
    "kv_cache_config.max_attention_window": "option:max_attention_window",
    "kv_cache_config.mamba_ssm_cache_dtype": "option:mamba_ssm_cache_dtype",
    "kv_cache_config.use_kv_cache_manager_v2": "option:use_kv_cache_manager_v2",
    "enable_attention_dp": "@attention_dp",
    "max_beam_width": "@beams",
    "speculative_config": "@speculative",
    "cuda_graph_config": "@graphs",
}
#: Top-level keys whose effect on memory is not modelled, and those without one.
CONFIG_EITHER = frozenset({
    "moe_config", "quant_config", "sparse_attention_config", "lora_config", "context_parallel_size", "moe_cluster_parallel_size",
    "torch_compile_config", "enable_lora", "cache_transceiver_config", "peft_cache_config", "enable_iter_perf_stats",
    "load_format", "model_kwargs", "kv_connector_config", "enable_layerwise_nvtx_marker", "nvfp4_gemm_config", "enable_min_latency",
})  # fmt: skip
CONFIG_QUIET = frozenset({
    "print_iter_log", "stream_interval", "num_postprocess_workers", "enable_chunked_prefill", "disable_overlap_scheduler",
    "trust_remote_code",
    "scheduler_config", "batch_wait_timeout_ms", "batch_wait_timeout_iters", "batch_wait_max_tokens_ratio", "attention_dp_config",
    "enable_autotuner", "attn_backend", "sampler_type", "guided_decoding_backend", "reasoning_parser", "allreduce_strategy", "backend",
    "gather_generation_logits", "return_perf_metrics", "perf_metrics_max_requests", "enable_iter_req_stats", "otlp_traces_endpoint",
    "use_torch_sampler", "enable_trtllm_sampler", "postprocess_tokenizer_dir", "gpus_per_node", "orchestrator_type", "env_overrides",
})  # fmt: skip


def finish(given: Mapping[str, Given], env: Mapping[str, Given], positional: Mapping[str, Given]) -> Answer:
    """The question: what several options say together."""
    question, findings = names(given), list[Finding]()
    for name in ("dtype", "kv_dtype"):
        if name in question and question[name].value == "auto":
            del question[name]
    if (one := given.get("@backend")) and one.value not in ("pytorch",):
        findings.append(warn("not-modelled-either", f"{one.spelled} {one.value}: only the pytorch backend is modelled", one.place))
    if (one := given.get("@beams")) and one.value not in (None, 1):
        findings.append(warn("not-modelled-more", f"{one.spelled}: beam search holds {one.value} caches a request", one.place))
    if "@no_reuse" in given:
        question["engine_option.enable_block_reuse"] = moved(given["@no_reuse"], False)
    if (one := given.get("@attention_dp")) and one.value:
        question["engine_option.enable_attention_dp"] = moved(one, True)
    if (one := given.get("@graphs")) and one.value is None:
        question["enforce_eager"] = moved(one, True)
    if one := given.get("@speculative"):
        findings += _speculative(one, question)
    if (one := question.get("memory_fraction")) and not 0 < one.value <= 1:
        findings.append(refuse(f"{one.spelled} {one.value:g} is not above 0 and at most 1", one.place))
        del question["memory_fraction"]
    drop = question.get("kv_memory")
    if drop and not drop.value:
        del question["kv_memory"]
    words = [positional[key] for key in sorted(positional) if positional[key].value != "serve"]
    return Answer(question, given.get("@model") or (words[0] if words else None), tuple(findings), nodes=number(given, "@nodes"))


def _speculative(one: Given, question: dict[str, Given]) -> list[Finding]:
    value: Any = one.value
    if not isinstance(value, dict):
        return [] if value is None else [refuse(f"{one.spelled}: not a mapping", one.place)]
    kind = str(value.get("decoding_type", "")).lower()
    method = {"mtp": "mtp", "eagle": "eagle3", "eagle3": "eagle3", "ngram": "ngram", "draft_target": "draft_model"}.get(kind)
    tokens = value.get("num_nextn_predict_layers") if method == "mtp" else value.get("max_draft_len")
    if method is None or not isinstance(tokens, int) or tokens < 1:
        return [warn("not-modelled-more", f"{one.spelled}: decoding_type {kind or 'missing'} is not modelled", one.place)]
    model = value.get("speculative_model_dir") or value.get("speculative_model")
    question["speculative"] = moved(one, f"{method}:{tokens}" + (f":{model}" if model else ""))
    return []


ENGINE = Engine("tensorrt-llm", ROWS, finish, config="trtllm")
