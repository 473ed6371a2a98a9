"""NVIDIA Dynamo's workers: `python -m dynamo.vllm`, `dynamo.sglang`, `dynamo.trtllm`. They hand the engine's options on, beside their own.

Source: ai-dynamo/dynamo components/src/dynamo/{vllm,sglang,trtllm}/backend_args.py and common/configuration.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engines.common.words import Word

#: Options without a value, and with one, that set nothing in the engine's memory.
FLAGS = frozenset({
    "is-prefill-worker", "is-decode-worker", "use-vllm-tokenizer", "use-sglang-tokenizer", "enable-local-indexer", "durable-kv-events",
    "publish-events-and-metrics", "publish-metrics", "disable-request-abort", "multimodal-processor", "multimodal-encode-worker",
    "multimodal-worker", "multimodal-decode-worker", "enable-multimodal", "route-to-encoder", "enable-rl", "use-nixl-connect", "headless",
    "embedding-worker",
})  # fmt: skip
TAKES = frozenset({
    "namespace", "endpoint", "discovery-backend", "request-plane", "event-plane", "store-kv", "migration-limit", "dyn-tool-call-parser",
    "dyn-reasoning-parser", "custom-jinja-template", "dyn-endpoint-types", "endpoint-types", "dump-config-to", "modality",
    "encode-endpoint", "allowed-local-media-path", "max-file-size-mb", "mm-prompt-template", "disaggregation-strategy", "next-endpoint",
    "multimodal-embedding-cache-capacity-gb", "connector",
})  # fmt: skip
#: dynamo.trtllm's names of trtllm-serve's options (trtllm/backend_args.py).
TRTLLM = {
    "tensor-parallel-size": "--tp_size", "pipeline-parallel-size": "--pp_size", "expert-parallel-size": "--ep_size",
    "max-batch-size": "--max_batch_size", "max-num-tokens": "--max_num_tokens", "max-seq-len": "--max_seq_len",
    "max-beam-width": "--max_beam_width", "gpus-per-node": "--gpus_per_node",
    "free-gpu-memory-fraction": "--kv_cache_free_gpu_memory_fraction", "extra-engine-args": "--extra_llm_api_options",
}  # fmt: skip
_TRTLLM_OWN = frozenset({"served-model-name", "disaggregation-mode"})


def words(module: str, after: Sequence[Word]) -> list[Word]:
    """The engine's own words of a worker's."""
    trtllm = module == "dynamo.trtllm"
    out: list[Word] = []
    skip = many = False
    for word in after:
        name, equals, value = word.text.partition("=")
        is_option = name.startswith("--")
        key = name.removeprefix("--").replace("_", "-") if is_option else ""
        if (skip or many) and not is_option:
            skip = False
            continue
        skip = many = False
        if key in FLAGS or key.removeprefix("no-") in FLAGS:
            continue
        if key in TAKES or (trtllm and key in _TRTLLM_OWN) or (module == "dynamo.vllm" and key == "disaggregation-mode"):
            skip, many = not equals, key == "connector" and not equals
        elif trtllm and key == "model-path":
            out += [word._replace(text=value)] if equals else []
        elif trtllm and key in TRTLLM:
            out.append(word._replace(text=f"{TRTLLM[key]}={value}" if equals else TRTLLM[key]))
        else:
            out.append(word)
    return out
