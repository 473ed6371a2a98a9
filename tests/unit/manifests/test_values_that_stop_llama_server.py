"""Values that stop llama-server before it loads: common/arg.cpp as in llama-cpp-python 0.3.36, `throw std::invalid_argument`."""

from __future__ import annotations

import pytest

from kvplan import api
from kvplan.manifests import Source

SERVE = "llama-server -hf bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M -c 8192 "


def status(words: str, **asked: str) -> str:
    (verdict,) = api.check([Source("serve.sh", SERVE + words)], device="rtx-4090", **asked)
    return verdict.status


@pytest.mark.parametrize(
    "words",
    ["-sm rows", "-lm fast", "--fit maybe", "--fit yes", "--rope-scaling dynamic", "-ot exps", "-ot 'exps='", "--override-kv foo",
     "--override-kv llama.context_length=65536", "-np 0", "-ncmoe -1"],
)  # fmt: skip
def test_words_that_the_parser_does_not_take(words: str) -> None:
    assert status(words) == "refuses"


@pytest.mark.parametrize("words", ["-sm layer", "-lm auto", "--fit enabled", "--fit 0", "-ot exps=CPU", "-fa on", "-fa auto", "-np -1"])
def test_words_that_it_takes(words: str) -> None:
    assert status(words) == "fits"


@pytest.mark.parametrize("words", ["-ot 'exps=CUDA7'", "-ot '[=CPU'", "-sm graph"])
def test_what_can_not_be_told_is_no_start(words: str) -> None:
    """A buffer of a device that nobody spoke of, and a pattern that Python does not read: std::regex and more devices may, or a fork."""
    assert status(words) == "unknown"


@pytest.mark.parametrize(("build", "expected"), [("b6000", "fits"), ("b7000", "refuses"), ("b11312", "refuses")])
def test_flash_attn_takes_a_value(build: str, expected: str) -> None:
    """`error: unknown value for --flash-attn: '-ngl'`, since #15434 of August 2025."""
    assert status("--flash-attn -ngl 99", engine_version=build) == expected


def test_without_a_build_it_is_said() -> None:
    (verdict,) = api.check([Source("serve.sh", SERVE + "--flash-attn -ngl 99")], device="rtx-4090")
    assert [f.rule for f in verdict.findings if f.severity == "warning"] == ["unknown-choice"]


def test_a_deployers_switch_is_the_option_with_its_value() -> None:
    """LLMKube's `flashAttention: true`, under an image whose build takes no bare switch, as in public repositories."""
    text = """kind: InferenceService
apiVersion: inference.llmkube.dev/v1alpha1
metadata: {name: one}
spec:
  modelRef: llama
  contextSize: 8192
  flashAttention: true
  image: ghcr.io/ggml-org/llama.cpp:server-cuda-b10548
  resources: {gpu: 1}
---
kind: Model
apiVersion: inference.llmkube.dev/v1alpha1
metadata: {name: llama}
spec: {source: bartowski/Meta-Llama-3.1-8B-Instruct-GGUF, hardware: {gpu: {count: 1}}}
"""
    (verdict,) = api.check([Source("one.yaml", text)], device="rtx-4090", weight_dtype="q4_k_m")
    assert verdict.status == "fits"
