"""Small models that transformers built and ran (rows/transformers.jsonl, rows/README.md): parameters, and bytes of the cache it left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.engines import find
from kvplan.importers.hf_config import import_config
from kvplan.spec import lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count
from tests.conftest import rows_of

ROWS = rows_of(Path(__file__).parent / "rows" / "transformers.jsonl")


def predicted(row: dict[str, Any]) -> tuple[int, int]:
    """Parameters and bytes of the cache as we count them."""
    spec = parse_spec(import_config(row["config"], "test/model"), "test/model")
    engine = find("transformers")
    question = Deployment(model=spec, engine="transformers", engine_version="5.23.0", context=row["tokens"], batch=row["batch"])
    (ledger,) = engine.plan(engine.settle(question)).ledgers
    return count(lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16"))).total, ledger.cache_bytes


@pytest.mark.parametrize("architecture", sorted({row["config"]["architectures"][0] for row in ROWS}))
def test_rows(architecture: str) -> None:
    wrong: Counter[str] = Counter()
    for row in (row for row in ROWS if row["config"]["architectures"][0] == architecture):
        ours, theirs = predicted(row), (row["parameters"], row["cache_bytes"])
        wrong.update([f"{row['config']}: {ours}, not {theirs}"] if ours != theirs else [])
    assert not wrong
