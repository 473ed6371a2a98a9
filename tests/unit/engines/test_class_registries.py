"""A model whose class came with a later release than the one asked for. Releases: the lists of the wheels (the tables of engines/)."""

from __future__ import annotations

import pytest

from kvplan.planner.plan import Plan
from tests.conftest import planned

GEMMA_4, GPT_OSS, QWEN_35 = "google/gemma-4-26b-a4b", "openai/gpt-oss-20b", "qwen/qwen3.5-9b"


def ask(model: str, engine: str, version: str, **options: str) -> Plan:
    return planned(model, engine=engine, engine_version=version, device="h100-80gb", context=8192, batch=1, **options)


@pytest.mark.parametrize(
    ("model", "named", "engine", "before", "first"),
    [  # SGLang's main branch had Gemma 4 two releases before 0.5.11: builds of it are called 0.5.9
        (GEMMA_4, "Gemma4ForConditionalGeneration", "sglang", "0.5.8", "0.5.9"),
        (GPT_OSS, "GptOssForCausalLM", "lmdeploy", "0.6", "0.10.0"),
        # libllama of b8390 has no such name, that of b9842 has; Ollama 0.13.3 is of a build before b7406
        (GEMMA_4, "Gemma4ForConditionalGeneration", "llama.cpp", "b8390", "b9842"),
        (QWEN_35, "Qwen3_5ForConditionalGeneration", "ollama", "0.13.3", "0.17.1"),
    ],
)
def test_a_release_without_the_class_does_not_start(model: str, named: str, engine: str, before: str, first: str) -> None:
    plan = ask(model, engine, before)
    assert plan.starts is False
    assert named in (plan.outcome.reason or "")
    assert ask(model, engine, first).starts


@pytest.mark.parametrize(
    ("engine", "before", "first"),
    [("transformers", "5.4.0", "5.5.0"), ("tensorrt-llm", "1.2.0", "1.3.0")],
)
def test_where_a_repository_may_bring_it_the_start_is_too_close_to_call(engine: str, before: str, first: str) -> None:
    doubted = ask(GEMMA_4, engine, before).outcome
    assert doubted.starts
    assert doubted.start_certainty == "too close to call"
    assert any("came with transformers 5.5.0" in reason for reason in doubted.undecided)
    assert not any("came with" in reason for reason in ask(GEMMA_4, engine, first).outcome.undecided)


@pytest.mark.parametrize(
    ("model", "engine", "device", "words"),
    [  # mlx_lm/models of 0.32.2 has no falcon.py; exllamav3/architecture of 1.6.5 no arch_string of OPT
        ("tiiuae/falcon-40b", "mlx-lm", "apple-m3-ultra-512gb", "Model type falcon not supported."),
        ("facebook/opt-1.3b", "exllamav3", "rtx-4090", "Unknown architecture OPTForCausalLM in config.json"),
    ],
)
def test_a_class_that_an_engine_never_had(model: str, engine: str, device: str, words: str) -> None:
    plan = planned(model, engine=engine, device=device, context=1024, batch=1)
    assert (plan.starts, plan.outcome.reason) == (False, words)


def test_llama_cpp_makes_no_file_of_opt() -> None:
    """conversion/__init__.py of llama-cpp-python 0.3.36."""
    outcome = planned("facebook/opt-1.3b", engine="llama.cpp", device="rtx-4090", context=1024, batch=1).outcome
    assert outcome.start_certainty == "too close to call"
    assert any("no OPTForCausalLM" in reason for reason in outcome.undecided)
