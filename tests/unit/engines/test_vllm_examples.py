"""Worked examples: what the planner of vLLM 0.33 (or of the release named) computed when it was run on these geometries.

Each expected number was printed by the engine's own code on stand-in configs, with the available memory as an input; ids A1 to K1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.engines.vllm.capacity import make_pool, make_tables, num_blocks, reported_tokens
from kvplan.engines.vllm.groups import Member, form_groups
from kvplan.engines.vllm.rules import find_rules
from kvplan.engines.vllm.settle import settle
from kvplan.engines.vllm.specs import Spec
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec, parse_spec
from kvplan.units import GIB


def spec(name: str, pattern: list[str], blocks: dict[str, Any], **more: Any) -> ModelSpec:
    """A model of these blocks; hidden size, vocabulary and feed-forward parts play no part here."""
    n = sum(int(item.split("*")[0]) if "*" in item else 1 for item in pattern)
    return parse_spec(
        {
            "id": f"test/{name}",
            "name": name,
            "source": "engine example",
            "vocab_size": 32000,
            "hidden_size": 4096,
            "n_layers": n,
            "layers": [{"pattern": pattern}],
            "blocks": {key: {"mixers": value} for key, value in blocks.items()},
            **more,
        },
        name,
    )


def gqa(heads: int, kv: int, dim: int, **more: Any) -> dict[str, Any]:
    return {"kind": "gqa", "heads": heads, "kv_heads": kv, "head_dim": dim, **more}


def mla(**more: Any) -> dict[str, Any]:
    sizes = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    return {"kind": "mla", "heads": 128, "q_lora_rank": 1536, **sizes, **more}


LLAMA_8B = spec("llama-8b", ["32*a"], {"a": [gqa(32, 8, 128)]}, max_context=131072)
LLAMA_70B = spec("llama-70b", ["80*a"], {"a": [gqa(64, 8, 128)]}, max_context=131072)
GPT_OSS = spec(
    "gpt-oss-20b", ["w", "f"] * 12, {"f": [gqa(64, 8, 64)], "w": [{**gqa(64, 8, 64), "kind": "sliding", "window": 128}]}, max_context=131072
)
GEMMA_27B = spec(
    "gemma-3-27b",
    ["5*w", "f"] * 10 + ["2*w"],
    {"f": [gqa(32, 16, 128)], "w": [{**gqa(32, 16, 128), "kind": "sliding", "window": 1024}]},
    max_context=131072,
)
DEEPSEEK_V3 = spec("deepseek-v3", ["61*a"], {"a": [mla()]}, max_context=163840, mtp={"modules": 1, "block": "a"})
DEEPSEEK_V32 = spec(
    "deepseek-v3.2", ["61*a"], {"a": [mla(kind="mla_sparse", index_heads=64, index_head_dim=128, index_topk=2048)]}, max_context=163840
)
QWEN3_NEXT = spec(
    "qwen3-next",
    ["3*d", "f"] * 12,
    {
        "f": [gqa(16, 2, 256)],
        "d": [{"kind": "gated_delta_net", "key_heads": 16, "value_heads": 32, "key_head_dim": 128, "value_head_dim": 128, "d_conv": 4}],
    },
    max_context=262144,
)
WHISPER = spec(
    "whisper", ["32*a"], {"a": [{"kind": "mha", "heads": 20, "head_dim": 64}, {**gqa(20, 20, 64), "kind": "cross"}]}, max_context=448
)
SCOUT = spec(
    "llama-4-scout",
    ["3*c", "f"] * 12,
    {"f": [gqa(40, 8, 128)], "c": [{**gqa(40, 8, 128), "kind": "chunked", "chunk": 8192}]},
    max_context=1048576,
)
MISTRAL = spec("mistral", ["32*w"], {"w": [{**gqa(32, 8, 128), "kind": "sliding", "window": 4096}]}, max_context=32768)


def ask(model: ModelSpec, gib: int, length: int | None = None, version: str = "0.33.0", **more: Any) -> Plan:
    options = more.pop("options", {})
    return evaluate(
        Deployment(
            model=model,
            engine="vllm",
            engine_version=version,
            kv_memory=gib * GIB,
            max_model_len=length,
            max_num_batched_tokens=more.pop("batch_tokens", 8192),
            engine_option=tuple(options.items()),
            **more,
        )
    )


def figures(plan: Plan) -> tuple[int | None, int | None, int | None]:
    """Bytes per block, blocks, reported tokens."""
    assert plan.capacity is not None, plan.outcome.reason
    return plan.capacity.bytes_per_block, plan.capacity.blocks, plan.capacity.tokens


SYNC = {"async_scheduling": "false"}
F32 = {"mamba_ssm_cache_dtype": "float32"}
EXAMPLES: dict[str, tuple[Callable[[], Plan], tuple[int, int, int]]] = {
    "A1": (partial(ask, LLAMA_8B, 50, 131072), (2_097_152, 25_600, 409_600)),
    "A2 length that is no multiple of the block": (partial(ask, LLAMA_8B, 50, 8200), (2_097_152, 25_600, 409_200)),
    "A3 fp8": (partial(ask, LLAMA_8B, 50, 131072, kv_dtype="fp8"), (1_048_576, 51_200, 819_200)),
    "A4 nvfp4": (partial(ask, LLAMA_8B, 50, 131072, kv_dtype="nvfp4"), (589_824, 91_022, 1_456_352)),
    "A4 int8 per token and head": (partial(ask, LLAMA_8B, 50, 131072, kv_dtype="int8_per_token_head"), (1_081_344, 49_648, 794_368)),
    "A5 EAGLE-3": (partial(ask, LLAMA_8B, 50, 131072, speculative="eagle3:3"), (2_162_688, 24_824, 397_184)),
    "B1 tp 8": (partial(ask, LLAMA_70B, 45, 131072, tp=8), (655_360, 73_728, 1_179_648)),
    "B1 tp 16": (partial(ask, LLAMA_70B, 45, 131072, tp=16), (655_360, 73_728, 1_179_648)),
    "C1": (partial(ask, GPT_OSS, 50, 131072), (393_216, 136_533, 1_939_908)),
    "C2 async off": (partial(ask, GPT_OSS, 50, 131072, options=SYNC), (393_216, 136_533, 2_053_902)),
    "C2 hybrid manager off": (
        partial(ask, GPT_OSS, 50, 131072, options={"disable_hybrid_kv_cache_manager": "true"}),
        (786_432, 68_266, 1_092_256),
    ),
    "C3 one draft layer": (partial(ask, GPT_OSS, 50, 131072, speculative="eagle3:3"), (425_984, 126_030, 1_790_677)),
    "C4 0.20.0": (partial(ask, GPT_OSS, 50, 131072, "0.20.0"), (393_216, 136_533, 1_092_256)),
    "C4 0.23.0": (partial(ask, GPT_OSS, 50, 131072, "0.23.0"), (393_216, 136_533, 2_053_902)),
    "D1": (partial(ask, GEMMA_27B, 20, 131072), (1_310_720, 16_384, 145_829)),
    "D1 batches of 2048": (partial(ask, GEMMA_27B, 20, 131072, batch_tokens=2048), (1_310_720, 16_384, 212_243)),
    "D1 0.20.0": (partial(ask, GEMMA_27B, 20, 131072, "0.20.0"), (1_310_720, 16_384, 37_440)),
    "D1 0.23.0": (partial(ask, GEMMA_27B, 20, 131072, "0.23.0"), (1_310_720, 16_384, 184_270)),
    "E1": (partial(ask, DEEPSEEK_V3, 40, 163840, tp=8, block_size=64), (4_497_408, 9_549, 611_136)),
    "E1 with its MTP module": (
        partial(ask, DEEPSEEK_V3, 40, 163840, tp=8, block_size=64, speculative="mtp:1"),
        (4_571_136, 9_395, 601_280),
    ),
    "E1 dcp 8": (partial(ask, DEEPSEEK_V3, 40, 163840, tp=8, dcp=8, block_size=64), (4_497_408, 9_549, 4_889_088)),
    "E2": (partial(ask, DEEPSEEK_V32, 40, 163840, tp=8, kv_dtype="fp8"), (3_076_352, 13_961, 893_504)),
    "F1 tp 1": (partial(ask, QWEN3_NEXT, 20, 262144, options=F32), (25_952_256, 827, 850_168)),
    "F1 tp 2": (partial(ask, QWEN3_NEXT, 20, 262144, tp=2, options=F32), (12_976_128, 1_654, 1_700_337)),
    "F1 tp 4": (partial(ask, QWEN3_NEXT, 20, 262144, tp=4, options=F32), (6_488_064, 3_309, 1_724_521)),
    "F2 states in bf16": (partial(ask, QWEN3_NEXT, 20, 262144, tp=4), (3_342_336, 6_425, 1_736_366)),
    "F2 prefix caching off": (
        partial(ask, QWEN3_NEXT, 20, 262144, tp=4, options={**F32, "enable_prefix_caching": "false"}),
        (6_488_064, 3_309, 1_734_868),
    ),
    "G1": (partial(ask, WHISPER, 10, 448, options=SYNC), (2_621_440, 4_096, 3_398)),
    "G1 encoder budget 1500": (
        partial(ask, WHISPER, 10, 448, options={"max_num_encoder_input_tokens": "1500"}),
        (2_621_440, 4_096, 15_041),
    ),
    "H1": (partial(ask, SCOUT, 20, 524288, tp=8), (98_304, 218_453, 3_064_327)),
    "H1 hybrid manager off": (
        partial(ask, SCOUT, 20, 524288, tp=8, options={"disable_hybrid_kv_cache_manager": "true"}),
        (393_216, 54_613, 873_808),
    ),
    "J1": (partial(ask, MISTRAL, 20, 32768), (2_097_152, 10_240, 261_939)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_planner(name: str) -> None:
    question, expected = EXAMPLES[name]
    assert figures(question()) == expected


@pytest.mark.parametrize(
    ("question", "times"),
    [
        (partial(ask, LLAMA_8B, 50, 131072), "3.12x"),  # 3.125, to two digits as Python rounds it
        (partial(ask, GPT_OSS, 50, 131072), "14.80x"),
        (partial(ask, GPT_OSS, 50, 131072, "0.20.0"), "15.67x"),
        (partial(ask, GPT_OSS, 50, 131072, "0.23.0"), "15.67x"),
        (partial(ask, GEMMA_27B, 20, 131072), "1.11x"),
        (partial(ask, GEMMA_27B, 20, 131072, "0.23.0"), "1.41x"),
    ],
)
def test_printed_concurrency(question: Callable[[], Plan], times: str) -> None:
    capacity = question().capacity
    assert capacity is not None
    assert capacity.log_lines[-1].endswith(times)


def test_a6_one_request_needs_the_null_block_too() -> None:
    plan = ask(LLAMA_8B, 16, 131072)
    assert (plan.starts, plan.fits) == (False, False)
    # 16 GiB are needed and 16 GiB less one block of 2 MiB are there
    assert plan.outcome.reason is not None
    assert "(16.0 GiB KV cache is needed, which is larger than the available KV cache memory (16.0 GiB)" in plan.outcome.reason
    assert ask(LLAMA_8B, 16, 131072, "0.28.0").starts  # before 0.29 the null block was not counted


def test_a7_auto_fit() -> None:
    plan = ask(LLAMA_8B, 8, options={"auto_fit": "true"})
    assert figures(plan) == (2_097_152, 4_096, 65_536)
    assert plan.capacity is not None
    assert plan.capacity.max_context == 65_520
    assert plan.capacity.log_lines[0].startswith("Auto-fit max_model_len: reduced from 131072 to 65520 to fit in available")
    assert plan.fits


@pytest.mark.parametrize(("tp", "block"), [(1, 1056), (2, 1056), (4, 528)])
def test_f1_block_sizes(tp: int, block: int) -> None:
    capacity = ask(QWEN3_NEXT, 20, 262144, tp=tp, options=F32).capacity
    assert capacity is not None
    assert capacity.block_tokens == block


def test_f2_block_size_of_bf16_states() -> None:
    capacity = ask(QWEN3_NEXT, 20, 262144, tp=4).capacity
    assert capacity is not None
    assert capacity.block_tokens == 272


def test_i1_the_smallest_stage_decides() -> None:
    settled = settle(Deployment(model=LLAMA_8B, engine="vllm", pp=3, kv_memory=GIB))
    s = settled.settings
    layer = Spec("full_attention", 16, 4096, (8, 128, 128, "bf16", "bf16"))
    members = [Member(stage, layer) for stage, n in enumerate((11, 11, 10)) for _ in range(n)]
    pool = make_pool(make_tables(members, s), [60 * GIB, 60 * GIB, 58 * GIB], s)
    assert pool.block_bytes == (720_896, 720_896, 655_360)
    assert num_blocks(pool) == 89_367
    assert reported_tokens(pool, s, 89_367, 131072) == 1_429_872


def test_k1_pages_that_do_not_match() -> None:
    full = Spec("full_attention", 16, 4096, (8, 128, 128))
    half = Spec("sliding_window", 16, 2048, (4, 128, 128), span=1024)
    odd = Spec("sliding_window", 16, 1920, (6, 80, 80), span=1024)
    rules = find_rules("0.33")[1]
    assert odd.page == 30_720
    grown = form_groups([Member(0, full), Member(0, half)], rules, hybrid=True)[1].members[0].spec
    assert (grown.block, grown.page) == (32, 65_536)
    padded = form_groups([Member(0, full), Member(0, odd)], rules, hybrid=True)[1].members[0].spec
    assert (padded.block, padded.page) == (16, 65_536)


@pytest.mark.parametrize(("requested", "graphs", "tokens"), [(0.90, 0.0, 450_400), (0.92, 0.0, 463_376), (0.92, 0.6, 458_448)])
def test_bytes_to_tokens(requested: float, graphs: float, tokens: int) -> None:
    """79.19 GiB, weights 14.99, other memory 1.3: the rest in blocks of 2 MiB of 16 tokens."""
    left = int((79.19 * requested - 14.99 - 1.3 - graphs) * GIB)
    plan = evaluate(Deployment(model=LLAMA_8B, engine="vllm", kv_memory=left, max_model_len=131072))
    assert plan.capacity is not None
    assert (plan.capacity.blocks or 0) * 16 == tokens
