"""What tiers hold and what coming back takes, by hand arithmetic; sizes beside the engines' own code: tests/oracle/test_tier_rows.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.cli import run
from kvplan.planner.links import LINKS, host_link
from kvplan.planner.tiers import Tiers
from tests.conftest import planned

LLAMA, TOKEN = "meta-llama/llama-3.1-8b", 32 * 2 * 8 * 128 * 2  # bytes: layers, K and V, heads, head dim, bf16
ON = {"kv_offloading_size": "64"}
#: Multiply-adds of one token: q, k, v, o, three of the feed-forward network, 32 times, and the head.
MATRICES = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4096 * 128256


def ask(model: str = LLAMA, **more: Any) -> Tiers:
    return kvplan.tiers(model, **{"engine": "vllm", "device": "h100", "context": "8k", "engine_option": ON, **more})


def test_a_prefix_comes_back_over_the_link_or_is_computed_again() -> None:
    found = ask(prefix="32k", link=50)
    (load,) = found.loads
    n = 32768
    assert load.prefix_bytes == n * TOKEN == 4 << 30
    assert load.prefix_seconds == pytest.approx(n * TOKEN / 50e9)
    assert (load.piece_bytes, load.piece_seconds) == (16 * TOKEN, pytest.approx(16 * TOKEN / 50e9))
    operations = 2 * MATRICES * n + 32 * 4 * 32 * 128 * n * (n + 1) // 2  # QK and PV of 32 heads of 128 in 32 layers
    assert found.recompute_seconds == pytest.approx(operations / 989.4e12, rel=1e-3)


def test_where_a_slow_link_begins_to_pay() -> None:
    """2 M n + A n^2 / 2 operations take as long as n tokens over 1 GB/s where n = 2 (TOKEN r / 1e9 - 2 M) / A, r operations a second."""
    (load,) = ask(link=1).loads
    each = 32 * 4 * 32 * 128
    n = 2 * (TOKEN / 1e9 * 989.4e12 - 2 * MATRICES) / each
    assert load.pays_from is not None
    assert load.pays_from == pytest.approx(n, abs=32)
    assert ask(link="pcie5").loads[0].pays_from == 16


def test_a_device_knows_its_link() -> None:
    names = {
        name: link.name if (link := host_link(kvplan.device(name))) else None for name in ("h100", "a100-80gb", "t4", "gh200-96gb", "24GiB")
    }
    assert names == {"h100": "pcie5", "a100-80gb": "pcie4", "t4": "pcie3", "gh200-96gb": "nvlink-c2c", "24GiB": None}
    assert LINKS["pcie4"].gb_per_s == pytest.approx(16e9 * 16 * 128 / 130 / 8 / 1e9, abs=0.01)


def test_ranks_read_their_own_and_a_remote_store_sends_it_all() -> None:
    cpu, remote = ask("meta-llama/llama-3.1-70b", tp=4, prefix="8k", remote_link="100gb").loads
    whole = 8192 * 80 * 2 * 8 * 128 * 2
    assert (cpu.prefix_bytes, remote.prefix_bytes) == (whole // 4, whole)
    assert remote.prefix_seconds == pytest.approx(whole / 12.5e9)


def test_windows_come_back_as_their_window() -> None:
    """gpt-oss-20b: 12 full layers and 12 windows of 128, K and V of 8 heads of 64 in bf16, blocks of 16."""
    (load,) = ask("openai/gpt-oss-20b", prefix="8k").loads
    row = 12 * 2 * 8 * 64 * 2
    assert load.prefix_bytes == (8192 + 128) * row


def test_sharing_of_latents_by_release() -> None:
    """61 layers of 576 in bf16, blocks of 16: eight copies up to 0.26, one from 0.27 on, in whole pages of 4,096 bytes."""
    each = 61 * 576 * 2 * 16
    for version, size in (("0.26", each * 8), ("0.27", -(-each // 4096) * 4096)):
        (tier,) = ask("deepseek-ai/deepseek-v3", device="h200", tp=8, engine_version=version).tiers
        assert (tier.piece_bytes, tier.pieces) == (size, (64 << 30) // size)


def test_lmcache_deals_the_size_to_ranks_and_a_latent_gets_one_share() -> None:
    option = {"kv_offloading_size": "64", "kv_offloading_backend": "lmcache"}
    (tier,) = ask("deepseek-ai/deepseek-v3", device="h200", tp=8, engine_version="0.23", engine_option=option).tiers
    assert (tier.asked_bytes, tier.pieces) == (8 << 30, (8 << 30) // (61 * 576 * 2 * 256))
    later = planned(LLAMA, engine="vllm", engine_version="0.24", device="h100", context="8k", engine_option=option)
    assert later.outcome.tiers == ()
    assert later.capacity is not None
    assert any("lmcache_l1_size_gb" in told for told in later.capacity.warnings)


def test_a_connector_that_knows_one_group_makes_windows_keep_every_token() -> None:
    """gpt-oss-20b: all 24 layers, K and V of 8 heads of 64 in bf16, for 256 tokens."""
    (tier,) = ask("openai/gpt-oss-20b", engine_option={"lmcache_max_local_cpu_size": "64"}).tiers
    assert tier.pieces == (64 << 30) // (256 * 24 * 2 * 8 * 64 * 2)
    with pytest.raises(kvplan.KvplanError, match="caches of full attention"):
        ask("openai/gpt-oss-20b", engine_option={"lmcache_l1_size_gb": "64"})


def test_kvbm_counts_in_gb_of_all_ranks() -> None:
    tiers = ask("meta-llama/llama-3.1-70b", tp=4, engine_option={"dyn_kvbm_cpu_cache_gb": "64", "dyn_kvbm_disk_cache_gb": "500"}).tiers
    each = 16 * 80 * 2 * 8 * 128 * 2
    assert [(t.place, t.pieces) for t in tiers] == [("cpu", 64 * 10**9 // each), ("disk", 500 * 10**9 // each)]


@pytest.mark.parametrize(
    ("version", "option", "says"),
    [
        ("0.20", {}, "OffloadingConnector does not support HMA"),
        ("0.21", {"kv_offloading_backend": "lmcache"}, "LMCacheConnectorV1 does not support HMA"),
        ("0.13", {"disable_hybrid_kv_cache_manager": "true"}, "num_cpu_blocks must be specified"),
    ],
)
def test_releases_that_do_not_start_with_a_tier(version: str, option: dict[str, str], says: str) -> None:
    plan = planned(LLAMA, engine="vllm", engine_version=version, device="h100", context="8k", engine_option=ON | option)
    assert says in (plan.outcome.reason or "")
    without = planned(LLAMA, engine="vllm", engine_version=version, device="h100", context="8k")
    assert without.starts


def test_nothing_asked_is_nothing_shown() -> None:
    plan = kvplan.estimate(LLAMA, engine="vllm", device="h100", context="8k", advise=False)
    assert plan.as_dict()["tiers"] == []
    assert "tier" not in str(plan)
    with pytest.raises(kvplan.KvplanError, match="no tier was asked for"):
        ask(engine_option={})


@pytest.mark.parametrize("model", ["google/gemma-3-27b", "qwen/qwen3-next-80b-a3b", LLAMA])
def test_what_it_says_it_holds_fits_and_a_piece_more_does_not(model: str) -> None:
    (tier,) = ask(model, tp=4).tiers
    assert tier.tokens is not None
    assert tier.kept(tier.tokens) <= tier.pieces < tier.kept(tier.tokens + tier.piece_tokens)
    assert tier.bytes == tier.pieces * tier.piece_bytes <= tier.asked_bytes


def test_two_systems_are_one_too_many() -> None:
    with pytest.raises(kvplan.KvplanError, match="one connector"):
        ask(engine_option=ON | {"dyn_kvbm_cpu_cache_gb": "64"})


def test_the_command_line_says_it_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    asked = ["tiers", LLAMA, "--engine", "vllm", "--device", "h100", "--context", "8k", "--engine-option", "kv_offloading_size=64"]
    assert run([*asked, "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(json.dumps(ask().as_dict()))
    jsonschema.validate(shown, kvplan.schema("tiers"))
    assert run(asked) == 0
    assert "524,288" in capsys.readouterr().out
    assert run([*asked, "--format", "csv"]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    assert run([*asked, "--link", "nonsense"]) == 2


def test_what_a_tier_adds_to_the_hits_of_the_pool(tmp_path: Path) -> None:
    """Two prompts of 1,024 tokens take turns: the pool of 65 blocks holds one, the tier of 1 GiB (512 blocks) both, without the last."""
    trace = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": n * 1000, "input_length": 1024, "output_length": 1, "hash_ids": [10 * (n % 2), 10 * (n % 2) + 1]} for n in range(4)
    ]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    question = {"engine": "vllm", "kv_memory": 66 * 16 * TOKEN, "max_model_len": 1040, "engine_option": {"kv_offloading_size": "1"}}
    found = kvplan.hit_curve(LLAMA, trace=str(trace), **question)
    (tier,) = found.tiers
    assert tier.tokens == 512 * 16
    assert tier.found == pytest.approx(2 * 63 * 16 / 4096)
    assert found.pool is not None
    assert found.pool.found < 0.02
    assert tier.adds == pytest.approx(tier.found - found.pool.found)


@pytest.mark.parametrize(
    ("chunk", "words"),
    [("48", None), ("40", "'block_size'=40 in kv_connector_extra_config must be a multiple of the GPU KV cache block size (16 tokens).")],
)
def test_a_chunk_that_the_connector_refuses(chunk: str, words: str | None) -> None:
    """vLLM 0.32 kv_connector/v1/offloading/config.py build_offloading_config."""
    options = {**ON, "kv_offloading_block_size": chunk}
    plan = planned(LLAMA, engine="vllm", engine_version="0.32", device="h100", context=8192, engine_option=options)
    assert plan.starts is (words is None)
    assert (words or "") in plan.verdict


def test_groups_of_several_block_sizes_take_no_chunk() -> None:
    """The same function: its assertion that all groups have one block size; a hybrid of states and attention has two."""
    options = {**ON, "kv_offloading_block_size": "64", "enable_prefix_caching": "false"}
    plan = planned(
        "qwen/qwen3-next-80b-a3b", engine="vllm", engine_version="0.32", device="b200", tp=2, context=8192, engine_option=options
    )
    assert "all groups must have the same block size" in plan.verdict
