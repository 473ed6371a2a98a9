"""What TensorRT-LLM's releases count otherwise: rounding, windows, NVFP4, recurrent states, defaults.

Expected numbers are arithmetic in the tests, by the formulas of the copies of its sources that kvplan/engines/tensorrt_llm/rules.py names.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines.common.protocol import Outcome
from kvplan.engines.tensorrt_llm.plan import ENGINE
from kvplan.engines.tensorrt_llm.rules import find
from kvplan.units import GIB
from tests.conftest import one_block
from tests.oracle.tensorrt_llm_shapes import MLA, STATE, TOKEN, V1, V2, gpt_oss, hybrid, llama, plan


@pytest.mark.parametrize(
    ("version", "blocks"),
    [
        ("0.20.0", 2710), ("1.0.0", 2710), ("1.1.0rc3", 2710), ("1.1.0", 2710), ("1.2.0rc0", 2710), ("1.2.0rc2", 2710),
        ("1.2.0rc2.post2", 2710), ("1.2.0rc4", 2709), ("1.2.0rc8", 2709), ("1.2.0", 2709), ("1.2.1", 2709), ("1.3.0rc15", 2709),
        ("1.3.0", 2709),
    ],
)  # fmt: skip
def test_one_pool_is_rounded_up_to_1_1_and_down_from_1_2(version: str, blocks: int) -> None:
    """86,711 tokens are 2,709.7 blocks of 32: math.ceil(max_tokens / tokens_per_block), then max_tokens // tokens_per_block."""
    found = plan(llama(), 86_711 * 131072, V1, engine_version=version, context=4096).capacity
    assert found is not None
    assert found.blocks == blocks


@pytest.mark.parametrize("version", ["0.12.0", "1.1.0", "1.2.0", "1.3.0"])
def test_engines_that_trtllm_build_made_are_always_rounded_up(version: str) -> None:
    """kvCacheManager.cpp, calculateMaxNumBlocks: ceilDiv, and no manager V2."""
    model = llama(architecture="LlamaForCausalLM")
    found = plan(model, 86_711 * 131072, {"backend": "tensorrt"}, engine_version=version, context=4096, block_size=32).capacity
    assert found is not None
    assert found.blocks == 2710


@pytest.mark.parametrize(
    ("version", "full", "window"), [("1.0.0", 68_201, 67), ("1.1.0", 68_201, 67), ("1.2.0", 34_134, 34_134), ("1.3.0", 34_133, 34_133)]
)  # fmt: skip
def test_windows_share_by_their_width_to_1_1_and_equally_from_1_2(version: str, full: int, window: int) -> None:
    """50 GiB are 2,184,533.3 tokens of one pool (24,576 B each), both windows having as many layers.

    128 / 131,200 of them are 2,131.25 tokens, 131,072 / 131,200 are 2,182,402.08: 67 and 68,201 blocks, rounded up in C++. Halves are
    1,092,266.7 tokens: 34,134 blocks rounded up in C++ (1.2), 34,133 rounded down in Python (1.3).
    """
    found = plan(gpt_oss(), 50 * GIB, {**V1, "max_attention_window": "128,131072"}, engine_version=version, context=131072).capacity
    assert found is not None
    assert [(group.role, group.cells) for group in found.groups] == [("full", full * 32), ("window", window * 32)]


@pytest.mark.parametrize("version", ["1.1.0", "1.2.0", "1.3.0"])
def test_max_tokens_bounds_the_memory_of_all_windows(version: str) -> None:
    """_util.py, configure_kv_cache_capacity: max_tokens x 49,152 B at most. Halves of 100,000 tokens' are 3,125 blocks each."""
    told = {**V1, "max_attention_window": "128,131072", "max_tokens": "100000", "window_size_shares": "0.5,0.5"}
    found = plan(gpt_oss(), 50 * GIB, told, engine_version=version, context=4096).capacity
    assert found is not None
    assert [group.cells for group in found.groups] == [100_000, 100_000]


@pytest.mark.parametrize(("version", "blocks"), [("1.1.0", 29), ("1.2.0rc2", 29), ("1.2.0", 100), ("1.3.0", 100)])
def test_nvfp4_is_counted_as_two_bytes_to_1_1(version: str, blocks: int) -> None:
    """3,200 tokens' bytes (36,864 each) over 131,072 B are 900 tokens, 28.1 blocks: the rest of the budget stays unused."""
    found = plan(llama(), 36_864 * 3200, V1, kv_dtype="nvfp4", engine_version=version, context=512).capacity
    assert found is not None
    assert found.blocks == blocks
    assert found.bytes_per_block == 32 * 36_864


@pytest.mark.parametrize(
    ("version", "block", "fraction"),
    [
        ("0.5.0", 64, 0.85), ("0.6.1", 64, 0.85), ("0.7.1", 128, 0.85), ("0.8.0", 128, 0.9), ("0.9.0", 128, 0.9), ("0.10.0", 64, 0.9),
        ("0.13.0", 64, 0.9), ("0.19.0", 32, 0.9), ("1.0.0", 32, 0.9), ("1.2.1", 32, 0.9),
    ],
)  # fmt: skip
def test_defaults_by_release(version: str, block: int, fraction: float) -> None:
    """examples/llama/build.py and kvCacheConfig.h of 0.5 to 0.7.1, the release notes of 0.10.0, logs of 0.13.0 and 0.19.0."""
    question = ENGINE.settle(Deployment(model=llama(), engine_version=version)).question
    assert (question.block_size, question.memory_fraction) == (block, fraction)


@pytest.mark.parametrize(
    ("version", "slots", "step"),
    [
        ("0.5.0", 8, 8 * 2048), ("0.7.1", 8, 8 * 2048), ("0.8.0", 1, 1024), ("0.10.0", 1, 1024), ("0.11.0", 256, 8192),
        ("0.12.0", 2048, 8192), ("1.2.0", 2048, 8192),
    ],
)  # fmt: skip
def test_what_engines_are_built_for_by_default(version: str, slots: int, step: int) -> None:
    """examples/llama/build.py of 0.5 to 0.7.1, tensorrt_llm/commands/build.py of 0.7.1, release notes of 0.11.0, a log of 0.12.0."""
    question = ENGINE.settle(Deployment(model=llama(), engine_version=version)).question
    assert (question.max_num_seqs, question.max_num_batched_tokens) == (slots, step)


def test_a_handful_of_slots_gives_way_to_the_requests_asked_for() -> None:
    """An engine is built for what it serves; from 0.11.0 on the default is what most are built with."""
    for version, slots, step in (("0.9.0", 12, 12 * 1024), ("0.5.0", 12, 12 * 2048), ("0.11.0", 256, 8192)):
        settled = ENGINE.settle(Deployment(model=llama(), engine_version=version, batch=12))
        assert (settled.question.max_num_seqs, settled.question.max_num_batched_tokens) == (slots, step)
        assert settled.chosen_by["max_num_seqs"] == ("engine default" if slots == 256 else "you")
    short = ENGINE.settle(Deployment(model=llama(), engine_version="0.9.0", batch=12, context=512)).question
    assert short.max_num_batched_tokens == 12 * 512


@pytest.mark.parametrize("version", ["1.1.0", "1.2.0", "1.2.1", "1.3.0rc5"])
@pytest.mark.parametrize(("drafts", "each"), [(None, 1), ("ngram:3", 5)])
def test_states_are_tensors_apart_to_1_2(version: str, drafts: str | None, each: int) -> None:
    """MambaCacheManager: states of max_batch_size requests, with drafts as many again for each draft token and the sampled one."""
    outcome = plan(hybrid(), 40 * GIB, V1, max_num_seqs=64, context=4096, engine_version=version, speculative=drafts)
    found, tokens = outcome.capacity, 40 * GIB // TOKEN
    assert found is not None
    assert found.blocks == tokens // 32 + (version == "1.1.0" and tokens % 32 > 0)
    assert found.request_bytes == 128 * 32 * TOKEN
    line = next(entry for entry in outcome.ledgers[0].entries if entry.name == "recurrent states")
    assert line.bytes == 64 * each * STATE
    assert outcome.ledgers[0].cache_bytes == found.blocks * 32 * TOKEN


def test_states_are_in_the_pool_of_late_candidates() -> None:
    """1.3.0rc15: bytes(T) = T x (attention + state / 256) + max_batch_size x state; nothing beside it."""
    outcome = plan(hybrid(), 40 * GIB, max_num_seqs=64, context=4096, engine_version="1.3.0rc15")
    assert outcome.capacity is not None
    assert outcome.capacity.blocks == (40 * GIB - 64 * STATE) // (TOKEN + STATE // 256) // 32
    assert all(entry.name != "recurrent states" for entry in outcome.ledgers[0].entries)


def test_attention_data_parallelism_keeps_a_state_for_its_dummy_under_v2() -> None:
    """MambaHybridCacheManagerV2: 64 requests, one slot for graph padding, one for the dummy of an idle rank."""
    told = {**V2, "enable_attention_dp": "true"}
    found = plan(hybrid(), 40 * GIB, told, max_num_seqs=64, context=4096, tp=2).capacity
    assert found is not None
    assert found.tokens == (40 * GIB - 66 * STATE) // TOKEN
    assert {group.role: group.cells for group in found.groups}["state"] == 66


@pytest.mark.parametrize(
    ("asked", "v2", "states"),
    [
        ("1.3.0rc0", False, "apart"), ("1.3.0rc12.post1", False, "apart"), ("1.3.0rc18", False, "pool"), ("v1.3.0rc22", True, "pool"),
        ("1.3.0", True, "pool"), ("1.4.0rc1", True, "pool"), (None, True, "pool"),
    ],
)  # fmt: skip
def test_candidates_have_their_own_rules(asked: str | None, v2: bool, states: str) -> None:
    version, rules, notes = find(asked)
    assert (version, notes) == ("1.3.0" if asked and "1.3" in asked else "1.4.0", ())
    assert (bool(rules.v2), rules.states) == (v2, states)


def test_a_candidate_keeps_its_name_where_it_differs() -> None:
    for asked, named in (("1.2.0rc2", "1.2.0rc2"), ("1.2.0rc8", "1.2.0"), ("1.3.0rc15", "1.3.0rc15")):
        settled = ENGINE.settle(Deployment(model=llama(), engine_version=asked))
        assert settled.question.engine_version == named
        assert ENGINE.settle(settled.question).settings.rules == settled.settings.rules


def test_what_does_not_bound_the_pool_is_said() -> None:
    def notes(options: dict[str, str], **question: Any) -> str:
        d = Deployment(model=question.pop("model", llama()), kv_memory=GIB, engine_option=tuple(options.items()), **question)
        return "; ".join(ENGINE.settle(d).notes)

    assert "max_gpu_total_bytes does not bound one pool" in notes(V1)
    assert "max_gpu_total_bytes" not in notes(V2)
    assert "max_gpu_total_bytes" not in notes({"backend": "tensorrt"})
    assert "enable_block_reuse=false only" in notes({}, model=hybrid(), engine_version="1.2.0")
    assert "enable_block_reuse" not in notes({}, model=hybrid(), engine_version="1.3.0")


PEAK = {"peak_memory": "20GiB", **V1}


def on_a_card(options: dict[str, str], **question: Any) -> Outcome:
    d = Deployment(
        model=one_block(MLA, 61, max_context=163840), device=sized(80 * GIB), kv_dtype="fp8", context=4096, block_size=32,
        engine_option=tuple({**PEAK, **options}.items()), **question,
    )  # fmt: skip
    return ENGINE.plan(ENGINE.settle(d))


@pytest.mark.parametrize(("tp", "attention_dp", "heads"), [(8, "false", 16), (8, "true", 128), (1, "false", 128)])
def test_latent_attention_over_fp8_has_its_workspace_held_back(tp: int, attention_dp: str, heads: int) -> None:
    """0.9 x 60 GiB; w = heads x (128 + 64) + heads x 128 bytes, k = 61 x 576: budget x w / (k + w) is less than w x 2048 x 4096."""
    n_bytes, k, w = int(0.9 * 60 * GIB), 61 * 576, heads * 320
    found = on_a_card({"enable_attention_dp": attention_dp}, tp=tp, engine_version="1.3.0")
    assert found.capacity is not None
    assert found.capacity.blocks == int(n_bytes - n_bytes * w / (k + w)) // k // 32
    line = next(entry for entry in found.ledgers[0].outside if entry.name == "context workspace")
    assert line.bytes == n_bytes - int(n_bytes - n_bytes * w / (k + w))


def test_a_workspace_is_no_larger_than_the_requests_can_need() -> None:
    """min(2, 8192) requests of 4,096 tokens at 16 x 320 bytes of each."""
    found = on_a_card({}, tp=8, max_num_seqs=2, engine_version="1.3.0").capacity
    assert found is not None
    assert found.blocks == (int(0.9 * 60 * GIB) - 2 * 4096 * 16 * 320) // (61 * 576) // 32


@pytest.mark.parametrize(
    ("options", "question"),
    [
        ({"enable_chunked_prefill": "true"}, {}), ({"enable_block_reuse": "false"}, {}), ({}, {"engine_version": "1.2.0"}),
        ({}, {"engine_version": "1.3.0rc15"}),
    ],
)  # fmt: skip
def test_where_no_workspace_is_held_back(options: dict[str, str], question: dict[str, Any]) -> None:
    found = on_a_card(options, tp=8, **question)
    assert found.capacity is not None
    assert found.capacity.blocks == int(0.9 * 60 * GIB) // (61 * 576) // 32
    assert all(entry.name != "context workspace" for entry in found.ledgers[0].outside)


def test_bytes_that_are_given_are_the_pools_own() -> None:
    """max_gpu_total_bytes is taken after the workspace."""
    found = plan(one_block(MLA, 61), 10 * GIB, V1, kv_dtype="fp8", context=4096, engine_version="1.3.0").capacity
    assert found is not None
    assert found.blocks == 10 * GIB // (61 * 576) // 32


@pytest.mark.parametrize(("shares", "starts"), [("0.5,0.5", True), ("0.3,0.3,0.4", False)])
def test_shares_are_as_many_as_the_windows(shares: str, starts: bool) -> None:
    """calculate_max_num_blocks_for_vswa: assert len(window_size_shares) == len(window_size_to_layers)."""
    told = {**V1, "max_attention_window": "128,131072", "window_size_shares": shares}
    found = plan(gpt_oss(), 50 * GIB, told, engine_version="1.3.0", context=131072)
    assert (found.starts, "must match number of window sizes" in (found.reason or "")) == (starts, not starts)
