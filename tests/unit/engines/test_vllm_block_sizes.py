"""Sizes of blocks that vLLM stops at: those of its parser, of a backend that is named, of no kernel at all."""

from __future__ import annotations

import pytest

import kvplan
from tests.conftest import planned
from tests.unit.engines.test_vllm_refusals import gqa, stopped


@pytest.mark.parametrize(
    ("version", "size", "stops"),
    [
        ("0.6.6", 64, False), ("0.6.6", 1, True), ("0.8", 1, False), ("0.11", 256, True), ("0.12", 256, False), ("0.13", 256, False),
        ("0.17", 48, True), ("0.18", 48, False), ("0.20", 48, False),
    ],
)  # fmt: skip
def test_block_size(version: str, size: int, stops: bool) -> None:
    """engine/arg_utils.py choices to 0.7, config BlockSize to 0.17, any positive number after."""
    assert (stopped(gqa(), version, block_size=size) or "").startswith("argument --block-size: invalid choice") is stops


@pytest.mark.parametrize(
    ("version", "platform", "size", "stops"),
    [
        ("0.20", "cuda", 8, False),  # FlexAttention takes any
        ("0.22", "cuda", 8, True),
        ("0.33", "cuda", 8, True),
        ("0.33", "cuda", 48, False),
        ("0.33", "cpu", 8, False),
    ],
)
def test_blocks_that_no_kernel_takes(version: str, platform: str, size: int, stops: bool) -> None:
    """v1/attention/backend.py supports_block_size of 0.20 to 0.33; 0.28, 0.30 and 0.33 were run as on an H100, an A100 and a B200."""
    said = stopped(gqa(), version, block_size=size, engine_option={"platform": platform})
    assert (said is not None) is stops
    assert not said or said.startswith("No valid attention backend found for cuda")


@pytest.mark.parametrize(("block", "stops"), [(24, True), (48, False)])
def test_flashinfer_takes_blocks_of_16_32_or_64(block: int, stops: bool) -> None:
    """v1/attention/backends/flashinfer.py get_supported_kernel_block_sizes."""
    said = stopped(gqa(), "0.33", block_size=block, engine_option={"attention_backend": "FLASHINFER"})
    assert (said is not None and "AttentionBackendEnum.FLASHINFER is not valid" in said) is stops


def test_latent_kernels_take_multiples_of_16_in_every_release() -> None:
    for version in ("0.18", "0.33"):
        plan = planned(
            "deepseek-ai/deepseek-v3", engine="vllm", engine_version=version, device="8xh200", tp=8, context=4096, block_size=24,
        )  # fmt: skip
        assert plan.starts is False
        assert "block_size=24" in plan.verdict


def test_a_log_that_ends_with_it_is_known() -> None:
    """As platforms/cuda.py writes it: the selector's fields in order, the reasons behind them."""
    text = (
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=128, dtype=torch.bfloat16, "
        "kv_cache_dtype=auto, block_size=7, use_mla=False). Reasons: {FLASH_ATTN: [block_size not supported]}."
    )
    assert any("blocks of 7 tokens" in cause.means for cause in kvplan.why(text).causes)
