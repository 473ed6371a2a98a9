"""What SGLang does by model class and GPU: stages, backends on Blackwell, prefill graphs, encoders that are left out.

Expected are what its own code made of the question (ServerArgs and ModelRunner of the wheels, run on a CPU) or its own words.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import kvplan
from kvplan.catalogue import find_device, find_model
from kvplan.deployment import Deployment
from kvplan.engines.sglang.layout import cut
from kvplan.engines.sglang.settle import settle
from kvplan.planner.evaluate import evaluate
from kvplan.units import GIB
from tests.oracle.sglang_figures import figures


def asked(model: str, version: str, device: str = "b200", tp: int = 1, **how: object) -> Deployment:
    made = Deployment(model=find_model(model), engine="sglang", engine_version=version, device=find_device(device), tp=tp)
    return replace(made, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "version", "page"),
    [
        ("Qwen/Qwen3-32B", "0.5.6", 1),
        ("Qwen/Qwen3-32B", "0.5.9", 64),
        ("Qwen/Qwen3-32B", "0.5.23", 64),
        ("deepseek-ai/DeepSeek-V3", "0.5.12", 64),
        ("google/gemma-4-31B-it", "0.5.12", 1),
        ("google/gemma-4-31B-it", "0.5.18", 64),
        ("Qwen/Qwen3.5-9B", "0.5.23", 1),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0.5.18", 1),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0.5.23", 64),
    ],
)
def test_pages_that_blackwell_picks(model: str, version: str, page: int) -> None:
    assert settle(asked(model, version)).question.block_size == page
    assert settle(asked("Qwen/Qwen3-32B", version, device="h200")).question.block_size == 1


@pytest.mark.parametrize(("strategy", "page"), [("", 1), ("extra_buffer", 64)])
def test_pages_of_states_are_as_the_release_says(strategy: str, page: int) -> None:
    """0.5.18 model_overrides: 64 tokens with trtllm_mha, one with Triton's kernels, though 16 were asked for."""
    told = (("mamba_radix_cache_strategy", strategy),) if strategy else ()
    assert settle(asked("Qwen/Qwen3.5-9B", "0.5.18", block_size=16, engine_option=told)).question.block_size == page


@pytest.mark.parametrize(
    ("model", "version", "how", "fraction"),
    [
        ("Qwen/Qwen2-VL-72B-Instruct-AWQ", "0.5.9", {"tp": 2, "dp": 2, "engine_option": (("enable_dp_attention", "true"),)}, 0.619),
        ("Qwen/Qwen2.5-VL-72B-Instruct", "0.5.9", {"tp": 2}, 0.748),
        ("Qwen/Qwen3-235B-A22B", "0.5.23", {"pp": 2, "max_num_seqs": 160}, 0.836),
    ],
)
def test_fractions_without_prefill_graphs(model: str, version: str, how: dict[str, object], fraction: float) -> None:
    question = settle(asked(model, version, "h100-80gb", **how)).question
    assert question.memory_fraction == pytest.approx(fraction, abs=6e-4)


@pytest.mark.parametrize(
    ("model", "version", "how", "words"),
    [
        ("google/gemma-3-27b-it", "0.5.23", {"pp": 2}, "Pipeline Parallel is not compatible with this model."),
        ("openbmb/MiniCPM-V-4.6", "0.5.12", {"pp": 2, "tp": 2}, "Pipeline Parallel is not compatible with this model."),
        ("deepseek-ai/DeepSeek-V3", "0.4.10", {"pp": 2, "tp": 8}, "Pipeline Parallel is not compatible with this model."),
        ("deepseek-ai/DeepSeek-V3", "0.5.23", {"kv_dtype": "fp8_e5m2", "tp": 8}, "TensorRT-LLM MLA backend only supports kv-cache-dtype"),
        (
            "Qwen/Qwen3-32B", "0.5.12", {"device": "h100-80gb", "engine_option": (("attention_backend", "trtllm_mha"),)},
            "TRTLLM MHA backend for prefill is only supported on Blackwell GPUs (SM100).",
        ),
        ("openai/gpt-oss-20b", "0.5.18", {"speculative": "ngram:8"}, "speculative_eagle_topk(10) > 1 with page_size(64) > 1 is unstable"),
        ("Qwen/Qwen3-32B", "0.5.18", {"kv_dtype": "nvfp4", "engine_option": (("attention_backend", "fa3"),)}, "KV4 MHA expects"),
    ],
)  # fmt: skip
def test_what_a_release_does_not_start_with(model: str, version: str, how: dict[str, object], words: str) -> None:
    assert words in evaluate(asked(model, version, **how, kv_memory=20 * GIB)).verdict


def test_layers_that_are_left_over_are_the_last_stages_before_0_5_6() -> None:
    """distributed/utils.py get_pp_indices of 0.5.3 and 0.5.6: 92 layers, three stages."""
    assert [len(stage) for stage in cut(92, 3, piled=True)] == [30, 30, 32]
    assert [len(stage) for stage in cut(92, 3, piled=False)] == [30, 31, 31]


def test_stages_of_a_class_that_has_them() -> None:
    plan = evaluate(asked("Qwen/Qwen3-32B", "0.5.23", pp=2, kv_memory=20 * GIB))
    assert "Pipeline" not in plan.verdict


def test_the_encoders_of_few_classes_can_be_left_out(tmp_path: Path) -> None:
    """0.5.23 server_args.py LANGUAGE_MODEL_ONLY_ARCHITECTURES; --language-only, for a server beside an encoder's, is another flag."""
    script = tmp_path / "run.sh"
    for flag, refused in (("--language-model-only", True), ("--language-only", False)):
        script.write_text(f"python -m sglang.launch_server --model-path Qwen/Qwen3-VL-8B-Instruct {flag}\n")
        plan = kvplan.check(script, device="h100-80gb")[0].plan
        assert plan is not None
        assert ("--language-model-only does not support ['Qwen3VLForConditionalGeneration']" in plan.verdict) is refused


def test_states_of_models_without_attention_are_shared_by_all_ranks() -> None:
    """0.5.23 as it was run (configs/mamba.py): an H100, 4 ranks in two attention groups, 73,559,651,123 bytes for the pools."""
    rank = asked(
        "state-spaces/mamba-2.8b-hf", "0.5.23", "h100-80gb", tp=4, dp=2, context=2048, dtype="f16", kv_memory=73_559_651_123,
        max_num_seqs=160, engine_option=(("enable_dp_attention", "true"),),
    )  # fmt: skip
    assert figures(evaluate(rank))["max_mamba_cache_size"] == 6075


def test_whisper_is_served_at_the_length_of_a_config_that_names_none() -> None:
    """0.5.12 as it was run with a context of 2,048: utils/hf_transformers get_context_length reads no max_target_positions."""
    assert settle(asked("openai/whisper-tiny", "0.5.12", "h100-80gb", kv_memory=4 * GIB)).question.max_model_len == 2048
