"""The budgets of SGLang, TensorRT-LLM and llama.cpp are arithmetic on their constants: written out here with constants of round numbers."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.catalogue import find_device
from kvplan.constants import Constant, Constants, Spread
from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines import find
from kvplan.engines.common.protocol import Outcome
from kvplan.engines.tensorrt_llm.settle import MAX_BATCH
from kvplan.spec import ModelSpec
from kvplan.units import GIB, MIB
from tests.conftest import one_block, planned

GQA = {"kind": "gqa", "heads": 8, "kv_heads": 8, "head_dim": 128}
CARD = sized(100 * GIB)
OLDEST = {"sglang": "0.4.3", "tensorrt-llm": "0.5.0", "llama.cpp": "b5130"}


def model() -> ModelSpec:
    return one_block(GQA, 4, hidden=1024, vocab_size=10_000, dtype="bf16")


def constants(engine: str, kinds: tuple[str, ...], **values: float) -> Constants:
    rows = tuple(Constant(name, OLDEST[engine], value, value / 2, 2 * value, 3) for name, value in values.items())
    return Constants("packaged", engine, "a test", rows, tuple(Spread(kind, 0.01, 0.02, 3) for kind in (*kinds, "measured")))


def plan(engine: str, **asked: Any) -> Outcome:
    one = find(engine)
    return one.plan(one.settle(Deployment(model=model(), engine=engine, **asked)))


def lines(outcome: Outcome) -> dict[str, int]:
    return {e.name: e.bytes for e in outcome.ledgers[0].entries}


def weights(outcome: Outcome) -> int:
    return sum(n for name, n in lines(outcome).items() if name.startswith("weights: "))


SGLANG = constants(
    "sglang",
    ("discrete", "unified"),
    context=GIB,
    context_unified=9 * GIB,
    link=GIB / 4,
    link_switch=2 * GIB,
    loading=GIB / 2,
    graph_bytes=GIB / 100,
)


def test_sglang() -> None:
    """rest = free - weights - loading - 20 % of free, free = 100 - 1 GiB; pages of 16,384 B a token, and one more of padding."""
    found = plan("sglang", device=CARD, context=4096, memory_fraction=0.8, constants=SGLANG)
    free = 99 * GIB
    rest = free - weights(found) - GIB // 2 - int(free * (1 - 0.8))
    assert found.capacity is not None
    assert found.capacity.tokens == rest // (4 * 2 * 8 * 128 * 2)
    assert found.capacity.kv_bytes_low == pytest.approx(
        rest - 1.25**0.5 * GIB, rel=1e-6
    )  # 1 GiB of context and a half of loading, in squares
    # 2 % of it are within 0.8 x 1 GiB of context, half a GiB of loading, and 1 % that a device may have more than its kind
    assert found.capacity.kv_bytes_high == pytest.approx(rest + 2 * GIB, rel=1e-6)


@pytest.mark.parametrize(("device", "gone"), [("rtx-4090", GIB // 4), ("h100-80gb", 2 * GIB), ("rtx-5090", GIB // 4)])
def test_sglang_links(device: str, gone: int) -> None:
    """Cards and modules: a 5090's memory is as fast as a module's, it has no link."""
    card = find_device(device)
    assert lines(plan("sglang", device=card, tp=2, context=4096, constants=SGLANG))["distributed init"] == gone
    assert card.is_module == (gone == 2 * GIB)
    assert "distributed init" not in lines(plan("sglang", device=card, context=4096, constants=SGLANG))


TRT = constants(
    "tensorrt-llm", ("engine", "profiled", "unified"), outside_torch=2 * GIB, outside_torch_unified=9 * GIB, activation_bytes=40,
    context=GIB, context_unified=9 * GIB, execution_bytes=20, slot_bytes=30, link=GIB / 4, link_switch=2 * GIB, loading=GIB / 8,
)  # fmt: skip


def test_tensorrt_llm_profiled() -> None:
    """0.9 x (100 GiB - weights - 2 GiB - 40 B x 8,192 tokens x 1,024 hidden - 1/8 GiB)"""
    found = plan("tensorrt-llm", device=CARD, context=4096, engine_version="1.2.0", constants=TRT)
    free = 100 * GIB - weights(found) - 2 * GIB - 40 * 8192 * 1024 - GIB // 8
    assert found.capacity is not None
    assert found.capacity.kv_bytes == pytest.approx(0.9 * free, rel=1e-5)


@pytest.mark.parametrize("asked", [{"engine_version": "0.13.0"}, {"engine_version": "1.2.0", "engine_option": (("backend", "tensorrt"),)}])
def test_tensorrt_llm_engines(asked: dict[str, Any]) -> None:
    """2,048 slots: a row of 10,000 bf16 logits each, 30 B for each of them in buffers and decoder, an int32 for each of 4,096 positions."""
    found = plan("tensorrt-llm", device=CARD, context=4096, constants=TRT, **asked)
    slots = MAX_BATCH
    held = GIB + 20 * 8192 * 1024 + slots * 10_000 * (2 + 30) + slots * 4096 * 4 + GIB // 8
    assert found.capacity is not None
    assert found.capacity.kv_bytes == pytest.approx(0.9 * (100 * GIB - weights(found) - held), rel=1e-5)


def test_llama_cpp_counts_the_context_on_devices_of_their_own() -> None:
    """An RTX 4090 has 128 multiprocessors: 1 GiB, 1 MiB for each, and 64 MiB while it runs."""
    of_cards = {"context": GIB, "context_multiprocessor": MIB, "context_running": 64 * MIB, "context_amd": MIB, "context_other": MIB}
    own = constants("llama.cpp", (), compute=1.0, **of_cards)
    apart, shared = (
        lines(plan("llama.cpp", device=find_device(name), context=4096, constants=own)) for name in ("rtx-4090", "apple-m4-max-64gb")
    )
    assert apart["CUDA context"] == GIB + (128 + 64) * MIB
    assert "CUDA context" not in shared
    twice = constants("llama.cpp", (), compute=2.0, **of_cards)
    doubled = lines(plan("llama.cpp", device=find_device("rtx-4090"), context=4096, constants=twice))
    masks = 4096 * 512 * 2  # counted, whatever the factor
    assert doubled["compute buffer"] - masks == 2 * (apart["compute buffer"] - masks)


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
def test_without_constants_the_plan_says_so(engine: str) -> None:
    one = find(engine)
    settled = one.settle(Deployment(model=model(), engine=engine, device=CARD, context=4096))
    assert any("no calibration" in note for note in settled.notes)
    capacity = one.plan(settled).capacity
    assert capacity is not None
    assert capacity.kv_bytes_low < capacity.kv_bytes  # a tenth of the device may be taken by what is not charged
    given = one.settle(Deployment(model=model(), engine=engine, kv_memory=GIB, context=4096))
    assert not any("no calibration" in note for note in given.notes)


@pytest.mark.parametrize(("fraction", "sure"), [(0.85, "too close to call"), (0.7, "certain")])
def test_a_refusal_of_the_pools_is_as_sure_as_what_they_are_made_of(fraction: float, sure: str) -> None:
    """A public server started at 0.85 (tests/threads, n26-b-invocarem), where less than 1 GiB is missing of what 48 requests keep:
    what a GB10 holds outside torch is 8 GiB more or less (calibration/sglang.yaml context_unified). A hundredth is 1.2 GiB."""
    plan = planned(
        "qwen/qwen3.5-122b-a10b-gptq-int4", engine="sglang", engine_version="0.5.9", device="gb10", max_model_len="8k", kv_dtype="bf16",
        speculative="mtp:2", memory_fraction=fraction, engine_option={"attention_backend": "triton"},
    )  # fmt: skip
    assert (plan.starts, plan.certainty) == (False, sure)
