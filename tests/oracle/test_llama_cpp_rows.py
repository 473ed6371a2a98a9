"""llama.cpp, row by row against what the engine printed: caches, states, output buffer, warnings, refusals.

Rows: ../shared/data/llamacpp_oracle.jsonl (llama.cpp b11312, commit 0c1e570, in llama-cpp-python 0.3.36). Each geometry is written as a
GGUF header and read by the project's own importer. MiB as printed, two decimals; no row is an exception.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.catalogue import constants as packaged
from kvplan.constants import Constants
from kvplan.deployment import Deployment
from kvplan.engines import find
from kvplan.engines.common.protocol import Outcome
from kvplan.importers.gguf import read_gguf
from kvplan.spec import ModelSpec
from tests.conftest import rows_of, shared
from tools.header_files import gguf, model

ROLES = {"kv": "kv", "base": "kv_base", "swa": "kv_swa", "main": "kv", "indexer": "index"}
OPTIONS = ("n_ubatch", "kv_unified", "flash_attn", "swa_full", "n_rs_seq", "n_outputs_max")
#: The compute buffer is modelled: the share of rows inside the stated interval, and the error in the median and at 90 %.
COMPUTE_INSIDE, COMPUTE_MEDIAN, COMPUTE_P90 = 0.90, 0.06, 0.30


@cache
def rows() -> list[dict[str, Any]]:
    return rows_of(shared("data/llamacpp_oracle.jsonl"))


@cache
def constants() -> Constants | None:
    return packaged("llama.cpp")


@cache
def _spec(arch: str, geometry: str) -> ModelSpec:
    """A row's model, written as a GGUF file and read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        path.write_bytes(gguf(model(arch, json.loads(geometry))))
        return read_gguf(path).spec


def asked(row: dict[str, Any], constants: Constants | None = None) -> Deployment:
    """The row as a question."""
    return Deployment(
        model=_spec(row["arch"], json.dumps(row["geometry"])),
        engine="llama.cpp",
        max_model_len=row["n_ctx"],
        max_num_seqs=row["n_seq_max"],
        max_num_batched_tokens=row["n_batch"],
        kv_dtype=f"{row['type_k']}/{row['type_v']}",
        engine_option=tuple((key, str(row[key]).lower()) for key in OPTIONS),
        constants=constants,
    )


def ask(row: dict[str, Any]) -> Outcome:
    engine = find("llama.cpp")
    return engine.plan(engine.settle(asked(row, constants())))


def mib(n_bytes: int | None) -> str:
    return f"{(n_bytes or 0) / (1 << 20):.2f}"


def faults(outcome: Outcome, row: dict[str, Any]) -> list[str]:
    printed = row["printed"]
    if not row["ok"]:
        same = outcome.starts is False and any(w.endswith(outcome.reason or "-") for w in printed["warnings"])
        return [] if same else [f"refused: {outcome.reason}; printed {printed['warnings']}"]
    if outcome.capacity is None:
        return [f"refused: {outcome.reason}"]
    groups = {group.role: group for group in outcome.capacity.groups}
    found = []
    for cache_ in printed["caches"]:
        g = groups.pop(ROLES[cache_["role"]])
        got = [mib(g.k_bytes), mib(g.v_bytes), mib((g.k_bytes or 0) + (g.v_bytes or 0)), g.cells, g.layers, g.streams]
        sizes = [f"{cache_[key]:.2f}" for key in ("k_mib", "v_mib", "total_mib")]
        want = [*sizes, cache_["cells"], cache_["layers"], cache_["streams"]]
        found += [f"{cache_['role']}: {got}, printed {want}"] if got != want else []
    if printed["rs"]:
        g, rs = groups.pop("rs"), printed["rs"]
        got = [mib(g.k_bytes), mib(g.v_bytes), mib((g.k_bytes or 0) + (g.v_bytes or 0)), g.cells, g.layers]
        want = [*(f"{rs[key]:.2f}" for key in ("r_mib", "s_mib", "total_mib")), rs["cells"], rs["layers"]]
        found += [f"rs: {got}, printed {want}"] if got != want else []
    found += [f"not printed: {role}" for role in groups]
    if sorted(outcome.capacity.warnings) != sorted(printed["warnings"]):
        found.append(f"warnings {outcome.capacity.warnings}, printed {printed['warnings']}")
    lines = dict(
        line.removeprefix("llama_context: ").split("=") for line in outcome.capacity.log_lines if " = " in line and "size" not in line
    )
    said = {key.strip(): value.strip() for key, value in lines.items()}
    for key in ("n_ctx", "n_ctx_seq", "n_batch", "n_ubatch"):
        found += [f"{key} {said[key]}, printed {printed[key]}"] if said[key] != str(printed[key]) else []
    output = entry(outcome, "output buffer")
    return [*found, f"output {mib(output)}"] if mib(output) != f"{printed['output_mib']:.2f}" else found


def entry(outcome: Outcome, name: str) -> int:
    return sum(e.bytes for ledger in outcome.ledgers for e in ledger.entries if e.name == name)


def test_every_row_is_reproduced() -> None:
    wrong = []
    for row in rows():
        found = faults(ask(row), row)
        wrong += [f"{row['id']}: {fault}" for fault in found]
    assert not wrong, f"{len(wrong)} faults in {len(rows())} rows:\n" + "\n".join(wrong[:40])


def test_compute_buffers_lie_in_their_interval() -> None:
    errors, inside = [], 0
    for row in (row for row in rows() if row["ok"]):
        outcome = ask(row)
        e = next(e for ledger in outcome.ledgers for e in ledger.entries if e.name == "compute buffer")
        printed = row["printed"]["compute_mib"] * (1 << 20)
        errors.append(abs(e.bytes / printed - 1))
        inside += e.low <= printed <= e.high
    errors.sort()
    assert errors[len(errors) // 2] < COMPUTE_MEDIAN
    assert errors[int(0.9 * len(errors))] < COMPUTE_P90
    assert inside / len(errors) > COMPUTE_INSIDE
