"""vLLM and SGLang refuse lengths beyond the model's own, with their condition and its way out."""

from __future__ import annotations

import json

import pytest

import kvplan
from kvplan.manifests import read
from tests.conftest import planned

MODEL = "meta-llama/llama-3.1-8b"  # config.json: max_position_embeddings 131072, rope_scaling llama3
WAYS_OUT = {"vllm": "allow_long_max_model_len", "sglang": "allow_overwrite_longer_context_len"}


@pytest.mark.parametrize("engine", WAYS_OUT)
@pytest.mark.parametrize("name", ["context", "max_model_len"])
def test_one_token_more_is_refused_unless_allowed(engine, name):
    question = {"engine": engine, "kv_memory": "40GiB"}
    assert planned(MODEL, **question, **{name: 131_072}).starts
    plan = kvplan.estimate(MODEL, **question, **{name: 131_073})
    assert (plan.starts, plan.fits) == (False, False)
    assert "131073" in plan.verdict
    assert "131072" in plan.verdict
    advised = {one.option: one.value for one in plan.advice}
    assert advised[name] == 131_072
    assert advised["engine_option"] == f"{WAYS_OUT[engine]}=true"
    allowed = planned(MODEL, **question, **{name: 131_073}, engine_option={WAYS_OUT[engine]: True})
    assert allowed.starts
    assert any("131072 tokens" in warning or "131073" in warning for warning in allowed.capacity.warnings)


@pytest.mark.parametrize("engine", ["llama.cpp", "transformers", "ideal"])
def test_engines_that_do_not_refuse(engine):
    assert planned(MODEL, engine=engine, kv_memory="40GiB", context=131_073).starts is not False


CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, 32768),
        # Qwen2.5's model card: yarn, factor 4 of 32,768
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131_072),
        ({"rope_type": "linear", "factor": 2.0}, 65_536),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 32768),
        ({"rope_type": "longrope", "factor": 8.0}, 32768),
        ({"rope_type": "yarn", "factor": "4", "original_max_position_embeddings": 32768}, 32768),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": -5}, 32768),
        ([1, 2], 32768),
    ],
)
def test_rotary_scaling_stretches_the_models_own_length(tmp_path, scaling, expected):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | ({"rope_scaling": scaling} if scaling is not None else {})))
    assert kvplan.model(str(path)).max_context == expected
    asked = {"engine": "vllm", "engine_version": "0.29", "kv_memory": "4GiB"}
    assert planned(str(path), context=expected, **asked).starts
    assert not planned(str(path), context=expected + 1, **asked).starts


def test_vllm_takes_the_positions_of_a_yarn_config_as_they_stand_from_0_30_on(tmp_path):
    """config/model.py _get_and_verify_max_len: no factor is multiplied any more."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}))
    asked = {"engine": "vllm", "engine_version": "0.30", "kv_memory": "4GiB"}
    assert planned(str(path), context=32_768, **asked).starts
    assert not planned(str(path), context=32_769, **asked).starts


@pytest.mark.parametrize(("release", "says", "starts"), [("0.4.8", None, True), ("0.4.8", "false", False), ("0.5.1", None, False)])
def test_sglang_0_4_allows_longer_lengths_unless_told(release: str, says: str | None, starts: bool) -> None:
    """configs/model_config.py: SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN is on by default up to 0.4.10, and off from 0.5.0 on."""
    option = {} if says is None else {WAYS_OUT["sglang"]: says}
    plan = planned(MODEL, engine="sglang", engine_version=release, kv_memory="60GiB", context=131_073, engine_option=option)
    assert plan.starts is starts


def test_the_variable_that_is_off_is_kept_for_sglang() -> None:
    (found,) = read("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=0 python -m sglang.launch_server --model-path m/x", "serve.sh")
    assert found.question["engine_option"] == {WAYS_OUT["sglang"]: False}
