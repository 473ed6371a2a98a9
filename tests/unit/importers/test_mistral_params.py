"""params.json, Mistral's own format: what vLLM 0.33 (transformers_utils/configs/mistral.py) makes of the released files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.planner.plan import Plan
from tests.conftest import planned

#: mistralai/Devstral-Small-2507, params.json.
DEVSTRAL: dict[str, Any] = {
    "dim": 5120, "n_layers": 40, "head_dim": 128, "hidden_dim": 32768, "n_heads": 32, "n_kv_heads": 8, "rope_theta": 1e9,
    "norm_eps": 1e-05, "vocab_size": 131072,
}  # fmt: skip
#: Its tower, as mistralai/Mistral-Small-3.1-24B-2503 and mistralai/Pixtral-12B-2409 have it.
TOWER = {
    "hidden_size": 1024, "num_channels": 3, "image_size": 1540, "patch_size": 14, "rope_theta": 1e4, "intermediate_size": 4096,
    "num_hidden_layers": 24, "num_attention_heads": 16, "adapter_bias": False, "mm_projector_id": "patch_merge", "spatial_merge_size": 2,
    "add_pre_mm_projector_layer_norm": True,
}  # fmt: skip
PIXTRAL = {
    "hidden_size": 1024, "num_channels": 3, "image_size": 1024, "patch_size": 16, "rope_theta": 1e4, "intermediate_size": 4096,
    "num_hidden_layers": 24, "num_attention_heads": 16, "adapter_bias": True, "image_token_id": 10,
}  # fmt: skip


def plan(tmp_path: Path, params: dict[str, Any], **question: Any) -> Plan:
    (tmp_path / "params.json").write_text(json.dumps(params), encoding="utf-8")
    return planned(f"{tmp_path}/", **({"context": 1000} | question))


@pytest.mark.parametrize(
    ("params", "parameters"),
    [
        (DEVSTRAL, 23_572_403_200),  # the Hub's count of that release
        ({**DEVSTRAL, "vision_encoder": TOWER}, 24_011_361_280),  # transformers 5.23 Mistral3ForConditionalGeneration
        ({**DEVSTRAL, "hidden_dim": 14336, "vision_encoder": PIXTRAL}, 12_682_739_712),  # Llava
        ({**DEVSTRAL, "tied_embeddings": True}, 23_572_403_200 - 5120 * 131072),
    ],
)
def test_its_models_have_the_parameters_of_their_releases(tmp_path: Path, params: dict[str, Any], parameters: int) -> None:
    found = plan(tmp_path, params)
    assert found.model.parameters == parameters
    assert found.cache.bytes_per_token == 40 * 2 * 8 * 128 * 2


def test_the_length_is_the_files_or_what_vllm_takes(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"engine": "vllm", "device": "H200", "context": None}
    unsaid = plan(tmp_path, DEVSTRAL, **asked)
    assert unsaid.question["max_model_len"][0] == 128_000
    assert any("params.json says no max_position_embeddings: 128,000" in note for note in unsaid.model.notes)
    assert plan(tmp_path, {**DEVSTRAL, "max_position_embeddings": 40960}, **asked).question["max_model_len"][0] == 40960


def test_windows_and_experts(tmp_path: Path) -> None:
    base = {**DEVSTRAL, "n_layers": 8}
    slid = plan(tmp_path, {**base, "sliding_window": 4096}).cache.layers
    assert [(layer.kind, layer.layers) for layer in slid] == [("sliding", 8)]
    mixed = plan(tmp_path, {**base, "sliding_window": [None, 512, 512, 512]}).cache.layers
    assert sorted((layer.kind, layer.layers) for layer in mixed) == [("gqa", 2), ("sliding", 6)]
    experts = plan(tmp_path, {**base, "moe": {"num_experts": 8, "num_experts_per_tok": 2}}).model
    one, attention = 3 * 5120 * 32768, 2 * 5120 * 128 * (32 + 8)
    assert experts.parameters == 8 * (8 * one + attention + 8 * 5120 + 2 * 5120) + 2 * 5120 * 131072 + 5120


def test_fp8_is_one_byte_of_the_layers_matrices(tmp_path: Path) -> None:
    at_16, at_8 = (
        plan(tmp_path, {**DEVSTRAL, **more}).model.weight_bytes for more in ({}, {"quantization": {"qformat_weight": "fp8_e4m3"}})
    )
    matrices = 40 * (3 * 5120 * 32768 + 2 * 5120 * 128 * (32 + 8))
    assert 0 <= at_8 - (at_16 - matrices) < 10_000  # a scale for each matrix


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"hidden_dim": None, "multiple_of": 256}, "hidden_dim: missing: this is not Mistral's params.json"),
        ({"quantization": {"qformat_weight": "int3"}}, "quantization: must be fp8_e4m3"),
        ({"sliding_window": [1, 2]}, "sliding_window: must be one window"),
        ({"multimodal": {"whisper_model_args": {}}}, "models that hear is not read"),
        ({"vision_encoder": "x"}, "vision_encoder: must be a mapping"),
        ({"n_layers": None}, "n_layers: missing"),
        ({"n_layers": 10**30, "sliding_window": [1]}, "sliding_window: must be one window"),
        ({"n_layers": "40"}, "num_hidden_layers: must be a positive whole number"),
        ({"qk_nope_head_dim": 64}, "latent attention without experts"),
        ({"use_qk_norm": True}, "use_qk_norm: is nothing that the models have"),  # pytorch/executorch examples/models/qwen3/config
    ],
)
def test_what_is_not_read_says_why(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(KvplanError) as caught:
        plan(tmp_path, {**DEVSTRAL, **more})
    assert said in str(caught.value)


def test_the_same_words_in_a_file_of_another_name_are_no_such_file(tmp_path: Path) -> None:
    """pytorch/executorch examples/models/*/config/*.json: sizes for its own export, of Qwen, Granite and Phi too."""
    (tmp_path / "config.json").write_text(json.dumps(DEVSTRAL), encoding="utf-8")
    with pytest.raises(KvplanError, match="does not say which model class"):
        planned(f"{tmp_path}/config.json", context=1000)
