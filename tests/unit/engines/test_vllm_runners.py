"""Which model runner a question gets, by what the releases' own code says (config/vllm.py use_v2_model_runner), and what it leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan import api
from kvplan.engines.vllm.plan import ENGINE
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.units import GIB
from tests.conftest import planned

DENSE, MIXTURE, HYBRID, CODER = "qwen/qwen3-8b", "qwen/qwen3-30b-a3b-2507", "qwen/qwen3.5-9b", "qwen/qwen2.5-7b"


@pytest.mark.parametrize(
    ("model", "since"),
    [
        (DENSE, "0.22.0"),  # DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES of 0.22 has this class alone
        ("meta-llama/llama-3.1-8b", "0.23.0"),
        ("qwen/qwen3-8b-fp8", "0.24.0"),  # 0.22 and 0.23 leave quantised checkpoints to the older one
        (CODER, "0.25.0"),  # from here on all that is neither a mixture nor a hybrid
        ("google/gemma-3-12b-it", "0.25.0"),
        (MIXTURE, "0.29.0"),
        (HYBRID, "0.29.0"),
    ],
)
def test_the_newer_runner_is_the_default_from_a_release_on(model: str, since: str) -> None:
    releases = ["0.21.0", "0.22.0", "0.23.0", "0.24.0", "0.25.0", "0.28.0", "0.29.0"]
    for version in releases:
        d = api.deployment(model, engine="vllm", engine_version=version, device="h100-80gb", max_model_len=8192)
        newer = ENGINE.settle(d).settings.second_runner
        assert newer is (releases.index(version) >= releases.index(since)), version


@pytest.mark.parametrize(("method", "version", "newer"), [("ngram:4", "0.28.0", False), ("ngram:4", "0.33.0", True)])
def test_methods_that_it_does_not_have_fall_back(method: str, version: str, newer: bool) -> None:
    d = api.deployment(DENSE, engine="vllm", engine_version=version, device="h100-80gb", max_model_len=8192, speculative=method)
    assert ENGINE.settle(d).settings.second_runner is newer


def of_gemma_4(version: str, **asked: object) -> Plan:
    d = api.deployment(
        "google/gemma-4-E4B-it-qat-w4a16-ct", engine="vllm", engine_version=version, device="l4", max_model_len=32768, **asked
    )
    return evaluate(d)


def test_a_start_that_logged_each_of_its_parts() -> None:
    """0.28.0 on an L4 (floSa/data-analyst-agent): 0.27 GiB of peak for 256 sequences and 262,144 entries, graphs of 0.78 beside 13.66."""
    plan = of_gemma_4("0.28.0", memory_fraction=0.62, reserve="4901MiB")
    ledger = plan.ledgers[-1]
    lines = {entry.name: entry for entry in ledger.entries}
    assert lines["activations"].bytes / GIB < 0.7  # the encoders' part; logits twice in f32 would be a whole one
    assert "CUDA graphs" not in lines
    beside = {entry.name: entry for entry in ledger.outside}
    assert beside["CUDA graphs"].bytes / GIB == pytest.approx(0.78, abs=0.1)
    assert plan.capacity is not None
    assert plan.capacity.kv_bytes / GIB == pytest.approx(3.1, abs=0.05)


def test_what_the_profile_run_leaves_out_comes_back_in_the_warm_up() -> None:
    beside = {entry.name: entry for entry in of_gemma_4("0.28.0").ledgers[-1].outside}
    assert beside["sampler, not profiled"].bytes > 0
    assert beside["sampler, not profiled"].phases == ("warm up", "serve")
    older = of_gemma_4("0.28.0", engine_option={"v2_model_runner": "false"}).ledgers[-1]
    assert "sampler, not profiled" not in {entry.name for entry in older.outside}
    assert "CUDA graphs" in {entry.name for entry in older.entries}


def test_graphs_are_estimated_again_from_0_29_on() -> None:
    assert "CUDA graphs" not in {entry.name for entry in of_gemma_4("0.28.0").ledgers[-1].entries}
    assert "CUDA graphs" in {entry.name for entry in of_gemma_4("0.29.0").ledgers[-1].entries}


@pytest.mark.parametrize(
    ("model", "device", "version", "logged"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "l4", "0.28.0", 1.04),  # floSa/data-analyst-agent: 152,064 x 3,584 x 2 B are 1.015 GiB
        ("Qwen/Qwen3-14B-AWQ", "rtx-5090", "0.28.0", 1.46),  # Drolsey/syslab-server: 151,936 x 5,120 x 2 B are 1.449 GiB
        ("Qwen/Qwen3-32B-AWQ", "rtx-5090", "0.28.0", 1.46),
        ("Qwen/Qwen3-4B", "rtx-4090", "0.27.1", 0.80),  # a first start of cs-qwen3-4b: 151,936 x 2,560 x 2 B are 0.725 GiB
    ],
)
def test_compiling_holds_the_embeddings_once_more(model: str, device: str, version: str, logged: float) -> None:
    d = api.deployment(model, engine="vllm", engine_version=version, device=device, max_model_len=8192)
    line = next(entry for entry in evaluate(d).ledgers[-1].entries if entry.name == "activations")
    assert line.bytes / GIB == pytest.approx(logged, abs=0.05)
    assert line.low / GIB < 0.5  # a start that finds its compiled code: 0.33 and 0.15 are logged of the second and fourth's like


def test_nothing_is_compiled_where_all_is_eager() -> None:
    d = api.deployment("Qwen/Qwen3-4B", engine="vllm", engine_version="0.27.1", device="rtx-4090", max_model_len=8192, enforce_eager=True)
    line = next(entry for entry in evaluate(d).ledgers[-1].entries if entry.name == "activations")
    assert line.bytes / GIB < 0.5


def test_a_start_that_finds_its_graph_has_more_cache_by_the_embeddings() -> None:
    """Qwen2.5-7B on an A40, a build before 0.27: 25.46 GiB of cache on a first start (34 s of compiling), 26.23 on a later one (13 s)."""
    asked = {"engine": "vllm", "engine_version": "0.26.0", "device": "a40"}
    first, later = (planned("Qwen/Qwen2.5-7B-Instruct", **asked, engine_option={"compiled": kept}) for kept in ("false", "true"))
    assert first.capacity is not None
    assert later.capacity is not None
    assert ((later.capacity.kv_bytes or 0) - (first.capacity.kv_bytes or 0)) / GIB == pytest.approx(26.23 - 25.46, abs=0.05)


@pytest.mark.parametrize(
    ("model", "question", "logged"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", {"engine_version": "0.24.0", "device": "a100-40gb", "memory_fraction": 0.85}, 17.44),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", {"engine_version": "0.17.1", "device": "t4", "max_model_len": 2048}, 6.83),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct",
         {"engine_version": "0.12.0", "device": "rtx-3090", "memory_fraction": 0.95, "max_model_len": 31800, "max_num_seqs": 64}, 6.95),
    ],
)  # fmt: skip
def test_first_starts_since_torch_2_10_hold_the_embeddings_and_those_before_do_not(model: str, question: Any, logged: float) -> None:
    """Rows of tests/oracle/rows/start_ups.jsonl that compiled for 22, 23 and 11 s: mj-llama31-8b-a100-40, mr-..., kyl-llama8-3090."""
    asked = {"max_model_len": 8192, "dtype": "f16", **question}
    found = planned(model, engine="vllm", **asked).capacity
    assert found is not None
    assert (found.kv_bytes or 0) / GIB == pytest.approx(logged, abs=0.2)
