"""Rows drawn from SGLang's own code and kept here (rows/README.md), asked of our engine: a bare clone compares with the engine too."""

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

ROWS = rows_of(Path(__file__).parent / "rows" / "sglang.jsonl")


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Our figures for a row: what the release was told, and the bytes that it had for its pools."""
    args = dict(row.get("args", {}))
    dp, chunk = args.pop("dp_size", None), args.pop("chunked_prefill_size", None)
    pp, dcp = args.pop("pp_size", None), args.pop("dcp_size", None)
    method, steps = args.pop("spec_algorithm", None), args.pop("spec_num_steps", None)
    args.pop("spec_eagle_topk", None)  # 1 in every row: a chain of steps, one token more to verify
    args.pop("spec_num_draft_tokens", None)
    options = {key: str(value).lower() for key, value in args.items()}
    if chunk is not None and chunk < 0:
        chunk, options["disable_chunked_prefill"] = None, "true"
    if "backend" in row:
        options["attention_backend"] = row["backend"]
    spec = find_model(row["model"])
    stand_in = row["kv_dtype"] == "auto" and spec.kv_dtype and "bfloat16" in row.get("cache", "")  # the rows' weights declare no format
    try:
        plan = evaluate(
            Deployment(
                model=spec, engine="sglang", engine_version=row["sglang"], device=find_device(row.get("device", "h100-80gb")),
                tp=row["tp"], dp=dp, pp=pp, dcp=dcp, speculative=f"{method.lower()}:{steps}" if method else None,
                block_size=row.get("page"), kv_dtype="bf16" if stand_in else format_asked(row["kv_dtype"], row["sglang"]),
                max_model_len=row.get("context"), max_num_seqs=row.get("running"), max_num_batched_tokens=chunk,
                memory_fraction=row["fraction"],
                kv_memory=row.get("rest") or int((row["after"] - row["before"] * (1 - row["fraction"])) * (1 << 30)),
                engine_option=tuple(options.items()),
            ), limits=False,
        )  # fmt: skip
    except KvplanError as error:
        return {"error": str(error)}
    return figures(plan)


@pytest.mark.parametrize("release", sorted({row["sglang"] for row in ROWS}))
def test_sglang(release: str) -> None:
    asked = [row for row in ROWS if row["sglang"] == release]
    assert not {(row["model"], row["tp"]): found for row in asked if (found := differing(predicted(row), row))}
