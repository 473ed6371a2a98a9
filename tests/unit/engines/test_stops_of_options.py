"""What an engine's parser stops at of an option beside the rest of a question, as in a command (vLLM engine/arg_utils.py, config/*.py)."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.errors import SpecError
from kvplan.manifests import Source
from tests.conftest import planned

LLAMA, QWEN = "meta-llama/llama-3.1-8b", "qwen/qwen3-30b-a3b"


@pytest.mark.parametrize(
    ("model", "version", "options", "names", "says"),
    [
        (LLAMA, "0.33.0", {"data_parallel_external_lb": True}, {}, "data_parallel_external_lb can only be set when data_parallel_size > 1"),
        (LLAMA, "0.33.0", {"data_parallel_external_lb": True}, {"dp": 2}, "Non-MoE models do not support external data parallel mode"),
        (QWEN, "0.33.0", {"data_parallel_external_lb": True}, {"dp": 2}, ""),  # whose rank no question says
        (LLAMA, "0.33.0", {"enable_log_outputs": True}, {}, "--enable-log-outputs requires --enable-log-requests"),
        (LLAMA, "0.33.0", {"enable_log_outputs": True, "enable_log_requests": True}, {}, ""),
        (LLAMA, "0.33.0", {"enable_batch_sharded_sampling": True}, {}, "batch-sharded sampling: tensor_parallel_size is 1"),
        (LLAMA, "0.33.0", {"enable_batch_sharded_sampling": True}, {"tp": 2}, ""),
        (QWEN, "0.33.0", {"enable_return_routed_experts": True}, {"pp": 2}, "incompatible with pipeline parallelism (PP > 1)"),
        ("openai/whisper-large-v3", "0.33.0", {"enable_prompt_embeds": True}, {}, "not supported with encoder-decoder models"),
        (LLAMA, "0.32.0", {"async_scheduling": True}, {"speculative": "ngram:3"}, "--async-scheduling with ngram"),
        (LLAMA, "0.33.0", {"async_scheduling": True}, {"speculative": "ngram:3"}, ""),
        (LLAMA, "0.33.0", {"max_cpu_loras": 2}, {"lora": "16x4"}, "--max-cpu-loras 2 is less than --max-loras 4"),
        (LLAMA, "0.33.0", {"max_cpu_loras": 4}, {"lora": "16x4"}, ""),
    ],
)  # fmt: skip
def test_an_option_beside_sizes_or_a_kind_of_model(
    model: str, version: str, options: dict[str, Any], names: dict[str, Any], says: str
) -> None:
    found = kvplan.estimate(model, engine="vllm", engine_version=version, device="h100", engine_option=options, **names)
    assert (says in found.verdict, found.starts is False) == (True, bool(says)), found.verdict


def test_a_refusal_by_such_an_option_is_no_surer_or_less_sure_by_its_memory() -> None:
    """--enable-batch-sharded-sampling moves memory that is not modelled: of a start that it stops nothing hangs on that."""
    found = kvplan.estimate(LLAMA, engine="vllm", device="h100", engine_option={"enable_batch_sharded_sampling": True})
    assert found.certainty != "too close to call"


def test_check_says_the_same_of_a_command() -> None:
    command = f"vllm serve {LLAMA} --data-parallel-external-lb"
    (verdict,) = kvplan.check([Source("serve.sh", command)], device="h100")
    assert (verdict.status, "data_parallel_size > 1" in verdict.message) == ("refuses", True)


def test_a_flag_that_is_off_is_not_on() -> None:
    """A flag without a value can not be written as off: it is left out."""
    plan = planned(
        "qwen/qwen3-8b", engine="sglang", engine_version="0.5.23", device="h100", engine_option={"enable_nvidia_megakernel": "off"}
    )
    assert plan.starts
    with pytest.raises(SpecError, match="no method of vLLM's"):
        planned("qwen/qwen3-8b", engine="vllm", device="h100", engine_option={"quantization": "abc"})
