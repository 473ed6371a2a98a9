"""Published models at batch 1 in bf16. Every expected number is arithmetic on the released config, written out here."""

from __future__ import annotations

import pytest

from tests.conftest import planned

GIB = 2**30


def per_token(model: str, **question) -> float:
    return planned(model, context=4096, **question).cache.bytes_per_token


def sequence(model: str, context: int, **question) -> int:
    return planned(model, context=context, **question).cache.bytes_per_sequence


def state_bytes(model: str, kind: str) -> int:
    plan = planned(model, context=1024)
    return sum(group.bytes_per_sequence for group in plan.cache.layers if group.kind == kind)


def test_llama_3_1_8b():
    assert per_token("meta-llama/llama-3.1-8b") == 2 * 32 * 8 * 128 * 2 == 131_072


@pytest.mark.parametrize("tp", [1, 8, 16])
def test_deepseek_v3_latent_is_replicated(tp):
    plan = planned("deepseek-ai/deepseek-v3", context=4096, tp=tp)
    assert plan.cache.bytes_per_token == 61 * (512 + 64) * 2 == 70_272
    assert plan.ledgers[0].cache_bytes_per_token == 70_272


@pytest.mark.parametrize("tp", [8, 16])
def test_llama_3_1_70b_stops_shrinking_at_its_8_kv_heads(tp):
    plan = planned("meta-llama/llama-3.1-70b", context=4096, tp=tp)
    assert plan.ledgers[0].cache_bytes_per_token == 2 * 80 * (8 // 8) * 128 * 2 == 40_960


def test_gemma_3_27b():
    one_layer_token = 2 * 16 * 128 * 2
    expected = 10 * 32_768 * one_layer_token + 52 * 1_024 * one_layer_token
    assert sequence("google/gemma-3-27b", 32_768) == expected == 3_120_562_176
    assert round(expected / GIB, 3) == 2.906


def test_gemma_2_9b_alternates_though_its_config_does_not_say_so():
    one_layer_token = 2 * 8 * 256 * 2
    expected = 21 * 8_192 * one_layer_token + 21 * 4_096 * one_layer_token
    assert sequence("google/gemma-2-9b", 8_192) == expected
    assert round(expected / GIB, 3) == 1.969


def test_gpt_oss_20b():
    one_layer_token = 2 * 8 * 64 * 2
    expected = 12 * 32_768 * one_layer_token + 12 * 128 * one_layer_token
    assert sequence("openai/gpt-oss-20b", 32_768) == expected
    assert round(expected / GIB, 3) == 0.753


def test_qwen3_next_delta_net_states():
    state = 32 * 128 * 128 * 4  # 32 value heads, 128 x 128, f32
    conv = (2 * 16 * 128 + 32 * 128) * (4 - 1) * 2  # q and k of 16 heads, v of 32, kernel - 1 columns, bf16
    assert state_bytes("qwen/qwen3-next-80b-a3b", "gated_delta_net") == 36 * (state + conv) == 77_266_944


def test_jamba_states():
    # 32 layers, attention in every 8th: 28 Mamba layers of d_inner 8192, d_state 16, kernel 4; f32 states, bf16 convolutions
    expected = 28 * (8192 * 16 * 4 + 8192 * 3 * 2)
    assert state_bytes("ai21labs/jamba-v0.1", "mamba1") == expected == 16_056_320
    assert per_token("ai21labs/jamba-v0.1") == 2 * 4 * 8 * 128 * 2


def test_mamba_2_2_7b_states():
    # 64 layers, 80 heads of 64, state 128, 1 group, kernel 4
    expected = 64 * (80 * 64 * 128 * 4 + (80 * 64 + 2 * 128) * 3 * 2)
    assert state_bytes("state-spaces/mamba2-2.7b", "mamba2") == expected == 169_836_544
    assert per_token("state-spaces/mamba2-2.7b") == 0


def test_whisper_large_v3_cross_cache():
    plan = planned("openai/whisper-large-v3", context=448)
    cross = [group for group in plan.cache.layers if group.kind == "cross"]
    assert sum(group.bytes_per_sequence for group in cross) == 2 * 32 * 20 * 64 * 1500 * 2 == 245_760_000
