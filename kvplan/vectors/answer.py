"""kvplan's own answers to vectors, by the way every question takes: importer, engine, plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from kvplan.catalogue import constants, find_device
from kvplan.deployment import NAMES, Deployment
from kvplan.engines.common.protocol import Capacity, Group
from kvplan.errors import KvplanError, SpecError
from kvplan.importers.gguf.spec import spec_data
from kvplan.importers.gguf.tensors import Table
from kvplan.importers.hf_config import import_config
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec, parse_spec
from kvplan.units import MIB
from kvplan.vectors.read import Row, Vector


def answers(vectors: Iterable[Vector]) -> Iterator[Row]:
    """One answer for each vector: figures, `refused` in the engine's words, or `unsupported` where kvplan does not model it."""
    models = Models()
    for vector in vectors:
        try:
            yield {"id": vector.id, **figures(evaluate(question(vector, models), limits=False, on_device=False))}
        except KvplanError as error:
            yield {"id": vector.id, "unsupported": str(error)}


class Models:
    """Models that were read before are not read again."""

    def __init__(self) -> None:
        self.read = lru_cache(maxsize=64)(self._read)
        self._rows: dict[str, Row] = {}

    def of(self, row: Row) -> ModelSpec:
        self._rows[row["id"]] = row
        return self.read(row["id"])

    def _read(self, name: str) -> ModelSpec:
        row = self._rows[name]
        if "config" in row:
            return parse_spec(import_config(row["config"], name), name)
        keys = {key if key.startswith("general.") else f"{row['arch']}.{key}": value for key, value in row["geometry"].items()}
        data, _ = spec_data({"general.architecture": row["arch"], **keys}, Table(()), name)
        return parse_spec(data, name)


def question(vector: Vector, models: Models) -> Deployment:
    """The vector as a question. Raises SpecError for a setting that no question has."""
    settings = dict(vector.settings)
    unknown = [name for name in settings if name not in NAMES]
    if unknown:
        raise SpecError(vector.id, [(unknown[0], "no name of a question")])
    device = settings.pop("device", None)
    return Deployment(
        model=models.of(vector.model), engine=vector.engine, engine_version=vector.release, kv_memory=vector.memory_bytes,
        device=None if device is None else find_device(device), constants=constants(vector.engine),
        engine_option=tuple((key, said(value)) for key, value in vector.options.items()), **settings,
    )  # fmt: skip


def said(value: Any) -> str:
    """An option's value as a command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def figures(plan: Plan) -> Row:
    """What vectors may expect, as far as the plan has it."""
    if plan.starts is False:
        return {"refused": plan.outcome.reason or plan.verdict}
    ledger = plan.ledgers[0]
    found: Row = {
        "length": plan.asked("max_model_len") if "max_model_len" in plan.question else None, "cache_bytes": ledger.cache_bytes,
        "output_mib": _mib(sum(entry.bytes for entry in ledger.entries if entry.name == "output buffer")),
    }  # fmt: skip
    return found | ({} if plan.capacity is None else _capacity(plan.capacity))


def _capacity(c: Capacity) -> Row:
    found: Row = {
        "blocks": c.blocks, "tokens": c.tokens, "concurrency": c.max_concurrency, "block_tokens": c.block_tokens, "pool_bytes": c.kv_bytes,
        "groups": [_group(g) for g in c.groups],
    }  # fmt: skip
    return found | {"cells": {g.role: g.cells for g in c.groups if g.cells is not None}}


def _group(g: Group) -> Row:
    sizes = (
        {} if g.k_bytes is None else {"k_mib": _mib(g.k_bytes), "v_mib": _mib(g.v_bytes or 0), "mib": _mib(g.k_bytes + (g.v_bytes or 0))}
    )
    fields = {"kind": g.kind, "layers": g.layers, "n_groups": g.n_groups, "block_tokens": g.block_tokens, "page_bytes": g.page_bytes,
              "cells": g.cells, "streams": g.streams}  # fmt: skip
    return {key: value for key, value in fields.items() if value is not None} | sizes


def _mib(n_bytes: int) -> str:
    """MiB with two decimals, as some engines print theirs."""
    return f"{n_bytes / MIB:.2f}"
