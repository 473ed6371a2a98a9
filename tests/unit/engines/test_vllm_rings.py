"""GLM-5.3-Flash and Qwen3.8-Flash-Next under vLLM: keys of four tokens, rings of the last raw ones (drawn rows: tests/oracle/rows)."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import UnsupportedError
from tests.conftest import planned

GIB, MODEL = 1 << 30, "zai-org/GLM-5.3-Flash"


def of_it(**asked: Any) -> Any:
    usual = {"engine_version": "0.30.0", "device": "h200", "enforce_eager": True}
    return planned(MODEL, engine="vllm", **(usual | asked))


def test_tokens_that_a_deployment_printed() -> None:
    """vllm-project/recipes#906, 4 x H200, a build before 0.30: 38.43 GiB, 3,511,589 tokens at 1,048,576.

    Hand arithmetic: a state of 1,085,440 bytes fills 1,152 latents of 1,024 bytes, 128 being the step; 11 of them and of 288 keys of 132
    bytes are a block of 13,394,304 bytes. A request takes 911 blocks, two for each of four groups of states, one ring: 920 of 3,081.
    """
    made = of_it(tp=4, kv_memory=3081 * 13_394_304).as_dict()["capacity"]
    assert (made["blocks"], made["block_tokens"], made["bytes_per_block"]) == (3081, 1152, 13_394_304)
    assert abs(made["tokens"] - 3_511_589) <= 1
    assert f"{made['kv_bytes'] / GIB:.2f}" == "38.43"


def test_tokens_that_another_one_printed() -> None:
    """tant2tls/llms_frontier_serving, 8 x H100, blocks of 128 asked for, the same build: 1,916,967 tokens, 7.31 requests of 262,144.

    Hand arithmetic: 542,720 bytes of state fill 640 latents, so a block is 11 x (655,360 + 160 x 132), and a request takes 410 + 8 + 1.
    """
    made = of_it(device="h100", tp=8, block_size=128, max_model_len=262_144, kv_memory=3064 * 11 * (655_360 + 160 * 132))
    capacity = made.as_dict()["capacity"]
    assert (capacity["blocks"], capacity["tokens"]) == (3064, 1_916_967)
    assert f"{capacity['max_concurrency']:.2f}" == "7.31"


def test_a_build_before_its_class_is_too_close_to_call_and_an_older_release_refuses_it() -> None:
    """model_executor/models/registry.py: in 0.30.0, not in 0.29.0; images of 0.28 and 0.29 that had it were public (recipes#906)."""
    early = of_it(engine_version="0.29.0", device="h200", tp=8)
    assert early.starts
    assert early.certainty == "too close to call"
    assert "whose first release is 0.30.0" in " ".join(early.as_dict()["model"]["notes"])
    before = of_it(engine_version="0.26.0", device="h200", tp=8)
    assert not before.starts
    assert "['Glm5NextForConditionalGeneration'] are not supported for now. (its first release is 0.30.0)" in before.outcome.reason


def test_what_has_no_kernel_is_an_answer() -> None:
    """The 0.33.0 wheel's own selection for compute capabilities 12.0 and 8.0 (platforms/cuda.py get_attn_backend_cls)."""
    for device, kv_dtype in (("rtx-pro-6000-blackwell", "bf16"), ("a100", "auto")):
        plan = of_it(engine_version="0.33.0", device=device, tp=8, kv_dtype=kv_dtype, kv_memory=8 * GIB)
        assert not plan.starts
        assert "No valid attention backend found for cuda" in plan.verdict
    with pytest.raises(UnsupportedError, match="MI300X 192GB are not modelled"):
        of_it(device="mi300x", tp=8)


def test_a_stage_of_states_alone_is_refused_up_to_0_31() -> None:
    """kv_cache_utils.py _get_kv_cache_groups_glm5_next."""
    plan = of_it(engine_version="0.31.0", pp=2, tp=4, kv_memory=20 * GIB, engine_option={"pp_layer_partition": "3,42"})
    assert not plan.starts
    assert "no MLA layer to share slots with" in plan.verdict


def test_blackwell_keeps_8_bits_unless_told_otherwise() -> None:
    """models/config.py Glm5NextModelConfig, in 0.33.0 and not in 0.32.0, for compute capability 10.x."""
    for release, page in (("0.32.0", 11 * (640 * 1024 + 160 * 132)), ("0.33.0", 11 * (1152 * 512 + 288 * 132))):
        capacity = of_it(engine_version=release, device="b200", tp=8, kv_memory=20 * GIB).as_dict()["capacity"]
        assert page in {group["page_bytes"] for group in capacity["groups"]}


NEXT = "Qwen/Qwen3.8-Flash-Next-FP8"


def test_what_qwen4_exp_raises_is_an_answer() -> None:
    """models/qwen4_exp of the wheels of 0.29.0 to 0.33.0; model_executor/models/config.py; registry.py of 0.28.0."""
    usual: dict[str, Any] = {"engine": "vllm", "device": "h200", "tp": 2, "ep": 2, "kv_memory": 20 * GIB}
    for asked, words in (
        ({"engine_version": "0.30.0", "kv_dtype": "fp8"}, "requires a BF16 main KV cache"),
        ({"engine_version": "0.33.0", "pp": 2}, "requires pipeline_parallel_size=1"),
    ):
        plan = planned(NEXT, **(usual | asked))
        assert not plan.starts
        assert words in plan.verdict
    plan = planned(NEXT, **usual, engine_version="0.25.0")
    assert not plan.starts
    assert "['Qwen4ExpForConditionalGeneration'] are not supported for now. (its first release is 0.29.0)" in plan.outcome.reason


def test_the_n_gram_table_is_in_host_memory_from_0_30_on() -> None:
    """config/engram.py cpu_offload, envs.py VLLM_PLE_CPU_OFFLOAD of 0.30 (on by default).

    51.2 billion parameters in FP8 are 47.7 GiB, half of them on each of two ranks before."""
    lines = {}
    for release in ("0.29.0", "0.30.0"):
        plan = planned(NEXT, engine="vllm", engine_version=release, device="h200", tp=2, ep=2).as_dict()
        (lines[release],) = [e["bytes"] for e in plan["ledgers"][0]["entries"] if e["name"] == "weights: embedding"]
        found = [e["bytes"] for e in plan["host"] if e["name"] == "n-gram table"]
        assert [round(n / GIB, 1) for n in found] == ([47.7] if release == "0.30.0" else [])
    assert round((lines["0.29.0"] - lines["0.30.0"]) / GIB, 1) == 23.8
