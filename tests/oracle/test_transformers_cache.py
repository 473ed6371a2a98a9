"""transformers' caches, row by row: what a forward on the meta device left, in all, by layer type and by tensor.

Rows: ../shared/data/transformers_oracle.jsonl and transformers_defaults_oracle.jsonl (transformers 5.23.0, torch 2.13.0), several
lengths and batches each, and one after a further decode step. Configurations are read by the project's importer.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.engines import find
from kvplan.errors import UnsupportedError
from kvplan.importers.hf_config import read_config
from tests.conftest import planned, shared

FILES = {"transformers_oracle.jsonl": "hf_configs", "transformers_defaults_oracle.jsonl": "hf_default_configs"}
#: Models whose cache is no Cache object: plain dicts and lists, compared in all.
PLAIN = {"dict", "list"}


def models() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, folder in FILES.items():
        for line in shared(f"data/{name}").read_text().splitlines():
            model = json.loads(line)
            if model.get("rows"):
                found.append((f"data/{folder}/{model['file']}", model))
    return found


def measured(model: dict[str, Any]) -> list[dict[str, Any]]:
    after = model.get("after_decode")
    return model["rows"] + ([after] if after and "error" not in after else [])


def faults(path: str, model: dict[str, Any]) -> list[str]:
    engine, found = find("transformers"), []
    spec = read_config(shared(path))
    for row in measured(model):
        encoder = row.get("encoder_seq") or row.get("image_tokens")
        sizes = {"context": row["seq"], "batch": row["batch"], "encoder_tokens": encoder}
        question = Deployment(model=spec, engine="transformers", engine_version="5.23.0", **sizes)
        (ledger,) = engine.plan(engine.settle(question)).ledgers
        at = f"{model['file']} {row['batch']} x {row['seq']}"
        if ledger.cache_bytes != row["cache_bytes"]:
            found.append(f"{at}: {ledger.cache_bytes}, held {row['cache_bytes']}")
        if row.get("cache_class", "dict") in PLAIN:
            continue
        types: Counter[str] = Counter()
        tensors: Counter[str] = Counter()
        for e in ledger.entries:
            if e.name.startswith("cache: "):
                _, layer_type, tensor = e.name.split(": ")
                types[layer_type] += e.bytes
                tensors[tensor] += e.bytes
        for what, got, want in (("by layer type", types, row["by_layer_type"]), ("by tensor", tensors, row["by_tensor"])):
            sizes = {name: entry["bytes"] for name, entry in want.items() if entry["bytes"]}
            found += [f"{at} {what}: {dict(+got)}, held {sizes}"] if dict(+got) != sizes else []
    return found


def test_every_row_is_reproduced() -> None:
    wrong, n_rows, not_read = [], 0, []
    for path, model in models():
        try:
            wrong += faults(path, model)
            n_rows += len(measured(model))
        except UnsupportedError as error:
            not_read.append(f"{model['file']}: {error}")
    assert not not_read
    assert not wrong, f"{len(wrong)} faults in {n_rows} rows:\n" + "\n".join(wrong[:30])


# Worked by hand or executed: engines' notes of transformers 5.23.0 cache_utils.py, Llama-8B geometry (32 layers, 8 KV heads of 128, bf16).
LLAMA = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}


def held(mixer: dict[str, Any], tokens: int, version: str | None = None, **options: str) -> int:
    from conftest import one_block

    engine = find("transformers")
    question = Deployment(
        model=one_block(mixer), engine="transformers", engine_version=version, context=tokens, engine_option=tuple(options.items())
    )
    outcome = engine.plan(engine.settle(question))
    return outcome.ledgers[0].cache_bytes


def test_worked_examples_of_one_layer() -> None:
    assert held(LLAMA, 1000) == 4_096_000
    assert held(LLAMA, 1001) - held(LLAMA, 1000) == 4_096
    assert held(LLAMA, 4096, cache_implementation="static") == 16_777_216
    scales = 2 * 4  # one f32 for K, one for V
    assert held(LLAMA, 1001, cache_implementation="quantized", backend="fp8") == 2_050_048 + scales
    sliding = {**LLAMA, "kind": "sliding", "heads": 2, "kv_heads": 2, "window": 512}
    assert held(sliding, 3000) == 511 * 2 * 2 * 128 * 2 == 523_264
    assert held(sliding, 300, cache_implementation="static") == 300 * 2 * 2 * 128 * 2
    assert held(sliding, 3000, cache_implementation="static") == 512 * 2 * 2 * 128 * 2


def test_whisper_large_v3_keeps_1500_encoder_tokens() -> None:
    cross = {"kind": "cross", "heads": 20, "kv_heads": 20, "head_dim": 64, "encoder_tokens": 1500}
    from conftest import one_block

    engine = find("transformers")
    model = one_block(cross, n_layers=32)
    question = Deployment(model=model, engine="transformers", context=448, encoder_tokens=1500)
    assert engine.plan(engine.settle(question)).ledgers[0].cache_bytes == 245_760_000


@pytest.mark.parametrize(("version", "bytes_per_token"), [("5.12", 81_920), ("5.14.0", 81_920), ("5.15", 1_152), (None, 1_152)])
def test_latents_are_expanded_before_5_15(version: str | None, bytes_per_token: int) -> None:
    """DeepSeek-V3: 128 heads x (192 + 128) x 2 bytes, or 512 + 64 elements x 2 bytes."""
    mla = {
        "kind": "mla", "heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }  # fmt: skip
    assert held(mla, 100, version) == 100 * bytes_per_token


def test_a_class_that_fails_is_said() -> None:
    """transformers 5.24.0 models/llama4/modeling_llama4.py: image_outputs=outputs.image_outputs, which the text model does not give."""
    said = "Llama4ForConditionalGeneration of 5.24 fails in its first forward"
    for version, fails in (("5.23", False), ("5.24", True), (None, True)):
        plan = planned("meta-llama/llama-4-scout-17b-16e", engine="transformers", engine_version=version, context=100)
        assert (said in str(plan.as_dict())) == fails


def test_gates_of_an_overlap_are_in_f32_from_5_24_on() -> None:
    """transformers 5.24.0 models/deepseek_v4/modeling_deepseek_v4.py: position_bias is made in f32, so that gates plus it are. One layer's
    compressor of ratio 4 keeps 4 rows of 512 and its indexer 4 of 128, two bytes more each."""
    v4 = "deepseek-ai/deepseek-v4-flash"
    kept = {
        version: planned(v4, engine="transformers", engine_version=version, context=150).as_dict()["ledgers"][0]["entries"]
        for version in ("5.23", "5.24")
    }
    gates = [sum(e["bytes"] for e in kept[v] if "overlap_gate" in e["name"]) for v in kept]
    rest = [[e for e in kept[v] if e["name"].startswith("cache") and "overlap_gate" not in e["name"]] for v in kept]
    assert gates[1] == 2 * gates[0] > 0
    assert [e["bytes"] for e in rest[0]] == [e["bytes"] for e in rest[1]]
