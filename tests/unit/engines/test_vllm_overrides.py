"""--hf-overrides, beside what EngineArgs.create_engine_config of the releases made of Qwen3-32B's config (40,960 positions)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.vllm.arguments import ARGUMENTS
from kvplan.errors import SpecError
from kvplan.units import GIB
from tests.conftest import planned

YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32_768}


def ask(keys: dict[str, Any], version: str, model: str = "Qwen/Qwen3-32B", **question: Any) -> Any:
    question = {"device": "h100-80gb", "kv_memory": 120 * GIB, **question}
    return planned(model, engine="vllm", engine_version=version, engine_option={"hf_overrides": json.dumps(keys)}, **question)


@pytest.mark.parametrize(("keys", "version", "length"), [
    ({"max_position_embeddings": 65_536}, "0.10.2", 65_536),
    ({"max_position_embeddings": 65_536}, "0.33.0", 65_536),
    ({"model_max_length": 65_536}, "0.33.0", 65_536),
    ({"max_model_len": 65_536}, "0.33.0", 40_960),
    ({"rope_scaling": YARN}, "0.10.2", 65_536),
    ({"rope_scaling": YARN}, "0.12.0", 40_960),
    ({"rope_scaling": YARN}, "0.18.1", 40_960),
    ({"rope_scaling": YARN}, "0.20.2", 65_536),
    ({"rope_scaling": YARN}, "0.28.0", 65_536),
    ({"rope_scaling": YARN}, "0.30.0", 40_960),
    ({"rope_parameters": {**YARN, "factor": 4.0}}, "0.10.2", 40_960),
    ({"rope_parameters": {**YARN, "factor": 4.0}}, "0.12.0", 131_072),
    ({"rope_parameters": {**YARN, "factor": 4.0}}, "0.30.0", 40_960),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "0.10.2", 81_920),
    ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "0.12.0", 40_960),
])  # fmt: skip
def test_lengths(keys: dict[str, Any], version: str, length: int) -> None:
    assert ask(keys, version).question["max_model_len"][0] == length


@pytest.mark.parametrize(("keys", "version", "words_of_it"), [
    ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "0.24.0", "'rope_type'"),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "0.24.0", "'original_max_position_embeddings'"),
    ({"text_config": {"num_hidden_layers": 4}}, "0.33.0", "does not have `num_attention_heads` attribute"),
])  # fmt: skip
def test_stops(keys: dict[str, Any], version: str, words_of_it: str) -> None:
    plan = ask(keys, version)
    assert plan.starts is False
    assert words_of_it in plan.verdict


def test_layers_that_are_left_out_keep_nothing() -> None:
    """64 layers of 2 x 8 x 128 values of 2 bytes a token, blocks of 16; two of them are left."""
    plan = ask({"num_hidden_layers": 2}, "0.33.0", kv_memory=GIB)
    assert plan.capacity.blocks == GIB // (2 * 16 * 2 * 8 * 128 * 2)


def test_a_part_of_a_model_with_towers() -> None:
    keys = {"text_config": {"num_hidden_layers": 2}}
    plan = ask(keys, "0.33.0", model="Qwen/Qwen3-VL-8B-Instruct", kv_memory=GIB)
    assert plan.capacity.blocks == GIB // (2 * 16 * 2 * 8 * 128 * 2)


def test_what_is_not_modelled_is_said_and_no_certainty() -> None:
    plan = ask({"num_key_value_heads": 4}, "0.33.0", kv_memory=None, tp=2, max_model_len=4096)
    assert plan.certainty != "certain"
    assert any("num_key_value_heads" in note for note in plan.model.notes)


def test_no_object() -> None:
    with pytest.raises(SpecError, match="write an object"):
        planned("Qwen/Qwen3-32B", engine="vllm", device="h100-80gb", engine_option={"hf_overrides": "[1]"})


@pytest.mark.parametrize(("argv", "version", "said"), [
    ("--hf-overrides [1]", "0.28.0", "is no object"),
    ('--hf-overrides {"quantization_config":{"quant_method":"nope"}}', "0.28.0", "has no such value"),
    ("--additional-config x", "0.16.0", "is not JSON"),
    ("--mm-processor-kwargs [1]", "0.24.0", "is no object"),
    ("--override-generation-config 3", "0.10.2", "is no object"),
    ('--media-io-kwargs {"x":1}', "0.28.0", "x is no object"),
    ('--pooler-config {"normalize":true}', "0.17.1", "it has no key normalize"),
    ('--reasoning-config {"nope":1}', "0.24.0", "it has no key nope"),
    ("--compilation-config 3", "0.12.0", "is no object"),
    ("--kv-cache-memory-bytes -1", "0.33.0", "No available memory for the cache blocks"),
    ("--enable-log-outputs", "0.28.0", "requires --enable-log-requests"),
    ("--enable-auto-tool-choice", "0.17.1", "requires --tool-call-parser"),
])  # fmt: skip
def test_the_parser_and_the_config_stop(argv: str, version: str, said: str) -> None:
    """make_arg_parser and create_engine_config of the releases."""
    found = read(ARGUMENTS, words("--model", "Qwen/Qwen3-32B", *argv.split(" ")), {}, version).findings
    assert any(one.severity == "error" and said in one.message for one in found)


@pytest.mark.parametrize(("argv", "version"), [
    ("--compilation-config 3", "0.9.1"),  # CompilationConfig.from_cli, which takes an object alone from 0.9.2 on
    ('--limit-mm-per-prompt {"image":"2"}', "0.33.0"),
    ('--limit-mm-per-prompt {"image":-1}', "0.33.0"),
    ('--pooler-config {"normalize":true}', "0.15.1"),
    ('--override-generation-config {"nope":1}', "0.33.0"),
    ("--kv-cache-memory-bytes 0", "0.33.0"),
    ("--enable-auto-tool-choice --tool-call-parser hermes", "0.17.1"),
])  # fmt: skip
def test_the_parser_and_the_config_go_on(argv: str, version: str) -> None:
    answer = read(ARGUMENTS, words("--model", "Qwen/Qwen3-32B", *argv.split(" ")), {}, version)
    assert [one.message for one in answer.findings if one.severity == "error"] == []
    assert "kv_memory" not in answer.question


def test_a_limit_of_a_text_model_is_not_looked_at() -> None:
    plan = planned("Qwen/Qwen3-8B", engine="vllm", device="h100-80gb", engine_option={"limit_mm_per_prompt": '{"image": -1}'})
    assert plan.starts


def test_a_graph_of_no_tokens() -> None:
    plan = planned("Qwen/Qwen3-8B", engine="vllm", device="h100-80gb", engine_option={"cudagraph_capture_sizes": "0,8"})
    assert plan.starts is False
    assert "ZeroDivisionError" in plan.verdict
