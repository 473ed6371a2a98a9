"""Rows drawn from llama.cpp itself and kept here (rows/README.md), asked of our engine: a bare clone compares with the engine too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvplan.deployment import Deployment
from kvplan.engines import find
from kvplan.importers.gguf import read_gguf
from tests.conftest import rows_of
from tools.header_files import gguf, model

ROWS = rows_of(Path(__file__).parent / "rows" / "llama_cpp.jsonl")
OPTIONS = ("n_ubatch", "kv_unified", "flash_attn", "swa_full")


def mib(n_bytes: int | None) -> str:
    """As llama.cpp prints it."""
    return f"{(n_bytes or 0) / (1 << 20):.2f}"


def predicted(row: dict[str, Any], path: Path) -> dict[str, Any]:
    """Every cache (MiB of both, cells, layers, streams, MiB of K, of V) and the output buffer, of a file with this geometry alone."""
    path.write_bytes(gguf(model(row["arch"], row["geometry"])))
    engine = find("llama.cpp")
    question = Deployment(
        model=read_gguf(path).spec, engine="llama.cpp", max_model_len=row["n_ctx"], max_num_seqs=row["n_seq_max"],
        max_num_batched_tokens=row["n_batch"], kv_dtype=f"{row['type_k']}/{row['type_v']}",
        engine_option=tuple((key, str(row[key]).lower()) for key in OPTIONS),
    )  # fmt: skip
    outcome = engine.plan(engine.settle(question))
    assert outcome.capacity is not None, outcome.reason
    caches = [
        [mib((g.k_bytes or 0) + (g.v_bytes or 0)), g.cells, g.layers, g.streams, mib(g.k_bytes), mib(g.v_bytes)]
        for g in outcome.capacity.groups
    ]
    entries = [entry for ledger in outcome.ledgers for entry in ledger.entries]
    return {"caches": caches, "output": mib(sum(e.bytes for e in entries if e.name == "output buffer"))}


def test_llama_cpp(tmp_path: Path) -> None:
    wrong = {}
    for n, row in enumerate(ROWS):
        ours = predicted(row, tmp_path / f"{n}.gguf")
        if ours != row["out"]:
            wrong[n] = (row["out"], ours)
    assert not wrong
