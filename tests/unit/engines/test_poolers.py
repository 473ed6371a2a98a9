"""Embeddings and scores: what vLLM's pooling runner and SGLang's embedding mode leave out, and how they are said in commands."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.manifests import read
from tests.conftest import planned

QWEN = "qwen/qwen3-8b"
HEAD = 151936 * 4096  # Qwen/Qwen3-8B config.json: vocab_size x hidden_size, untied


def weights(**options: str) -> int:
    plan = planned(QWEN, engine="vllm", device="l4", context=8192, engine_option=options).as_dict()
    lines = plan["ledgers"][0]["entries"]
    return sum(line["bytes"] for line in lines if line["name"].startswith("weights") and line["name"] != "weights: rounding")


def test_pooling_runner_makes_no_output_layer() -> None:
    """models/adapters.py: ParallelLMHead is not made; 16-bit weights."""
    assert weights() - weights(runner="pooling") == HEAD * 2


def test_embedding_mode_captures_no_graphs() -> None:
    """SGLang 0.5.9 model_runner.py init_device_graphs: not for models that do not generate."""

    def plan(**options: str) -> dict[str, Any]:
        return planned(QWEN, engine="sglang", device="h100-80gb", context=8192, engine_option=options).as_dict()

    plain, embeds = plan(), plan(is_embedding="true")
    assert "CUDA graphs" in {line["name"] for line in plain["ledgers"][0]["outside"]}
    assert "CUDA graphs" not in {line["name"] for line in embeds["ledgers"][0]["outside"]}
    assert plain["capacity"]["tokens"] == embeds["capacity"]["tokens"]


COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("vllm serve m/x --runner pooling", {"runner": "pooling"}),
    ("vllm serve m/x --convert classify", {"runner": "pooling"}),
    ("vllm serve m/x --runner auto --convert embed", {"runner": "pooling"}),
    ("vllm serve m/x --task embed", {"runner": "pooling"}),
    ("vllm serve m/x --task score", {"runner": "pooling"}),
    ("vllm serve m/x --runner generate --convert none", {"runner": "generate"}),
    ("vllm serve m/x --task generate", {"runner": "generate"}),
    ("python -m sglang.launch_server --model-path m/x --is-embedding", {"is_embedding": True}),
]


@pytest.mark.parametrize(("command", "options"), COMMANDS)
def test_read(command: str, options: dict[str, Any]) -> None:
    (found,) = read(command, "serve.sh")
    assert found.question.get("engine_option", {}) == options
    assert not [x for x in found.findings if x.severity == "error"]


def test_a_sentence_transformer_of_a_decoders_class_is_pooled_unasked() -> None:
    """gte-Qwen2 (is_causal false): vLLM 0.32's pooling runner built 7,069,242,880 parameters, whole prompts to a step (rows/poolers.jsonl).

    It pads the vocabulary of 151,646 rows of 3,584 to a multiple of 64.
    """
    plan = planned("Alibaba-NLP/gte-Qwen2-7B-instruct", engine="vllm", device="h200")
    assert plan.model.parameters == 7069242880 - (151680 - 151646) * 3584
    assert plan.question["max_num_batched_tokens"][0] == 131072


@pytest.mark.parametrize(("release", "words"), [("0.33", "Embedding models do not support"), ("0.18", "This model does not support")])
def test_an_encoder_does_not_generate(release: str, words: str) -> None:
    plan = planned("BAAI/bge-m3", engine="vllm", engine_version=release, device="l4", engine_option={"runner": "generate"})
    assert plan.starts is False
    assert words in plan.verdict


def test_an_encoder_is_likely_at_most_whatever_its_head() -> None:
    """docs/budget.md: a model that serves embeddings or scores; BertForMaskedLM has an output layer and generates nothing."""
    plan = planned("google-bert/bert-base-uncased", engine="vllm", device="h100")
    assert (plan.fits, plan.certainty) == (True, "likely")
