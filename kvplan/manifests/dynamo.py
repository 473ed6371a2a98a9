"""NVIDIA Dynamo's workers: `python -m dynamo.vllm` and its like take the engine's options with their own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kvplan.engines.common.words import Word

#: Dynamo's own options without a value, and with one, that set nothing in the engine's memory.
_DYNAMO_FLAGS = frozenset({
    "is-prefill-worker", "is-decode-worker", "use-vllm-tokenizer", "use-sglang-tokenizer", "enable-local-indexer", "durable-kv-events",
    "publish-events-and-metrics", "publish-metrics", "disable-request-abort", "multimodal-processor", "multimodal-encode-worker",
    "multimodal-worker", "multimodal-decode-worker", "enable-multimodal", "route-to-encoder", "enable-rl", "use-nixl-connect", "headless",
    "embedding-worker",
})  # fmt: skip
_DYNAMO_TAKES = frozenset({
    "namespace", "endpoint", "discovery-backend", "request-plane", "event-plane", "store-kv", "migration-limit", "dyn-tool-call-parser",
    "dyn-reasoning-parser", "custom-jinja-template", "dyn-endpoint-types", "endpoint-types", "dump-config-to", "modality",
    "encode-endpoint", "allowed-local-media-path", "max-file-size-mb", "mm-prompt-template", "disaggregation-strategy", "next-endpoint",
    "multimodal-embedding-cache-capacity-gb",
})  # fmt: skip
#: dynamo.trtllm's names of trtllm-serve's options (trtllm/backend_args.py).
_TRTLLM = {
    "tensor-parallel-size": "--tp_size", "pipeline-parallel-size": "--pp_size", "expert-parallel-size": "--ep_size",
    "max-batch-size": "--max_batch_size", "max-num-tokens": "--max_num_tokens", "max-seq-len": "--max_seq_len",
    "max-beam-width": "--max_beam_width", "gpus-per-node": "--gpus_per_node",
    "free-gpu-memory-fraction": "--kv_cache_free_gpu_memory_fraction", "extra-engine-args": "--extra_llm_api_options",
}  # fmt: skip
#: What dynamo.vllm's --connector makes of --kv-transfer-config (ai-dynamo 0.5 to 0.9, vllm/args.py create_kv_transfer_config; from 1.0 on
#: it is refused); of several a connector that holds them.
_CONNECTORS = {
    "nixl": {"kv_connector": "NixlConnector"}, "lmcache": {"kv_connector": "LMCacheConnectorV1"},
    "kvbm": {"kv_connector": "DynamoConnector", "kv_connector_module_path": "kvbm.vllm_integration.connector"},
}  # fmt: skip
_TRTLLM_OWN = frozenset({"served-model-name", "disaggregation-mode"})


def dynamo_words(module: str, after: Sequence[Word]) -> list[Word]:
    """The engine's own words of one of NVIDIA Dynamo's workers (`python -m dynamo.vllm`): ai-dynamo/dynamo components/src/dynamo,
    */backend_args.py and common/configuration."""
    trtllm = module == "dynamo.trtllm"
    out: list[Word] = []
    connectors: list[Word] = []
    skip = many = False
    for word in after:
        name, equals, value = word.text.partition("=")
        is_option = name.startswith("--")
        key = name.removeprefix("--").replace("_", "-") if is_option else ""
        if (skip or many) and not is_option:
            connectors += [word] if many else []
            skip = False
            continue
        skip = many = False
        if key in _DYNAMO_FLAGS or key.removeprefix("no-") in _DYNAMO_FLAGS:
            continue
        if key in _DYNAMO_TAKES or (trtllm and key in _TRTLLM_OWN) or (module == "dynamo.vllm" and key == "disaggregation-mode"):
            skip = not equals
        elif key == "connector":
            many, connectors = not equals, [word._replace(text=value)] if equals else []
        elif trtllm and key == "model-path":
            out += [word._replace(text=value)] if equals else []
        elif trtllm and key in _TRTLLM:
            out.append(word._replace(text=f"{_TRTLLM[key]}={value}" if equals else _TRTLLM[key]))
        else:
            out.append(word)
    return [*out, *_transfers(module, connectors)]


def _transfers(module: str, connectors: Sequence[Word]) -> list[Word]:
    """--connector as the engine's own words."""
    named = [word for word in connectors if word.text.lower() not in ("none", "null")]
    if not named or module != "dynamo.vllm" or any(word.text.lower() not in _CONNECTORS for word in named):
        return [named[0]._replace(text="--connector"), *named] if named else []
    held = [{**_CONNECTORS[word.text.lower()], "kv_role": "kv_both"} for word in named]
    several = {"kv_connector": "PdConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"connectors": held}}
    text = json.dumps(held[0] if len(held) == 1 else several)
    return [named[0]._replace(text="--kv-transfer-config"), named[0]._replace(text=text)]
