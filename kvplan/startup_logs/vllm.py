"""vLLM's start-up log, 0.2 to 0.33: wordings as data, and its arguments in the contract's names.

Wordings from `vllm/worker/worker.py` and `vllm/executor/*` (V0), `vllm/v1/worker/gpu_worker.py`, `gpu_model_runner.py`,
`vllm/v1/core/kv_cache_utils.py` (V1).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvplan.startup_logs.patterns import Arguments, Table, Wording

W = Wording
_SIZE = r"({n})\s?Gi?B"

WORDINGS: tuple[Wording, ...] = (
    # what it runs
    W("API server version", r"API server version (?P<version>{w})", "0.4"),
    W("LLM engine (v", r"LLM engine \(v(?P<version>[\w.+-]{1,80})\)", "0.4"),
    W("version ", r"[▀▄█]\s{1,12}version (?P<version>[\w.+-]{1,80})", "0.17"),
    W("vLLM version", r"vLLM version:? v?(?P<version>[0-9][\w.+-]{1,80})"),
    W("device_name=", r"device_name=(?P<device>[A-Za-z0-9_-]{3,80}?)(?=[,.\s'\"]|$)", "0.3"),
    W("detected platform cpu", r"detected platform (?P<q__platform>cpu)", "0.8"),
    W("max_num_batched_tokens=", r"hunked prefill is enabled with max_num_batched_tokens={q__max_num_batched_tokens}", "0.6"),
    W("Using max model len", r"Using max model len {q__max_model_len}", "0.8"),
    # weights, activations and the rest
    W("took ", r"(?:Loading model weights|Model loading) took {weights__GiB} Gi?B", "0.3"),
    W("model weights take", r"model weights take {weights__GiB}\s?GiB", "0.6.5", "0.9"),
    W("weights memory:", r"weights memory: {weights__GiB}\s?GiB", "0.9"),
    W("peak memory increase:", r"torch peak memory increase: {activation_peak__GiB}\s?GiB", "0.9"),
    W("forward increase memory:", r"non-torch forward increase memory: {non_torch__GiB}\s?GiB", "0.9"),
    W("non_torch", r"non_torch(?:_memory)?(?: takes |=| ){non_torch__GiB}\s?GiB", "0.6.4", "0.9"),
    W("ctivation peak", r"ctivation peak(?: memory)?(?: takes)? {activation_peak__GiB}\s?GiB", "0.6.5", "0.9"),
    W("peak_torch_memory=", r"peak_torch_memory={torch_peak__GiB}\s?Gi?B", "0.6.2", "0.6.4"),
    W("total_gpu_memory", r"total_gpu_memory(?: \(|=| ){total_memory__GiB}\s?Gi?B", "0.6.2", "0.9"),
    W("gpu_memory_utilization", r"gpu_memory_utilization(?: \(|=)(?P<q__memory_fraction>[01]\.[0-9]{1,6})(?=[)\s]|$)", "0.6.2", "0.9"),
    W("Free memory on device", r"Free memory on device(?: [\w:]{1,20})? \({free_memory__GiB}/{total_memory__GiB} GiB\)", "0.9.2"),
    W("Desired", r"Desired(?: GPU memory utilization is)? \({q__memory_fraction}, {requested__GiB} GiB\)", "0.9.2"),
    W("for peak activation", r"Actual usage is {weights__GiB} GiB for weight, {activation_peak__GiB} GiB for peak activation", "0.10.2"),
    W("for non-torch memory", r"{non_torch__GiB} GiB for non-torch memory", "0.10.2"),
    W("for CUDAGraph memory", r"{cuda_graph__GiB} GiB for CUDAGraph memory", "0.10.2"),
    W("consumed (weights", r"{consumed__GiB} GiB consumed \(weights \+ non-torch\), {activation_peak__GiB} GiB peak activation", "0.27"),
    W("CUDAGraph", r"{cuda_graph__GiB} GiB CUDAGraph\b", "0.27"),
    W("CUDA graph memory:", r"Estimated CUDA graph memory: {cuda_graph_estimate__GiB} GiB", "0.18"),
    W("raph capturing finished", r"raph capturing finished in [0-9.]{1,12} secs?, took {cuda_graph__GiB} GiB", "0.4"),
    # the cache
    W("KV", r"(?:reserved for )?KV Cache is {kv_cache__GiB}\s?GiB", "0.6.5", "0.9"),
    W("kv_cache_size=", r"kv_cache_size={kv_cache__GiB}\s?Gi?B", "0.6.2", "0.6.4"),
    W("available_kv_cache_memory", r"available_kv_cache_memory(?: |=){kv_cache__GiB}\s?GiB"),
    W("KV cache memory:", r"[Aa]vailable KV cache memory: {kv_cache__GiB} GiB", "0.8.5"),
    W("kv cache memory in use", r"kv cache memory in use is {kv_cache__GiB} GiB", "0.27"),
    W("kv cache memory in use", r"kv cache memory in use is {kv_cache__bytes} bytes", "0.10.2", "0.26"),
    W("GiB (TP", r" / {kv_cache__GiB}(?: GiB)? \((?P<rank>TP\d{1,3})\)"),
    W("memory for KV Cache as", r"reserved {kv_cache__GiB} GiB memory for KV Cache as specified", "0.10.2"),
    W("blocks:", r"# (?:GPU|CUDA|cuda|gpu|rocm|hpu|neuron) blocks: {blocks__blocks}", "0.2", "0.9"),
    W("KV cache size:", r"(?:GPU|CPU) KV cache size: {tokens__tokens} tokens", "0.8"),
    W("aximum concurrency for", r"aximum concurrency for {q__max_model_len} tokens per request: {concurrency__x}x", "0.6.2"),
    W("attention block size", r"attention block size to {attention_block__tokens}", "0.11"),
    W("mamba page size", r"Padding mamba page size by {state_padding__percent}%", "0.11"),
    # refusals
    W("KV cache is needed", r"max seq len \({q__max_model_len}\), \(?{request__GiB} GiB KV cache is needed", "0.8"),
    W("larger than the available", r"available KV cache memory \({kv_cache__GiB} GiB\)", "0.8"),
    W("estimated maximum model", r"estimated maximum model length is {longest__tokens}", "0.9"),
    W("stored in KV cache", r"max seq len \({q__max_model_len}\) is larger than [^()]{1,100}KV cache \({tokens__tokens}\)", "0.2", "0.9"),
)  # fmt: skip

#: vLLM's argument -> the contract's name.
NAMES: dict[str, str] = {
    "model_tag": "model", "model": "model", "tensor_parallel_size": "tp", "tp": "tp", "pipeline_parallel_size": "pp", "pp": "pp",
    "data_parallel_size": "dp", "dp": "dp", "decode_context_parallel_size": "dcp", "dcp": "dcp", "max_model_len": "max_model_len",
    "max_seq_len": "max_model_len", "max_num_seqs": "max_num_seqs", "max_num_batched_tokens": "max_num_batched_tokens",
    "block_size": "block_size", "dtype": "dtype", "kv_cache_dtype": "kv_dtype", "gpu_memory_utilization": "memory_fraction",
    "kv_cache_memory_bytes": "kv_memory", "kv_cache_memory": "kv_memory", "enforce_eager": "enforce_eager",
}  # fmt: skip
#: Arguments that keep their name as engine options.
OPTIONS: tuple[str, ...] = (
    "async_scheduling", "attention_backend", "disable_hybrid_kv_cache_manager", "enable_prefix_caching", "mamba_cache_mode",
    "mamba_ssm_cache_dtype", "num_gpu_blocks_override", "performance_mode", "swap_space",
)  # fmt: skip
#: `quantization` values that turn 16-bit checkpoints into others while loading; any other just names the checkpoint's own format.
ONLINE_FORMATS: dict[str, str] = {"fp8": "fp8", "bitsandbytes": "nf4"}


def settle(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """vLLM's arguments in the contract's names; engine options under `engine_option`."""
    question: dict[str, Any] = {}
    options: dict[str, str] = {}
    for name, value in arguments.items():
        if value is None or value in ("auto", "None") or value == "":
            continue
        if name in NAMES:
            question[NAMES[name]] = str(value).removeprefix("torch.") if name == "dtype" else value
        elif name in OPTIONS and isinstance(value, (bool, int, float, str)):
            options[name] = str(value).lower() if isinstance(value, bool) else str(value)
    if arguments.get("quantization") in ONLINE_FORMATS:
        question["weight_dtype"] = ONLINE_FORMATS[arguments["quantization"]]
    if arguments.get("enable_expert_parallel") is True:
        question["ep"] = int(question.get("tp", 1)) * int(question.get("dp", 1))
    if arguments.get("enable_lora") is True:
        question["lora"] = f"{arguments.get('max_lora_rank') or 16}x{arguments.get('max_loras') or 1}"
    speculative = _speculative(arguments.get("speculative_config"))
    if speculative:
        question["speculative"] = speculative
    if _text_only(arguments):
        question["multimodal"] = "off"
    if options:
        question["engine_option"] = options
    return question


def _speculative(config: Any) -> str | None:
    if isinstance(config, str) and config.startswith("{"):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            return None
    if not isinstance(config, dict) or not config.get("num_speculative_tokens"):
        return None
    method = str(config.get("method") or "draft_model")
    model = config.get("model")
    return f"{method}:{config['num_speculative_tokens']}" + (f":{model}" if model and method not in ("mtp", "ngram") else "")


def _text_only(arguments: Mapping[str, Any]) -> bool:
    limits = arguments.get("limit_mm_per_prompt")
    return arguments.get("language_model_only") is True or (
        isinstance(limits, dict) and bool(limits) and all(limit == 0 for limit in limits.values())
    )


TABLE = Table(
    engine="vllm",
    wordings=WORDINGS,
    arguments=(
        Arguments("non-default args: ", "mapping", 2),
        Arguments("args: Namespace(", "call", 2),
        Arguments("engine with config: ", "list", 1),
        Arguments(") with config: ", "list", 1),
        Arguments("vllm serve ", "command", 0),
        Arguments("vllm.entrypoints.openai.api_server ", "command", 0),
    ),
    starts=("API server version", "non-default args: ", "LLM engine (v", "LLM engine with config"),
    settle=settle,
    printed_options={"platform": {"cpu": "cpu"}},
    unread=(
        "compilation_config",
        "cpu_offload_gb",
        "enable_sleep_mode",
        "hf_overrides",
        "kv_offloading_size",
        "kv_transfer_config",
        "mm_processor_kwargs",
        "model_loader_extra_config",
        "quantization",
        "override_attention_dtype",
    ),
)
