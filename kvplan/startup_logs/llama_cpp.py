"""The start-up logs of llama.cpp and Ollama: wordings as data, settings in the contract's names.

Wordings from `src/llama-context.cpp`, `src/llama-kv-cache*.cpp`, `src/llama-memory-recurrent.cpp`, `src/llama-model.cpp`, and
Ollama's `llm/server.go`, `ml/device.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.startup_logs.patterns import Arguments, Figure, Table, Wording

W = Wording
_KV = r"size = {0,6}{kv_size__MiB} MiB \( {0,8}{cells__cells} cells, {0,6}{layers__layers} layers"
_TYPES = r"K \((?P<q__k_type>\w{1,16})\): {0,8}{k_size__MiB} MiB, V \((?P<q__v_type>\w{1,16})\): {0,8}{v_size__MiB} MiB"

WORDINGS: tuple[Wording, ...] = (
    W("build: ", r"build: (?P<version>b?\d{3,6})(?= \()"),
    W("general.name", r"general\.name(?: {0,24}(?:str)? {0,24}= {0,4}| {0,30}: )(?P<model>[^\n]{1,120})"),
    W("meta data with", r"from (?P<model_file>[^\n]{1,300}?\.gguf)"),
    W("using device", r"using device \w{1,20} \((?P<device>[^()\n]{1,80}(?:\([^()]{1,40}\))?)\)"),
    W("MiB free", r" - {free_memory__MiB} MiB free"),
    W("compute capability", r"Device \d{1,3}: (?P<device>[^,\n]{1,80}), compute capability"),
    W("n_ctx ", r"\bn_ctx {1,16}= {0,4}{q__n_ctx}"),
    W("n_seq_max", r"n_seq_max {1,12}= {0,4}{q__max_num_seqs}"),
    W("n_batch", r"n_batch {1,12}= {0,4}{q__max_num_batched_tokens}"),
    W("n_ubatch", r"n_ubatch {1,12}= {0,4}{q__n_ubatch}"),
    W("flash_attn", r"flash_attn {1,12}= {0,4}(?P<q__flash_attn>\w{1,10})"),
    W("kv_unified", r"kv_unified {1,12}= {0,4}(?P<q__kv_unified>\w{1,8})"),
    W("layers to GPU", r"offloaded {q__n_gpu_layers}/{model_layers__layers} layers to GPU"),
    W("model buffer size", r"(?P<rank>[\w.\[\]-]{1,40}) +model buffer size = {0,8}{model_buffer__MiB} MiB"),
    W("KV buffer size", r"(?P<rank>[\w.\[\]-]{1,40}) +KV buffer size = {0,8}{kv_buffer__MiB} MiB"),
    W("RS buffer size", r"(?P<rank>[\w.\[\]-]{1,40}) +RS buffer size = {0,8}{state_buffer__MiB} MiB"),
    W("compute buffer size", r"(?P<rank>[\w.\[\]-]{1,40}) +compute buffer size = {0,8}{compute_buffer__MiB} MiB"),
    W("output buffer size", r"(?P<rank>[\w.\[\]-]{1,40}) +output buffer size = {0,8}{output_buffer__MiB} MiB"),
    W("KV cache, size =", r"creating +non-SWA KV cache, size = {0,8}{base_cache__cells} cells"),
    W("KV cache, size =", r"creating +SWA KV cache, size = {0,8}{swa_cache__cells} cells"),
    W(" MiB (", r"llama_kv_cache\w{0,16}: " + _KV),
    W("KV self size", r"KV self size {1,4}= {0,8}{kv_size__MiB} MiB"),
    W(" MiB, V (", _TYPES),
    W("kv_size =", r"kv_size = {cells__cells}, [^\n]{0,120}?n_layer = {layers__layers}"),
    W("R (f32)", r"size = {0,8}{state_size__MiB} MiB \( {0,8}{states__count} cells, {0,6}{state_layers__layers} layers"),
    W("memory.required.kv", r'memory\.required\.kv="?\[?{kv_estimate__MiB} MiB'),
    W("memory.graph.full", r'memory\.graph\.full="{compute_estimate__MiB} MiB"'),
    W('msg="kv cache"', r'msg="kv cache" device=(?P<rank>\w{1,20}) size="{kv_buffer__MiB} MiB"'),
    W('msg="compute graph"', r'msg="compute graph" device=(?P<rank>\w{1,20}) size="{compute_buffer__MiB} MiB"'),
    W('msg="model weights"', r'msg="model weights" device=(?P<rank>\w{1,20}) size="{model_buffer_gib__GiB} GiB"'),
    W('msg="inference compute"', r'description="(?P<device>[^"\n]{1,80})"'),
    W('msg="inference compute"', r'\btotal="{total_memory__GiB} GiB"'),
)  # fmt: skip

#: llama.cpp's flags -> the contract's names.
NAMES: dict[str, str] = {
    "m": "model", "model": "model", "c": "max_model_len", "ctx_size": "max_model_len", "np": "max_num_seqs", "parallel": "max_num_seqs",
    "b": "max_num_batched_tokens", "batch_size": "max_num_batched_tokens", "ngl": "n_gpu_layers", "n_gpu_layers": "n_gpu_layers",
    "gpu_layers": "n_gpu_layers",
}  # fmt: skip
OPTIONS: dict[str, str] = {"ub": "n_ubatch", "ubatch_size": "n_ubatch", "fa": "flash_attn", "flash_attn": "flash_attn"}


def settle(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Flags and printed settings in the contract's names: printed ones (`n_ctx`, `n_ubatch`, ...) are what the engine resolved."""
    question: dict[str, Any] = {}
    options: dict[str, str] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        if name in NAMES:
            question[NAMES[name]] = value
        elif name in OPTIONS:
            options[OPTIONS[name]] = str(value).lower()
    if arguments.get("n_ctx"):
        question["max_model_len"] = int(arguments["n_ctx"])
    if arguments.get("n_ubatch"):
        options["n_ubatch"] = str(arguments["n_ubatch"])
    unified = str(arguments.get("kv_unified") or "").lower()
    if unified in ("true", "false"):
        options["kv_unified"] = unified
    flash = str(arguments.get("flash_attn") or "").lower()
    if flash in ("enabled", "1", "true", "on"):
        options["flash_attn"] = "on"
    elif flash in ("disabled", "0", "false", "off"):
        options["flash_attn"] = "off"
    k = arguments.get("k_type") or arguments.get("cache_type_k") or arguments.get("ctk")
    v = arguments.get("v_type") or arguments.get("cache_type_v") or arguments.get("ctv")
    if k or v:
        question["kv_dtype"] = str(k or v) if k == v or not (k and v) else f"{k}/{v}"
    if options:
        question["engine_option"] = options
    return question


def finish(figures: list[Figure]) -> list[Figure]:
    """Sizes that follow the line that announces the sliding-window cache belong to it: their names get `swa_` before them."""
    result: list[Figure] = []
    window = False
    for figure in figures:
        if figure.name in ("base_cache", "swa_cache"):
            window = figure.name == "swa_cache"
        elif window and figure.name in ("kv_size", "cells", "layers", "k_size", "v_size"):
            figure = figure._replace(name=f"swa_{figure.name}")
        elif window and figure.name in ("compute_buffer", "model_buffer"):
            window = False
        result.append(figure)
    return result


TABLE = Table(
    engine="llama.cpp",
    wordings=WORDINGS,
    arguments=(
        Arguments("llama-server ", "command", 0),
        Arguments("llama-cli ", "command", 0),
        Arguments("starting llama server", "command", 0),
    ),
    starts=("llama_model_loader: loaded meta data",),
    settle=settle,
    finish=finish,
)
