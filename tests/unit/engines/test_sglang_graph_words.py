"""What SGLang's words say of CUDA graphs: cuda_graph_config.py parse_cuda_graph_config_arg, server_args.py _handle_gpu_memory_settings."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.sglang.arguments import ARGUMENTS


def said(*argv: str, version: str = "0.5.23") -> dict[str, Any]:
    answer = read(ARGUMENTS, words("--model-path", "m/x", *argv), {}, version)
    return {key.removeprefix("engine_option."): one.value for key, one in answer.question.items()}


def fraction(version: str, **option: str) -> float:
    asked: dict[str, Any] = {"engine": "sglang", "device": "b200", "tp": 2, "advise": False}
    plan = kvplan.estimate("qwen/qwen3-32b", engine_version=version, engine_option=option, **asked)
    return float(plan.question["memory_fraction"][0])


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ('{"decode": {"backend": "disabled"}, "prefill": {"backend": "disabled"}}', {"enforce_eager": True}),
        ('{"prefill": {"backend": "disabled"}}', {"disable_prefill_cuda_graph": True}),
        ('{"decode": {"backend": "disabled"}}', {"disable_decode_cuda_graph": True}),
        ('{"decode": {"max_bs": 48}, "prefill": {"bs": [512, 1024]}}', {"cuda_graph_max_bs": 48, "cuda_graph_bs_prefill": "512,1024"}),
    ],
)
def test_a_config_of_graphs_is_read_by_phase(config: str, found: dict[str, Any]) -> None:
    answer = said("--cuda-graph-config", config)
    assert found.items() <= answer.items()


def test_its_keys_go_before_options_of_their_own() -> None:
    assert said("--cuda-graph-config", '{"decode": {"max_bs": 48}}', "--cuda-graph-max-bs-decode", "8")["cuda_graph_max_bs"] == 48


@pytest.mark.parametrize("config", ['{"encode": {}}', '{"decode": 3}', '{"decode": {"size": 3}}'])
def test_other_phases_and_keys_stop(config: str) -> None:
    answer = read(ARGUMENTS, words("--model-path", "m/x", "--cuda-graph-config", config), {}, "0.5.23")
    assert any(one.severity == "error" for one in answer.findings)


def test_sizes_of_prefill_graphs_keep_8_mib_each() -> None:
    """A B200 of 183,359 MiB, 0.5.18 (server_args.py): 512 MiB, a chunk of 16,384 tokens at 1.5, an eighth of 2 GiB, 2 MiB for each of
    `graph` requests of decoding, 8 MiB for each size."""
    for n, listed in ((3, "512,1024,2048"), (1, "512")):
        kept = 512 + 16384 * 1.5 + 2 / 8 * 1024 + 512 * 2 + n * 8
        assert fraction("0.5.18", cuda_graph_bs_prefill=listed) == round((183359 - kept) / 183359, 3)


@pytest.mark.parametrize("config", ["[1]", "7", '{"decode": {"backend": "nonsense"}}', '{"decode": {"backend": ["x"]}}', '{"verify": {}}'])
def test_what_its_parser_refuses(config: str) -> None:
    """cuda_graph_config.py parse_cuda_graph_config_arg: an object of phases; server_args.py _parse_cuda_graph_config: their backends."""
    answer = read(ARGUMENTS, words("--model-path", "m/x", "--cuda-graph-config", config), {}, "0.5.23")
    assert [finding.severity for finding in answer.findings] == ["error"]


def test_its_keys_that_are_not_modelled_are_said() -> None:
    answer = read(ARGUMENTS, words("--model-path", "m/x", "--cuda-graph-config", '{"prefill": {"max_context_size": 8192}}'), {}, "0.5.23")
    assert any("prefill.max_context_size" in finding.message for finding in answer.findings)
