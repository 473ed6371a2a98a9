"""Weights that SGLang splits over fewer ranks than tp, by hand from DeepSeek-V3's config.json.

61 layers, the first 3 dense; hidden 7,168; 18,432 wide, experts 2,048; 129,280 words; FP8 in blocks of 128 x 128 with a float32 scale.
"""

from __future__ import annotations

import pytest

from kvplan import api

DP = {"enable_dp_attention": "true"}
HEAD = 129_280 * 7_168 * 2
DENSE = 3 * 3 * (7_168 * 18_432 + 56 * 144 * 4)
SHARED = 58 * 3 * (7_168 * 2_048 + 56 * 16 * 4)


def weights(role: str, version: str = "0.5.12", model: str = "deepseek-ai/deepseek-v3", **options: str) -> int:
    plan = api.estimate(
        model, engine="sglang", engine_version=version, device="h200", tp=8, dp=8, context=4096, engine_option=DP | options, advise=False
    )
    return next(line.bytes for line in plan.ledgers[0].entries if line.name == f"weights: {role}")


@pytest.mark.parametrize(("role", "version", "options", "of", "ranks"), [
    ("head", "0.5.12", {}, HEAD, 8), ("head", "0.5.12", {"enable_dp_lm_head": "true"}, HEAD, 1),
    ("head", "0.4.6", {"enable_dp_lm_head": "true"}, HEAD, 8),  # its ParallelLMHead takes no attention group yet
    ("mlp", "0.5.12", {}, DENSE, 8), ("mlp", "0.4.6", {"moe_dense_tp_size": "1"}, DENSE, 1),
    ("mlp", "0.5.23", {"moe_dense_tp_size": "8"}, DENSE, 8),
    ("shared_experts", "0.5.12", {}, SHARED, 8), ("shared_experts", "0.5.23", {"moe_a2a_backend": "deepep"}, SHARED, 1),
])  # fmt: skip
def test_ranks_that_split_a_role(role: str, version: str, options: dict[str, str], of: int, ranks: int) -> None:
    assert weights(role, version, **options) == of // ranks


def test_a_class_that_has_no_such_layers_of_its_own() -> None:
    """qwen3_moe.py of 0.5.12 asks --moe-dense-tp-size nowhere; its output layer follows --enable-dp-lm-head: 151,936 words of 4,096."""
    qwen = {"model": "qwen/qwen3-235b-a22b", "moe_dense_tp_size": "1", "enable_dp_lm_head": "true"}
    assert weights("head", **qwen) == 151_936 * 4_096 * 2
    plan = api.estimate("qwen/qwen3-235b-a22b", engine="sglang", engine_version="0.5.12", tp=8, engine_option={"moe_dense_tp_size": "1"})
    assert any(note.startswith("--moe-dense-tp-size 1: sglang 0.5.12 splits these weights") for note in plan.model.notes)
