"""What was chosen and moves nothing is said, whatever the model: an embedder without a cache, a dense one, images, states."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.api.asking import deployment
from kvplan.engines import ENGINES
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.idle import with_idle
from kvplan.planner.plan import Plan
from tests.conftest import planned
from tests.contract.models import DEVICES

#: A dense decoder, an embedder without a cache, images, recurrent states.
MODELS = ("meta-llama/llama-3.1-8b", "baai/bge-m3", "qwen/qwen2.5-vl-7b", "state-spaces/mamba2-2.7b")
#: Values that no engine takes by itself; 0 and huge ones among them.
VALUES: dict[str, tuple[Any, ...]] = {
    "n_gpu_layers": (0,), "dcp": (2,), "ep": (2,), "encoder_tokens": (700,), "kv_dtype": ("fp8", "q8_0"), "multimodal": ("off",),
    "max_num_seqs": (7, 100_000), "max_num_batched_tokens": (1, 1_000_000), "block_size": (128,), "memory_fraction": (0.5,),
    "enforce_eager": (True,), "host_memory": ("8GiB",), "max_model_len": (10_000_000,),
}  # fmt: skip
#: Each engine's newest release, and older ones that lack options of the newest.
OLDER = {"vllm": "0.6.6", "sglang": "0.4.6", "tensorrt-llm": "0.19", "ollama": "0.3.14", "llama.cpp": "b4000"}
CASES = [(engine, None) for engine in ENGINES] + list(OLDER.items())


def answered(model: str, **question: Any) -> Plan | str:
    """The plan with what is said of idle settings; the text of an error."""
    try:
        d = deployment(model, **question)
        return with_idle(d, evaluate(d, limits=False))
    except KvplanError as error:
        return str(error)


def told(model: str, **question: Any) -> tuple[Any, ...] | str:
    """Everything of an answer but the echo of its question."""
    plan = answered(model, **question)
    return plan if isinstance(plan, str) else (plan.model, plan.cache, plan.outcome, plan.verdict)


@pytest.mark.parametrize(("engine", "version"), CASES)
@pytest.mark.parametrize("model", MODELS)
def test_nothing_that_was_chosen_is_left_without_a_word(model: str, engine: str, version: str | None) -> None:
    asked: dict[str, Any] = {"engine": engine, "engine_version": version, "context": 1024, "batch": 4, "device": DEVICES[engine][0]}
    plan = answered(model, **asked)
    if isinstance(plan, str) or plan.starts is False:
        return
    plain = told(model, **asked)
    for name, values in VALUES.items():
        for value in values:
            assert plan.question[name][0] == value or told(model, **asked, **{name: value}) != plain, (name, value)


def test_a_setting_that_moves_nothing_is_named_with_its_value() -> None:
    """An embedder keeps no cache, whose format is none of its bytes; a format that is taken anyhow is no news."""
    quiet = {"engine": "vllm", "device": "h100", "context": 2048}
    notes = kvplan.estimate("baai/bge-m3", kv_dtype="fp8", tp=2, **quiet).model.notes
    assert "moves nothing in this answer: kv_dtype fp8" in notes
    for question in ({"kv_dtype": "bfloat16"}, {"kv_dtype": "auto"}, {"max_num_seqs": 1024}, {"kv_dtype": "fp8"}):
        plan = kvplan.estimate("meta-llama/llama-3.1-8b", **quiet, **question)
        assert not any("moves nothing" in note for note in plan.model.notes), question


def test_options_of_an_engine_too() -> None:
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", engine="vllm", device="h100", context=2048, engine_option={"mamba_cache_mode": "all"})
    assert "moves nothing in this answer: mamba_cache_mode=all" in plan.model.notes


@pytest.mark.parametrize(
    ("version", "asked", "said"),
    [
        # llm/server.go NewLlamaServer: opts.NumCtx = trainCtx, with this warning
        (None, {"max_model_len": 10_000_000}, "requested context size too large for model: num_ctx 10,000,000, n_ctx_train 131,072"),
        # server/sched.go: qwen3next is on the list of architectures with one slot
        (None, {"max_num_seqs": 7}, "num_parallel 7 is taken as 1"),
        # server/routes.go of 0.11: gpt-oss gets at least 8192
        ("0.11.4", {"max_model_len": 4096}, "num_ctx 4,096 is raised to 8,192"),
    ],
)
def test_numbers_that_ollama_replaces_are_said(version: str | None, asked: dict[str, int], said: str) -> None:
    model = {"max_num_seqs": "qwen/qwen3-next-80b-a3b"}.get(next(iter(asked)), "meta-llama/llama-3.1-8b")
    model = "openai/gpt-oss-20b" if version else model
    plan = planned(model, engine="ollama", engine_version=version, device="h200", context=2048, **asked)
    assert any(said in note for note in plan.model.notes)


#: Parameters of Gemma 3 27B without its SigLIP tower and projector: transformers' Gemma3ForCausalLM of its text_config.
GEMMA_TEXT = 27_009_346_304


@pytest.mark.parametrize(
    ("engine", "device"), [("mlx-lm", "apple-m2-ultra-192gb"), ("exllamav3", "h100"), ("lmdeploy", "h100"), ("ideal", "h100")]
)
def test_engines_that_leave_towers_out(engine: str, device: str) -> None:
    """mlx-lm models/gemma3.py sanitize drops vision_tower; exllamav3 loads it as a component; LMDeploy 0.16 language_model_only."""
    plan = kvplan.estimate(
        "google/gemma-3-27b", engine=engine, device=device, context=1024, multimodal="off", weight_dtype="bf16", advise=False
    )
    assert not any("tower" in entry.name for ledger in plan.ledgers for entry in ledger.entries)
    assert sum(ledger.bytes_of("weights") for ledger in plan.ledgers) == 2 * GEMMA_TEXT
