"""Classes that a release of vLLM has, by its own registry."""

from __future__ import annotations

import pytest

from tests.conftest import planned


@pytest.mark.parametrize(
    ("model", "release", "says"),
    [
        ("baichuan-inc/baichuan2-7b", "0.24", None),
        ("baichuan-inc/baichuan2-7b", "0.25", "BaichuanForCausalLM was supported in vLLM until v0.23.0"),
        ("minimaxai/minimax-m1-80k", "0.23", None),
        ("minimaxai/minimax-m1-80k", "0.33", "MiniMaxM1ForCausalLM was supported in vLLM until v0.23.0"),
        ("qwen/qwen3-8b", "0.6.6", "['Qwen3ForCausalLM'] are not supported for now. (its first release is 0.8.4)"),
        ("qwen/qwen3-8b", "0.8.5", None),
        ("qwen/qwen3.5-27b", "0.14", "['Qwen3_5ForConditionalGeneration'] are not supported for now. (its first release is 0.17.0)"),
        ("qwen/qwen3.5-27b", "0.16", None),  # built from main between the two
        ("rednote-hilab/dots.llm1.inst", "0.33", None),  # left, and run by the transformers library's class
    ],
)
def test_what_the_registry_says(model: str, release: str, says: str | None) -> None:
    """models/registry.py of 0.25 and 0.33 (_PREVIOUSLY_SUPPORTED_MODELS), of 0.8.4 and 0.17.0, which first list the two."""
    plan = planned(model, engine="vllm", engine_version=release, device="h100-80gb", tp=8, context=2048)
    if says is None:
        assert "supported" not in (plan.outcome.reason or "")
    else:
        assert plan.starts is False
        assert says in (plan.outcome.reason or "")


def test_a_release_before_the_class_is_said() -> None:
    """models/registry.py lists Qwen3NextForCausalLM from 0.10.2 on; 0.10.1 is near enough for a build of a branch, and says so."""
    for release, said in (("0.10.1", True), ("0.10.2", False)):
        plan = planned("qwen/qwen3-next-80b-a3b", engine="vllm", engine_version=release, device="h100", tp=4, context=8192)
        assert any("does not list Qwen3NextForCausalLM" in note for note in plan.model.notes) is said
