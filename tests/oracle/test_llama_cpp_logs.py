"""Logs that people published of llama.cpp and Ollama: the cache, cells and states that the arithmetic gives, against what was printed.

Rows: ../shared/data/llamacpp_logs.jsonl (each names its public source). Geometries are the released models'; where the log names none, the
widths in its note.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.engines import find
from kvplan.engines.common.protocol import Group, Outcome
from kvplan.spec import ModelSpec, parse_spec
from tests.conftest import rows_of, shared

DELTA_27B = {"kind": "gated_delta_net", "key_heads": 16, "value_heads": 48, "key_head_dim": 128, "value_head_dim": 128, "d_conv": 4}
DELTA_4B = {**DELTA_27B, "value_heads": 32}
SWA_GPT_OSS = {"kind": "sliding", "heads": 64, "kv_heads": 8, "head_dim": 64, "window": 128}


def gqa(kv_heads: int, head_dim: int) -> dict[str, Any]:
    return {"kind": "gqa", "heads": 8 * kv_heads, "kv_heads": kv_heads, "head_dim": head_dim}


#: Model -> the mixers of one period, how often it comes, architecture.
MODELS: dict[str, tuple[list[dict[str, Any]], int, str]] = {
    "48 layers of 2048": ([gqa(16, 128)], 48, "llama"),
    "30 layers of 3072": ([gqa(24, 128)], 30, "llama"),
    "28 layers of 1024": ([gqa(8, 128)], 28, "llama"),
    "Llama-3-8B": ([gqa(8, 128)], 32, "llama"),
    "GPT-OSS 20B": ([SWA_GPT_OSS, gqa(8, 64)], 12, "gpt-oss"),
    "Gemma-3-270m": ([{**SWA_GPT_OSS, "heads": 4, "kv_heads": 1, "head_dim": 256, "window": 512}] * 5 + [gqa(1, 256)], 3, "gemma3"),
    "Qwen3-Next-80B-A3B": ([DELTA_4B] * 3 + [gqa(2, 256)], 12, "qwen3next"),
    "Qwen3.5-4B": ([DELTA_4B] * 3 + [gqa(4, 256)], 8, "qwen35"),
    "Qwen3.5-122B-A10B": ([{**DELTA_27B, "value_heads": 64}] * 3 + [gqa(2, 256)], 12, "qwen35moe"),
    "Qwen3.5-27B": ([DELTA_27B] * 3 + [gqa(4, 256)], 16, "qwen35"),
    "Ling-3.0-tiny": (
        [{"kind": "mla", "heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}], 6, "x",
    ),
}  # fmt: skip

#: Row -> model, and what the row leaves out.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lc-log-001": ("48 layers of 2048", {}),
    "lc-log-003": ("30 layers of 3072", {"n_parallel": 1}),
    "lc-log-008": ("28 layers of 1024", {"n_parallel": 1}),  # the scheduler's estimate: the same formula
    "lc-log-018": ("Qwen3.5-27B", {"n_ctx": 4096}),
    "lc-log-019": ("Qwen3.5-27B", {"n_ctx": 4096}),
    "lc-log-020": ("GPT-OSS 20B", {}),
    "lc-log-021": ("GPT-OSS 20B", {"n_ctx": 4096}),
    "lc-log-025": ("Qwen3-Next-80B-A3B", {"n_ctx": 300_000}),
    "lc-log-027": ("48 layers of 2048", {"build": "b5500"}),  # cells only: 2025-06, before every cache was padded to 256
    **{f"lc-log-0{n}": ("Gemma-3-270m", {}) for n in range(31, 37)},
    "lc-log-040": ("Qwen3.5-27B", {"n_ctx": 120_000, "n_rs_seq": 2}),  # the fork's own KV types: cells and states only
    "lc-log-055": ("Qwen3.5-4B", {}),
    "lc-log-056": ("Qwen3.5-4B", {}),
    "lc-log-058": ("GPT-OSS 20B", {"n_ubatch": 128}),
    "lc-log-065": ("Ling-3.0-tiny", {"n_ctx": 8192}),
    "lc-log-081": ("Qwen3.5-27B", {"n_ctx": 32_768, "n_parallel": 1}),
    "lc-log-083": ("Qwen3.5-27B", {"n_rs_seq": 2}),
    "lc-log-086": ("Llama-3-8B", {}),
    "lc-log-087": ("Llama-3-8B", {}),
    "lc-log-088": ("Llama-3-8B", {}),
    "lc-log-095": ("Qwen3.5-122B-A10B", {}),
    "lc-log-096": ("Llama-3-8B", {"n_ctx": 4096}),
}
#: Rows without enough to reproduce, and why.
LEFT_OUT = {
    "lc-log-007": "no KV line in the excerpt",
    "lc-log-022": "no KV line in the excerpt",
    "lc-log-029": "a user's words, no model widths",
    "lc-log-037": "model not named; one sum of caches, states and a draft",
    "lc-log-039": "model not named; a trial of the fitting pass",
    "lc-log-099": "model not named; two caches of which the second is a draft's",
}
#: What a row prints that is not upstream's arithmetic: 055 and 056 are the author's table, rounded to a MiB.
ROUNDED = {"lc-log-055", "lc-log-056"}


def rows() -> dict[str, dict[str, Any]]:
    found = rows_of(shared("data/llamacpp_logs.jsonl"))
    return {row["id"]: row for row in found}


def spec(name: str) -> ModelSpec:
    period, repeat, architecture = MODELS[name]
    blocks = {str(i): {"mixers": [mixer]} for i, mixer in enumerate(period)}
    return parse_spec(
        {
            "id": "test/model", "name": name, "source": "released configuration", "architecture": architecture, "vocab_size": 1000,
            "hidden_size": 1024, "max_context": 1 << 20, "n_layers": len(period) * repeat,
            "layers": [{"pattern": list(blocks), "repeat": repeat}], "blocks": blocks,
        },
        "test",
    )  # fmt: skip


def ask(row: dict[str, Any], name: str, more: dict[str, Any]) -> Outcome:
    given = {**row, **more}
    options = {key: given[key] for key in ("n_ubatch", "kv_unified", "n_rs_seq") if given.get(key) is not None}
    if given.get("flash_attn") is False:
        options["flash_attn"] = "off"
    kinds = (given.get("type_k") or "f16", given.get("type_v") or "f16")
    engine = find("llama.cpp")
    question = Deployment(
        model=spec(name),
        engine="llama.cpp",
        engine_version=more.get("build"),
        max_model_len=given["n_ctx"],
        max_num_seqs=given["n_parallel"],
        kv_dtype="/".join(kinds),
        engine_option=tuple((key, str(value).lower()) for key, value in options.items()),
    )
    return engine.plan(engine.settle(question))


def mib(*groups: Group | None) -> float:
    return round(sum((g.k_bytes or 0) + (g.v_bytes or 0) for g in groups if g) / (1 << 20), 2)


@pytest.mark.parametrize("row_id", CASES)
def test_printed_sizes(row_id: str) -> None:
    row, (name, more) = rows()[row_id], CASES[row_id]
    capacity = ask(row, name, more).capacity
    assert capacity is not None
    groups = {g.role: g for g in capacity.groups}
    base, swa, states = groups.get("kv") or groups.get("kv_base"), groups.get("kv_swa"), groups.get("rs")
    logged, got, want = row["logged"], {}, {}
    for key, value in (
        ("kv_mib", mib(base) if logged["swa_kv_mib"] is not None or not swa else mib(base, swa)),
        ("k_mib", round((base.k_bytes or 0) / (1 << 20), 2) if base else None),
        ("v_mib", round((base.v_bytes or 0) / (1 << 20), 2) if base else None),
        ("cells", base.cells if base else None),
        ("layers", base.layers if base else None),
        ("swa_kv_mib", mib(swa)),
        ("swa_cells", swa.cells if swa else None),
        ("swa_layers", swa.layers if swa else None),
        ("rs_mib", mib(states) if row_id not in ROUNDED else float(int(mib(states)))),
    ):
        if logged[key] is not None and not (row_id == "lc-log-027" and key != "cells"):
            got[key], want[key] = value, logged[key]
    assert want
    assert got == pytest.approx(want, abs=0.006)


def test_every_row_is_reproduced_or_says_why_not() -> None:
    assert set(rows()) == set(CASES) | set(LEFT_OUT)
