"""Folders and files as people have them: quantised conversions, projectors beside a model, blobs, and what is no model at all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from tests.conftest import planned
from tools.header_files import F16, Q8_0, gguf, model, safetensors

#: Two layers of 512, four query heads a KV head, 1,000 rows of vocabulary apart from the output.
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip
#: Elements of the matrices of both layers; of the five norms; of the embedding, and of the output.
MATRICES, NORMS, ENDS = 2 * (2 * 512 * 512 + 2 * 128 * 512 + 3 * 1024 * 512), 5 * 512, 1000 * 512


def folder(at: Path, **files: dict[str, Any] | bytes) -> str:
    at.mkdir(exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (at / name.replace("__", ".")).write_bytes(data)
    return f"{at}/"


def weight_bytes(path: str, **question: Any) -> int:
    return planned(path, context=64, **question).model.weight_bytes


def why(path: str) -> str:
    with pytest.raises(KvplanError) as caught:
        planned(path, context=64)
    return str(caught.value)


@pytest.mark.parametrize(("method", "bits", "head_bits"), [("exl2", 4.25, 8), ("exl3", 4.0, 6), ("exl3", 2.5, None)])
def test_exllama_says_its_bits_and_those_of_the_head(tmp_path: Path, method: str, bits: float, head_bits: int | None) -> None:
    stated = {"quant_method": method, "bits": bits} | ({"head_bits": head_bits} if head_bits else {})
    path = folder(tmp_path / "model", config__json={**CONFIG, "quantization_config": stated})
    by_hand = MATRICES * bits / 8 + ENDS * 2 + ENDS * (head_bits or 6) / 8 + NORMS * 2
    assert weight_bytes(path) == by_hand


def test_mlx_says_the_bits_of_single_layers_embedding_and_output(tmp_path: Path) -> None:
    """A matrix of b bits in groups of 64 takes b + 32/64 bits an element."""
    own = {f"model.layers.{i}.{name}": {"group_size": 64, "bits": 8} for i in (0, 1) for name in ("self_attn.v_proj", "mlp.down_proj")}
    ends = {name: {"group_size": 64, "bits": 6} for name in ("model.embed_tokens", "lm_head")}
    path = folder(tmp_path / "model", config__json={**CONFIG, "quantization": {"group_size": 64, "bits": 4, **own, **ends}})
    wide = 2 * (128 * 512 + 1024 * 512)
    assert weight_bytes(path) == (MATRICES - wide) * 4.5 / 8 + wide * 8.5 / 8 + 2 * ENDS * 6.5 / 8 + NORMS * 2


def test_a_projector_beside_a_gguf_file_is_its_tower(tmp_path: Path) -> None:
    geometry = {
        "block_count": 1, "context_length": 4096, "embedding_length": 64, "feed_forward_length": 128, "attention.head_count": 2,
        "attention.head_count_kv": 2, "general.file_type": 7, "vocab_size": 32,
    }  # fmt: skip
    main = gguf(model("llama", geometry), [("token_embd.weight", (64, 32), Q8_0, 64 * 34), ("output_norm.weight", (64,), 0, 256)])
    projector = gguf({"general.architecture": "clip", "general.type": "mmproj"}, [("mm.0.weight", (64, 64), F16, 8192)])
    alone = folder(tmp_path / "alone", model__gguf=main)
    both = folder(tmp_path / "both", **{"model__gguf": main, "mmproj-model-f16__gguf": projector})
    assert weight_bytes(both) - weight_bytes(alone) == 8192
    question: dict[str, Any] = {"engine": "llama.cpp", "device": "24GiB", "context": 64}
    seen, unsaid, unseen = (planned(both, multimodal=on, **question) for on in ("on", None, "off"))
    for plan, held in ((seen, (8192, 8192)), (unsaid, (0, 8192)), (unseen, (0, 0))):  # llama-server loads it where --mmproj or -hf names it
        towers = [e for e in plan.ledgers[0].entries if e.name == "weights: tower"]
        assert (sum(e.bytes for e in towers), sum(e.high for e in towers)) == held
    (tmp_path / "sha256-0bd51f8f").write_bytes(main)  # as Ollama keeps it
    assert weight_bytes(str(tmp_path / "sha256-0bd51f8f")) == weight_bytes(alone)
    several = folder(tmp_path / "several", **{"a-Q8_0__gguf": main, "b-Q4_0__gguf": main})
    assert "2 GGUF models; name one of them, such as a-Q8_0.gguf, b-Q4_0.gguf" in why(several)


def test_what_is_no_model_says_what_it_is(tmp_path: Path) -> None:
    adapter = folder(tmp_path / "adapter", adapter_config__json={"base_model_name_or_path": "meta-llama/Llama-3.1-8B", "r": 16})
    assert "name its base model, meta-llama/Llama-3.1-8B, and the adapter with --lora" in why(adapter)
    pipeline = folder(tmp_path / "pipeline", model_index__json={"_class_name": "StableDiffusionXLPipeline"})
    assert "a diffusion pipeline (model_index.json)" in why(pipeline)
    assert "no config.json and no .gguf" in why(folder(tmp_path / "empty"))


def test_a_pointer_of_git_lfs_is_not_the_file(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 4976698672\n"
    for path in (
        folder(tmp_path / "checkpoint", config__json=CONFIG, model__safetensors=pointer),
        folder(tmp_path / "file", model__gguf=pointer) + "model.gguf",
    ):
        assert "a Git LFS pointer, not the file itself" in why(path)


def test_an_index_names_the_shard_that_is_missing(tmp_path: Path) -> None:
    shards = {"model.norm.weight": "model-00001-of-00002.safetensors", "lm_head.weight": "model-00002-of-00002.safetensors"}
    norm = safetensors({"model.norm.weight": {"dtype": "BF16", "shape": [512], "data_offsets": [0, 1024]}})
    path = folder(
        tmp_path / "model", config__json=CONFIG, model__safetensors__index__json={"weight_map": shards},
        **{"model-00001-of-00002__safetensors": norm},
    )  # fmt: skip
    assert "1 of 2 files are not there, first model-00002-of-00002.safetensors" in why(path)


def layers(n: int, width: int = 512) -> bytes:
    """CONFIG's tensors, with so many layers and of that width."""
    names = {"self_attn.q_proj": (512, 512), "self_attn.k_proj": (128, 512), "self_attn.v_proj": (128, 512), "self_attn.o_proj": (512, 512),
             "mlp.gate_proj": (1024, 512), "mlp.up_proj": (1024, 512), "mlp.down_proj": (512, 1024), "input_layernorm": (512,),
             "post_attention_layernorm": (512,)}  # fmt: skip
    shapes = {f"model.layers.{i}.{name}.weight": shape for i in range(n) for name, shape in names.items()}
    shapes |= {"model.embed_tokens.weight": (1000, 512), "lm_head.weight": (1000, 512), "model.norm.weight": (512,)}
    made, at = {}, 0
    for name, shape in shapes.items():
        sizes = [size * width // 512 if size % 128 == 0 else size for size in shape]
        end = at + 2 * math.prod(sizes)
        made[name] = {"dtype": "BF16", "shape": sizes, "data_offsets": [at, end]}
        at = end
    return safetensors(made)


LORA = safetensors(
    {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": {"dtype": "BF16", "shape": [8, 512], "data_offsets": [0, 8192]}}
)
ADAPTER = {"base_model_name_or_path": "meta-llama/Llama-3.1-8B", "peft_type": "LORA", "r": 8}


def test_the_weights_of_an_adapter_are_not_those_of_the_model_beside_it(tmp_path: Path) -> None:
    """peft writes adapter_model.safetensors (utils/constants.py); trainers leave the base model's config.json beside it."""
    lora: dict[str, Any] = {"config__json": CONFIG, "adapter_config__json": ADAPTER, "adapter_model__safetensors": LORA}
    assert "an adapter (adapter_config.json); name its base model, meta-llama/Llama-3.1-8B," in why(folder(tmp_path / "lora", **lora))
    plan = planned(folder(tmp_path / "both", **lora, model__safetensors=layers(2)), context=64)
    assert plan.model.weight_bytes == 2 * (MATRICES + 2 * ENDS + NORMS)
    assert "the adapter beside it (adapter_config.json) is not counted; --lora counts it" in plan.model.notes
    assert "name its base model" in why(f"{tmp_path}/lora/adapter_config.json")


def test_files_that_are_not_the_configs_say_so(tmp_path: Path) -> None:
    """vLLM 0.33 default_loader.py: weights that were not initialised, or that no module has, end the start."""
    cases = {"same": layers(2), "fewer": layers(1), "more": layers(3), "wider": layers(2, 1024)}
    said = {name: planned(folder(tmp_path / name, config__json=CONFIG, model__safetensors=data), context=64).model.notes
            for name, data in cases.items()}  # fmt: skip
    assert not any("the files" in note for note in said["same"])
    has = MATRICES + 2 * ENDS + NORMS
    assert any(f"the files hold {has - MATRICES // 2 - 1024:,} parameters, the config describes {has:,}" in n for n in said["fewer"])
    assert any("the files have layers beyond the 2 that the config has" in note for note in said["more"])
    assert any("the files hold" in note for note in said["wider"])


def test_an_index_without_its_files_says_what_it_would_be(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 16060522496}, "weight_map": {"lm_head.weight": "model-00001-of-00004.safetensors"}}
    plan = planned(folder(tmp_path / "model", config__json=CONFIG, model__safetensors__index__json=index), context=64)
    assert any("none of the files that model.safetensors.index.json names, which are 16,060,522,496 bytes by it, is here" in note
               for note in plan.model.notes)  # fmt: skip


def test_parts_of_a_model_say_what_is_missing(tmp_path: Path) -> None:
    parts: dict[str, dict[str, Any]] = {
        "a tokenizer without its model": {"tokenizer__json": {}, "tokenizer_config__json": {}},
        "a pipeline of sentence-transformers": {"modules__json": {}},
        "is a part of a split GGUF model whose first, -00001-of-, is not here": {"m-00002-of-00003__gguf": b"GGUF"},
        "a generation_config.json without its model": {"generation_config__json": {}},
    }
    for i, (said, files) in enumerate(parts.items()):
        assert said in why(folder(tmp_path / str(i), **files))
    assert "a diffusion pipeline" in why(
        folder(tmp_path / "pipeline", model_index__json={"_class_name": "FluxPipeline"}) + "model_index.json"
    )
