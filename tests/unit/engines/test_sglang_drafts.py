"""Steps and tokens that SGLang picks for drafts: auto_choose_speculative_params of server_args.py, releases 0.4.6 to 0.5.23."""

from __future__ import annotations

import pytest

from kvplan.errors import SpecError
from kvplan.manifests import read
from tests.conftest import planned

# model, method, release, steps, tokens verified: as the release's own function returns them
PICKED = [
    ("deepseek-ai/deepseek-v3", "eagle", "0.4.6", 5, 8),
    ("deepseek-ai/deepseek-v3", "eagle", "0.4.7", 3, 4),
    ("openai/gpt-oss-20b", "eagle3", "0.5.0", 5, 8),
    ("openai/gpt-oss-20b", "eagle3", "0.5.2", 3, 4),
    ("zai-org/glm-4.5", "eagle", "0.5.6", 5, 8),
    ("zai-org/glm-4.5", "eagle", "0.5.7", 3, 4),
    ("qwen/qwen3-8b", "eagle3", "0.5.7", 5, 8),
    ("qwen/qwen3-8b", "eagle3", "0.5.8", 3, 4),
    ("meta-llama/llama-3.1-8b", "eagle3", "0.5.23", 5, 8),
    ("meta-llama/llama-3.1-8b", "standalone", "0.5.23", 3, 4),
]


@pytest.mark.parametrize(("model", "method", "release", "steps", "tokens"), PICKED)
def test_picked(model: str, method: str, release: str, steps: int, tokens: int) -> None:
    question = {"engine": "sglang", "engine_version": release, "device": "h200", "tp": 8, "context": 4096}
    plan = planned(model, speculative=f"{method}:auto", **question).as_dict()  # type: ignore[arg-type]
    tree = {} if tokens == steps + 1 else {"speculative_eagle_topk": "4"}  # the function's second number; 1 of a chain
    options = {"speculative_num_draft_tokens": str(tokens)} | tree
    said = planned(model, speculative=f"{method}:{steps}", engine_option=options, **question).as_dict()  # type: ignore[arg-type]
    assert plan["capacity"] == said["capacity"]
    assert plan["ledgers"] == said["ledgers"]
    assert plan["question"]["speculative"]["value"] == f"{method}:{steps}"


def test_others_pick_nothing() -> None:
    with pytest.raises(SpecError, match="vLLM picks no number of tokens"):
        planned("qwen/qwen3-8b", engine="vllm", device="l4", speculative="eagle3:auto")


def test_read() -> None:
    (found,) = read(
        "python -m sglang.launch_server --model-path m/x --speculative-algorithm EAGLE3 --speculative-draft-model-path d/y", "a.sh"
    )
    assert found.question["speculative"] == "eagle3:auto:d/y"
    assert not found.findings


def test_a_block_is_read() -> None:
    """0.5.18's run says speculative_num_draft_tokens 16 where neither the command nor the drafter's config has a number."""
    line = "python -m sglang.launch_server --model-path m/x --speculative-algorithm DFLASH --speculative-draft-model-path d/y"
    (found,) = read(line, "a.sh")
    assert found.question["speculative"] == "dflash:15:d/y"
    assert [one.rule for one in found.findings] == ["block"]
    (found,) = read(f"{line} --speculative-num-draft-tokens 8", "a.sh")
    assert found.question["speculative"] == "dflash:7:d/y"
    assert not found.findings


def test_what_replaces_a_config_replaces_the_drafters() -> None:
    """0.5.20 went on with an EAGLE-3 head that is shorter where max_position_embeddings was replaced, and stopped without."""
    question = {"engine": "sglang", "engine_version": "0.5.20", "device": "h200", "tp": 8, "max_model_len": 40960}
    drafts = {"speculative": "eagle3:3:yuhuili/EAGLE3-LLaMA3.3-Instruct-70B"}
    plan = planned("meta-llama/llama-3.1-70b", **drafts, **question)  # type: ignore[arg-type]
    assert "Target model's context_length (40960) is greater than the derived context_length (2048)" in plan.verdict
    longer = {"json_model_override_args": '{"max_position_embeddings": 65536}'}
    assert planned("meta-llama/llama-3.1-70b", **drafts, **question, engine_option=longer).starts  # type: ignore[arg-type]


@pytest.mark.parametrize(("release", "starts"), [("0.4.8", True), ("0.5.6", True), ("0.5.7", False)])
def test_rows_beside_the_budget_are_counted_before_it_is_found_too_small(release: str, starts: bool) -> None:
    """model_runner.py init_memory_pool up to 0.5.6: draft_runner_cache_size is added, then `max_total_num_tokens <= 0` is looked at."""
    question = {"engine": "sglang", "engine_version": release, "max_num_seqs": 4, "kv_memory": 1000, "context": 256}
    plan = planned("meta-llama/llama-3.1-8b", speculative="eagle:3:yuhuili/EAGLE-LLaMA3.1-Instruct-8B", **question)  # type: ignore[arg-type]
    assert plan.starts is starts
    assert not starts or plan.capacity.tokens == 4 * (3 + 4) + 100
