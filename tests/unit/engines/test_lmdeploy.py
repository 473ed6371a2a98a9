"""LMDeploy 0.2 to 0.18, by hand from its sources, and against lines that it printed."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.catalogue import find_device, find_model
from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines import settle
from kvplan.engines.common.protocol import Capacity, Outcome
from kvplan.engines.lmdeploy.pools import Slabs
from kvplan.errors import SpecError, UnsupportedError
from kvplan.manifests import Source, emit
from kvplan.units import GIB, MIB
from tests.conftest import one_block, planned

LLAMA, V2_LITE, V3_2 = "meta-llama/llama-3.1-8b", "deepseek-ai/deepseek-v2-lite", "deepseek-ai/deepseek-v3.2"
GQA = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}
DELTA = {"kind": "gated_delta_net", "key_heads": 16, "value_heads": 32, "key_head_dim": 128, "value_head_dim": 128, "d_conv": 4}
#: One sequence's states of DELTA: 8192 channels of 4 columns, and 32 matrices of 128 x 128, in 16 bits.
CONV, STATE = 8192 * 4 * 2, 32 * 128 * 128 * 2


def ask(model: Any, **more: Any) -> Outcome:
    """What the engine answers; names that no question has are engine options."""
    fields = {name: more.pop(name) for name in list(more) if name in Deployment.__dataclass_fields__}
    options = tuple((key, str(value)) for key, value in more.items())
    spec = find_model(model) if isinstance(model, str) else one_block(model, architecture=None)
    engine, settled = settle(Deployment(model=spec, engine="lmdeploy", engine_option=options, **({"context": 1000} | fields)))
    return engine.plan(settled)


def held(model: Any, **more: Any) -> Capacity:
    capacity = ask(model, **more).capacity
    assert capacity is not None
    return capacity


@pytest.mark.parametrize("backend", ["turbomind", "pytorch"])
@pytest.mark.parametrize(
    ("tp", "kv_dtype", "block"),
    [
        (1, None, 32 * 2 * 8 * 64 * 256),  # layers x K and V x KV heads x tokens x 128 elements of 2 bytes: 8 MiB
        (2, None, 32 * 2 * 4 * 64 * 256),
        (16, None, 32 * 2 * 1 * 64 * 256),  # heads are repeated over ranks
        (1, "int8", 32 * 2 * 8 * 64 * (128 + 4)),  # a 16-bit scale and zero point for each token and head
        (1, "int4", 32 * 2 * 8 * 64 * (64 + 4)),
    ],
)
def test_a_block_of_all_layers(backend: str, tp: int, kv_dtype: str | None, block: int) -> None:
    found = held(LLAMA, kv_memory=40 * GIB, tp=tp, kv_dtype=kv_dtype, backend=backend)
    assert (found.bytes_per_block, found.block_tokens) == (block, 64)
    if backend == "pytorch":
        assert found.blocks == 40 * GIB // block


def test_latents_are_kept_once() -> None:
    """576 elements of 2 bytes, none for V; in blocks of 32 tokens where flash_mla does not run them; V3.2: 656 and an indexer's 132."""
    assert held(V2_LITE, kv_memory=GIB, engine_version="0.16").bytes_per_block == 27 * 64 * 1152
    assert held(V2_LITE, kv_memory=GIB, engine_version="0.16", flash_mla=False).bytes_per_block == 27 * 32 * 1152
    assert held(V2_LITE, kv_memory=GIB, device=find_device("a100-80gb")).block_tokens == 32
    assert held(V2_LITE, kv_memory=GIB, engine_version="0.12.3").bytes_per_block == 27 * 64 * 1152  # TurboMind: K and V share
    assert held(V3_2, kv_memory=GIB, tp=8, engine_version="0.16").bytes_per_block == 61 * 64 * (656 + 132)
    assert held(V3_2, kv_memory=GIB, tp=8).bytes_per_block == 61 * 64 * (1152 + 132)  # 0.17 configurations/deepseek_v32.py: bfloat16
    assert held(V3_2, kv_memory=GIB, tp=8, kv_dtype="fp8").bytes_per_block == 61 * 64 * (656 + 132)
    assert held("zai-org/glm-5", kv_memory=GIB, tp=8).bytes_per_block == 78 * 64 * (1152 + 132)
    assert held("zai-org/glm-5", kv_memory=GIB, tp=8, engine_version="0.14").bytes_per_block == 78 * 64 * (656 + 132)


def test_pytorch_rounds_each_tensor_of_a_block() -> None:
    """A scale tensor of 16 tokens and one head is 64 bytes: 256 from 0.11 on, as K, V and their scales are (CacheDesc.alignment)."""
    one = {**GQA, "kv_heads": 1}
    asked: dict[str, Any] = {"kv_memory": GIB, "block_size": 16, "kv_dtype": "int8", "backend": "pytorch"}
    assert held(one, **asked, engine_version="0.10").bytes_per_block == 2 * (16 * 128 + 64)
    assert held(one, **asked, engine_version="0.16").bytes_per_block == 2 * (16 * 128 + 256)


def test_slabs_of_the_object_cache() -> None:
    """The smallest power of two of 32 MiB or more that is 95 % full; a slab is whole pages of 32 MiB (memory/slab.h, page.h)."""
    assert Slabs.of(8 * MIB) == (8 * MIB, 32 * MIB, 4)
    assert Slabs.of(9 * MIB) == (9 * MIB, 64 * MIB, 7)  # 27 of 32 MiB are 84 %, 63 of 64 MiB 98 %
    assert Slabs.of(33 * MIB) == (33 * MIB, 512 * MIB, 15)  # 33 of 64, 99 of 128, 231 of 256 are under 95 %; 495 of 512 are 97 %
    qwen = held("qwen/qwen3-8b", kv_memory=40 * GIB + MIB)
    assert (qwen.bytes_per_block, qwen.blocks) == (9 * MIB, 40 * GIB // (64 * MIB) * 7)
    assert held("qwen/qwen3-8b", kv_memory=40 * GIB + MIB, engine_version="0.14").blocks == (40 * GIB + MIB) // (9 * MIB)


def test_states() -> None:
    """Set aside for the batch: TurboMind to 0.14 inside its budget, PyTorch beside its blocks, with slots to spare; later by sequence."""
    tm = held(DELTA, kv_memory=GIB, engine_version="0.14", backend="turbomind", max_num_seqs=10)
    assert tm.kv_bytes == 10 * (CONV + STATE)
    qwen = held("qwen/qwen3.5-9b", kv_memory=8 * GIB, engine_version="0.16", context=64, batch=1)
    # 8 attention layers of 2 MiB a block in slabs of 16; 24 states of 1 MiB in slabs of 32; 1.5 MiB of convolutions in slabs of 21 (31.5
    # of 32 MiB): 256 pages, of which one sequence's states take two; 254 x 16 blocks are left
    assert (qwen.bytes_per_block, qwen.tokens) == (2 * MIB, 254 * 16 * 64)
    for version, spare in (("0.12.3", 1), ("0.16", 2)):
        slots = held("qwen/qwen3-next-80b-a3b", kv_memory=20 * GIB, max_num_seqs=100, tp=2, engine_version=version)
        assert (slots.groups[1].cells, slots.groups[1].page_bytes) == (100 + spare, 36 * (CONV + STATE) // 2)
        assert slots.blocks == (20 * GIB - (100 + spare) * 36 * (CONV + STATE) // 2) // (12 * 2 * 64 * 512)


def test_turbomind_takes_a_share_of_what_the_weights_leave() -> None:
    weights = sum(e.bytes for e in ask(LLAMA).ledgers[0].entries)
    found = ask(LLAMA, device=sized(24 * GIB), engine_version="0.14")
    assert found.capacity is not None
    assert found.capacity.blocks == int((24 * GIB - weights) * 0.8) // (8 * MIB)
    assert held(LLAMA, device=sized(24 * GIB), engine_version="0.14", memory_fraction=0.5).blocks == int((24 * GIB - weights) * 0.5) // (
        8 * MIB
    )
    entry = next(e for e in found.ledgers[0].entries if e.kind == "cache")
    assert (entry.basis, entry.high) == ("modelled", entry.bytes)
    assert entry.low == int((24 * GIB - weights - int(0.1 * 24 * GIB)) * 0.8) // (8 * MIB) * 8 * MIB


def test_pytorch_keeps_memory_for_logits() -> None:
    """(max_prefill_token_num + 2 max_batch_size) rows of 16-bit logits come off before the share is taken."""
    found = ask(LLAMA, device=sized(40 * GIB), backend="pytorch", max_num_batched_tokens=4096, max_num_seqs=10)
    entries = {e.name: e.bytes for e in found.ledgers[0].entries}
    weights = sum(n for name, n in entries.items() if name.startswith("weights"))
    assert entries["kept for logits"] == (4096 + 20) * 128_256 * 2
    assert found.capacity is not None
    assert found.capacity.blocks == int((40 * GIB - weights - entries["kept for logits"]) * 0.8) // (8 * MIB)


def test_memory_for_an_indexers_scores_and_heads_by_rank() -> None:
    """0.17 executor/base.py _get_dsa_score_workspace_size, envs.py: 512 MiB; 0.16 models/deepseek_v32.py: the head is a ParallelLMHead."""
    rows = (8192 + 2 * 100) * 129_280 * 2
    asked: dict[str, Any] = {"device": sized(400 * GIB), "tp": 8, "max_num_seqs": 100, "backend": "pytorch"}
    for version, name, kept, split in (
        ("0.15", "kept for logits", rows, 1),
        ("0.16", "kept for logits", rows, 8),
        ("0.17", "kept for logits and scores", rows + 512 * MIB, 8),
        ("0.18", "kept for logits and scores", rows + 512 * MIB, 8),
    ):
        entries = {e.name: e.bytes for e in ask(V3_2, engine_version=version, **asked).ledgers[0].entries}
        assert entries[name] == kept
        assert entries["weights: head"] == 129_280 * 7168 * 2 // split
    given = ask(V3_2, **asked, dsa_indexer_max_logits_mb=1024).ledgers[0].entries
    assert rows + 1024 * MIB in {e.bytes for e in given}


def test_a_smaller_step_where_sixteen_blocks_need_it() -> None:
    """16 GiB less 15 of weights: 8192 tokens are halved until 16 blocks fit; from 0.13 on it refuses at 2 blocks or fewer instead."""
    found = held(LLAMA, device=sized(16 * GIB), backend="pytorch", engine_version="0.12.3")
    assert found.warnings == ("No enough memory. Update max_prefill_token_num=2048",)
    assert (found.blocks or 0) >= 16


def test_embedding_and_head_over_the_ranks() -> None:
    """TurboMind splits both and keeps a tied one twice; PyTorch keeps both whole on every rank."""
    table = 128_256 * 4096 * 2

    def entries(model: str, backend: str, tp: int) -> dict[str, int]:
        return {e.name: e.bytes for e in ask(model, tp=tp, backend=backend).ledgers[0].entries}

    assert entries(LLAMA, "turbomind", 2)["weights: head"] == entries(LLAMA, "turbomind", 2)["weights: embedding"] == table // 2
    assert entries(LLAMA, "pytorch", 2)["weights: head"] == entries(LLAMA, "pytorch", 2)["weights: embedding"] == table
    tied = 151_936 * 896 * 2
    assert entries("qwen/qwen2.5-0.5b", "turbomind", 1)["weights: head"] == tied
    assert "weights: head" not in entries("qwen/qwen2.5-0.5b", "pytorch", 1)


@pytest.mark.parametrize(("device", "size"), [("h100", 1024), ("a100-80gb", 384), ("rtx-4090", 128), ("h200", 1024), ("l40s", 128)])
def test_batch_by_the_name_of_the_device(device: str, size: int) -> None:
    plan = planned(LLAMA, engine="lmdeploy", device=device, context=1000)
    assert plan.question["max_num_seqs"] == (size, "engine default")
    assert plan.question["memory_fraction"] == (0.8, "engine default")
    assert plan.question["block_size"] == (64, "engine default")
    assert plan.question["max_num_batched_tokens"] == (8192, "engine default")


@pytest.mark.parametrize(
    ("model", "version", "backend"),
    [
        (LLAMA, "0.16", "turbomind"),
        ("mistralai/mistral-7b-v0.3", "0.12.3", "turbomind"),
        ("mistralai/mistral-7b-v0.3", "0.14", "pytorch"),
        ("qwen/qwen3.5-9b", "0.16", "turbomind"),
        ("qwen/qwen3-next-80b-a3b", "0.16", "pytorch"),
        (V2_LITE, "0.12.3", "turbomind"),
        (V2_LITE, "0.16", "pytorch"),
    ],
)
def test_which_backend_runs_a_model(model: str, version: str, backend: str) -> None:
    _, settled = settle(Deployment(model=find_model(model), engine="lmdeploy", engine_version=version, context=100))
    assert settled.settings.backend == backend
    assert any("Fallback to pytorch engine" in note for note in settled.notes) == (backend == "pytorch")


def test_a_session_is_cut_to_the_blocks() -> None:
    """InternLM/lmdeploy#3950, gpt-oss-20b with --quant-policy 4: block_size = 0.844 MB, max_block_count = 1740, truncated to 111360."""
    block = 24 * 2 * 8 * 64 * (32 + 4)
    found = held("openai/gpt-oss-20b", kv_memory=1740 * block, kv_dtype="int4", engine_version="0.10.2", max_model_len=131_072)
    assert found.log_lines == (
        "[TM][INFO] [BlockManager] block_size = 0.844 MB",
        "[TM][INFO] [BlockManager] max_block_count = 1740",
        "[TM][INFO] [BlockManager] chunk_size = 1740",
    )
    assert found.warnings == ("No enough blocks for `session_len` (131072), `session_len` truncated to 111360.",)
    assert found.max_context == 111_360
    later = held("openai/gpt-oss-20b", kv_memory=1740 * block, kv_dtype="int4", engine_version="0.14", max_model_len=131_072)
    assert later.log_lines[0] == "[TM][INFO] block_size = 0.844 MB"
    assert later.warnings == ("`session_len` truncated to 111360 due to limited KV cache memory",)


def test_blocks_that_were_logged() -> None:
    """#3411, InternVL2.5-8B (InternLM2.5-7B and a tower of 0.3 billion) on an A100 80G: 8.000 MB, 6214 blocks; #3825: 9.000 MB."""
    logged = ask("internlm/internlm2-7b", device=find_device("a100-80gb"), engine_version="0.10", context=32_768).capacity
    assert logged is not None
    assert logged.bytes_per_block == 8 * MIB
    assert logged.kv_bytes_low <= 6214 * 8 * MIB <= logged.kv_bytes_high
    assert held("qwen/qwen3-8b", kv_memory=GIB, engine_version="0.10").log_lines[0].endswith("block_size = 9.000 MB")


def test_pytorch_admits_one_block_less_than_it_has() -> None:
    """_get_max_session_len: a block is reserved from 0.11 on, and the last is not counted either."""
    asked: dict[str, Any] = {"kv_memory": 100 * 8 * MIB, "backend": "pytorch", "max_model_len": 100_000}
    assert held(LLAMA, **asked).max_context == 98 * 64
    assert held(LLAMA, **asked, engine_version="0.10").max_context == 99 * 64


@pytest.mark.parametrize(
    ("model", "asked", "reason"),
    [
        (
            "moonshotai/kimi-k2.5",
            {"engine_version": "0.16"},
            "Can not found rewrite for architectures: ['KimiK25ForConditionalGeneration'] (its first release is 0.17.0)",
        ),
        (LLAMA, {"memory_fraction": 1.0}, "invalid cache_max_entry_count"),
        (LLAMA, {"block_size": 24, "backend": "pytorch"}, "kernel_block_size must be >= 16 and a power of 2, but got 24"),
        (V3_2, {"kv_dtype": "int8"}, "Sparse MLA does not support quant_policy=int8. Use none/0 for BF16 or fp8/16 for FP8."),
        # cli/utils.py dtype; messages.py TurbomindEngineConfig, PytorchEngineConfig (0.12.3, 0.14.0, 0.16.0)
        (LLAMA, {"dtype": "f32"}, "argument --dtype: invalid choice: 'f32' (choose from 'auto', 'float16', 'bfloat16')"),
        (LLAMA, {"kv_dtype": "fp8"},
         "invalid quant_policy for TurboMind, FP8 quantization is not supported ('fp8'; this backend and release store int4, int8)"),
        (LLAMA, {"kv_dtype": "fp8", "backend": "pytorch", "engine_version": "0.13"},
         "invalid quant_policy ('fp8'; this backend and release store int4, int8)"),
        # pytorch/config.py DistConfig: a world of ep ranks where ep is more than 1, else of tp
        (LLAMA, {"tp": 4, "dp": 3, "backend": "pytorch"}, "world_size 4, dp 3"),
        (LLAMA, {"tp": 4, "ep": 6, "backend": "pytorch"}, "world_size 6, mlp_tp 4"),
        # turbomind/parallel_config.py, from 0.15
        (LLAMA, {"tp": 4, "ep": 3}, "no valid parallel config: dp=1, tp=4, ep=3, cp=1"),
        (LLAMA, {"tp": 3}, "assert head_num % attn_tp_size == 0 (32 query heads over 3 ranks)"),
        (LLAMA, {"backend": "pytorch", "weight_dtype": "gptq"}, "Unsupported quant method: gptq"),
        (LLAMA, {"backend": "pytorch", "kv_memory": 16 * MIB}, "No enough gpu memory for kv cache."),
        (LLAMA, {"device": sized(16 * GIB), "backend": "pytorch"}, "No enough gpu memory for kv cache."),
        (LLAMA, {"device": sized(15510 * MIB), "backend": "pytorch", "engine_version": "0.12.3"}, "No enough gpu memory for runtime."),
        (LLAMA, {"device": sized(8 * GIB)}, "CUDA out of memory: the weights exceed the device by 6.958 GiB"),
        (
            "qwen/qwen3.5-9b",
            {"enable_prefix_caching": True, "engine_version": "0.14"},
            "Prefix caching is unsupported when linear attention is present",
        ),
        ("qwen/qwen3-next-80b-a3b", {"device": sized(160 * GIB), "max_num_seqs": 2000},
         "No enough gpu memory for state cache. Please reduce max_batch_size."),
    ],
)  # fmt: skip
def test_it_would_not_start(model: str, asked: dict[str, Any], reason: str) -> None:
    found = ask(model, **asked)
    assert (found.reason, found.starts, found.fits) == (reason, False, False)


def test_sizes_that_a_backend_passes_over() -> None:
    """pytorch/engine/config_builder.py sets dp to 1 where tp and ep are 1; TurboMind before 0.15 is told no ep (cli/serve.py)."""
    size = sized(24 * GIB)
    alone, one = ask(LLAMA, dp=2, backend="pytorch", device=size), ask(LLAMA, backend="pytorch", device=size)
    assert (alone.starts, len(alone.ledgers[0].ranks)) == (True, 1)
    assert alone.capacity == one.capacity
    assert ask(LLAMA, tp=4, ep=3, engine_version="0.14", device=size).starts is True


def test_counted_blocks() -> None:
    assert held(LLAMA, device=sized(40 * GIB), num_gpu_blocks=500, engine_version="0.14").blocks == 500
    over = ask(LLAMA, device=sized(24 * GIB), num_gpu_blocks=5000, engine_version="0.14")
    assert (over.starts, over.fits) == (False, False)
    counted = ask(LLAMA, num_gpu_blocks=500, engine_version="0.16", device=sized(40 * GIB))
    assert (counted.starts, counted.reason) == (False, "object-cache path no longer accepts cache_max_block_count as a block count")


@pytest.mark.parametrize(
    ("model", "asked", "text"),
    [
        (LLAMA, {"pp": 2}, "pp: LMDeploy is planned over tp, dp and ep"),
        (V3_2, {"engine_version": "0.10"}, "indexers are not supported in this release"),
        ("qwen/qwen3-next-80b-a3b", {"engine_version": "0.10"}, "gated delta nets are not supported in this release"),
        ("openbmb/minicpm3-4b", {}, "kept per head, which is not modelled"),
        ("deepseek-ai/deepseek-v4-flash", {}, "is not modelled"),
        ("state-spaces/mamba2-2.7b", {}, "is not modelled"),
        (LLAMA, {"tp": 8, "dp": 2, "backend": "pytorch", "engine_version": "0.10"}, "one rank to each share, dp 8, not 2"),
    ],
)  # fmt: skip
def test_what_can_not_be_asked(model: str, asked: dict[str, Any], text: str) -> None:
    with pytest.raises((SpecError, UnsupportedError), match=text.replace("(", r"\(").replace(".", r"\.")):
        ask(model, **asked)


def test_flash_mla_is_not_started_with_another_block() -> None:
    refused = ask(V3_2, block_size=128)
    assert (refused.starts, refused.reason) == (False, "Please set block_size to 64 for flash_mla.")


def test_dp_is_replicas_for_turbomind_and_a_share_of_the_ranks_for_pytorch() -> None:
    assert len(ask(LLAMA, dp=2, tp=2).ledgers[0].ranks) == 4
    shared = ask(LLAMA, dp=2, tp=4, backend="pytorch", kv_memory=GIB)
    assert len(shared.ledgers[0].ranks) == 4
    assert shared.capacity is not None
    assert shared.capacity.bytes_per_block == 4 * MIB  # attention over 4 / 2 ranks


def test_a_float32_model_runs_in_float16() -> None:
    """--dtype auto: bf16 for bf16 models, else f16."""
    _, settled = settle(Deployment(model=one_block(GQA, dtype="f32"), engine="lmdeploy", context=100))
    assert settled.question.dtype == "f16"
    assert any("serves a checkpoint in f32 in f16" in note for note in settled.notes)
    assert settled.model.layers[0].caches[0].tensors[0].dtype == "f16"


def test_simulation_runs_on_its_pool() -> None:
    """Blocks that sequences can have: PyTorch's reserved one is none of them; without prefixes unless it is told."""
    plan = planned(LLAMA, engine="lmdeploy", kv_memory=100 * 8 * MIB, context=1000, engine_option={"backend": "pytorch"})
    from kvplan.simulate.geometry import from_plan
    from kvplan.simulate.run import shares_prefixes

    geometry = from_plan(plan)
    assert (geometry.pages, geometry.sort) == (99, "blocks")
    assert not shares_prefixes(plan, geometry)
    delta = planned("qwen/qwen3-next-80b-a3b", engine="lmdeploy", kv_memory=8 * GIB, context=1000, max_num_seqs=7)
    assert from_plan(delta).seats == 7


@pytest.mark.parametrize(
    ("release", "share", "tokens", "starts"),
    [("0.2.1", 0.5, 128, False), ("0.2.2", 0.8, 128, True), ("0.2.6", 0.8, 128, True), ("0.3", 0.8, 64, True)],
)
def test_the_share_was_of_the_whole_device_once(release: str, share: float, tokens: int, starts: bool) -> None:
    """BlockManager.cc GetBlockCount of v0.2.1 and v0.2.2. InternLM2-7B, RTX 3090: half of it and 14.4 GiB of weights are too much
    (InternLM/lmdeploy#978)."""
    device = find_device("rtx-3090")
    plan = planned("internlm/internlm2-7b", engine="lmdeploy", engine_version=release, device=device.id, context=8192)
    assert plan.starts is starts
    capacity = plan.capacity
    assert capacity is not None
    weights = plan.ledgers[0].bytes_of("weights")
    has = device.memory_bytes if release == "0.2.1" else device.memory_bytes - weights
    assert (capacity.block_tokens, capacity.blocks) == (tokens, int(has * share) // (32 * 2 * 8 * tokens * 256))
    assert plan.question["max_num_seqs"][0] == 128


def test_an_older_pytorch_engine_is_not_guessed() -> None:
    with pytest.raises(UnsupportedError, match=r"before 0\.3"):
        ask(LLAMA, backend="pytorch", engine_version="0.2.6", kv_memory=GIB)


def test_a_cache_format_that_is_refused_is_still_the_one_that_was_asked_for():
    """The question of a refusal says what was asked, so that emit can write it and check reads the same refusal."""
    plan = planned("meta-llama/llama-3.1-8b", engine="lmdeploy", device="h100", max_model_len=8192, kv_dtype="fp8")
    assert plan.starts is False
    assert plan.question["kv_dtype"] == ("fp8", "you")
    written = emit(plan, "lmdeploy")
    assert "--quant-policy 16" in written
    (verdict,) = kvplan.check([Source("serve.sh", written)])
    assert verdict.status == "refuses"


def test_turbo_quant_is_not_called_invalid() -> None:
    """messages.py QuantPolicy.TURBO_QUANT = 42, from 0.13 on."""
    with pytest.raises(UnsupportedError, match="TurboQuant, is not modelled"):
        ask(LLAMA, kv_memory=GIB, kv_dtype="turbo_quant", backend="pytorch", engine_version="0.18")
    refused = ask(LLAMA, kv_memory=GIB, kv_dtype="turbo_quant", backend="pytorch", engine_version="0.12.3")
    assert refused.starts is False


def test_kimi_k2_5_from_0_17_on() -> None:
    """pytorch/models/module_map.py: KimiK25ForConditionalGeneration."""
    assert not ask("moonshotai/kimi-k2.5", kv_memory=GIB, tp=8, engine_version="0.16").starts
    assert ask("moonshotai/kimi-k2.5", kv_memory=GIB, tp=8, engine_version="0.17").starts
