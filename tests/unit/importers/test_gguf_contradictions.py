"""Files that llama.cpp does not load for what their metadata says: src/llama-model.cpp, llama-vocab.cpp, as in llama-cpp-python 0.3.36."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from tools.header_files import F32, gguf, model

WIDTH, INNER, KV, TOKENS = 64, 128, 32, 1000
METADATA: dict[str, Any] = {
    "block_count": 1, "embedding_length": WIDTH, "feed_forward_length": INNER, "attention.head_count": 4, "attention.head_count_kv": 2,
    "context_length": 2048, "attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": WIDTH // 4, "general.name": "x",
    "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [f"t{n}" for n in range(TOKENS)],
}  # fmt: skip
SHAPES = {
    "token_embd": (WIDTH, TOKENS), "output_norm": (WIDTH,), "output": (WIDTH, TOKENS),
    "blk.0.attn_norm": (WIDTH,), "blk.0.ffn_norm": (WIDTH,),
    "blk.0.attn_q": (WIDTH, WIDTH), "blk.0.attn_k": (WIDTH, KV), "blk.0.attn_v": (WIDTH, KV), "blk.0.attn_output": (WIDTH, WIDTH),
    "blk.0.ffn_gate": (WIDTH, INNER), "blk.0.ffn_up": (WIDTH, INNER), "blk.0.ffn_down": (INNER, WIDTH),
}  # fmt: skip


def _plan(folder: Path, changed: dict[str, Any], arch: str = "llama") -> kvplan.Plan:
    metadata = {key: value for key, value in (METADATA | changed).items() if value is not None}
    tensors = [(f"{name}.weight", shape, F32, 4 * shape[0] * (shape[1] if shape[1:] else 1)) for name, shape in SHAPES.items()]
    (folder / "model.gguf").write_bytes(gguf(model(arch, metadata), tensors))
    return kvplan.estimate(folder / "model.gguf", engine="llama.cpp", device="rtx-4090", context=1024)


def test_a_file_that_is_whole(tmp_path: Path) -> None:
    assert _plan(tmp_path, {}).certainty == "certain"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tokenizer.ggml.model": None}, "key not found in model: tokenizer.ggml.model"),
        ({"tokenizer.ggml.tokens": ["a", "b"]}, "1,000 rows for 2 tokens"),
        ({"attention.layer_norm_rms_epsilon": None}, "key not found in model: llama.attention.layer_norm_rms_epsilon"),
        ({"attention.head_count": 0}, "attention.head_count is missing or 0"),
        ({"feed_forward_length": None}, "feed_forward_length is missing or 0"),
        ({"rope.dimension_count": 8}, "invalid n_rot: 8, expected 16"),
        ({"expert_count": 4, "expert_used_count": 8}, "8 of 4 experts"),
    ],
)
def test_files_that_are_not_loaded(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    plan = _plan(tmp_path, changed)
    assert plan.certainty == "too close to call"
    assert any(said in note for note in plan.model.notes)


def test_other_classes_turn_a_part_of_their_heads(tmp_path: Path) -> None:
    assert not any("n_rot" in note for note in _plan(tmp_path, {"rope.dimension_count": 8}, "qwen2").model.notes)
