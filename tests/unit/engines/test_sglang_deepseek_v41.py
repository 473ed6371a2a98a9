"""DeepSeek-V4.1-Flash on SGLang: 40 layers with a window, three layers that make a row of two tokens and one of one token, for all."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import UnsupportedError
from kvplan.planner.plan import Plan
from tests.conftest import planned

GIB, PAGE = 1 << 30, 256
#: Bytes of a row of 512: 584 padded to pages of 576, in 8 bits with a scale of 32, in 4 bits with one of 16; of a key of 128 in 4 bits.
V4, EIGHT, FOUR, KEY = 585, 528, 288, 68
#: What is kept of a token that all layers read: a row and key of it, and half of one in three layers.
SHARE = 1 + 3 / 2


def asked(device: str = "h200", version: str = "0.5.23", **more: Any) -> Plan:
    given = {"tp": 8, "kv_memory": "40GiB", "context": 4096, **more}
    return planned("deepseek-ai/DeepSeek-V4.1-Flash", engine="sglang", engine_version=version, device=device, **given)


def cells(plan: Plan) -> dict[str, int | None]:
    assert plan.capacity is not None
    return {group.role: group.cells for group in plan.capacity.groups}


def states(requests: int, ring: int) -> int:
    """Rings of values and scores in f32 of each request, of one more and of none, in even rows (_get_c2_state_fixed_bytes)."""
    rows = (requests + 1) * ring + ring + 1
    return (rows + rows % 2) * 2 * 512 * 4 * 3


def test_windows_are_for_the_requests_asked_for_and_for_prefixes() -> None:
    """compute_swa_request_cap: window 128, 128 tokens to give back, two pages; two chunks and a page; four ends of prefixes a request."""
    found = cells(asked(version="0.5.21", max_num_seqs=64, max_num_batched_tokens=8192))
    swa = 64 * (128 + 128 + 2 * PAGE) + 2 * 8192 + PAGE + 4 * 64 * (128 + PAGE)
    assert found["window"] == swa == 164_096
    rest = 40 * GIB - states(64, 2) - swa * V4 * 40
    assert found["full"] == int(rest / ((584 + KEY) * SHARE)) // PAGE * PAGE


def test_a_share_of_the_tokens_instead() -> None:
    found = cells(asked(version="0.5.22", engine_option={"swa_full_tokens_ratio": "0.1"}))
    full = int((40 * GIB - states(256, 2)) / ((584 + KEY) * SHARE + 0.1 * V4 * 40)) // PAGE * PAGE
    assert (found["full"], found["window"]) == (full, full // 10 // PAGE * PAGE)


def test_no_prefixes_are_kept_without_a_cache_of_them() -> None:
    found = cells(asked(max_num_seqs=64, max_num_batched_tokens=8192, engine_option={"disable_radix_cache": "true"}))
    assert found["window"] == 64 * (128 + 128 + 2 * PAGE) + 2 * 8192 + PAGE


@pytest.mark.parametrize(
    ("device", "version", "more", "window", "rows"),
    [
        ("h200", "0.5.23", {}, V4, V4),
        ("b200", "0.5.22", {"dp": 8, "engine_option": {"enable_dp_attention": "true"}}, V4, V4),
        ("b200", "0.5.23", {}, V4, V4),  # attention is split over ranks: no MegaAttention by itself
        ("b200", "0.5.23", {"dp": 8, "engine_option": {"enable_dp_attention": "true"}}, EIGHT, FOUR),
        ("b200", "0.5.23", {"engine_option": {"dsv4_attn_backend": "flashmla_mega"}}, EIGHT, FOUR),
        ("b200", "0.5.21", {"engine_option": {"dsv4_kv_layout": "v41"}}, EIGHT, FOUR),
        ("b200", "0.5.22", {"engine_option": {"dsv4_kv_layout": "auto", "dsv4_compressed_kv_layout": "fp8"}}, EIGHT, EIGHT),
        ("h200", "0.5.22", {"engine_option": {"dsv4_kv_layout": "auto"}}, V4, V4),
        ("b200", "0.5.23", {"engine_option": {"dsv4_attn_backend": "trtllm"}}, 512, 512),
    ],
)
def test_rows_are_packed_as_their_kernels_read_them(device: str, version: str, more: dict[str, Any], window: int, rows: int) -> None:
    """kv_layout.py KVLayout.page_bytes: pages of the window and one more; of rows and keys, within two pages of each layer with some."""
    plan = asked(device, version, **more)
    found, lines = cells(plan), {e.name: e.bytes for e in plan.ledgers[0].entries}
    swa, full = found["window"] or 0, found["full"] or 0
    assert lines["cache: window pool"] == (swa + PAGE) * window * 40
    assert lines["cache: full pool"] == pytest.approx(full * (rows + KEY) * SHARE, rel=2e-4)


def test_dspark_keeps_windows_of_its_three_stages() -> None:
    """One stage is charged of every token; three are held (models/deepseek_v4_dspark.py). Rings have room for six tokens and two: 8."""
    plan = asked("b200", "0.5.23", speculative="dspark:5", max_num_seqs=64)
    found, lines = cells(plan), {e.name: e.bytes for e in plan.ledgers[0].entries}
    swa = 64 * (128 + 6 * 128 + PAGE + 2 * 6) + 2 * 16384 + PAGE + 4 * 64 * (128 + PAGE)
    assert found["window"] == -(-swa // PAGE) * PAGE
    assert lines["cache: drafter"] == ((found["window"] or 0) + PAGE) * V4 * 3
    assert lines["cache: fixed states"] == states(64, 8)


def test_windows_of_the_requests_own() -> None:
    """dsv41_request_window.py: a page for each slot and one more of its pool and of its own, tags of 8 bytes, a workspace of one layer."""
    plan = asked(max_num_seqs=64, max_num_batched_tokens=8192, engine_option={"enable_encoder_swa_bounded_replay": "true"})
    lines = {e.name: e.bytes for e in plan.ledgers[0].entries}
    space = 66 * 128 + 8192
    workspace = (-(-space // PAGE) + 1) * PAGE * V4
    assert lines["cache: fixed states"] == states(64, 2) + (65 + 2) * PAGE * V4 * 40 + 66 * PAGE * 40 * 8 + workspace
    assert "cache: window pool" not in lines


def test_tables_of_n_grams_are_split_over_all_ranks_or_in_host_memory() -> None:
    """768,022,850 rows of 256 bytes and 8 scales (the config), whatever attention's groups are."""
    tables = 768_022_850 * 264
    grouped = {"dp": 8, "kv_memory": None, "engine_option": {"enable_dp_attention": "true"}}
    here = {e.name: e.bytes for e in asked("b200", **grouped).ledgers[0].entries}
    there = asked("b200", **grouped | {"engine_option": {"enable_dp_attention": "true", "engram_host_table": "true"}})
    away = {e.name: e.bytes for e in there.ledgers[0].entries}
    assert here["weights: other"] - away["weights: other"] == pytest.approx(tables / 8, rel=1e-6)
    assert sum(e.bytes for e in there.outcome.host if e.name == "n-gram table") == pytest.approx(tables, rel=1e-6)


@pytest.mark.parametrize(
    ("device", "version", "more", "said"),
    [
        ("h200", "0.5.23", {"pp": 2, "tp": 4}, "DeepSeek-V4.1 does not support pipeline parallelism yet"),
        ("h200", "0.5.22", {"engine_option": {"enable_hisparse": "true"}}, "DeepSeek-V4.1 does not support HiSparse yet"),
        ("b200", "0.5.21", {"engine_option": {"dsv4_attn_backend": "trtllm"}}, "the trtllm DSv4 attention backend"),
        ("h200", "0.5.23", {"engine_option": {"dsv4_attn_backend": "trtllm"}}, "trtllm requires an SM100/SM103"),
        ("h200", "0.5.22", {"engine_option": {"dsv4_kv_layout": "v41"}}, "the V4.1 KV cache layouts need an SM100 / SM103 GPU"),
        ("h200", "0.5.23", {"engine_option": {"dsv4_attn_backend": "flashmla_mega"}}, "flashmla_mega requires DeepSeek-V4.1 on SM100"),
        ("h200", "0.5.21", {"speculative": "ngram:4"}, "Only EAGLE and DSPARK speculative algorithms are supported"),
        ("h200", "0.5.23", {"kv_dtype": "bf16"}, "store_dtype == torch.uint8"),
        (
            "h200", "0.5.22", {"dp": 2, "engine_option": {"enable_dp_attention": "true", "enable_decoder_swa_bounded_replay": "true"}},
            "DP attention other than attention TP 1",
        ),
        ("h200", "0.5.18", {}, "['DeepseekV41ForCausalLM'] are not supported for now"),
    ],
)  # fmt: skip
def test_what_it_does_not_start_with(device: str, version: str, more: dict[str, Any], said: str) -> None:
    assert said in asked(device, version, **{"kv_memory": None, **more}).verdict


@pytest.mark.parametrize(
    ("device", "version", "more"), [("mi355x", "0.5.23", {}), ("b200", "0.5.21", {"engine_option": {"dsv4_kv_layout": "auto"}})]
)
def test_what_is_not_modelled(device: str, version: str, more: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        asked(device, version, **more)


def test_what_joins_heads_is_in_sixteen_bits() -> None:
    """8 groups of 1,024 rows of 4,096 in 40 layers, 2 bytes each (wo_a_fp8_gemm_enabled), beside what is in 8 bits."""
    attention = {tp: {e.name: e.bytes for e in asked("b200", tp=tp, kv_memory=None).ledgers[0].entries} for tp in (4, 8)}
    split = 40 * (64 * 512 * 1280 + 5120 * 8192) * 33 // 32  # q_b and o_b, with a scale of 32
    whole = 40 * 8192 * 4096 * 2
    assert attention[4]["weights: attention"] - attention[8]["weights: attention"] == pytest.approx((split + whole) / 8, rel=1e-3)


def test_its_fp8_runs_on_hopper() -> None:
    """Squares of 32 are blocks to this engine, for compute capability 8.0 (layers/quantization/fp8.py get_min_capability)."""
    assert "quantization method" not in asked(kv_memory=None).verdict


def test_public_cells() -> None:
    """ai-dynamo/dynamo#15169, 4 H200: 0.92 serves, 0.8 leaves nothing beside 119.83 GiB of weights a rank."""
    more = {"tp": 4, "ep": 4, "kv_memory": None}
    assert asked(version="0.5.21", memory_fraction=0.92, max_num_seqs=64, max_num_batched_tokens=4096, **more).capacity is not None
    assert "Loaded weights leave no GPU memory" in asked(version="0.5.21", memory_fraction=0.8, **more).verdict
