"""Command lines of engines through our readers of their options, so that one comparison covers reader, settings, refusals and pools."""

from __future__ import annotations

from typing import Any

from kvplan.catalogue import find_model
from kvplan.engines.common.arguments import Arguments
from kvplan.engines.common.command_line import read
from kvplan.engines.common.exclusions import kinds
from kvplan.engines.common.words import words
from kvplan.errors import KvplanError, UnsupportedError
from kvplan.manifests.weights import told
from kvplan.planner.plan import Plan
from tests import conftest


def planned(table: Arguments, option: str, row: dict[str, Any], release: str, kv_memory: int, *, plain: bool) -> Plan | str:
    """The plan of a row's `argv` behind the option that names its model, with so many bytes of cache a rank; else why it does not start.

    plain  the rows' weights are stand-ins, which declare no format of a cache and no method of quantisation
    """
    answer = read(table, words(option, row["model"], *row["argv"]), {}, release.partition(".post")[0])
    if refused := [one.message for one in answer.findings if one.severity == "error"]:
        return refused[0]
    of = kinds(find_model(row["model"])) if answer.by_kind else frozenset()
    if refused := [one.message for kind, one in answer.by_kind if kind in of]:
        return refused[0]
    asked = {"kv_memory": kv_memory} | {name: one.value for name, one in answer.question.items()}
    options = {name.partition(".")[2]: asked.pop(name) for name in list(asked) if name.startswith("engine_option.")}
    model = find_model(row["model"])
    if plain:
        model = model.changed(method=None)
    if asked.get("kv_dtype") in (None, "auto") and model.kv_dtype and plain:
        asked["kv_dtype"] = asked.get("dtype", "bf16")
    if answer.weights:  # as `check` does
        options = dict(told(table.name, options.items(), answer.weights))
    written = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
    try:
        return conftest.planned(model, engine=table.name, engine_version=release, device=row["device"], engine_option=written, **asked)
    except UnsupportedError:
        raise  # a refusal is the engine's own: what we do not model is none
    except KvplanError as error:
        return str(error)
