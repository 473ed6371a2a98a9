"""GLM-5.3-Flash under vLLM: keys of four tokens each, a ring of the last raw ones, delta attention (drawn rows: tests/oracle/rows)."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.errors import UnsupportedError

GIB, MODEL = 1 << 30, "zai-org/GLM-5.3-Flash"


def planned(**asked: Any) -> Any:
    usual = {"engine_version": "0.30.0", "device": "h200", "enforce_eager": True}
    return kvplan.estimate(MODEL, engine="vllm", advise=False, **(usual | asked))


def test_tokens_that_a_deployment_printed() -> None:
    """vllm-project/recipes#906, 4 x H200, a build before 0.30: 38.43 GiB, 3,511,589 tokens at 1,048,576.

    Hand arithmetic: a state of 1,085,440 bytes fills 1,152 latents of 1,024 bytes, 128 being the step; 11 of them and of 288 keys of 132
    bytes are a block of 13,394,304 bytes. A request takes 911 blocks, two for each of four groups of states, one ring: 920 of 3,081.
    """
    made = planned(tp=4, kv_memory=3081 * 13_394_304).as_dict()["capacity"]
    assert (made["blocks"], made["block_tokens"], made["bytes_per_block"]) == (3081, 1152, 13_394_304)
    assert abs(made["tokens"] - 3_511_589) <= 1
    assert f"{made['kv_bytes'] / GIB:.2f}" == "38.43"


def test_tokens_that_another_one_printed() -> None:
    """tant2tls/llms_frontier_serving, 8 x H100, blocks of 128 asked for, the same build: 1,916,967 tokens, 7.31 requests of 262,144.

    Hand arithmetic: 542,720 bytes of state fill 640 latents, so a block is 11 x (655,360 + 160 x 132), and a request takes 410 + 8 + 1.
    """
    made = planned(device="h100", tp=8, block_size=128, max_model_len=262_144, kv_memory=3064 * 11 * (655_360 + 160 * 132))
    capacity = made.as_dict()["capacity"]
    assert (capacity["blocks"], capacity["tokens"]) == (3064, 1_916_967)
    assert f"{capacity['max_concurrency']:.2f}" == "7.31"


def test_a_release_before_its_class_names_the_one_that_has_it() -> None:
    """model_executor/models/registry.py: in 0.30.0, not in 0.29.0."""
    with pytest.raises(UnsupportedError, match=r"no release before 0\.30 has a class for Glm5NextForConditionalGeneration"):
        planned(engine_version="0.29.0", tp=8)


def test_what_has_no_kernel_is_an_answer() -> None:
    """The 0.33.0 wheel's own selection for compute capabilities 12.0 and 8.0 (platforms/cuda.py get_attn_backend_cls)."""
    for device, kv_dtype in (("rtx-pro-6000-blackwell", "bf16"), ("a100", "auto")):
        plan = planned(engine_version="0.33.0", device=device, tp=8, kv_dtype=kv_dtype, kv_memory=8 * GIB)
        assert not plan.starts
        assert "No valid attention backend found for cuda" in plan.verdict
    with pytest.raises(UnsupportedError, match="MI300X 192GB are not modelled"):
        planned(device="mi300x", tp=8)


def test_a_stage_of_states_alone_is_refused_up_to_0_31() -> None:
    """kv_cache_utils.py _get_kv_cache_groups_glm5_next."""
    plan = planned(engine_version="0.31.0", pp=2, tp=4, kv_memory=20 * GIB, engine_option={"pp_layer_partition": "3,42"})
    assert not plan.starts
    assert "no MLA layer to share slots with" in plan.verdict


def test_blackwell_keeps_8_bits_unless_told_otherwise() -> None:
    """models/config.py Glm5NextModelConfig, in 0.33.0 and not in 0.32.0, for compute capability 10.x."""
    for release, page in (("0.32.0", 11 * (640 * 1024 + 160 * 132)), ("0.33.0", 11 * (1152 * 512 + 288 * 132))):
        capacity = planned(engine_version=release, device="b200", tp=8, kv_memory=20 * GIB).as_dict()["capacity"]
        assert page in {group["page_bytes"] for group in capacity["groups"]}
