"""DeepSeek-V4's DSpark on compute capability 12.x: vLLM 0.28's FlashInfer, 0.6.16.post3, has kernels for 128, 512 and 1,024 keys alone."""

from __future__ import annotations

import pytest

from tests.conftest import planned


@pytest.mark.parametrize(("version", "device", "heads"), [
    ("0.27", "rtx-pro-6000", None),  # does not ask (models/deepseek_v4/nvidia/flashinfer_sparse.py)
    ("0.28.0", "rtx-pro-6000", 16),
    ("0.29", "rtx-pro-6000", None),  # FlashInfer 0.6.18: (16, 192) in _DECODE_DSV4_DISPATCH
    ("0.28.0", "b200", None),
])  # fmt: skip
def test_a_window_and_five_drafted_tokens(version: str, device: str, heads: int | None) -> None:
    """128 + 5 tokens in steps of 64 are 192; 64 heads on 4 ranks are 16."""
    asked = {"device": device, "tp": 4, "max_model_len": 8192, "kv_dtype": "fp8", "speculative": "dspark:5"}
    reason = planned("deepseek-ai/DeepSeek-V4-Flash", engine="vllm", engine_version=version, **asked).outcome.reason or ""
    assert ("sparse MLA decode specialization" in reason) is (heads is not None)
    assert heads is None or f"(num_q_heads={heads}, top_k=192)" in reason
