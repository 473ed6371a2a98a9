"""SGLang's start-up log: wordings as data, and its arguments in the contract's names. Its "GB" are 2^30 bytes.

Wordings from `sglang/srt/model_executor/model_runner.py`, `mem_cache/memory_pool.py`, `managers/scheduler.py`, 0.3 to 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.startup_logs.patterns import Arguments, Figure, Table, Wording

W = Wording

WORDINGS: tuple[Wording, ...] = (
    W("sglang", r"\bsglang(?:==| version:? | v)(?P<version>[0-9][\w.+-]{1,60})"),
    W("device_name=", r"device_name=(?P<device>[A-Za-z0-9_-]{3,80}?)(?=[,.\s'\"]|$)"),
    W("distributed ends", r"Init torch distributed ends\.(?: elapsed=[^,\n]{1,20},)? mem usage={distributed__GiB} GB", "0.4"),
    W("Load weight begin", r"Load weight begin\. avail mem={free_memory__GiB} GB", "0.1"),
    W("Load weight end", r"Load weight end\.[^\n]{0,300}?mem usage={weights__GiB} GB", "0.4"),
    W("Load weight end", r"Load weight end\.[^\n]{0,300}?avail mem={free_after_load__GiB} GB", "0.1"),
    W("#tokens:", r"KV Cache is allocated\.[^#\n]{0,120}#tokens: {tokens__tokens}", "0.4"),
    W("#tokens:", r"draft: #tokens: {draft_tokens__tokens}"),
    W("K size:", r"\bK size: {k_size__GiB} GB, V size: {v_size__GiB} GB", "0.4"),
    W("KV size:", r"\bKV size: {kv_cache__GiB} GB", "0.4"),
    W("KVPool mem usage:", r"SWAKVPool mem usage: {kv_cache__GiB} GB", "0.5.10"),
    W("KVPool mem usage:", r"swa size: {window_tokens__tokens}, full size: {full_tokens__tokens}", "0.5.10"),
    W("Mamba Cache is allocated", r"max_mamba_cache_size: {state_slots__count}", "0.5.4"),
    W("_state size:", r"(?:ssm|temporal)_state size: {state_cache__GiB}\s?GB", "0.5.4"),
    W("_state size:", r"conv_state size: {conv_cache__GiB}\s?GB", "0.5.4"),
    W("swa_layer_tokens", r"full_layer_tokens={full_tokens__tokens}, swa_layer_tokens={window_tokens__tokens}", "0.4.7"),
    W("Memory pool end", r"Memory pool end\. avail mem={free_after_pool__GiB} GB", "0.1"),
    W("raph end", r"Capture [\w ]{0,40}graph end\.[^\n]{0,80}?mem usage={cuda_graph__GiB} GB", "0.4.5"),
    W("max_total_num_tokens=", r"max_total_num_tokens={tokens__tokens}(?=,|\s|$)", "0.1"),
    W("max_running_requests=", r"max_total_num_tokens=[\d,]{1,20}[^\n]{0,120}max_running_requests={q__max_num_seqs}", "0.2"),
    W("context_len=", r"max_total_num_tokens=[\d,]{1,20}[^\n]{0,200}context_len={q__max_model_len}", "0.2"),
    W("minimum viable", r"minimum viable (?P<least_fraction__fraction>0\.[0-9]{1,6})", "0.5"),
)

#: SGLang's argument -> the contract's name.
NAMES: dict[str, str] = {
    "model_path": "model", "model": "model", "tp_size": "tp", "tensor_parallel_size": "tp", "tp": "tp", "pp_size": "pp", "dp_size": "dp",
    "dp": "dp", "ep_size": "ep", "context_length": "max_model_len", "max_running_requests": "max_num_seqs",
    "chunked_prefill_size": "max_num_batched_tokens", "page_size": "block_size", "dtype": "dtype", "kv_cache_dtype": "kv_dtype",
    "mem_fraction_static": "memory_fraction",
}  # fmt: skip
OPTIONS: tuple[str, ...] = (
    "attention_backend", "cuda_graph_max_bs", "disable_radix_cache", "enable_dp_attention", "swa_full_tokens_ratio",
    "mamba_full_memory_ratio", "max_total_tokens", "max_mamba_cache_size", "disable_hybrid_swa_memory",
)  # fmt: skip


def settle(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """SGLang's arguments in the contract's names; engine options under `engine_option`."""
    question: dict[str, Any] = {}
    options: dict[str, str] = {}
    for name, value in arguments.items():
        if value is None or value in ("auto", "None", "") or (name == "chunked_prefill_size" and value == -1):
            continue
        if name in NAMES:
            question[NAMES[name]] = value
        elif name in OPTIONS:
            options[name] = str(value).lower() if isinstance(value, bool) else str(value)
    if arguments.get("disable_cuda_graph") is True:
        question["enforce_eager"] = True
    steps = arguments.get("speculative_num_draft_tokens") or arguments.get("speculative_num_steps")
    if arguments.get("speculative_algorithm") and steps:
        model = arguments.get("speculative_draft_model_path")
        question["speculative"] = f"{str(arguments['speculative_algorithm']).lower()}:{steps}" + (f":{model}" if model else "")
    if options:
        question["engine_option"] = options
    return question


def finish(figures: list[Figure]) -> list[Figure]:
    """K and V together are the cache, both kinds of states the states; a second weight load or pool of a rank is the draft model's."""
    result: list[Figure] = []
    seen: set[tuple[str, str | None]] = set()
    for i, figure in enumerate(figures):
        name = figure.name
        if name in ("weights", "k_size", "v_size") and (name, figure.rank) in seen and not _repeats(figure, result):
            figure = figure._replace(name=f"draft_{name}")
        seen.add((name, figure.rank))
        result.append(figure)
        before = figures[i - 1] if i else None
        if figure.name == "v_size" and before is not None and before.name == "k_size":
            result.append(figure._replace(name="kv_cache", value=round(before.value + figure.value, 9)))
        if figure.name == "state_cache":
            conv = next((f.value for f in figures if f.name == "conv_cache" and (f.rank, f.line) == (figure.rank, figure.line)), 0.0)
            result.append(figure._replace(name="states", value=round(conv + figure.value, 9)))
    return result


def _repeats(figure: Figure, earlier: list[Figure]) -> bool:
    """Ranks without a prefix print the same line one after another: a repeat within a few lines is no draft model."""
    same = [f for f in earlier if f.name == figure.name and f.rank == figure.rank]
    return figure.name == "weights" and figure.rank is None and abs(same[-1].value - figure.value) < 0.5 * same[-1].value


TABLE = Table(
    engine="sglang",
    wordings=WORDINGS,
    arguments=(
        Arguments("server_args=ServerArgs(", "call", 2),
        Arguments("server_args=PrefillServerArgs(", "call", 2),
        Arguments("sglang.launch_server ", "command", 0),
    ),
    starts=("server_args=",),
    settle=settle,
    unread=(
        "cpu_offload_gb",
        "enable_memory_saver",
        "json_model_override_args",
        "quantization",
        "enable_eplb",
        "ep_num_redundant_experts",
        "max_loras_per_batch",
        "lora_paths",
        "enable_symm_mem",
        "enable_nccl_nvls",
    ),
    finish=finish,
)
