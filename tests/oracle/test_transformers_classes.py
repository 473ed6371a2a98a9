"""Every class of transformers that generates, in its defaults but for depth and windows, as config.json leaves the rest out.

Rows: transformers_classes.jsonl, rows/README.md (transformers 5.24.0, torch 2.13.0): parameters and the bytes of the cache that a run left.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.engines import find
from kvplan.errors import UnsupportedError
from kvplan.importers.hf.architectures import ARCHITECTURES, UNMODELLED
from kvplan.importers.hf_config import import_config
from kvplan.spec import lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count
from tests.conftest import rows_of

ROWS = rows_of(Path(__file__).parent / "rows" / "transformers_classes.jsonl")


def fault(row: dict[str, Any]) -> str | None:
    """What we count otherwise. Parameters are compared where nothing is said to be left out."""
    spec = parse_spec(import_config(row["config"], "test/model"), "test/model")
    engine = find("transformers")
    sizes = {"context": row["tokens"], "batch": 1, "encoder_tokens": row.get("encoder")}
    (ledger,) = engine.plan(engine.settle(Deployment(model=spec, engine="transformers", engine_version="5.24.0", **sizes))).ledgers
    ours = {"cache_bytes": ledger.cache_bytes}
    if not spec.uncounted:
        ours["parameters"] = count(lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16"))).total
    wrong = {key: (value, row[key]) for key, value in ours.items() if value != row.get(key, value)}
    return f"{row['config']['architectures'][0]} at {row['tokens']}: {wrong}" if wrong else None


@pytest.mark.parametrize("letter", sorted({row["config"]["architectures"][0][0] for row in ROWS}))
def test_classes(letter: str) -> None:
    assert not [wrong for row in ROWS if row["config"]["architectures"][0][0] == letter and (wrong := fault(row))]


def test_most_classes_are_among_the_rows() -> None:
    assert len({row["config"]["architectures"][0] for row in ROWS}) > 240


@pytest.mark.parametrize("name", sorted(UNMODELLED))
def test_a_class_with_another_cache_is_refused_by_its_reason(name: str) -> None:
    assert name not in ARCHITECTURES
    with pytest.raises(UnsupportedError, match=f"{name} is not modelled: it "):
        import_config({"architectures": [name]}, "test/model")
