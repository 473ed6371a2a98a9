"""What builds of llama.cpp read and refuse, around the build that changed it; builds between two known ones among them."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from tests.conftest import planned

TYPE = "tensor has invalid ggml type"


def verdict(model: str, build: str, **question: Any) -> str:
    plan = planned(model, engine="llama.cpp", engine_version=build, device="rtx-5090", context=2048, **question)
    return plan.verdict if plan.starts is False else ""


@pytest.mark.parametrize(("build", "read"), [("b8038", False), ("b8667", True), ("b9851", True), ("b11312", True)])
def test_nvfp4_is_read_since_its_type_is(build: str, read: bool) -> None:
    """#19769 of 2026-03-11; b8038 is of February, and b8667 ran such a file (ggml-org/llama.cpp#21462)."""
    assert (TYPE in verdict("qwen/qwen3-8b", build, weight_dtype="nvfp4")) is not read


@pytest.mark.parametrize(("build", "read"), [("b6000", False), ("b6291", True), ("b11312", True)])
def test_mxfp4_is_read_since_its_type_is(build: str, read: bool) -> None:
    """#15091 of 2025-08-05, with gpt-oss; b6291 is a build whose type 39 is known (ggml-org/llama.cpp#15597)."""
    assert (TYPE in verdict("openai/gpt-oss-20b", build)) is not read
    assert (TYPE in verdict("openai/gpt-oss-20b", build, weight_dtype="mxfp4_moe")) is not read


@pytest.mark.parametrize(
    ("mode", "build", "refused"),
    [("tensor", "b8038", True), ("tensor", "b8667", False), ("row", "b9889", False), ("row", "b9895", True), ("tensor", "b9895", False)],
)
def test_modes_of_splitting_come_and_go(mode: str, build: str, refused: bool) -> None:
    """#19378 and #25594, as kvplan/engines/llama_cpp/modes.py has them."""
    found = verdict("qwen/qwen3-8b", build, n_devices=2, engine_option={"split_mode": mode, "flash_attn": "on"})
    assert bool(found) is refused


def test_ollama_reads_gpt_oss() -> None:
    """Its own engine has read MXFP4 since gpt-oss came with 0.11."""
    plan = planned("openai/gpt-oss-20b", engine="ollama", engine_version="0.11.3", device="rtx-5090", context=8192)
    assert plan.starts


def test_attention_of_a_cache_in_ram_left_the_host() -> None:
    """ggml-org/llama.cpp#14740: Phi-4-mini at 131,072 tokens with -nkvo: 396.75 MiB of compute buffer, from #13746 on 6,940."""
    asked = {"device": "a100-80gb", "weight_dtype": "bf16", "context": 131_072, "engine_option": {"no_kv_offload": "true"}}
    sizes = []
    for build in ("b5545", "b5560"):
        plan = planned("microsoft/phi-4-mini", engine="llama.cpp", engine_version=build, n_gpu_layers=80, **asked)
        (line,) = (e for e in plan.ledgers[0].entries if e.name == "compute buffer")
        sizes.append((line.low / 2**20, line.high / 2**20))
    assert sizes[0][0] <= 396.75 <= sizes[0][1] * 1.01
    assert sizes[1][0] <= 6940 <= sizes[1][1] * 1.01


@pytest.mark.parametrize(
    ("build", "more", "starts"),
    [
        ("b11312", {}, False),
        ("b11312", {"n_gpu_layers": 99}, True),
        ("b11312", {"engine_option": {"fit": "off"}}, True),
        ("b11312", {"engine_option": {"fit_target": "256"}}, True),
        ("b7405", {}, True),
    ],
)
def test_what_leaves_less_than_the_margin_of_fit_is_split(build: str, more: dict[str, Any], starts: bool) -> None:
    """`fit_params_target` of common/common.h is 1024 MiB, from #16653 on: 13.98 GiB of weights, 16 of cache and their buffers leave 0.7."""
    question = {
        "engine": "llama.cpp",
        "engine_version": build,
        "device": "31.25GiB",
        "context": 131_072,
        "weight_dtype": "f16",
    }
    plan = planned("meta-llama/llama-3.1-8b", **question, **more)
    assert plan.starts is starts
    assert plan.outcome.split is not starts


OVER = {"override_kv": "qwen3.context_length=int:131072"}
YARN = {"rope_scaling": "yarn", "rope_scale": "4"}


@pytest.mark.parametrize(
    ("build", "said", "length"),
    [
        ("b6800", {}, 131072),
        ("b11312", {}, 40960),
        ("b11312", OVER, 131072),
        ("b11312", YARN | {"yarn_orig_ctx": "32768"}, 131072),
        ("b11312", YARN, 131072),
        ("b11312", YARN | {"rope_scale": "2"}, 81920),
        ("b10000", YARN, 40960),
        ("b11312", YARN | {"rope_scaling": "linear"}, 40960),
    ],
)
def test_a_slot_is_capped_at_what_the_model_was_trained_for(build: str, said: dict[str, str], length: int) -> None:
    """n_ctx_slot of llama-server: min(n_ctx_seq, n_ctx_train), 40,960 of Qwen3-8B. --override-kv lifts it; YaRN's options since #28030."""
    asked = {"device": "h100", "engine": "llama.cpp", "engine_version": build, "advise": False, "engine_option": said}
    plan = kvplan.estimate("qwen/qwen3-8b", context=131072, **asked)
    holds = length == 131072
    assert (plan.starts, plan.fits, "caps a slot" in plan.verdict) == (True, holds, not holds)
    unsaid = kvplan.estimate("qwen/qwen3-8b", max_model_len=131072, **asked)
    assert (unsaid.fits, unsaid.asked("context"), unsaid.capacity.max_context) == (True, length, length)
    assert any("capped" in note for note in unsaid.as_dict()["model"]["notes"]) is not holds


def test_the_most_requests_are_of_the_length_that_is_named() -> None:
    """A length that nobody said follows the slots: 11 x 40,960 x 147,456 B and 15.3 GiB of weights fill an H100 (77.2 GiB), 12 do not."""
    plan = kvplan.estimate("qwen/qwen3-8b", engine="llama.cpp", device="h100", advise=False)
    assert (plan.asked("context"), plan.capacity.max_batch) == (40960, 11)


@pytest.mark.parametrize(
    ("engine", "version", "mib"),
    [("llama.cpp", "b701", 21845), ("ollama", "0.0.16", 21845), ("llama.cpp", "b9000", 25559), ("ollama", "0.9.0", 25559)],
)
def test_metals_limit_of_2023(engine: str, version: str, mib: int) -> None:
    """ollama/ollama#434 of August 2023 logs recommendedMaxWorkingSetSize = 21845.34 MB of an M2 Max with 32 GB."""
    asked = {"device": "apple-m2-max-32gb", "context": 2048, "weight_dtype": "q4_0"}
    plan = planned("meta-llama/llama-2-7b", engine=engine, engine_version=version, **asked)
    assert plan.ledgers[0].limit_bytes == mib << 20
    assert any("Metal's limit" in note for note in plan.model.notes) == (mib == 21845)
