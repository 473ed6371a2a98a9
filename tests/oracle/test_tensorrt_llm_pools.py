"""TensorRT-LLM's pools: the engine's formulas worked by hand.

Sources: tensorrt_llm/_torch/pyexecutor/_util.py (_cal_max_memory), resource_manager.py (calculate_max_num_blocks,
calculate_max_num_blocks_for_vswa, _calculate_max_num_blocks_for_linear_attention), kv_cache/kv_cache_manager_v2.py
(_get_max_tokens_from_quota) of the NVIDIA/TensorRT-LLM repository, 2026. Every expected number is arithmetic in the test.
"""

from __future__ import annotations

import pytest

from kvplan.catalogue import constants
from kvplan.deployment import Deployment
from kvplan.devices import Device, sized
from kvplan.engines import settle
from kvplan.engines.tensorrt_llm.plan import ENGINE
from kvplan.errors import SpecError, UnsupportedError
from kvplan.units import GIB
from tests.conftest import one_block
from tests.oracle.tensorrt_llm_shapes import GQA, MLA, STATE, TOKEN, V1, V2, gpt_oss, hybrid, llama, plan


def test_blocks_from_a_measured_peak() -> None:
    """0.9 x (79.1 - 20 + 2.5) GiB = 55.44 GiB at 131,072 B a token: 454,164 tokens, 14,192 blocks of 32."""
    gpu = sized(int(79.1 * GIB))
    found = plan(llama(), None, {"peak_memory": "20GiB", "temporary_kv_memory": "2.5GiB"}, device=gpu).capacity
    assert found is not None
    assert int(0.9 * 61.6 * GIB) // 131072 == 454_164
    assert (found.blocks, found.block_tokens, found.tokens) == (14_192, 32, 14_192 * 32)
    assert found.kv_bytes == 14_192 * 32 * 131072


@pytest.mark.parametrize("options", [V1, V2])
def test_one_pool_under_either_manager(options: dict[str, str]) -> None:
    found = plan(llama(), int(55.44 * GIB), options).capacity
    assert found is not None
    assert found.blocks == 14_192


def test_windows_share_memory_equally_in_v1() -> None:
    """gpt-oss-20b in 50 GiB: 12 layers x 2 x 8 x 64 x 2 B = 24,576 B a token in each window's half."""
    found = plan(gpt_oss(), 50 * GIB, {**V1, "max_attention_window": "128,131072"}).capacity
    assert found is not None
    tokens = 25 * GIB // 24_576
    assert tokens == 1_092_266
    assert found.blocks == tokens // 32 == 34_133
    assert [(group.role, group.cells) for group in found.groups] == [("full", 34_133 * 32), ("window", 34_133 * 32)]


def test_windows_share_memory_as_told_in_v1() -> None:
    told = {**V1, "max_attention_window": "128,131072", "window_size_shares": "0.1,0.9"}
    found = plan(gpt_oss(), 50 * GIB, told).capacity
    assert found is not None
    assert [group.cells for group in found.groups] == [int(50 * GIB * share / 24_576 // 32) * 32 for share in (0.9, 0.1)]


def test_v1_without_windows_keeps_everything() -> None:
    settled = ENGINE.settle(Deployment(model=gpt_oss(), kv_memory=50 * GIB, engine_option=tuple(V1.items())))
    found = ENGINE.plan(settled).capacity
    assert "keeps all tokens of window layers" in settled.notes[0]
    assert found is not None
    assert found.blocks == 50 * GIB // 49_152 // 32


@pytest.mark.parametrize(("batch", "tokens"), [(64, 2_168_149), (2048, 1_914_197)])
def test_v2_quota(batch: int, tokens: int) -> None:
    """B windows of 128 tokens first (24,576 B each token), 8,192 tokens at full and window bytes, the rest at full bytes."""
    reserve = batch * 128 * 24_576
    limit = 8192 * (24_576 + 24_576) + reserve
    assert tokens == int(8192 + (50 * GIB - limit) / 24_576)
    found = plan(gpt_oss(), 50 * GIB, max_num_seqs=batch, max_num_batched_tokens=8192).capacity
    assert found is not None
    assert found.tokens == tokens


def test_v2_quota_inside_the_first_prompt() -> None:
    """Below the limit tokens cost full and window bytes. Below the windows of all requests nothing starts over several ranks, which agree
    on a number of tokens (_get_max_tokens_from_quota); a rank alone has room for fewer at once, 63 here, of 512 tokens each."""
    reserve = 64 * 128 * 24_576
    small = plan(gpt_oss(), reserve + 1000 * 49_152, max_num_seqs=64, max_num_batched_tokens=8192, context=512).capacity
    assert small is not None
    assert small.tokens == 1000
    refused = plan(gpt_oss(), reserve // 2 - 1, max_num_seqs=64, tp=2)
    assert refused.starts is False
    assert "Impossible to fit in any sequence in kvCache" in (refused.reason or "")
    alone = plan(gpt_oss(), 63 * (128 + 512) * 24_576, max_num_seqs=2048, max_num_batched_tokens=8192, context=512, max_model_len=512)
    assert alone.starts
    assert plan(gpt_oss(), reserve, max_num_seqs=64, context=512, max_model_len=512).starts  # and not a block
    assert alone.capacity is not None
    assert alone.capacity.tokens == 8192 + 63 * 512 - 2 * 8192  # a prompt of 8,192 takes twice its bytes


def test_v2_scratch_reuse() -> None:
    """Layers of one window and size share one scratch: a prompt token costs one window layer more, not twelve."""
    reserve, one = 64 * 128 * 24_576, 24_576 // 12
    found = plan(gpt_oss(), 50 * GIB, {"enable_swa_scratch_reuse": "true"}, max_num_seqs=64, max_num_batched_tokens=8192).capacity
    assert found is not None
    assert found.tokens == int(8192 + (50 * GIB - 8192 * (24_576 + one) - reserve) / 24_576)


def test_nvfp4() -> None:
    """Half a byte and a scale byte per 16 elements: 65,536 elements x 9/16."""
    found = plan(llama(), 36_864 * 3200, kv_dtype="nvfp4")
    assert found.ledgers[0].cache_bytes_per_token == 36_864
    assert found.capacity is not None
    assert found.capacity.blocks == 100


def test_heads_by_ceiling_and_attention_data_parallelism() -> None:
    assert plan(llama(), GIB, tp=3).ledgers[0].cache_bytes_per_token == 131072 * 3 // 8
    assert plan(llama(), GIB, tp=16).ledgers[0].cache_bytes_per_token == 131072 // 8
    spread = plan(llama(), 10 * GIB, {"enable_attention_dp": "true"}, tp=4, context=32, batch=4)
    assert spread.ledgers[0].cache_bytes_per_token == 131072
    assert spread.margin_bytes == (10 * GIB // 131072 // 32 - 1) * 32 * 131072


def test_latent_is_keys_only_and_sparse_blocks_are_64() -> None:
    assert plan(one_block(MLA, 61), GIB, tp=8).ledgers[0].cache_bytes_per_token == 61 * 576 * 2
    sparse = {**MLA, "kind": "mla_sparse", "index_heads": 64, "index_head_dim": 128, "index_topk": 2048}
    found = plan(one_block(sparse, 61), GIB, kv_dtype="fp8", context=4096)
    assert found.ledgers[0].cache_bytes_per_token == 61 * (576 + 132)
    assert found.capacity is not None
    assert found.capacity.block_tokens == 64


def test_older_releases_round_blocks_up() -> None:
    """86,711 tokens were laid out as 86,720 in a log of 1.1.0rc3; the runtime of 2024 used blocks of 64."""
    found = plan(llama(), 86_711 * 131072, engine_version="1.1.0", context=4096).capacity
    assert found is not None
    assert found.tokens == 86_720
    assert "Adjusted" not in found.log_lines[-1]
    assert found.warnings == ()
    long = plan(llama(), 86_711 * 131072, engine_version="1.1.0", context=131072).capacity
    assert long is not None
    assert long.max_context == 86_720
    assert "Reducing to 86720" in long.warnings[0]
    assert ENGINE.settle(Deployment(model=llama(), engine_version="0.13.0")).question.block_size == 64


def test_states_in_the_pool_of_v1() -> None:
    """bytes(T) = T x (attention + state / interval) + max_batch_size x state."""
    found = plan(hybrid(), 40 * GIB, {**V1, "mamba_state_cache_interval": "256"}, max_num_seqs=64, context=4096).capacity
    assert found is not None
    tokens = (40 * GIB - 64 * STATE) // (TOKEN + STATE // 256)
    assert found.blocks == tokens // 32
    assert {group.role: group.cells for group in found.groups}["state"] == 64 + 1 + tokens // 256


def test_states_under_v2() -> None:
    """max_batch_size states and one for graph padding, then tokens."""
    found = plan(hybrid(), 40 * GIB, max_num_seqs=64, context=4096).capacity
    assert found is not None
    assert found.tokens == (40 * GIB - 65 * STATE) // TOKEN


def test_max_tokens() -> None:
    """V1 takes the smaller; V2 keeps 5 % for requests that resume."""
    for options, tokens in ((V1, 100_000), (V2, int(100_000 / 0.95))):
        found = plan(llama(), 50 * GIB, {**options, "max_tokens": "100000"}).capacity
        assert found is not None
        assert found.blocks == tokens // 32


def test_host_tier() -> None:
    """V2 makes one of half the host's free memory at most, for all ranks together; V1 only what is asked."""
    by_itself = plan(llama(), 50 * GIB, V2, host_memory=64 * GIB).capacity
    asked = plan(llama(), 50 * GIB, {**V1, "host_cache_size": "8GiB"}).capacity
    none = plan(llama(), 50 * GIB, {**V2, "host_cache_size": "0"}, host_memory=64 * GIB).capacity
    page = 32 * 131072
    assert by_itself is not None
    assert asked is not None
    assert none is not None
    assert by_itself.groups[-1].cells == 32 * GIB // page
    shared = plan(llama(), 50 * GIB, V2, host_memory=64 * GIB, tp=2).capacity
    assert shared is not None
    assert shared.groups[-1].cells == 16 * GIB // (page // 2)
    assert asked.groups[-1].cells == 8 * GIB // page
    assert none.groups[-1].role == "full"


def test_cross_attention_gets_its_half() -> None:
    cross = {**GQA, "kind": "cross", "encoder_tokens": 1500}
    model = one_block(None, 4, max_context=448, layers=[{"pattern": ["4*both"]}], blocks={"both": {"mixers": [GQA, cross]}})
    found = plan(model, GIB).capacity
    assert found is not None
    assert found.blocks == GIB // 2 // (4 * 4096) // 32


def test_pipeline_stages_agree_on_the_fewest_tokens() -> None:
    """33 layers over 2 stages: 17 and 16; tokens are those of the first."""
    found = plan(one_block(GQA, 33), 10 * GIB, V1, pp=2)
    assert [ledger.cache_bytes_per_token for ledger in found.ledgers] == [17 * 4096, 16 * 4096]
    assert found.capacity is not None
    assert found.capacity.blocks == 10 * GIB // (17 * 4096) // 32
    assert found.ledgers[1].cache_bytes == found.capacity.blocks * 32 * 16 * 4096


def test_what_it_does_not_do() -> None:
    with pytest.raises(UnsupportedError, match="context parallelism"):
        ENGINE.settle(Deployment(model=llama(), tp=2, dcp=2))
    with pytest.raises(SpecError, match="swa_full_tokens_ratio"):
        settle(Deployment(model=llama(), engine="tensorrt-llm", engine_option=(("swa_full_tokens_ratio", "0.8"),)))
    with pytest.raises(SpecError, match="add up to 1"):
        ENGINE.settle(Deployment(model=llama(), engine_option=(("window_size_shares", "0.5,0.6"),)))
    with pytest.raises(SpecError, match="max_attention_window"):
        ENGINE.settle(Deployment(model=llama(), engine_option=(("max_attention_window", "x"),)))
    outcome = plan(llama(), GIB, kv_dtype="q8_0")
    assert outcome.starts is False


def test_on_a_device() -> None:
    """The interval of a modelled peak holds the point; a card too small refuses."""
    card = Device(id="h200", name="H200", vendor="nvidia", memory_gb=141, cuda_total_mib=143167, bandwidth_gb_per_s=4800)
    found = plan(llama(), None, device=card, context=4096, batch=8, constants=constants("tensorrt-llm"))
    assert found.fits is True
    assert found.capacity is not None
    assert found.capacity.kv_bytes_low < found.capacity.kv_bytes < found.capacity.kv_bytes_high
    names = [entry.name for entry in found.ledgers[0].entries]
    assert {"outside torch", "activations", "cache: pools"} <= set(names)
    assert plan(one_block(GQA, 4, hidden=16384, vocab_size=1 << 20), None, device=sized(8 * GIB)).starts is False
