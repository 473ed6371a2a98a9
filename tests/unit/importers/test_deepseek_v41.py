"""DeepSeek-V4.1-Flash: the release's config, its published sizes, and what most layers read of four."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import SpecError, UnsupportedError
from kvplan.importers.hf_config import import_config
from kvplan.spec import parse_spec
from tests.conftest import planned

#: deepseek-ai/DeepSeek-V4.1-Flash config.json (verbatim in public tests), without what no shape depends on.
TEXT: dict[str, Any] = {
    "model_type": "deepseek_v41_text", "vocab_size": 129280, "hidden_size": 5120, "moe_intermediate_size": 2304, "num_hidden_layers": 40,
    "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1280,
    "o_lora_rank": 1024, "o_groups": 8, "tie_word_embeddings": False, "max_position_embeddings": 1048576, "n_routed_experts": 384,
    "n_shared_experts": 1, "num_experts_per_tok": 6, "sliding_window": 128, "compress_ratios": [0, 0, *[2] * 18, *[1] * 20, 0, 0, 0],
    "kv_source_layer_ids": [2, 8, 14, 20], "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36], "index_n_heads": 32,
    "index_head_dim": 128, "index_topk": 512, "hc_mult": 4, "engram_layer_ids": [1, 14], "engram_num_embeddings": [384006168, 384016682],
    "engram_max_ngram_size": 4, "engram_n_heads": 8, "engram_head_dim": 256, "num_nextn_predict_layers": 3,
    "dspark_target_layer_ids": [37, 38, 39],
}  # fmt: skip
VISION = {"model_type": "deepseek_v41_vision", "num_hidden_layers": 32, "hidden_size": 1024, "num_attention_heads": 16,
          "intermediate_size": 2816, "patch_size": 14, "downsample_ratio": 3}  # fmt: skip
QUANTISED = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32], "scale_fmt": "ue8m0",
             "expert_dtype": "fp4"}  # fmt: skip


def config(**more: Any) -> dict[str, Any]:
    return {"architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "text_config": TEXT | more,
            "vision_config": VISION, "quantization_config": QUANTISED}  # fmt: skip


def asked(folder: Path, tokens: int, engine: str = "ideal", **more: Any) -> Any:
    path = folder / "config.json"
    path.write_text(json.dumps(config(**more)), encoding="utf-8")
    return planned(str(path), engine=engine, context=tokens)


def test_four_layers_keep_rows_for_all_the_others(tmp_path: Path) -> None:
    """Three rows of two tokens and one of one token, 512 of latent and 128 of key each; every layer its 128 last rows."""
    plan = asked(tmp_path, 65_536)
    assert plan.cache.bytes_per_token == (3 // 2 + 1 + 0.5) * (512 + 128) * 2 == 3_200
    assert plan.cache.bytes_per_sequence == 65_536 * 3_200 + 40 * 128 * 512 * 2


def test_parameters_are_those_of_its_card(tmp_path: Path) -> None:
    """552B of backbone and 196B of n-gram tables; the release is 510.3 GB with 7.2 GB of DSpark's experts (vLLM's recipe)."""
    model = asked(tmp_path, 1024).model
    tables = (384_006_168 + 384_016_682) * 256
    assert round(tables / 1e9, 1) == 196.6
    assert round((model.parameters - tables) / 1e9) == 552
    drafts = 3 * 128 * 3 * 5120 * 2304 * 17 // 32
    assert model.weight_bytes + drafts == pytest.approx(510.3e9, rel=0.002)


@pytest.mark.parametrize("engine", ["llama.cpp", "lmdeploy", "exllamav3"])
def test_no_engine_takes_its_cache_for_that_of_v4(engine: str, tmp_path: Path) -> None:
    with pytest.raises((UnsupportedError, SpecError)):
        asked(tmp_path, 1024, engine)


def test_stages_have_experts_of_their_own() -> None:
    """Of 128 experts, 3 of them a token; two tables of 129,280 x 256; one projection of three hidden states."""
    own = {"dspark_markov_rank": 256, "dspark_n_routed_experts": 128, "dspark_num_experts_per_tok": 3}
    spec = parse_spec(import_config(config(**own), "config.json"), "config.json")
    mtp, experts = spec.mtp, spec.blocks[spec.mtp.block].mlps[0]
    beside = {w.name: tuple(w.shape) for w in mtp.beside}
    assert (mtp.modules, mtp.method, experts.experts, experts.experts_per_token) == (3, "dspark", 128, 3)
    assert beside["main_proj"] == (5120, 3 * 5120)
    assert beside["markov_w1"] == beside["markov_w2"] == (129_280, 256)


@pytest.mark.parametrize(
    "wrong",
    [{"kv_source_layer_ids": [8, 14, 20]}, {"compress_ratios": [0, 0, *[4] * 18, *[1] * 20, 0, 0, 0]}, {"engram_num_embeddings": [5]},
     {"kv_source_layer_ids": [1, 2, 8, 14, 20]}],
)  # fmt: skip
def test_ratios_without_a_layer_that_makes_such_rows_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"compress_ratios|engram_num_embeddings"):
        asked(tmp_path, 1024, **wrong)
