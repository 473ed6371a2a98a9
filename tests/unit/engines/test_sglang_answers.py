"""What SGLang makes of questions: laws of its answers, parallel sizes, devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvplan.catalogue import constants, find_device, find_model
from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines.common.protocol import Outcome
from kvplan.engines.sglang.plan import ENGINE
from kvplan.planner.evaluate import evaluate
from kvplan.spec import ModelSpec
from kvplan.units import GIB
from tests.conftest import one_block

GQA: dict[str, Any] = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}
SLIDING: dict[str, Any] = {**GQA, "kind": "sliding", "window": 1024}
DELTA: dict[str, Any] = {
    "kind": "gated_delta_net", "d_conv": 4, "key_heads": 16, "value_heads": 32, "key_head_dim": 128, "value_head_dim": 128,
}  # fmt: skip


def model(*pattern: str, repeat: int = 1) -> ModelSpec:
    mixers = {"full": GQA, "swa": SLIDING, "delta": DELTA}
    blocks = {name: {"mixers": [mixers[name]]} for name in dict.fromkeys(pattern)}
    return one_block(None, len(pattern) * repeat, layers=[{"pattern": list(pattern), "repeat": repeat}], blocks=blocks)


MODELS = {
    "full": model("full", repeat=32),
    "windowed": model("swa", "swa", "swa", "full", repeat=8),
    "windows": model("swa", repeat=8),
    "hybrid": model("delta", "delta", "delta", "full", repeat=8),
}


def plan(spec: ModelSpec, options: dict[str, str] | None = None, **question: Any) -> Outcome:
    return ENGINE.plan(ENGINE.settle(Deployment(model=spec, engine_option=tuple((options or {}).items()), **question)))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("page", [1, 64])
def test_the_longest_context_fits_and_one_more_does_not(name: str, page: int) -> None:
    asked = Deployment(model=MODELS[name], engine="sglang", kv_memory=12 * GIB, context=1000, batch=3, block_size=page)
    found = evaluate(asked).capacity
    assert found is not None
    assert found.max_context_at_batch is not None or name == "windows"
    if found.max_context_at_batch is not None:
        assert evaluate(replace(asked, context=found.max_context_at_batch)).fits is True
        assert evaluate(replace(asked, context=found.max_context_at_batch + page)).fits is False
    assert found.max_batch is not None
    assert evaluate(replace(asked, batch=found.max_batch)).fits is True
    assert evaluate(replace(asked, batch=found.max_batch + 1)).fits is False


@pytest.mark.parametrize("name", MODELS)
def test_more_memory_never_holds_less(name: str) -> None:
    found = [plan(MODELS[name], kv_memory=gib * GIB, context=2048) for gib in (2, 3, 5, 9)]
    tokens = [outcome.capacity.tokens for outcome in found if outcome.capacity]
    assert len(tokens) == 4
    assert tokens == sorted(tokens)  # type: ignore[type-var]


@pytest.mark.parametrize("name", MODELS)
def test_pools_stay_inside_the_bytes_given(name: str) -> None:
    """Beside the padding page of each pool, which the engine allocates on top."""
    outcome = plan(MODELS[name], kv_memory=7 * GIB, context=2048)
    assert outcome.capacity is not None
    padding = 2 * outcome.ledgers[0].cache_bytes_per_token + sum(g.page_bytes or 0 for g in outcome.capacity.groups)
    assert 0.97 * 7 * GIB < outcome.capacity.kv_bytes <= 7 * GIB + padding


def test_left_over_layers_go_to_the_last_stages() -> None:
    """34 layers over 4 stages: 8, 8, 9, 9; all agree on the tokens of the fullest."""
    outcome = plan(one_block(GQA, 34), kv_memory=GIB, pp=4)
    assert [ledger.cache_bytes_per_token for ledger in outcome.ledgers] == [n * 4096 for n in (8, 8, 9, 9)]
    assert [ledger.ranks for ledger in outcome.ledgers] == [(0,), (1,), (2,), (3,)]
    assert outcome.capacity is not None
    assert outcome.capacity.tokens == GIB // (9 * 4096)


def test_attention_data_parallelism_keeps_all_heads_and_splits_requests() -> None:
    """tp 8, dp 4: two ranks share the 8 heads; every worker has its own pool."""
    outcome = plan(MODELS["full"], {"enable_dp_attention": "true"}, kv_memory=GIB, tp=8, dp=4, context=1000, batch=8)
    assert outcome.ledgers[0].cache_bytes_per_token == 131072 // 2
    assert outcome.ledgers[0].ranks == tuple(range(8))
    assert outcome.margin_bytes == (GIB // 65536 - 2 * 1000) * 65536


def test_plain_data_parallelism_is_more_servers() -> None:
    outcome = plan(MODELS["full"], kv_memory=GIB, tp=2, dp=3)
    assert outcome.ledgers[0].ranks == (0, 1, 2, 3, 4, 5)


def test_running_requests() -> None:
    """max(min(T / context x 512, 4096), 2048), at most T // 2, at most what is asked per worker."""
    cases: list[tuple[dict[str, Any], int]] = [
        ({"kv_memory": 8 * GIB, "context": 1 << 20}, 2048),  # 65,536 tokens
        ({"kv_memory": 8 * GIB, "context": 1024}, 4096),
        ({"kv_memory": 8 * GIB, "context": 65536 * 512 // 3000}, 3000),
        ({"kv_memory": 131072 * 1000, "context": 512}, 500),
        ({"kv_memory": 8 * GIB, "context": 1024, "max_num_seqs": 7}, 7),
    ]
    for question, requests in cases:
        outcome = plan(MODELS["full"], **question)
        assert outcome.capacity is not None
        assert f"max_running_requests={requests}," in outcome.capacity.log_lines[-1], question


def test_a_batch_beyond_the_running_requests() -> None:
    outcome = plan(MODELS["full"], kv_memory=8 * GIB, context=100, batch=9, max_num_seqs=8)
    assert outcome.fits is False
    assert outcome.starts is True
    assert outcome.reason == "max_running_requests is 8, not 9"


def test_log_lines() -> None:
    """1,000 tokens and a padding page of 1: K and V of 1001 x 65,536 bytes."""
    outcome = plan(MODELS["full"], {"max_total_tokens": "100000"}, kv_memory=20 * GIB, context=4096)
    assert outcome.capacity is not None
    size = 100001 * 65536 / GIB
    assert outcome.capacity.log_lines[0] == (
        f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: 100000, K size: {size:.2f} GB, V size: {size:.2f} GB"
    )
    assert outcome.capacity.log_lines[-1].startswith("max_total_num_tokens=100000, chunked_prefill_size=4096")


def test_without_device_or_memory_nothing_limits() -> None:
    outcome = plan(MODELS["full"], context=1000)
    assert (outcome.fits, outcome.starts, outcome.capacity) == (None, None, None)


def test_a_device_budget_adds_up() -> None:
    """The lines of a rank are the card: weights, pools, tables, overheads, and the slack that is kept free."""
    outcome = plan(MODELS["full"], device=find_device("h100"), context=4096, batch=16, constants=constants("sglang"))
    assert outcome.fits is True
    ledger = outcome.ledgers[0]
    assert ledger.limit_bytes is not None
    padding = 131072
    assert ledger.total_bytes == pytest.approx(ledger.limit_bytes, abs=2 * padding)
    capacity = outcome.capacity
    assert capacity is not None
    assert capacity.kv_bytes_low < capacity.kv_bytes < capacity.kv_bytes_high


def test_weights_that_leave_nothing() -> None:
    outcome = plan(one_block(GQA, 8, hidden=8192, vocab_size=400_000), device=sized(8 * GIB), context=512)
    assert outcome.starts is False
    assert "--mem-fraction-static" in (outcome.reason or "")
    assert outcome.certainty == "certain"


def test_a_stage_without_attention_does_not_limit_the_others() -> None:
    spec = one_block(None, 4, layers=[{"pattern": ["2*none", "2*full"]}], blocks={"none": {"mixers": []}, "full": {"mixers": [GQA]}})
    outcome = plan(spec, kv_memory=GIB, pp=2, context=512)
    assert outcome.capacity is not None
    assert outcome.capacity.tokens == GIB // (2 * 4096)
    assert outcome.ledgers[0].cache_bytes == 0


def test_a_stage_without_any_layer() -> None:
    """One layer over two stages, in a release that keeps every index key."""
    outcome = plan(one_block(GQA, 1), kv_memory=GIB, pp=2, context=512, engine_version="0.4.6")
    assert {ledger.cache_bytes > 0 for ledger in outcome.ledgers} == {True, False}


def test_aiter_takes_its_share_of_the_fraction() -> None:
    """AMD: 0.85 of the fraction beyond 8,192 tokens of context, also of one that the user gave."""
    free = plan(MODELS["full"], device=find_device("mi300x"), context=8192, memory_fraction=0.8)
    held = plan(MODELS["full"], device=find_device("mi300x"), context=8193, memory_fraction=0.8)
    assert free.capacity is not None
    assert held.capacity is not None
    card = free.ledgers[0].limit_bytes or 0  # without constants nothing is gone before the weights
    assert free.capacity.kv_bytes - held.capacity.kv_bytes == pytest.approx(0.12 * card, rel=1e-4)


@pytest.mark.parametrize(
    ("version", "device", "running", "mib"),
    [
        # envs SGLANG_VLM_CACHE_SIZE_MB 100, SGLANG_MM_FEATURE_CACHE_MB 1024; arg_groups/model_overrides/qwen3_vl.py, since 0.5.20: Hopper
        # of 60 GiB and more, and 3 GiB where 400 requests or more are asked for
        ("0.5.19", "h100-80gb", None, 100),
        ("0.5.20", "h100-80gb", None, 1024),
        ("0.5.23", "h100-80gb", 400, 3072),
        ("0.5.23", "a100-80gb", 400, 100),
    ],
)
def test_what_is_kept_for_images(version: str, device: str, running: int | None, mib: int) -> None:
    spec = find_model("qwen/qwen3-vl-8b-instruct")
    asked = Deployment(
        model=spec, engine="sglang", engine_version=version, device=find_device(device), max_num_seqs=running, constants=constants("sglang")
    )
    entries = evaluate(asked).ledgers[0].entries
    assert [e.bytes for e in entries if e.name == "multimodal caches"] == [mib << 20]


@pytest.mark.parametrize(
    ("version", "refused"),
    # 0.5.16 to 0.5.19 pool_configurator.py _solve_pool_sizes; 0.5.15 has no such words. 30,000 x 0.25 in pages of 32 is 7,488
    [("0.5.15", False), ("0.5.16", True), ("0.5.19", True), ("0.5.20", True)],
)
def test_a_share_of_windows_that_holds_no_request(version: str, refused: bool) -> None:
    spec = find_model("meta-llama/llama-4-scout-17b-16e-instruct")
    options, asked_words = (("swa_full_tokens_ratio", "0.25"), ("max_total_tokens", "30000")), "SWA pool (7488 tokens) cannot hold even one"
    asked = Deployment(model=spec, engine="sglang", engine_version=version, kv_memory=40 * GIB, block_size=32, engine_option=options, tp=8)
    assert (asked_words in str(evaluate(asked).verdict)) is refused


def test_nvfp4_on_amd_is_too_close_to_call_where_its_tool_is_not_known() -> None:
    spec, question = find_model("zai-org/glm-5.1"), {"engine": "sglang", "device": find_device("mi300x"), "tp": 8, "context": 8192}
    asked = Deployment(model=spec, weight_dtype="nvfp4", constants=constants("sglang"), **question)
    assert evaluate(asked).certainty == "too close to call"
    own = Deployment(model=find_model("nvidia/glm-5.1-nvfp4"), constants=constants("sglang"), **question)
    assert not evaluate(own).starts
