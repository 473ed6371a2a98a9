"""A window that a config states and its class never masks by: each engine does with it what its own code does.

Granite's class has no windows. transformers 5.23 cache_utils.py: DynamicCache(config) slides every layer of a config that states one, to
window - 1 tokens. SGLang 0.5.23 configs/model_config.py (is_hybrid_swa_model) and llama.cpp (hparams.swa_type, by architecture) keep all.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import planned

CONFIG = {
    "architectures": ["GraniteForCausalLM"], "model_type": "granite", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096, "sliding_window": 65,
    "tie_word_embeddings": True, "dtype": "bfloat16",
}  # fmt: skip
#: One token: K and V of 2 heads of 16 in 3 layers, two bytes each.
TOKEN = 2 * 2 * 16 * 3 * 2


def asked(tmp_path: Path, engine: str, **question: object) -> dict[str, object]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    return planned(str(path), engine=engine, context=1024, batch=1, **question).as_dict()  # type: ignore[arg-type]


def test_transformers_slides_every_layer(tmp_path: Path) -> None:
    assert asked(tmp_path, "transformers")["ledgers"][0]["cache_bytes"] == 64 * TOKEN  # type: ignore[index]


def test_sglang_keeps_every_token_and_says_so(tmp_path: Path) -> None:
    """All three layers in the one pool: 1 GiB over 384 bytes a token is 2,796,202 of them."""
    plan = asked(tmp_path, "sglang", kv_memory="1GiB")
    assert plan["capacity"]["tokens"] == (1 << 30) // TOKEN == 2_796_202  # type: ignore[index]
    assert any("keeps every token" in note for note in plan["model"]["notes"])  # type: ignore[index]


def test_llama_cpp_keeps_every_token_and_says_so(tmp_path: Path) -> None:
    plan = asked(tmp_path, "llama.cpp", max_model_len=1024)
    assert [(g["layers"], g["cells"]) for g in plan["capacity"]["groups"]] == [(3, 1024)]  # type: ignore[index]
    assert any("keeps every token" in note for note in plan["model"]["notes"])  # type: ignore[index]
