"""emit and check are inverse: what a plan is written as reads back as the same question, for every engine and target."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, reject
from hypothesis import strategies as st

import kvplan
from kvplan.cli import run
from kvplan.dtypes import ALIASES
from kvplan.errors import KvplanError, SpecError, UnknownName, UnsupportedError
from kvplan.manifests import Source, check, emit
from kvplan.planner.plan import Plan
from tests.conftest import examples, planned

MODEL = "meta-llama/llama-3.1-8b"
DEVICES = st.sampled_from(["h100-80gb", "a100-40gb", "l4", "h200", "mi300x"])
LENGTH = st.integers(256, 131_072)


def some(**names: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any part of the names, each with a value of its own."""
    return st.fixed_dictionaries({}, optional=names)


COMMON = {"context": LENGTH, "batch": st.integers(1, 64), "max_model_len": LENGTH, "max_num_seqs": st.integers(1, 256)}
QUESTIONS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "vllm": some(
        **COMMON,
        tp=st.sampled_from([1, 2, 4, 8]),
        pp=st.sampled_from([1, 2]),
        dp=st.sampled_from([1, 2]),
        max_num_batched_tokens=st.integers(512, 32_768),
        block_size=st.sampled_from([16, 32, 64]),
        memory_fraction=st.integers(50, 98).map(lambda n: n / 100),
        kv_memory=st.integers(1 << 30, 64 << 30),
        dtype=st.sampled_from(["bfloat16", "f16", "float16"]),
        kv_dtype=st.sampled_from(["auto", "fp8", "fp8_e5m2", "bf16"]),
        weight_dtype=st.sampled_from(["fp8", "bf16"]),
        enforce_eager=st.booleans(),
        speculative=st.sampled_from(["off", "ngram:4", "eagle3:3:yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"]),
        lora=st.sampled_from(["off", "16x2", "64x8"]),
        engine_version=st.sampled_from(["0.10.2", "0.11.0", "0.20.0", "0.33.0"]),
        engine_option=st.fixed_dictionaries(
            {},
            optional={
                "enable_prefix_caching": st.booleans(),
                "async_scheduling": st.booleans(),
                "num_gpu_blocks_override": st.integers(100, 10_000),
                "performance_mode": st.sampled_from(["balanced", "throughput"]),
            },
        ),
    ),
    "sglang": some(
        **COMMON,
        tp=st.sampled_from([1, 2, 4, 8]),
        pp=st.sampled_from([1, 2]),
        max_num_batched_tokens=st.sampled_from([2048, 4096, 8192]),
        block_size=st.sampled_from([1, 16, 64]),
        memory_fraction=st.integers(50, 95).map(lambda n: n / 100),
        kv_dtype=st.sampled_from(["fp8_e4m3", "fp8_e5m2", "bf16"]),
        enforce_eager=st.booleans(),
        speculative=st.sampled_from(["off", "eagle3:3:some/draft", "eagle3:3:yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"]),
        engine_version=st.sampled_from(["0.5.3", "0.5.9", "0.5.23"]),
        engine_option=st.fixed_dictionaries(
            {},
            optional={
                "disable_radix_cache": st.booleans(),
                "max_total_tokens": st.integers(4096, 100_000),
                "attention_backend": st.sampled_from(["fa3", "triton", "flashinfer"]),
            },
        ),
    ),
    "tensorrt-llm": some(
        **COMMON,
        tp=st.sampled_from([1, 2, 4]),
        pp=st.sampled_from([1, 2]),
        max_num_batched_tokens=st.integers(1024, 16_384),
        memory_fraction=st.integers(50, 95).map(lambda n: n / 100),
        kv_dtype=st.sampled_from(["fp8", "auto"]),
        block_size=st.sampled_from([32, 64]),
        enforce_eager=st.booleans(),
        engine_version=st.sampled_from(["1.0.0", "1.2.0"]),
        engine_option=st.fixed_dictionaries({}, optional={"enable_block_reuse": st.booleans(), "max_tokens": st.integers(4096, 65_536)}),
    ),
    "lmdeploy": some(
        **COMMON,
        tp=st.sampled_from([1, 2, 4]),
        memory_fraction=st.integers(50, 95).map(lambda n: n / 100),
        block_size=st.sampled_from([32, 64]),
        enforce_eager=st.booleans(),
    ),
    "llama.cpp": some(
        **COMMON,
        n_gpu_layers=st.integers(0, 40),
        max_num_batched_tokens=st.sampled_from([512, 1024, 4096]),
        kv_dtype=st.sampled_from(["f16", "q8_0", "q8_0/q4_0", "bf16/q8_0"]),
        host_memory=st.sampled_from([32 << 30, 64 << 30]),
        n_devices=st.integers(1, 4),
        engine_version=st.sampled_from(["b6700", "b10488"]),
        engine_option=st.fixed_dictionaries(
            {},
            optional={
                "n_ubatch": st.sampled_from([256, 512]),
                "flash_attn": st.sampled_from(["on", "auto"]),
                "kv_unified": st.booleans(),
                "swa_full": st.just(True),
            },
        ),
    ),
    "ollama": some(
        batch=st.integers(1, 4),
        max_model_len=LENGTH,
        max_num_seqs=st.integers(1, 8),
        kv_dtype=st.sampled_from(["q8_0", "f16"]),
        reserve=st.integers(0, 4 << 30),
        engine_option=st.fixed_dictionaries({}, optional={"flash_attn": st.sampled_from(["on", "off"])}),
    ),
}


def settled(plan: Plan) -> dict[str, Any]:
    """The question as the engine runs it, formats by one name."""
    values = {name: value for name, (value, _) in plan.question.items()}
    values["engine_option"] = {key: text for key, text in dict(values["engine_option"]).items() if key != "server"}
    for name in ("dtype", "kv_dtype"):
        values[name] = "/".join(ALIASES.get(part, part) for part in str(values[name]).lower().split("/"))
    k, _, v = values["kv_dtype"].partition("/")
    values["kv_dtype"] = k if k == v else values["kv_dtype"]
    return values


@pytest.mark.parametrize("engine", QUESTIONS)
@examples(25)
@given(data=st.data())
def test_round_trip(engine: str, data: st.DataObject) -> None:
    question = data.draw(QUESTIONS[engine])
    device = data.draw(DEVICES)
    plan = planned(MODEL, engine=engine, device=device, **question)
    target = data.draw(st.sampled_from([engine, "compose", "k8s"]))
    try:
        text = emit(plan, target)
    except UnsupportedError as error:  # an option that the release does not have
        assume("another release" not in str(error))
        raise
    name = "serve.sh" if target == engine else f"{target}.yaml"
    (verdict,) = check([Source(name, text)], planned)
    assert verdict.plan is not None, (verdict.message, text)
    assert settled(verdict.plan) == settled(plan), text
    assert [ledger.total_bytes for ledger in verdict.plan.ledgers] == [ledger.total_bytes for ledger in plan.ledgers]
    open_too = {"open-speculative"} if plan.outcome.unknown else set()  # of a drafter whose size the plan itself does not know
    assert {f.rule for f in verdict.findings if f.rule.startswith(("bad", "unknown", "open"))} <= open_too


def test_a_drafter_of_unknown_size_stays_unknown() -> None:
    plan = planned(MODEL, engine="sglang", device="mi300x", speculative="eagle3:3:some/draft")
    (verdict,) = check([Source("serve.sh", emit(plan, "sglang"))], planned)
    assert (verdict.status, list(verdict.unresolved)) == ("unknown", [])
    assert "some/draft is not known" in verdict.message
    assert plan.outcome.unknown


MODELS = ("meta-llama/llama-3.1-8b", "qwen/qwen3-30b-a3b", "deepseek-ai/deepseek-v3", "google/gemma-3-27b", "openai/gpt-oss-20b")
ROOMY = st.sampled_from(["h200", "b200", "mi300x"])


@pytest.mark.parametrize("engine", QUESTIONS)
@examples(10, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_what_fits_is_accepted(engine: str, data: st.DataObject) -> None:
    """Whatever the model: a plan that fits is a command or manifest that check accepts, in plain numbers, on the release it names."""
    question = {
        k: v for k, v in data.draw(QUESTIONS[engine]).items() if k not in ("kv_memory", "n_gpu_layers", "speculative", "host_memory")
    }
    question["max_model_len"] = question["context"] = data.draw(st.integers(256, 8192))
    question |= {"batch": 1, "device": data.draw(ROOMY)} | ({"tp": 8} if engine in ("vllm", "sglang") else {})
    try:
        plan = planned(data.draw(st.sampled_from(MODELS)), engine=engine, **question)
        assume(plan.fits and plan.certainty != "too close to call")  # that is not known to check
        target = data.draw(st.sampled_from([engine, "compose", "k8s"]))
        text = emit(plan, target)
    except (UnsupportedError, SpecError):  # or an option of another release
        reject()
    (verdict,) = check([Source("serve.sh" if target == engine else f"{target}.yaml", text)], planned)
    assert (verdict.status, verdict.exit_code) == ("fits", 0), (verdict.message, text)
    assert not [f for f in verdict.findings if f.severity == "error"]
    assert not re.search(r"(?<![\w.-])\d+[kKmMgG](i?B)?(?![\w.])", text), text


def test_no_flag_makes_another_quantised_checkpoint_of_one() -> None:
    """vLLM stops where --quantization differs from what config.json says (config/model.py _verify_quantization)."""
    with pytest.raises(UnsupportedError, match="converts no mxfp4 checkpoint to fp8"):
        emit(planned("openai/gpt-oss-20b", engine="vllm", device="h200", weight_dtype="fp8"), "vllm")
    assert "--quantization fp8" in emit(planned(MODEL, engine="vllm", device="h200", weight_dtype="fp8"), "vllm")


#: What an engine itself refuses at its start: an answer in its words, and a command that can be written.
REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("sglang", {"tp": 4, "dp": 3, "engine_option": {"enable_dp_attention": True}}, "self.tp_size % self.dp_size == 0 (tp 4, dp 3)"),
    ("tensorrt-llm", {"tp": 4, "ep": 3}, "must equal to moe_world_size, but got 3 != 4"),
    (
        "lmdeploy",
        {"block_size": 24, "engine_option": {"backend": "pytorch"}},
        "kernel_block_size must be >= 16 and a power of 2, but got 24",
    ),
)


@pytest.mark.parametrize(("engine", "question", "words"), REFUSED)
def test_what_an_engine_refuses_is_an_answer(engine: str, question: dict[str, Any], words: str) -> None:
    plan = planned(MODEL, engine=engine, device="h200", context=4096, **question)
    assert (plan.starts, plan.fits) == (False, False)
    assert words in plan.verdict
    (verdict,) = check([Source("serve.sh", emit(plan, engine))], planned)
    assert (verdict.status, verdict.exit_code) == ("refuses", 1)
    assert words in verdict.message


@pytest.mark.parametrize(("engine", "option"), [("vllm", "allow_long_max_model_len"), ("sglang", "allow_overwrite_longer_context_len")])
@pytest.mark.parametrize("target", ["engine", "compose", "k8s"])
def test_a_length_beyond_the_model_goes_with_its_variable(engine: str, option: str, target: str) -> None:
    plan = planned("qwen/qwen3-8b", engine=engine, device="h200", max_model_len=65_536, engine_option={option: "true"})
    text = emit(plan, engine if target == "engine" else target)
    variable = {"vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"}[engine]
    assert variable in text
    assert option not in text
    (verdict,) = check([Source("serve.sh" if target == "engine" else "m.yaml", text)], planned)
    assert verdict.status == "fits", text


@pytest.mark.parametrize(
    ("release", "option"),
    [("0.8.5", {"kv_memory": 10 << 30}), ("0.33.0", {"engine_option": {"swap_space": 4}}), ("0.8.5", {"dcp": 2, "tp": 2})],
)
def test_a_release_without_the_option_is_an_error(release: str, option: dict[str, Any]) -> None:
    """--kv-cache-memory-bytes and --decode-context-parallel-size came with 0.10.2, --swap-space went with 0.18 (arg_utils.py)."""
    with pytest.raises(KvplanError, match=f"vllm {release} (does not have|has no)"):
        emit(planned(MODEL, engine="vllm", device="h200", engine_version=release, **option), "vllm")


def test_only_what_was_chosen_is_written() -> None:
    plan = planned(MODEL, engine="vllm", device="h100", max_model_len=8192)
    assert emit(plan, "vllm").splitlines() == [
        "#!/bin/sh",
        "# kvplan: device=h100-80gb",
        "exec vllm serve meta-llama/Llama-3.1-8B \\",
        "  --max-model-len 8192",
    ]


def test_numbers_are_plain() -> None:
    plan = planned(MODEL, engine="vllm", device="h100", max_model_len="128k", kv_memory="40GiB", memory_fraction=0.9)
    text = emit(plan, "vllm")
    assert "--max-model-len 131072" in text
    assert f"--kv-cache-memory-bytes {40 * 2**30}" in text
    assert "--gpu-memory-utilization 0.9 " in text


def test_what_an_engine_can_not_be_told_is_an_error() -> None:
    plan = planned(MODEL, engine="ollama", device="h100", n_gpu_layers=20)
    with pytest.raises(UnsupportedError, match="n_gpu_layers"):
        emit(plan, "ollama")
    with pytest.raises(UnsupportedError, match="engine ideal"):
        emit(planned(MODEL, engine="ideal"), "vllm")
    with pytest.raises(UnsupportedError, match="this plan is for vllm"):
        emit(planned(MODEL, engine="vllm", device="h100"), "sglang")
    with pytest.raises(UnknownName, match="did you mean compose"):
        emit(planned(MODEL, engine="vllm", device="h100"), "composer")


def test_the_example_is_true() -> None:
    from importlib import import_module

    results = doctest.testmod(import_module("kvplan.manifests.emit"))
    assert results.attempted
    assert not results.failed


def test_the_examples_of_the_docs_are_true() -> None:
    docs = Path(__file__).parents[3] / "docs" / "check.md"
    results = doctest.testfile(str(docs), module_relative=False)
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize(
    ("model", "engine", "words"),
    [
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "vllm", "vllm serve Qwen/Qwen2.5-72B-Instruct-AWQ"),
        ("qwen/qwen2.5-coder-14b-instruct", "vllm", "vllm serve Qwen/Qwen2.5-Coder-14B-Instruct"),
        ("01-ai/yi-1.5-34b-32k", "sglang", "--model-path 01-ai/Yi-1.5-34B-32K"),
        ("llama3.1:8b", "ollama", "ollama run llama3.1:8b"),
        ("qwen/qwen2.5-coder-14b-instruct", "ollama", "ollama run qwen2.5-coder:14b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "vllm", "vllm serve meta-llama/Llama-3.3-70B-Instruct"),
        ("llama-3.3-70b", "vllm", "vllm serve meta-llama/Llama-3.3-70B-Instruct"),
        ("meta-llama/llama-3.3-70b", "sglang", "--model-path meta-llama/Llama-3.3-70B-Instruct"),
        ("tiiuae/falcon-7b", "vllm", "vllm serve tiiuae/falcon-7b"),
        ("qwen3-8b", "vllm", "vllm serve Qwen/Qwen3-8B"),
    ],
)
def test_the_name_that_was_typed_is_written_back(model: str, engine: str, words: str) -> None:
    text = kvplan.emit(model, engine, engine=engine, device="h100", context=2048)
    assert words in text


@pytest.mark.parametrize("target", ["ollama", "compose", "k8s"])
def test_ollama_keeps_the_context(target: str) -> None:
    text = kvplan.emit("meta-llama/llama-3.1-8b", target, engine="ollama", device="h100", context=16_384)
    assert re.search(r"OLLAMA_CONTEXT_LENGTH\W+(value: )?\W*16384", text)
    assert "llama3.1:8b" in text
    (verdict,) = check([Source("serve.sh" if target == "ollama" else "m.yaml", text)], planned)
    assert verdict.plan is not None
    assert [verdict.plan.question[name][0] for name in ("model", "context")] == ["meta-llama/llama-3.1-8b", 16_384]


def test_a_model_that_ollama_has_no_tag_for_is_not_called_model() -> None:
    with pytest.raises(UnsupportedError, match="--serve"):
        kvplan.emit("ibm-granite/granite-4.0-h-tiny", "ollama", engine="ollama", context=4096)


@pytest.mark.parametrize(
    ("release", "words"),
    [("0.11.0", "export VLLM_ATTENTION_BACKEND=FLASHINFER"), ("0.13.0", "--attention-backend FLASHINFER"), (None, "--attention-backend")],
)
def test_a_release_before_a_flag_takes_the_variable(release: str | None, words: str) -> None:
    """--attention-backend came with 0.13 (arg_utils.py); before it VLLM_ATTENTION_BACKEND did the same (envs.py)."""
    version = {"engine_version": release} if release else {}
    text = kvplan.emit(MODEL, "vllm", device="h100", engine_option={"attention_backend": "FLASHINFER"}, **version)
    assert words in text


@pytest.mark.parametrize(
    ("engine", "release", "word"),
    [
        ("vllm", "0.33.0", "--kv-cache-memory-bytes"),
        ("vllm", "0.8.5", "--num-gpu-blocks-override"),
        ("sglang", None, "--max-total-tokens"),
        ("tensorrt-llm", None, "max_gpu_total_bytes"),
        ("tensorrt-llm", "1.2.0", "max_tokens"),
    ],
)
def test_a_fixed_pool_is_no_larger_than_what_is_safe(engine: str, release: str | None, word: str) -> None:
    """--kv-cache-memory-bytes came with vLLM 0.10.2; before it blocks alone fix the pool.

    One pool of TensorRT-LLM's V1 manager follows max_tokens and not max_gpu_total_bytes (_util.py, configure_kv_cache_capacity).
    """
    version = {"engine_version": release} if release else {}
    plan = planned(MODEL, engine=engine, device="h100", context=8192, **version)
    assert plan.capacity is not None
    text = kvplan.emit(MODEL, engine, engine=engine, device="h100", context=8192, fixed_pool=True, **version)
    assert word in text
    (verdict,) = check([Source("serve.sh", text)], planned)
    assert verdict.status == "fits", (verdict.message, text)
    assert verdict.plan is not None
    assert verdict.plan.capacity is not None
    assert verdict.plan.capacity.kv_bytes <= plan.capacity.kv_bytes_low


def test_a_pool_that_nothing_fixes_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="takes no size of its cache"):
        kvplan.emit(MODEL, "llama.cpp", engine="llama.cpp", device="h100", fixed_pool=True)
    with pytest.raises(UnsupportedError, match="follows from a device"):
        kvplan.emit(MODEL, "vllm", engine="vllm", fixed_pool=True)


def test_a_plan_that_does_not_fit_is_written_and_said(capfd: pytest.CaptureFixture[str]) -> None:
    """70.6e9 parameters in 16 bits are 131 GiB; an L4 has 24."""
    from kvplan.cli import main

    with pytest.raises(SystemExit) as stopped:
        main(["emit", "vllm", "meta-llama/llama-3.1-70b", "--device", "l4"])
    out, err = capfd.readouterr()
    assert stopped.value.code == 1
    assert "vllm serve meta-llama/Llama-3.1-70B" in out
    assert "does not fit" in err


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        (["--lora", "16x4"], "--lora-target-modules all"),  # SGLang's check: without --lora-paths both rank and modules are wanted
        (["--lora", "16x4", "--engine-option", "lora_target_modules=q_proj,v_proj"], "--lora-target-modules q_proj v_proj"),
        (["--engine-option", "cuda_graph_bs=1,2,4"], "--cuda-graph-bs-decode 1 2 4"),
    ],
)
def test_options_of_several_values_are_several_words(asked, written, capsys):
    assert run(["emit", "sglang", "qwen2.5-7b-instruct", "--device", "h100-80gb", *asked]) == 0
    assert written in capsys.readouterr().out
