"""Options that vLLM 0.8 to 0.10 run V0 for (engine/arg_utils.py), and switches by their opposite (utils/argparse_utils.py)."""

from __future__ import annotations

import json

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.vllm.arguments import ARGUMENTS
from tests.conftest import planned


def question(argv: str, version: str) -> dict[str, object]:
    answer = read(ARGUMENTS, words("--model", "Qwen/Qwen3-8B", *argv.split(" ")), {}, version)
    assert [one.message for one in answer.findings if one.severity == "error"] == []
    return {name.removeprefix("engine_option."): one.value for name, one in answer.question.items()}


@pytest.mark.parametrize(("option", "version", "runs_v0"), [
    ("num_scheduler_steps=8", "0.9.2", True),
    ("num_scheduler_steps=1", "0.9.2", False),
    ("guided_decoding_backend=outlines", "0.9.2", True),
    ("guided_decoding_backend=outlines", "0.10.0", False),
    ("scheduling_policy=priority", "0.9.1", True),
    ("scheduling_policy=priority", "0.9.2", False),
    ("load_format=tensorizer", "0.8.5", True),
    ("load_format=tensorizer", "0.9.0", False),
    ("load_format=sharded_state", "0.10.2", True),
    ("guided_decoding_backend=auto", "0.8.1", True),
    ("guided_decoding_backend=auto", "0.8.2", False),
    ("guided_decoding_backend=xgrammar:no-fallback", "0.8.4", True),
    ("guided_decoding_backend=xgrammar:no-fallback", "0.8.5.post1", False),
    ("kv_transfer_config=set", "0.8.4", True),
    ("kv_transfer_config=set", "0.8.5", False),
    ("additional_config=set", "0.8.4", True),
    ("worker_cls=mine.Worker", "0.8.1", True),
    ("worker_cls=mine.Worker", "0.8.2", False),
    ("model_impl=transformers", "0.8.2", True),
    ("model_impl=transformers", "0.8.3", False),
    ("collect_detailed_traces=all", "0.10.1.1", True),
    ("collect_detailed_traces=all", "0.10.2", False),
    ("max_num_partial_prefills=4", "0.10.2", True),
    ("otlp_traces_endpoint=http://x", "0.10.2", False),
    ("otlp_traces_endpoint=http://x", "0.33.0", False),
])  # fmt: skip
def test_v1_does_not_have_them_yet(option: str, version: str, runs_v0: bool) -> None:
    plan = planned("qwen/qwen3-8b", engine="vllm", engine_version=version, device="h100-80gb", engine_option={"v0_options": option})
    assert ("runs its V0 engine here: its V1 does not have --" in json.dumps(plan.as_dict())) is runs_v0


def test_a_backend_by_variable_that_v1_does_not_have() -> None:
    for name, runs_v0 in (("XFORMERS", True), ("XFORMERS_VLLM_V1", False), ("FLASHINFER", False)):
        asked = {"attention_backend": name}
        plan = planned("qwen/qwen3-8b", engine="vllm", engine_version="0.10.1", device="h100-80gb", engine_option=asked)
        assert ("its V1 does not have VLLM_ATTENTION_BACKEND=XFORMERS" in json.dumps(plan.as_dict())) is runs_v0


def test_the_command_line_says_them_and_they_are_written_back() -> None:
    assert question("--num-scheduler-steps 8 --preemption-mode swap", "0.9.2")["v0_options"] == "num_scheduler_steps=8 preemption_mode=swap"
    says, _ = ARGUMENTS.say({"option:v0_options": "num_scheduler_steps=8 disable_async_output_proc=True"})
    assert says == {"@v0:num_scheduler_steps": "8", "@v0:disable_async_output_proc": True}


@pytest.mark.parametrize(("argv", "version", "options"), [
    ("--load-format sharded_state", "0.9.2", "load_format=sharded_state"),
    ("--load-format safetensors", "0.9.2", None),
    ("--distributed-executor-backend ray", "0.8.5", "distributed_executor_backend=ray"),
    ("--distributed-executor-backend ray", "0.9.1", None),
    ("--kv-transfer-config {}", "0.8.4", "kv_transfer_config=set"),
    ("--kv-transfer-config {}", "0.8.5", None),
    ("--worker-extension-cls mine.W", "0.8.1", "worker_extension_cls=mine.W"),
])  # fmt: skip
def test_options_of_other_rows_are_read_in_the_releases_that_fall_back(argv: str, version: str, options: str | None) -> None:
    assert question(argv, version).get("v0_options") == options


def test_from_0_33_on_disable_turns_enable_off() -> None:
    assert question("--disable-prefix-caching --enable-sliding-window", "0.33.0") == {
        "enable_prefix_caching": False, "disable_sliding_window": False,
    }  # fmt: skip
    answer = read(ARGUMENTS, words("--model", "Qwen/Qwen3-8B", "--disable-prefix-caching"), {}, "0.32.0")
    assert any("--disable-prefix-caching" in one.message for one in answer.findings if one.severity == "error")
