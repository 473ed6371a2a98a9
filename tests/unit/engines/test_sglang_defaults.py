"""SGLang's defaults by GPU and release. Fractions: arithmetic of each release's formula, written out in engines' own units (MiB)."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines import settle
from kvplan.engines.sglang.memory import prefill_graph_sizes
from kvplan.engines.sglang.pages import page_size
from kvplan.engines.sglang.plan import ENGINE
from kvplan.errors import SpecError
from kvplan.spec import ModelSpec
from tests.conftest import one_block, planned

GQA: dict[str, Any] = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}
MLA: dict[str, Any] = {
    "kind": "mla", "heads": 16, "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}  # fmt: skip


def gpu(mib: int) -> Device:
    return Device(id="gpu", name="gpu", vendor="nvidia", memory_gb=mib // 1024, nvml_total_mib=mib)


def settled(model: ModelSpec, **question: Any) -> Deployment:
    return ENGINE.settle(Deployment(model=model, **question)).question


# 512 + 1.5 x chunk + 128 x tp + 2 x graph batch + 8 x prefill sizes (1536 where latent), at least 10240 above 60 GiB
FRACTIONS = [
    (15360, 1, GQA, 0.735), (24564, 1, GQA, 0.704), (40960, 1, GQA, 0.823), (46068, 1, GQA, 0.843), (81559, 1, GQA, 0.83),
    (81559, 1, MLA, 0.816), (81559, 8, GQA, 0.812), (81559, 8, MLA, 0.799), (143771, 8, GQA, 0.893), (183359, 8, GQA, 0.849),
]  # fmt: skip


@pytest.mark.parametrize(("mib", "tp", "mixer", "fraction"), FRACTIONS)
def test_fraction_of_the_newest_release(mib: int, tp: int, mixer: dict[str, Any], fraction: float) -> None:
    assert settled(one_block(mixer), device=gpu(mib), tp=tp).memory_fraction == fraction


OLD = [
    ("0.4.3", 81559, 1, 0.88), ("0.4.3", 81559, 2, 0.87), ("0.4.3", 81559, 4, 0.85), ("0.4.3", 81559, 8, 0.81),
    ("0.4.3", 81559, 16, 0.79), ("0.4.6", 81559, 8, 0.81), ("0.4.6.post5", 143771, 8, (143771 - 18432) / 143771),
    ("0.4.7", 183359, 8, 0.79), ("0.4.7", 143771, 8, min(0.81 + 49152 * 0.19 / 143771, (143771 - 18432) / 143771)),
    ("0.5.0", 81559, 1, round((81559 - 10 * 1024) / 81559, 3)), ("0.5.2", 24564, 2, round((24564 - 3 * 1024) / 24564, 3)),
    ("0.5.2", 143771, 8, round((143771 - 16 * 1024) / 143771, 3)), ("0.5.2", 183359, 8, round((183359 - 32 * 1024) / 183359, 3)),
    # 512 + 12288 + 128 + 512: no prefill graphs yet
    ("0.5.3", 81559, 1, round((81559 - 13440) / 81559, 3)),
    # 512 + 3072 + 128 + 2 x 16, then 2 x 24, then 2 x 24 and 8 x 34 prefill sizes, then 6144 for a chunk of 4096, 48 and 50
    ("0.5.4", 24564, 1, round((24564 - 3744) / 24564, 3)), ("0.5.5.post3", 24564, 1, round((24564 - 3760) / 24564, 3)),
    ("0.5.10.post1", 24564, 1, round((24564 - 4096) / 24564, 3)), ("0.5.20", 24564, 1, round((24564 - 7280) / 24564, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("version", "mib", "tp", "fraction"), OLD)
def test_fraction_of_older_releases(version: str, mib: int, tp: int, fraction: float) -> None:
    assert settled(one_block(GQA), device=gpu(mib), tp=tp, engine_version=version).memory_fraction == pytest.approx(fraction, abs=1e-9)


def test_fraction_with_attention_data_parallelism() -> None:
    """512 + 12288 + 1024 + 2 x 512 + 4.5 x 512 x 8 + 464 = 33744 MiB: more than 300 graph batches cost half as much again."""
    question = settled(one_block(GQA), device=gpu(81559), tp=8, dp=8, engine_option=(("enable_dp_attention", "true"),))
    assert question.memory_fraction == round((81559 - 33744) / 81559, 3)
    assert question.n_devices == 8


def test_fraction_of_a_draft_model_by_release() -> None:
    """0.5.5 keeps 2 GiB for EAGLE beyond the floor of 10 GiB, 0.5.23 nothing."""
    for version, reserve in (("0.5.5", 13440 + 2048), ("0.5.23", 13904)):
        found = settled(one_block(GQA), device=gpu(81559), engine_version=version, speculative="eagle3:3").memory_fraction
        assert found == round((81559 - reserve) / 81559, 3)


def test_a_vision_tower_lowers_the_fraction() -> None:
    """ViT-L/14 has about 12 x 24 x 1024^2 parameters: the factor is 0.95. No prefill graphs: 512 + 12288 + 128 + 512 MiB are kept."""
    tower = one_block(GQA, towers=[{"name": "vision", "parameters": 12 * 24 * 1024**2}])
    assert settled(tower, device=gpu(81559)).memory_fraction == pytest.approx(0.835 * 0.95)
    assert settled(tower, device=gpu(81559), multimodal="off").memory_fraction == 0.83


CHUNKS = [("0.4.3", 24564, 2048), ("0.4.3", 81559, 8192), ("0.5.10", 24564, 2048), ("0.5.23", 24564, 4096), ("0.5.23", 183359, 16384)]


@pytest.mark.parametrize(("version", "mib", "chunk"), CHUNKS)
def test_chunked_prefill_size(version: str, mib: int, chunk: int) -> None:
    assert settled(one_block(GQA), device=gpu(mib), engine_version=version).max_num_batched_tokens == chunk


def test_capture_lists() -> None:
    """Lengths printed by arg_groups/cuda_graph_hook.py of the 0.5.23 wheel for chunks of 4096, 8192 and 16384."""
    assert [prefill_graph_sizes(n) for n in (4096, 8192, 16384)] == [50, 58, 74]


PAGES = [
    (None, None, False, 1), (16, None, False, 16), (None, "flashmla", True, 64), (32, "trtllm_mla", True, 32), (16, "trtllm_mla", True, 64),
    (None, "trtllm_mha", False, 64), (128, "trtllm_mha", False, 128), (None, "fa4", False, 128), (None, "fa4", True, 1),
    (1, "hpc_ops", False, 64),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "backend", "latent", "page"), PAGES)
def test_pages_by_backend(asked: int | None, backend: str | None, latent: bool, page: int) -> None:
    assert page_size(asked, (backend or "",), latent=latent, pooled_index=None, compressed=False) == page


def test_pages_that_the_model_sets() -> None:
    assert page_size(None, (), latent=True, pooled_index=1, compressed=False) == 64
    assert page_size(32, ("intel_xpu",), latent=False, pooled_index=None, compressed=False, own={"intel_xpu": (32, 64, 128)}) == 32
    assert page_size(None, (), latent=True, pooled_index=4, compressed=False) == 256
    assert page_size(16, (), latent=True, pooled_index=None, compressed=True) == 256


def test_versions() -> None:
    assert ENGINE.settle(Deployment(model=one_block(GQA))).question.engine_version == "0.5.23"
    assert ENGINE.settle(Deployment(model=one_block(GQA), engine_version="v0.5.5.post3")).notes == ()
    later = ENGINE.settle(Deployment(model=one_block(GQA), engine_version="0.6.0"))
    assert later.question.engine_version == "0.5.23"
    assert "0.6.0 is not a release we know" in later.notes[0]
    between = ENGINE.settle(Deployment(model=one_block(GQA), engine_version="0.4.5"))
    assert between.question.engine_version == "0.4.3"
    assert between.notes
    assert ENGINE.settle(Deployment(model=one_block(GQA), engine_version="0.2.1")).question.engine_version == "0.4.3"


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ({"engine_option": (("gpu_memory_utilization", "0.9"),)}, "gpu_memory_utilization"),
        ({"engine_option": (("swa_full_tokens_ratio", "x"),)}, "swa_full_tokens_ratio"),
        ({"engine_option": (("disable_radix_cache", "maybe"),)}, "disable_radix_cache"),
        ({"engine_option": (("attention_backend", "magic"),)}, "attention_backend"),
        ({"speculative": "medusa:3"}, "medusa"),
        ({"speculative": "eagle"}, "METHOD:TOKENS"),
        ({"tp": 4, "n_devices": 8}, "need 4 devices"),
    ],
)
def test_wrong_questions(question: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError, match=path):
        settle(Deployment(model=one_block(GQA), engine="sglang", **question))


def test_a_draft_of_unknown_depth() -> None:
    settled = ENGINE.settle(Deployment(model=one_block(GQA, 4), kv_memory=1 << 30, speculative="standalone:3"))
    assert settled.unknown == "the size of the standalone drafter is not known: give it with --speculative standalone:3:MODEL"


def test_a_cache_format_that_it_does_not_take() -> None:
    outcome = ENGINE.plan(ENGINE.settle(Deployment(model=one_block(GQA), kv_memory=1 << 30, kv_dtype="q8_0/q4_0")))
    assert outcome.starts is False
    assert "--kv-cache-dtype" in (outcome.reason or "")


def test_window_models_by_release() -> None:
    """Gemma 3 is split in 0.4.10; gpt-oss from 0.5.8; Gemma 4 from 0.5.11; none in 0.5.0 to 0.5.7."""
    sliding = {**GQA, "kind": "sliding", "window": 128}
    cases = (
        ("Gemma3ForConditionalGeneration", "0.5.23", False), ("Gemma3ForConditionalGeneration", "0.4.10", True),
            ("GptOssForCausalLM", "0.5.5", False), ("GptOssForCausalLM", "0.5.9", True),
        ("Gemma4ForConditionalGeneration", "0.5.10", False), ("Gemma4ForConditionalGeneration", "0.5.23", True),
        ("Exaone4ForCausalLM", "0.5.5", False), ("Exaone4ForCausalLM", "0.5.23", False), ("GptOssForCausalLM", "0.5.1", False),
    )  # fmt: skip
    for architecture, version, split in cases:
        blocks = {"swa": {"mixers": [sliding]}, "full": {"mixers": [GQA]}}
        model = one_block(GQA, 2, architecture=architecture, layers=[{"pattern": ["swa", "full"]}], blocks=blocks)
        asked = Deployment(model=model, kv_memory=1 << 30, context=512, engine_version=version)
        capacity = ENGINE.plan(ENGINE.settle(asked)).capacity
        assert capacity is not None
        assert ([group.role for group in capacity.groups] == ["full", "window"]) is split, (architecture, version)


def test_a_length_that_no_source_states_is_not_2048() -> None:
    """A config without a length is one of 2,048 to SGLang; of this upload no config was read, and it was served with 65,536."""
    plan = planned("poolside/Laguna-S-2.1-INT4", engine="sglang", engine_version="0.5.23", device="gb10", context=65536)
    assert "context_length" not in str(plan.outcome.reason)
    assert any("no source states the maximum length" in note for note in plan.model.notes)


@pytest.mark.parametrize(("release", "model", "asked", "fraction"), [
    ("0.5.23", "meta-llama/llama-2-7b", {}, 0.829), ("0.5.23", "codellama/CodeLlama-7b-hf", {}, 0.828),
    ("0.5.16", "qwen/qwen3-8b", {}, 0.828), ("0.5.16", "qwen/qwen3-8b", {"max_model_len": 1024}, 0.83),
    ("0.5.17", "qwen/qwen3-8b", {"max_model_len": 1024}, 0.828),
])  # fmt: skip
def test_the_longest_prefill_graph(release: str, model: str, asked: dict[str, Any], fraction: float) -> None:
    """(81559 - 512 - 1.5 * 8192 - 2 * 256 - 256 - 8 * sizes) / 81559 on two H100: 58 sizes to 8192 tokens, 50 to 4096, 38 to 1024."""
    plan = kvplan.estimate(model, engine="sglang", engine_version=release, device="h100-80gb", tp=2, advise=False, **asked)
    assert round(plan.question["memory_fraction"][0], 3) == fraction
