"""Models that go through some layers several times: weights once, caches for every pass.

Parameters and bytes are what transformers 5.24.0 (torch 2.13.0, meta device) built of these configs and kept of 150 tokens, or arithmetic.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import planned

DORY = {"model_type": "dory", "architectures": ["DoryForCausalLM"], "dtype": "bfloat16", "vocab_size": 1000, "num_hidden_layers": 10,
        "n_input_layers": 2, "n_output_layers": 3, "n_recurrent_loops": 3, "max_position_embeddings": 8192}  # fmt: skip
INKLING = {"model_type": "inkling2_loop_text", "architectures": ["Inkling2LoopForCausalLM"], "dtype": "bfloat16", "vocab_size": 1024,
           "unpadded_vocab_size": 1024, "n_routed_experts": 8, "pad_token_id": 0}  # fmt: skip


def asked(config: dict[str, Any], folder: Path, tokens: int = 150) -> tuple[int, int]:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    plan = planned(str(path), engine="transformers", engine_version="5.24.0", context=tokens, batch=1).as_dict()
    return plan["model"]["parameters"], sum(e["bytes"] for e in plan["ledgers"][0]["entries"] if e["name"].startswith("cache"))


def test_dory_keeps_each_pass(tmp_path: Path) -> None:
    """Five of ten layers three times: 20 caches of 4 KV heads of 256; the last pass alone: 10."""
    per_layer = 2 * 4 * 256 * 2 * 150
    assert asked(DORY, tmp_path)[1] == 20 * per_layer
    assert asked({**DORY, "recurrent_kv_cache_mode": "last_loop"}, tmp_path)[1] == 10 * per_layer
    matrices = 3 * 2560 * 4096 + 2 * 2560 * 1024 + 3 * 2560 * 7168
    vectors = 2 * 2560 + 2 * 4096 + 2 * 7168
    assert asked(DORY, tmp_path)[0] == 10 * (matrices + vectors) + 2 * 1000 * 2560 + 1000


def test_hrm_text_keeps_each_pass(tmp_path: Path) -> None:
    """Two stacks of 2 layers: the low one in 2 x 3 passes, the high one in 2; K and V of 12 heads of 128 (configuration_hrm_text.py)."""
    config = {"model_type": "hrm_text", "architectures": ["HrmTextForCausalLM"], "dtype": "bfloat16", "num_hidden_layers": 2}
    per_pass = 2 * 12 * 128 * 2 * 150
    assert asked(config, tmp_path)[1] == 2 * (2 * 3 + 2) * per_pass
    assert asked({**config, "num_layers_per_stack": 2, "num_hidden_layers": 16}, tmp_path) == asked(config, tmp_path)  # as it is saved
    layer = 4 * 12 * 128 * 1536 + 12 * 128 * 1536 + 3 * 1536 * 4096
    assert asked(config, tmp_path)[0] == 4 * layer + 2 * 151_808 * 1536 + 1536


def test_a_release_counts_both_halves_of_a_layer(tmp_path: Path) -> None:
    kinds = [kind for i in range(10) for kind in ("full_attention" if i % 4 == 3 else "sliding_attention", "mlp")]
    doubled = {key: 2 * DORY[key] for key in ("num_hidden_layers", "n_input_layers", "n_output_layers")}
    assert asked({**DORY, **doubled, "n_recurrent_layers": 10, "layer_types": kinds}, tmp_path, 3000) == asked(DORY, tmp_path, 3000)


@pytest.mark.parametrize(("written", "n"), [("ByteDance/Ouro-1.4B", 24), ("ByteDance/Ouro-2.6B-Thinking", 48)])
def test_ouro_keeps_all_layers_of_each_pass(written: str, n: int) -> None:
    """vLLM 0.26 models/ouro.py: an Attention a layer and pass, four passes; 16 heads of 128."""
    plan = planned(written, engine="vllm", engine_version="0.26.0", device="h100", context=16_384)
    assert plan.cache.bytes_per_token == 4 * n * 2 * 2 * 16 * 128
    layer = 4 * 2048 * 2048 + 3 * 2048 * 5632 + 4 * 2048
    assert plan.model.parameters == n * layer + 2 * 49_152 * 2048 + 2048 + 2049
    assert "OuroForCausalLM" in planned(written, engine="vllm", engine_version="0.27.0", device="h100", context=16_384).verdict


def test_loop_coder_keeps_a_window_of_its_second_pass() -> None:
    """vLLM 0.33 models/iquest_loopcoder.py: 80 layers of 8 KV heads of 128, again with the last 64 tokens; a gate from 128 to 40 heads."""
    name = "IQuestLab/IQuest-Coder-V1-40B-Loop-Instruct"
    once = planned("IQuestLab/IQuest-Coder-V1-40B-Instruct", engine="ideal", context=4096)
    looped = planned(name, engine="ideal", context=4096)
    assert looped.model.parameters - once.model.parameters == 80 * (128 * 40 + 40)
    assert looped.cache.total_bytes - once.cache.total_bytes == 80 * 64 * 2 * 2 * 8 * 128


@pytest.mark.parametrize(("passes", "copies"), [(1, 0), (3, 24)])
def test_inkling_2_loop_keeps_convolutions_of_each_pass_too(passes: int, copies: int, tmp_path: Path) -> None:
    """Twelve of 24 layers again: K and V, and the inputs of four convolutions, three columns in f32."""
    one = asked({**INKLING, "loop_num_passes": 1}, tmp_path)
    found = asked({**INKLING, "loop_num_passes": passes}, tmp_path)
    assert found[1] == one[1] * (24 + copies) // 24
    assert found[0] == one[0]


def test_no_sglang_reads_a_config_of_a_later_transformers(tmp_path: Path) -> None:
    """0.5.23 asks for transformers 5.19.0 and has no such class itself; 5.24.0 is the first that has it."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(DORY), encoding="utf-8")
    plan = planned(str(path), engine="sglang", device="h100", context=1024)
    assert not plan.starts
    assert "its first transformers is 5.24.0" in plan.verdict
