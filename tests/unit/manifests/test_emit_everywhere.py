"""emit -> check -> the same question, over every engine that serves, every release whose rules or options are known, and every target."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvplan import engines
from kvplan.engines.common.arguments import has
from kvplan.engines.common.releases import release
from kvplan.engines.common.written import find
from kvplan.engines.sglang.arguments import ON_LOAD
from kvplan.manifests import Source, check, emit
from kvplan.planner.plan import Plan
from tests.conftest import planned
from tests.unit.manifests.test_emit import MODEL, settled

MOST_LEFT_OUT = 4
#: What is asked of every release; names and options that a release does not have are left out of it.
ASKED: dict[str, dict[str, Any]] = {
    "vllm": {
        "tp": 2, "pp": 2, "dp": 2, "max_model_len": 16_384, "max_num_seqs": 64, "max_num_batched_tokens": 16_384, "block_size": 32,
        "memory_fraction": 0.85, "kv_dtype": "fp8_e5m2", "enforce_eager": True, "lora": "16x2", "batch": 4, "dtype": "f16",
        "weight_dtype": "fp8", "speculative": "ngram:4", "kv_memory": 20 << 30,
        "option:enable_prefix_caching": True, "option:async_scheduling": False, "option:num_gpu_blocks_override": 4096,
        "option:attention_backend": "FLASHINFER", "option:swap_space": 2, "option:kv_offloading_size": 4,
    },
    "sglang": {
        "tp": 4, "pp": 2, "dp": 2, "ep": 2, "max_model_len": 16_384, "max_num_seqs": 64, "max_num_batched_tokens": 4096, "block_size": 16,
        "memory_fraction": 0.8, "kv_dtype": "fp8_e5m2", "enforce_eager": True, "batch": 4,
        "speculative": "eagle3:3:yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "weight_dtype": "fp8",
        "option:disable_radix_cache": True, "option:max_total_tokens": 50_000, "option:attention_backend": "triton",
        "option:enable_dp_attention": True, "option:cuda_graph_max_bs": 32,
    },
    "tensorrt-llm": {
        "tp": 4, "pp": 2, "ep": 2, "max_model_len": 16_384, "max_num_seqs": 64, "max_num_batched_tokens": 4096, "block_size": 64,
        "memory_fraction": 0.8, "kv_dtype": "fp8", "enforce_eager": True, "batch": 4,
        "option:enable_block_reuse": False, "option:max_tokens": 65_536,
    },
    "lmdeploy": {
        "tp": 2, "dp": 2, "max_model_len": 16_384, "max_num_seqs": 64, "max_num_batched_tokens": 4096, "block_size": 32,
        "memory_fraction": 0.7, "kv_dtype": "int8", "enforce_eager": True, "batch": 4, "dtype": "f16",
        "option:backend": "turbomind", "option:enable_prefix_caching": True,
    },
    "llama.cpp": {
        "n_gpu_layers": 20, "max_model_len": 16_384, "max_num_seqs": 2, "max_num_batched_tokens": 1024, "kv_dtype": "q8_0/q4_0",
        "host_memory": 64 << 30, "n_devices": 2, "batch": 2, "weight_dtype": "Q4_K_M",
        "option:n_ubatch": 256, "option:flash_attn": "on", "option:kv_unified": True, "option:swa_full": True,
    },
    "ollama": {
        "max_model_len": 16_384, "max_num_seqs": 2, "kv_dtype": "q8_0", "reserve": 1 << 30, "batch": 2, "option:flash_attn": "on",
    },
}  # fmt: skip


def known(engine: str) -> list[str]:
    """The releases whose rules are known, and those whose options were read, a number once."""
    named = (*engines.facts(engine).versions, *engines.arguments(engine).releases)
    return list({release(name.removeprefix("b")) + (0,) * (3 - len(release(name.removeprefix("b")))): name for name in named}.values())


def targets(engine: str) -> tuple[str, str, str]:
    return engine, "compose", "k8s"


def question(names: dict[str, Any]) -> dict[str, Any]:
    options = {name[7:]: value for name, value in names.items() if name.startswith("option:")}
    return {**{name: value for name, value in names.items() if ":" not in name}, "engine_option": options}


def taken(engine: str, version: str) -> dict[str, Any]:
    """Of what is asked, what this release can be told, by its own table of options."""
    table = engines.arguments(engine)
    kept = {}
    for name, value in ASKED[engine].items():
        row = find(table, name, value, version)
        if name not in table.say({name: value})[1] and row is not None and not has(table, row, version):
            continue
        kept[name] = value
    return kept


_PLANS: dict[str, Plan] = {}


def ask(model: str, **question: Any) -> Plan:
    """The plan of a question, which several targets ask alike, worked out once."""
    key = repr((model, sorted(question.items())))
    return _PLANS[key] if key in _PLANS else _PLANS.setdefault(key, planned(model, **question))


def numbers(options: dict[str, str]) -> dict[str, str | float]:
    """Options as the engine reads them: 2 and 2.0 are one number. SGLang's method of loading says the format of the weights once more."""
    said = {key: text for key, text in options.items() if (key, text in ON_LOAD) != ("quantization", True)}
    return {key: float(text) if re.fullmatch(r"[\d.]+", text) else text for key, text in said.items()}


def read_back(engine: str, version: str, target: str, asked: dict[str, Any]) -> str:
    """What differs where a question goes through a command and back; empty: nothing."""
    plan = ask(MODEL, engine=engine, device="h100-80gb", engine_version=version, **question(asked))
    text = emit(plan, target)
    (verdict,) = check([Source("serve.sh" if target == engine else f"{target}.yaml", text)], ask)
    if verdict.plan is None:
        return f"{verdict.message}: {text}"
    mine, theirs = ({**settled(one), "engine_option": numbers(settled(one)["engine_option"])} for one in (plan, verdict.plan))
    apart = {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}
    bytes_apart = [x.total_bytes for x in verdict.plan.ledgers] != [x.total_bytes for x in plan.ledgers]
    wrong = [f.message for f in verdict.findings if f.rule.startswith(("bad", "unknown", "open"))]
    return f"{apart} {wrong}: {text}" if apart or wrong or bytes_apart else ""


def test_every_engine_is_asked() -> None:
    assert set(ASKED) == set(engines.served())


@pytest.mark.parametrize("engine", engines.served())
def test_a_plain_question_comes_back(engine: str) -> None:
    """The newest and the oldest release; all of them below."""
    for version in (known(engine)[0], known(engine)[-1]):
        for target in targets(engine):
            assert read_back(engine, version, target, {"max_model_len": 8192}) == ""


def test_the_page_says_how_many() -> None:
    releases = sum(len(known(engine)) for engine in engines.served())
    page = (Path(__file__).parents[3] / "docs" / "check.md").read_text(encoding="utf-8")
    every = 3 * releases
    assert f"{every} of {every} ({releases} releases of six engines, as command, compose file and Kubernetes manifest)" in page


@pytest.mark.slow
@pytest.mark.parametrize("engine", engines.served())
def test_every_question_comes_back(engine: str) -> None:
    """All that a release can be told, by each target. The count of (engine, release, target) is in the docs."""
    apart = {}
    for version in known(engine):
        asked = taken(engine, version)
        assert len(asked) >= len(ASKED[engine]) - MOST_LEFT_OUT
        for target in targets(engine):
            if why := read_back(engine, version, target, asked):
                apart[version, target] = why
    assert not apart
