"""Options that SGLang's own parser and checks stop at: each command line went through the wheel of its release, which said the sentence."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.sglang.arguments import ARGUMENTS
from tests.unit.engines.test_sglang_refusals import stopped

STOPS = [
    ("--max-ep-size 16", "--max-ep-size requires --elastic-ep-backend to be set."),
    ("--elastic-ep-join-rank-offset 4", "--elastic-ep-join-rank-offset is only valid with --elastic-ep-join-mode scale."),
    ("--elastic-ep-backend nixl --elastic-ep-join-mode scale", "Elastic EP scale-up requires one joining TP group at --node-rank 1"),
    ("--elastic-ep-initial-size 8", "--elastic-ep-initial-size is only valid for an Elastic EP deployment"),
    ("--encoder-only --language-only", "Cannot set --encoder-only and --language-only together"),
    ("--language-model-only --language-only", "--language-model-only cannot be combined with --language-only"),
    ("--disaggregation-mode prefill --disaggregation-transfer-backend fake",
     "Prefill server does not support 'fake' as the transfer backend"),
    ("--watermark-config {}", "--watermark-config requires --enable-watermark"),
    ("--load-publish-endpoint tcp://*:1", "--load-publish-endpoint requires --kv-events-config"),
    ("--ssl-keyfile /dev/null", "--ssl-keyfile requires --ssl-certfile to be specified as well."),
    ("--ssl-certfile /dev/null", "--ssl-certfile requires --ssl-keyfile to be specified as well."),
    ("--grpc-port 4000 --api-key x", "--grpc-port is incompatible with --api-key/--admin-api-key"),
    ("--tokenizer-worker-num 0", "Tokenizer worker num must >= 1"),
    ("--served-model-name a:b", "served_model_name cannot contain a colon (':') character."),
    ("--enable-lora --lora-paths a=/x --lora-target-modules all q_proj",
     "If 'all' is specified in --lora-target-modules, it should be the only module specified"),
]  # fmt: skip


def errors(argv: str, release: str) -> list[str]:
    answer = read(ARGUMENTS, words("--model-path", "Qwen/Qwen3-30B-A3B", *argv.split()), {}, release)
    return [one.message for one in answer.findings if one.severity == "error"]


@pytest.mark.parametrize(("argv", "said"), STOPS)
def test_stops(argv: str, said: str) -> None:
    assert any(said in message for message in errors(argv, "0.5.23"))


@pytest.mark.parametrize(
    "argv",
    [
        "--served-model-name s3://a/b",
        "--grpc-port 4000",
        "--ssl-keyfile /dev/null --ssl-certfile /dev/null",
        "--grpc-mode --grpc-port 1 --api-key x",
    ],
)
def test_goes_on(argv: str) -> None:
    assert not errors(argv, "0.5.23")


def test_dated() -> None:
    assert errors("--served-model-name a:b", "0.5.6")
    assert not errors("--served-model-name a:b", "0.5.5")  # the sentence is in no wheel before 0.5.6
    assert errors("--enable-session-radix-cache", "0.5.15")
    assert not errors("--enable-session-radix-cache --radix-eviction-policy priority", "0.5.15")
    assert not errors("--enable-session-radix-cache", "0.5.18")


QWEN = "Qwen/Qwen3.5-27B"
STATES = [  # 0.5.23's run on four H100, the released wheel: an AssertionError, or a pool
    ({"block_size": 512}, "assert mamba_track_interval % page_size == 0 (every 256 tokens, pages of 512, 0 drafted)"),
    ({"block_size": 48, "max_num_batched_tokens": 4800}, "(every 256 tokens, pages of 48, 0 drafted)"),
    ({"block_size": 512, "engine_option": {"mamba_track_interval": "1024"}}, None),
    ({"block_size": 512, "engine_option": {"disable_radix_cache": "true"}}, None),
    ({"engine_option": {"mamba_track_interval": "2"}}, None),
    ({"engine_option": {"mamba_track_interval": "2"}, "speculative": "mtp:auto"}, None),  # its tokens are picked after that check
]


@pytest.mark.parametrize(("asked", "said"), STATES)
def test_tracked_states(asked: dict[str, Any], said: str | None) -> None:
    found = stopped(QWEN, "0.5.23", tp=4, **asked)
    assert said in (found or "") if said else found is None
