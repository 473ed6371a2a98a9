"""Quantisation that is said elsewhere than people look: single layers of Quark's, expressions of AutoRound's, files beside config.json,
MLX's files under other engines.

Sizes by hand: two layers of 4 projections of 256 x 256 and 3 of 256 x 512, 1,000 rows of embedding and head, five norms of 256.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import planned

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip
ATTENTION, MLP = 2 * 4 * 256 * 256, 2 * 3 * 256 * 512
REST = 2 * (2 * 1000 * 256 + 5 * 256)
INDEX = 2 * 4 * (6 * 256 + 512)  # GPTQ's g_idx: four bytes for each input of each projection
FOUR = 0.5 + 2.5 / 128  # a scale of two bytes and a zero of half a byte for 128 weights


def stored(folder: Path, quantization: dict[str, Any] | None, **more: Any) -> Any:
    config = CONFIG if quantization is None else CONFIG | {"quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(config | more))
    return planned(str(folder / "config.json"), engine="vllm", device="h100", context=64).model


def test_quark_has_formats_for_single_layers(tmp_path: Path) -> None:
    def weight(dtype: str, **more: Any) -> dict[str, Any]:
        return {"weight": {"dtype": dtype, "is_dynamic": False, **more}}

    whole = weight("fp4", qscheme="per_group", group_size=32)
    own = {"*self_attn*": weight("fp8_e4m3", qscheme="per_tensor"), "*mlp.up_proj": {"weight": None}}
    quark = {"quant_method": "quark", "global_quant_config": whole, "exclude": ["lm_head"], "layer_quant_config": own}
    packed = MLP * 2 // 3
    bytes_ = packed * (0.5 + 1 / 32) + MLP // 3 * 2 + ATTENTION + REST
    assert abs(stored(tmp_path, quark).weight_bytes - bytes_) < 0.001 * bytes_  # a scale for each of eight projections


def test_autorounds_keys_may_be_expressions(tmp_path: Path) -> None:
    """vLLM 0.32, layers/quantization/inc/config_parser.py: a key with a special character is searched for in a layer's name."""
    own = {".*self_attn.*": {"bits": 16}, "model.layers.0.mlp.up_proj": {"bits": 16}}
    told = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "packing_format": "auto_round:auto_gptq"}
    model = stored(tmp_path, told | {"extra_config": own})
    bytes_ = (MLP - 256 * 512) * FOUR + (256 * 512 + ATTENTION) * 2 + REST + 4 * (3 * 256 + 2 * 512)
    assert abs(model.weight_bytes - bytes_) < 0.01 * bytes_
    assert not any("meet no tensor" in note for note in model.notes)


def test_a_file_beside_says_how_autogptq_and_autoawq_store(tmp_path: Path) -> None:
    """get_config_filenames of vLLM's GPTQ and AWQ: quantize_config.json, quant_config.json."""
    beside = tmp_path / "quantize_config.json"
    beside.write_text(json.dumps({"bits": 4, "group_size": 128, "desc_act": True, "sym": True, "damp_percent": 0.1}))
    model = stored(tmp_path, None)
    assert model.weight_bytes == (ATTENTION + MLP) * FOUR + INDEX + REST
    assert any("from quantize_config.json, not config.json" in note for note in model.notes)
    assert stored(tmp_path, {"quant_method": "fp8"}).weight_bytes == ATTENTION + MLP + 14 * 4 + REST  # its own word counts
    beside.rename(tmp_path / "quant_config.json").write_text(json.dumps({"zero_point": True, "q_group_size": 128, "w_bit": 4}))
    assert stored(tmp_path, None).weight_bytes == (ATTENTION + MLP) * FOUR + REST


def test_nobody_but_mlx_loads_what_mlx_stored(tmp_path: Path) -> None:
    """vLLM 0.32, config/model.py: a block that names no method is none, so its packed words meet parameters in 16 bits."""
    mlx = {"group_size": 64, "bits": 4}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"quantization": mlx, "quantization_config": mlx}))
    for model in (str(path), "mlx-community/Qwen2.5-Coder-32B-Instruct-4bit"):
        for engine in ("vllm", "sglang", "tensorrt-llm"):
            plan = planned(model, engine=engine, device="h100", context=64)
            assert plan.certainty == "too close to call"
            assert any("they are counted as stored: name the format of your files" in note for note in plan.model.notes)
        assert planned(model, engine="mlx-lm", device="m4-max-64gb", context=64).certainty != "too close to call"
