"""Continuous batching: sectors that transformers' own PagedAttentionMemoryHandler computed for stub configurations.

transformers 5.23.0 (5.24.0 the same but for tp), torch 2.13.0 on a CPU, `infer_max_batch_tokens_and_num_sectors` with the free memory
given: (sectors, bytes per sector).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines import find
from kvplan.spec import ModelSpec, lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import model_tensors

GIB = 1 << 30
FULL = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}
WIDE = {"kind": "gqa", "heads": 32, "kv_heads": 16, "head_dim": 128}
WINDOW = {**WIDE, "kind": "sliding", "window": 1024}


def spec(layers: list[dict[str, Any]], hidden: int, vocab: int) -> ModelSpec:
    blocks = {"full": {"mixers": [layers[-1]]}, "window": {"mixers": [WINDOW]}}
    names = ["window" if layer is WINDOW else "full" for layer in layers]
    return parse_spec(
        {
            "id": "test/paged", "name": "paged", "source": "stub configuration", "vocab_size": vocab, "hidden_size": hidden,
            "n_layers": len(names), "layers": [{"pattern": names}], "blocks": {name: blocks[name] for name in set(names)},
            "max_context": 1 << 20,
        },
        "test",
    )  # fmt: skip


LLAMA = spec([FULL] * 32, 4096, 128_256)
GEMMA = spec([WINDOW, WINDOW] + ([WINDOW] * 5 + [WIDE]) * 10, 5376, 262_208)
FREE, LITTLE = 80 * GIB - 16 * 10**9, 26 * 10**9


@pytest.mark.parametrize(
    ("model", "free", "options", "expected"),
    [
        (LLAMA, FREE, {}, (1794, 33_554_432)),
        (LLAMA, FREE, {"logits_to_keep": "false"}, (1692, 33_554_432)),
        (LLAMA, FREE, {"attn_implementation": "sdpa"}, (1455, 33_554_432)),
        (LLAMA, FREE, {"use_async_batching": "false"}, (1794, 33_554_432)),
        (LLAMA, 8 * GIB, {"tokens": 2048, "page": 32}, (1650, 4_194_304)),
        (GEMMA, LITTLE, {}, (34, 545_259_520)),
        (GEMMA, LITTLE, {"attn_implementation": "sdpa"}, (22, 545_259_520)),
        (LLAMA, FREE, {"num_blocks": "100"}, (100, 33_554_432)),
    ],
)
def test_sectors(model: ModelSpec, free: int, options: dict[str, Any], expected: tuple[int, int]) -> None:
    stored = 2 * sum(n * w.elems for w, n in model_tensors(lower(model, CacheFormats("bf16", "bf16", "bf16", "bf16"))))
    engine = find("transformers")
    question = Deployment(
        model=model,
        engine="transformers",
        device=sized(free + stored),
        context=4096,
        block_size=options.get("page"),
        max_num_batched_tokens=options.get("tokens"),
        engine_option=(("cache_implementation", "paged"), *((k, v) for k, v in options.items() if k not in ("page", "tokens"))),
    )
    capacity = engine.plan(engine.settle(question)).capacity
    assert capacity is not None
    assert (capacity.blocks, capacity.bytes_per_block) == expected
    assert capacity.kv_bytes == (expected[0] + 2) * expected[1]


@pytest.mark.parametrize(
    ("version", "tp", "attention", "expected"),
    [
        ("5.23.0", 2, "flash_attention_2", (3485, 16_777_216)),
        ("5.23.0", 4, "sdpa", (3577, 8_388_608)),
        ("5.24.0", 1, "sdpa", (1455, 33_554_432)),
        ("5.24.0", 2, "flash_attention_2", (3594, 16_777_216)),
        ("5.24.0", 2, "sdpa", (2657, 16_777_216)),
        ("5.24.0", 4, "sdpa", (4510, 8_388_608)),
    ],
)
def test_sectors_of_a_rank(version: str, tp: int, attention: str, expected: tuple[int, int]) -> None:
    """The handlers of both releases, run with the heads of one rank (kv_tp_size, from 5.24): each rank has 1 / tp of K and V."""
    engine = find("transformers")
    options = (("cache_implementation", "paged"), ("attn_implementation", attention))
    made = Deployment(model=LLAMA, engine="transformers", engine_version=version, tp=tp, context=4096, engine_option=options)
    weights = sum(e.bytes for e in engine.plan(engine.settle(replace(made, kv_memory=GIB))).ledgers[0].entries if e.kind == "weights")
    found = engine.plan(engine.settle(replace(made, device=sized(FREE + weights))))
    assert found.capacity is not None
    assert (found.capacity.blocks, found.capacity.bytes_per_block) == expected
    assert found.ledgers[0].ranks == tuple(range(tp))


def test_heads_that_ranks_do_not_divide() -> None:
    engine = find("transformers")
    asked = Deployment(
        model=LLAMA, engine="transformers", tp=16, context=4096, device=sized(80 * GIB), engine_option=(("cache_implementation", "paged"),)
    )
    found = engine.plan(engine.settle(asked))
    assert (found.starts, found.reason) == (False, "Number of key value heads 8 must be divisible by tensor parallel size 16.")
