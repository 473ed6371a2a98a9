"""Questions drawn with settings of every kind (GPUs, stages, groups, drafts, backends, defaults): what SGLang's own code made of them.

rows/sglang_drawn.jsonl, described in rows/README.md: `ask` has server arguments by SGLang's names, `out` its figures, `error` a refusal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.catalogue import find_device, find_model
from kvplan.deployment import Deployment
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from tests.conftest import rows_of
from tests.oracle.sglang_figures import differing, figures, format_asked

ROWS = rows_of(Path(__file__).parent / "rows" / "sglang_drawn.jsonl")
DTYPES = {"float16": "f16", "bfloat16": "bf16", None: None}


def asked(row: dict[str, Any]) -> Deployment:
    """The row as a question: what the release was told, and the bytes that it had for its pools."""
    ask = dict(row["ask"])
    sizes = {ours: ask.pop(theirs, None) for ours, theirs in (("dp", "dp_size"), ("pp", "pp_size"), ("dcp", "dcp_size"), ("ep", "ep_size"))}
    chunk, dtype, kv = ask.pop("chunked_prefill_size", None), ask.pop("dtype", None), row["kv_dtype"]
    ask.pop("allow_auto_truncate", None)
    method, steps = ask.pop("speculative_algorithm", None), ask.pop("speculative_num_steps", None)
    ask.pop("speculative_eagle_topk", None)  # 1 in every row: a chain
    tokens = ask.get("speculative_num_draft_tokens")
    spec = None
    if method:
        spec = f"ngram:{tokens}" if method == "NGRAM" else f"{'mtp' if method == 'NEXTN' else 'eagle'}:{steps}"
    if steps:
        ask.pop("speculative_num_draft_tokens")
    if "mamba_scheduler_strategy" in ask:
        ask["mamba_radix_cache_strategy"] = ask.pop("mamba_scheduler_strategy")
    options = {key: str(value).lower() for key, value in ask.items()}
    if chunk is not None and chunk < 0:
        chunk, options["disable_chunked_prefill"] = None, "true"
    model = find_model(row["model"])
    stand_in = kv == "auto" and model.kv_dtype and "bfloat16" in row.get("cache", "")  # the rows' weights declare no format
    return Deployment(
        model=model, engine="sglang", engine_version=row["sglang"], device=find_device(row["device"]), tp=row["tp"], **sizes,
        speculative=spec, block_size=row.get("page"),
        kv_dtype="bf16" if stand_in else format_asked(kv, row["sglang"]),
        max_model_len=row.get("context"), max_num_seqs=row.get("running"), max_num_batched_tokens=chunk,
        dtype=DTYPES[dtype], memory_fraction=row.get("fraction"),
        kv_memory=row["rest"], multimodal="off" if ask.get("language_model_only") else None, engine_option=tuple(options.items()),
    )  # fmt: skip


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    try:
        plan = evaluate(asked(row), limits=False)
    except KvplanError as error:
        return {"error": str(error)}
    return figures(plan) | {"fraction": round(plan.question["memory_fraction"][0], 3)}


@pytest.mark.parametrize("release", sorted({row["sglang"] for row in ROWS}))
def test_sglang(release: str) -> None:
    wrong = {(row["model"], row["device"]): found for row in ROWS if row["sglang"] == release and (found := differing(predicted(row), row))}
    assert not wrong
