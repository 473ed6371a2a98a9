"""Caches on Intel's GPUs: lists of vLLM 0.33 v1/attention/backends (flash_attn.py, triton_attn.py, mla), platforms/xpu.py."""

from __future__ import annotations

import pytest

import kvplan

LLAMA, V3 = "meta-llama/llama-3.1-8b", "deepseek-ai/deepseek-v3"


@pytest.mark.parametrize(
    ("model", "device", "format_", "options", "said"),
    [
        (LLAMA, "arc-pro-b70", "nvfp4", {}, "lists a cache of nvfp4"),
        (LLAMA, "arc-pro-b70", "fp8_inc", {}, "lists a cache of fp8_inc"),
        (LLAMA, "arc-pro-b70", "fp8_e5m2", {}, "lists a cache of fp8_e5m2"),
        (LLAMA, "arc-pro-b70", "fp8_e5m2", {"attention_backend": "TRITON_ATTN"}, ""),
        (LLAMA, "arc-pro-b70", "fp8", {}, ""),
        (LLAMA, "arc-pro-b70", "turboquant_k8v4", {}, ""),
        (LLAMA, "gaudi3", "nvfp4", {}, "vllm-gaudi"),
        (LLAMA, "gaudi3", "auto", {}, ""),
    ],
)
def test_a_cache_that_no_backend_lists_is_too_close_to_call(
    model: str, device: str, format_: str, options: dict[str, str], said: str
) -> None:
    plan = kvplan.estimate(model, device=device, context="4k", max_model_len=4096, kv_dtype=format_, engine_option=options)
    doubts = [
        note for note in plan.model.notes if note.startswith("too close to call") and ("lists a cache" in note or "vllm-gaudi" in note)
    ]
    assert plan.certainty != "certain"
    assert [said in note for note in doubts] == ([True] if said else [])


def test_gaudi_is_run_by_a_plugin() -> None:
    assert any("vllm-gaudi" in note for note in kvplan.estimate(LLAMA, device="gaudi3", context="4k").model.notes)
