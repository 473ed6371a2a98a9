"""Adapters, engine by engine: arithmetic written out from the engines' own buffers.

Llama 3.1 8B has 32 layers: q and o 4,096 x 4,096, k and v 1,024 x 4,096, gate, up and down between 4,096 and 14,336.
"""

from __future__ import annotations

from typing import Any

import pytest

import kvplan

LLAMA = "meta-llama/llama-3.1-8b"
WHOLE = 32 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336))
HALVED = 32 * ((4096 + 2048) + 2 * (4096 + 512) + (2048 + 4096) + 2 * (4096 + 7168) + (7168 + 4096))  # tp 2


def slots(engine: str, name: str = "LoRA slots", **question: Any) -> int:
    plan = kvplan.estimate(LLAMA, engine=engine, context=4096, lora="16x4", advise=False, **{"device": "h100", **question})
    return sum(e.bytes for e in plan.ledgers[0].entries if e.name == name)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_slots_of_every_adapted_matrix(engine: str) -> None:
    assert slots(engine) == 4 * 16 * WHOLE * 2
    assert slots(engine, tp=2) == 4 * 16 * HALVED * 2


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_target_modules(engine: str) -> None:
    assert slots(engine, engine_option={"lora_target_modules": "q_proj,v_proj"}) == 4 * 16 * 32 * (4096 + 4096 + 4096 + 1024) * 2


def test_the_pages_of_tensorrt_llm() -> None:
    # peftCacheManager.cpp: modules are 8,192 (q, o), 5,120 (k, v) and 18,432 wide, a page slot 5,120; 2 + 1 + 1 + 2 + 4 + 4 + 4 slots a row
    # and layer, 8 rows to a page; 16 ranks x 224 modules x 4 adapters of 4 slots each
    per_page = 8 * 18 * 32
    pages = -(-16 * 224 * 4 * 4 // per_page)
    assert slots("tensorrt-llm", "LoRA cache") == pages * per_page * 5120 * 2


def test_llama_cpp_loads_adapters_beside_the_layers_they_adapt() -> None:
    assert slots("llama.cpp") == 4 * 16 * WHOLE * 2
    assert slots("llama.cpp", n_gpu_layers=17, host_memory="64GiB") == 4 * 16 * WHOLE // 2 * 2  # 16 of 32 layers beside the output


def test_transformers_and_mlx_keep_them_in_f32() -> None:
    assert slots("transformers") == slots("mlx-lm", device="apple-m4-max-128gb") == 4 * 16 * WHOLE * 4


def test_lmdeploy_by_its_backend() -> None:
    assert slots("lmdeploy", engine_option={"backend": "pytorch"}) == 4 * 16 * WHOLE * 2
    plan = kvplan.estimate(LLAMA, engine="lmdeploy", context=4096, lora="16x4", device="h100", advise=False)
    assert any("TurboMind loads no adapters" in note for note in plan.model.notes)


def test_a_module_that_is_none() -> None:
    with pytest.raises(kvplan.errors.SpecError, match="lora_target_modules"):
        slots("vllm", engine_option={"lora_target_modules": "banana"})
