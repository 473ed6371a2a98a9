"""Options that SGLang's own parser and checks stop at: each command line went through the wheel of its release, which said the sentence."""

from __future__ import annotations

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.sglang.arguments import ARGUMENTS

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
