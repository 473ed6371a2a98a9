"""MiniCPM-V and MiniCPM-o: one architecture name for several text models, told apart by `version` (vLLM 0.32 minicpmv.py, minicpmo.py)."""

from __future__ import annotations

from typing import Any

from kvplan.errors import UnsupportedError
from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.fields import Fields

VISION = {"2.0": "minicpm", "2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
OMNI = {"2.6": "qwen2", "4.5": "qwen3"}


def lowered(f: Fields, t: Any) -> Stack:
    """The text model of that version, its settings on top of the config; `t` is one of the tables above."""
    from kvplan.importers.hf.architectures import FAMILIES
    from kvplan.importers.hf_config import lowering

    stated = f.opt("version")
    if stated is None and t is VISION:
        stated = "2.0" if f.dim("hidden_size") == 2304 and f.opt("query_num") == 64 else "2.5"
    family = t.get(str(stated))
    if family is None:
        raise UnsupportedError(f"{f.source}: {f.dotted('version')}: {str(stated)[:40]!r} is none of {', '.join(t)}; declare a spec file")
    row = FAMILIES[family]
    text = f.of_class(row.model_type or family).named(row.names, row.defaults)
    note = f"version {stated}: a {family} text model; the towers, the resampler and speech parts are not counted: no formula"
    return {**lowering(row)(text, row.traits), "notes": [note]}
