"""What SGLang's own command line and checks refuse (words.py): the release's words, and the nearest question that it takes.

Words and releases are those of server_args.py and arg_groups/* of the wheels; rows/sglang_commands.jsonl are answers of that code.
"""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from tests.conftest import planned

LLAMA, R1, V32 = "meta-llama/llama-3.1-8b", "deepseek-ai/deepseek-v3", "deepseek-ai/deepseek-v3.2"
V4, GLM_FLASH, NEXT = "deepseek-ai/deepseek-v4-flash", "zai-org/glm-5.3-flash", "qwen/qwen3-next-80b-a3b"
EXAONE, GEMMA, SCOUT = "lgai-exaone/exaone-4.0-32b", "google/gemma-3-27b", "meta-llama/llama-4-scout-17b-16e"
DP = {"enable_dp_attention": "true"}

#: Release, model, question, engine options, its words; then what is changed so that it starts.
CASES: list[tuple[str, str, dict[str, Any], dict[str, str], str, dict[str, Any]]] = [
    ("0.5.12", LLAMA, {"kv_dtype": "mxfp8"}, {}, "invalid choice: 'mxfp8'", {"kv_dtype": "fp8"}),
    ("0.5.12", LLAMA, {"kv_dtype": "fp4_mx_block16"}, {"attention_backend": "triton"}, "invalid choice: 'fp4_mx_block16'",
     {"kv_dtype": "fp4_e2m1"}),
    ("0.5.18", LLAMA, {"kv_dtype": "fp4_e2m1"}, {"attention_backend": "triton"}, "fp4_e2m1 is deprecated", {"kv_dtype": "fp4_mx_block16"}),
    ("0.5.23", LLAMA, {"kv_dtype": "fp4_e2m1"}, {"attention_backend": "triton"}, "invalid choice: 'fp4_e2m1'",
     {"kv_dtype": "fp4_mx_block16"}),
    ("0.5.23", LLAMA, {"kv_dtype": "fp4_mx_block16"}, {}, "KV4 MHA expects attention_backend",
     {"engine_option": {"attention_backend": "triton"}}),
    ("0.5.23", R1, {"kv_dtype": "bfloat16", "tp": 8, "device": "b200"}, {}, "TensorRT-LLM MLA backend only supports", {"kv_dtype": "bf16"}),
    ("0.5.12", LLAMA, {}, {"enable_two_batch_overlap": "true"}, "moe_a2a_backend cannot be 'none'", {"engine_option": {}}),
    ("0.5.23", LLAMA, {"tp": 4, "dp": 4}, {"enable_two_batch_overlap": "true"}, "without an EP a2a backend",
     {"engine_option": {"enable_two_batch_overlap": "true"} | DP}),
    ("0.5.23", LLAMA, {"tp": 4, "dp": 4}, {"enable_dp_lm_head": "true"}, "enable_dp_lm_head",
     {"engine_option": {"enable_dp_lm_head": "true"} | DP}),
    ("0.5.23", LLAMA, {}, {"enable_unified_memory": "true"}, "only supports hybrid Mamba and hybrid sliding-window", {"engine_option": {}}),
    ("0.5.23", LLAMA, {}, {"shared_experts_tp_size": "1"}, "is only supported for Kimi-K3", {"engine_option": {}}),
    ("0.5.6", LLAMA, {}, {"attention_backend": "fa4"}, "FA4 backend is only supported for prefill", {"engine_version": "0.5.9"}),
    ("0.5.18", EXAONE, {"tp": 4}, {}, "is required for Exaone4ForCausalLM, but got None", {"engine_version": "0.5.23"}),
    ("0.5.23", LLAMA, {}, {"enable_deterministic_inference": "true", "attention_backend": "trtllm_mha"}, "for deterministic inference",
     {"engine_option": {"enable_deterministic_inference": "true"}}),
    ("0.5.3", LLAMA, {}, {"enable_deterministic_inference": "true"}, "for deterministic inference",
     {"engine_option": {"enable_deterministic_inference": "true", "attention_backend": "fa3"}}),
    ("0.5.23", V4, {"tp": 8, "kv_dtype": "bf16"}, {}, "store_dtype == torch.uint8", {"kv_dtype": "auto"}),
    ("0.5.23", V4, {"tp": 8, "speculative": "nextn:1"}, {}, "speculative algorithms are supported for DeepseekV4ForCausalLM",
     {"speculative": "eagle:1"}),
    ("0.5.23", V4, {"tp": 8, "speculative": "eagle:3"}, {"speculative_eagle_topk": "4", "speculative_num_draft_tokens": "8"},
     "with topk == 1 is supported", {"engine_option": {}}),
    ("0.5.23", V32, {"tp": 8, "speculative": "eagle:3"}, {"speculative_eagle_topk": "4"}, "speculative_eagle_topk > 1 with page_size > 1",
     {"engine_option": {}}),
    ("0.5.23", V32, {"tp": 8, "dcp": 2}, {"enable_hierarchical_cache": "true"}, "DSA DCP does not support HiSparse or HiCache",
     {"engine_option": {}}),
    ("0.5.23", GLM_FLASH, {"tp": 8, "dcp": 2}, {}, "not supported for DSA with index_kpool=4", {"dcp": 1}),
    ("0.5.23", LLAMA, {"tp": 2, "dp": 2, "speculative": "ngram:8"}, DP, "does not support dp attention", {"speculative": "off"}),
    ("0.5.9", LLAMA, {"pp": 2}, {"enable_mixed_chunk": "true"}, "mixed chunked prefill", {"engine_option": {}}),
    ("0.5.15", V32, {"tp": 8}, {"kv_canary": "log"}, "no attacher registered for pool class DSATokenToKVPool", {"engine_option": {}}),
    ("0.5.22", LLAMA, {"tp": 2, "dp": 2, "speculative": "dflash:7"}, DP, "DFLASH speculative decoding does not support dp attention",
     {"speculative": "off"}),
    ("0.5.20", "openai/whisper-large-v3", {}, {"enable_hierarchical_cache": "true"}, "mutually exclusive", {"engine_option": {}}),
    ("0.5.21", R1, {"tp": 8, "device": "b200"}, {"attention_backend": "tokenspeed_mla"}, "requires kv-cache-dtype=fp8_e4m3",
     {"kv_dtype": "fp8_e4m3"}),
    ("0.5.20", NEXT, {"tp": 4, "block_size": 512}, {"decode_attention_backend": "hpc_ops"}, "mamba_track_interval % page_size",
     {"block_size": 256}),
    ("0.5.17", NEXT, {"tp": 4}, {"disaggregation_mode": "prefill", "mamba_radix_cache_strategy": "extra_buffer_lazy"},
     "extra_buffer_lazy unsupported under PD", {"engine_version": "0.5.16"}),
    ("0.5.20", NEXT, {"tp": 4}, {"linear_attn_backend": "cutedsl", "mamba_radix_cache_strategy": "extra_buffer"},
     "extra_buffer is not supported for Qwen3NextForCausalLM", {"engine_option": {"mamba_radix_cache_strategy": "extra_buffer"}}),
    ("0.5.22", LLAMA, {"tp": 4, "dp": 4, "max_num_seqs": 3}, DP, "max_running_request is zero", {"engine_version": "0.5.23"}),
]  # fmt: skip


def asked(release: str, model: str, question: dict[str, Any], options: dict[str, str]) -> kvplan.Plan:
    """A question about the cache alone, so that weights do not decide it."""
    whole: dict[str, Any] = {"engine": "sglang", "engine_version": release, "device": "h200", "kv_memory": "40GiB", "context": 1024}
    return planned(model, **whole | {"engine_option": options} | question)


@pytest.mark.parametrize(("release", "model", "question", "options", "words", "change"), CASES, ids=[f"{c[0]}-{c[4][:30]}" for c in CASES])
def test_refused(release: str, model: str, question: dict[str, Any], options: dict[str, str], words: str, change: dict[str, Any]) -> None:
    refused = asked(release, model, question, options)
    assert refused.starts is False
    assert words in refused.verdict
    assert asked(release, model, {**question, **change}, options).starts is True


def test_served_without_images() -> None:
    """configs/model_config.py mm_disabled_models: 0.5.23's own default for one B200 and tp 2 is 0.853, as ModelRunner was given it."""
    plan = planned(GEMMA, engine="sglang", engine_version="0.5.23", device="b200", tp=2, kv_memory="60GiB", context=65536, block_size=64)
    assert plan.question["multimodal"] == ("off", "engine default")
    assert round(plan.question["memory_fraction"][0], 3) == 0.853
    told = planned(GEMMA, engine="sglang", device="b200", tp=2, kv_memory="60GiB", context=65536, multimodal="on")
    assert told.question["memory_fraction"][0] < 0.8


def test_towers_that_are_not_loaded() -> None:
    """models/mllama4.py: Llama 4's towers are built with --enable-multimodal alone; Gemma 3's always are."""
    for model, loaded in ((SCOUT, False), (GEMMA, True)):
        plan = planned(model, engine="sglang", device="h200", tp=8, context=1024)
        assert any(entry.name == "weights: tower" for entry in plan.ledgers[0].entries) is loaded


@pytest.mark.parametrize("device", ["h100", "mi300x"])
def test_fp4_without_a_release_hangs_on_it(device: str) -> None:
    """0.5.21 and later take no fp4_e2m1 (arg_groups/fields/model.py); public starts with it name no release."""
    ask = {"engine": "sglang", "device": device, "context": "8k", "kv_dtype": "fp4_e2m1"}
    plan, named = kvplan.estimate(LLAMA, **ask), kvplan.estimate(LLAMA, engine_version="0.5.23", **ask)
    assert (named.starts, "invalid choice: 'fp4_e2m1'" in named.verdict) == (False, True)
    assert plan.certainty == "too close to call"
    assert any("0.5.23 is taken, name yours" in note for note in plan.model.notes)
