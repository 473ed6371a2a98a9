"""What the plan shows is what the engine stores: state formats, bytes from headers, and no caches that nobody has read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import UnsupportedError
from tests.conftest import one_block, planned
from tools.header_files import layout, safetensors

MAMBA = {"kind": "mamba2", "heads": 4, "head_dim": 8, "d_state": 16, "groups": 1, "d_conv": 4}
STATE = 4 * 8 * 16  # elements of one recurrent state


@pytest.mark.parametrize(
    ("engine", "width"),
    [("vllm", 2), ("tensorrt-llm", 2), ("sglang", 4), ("llama.cpp", 4), ("ollama", 4), ("ideal", 4)],
)
def test_states_are_shown_as_the_engine_keeps_them(engine: str, width: int) -> None:
    """vLLM model_executor/layers/mamba/mamba_utils.py and TensorRT-LLM: the compute type; SGLang and llama.cpp: f32."""
    plan = planned(one_block(MAMBA, dtype="bf16"), engine=engine, context=1024)
    (state,) = [t for layer in plan.cache.layers for t in layer.tensors if t["name"] == "state"]
    assert state["bytes_per_state"] == STATE * width


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_convolution_states_of_ggml_are_f32(engine: str) -> None:
    """llama.cpp src/llama-memory-recurrent.cpp: both kinds of states are GGML_TYPE_F32; three columns of 4 x 8 channels."""
    plan = planned(one_block(MAMBA, dtype="bf16"), engine=engine, context=1024)
    (conv,) = [t for layer in plan.cache.layers for t in layer.tensors if t["name"] == "conv_x"]
    assert conv["bytes_per_state"] == 3 * 4 * 8 * 4


def test_an_option_changes_what_is_shown() -> None:
    options = {"mamba_ssm_cache_dtype": "float32"}
    plan = planned(one_block(MAMBA, dtype="bf16"), engine="vllm", context=1024, engine_option=options)
    (state,) = [t for layer in plan.cache.layers for t in layer.tensors if t["name"] == "state"]
    assert state["bytes_per_state"] == STATE * 4


HIDDEN, INNER, VOCAB = 64, 128, 96
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCAB,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A folder whose down projection is stored in f32, with a bias that the config does not mention."""
    layer = {f"self_attn.{x}_proj": (HIDDEN, HIDDEN) for x in "qkvo"} | {"mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN)}
    tensors = [(f"model.layers.0.{name}.weight", "BF16", [*shape], 2 * shape[0] * shape[1]) for name, shape in layer.items()]
    tensors += [(f"model.layers.0.{name}.weight", "BF16", [HIDDEN], 2 * HIDDEN) for name in ("input_layernorm", "post_attention_layernorm")]
    tensors += [(name, "BF16", [VOCAB, HIDDEN], 2 * VOCAB * HIDDEN) for name in ("model.embed_tokens.weight", "lm_head.weight")]
    tensors += [("model.norm.weight", "BF16", [HIDDEN], 2 * HIDDEN), ("model.layers.0.self_attn.q_proj.bias", "BF16", [HIDDEN], 2 * HIDDEN)]
    tensors += [("model.layers.0.mlp.down_proj.weight", "F32", [HIDDEN, INNER], 4 * HIDDEN * INNER)]
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(safetensors(layout(tensors), sum(t[3] for t in tensors)))
    return str(tmp_path)


@pytest.mark.parametrize(("engine", "width"), [("vllm", 2), ("sglang", 2), ("tensorrt-llm", 2), ("ideal", 4)])
def test_bytes_of_headers_reach_every_ledger(engine: str, width: int, checkpoint: str) -> None:
    """Serving engines make their parameters in the compute type; `ideal` has a file's own. The bias is held, whoever declared it."""
    (ledger,) = planned(checkpoint, engine=engine, context=128).ledgers
    lines = {e.name: e for e in ledger.entries}
    assert lines["weights: mlp"].bytes == 2 * 2 * INNER * HIDDEN + width * INNER * HIDDEN
    assert lines["weights: norm"].bytes == 2 * (3 * HIDDEN + HIDDEN)
    assert "header" in lines["weights: mlp"].source


def test_vocabularies_from_headers_are_padded_too(checkpoint: str) -> None:
    """96 rows to 128: vLLM model_executor/layers/vocab_parallel_embedding.py."""
    (ledger,) = planned(checkpoint, engine="vllm", context=128).ledgers
    assert {e.name: e.bytes for e in ledger.entries}["weights: head"] == 2 * 128 * HIDDEN


@pytest.mark.parametrize("engine", ["tensorrt-llm", "mlx-lm"])
def test_indexer_keys_beside_k_and_v_are_not_guessed(engine: str) -> None:
    with pytest.raises(UnsupportedError, match="gqa_indexed"):
        planned("minimaxai/minimax-m3", engine=engine, context=4096)
