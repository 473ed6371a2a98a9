"""Options that another engine has, and options that are given twice: what is said of them."""

from __future__ import annotations

import pytest

from tests.unit.manifests.as_read import found, rules


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("vllm serve Qwen/Qwen3-8B --ctx-size 8192", "it is llama.cpp's, and --max-model-len here"),
        (
            "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --gpu-memory-utilization 0.9",
            "vLLM's, and --mem-fraction-static here",
        ),
        ("llama-server -m /m/a.gguf --max-model-len 4096", "it is vLLM's, and --ctx-size here"),
        ("vllm serve Qwen/Qwen3-8B --context-length 8192", "and --max-model-len here"),
    ],
)
def test_an_option_of_another_engine_is_told_by_its_name_here(command: str, said: str) -> None:
    (one,) = found(f"{command}\n")
    assert any(said in finding.message for finding in one.findings if finding.rule == "unknown-option")


def test_an_option_that_no_engine_has_is_only_not_known() -> None:
    (one,) = found("vllm serve Qwen/Qwen3-8B --frobnicate 1\n")
    assert any(finding.message.endswith("that we know") for finding in one.findings)


def test_the_last_of_two_values_counts_and_is_said_to() -> None:
    """Python's argparse and llama.cpp's parser keep the last."""
    (one,) = found("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 4096 --tensor-parallel-size 4\n")
    assert one.question["tp"] == 4
    (finding,) = [finding for finding in one.findings if finding.rule == "given-twice"]
    assert "--tensor-parallel-size is given twice: the last, 4, counts" in finding.message


def test_the_same_value_twice_is_nothing_to_speak_of() -> None:
    (one,) = found("vllm serve Qwen/Qwen3-8B --max-model-len 4096 --max-model-len 4096\n")
    assert "given-twice" not in rules(one)


def test_a_command_over_its_file_of_options_is_meant() -> None:
    (one,) = found("vllm serve Qwen/Qwen3-8B --config c.yaml --max-model-len 4096\n", c_yaml="max-model-len: 8192\n")
    assert one.question["max_model_len"] == 4096
    assert "given-twice" not in rules(one)
