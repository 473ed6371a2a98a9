"""Which engine vLLM 0.8 to 0.11.0 runs and where it stops: engine/arg_utils.py _is_v1_supported_oracle, read line by line in 15 sdists.

Beside it `platforms/cuda.py`, `rocm.py`, `cpu.py`, `xpu.py` and SupportsV0Only of model_executor/models, with what is inherited.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.planner.plan import Plan
from tests.conftest import planned

LLAMA, JAMBA, NEMOTRON = "meta-llama/llama-3.1-8b", "ai21labs/AI21-Jamba-Mini-1.5", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"
FP8, H100 = {"kv_dtype": "fp8"}, {"device": "h100-80gb"}


def ask(version: str, model: str = LLAMA, *, v1: str = "", backend: str = "", options: str = "", **question: Any) -> Plan:
    said = {"use_v1": v1, "attention_backend": backend, "v0_options": options}
    own = question.pop("engine_option", {}) | {name: value for name, value in said.items() if value}
    return planned(model, engine="vllm", engine_version=version, engine_option=own, **{"max_model_len": 4096, **H100, **question})


def runs(plan: Plan) -> str:
    return "V0" if any("runs its V0 engine here" in note for note in plan.model.notes) else "V1"


@pytest.mark.parametrize(("version", "question", "engine"), [
    # platforms: not_cuda to 0.8.5, v0_hardware of 0.9.0 and 0.9.1, default_v1 since
    ("0.8.5", {"device": "mi300x"}, "V0"),
    ("0.9.1", {"device": "mi300x"}, "V0"),
    ("0.9.2", {"device": "mi300x"}, "V1"),
    ("0.9.0.1", {"engine_option": {"platform": "cpu"}}, "V0"),
    ("0.9.1", {"engine_option": {"platform": "cpu"}}, "V1"),
    ("0.10.1.1", {"device": "t4", "dtype": "fp16"}, "V0"),
    ("0.10.2", {"device": "t4", "dtype": "fp16"}, "V1"),
    # stages: _warn_or_fallback("PP"), Ray alone, a named executor (0.9.0), any
    ("0.8.2", {"pp": 2}, "V0"),
    ("0.8.5", {"pp": 2}, "V0"),
    ("0.8.5", {"pp": 2, "options": "distributed_executor_backend=ray"}, "V1"),
    ("0.9.0", {"pp": 2}, "V0"),
    ("0.9.0", {"pp": 2, "options": "distributed_executor_backend=mp"}, "V1"),
    ("0.9.1", {"pp": 2}, "V1"),
    # adapters and weights in host memory
    ("0.8.2", {"lora": "16x1"}, "V0"),
    ("0.8.3", {"lora": "16x1"}, "V1"),
    ("0.8.2", {"engine_option": {"cpu_offload_gb": "4"}}, "V0"),
    ("0.8.3", {"engine_option": {"cpu_offload_gb": "4"}}, "V1"),
    # drafting
    ("0.8.5", {"speculative": "ngram:3"}, "V0"),
    ("0.9.0", {"speculative": "ngram:3"}, "V1"),
    ("0.9.2", {"speculative": "draft_model:3:meta-llama/llama-3.2-1b"}, "V0"),
    # compute types
    ("0.9.1", {"dtype": "float32"}, "V0"),
    ("0.9.2", {"dtype": "float32"}, "V1"),
    # formats of weights
    ("0.8.2", {"weight_dtype": "nf4"}, "V0"),
    ("0.8.3", {"weight_dtype": "nf4"}, "V1"),
    ("0.8.5.post1", {"weight_dtype": "q4_k_m"}, "V0"),
    ("0.9.0", {"weight_dtype": "q4_k_m"}, "V1"),
    # a cache in 8 bits: any to 0.8.1; FlashAttention 3 by default or by the name of V1's; capability 10.0 from 0.10; backends from 0.10.2
    ("0.8.1", FP8, "V0"),
    ("0.8.2", FP8, "V1"),
    ("0.9.2", FP8 | {"backend": "FLASHINFER"}, "V0"),
    ("0.9.2", FP8 | {"backend": "FLASH_ATTN_VLLM_V1"}, "V1"),
    ("0.9.2", FP8 | {"device": "b200"}, "V0"),
    ("0.10.0", FP8 | {"device": "b200", "backend": "FLASHINFER"}, "V1"),
    ("0.10.1.1", FP8 | {"device": "l40s"}, "V0"),
    ("0.10.2", FP8 | {"device": "l40s"}, "V0"),
    ("0.10.2", FP8 | {"device": "l40s", "backend": "FLASHINFER"}, "V1"),
    ("0.10.2", FP8 | {"device": "a100-80gb", "backend": "TRITON_ATTN_VLLM_V1"}, "V0"),
    ("0.10.2", FP8 | {"device": "l40s", "backend": "TRITON_ATTN_VLLM_V1"}, "V1"),
    ("0.11.0", FP8 | {"device": "l40s"}, "V1"),
    ("0.8.5", FP8 | {"device": "mi300x"}, "V0"),
    ("0.9.2", FP8 | {"device": "mi300x"}, "V1"),
    # backends by variable: V1_BACKENDS
    ("0.8.4", {"backend": "FLASHINFER"}, "V0"),
    ("0.8.5", {"backend": "FLASHINFER"}, "V1"),
    ("0.9.0", {"backend": "FLEX_ATTENTION"}, "V0"),
    ("0.10.1", {"backend": "XFORMERS"}, "V0"),
    ("0.10.1", {"backend": "XFORMERS_VLLM_V1"}, "V1"),
    ("0.10.0", {"backend": "XFORMERS_VLLM_V1"}, "V0"),
])  # fmt: skip
def test_the_engine_that_a_question_runs(version: str, question: dict[str, Any], engine: str) -> None:
    assert runs(ask(version, **question)) == engine


@pytest.mark.parametrize(("model", "last"), [
    ("THUDM/glm-4-9b-chat-hf", "0.8.4"),
    ("tiiuae/falcon-mamba-7b", "0.10.0"),
    ("openai/whisper-large-v3", "0.10.1.1"),
    ("google/gemma-3-27b", "0.8.0"),
])  # fmt: skip
def test_classes_for_v0_alone(model: str, last: str) -> None:
    """Where V1 is asked for, which passes over states (_warn_or_fallback): SupportsV0Only stops it, a release later it runs."""
    releases = ["0.8.0", "0.8.1", "0.8.4", "0.8.5", "0.10.0", "0.10.1", "0.10.1.1", "0.10.2"]
    asked: dict[str, Any] = {"v1": "true", "kv_memory": "8GiB", "max_model_len": 448}
    stopped = [
        release for release in releases if "VLLM_USE_V1=1 is not supported with" in (ask(release, model, **asked).outcome.reason or "")
    ]
    assert stopped[-1] == last


@pytest.mark.parametrize(("version", "question", "words"), [
    ("0.8.5", {"device": "t4", "dtype": "fp16"}, "VLLM_USE_V1=1 is not supported with Compute Capability < 8.0."),
    ("0.9.2", FP8 | {"device": "l40s"}, "VLLM_USE_V1=1 is not supported with --kv-cache-dtype."),
    ("0.8.5", {"pp": 2}, "VLLM_USE_V1=1 is not supported with Pipeline Parallelism without Ray distributed executor"),
    ("0.10.1", {"backend": "XFORMERS"}, "VLLM_USE_V1=1 is not supported with VLLM_ATTENTION_BACKEND=XFORMERS."),
    ("0.9.1", {"options": "scheduling_policy=priority"}, "VLLM_USE_V1=1 is not supported with --scheduling-policy."),
    ("0.10.2", {"options": "max_num_partial_prefills=4"}, "VLLM_USE_V1=1 is not supported with Concurrent Partial Prefill."),
])  # fmt: skip
def test_v1_asked_for_stops_where_it_raises(version: str, question: dict[str, Any], words: str) -> None:
    plan = ask(version, v1="true", **question)
    assert plan.starts is False
    assert words in (plan.outcome.reason or "")
    assert runs(ask(version, v1="false", **question)) == "V0"


@pytest.mark.parametrize(("version", "model", "question"), [
    ("0.8.2", LLAMA, {"pp": 2}),
    ("0.8.2", LLAMA, {"lora": "16x1"}),
    ("0.8.5", LLAMA, {"speculative": "ngram:3"}),
    ("0.9.1", LLAMA, {"device": "mi300x"}),
    ("0.10.1", NEMOTRON, {}),
])  # fmt: skip
def test_v1_asked_for_runs_what_is_experimental(version: str, model: str, question: dict[str, Any]) -> None:
    assert runs(ask(version, model, **question)) == "V0"
    plan = ask(version, model, v1="true", **question)
    assert runs(plan) == "V1"
    assert "VLLM_USE_V1" not in (plan.outcome.reason or "")


def test_0_11_0_asks_and_has_v1_alone() -> None:
    """v1/engine/async_llm.py of 0.11.0; the variable is gone from 0.11.1 on."""
    words = "Using V1 AsyncLLMEngine, but envs.VLLM_USE_V1=False."
    for question in ({"v1": "false"}, {"options": "max_num_partial_prefills=4"}, {"backend": "XFORMERS_VLLM_V1"}):
        plan = ask("0.11.0", **question)
        assert plan.starts is False
        assert words in (plan.outcome.reason or "")
        assert words not in (ask("0.11.1", **question).outcome.reason or "")
    assert ask("0.11.0", backend="FLASHINFER").starts
