"""Bounds by hand arithmetic on the H100's datasheet: 3.35 TB/s, 989.4 dense bf16 TFLOP/s."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.errors import KvplanError

BANDWIDTH, RATE = 3350e9, 989.4e12
PARAMETERS, TABLE, NORMS = 8_030_261_248, 128_256 * 4_096, 65 * 4_096  # Llama 3.1 8B; the embedding table is looked up, not multiplied


def ask(model="meta-llama/llama-3.1-8b", **question):
    return kvplan.roofline(model, device="h100", engine="ideal", **question)


def test_decode_reads_every_weight_and_the_cache_once():
    found = ask(context=8192, batch=4)
    weights, cache = 2 * (PARAMETERS - TABLE), 4 * 8192 * 131_072
    assert (found.decode.weight_bytes, found.decode.cache_bytes) == (weights, cache)
    assert found.decode.seconds == pytest.approx((weights + cache) / BANDWIDTH)
    assert found.tokens_per_second == pytest.approx(4 / ((weights + cache) / BANDWIDTH))
    assert found.without_cache == pytest.approx(4 / (weights / BANDWIDTH))


def test_decode_operations_are_two_per_weight_and_scores_over_the_context():
    per_token = 2 * (PARAMETERS - TABLE - NORMS)
    scores = 32 * 8192 * 2 * 32 * (128 + 128)  # layers x tokens x 2 x query heads x (k and v)
    assert ask(context=8192, batch=4).decode.operations == 4 * (per_token + scores)


def test_prefill_is_bound_by_arithmetic():
    found = ask(context=8192).prefill
    scores = 32 * (8192 * 8193 // 2) * 2 * 32 * 256
    assert found.operations == 8192 * 2 * (PARAMETERS - TABLE - NORMS) + scores
    assert found.bound_by == "compute"
    assert found.seconds == pytest.approx(found.operations / RATE)


def test_the_batch_where_decoding_turns():
    turn = ask(context=128).compute_bound_batch
    assert ask(context=128, batch=turn).decode.bound_by == "compute"
    assert ask(context=128, batch=turn - 1).decode.bound_by == "memory"
    assert ask(context=131_072).compute_bound_batch is None  # each more sequence brings more bytes than operations


def test_experts_are_read_as_far_as_tokens_pick_them():
    one, many = ask("mistralai/mixtral-8x7b-v0.1", context=10).decode, ask("mistralai/mixtral-8x7b-v0.1", context=10, batch=64).decode
    expert_bytes = 32 * 8 * 3 * 4096 * 14336 * 2
    rest = 2 * (46_702_792_704 - 131_072_000) - expert_bytes
    assert one.weight_bytes == rest + expert_bytes // 4  # two of eight
    assert many.weight_bytes == pytest.approx(rest + expert_bytes, rel=1e-6)


def test_ranks_share_the_work():
    alone, shared = ask(context=4096, batch=8).decode, ask(context=4096, batch=8, tp=4).decode
    assert shared.operations == alone.operations // 4
    assert shared.cache_bytes == alone.cache_bytes // 4


@pytest.mark.parametrize("device", [None, "24GiB"])
def test_without_a_device_or_its_rates_there_is_no_bound(device):
    with pytest.raises(KvplanError, match=r"name one|declares no"):
        kvplan.roofline("meta-llama/llama-3.1-8b", device=device, engine="ideal", context=10)


def test_without_a_rate_memory_bounds_decoding_alone():
    """Apple publishes 68.25 GB/s of the M1 (newsroom: 68 GB/s) and no rate of its GPU in bf16."""
    found = kvplan.roofline("meta-llama/llama-3.1-8b", device="apple-m1-16gb", engine="ideal", context=4096)
    assert 68.0e9 <= (2 * (PARAMETERS - TABLE) + 4096 * 131_072) / found.decode.seconds <= 68.3e9
    record = found.as_dict()
    assert (record["bound_by"], record["first_token_ms"], record["compute_bound_batch"]) == (None, None, None)


def test_pipeline_stages_share_the_memory_but_a_token_passes_them_all():
    alone, staged = ask(context=4096, batch=8), ask(context=4096, batch=8, pp=4)
    assert staged.decode.weight_bytes == alone.decode.weight_bytes // 4
    assert staged.decode.cache_bytes == 2 * 4096 * 131_072 // 4  # a quarter of the layers, two of the eight sequences at a time
    seconds = (2 * (PARAMETERS - TABLE) + 2 * 4096 * 131_072) / BANDWIDTH  # all weights for every token, a quarter of the cache
    assert staged.tokens_per_second == pytest.approx(8 / seconds, rel=1e-6)


def test_what_a_deployment_can_be_ranked_by():
    from kvplan import api
    from kvplan.planner.speed import pace

    question = {"device": "h100", "engine": "ideal", "context": 8192}
    found = pace(api.deployment("meta-llama/llama-3.1-8b", batch=8, dp=2, **question), price=5.0)
    one = ask(context=8192, batch=4)
    assert found.tokens_per_second == pytest.approx(2 * one.tokens_per_second)
    assert found.first_token_seconds == one.first_token_seconds
    assert found.cost_per_million == pytest.approx(5.0 / 3600 / found.tokens_per_second * 1e6)
    assert pace(api.deployment("meta-llama/llama-3.1-8b", device="24GiB", engine="ideal", context=10)) is None


@pytest.mark.parametrize(
    ("device", "weight_dtype", "rate"),
    [("h100", "fp8", 1978.9e12), ("h100", "awq", RATE), ("h100", "nvfp4", RATE), ("b200", "nvfp4", 9000e12), ("b200", "mxfp8", 4500e12)],
)  # fmt: skip
def test_a_prompt_takes_no_longer_than_the_fastest_cores_for_its_format(device: str, weight_dtype: str, rate: float) -> None:
    """The datasheets' dense rates of W8A8 and W4A4; formats without cores are unpacked to bf16. The head stays in bf16."""
    found = kvplan.roofline("meta-llama/llama-3.1-8b", device=device, engine="ideal", context=8192, weight_dtype=weight_dtype)
    layers, plain = 8192 * 2 * (PARAMETERS - 2 * TABLE - NORMS), RATE if device == "h100" else 2250e12
    rest = 8192 * 2 * TABLE + 32 * (8192 * 8193 // 2) * 2 * 32 * 256
    assert found.first_token_seconds == pytest.approx(layers / rate + rest / plain)


def test_a_prompt_of_latents_attends_over_keys_and_values_of_heads() -> None:
    """DeepSeek-V3: 128 heads of 192 and 128 over a prompt (vLLM forward_mha); decoding over latents of 512 and 576."""
    h200 = {"device": "8xh200", "tp": 8, "engine": "ideal", "context": 8192}
    prompt, decode = (getattr(kvplan.roofline("deepseek-ai/deepseek-v3", **h200), kind).operations for kind in ("prefill", "decode"))
    short = kvplan.roofline("deepseek-ai/deepseek-v3", **h200 | {"context": 4096})
    pairs = 8192 * 8193 // 2 - 2 * (4096 * 4097 // 2)
    assert prompt - 2 * short.prefill.operations == pytest.approx(pairs * 61 * 2 * 128 * (192 + 128) / 8, rel=1e-6)
    assert decode - short.decode.operations == 4096 * 61 * 2 * 128 * (576 + 512) // 8
