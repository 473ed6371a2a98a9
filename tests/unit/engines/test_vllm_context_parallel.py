"""DCP and PCP together: config/parallel.py of vLLM 0.25 to 0.33, models/kimi_k3 and deepseek_v4 of 0.28 to 0.33."""

from __future__ import annotations

import pytest

from tests.conftest import planned

V3, PCP = "deepseek-ai/deepseek-v3", "prefill_context_parallel_size"


def reason(model: str, version: str, pcp: int, **question: int) -> str:
    options = {PCP: str(pcp)} if pcp > 1 else {}
    asked = {"device": "h200", "max_model_len": 4096, "engine_option": options, **question}
    return planned(model, engine="vllm", engine_version=version, **asked).outcome.reason or ""


@pytest.mark.parametrize(("version", "pcp", "tp", "dcp", "words"), [
    ("0.33.0", 1, 8, 3, "tp_size=8 must be divisible by dcp_size=3."),
    ("0.33.0", 2, 8, 4, "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full"),
    ("0.33.0", 3, 8, 3, ""),  # DCP over PCP's ranks, though 3 is no part of tp
    ("0.33.0", 2, 8, 2, ""),
    ("0.26", 2, 8, 4, "When PCP is enabled, DCP must be disabled"),
])  # fmt: skip
def test_dcp_beside_pcp(version: str, pcp: int, tp: int, dcp: int, words: str) -> None:
    found = reason(V3, version, pcp, tp=tp, dcp=dcp)
    assert words in found if words else ("DCP" not in found and "dcp_size" not in found)


@pytest.mark.parametrize(("version", "stops"), [("0.26", True), ("0.29", True), ("0.30", False), ("0.33.0", False)])
def test_pcp_and_replicas(version: str, stops: bool) -> None:
    assert ("PCP does not support data parallelism yet." in reason(V3, version, 2, tp=8, dp=2)) is stops


@pytest.mark.parametrize(("model", "words"), [
    ("deepseek-ai/DeepSeek-V4-Flash", "PCP requires attention backend support, but"),
    (V3, ""),
])  # fmt: skip
def test_classes_without_kernels_for_it(model: str, words: str) -> None:
    found = reason(model, "0.33.0", 2, tp=8)
    assert words in found if words else "PCP" not in found


@pytest.mark.parametrize(("model", "version", "device", "tp", "dcp", "kv_memory", "stops"), [
    ("llama-3.1-8b", "0.10.2", "h100", 8, 8, None, True),
    ("llama-3.1-8b", "0.11.0", "h100", 8, 8, "40GiB", True),  # it comes after the cache is allocated, with its bytes given or not
    ("llama-3.1-8b", "0.11.0", "b200", 8, 2, None, True),
    ("qwen3-235b-a22b", "0.10.2", "h200", 8, 4, None, True),  # 4 KV heads: two copies of each, and no kernel that shares them
    ("qwen3-235b-a22b", "0.11.1", "h200", 8, 2, None, False),  # FlashAttentionImpl.can_return_lse_for_decode = True
    (V3, "0.10.2", "h200", 8, 8, None, False),  # FlashMLAImpl's is True in both
    (V3, "0.11.0", "b200", 8, 8, None, False),  # CutlassMLAImpl's too
    (V3, "0.10.2", "rtx-pro-6000", 8, 8, "40GiB", False),  # a question about the cache alone: TritonMLAImpl is warned of
    (V3, "0.10.2", "rtx-pro-6000", 8, 8, None, True),  # TritonMLAImpl has the flag since 0.11.0
    (V3, "0.11.0", "rtx-pro-6000", 8, 8, None, False),
])  # fmt: skip
def test_kernels_that_weigh_their_part(
    model: str, version: str, device: str, tp: int, dcp: int, kv_memory: str | None, stops: bool
) -> None:
    """can_return_lse_for_decode in vllm/v1/attention/backends of 0.10.2, 0.11.0 and 0.11.1; gpu_model_runner.py initialize_kv_cache."""
    found = planned(model, engine="vllm", engine_version=version, device=device, tp=tp, dcp=dcp, max_model_len=4096, kv_memory=kv_memory)
    assert ("to return the softmax" in (found.outcome.reason or "")) is stops
