"""Files whose tensors an engine would stop at: written by hand, of a Llama of two layers, 64 wide, with 4 heads of 16 and 2 KV heads."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest

import kvplan
from tools.header_files import F16, gguf, model

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 4, "vocab_size": 256, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip
SIZES = {"BF16": 2, "F8_E4M3": 1}
LAYER = {
    "self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (128, 64), "mlp.up_proj": (128, 64), "mlp.down_proj": (64, 128), "input_layernorm": (64,),
    "post_attention_layernorm": (64,),
}  # fmt: skip


def _tensors() -> dict[str, tuple[int, ...]]:
    ends: dict[str, tuple[int, ...]] = {"model.embed_tokens": (256, 64), "model.norm": (64,), "lm_head": (256, 64)}
    return ends | {f"model.layers.{i}.{name}": shape for i in range(4) for name, shape in LAYER.items()}


def _folder(at: Path, tensors: dict[str, tuple[int, ...]], dtype: str = "BF16") -> Path:
    header, end = {}, 0
    for name, shape in tensors.items():
        start, end = end, end + math.prod(shape) * SIZES[dtype]
        header[f"{name}.weight"] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    (at / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    (at / "config.json").write_text(json.dumps(CONFIG))
    return at


def _plan(folder: Path, engine: str = "vllm") -> kvplan.Plan:
    return kvplan.estimate(folder, device="h100", engine=engine, max_model_len=4096)


def test_files_of_the_config_are_sure(tmp_path: Path) -> None:
    plan = _plan(_folder(tmp_path, _tensors()))
    assert (plan.certainty, [note for note in plan.model.notes if "stops at" in note]) == ("certain", [])


@pytest.mark.parametrize(
    ("change", "drop", "says"),
    [
        ({f"model.layers.{i}.self_attn.k_proj": (16, 64) for i in range(4)}, "", "k_proj.weight has 16 rows, the config describes 32"),
        ({}, "lm_head", "the files hold"),
        ({}, "model.layers.2.self_attn.v_proj", "layer 2 of the files holds"),
        ({"model.memory_bank": (256, 512)}, "", "262,144 bytes of tensors that it does not have, model.memory_bank.weight among them"),
        ({"model.side": (8, 64)}, "", "1,024 bytes of tensors that it does not have, model.side.weight among them"),
    ],
)  # fmt: skip
def test_a_start_from_others_is_too_close_to_call(tmp_path: Path, change: dict[str, tuple[int, ...]], drop: str, says: str) -> None:
    """vLLM stops at a weight that is missing, unknown or of another shape: no start is certain. Bytes by hand: shapes x 2."""
    tensors = {name: shape for name, shape in (_tensors() | change).items() if name != drop}
    plan = _plan(_folder(tmp_path, tensors))
    assert plan.certainty == "too close to call"
    assert any(says in note for note in plan.model.notes)


def test_fp8_without_scales_is_cast_as_other_plain_types_are(tmp_path: Path) -> None:
    """A config without quantization_config makes parameters in bf16, which weight_loader copies the files' into: 2 bytes each."""
    parameters = sum(math.prod(shape) for shape in _tensors().values())
    assert _plan(_folder(tmp_path, _tensors(), "F8_E4M3")).model.weight_bytes == 2 * parameters


@pytest.mark.parametrize(("extra", "said"), [([], ""), ([("memory.weight", (64, 512), F16, 65_536)], "65,536 bytes of tensors")])
def test_a_gguf_with_tensors_that_its_metadata_has_not(
    tmp_path: Path, extra: list[tuple[str, tuple[int, ...], int, int]], said: str
) -> None:
    """llama.cpp src/llama-model-loader.cpp done_getting_tensors: "wrong number of tensors; expected"."""
    sizes = {"embedding_length": 64, "feed_forward_length": 128, "attention.head_count": 4, "attention.head_count_kv": 2}
    metadata = model("llama", {**sizes, "block_count": 4, "context_length": 4096, "vocab_size": 256})
    shapes = {"attn_q": (64, 64), "attn_k": (64, 32), "attn_v": (64, 32), "attn_output": (64, 64), "ffn_gate": (64, 128),
              "ffn_up": (64, 128), "ffn_down": (128, 64), "attn_norm": (64,), "ffn_norm": (64,)}  # fmt: skip
    named = {"token_embd": (64, 256), "output": (64, 256), "output_norm": (64,)} | {
        f"blk.{i}.{name}": shape for i in range(4) for name, shape in shapes.items()
    }
    tensors = [(f"{name}.weight", shape, F16, 2 * math.prod(shape)) for name, shape in named.items()]
    (tmp_path / "a.gguf").write_bytes(gguf(metadata, [*tensors, *extra]))
    plan = kvplan.estimate(tmp_path / "a.gguf", device="h100", engine="llama.cpp", context=4096)
    assert {said in note for note in plan.model.notes if "stops at" in note} == ({True} if said else set())
    assert not said or plan.certainty == "too close to call"
