"""What `trtllm-serve` and the YAML of its --config take: tensorrt_llm/commands/serve.py, llmapi/llm_args.py (1.x).

The YAML wins over the command line, as update_llm_args_with_extra_dict does. Click takes no shortened options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import (
    RELEASE,
    Adapters,
    Answer,
    Arguments,
    Repository,
    adapters_of,
    block,
    key_rows,
    moved,
    names,
    row,
)
from kvplan.engines.common.libraries import LOUD
from kvplan.engines.common.options import read_speculative
from kvplan.engines.common.releases import release
from kvplan.engines.common.words import Finding, Given, refuse, warn
from kvplan.errors import UnsupportedError
from kvplan.units import parse_bytes

#: Formats of a cache that it calls otherwise.
KV_FORMATS = {"fp8_e4m3": "fp8"}

#: Tags of its images keep the candidate, whose rules may be others than the release's (rules.py).
ROWS = (
    row("--model --model-path", "@model", printed="model_path"),
    row("--config --extra_llm_api_options --extra-engine-args", "@config"),
    row("--max_batch_size", "max_num_seqs", "int", key="max_batch_size"),
    row("--max_num_tokens", "max_num_batched_tokens", "int", key="max_num_tokens"),
    row("--max_seq_len", "max_model_len", "int", key="max_seq_len"),
    row("--tp_size --tp --tensor_parallel_size", "tp", "int", key="tensor_parallel_size"),
    row("--pp_size --pp --pipeline_parallel_size", "pp", "int", key="pipeline_parallel_size"),
    row("--ep_size --ep --moe_expert_parallel_size", "ep", "int", key="moe_expert_parallel_size"),
    row("--cp_size --context_parallel_size", "!cp", "int", effect="more"),
    row("--cluster_size --moe_cluster_parallel_size", "!cluster", "int", effect="either"),
    row(
        "--kv_cache_free_gpu_memory_fraction --free_gpu_memory_fraction --kv_cache_free_gpu_mem_fraction", "memory_fraction", "float",
        key="kv_cache_config.free_gpu_memory_fraction",
    ),
    row("", "kv_dtype", "format", key="kv_cache_config.dtype", says=KV_FORMATS),
    row("--kv_cache_dtype", "kv_dtype", "format", says=KV_FORMATS),
    row("", "block_size", "int", key="kv_cache_config.tokens_per_block"),
    row("--tokens_per_block", "block_size", "int"),
    row("", "dtype", "compute", key="dtype"),
    row("", "kv_memory", "int", key="kv_cache_config.max_gpu_total_bytes"),
    row("", "option:max_tokens", "int", key="kv_cache_config.max_tokens"),
    row("", "option:enable_block_reuse", "truth", key="kv_cache_config.enable_block_reuse"),
    row("--disable_kv_cache_reuse", "option:enable_block_reuse", takes="flag", value=False),
    row("", "option:host_cache_size", "int", key="kv_cache_config.host_cache_size"),
    row("", "option:max_attention_window", "counts", key="kv_cache_config.max_attention_window"),
    row("", "option:mamba_ssm_cache_dtype", key="kv_cache_config.mamba_ssm_cache_dtype"),
    row("", "option:use_kv_cache_manager_v2", "truth", key="kv_cache_config.use_kv_cache_manager_v2"),
    row("", "option:enable_attention_dp", "truth", key="enable_attention_dp"),
    row("--enable_attention_dp", "option:enable_attention_dp", takes="flag"),
    row("", "option:enable_chunked_prefill", "truth", key="enable_chunked_prefill"),
    row("--enable_chunked_prefill", "option:enable_chunked_prefill", takes="flag"),
    row("--max_beam_width", "@beams", "int", key="max_beam_width"),
    row("--backend", "@backend"),
    row("", "@speculative", "json", key="speculative_config"),
    row("", "@graphs", "json", key="cuda_graph_config"),
    row("", "@lora", "json", key="lora_config"),
    row("", "@quant", "json", key="quant_config"),
    row("--max_input_len --gpus_per_node", "", "int"),
    row("--server_role", "!role", effect="either"),
    *block({("", ""): """
        -h=help! tokenizer custom_tokenizer host port log_level num_postprocess_workers trust_remote_code! revision hf_revision
        reasoning_parser tool_parser metadata_server_config_file fail_fast_on_attention_window_too_large! otlp_traces_endpoint
        disagg_cluster_uri media_io_kwargs chat_template custom_module_dirs skip_tokenizer_init!
        served_model_name allow_request_chat_template! grpc! telemetry!
    """}),
    *key_rows("""
        moe_config moe_backend moe_max_num_tokens sparse_attention_config moe_cluster_parallel_size torch_compile_config
        peft_cache_config enable_iter_perf_stats load_format kv_connector_config
        enable_layerwise_nvtx_marker nvfp4_gemm_config enable_min_latency
        allreduce_strategy attn_backend disable_overlap_scheduler enable_trtllm_sampler env_overrides sampler_type scheduler_config
        use_torch_sampler
    """, "either"),
    *key_rows("context_parallel_size enable_lora cache_transceiver_config model_kwargs gather_generation_logits", "more"),
    *key_rows("""
        print_iter_log stream_interval num_postprocess_workers trust_remote_code
        batch_wait_timeout_ms batch_wait_timeout_iters batch_wait_max_tokens_ratio attention_dp_config enable_autotuner
        guided_decoding_backend reasoning_parser backend
        return_perf_metrics perf_metrics_max_requests enable_iter_req_stats otlp_traces_endpoint
        postprocess_tokenizer_dir gpus_per_node orchestrator_type kv_cache_config kv_cache_config.enable_partial_reuse
        kv_cache_config.copy_on_partial_reuse kv_cache_config.event_buffer_max_size
        kv_cache_config.secondary_offload_min_priority
    """),
)  # fmt: skip


#: --backend, as the engine option of that name.
BACKENDS = {"pytorch": "pytorch", "tensorrt": "tensorrt", "trt": "tensorrt"}


def finish(given: Mapping[str, Given], positional: tuple[Given, ...]) -> Answer:
    """The question: what several options say together."""
    question, findings = names(given), list[Finding]()
    for name in ("dtype", "kv_dtype"):
        if name in question and question[name].value == "auto":
            del question[name]
    if one := given.get("@backend"):
        if backend := BACKENDS.get(one.value):
            question["engine_option.backend"] = moved(one, backend)
        else:
            findings.append(warn("not-modelled-either", f"{one.spelled} {one.value}: only pytorch and tensorrt are modelled", one.place))
    if (one := given.get("@beams")) and one.value not in (None, 1):
        findings.append(warn("not-modelled-more", f"{one.spelled}: beam search holds {one.value} caches a request", one.place))
    if (one := given.get("@graphs")) and one.value is None:
        question["enforce_eager"] = moved(one, True)
    elif one and isinstance(one.value, dict) and (sizes := sorted({"batch_sizes", "max_batch_size"} & one.value.keys())):
        message = f"{one.spelled}: {', '.join(sizes)}: which graphs are captured changes memory in a way that is not modelled"
        findings.append(warn("not-modelled-either", message, one.place))
    if one := given.get("@speculative"):
        findings += _speculative(one, question, built=_is_built(given))
    adapters: Adapters | None = None
    if (one := given.get("@lora")) and one.value is not None:
        said, adapters = _lora(one, question)
        findings += said
    if (one := question.get("memory_fraction")) and not 0 < one.value <= 1:
        findings.append(refuse(f"{one.spelled} {one.value:g} is not above 0 and at most 1", one.place))
        del question["memory_fraction"]
    drop = question.get("kv_memory")
    if drop and not drop.value:
        del question["kv_memory"]
    quant = given.get("@quant")
    config = quant.value if quant and isinstance(quant.value, dict) else {}
    if quant and str(config.get("kv_cache_quant_algo") or "").upper() == "FP8" and "kv_dtype" not in question:
        question["kv_dtype"] = moved(quant, "fp8")
    weights = moved(quant, config["quant_algo"]) if quant and config.get("quant_algo") else None
    model = given.get("@model") or next((word for word in positional if word.value != "serve"), None)
    return Answer(question, model, tuple(findings), weights=weights, adapters=adapters)


def _is_built(given: Mapping[str, Given]) -> bool:
    """Whether an engine that trtllm-build made is served: asked for, or the release's default."""
    version = str(given[RELEASE].value) if RELEASE in given else ""
    return BACKENDS.get(given["@backend"].value) == "tensorrt" if "@backend" in given else () < release(version) < (1, 0)


def _speculative(one: Given, question: dict[str, Given], *, built: bool) -> list[Finding]:
    value: Any = one.value
    if not isinstance(value, dict):
        return [] if value is None else [refuse(f"{one.spelled}: not a mapping", one.place)]
    kind = str(value.get("decoding_type", "")).lower().replace("_", "")
    method = {name.lower().replace("_", ""): method for method, name in DECODING.items()}.get(kind, "eagle3" if kind == "eagle3" else None)
    method = "eagle" if kind == "eagle" and built else method  # under PyTorch it is another name of Eagle3
    tokens = value.get("num_nextn_predict_layers") if method == "mtp" else value.get("max_draft_len")
    if method is None or not isinstance(tokens, int) or tokens < 1:
        return [warn("not-modelled-more", f"{one.spelled}: decoding_type {kind or 'missing'} is not modelled", one.place)]
    model = value.get("speculative_model_dir") or value.get("speculative_model")
    question["speculative"] = moved(one, f"{method}:{tokens}" + (f":{model}" if model else ""))
    return []


#: Its names of modules -> those of checkpoints (tensorrt_llm/lora_helper.py get_default_trtllm_modules_to_hf_modules).
LORA_MODULES = {
    "attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_dense": "o_proj",
    "mlp_h_to_4h": "gate_proj", "mlp_gate": "up_proj", "mlp_4h_to_h": "down_proj",
}  # fmt: skip


def _lora(one: Given, question: dict[str, Given]) -> tuple[list[Finding], Adapters | None]:
    """lora_config: rank and adapters of the device cache, and the modules that it names; lora_dir where the rank is in its files."""
    value: Any = one.value
    if not isinstance(value, dict):
        return [refuse(f"{one.spelled}: not a mapping", one.place)], None
    rank, adapters = value.get("max_lora_rank"), value.get("max_loras")
    if not all(isinstance(n, int) and n > 0 for n in (rank, adapters)):
        if found := adapters_of(moved(one, value.get("lora_dir")), adapters if isinstance(adapters, int) else None):
            return [], found
        said = f"{one.spelled}: say max_lora_rank and max_loras, or its device cache is not known"
        return [warn("not-modelled-more", said, one.place)], None
    question["lora"] = moved(one, f"{rank}x{adapters}")
    modules = [str(name)[:40] for name in value.get("lora_target_modules") or []]
    if strange := [name for name in modules if name not in LORA_MODULES]:
        said = f"{one.spelled}: adapters of all linear modules are counted, not of {strange[0]}"
        return [warn("not-modelled-either", said, one.place)], None
    if modules:
        question["engine_option.lora_target_modules"] = moved(one, ",".join(LORA_MODULES[name] for name in modules))
    return [], None


DECODING = {
    "mtp": "MTP", "eagle": "Eagle", "eagle3": "Eagle", "ngram": "NGram", "draft_model": "Draft_Target", "dflash": "DFlash",
    "dspark": "DSpark", "suffix": "SA", "medusa": "Medusa", "lookahead": "Lookahead", "user_provided": "User_Provided",
}  # fmt: skip


def say(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The other way of `finish`."""
    says: dict[str, Any] = {}
    said = {"speculative"} | {name for name in ("lora", "multimodal") if asked.get(name) == ("off" if name == "lora" else "on")}
    if asked.get("enforce_eager"):
        says["@graphs"] = None
        said.add("enforce_eager")
    if (host := asked.get("option:host_cache_size")) is not None:
        says["option:host_cache_size"] = parse_bytes(host, "host_cache_size")
        said.add("option:host_cache_size")
    if draft := read_speculative(asked.get("speculative")):
        if draft.method not in DECODING:
            raise UnsupportedError(f"TensorRT-LLM has no speculative method {draft.method}")
        length = "num_nextn_predict_layers" if draft.method == "mtp" else "max_draft_len"
        config = {"decoding_type": DECODING[draft.method], length: draft.tokens}
        says["@speculative"] = config | ({"speculative_model_dir": draft.model} if draft.model else {})
    return says, said


ARGUMENTS = Arguments(
    "tensorrt-llm",
    ROWS,
    finish,
    say,
    ("trtllm-serve",),
    commands=("trtllm-serve",),
    modules={"tensorrt_llm.commands.serve": "", "dynamo.trtllm": ""},
    others=frozenset({"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "visual_gen"}),
    config="keys",
    prefix=("TLLM_", "TRTLLM_"),
    quiet_named=r"_(LOG|LOG_LEVEL|DISABLE_GC|ENABLE_PDL)$",  # what is logged, Python's collector, how kernels are launched
    loud_variables=(*LOUD, "TLLM_OVERRIDE_LAYER_NUM"),
    image=("nvcr.io/nvidia/tensorrt-llm/release", "{}", "latest"),
    repositories=(Repository(r"(^|/)tensorrt-llm/(release|devel)$"),),
    every_size=True,
)
