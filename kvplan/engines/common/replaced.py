"""A model whose config is replaced in part on the command line: what engines' overrides share."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

from kvplan.engines.common.options import Options
from kvplan.errors import SpecError
from kvplan.spec import ModelSpec, Run


def given(options: Options, key: str) -> dict[str, Any]:
    """The keys of the config and their values, from an option that is a JSON object. Raises SpecError for what is no object."""
    text = options.text(key)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        said = f'{(text or "")[:60]!r}: write an object, such as {{"max_position_embeddings": 65536}}'
        raise SpecError("engine_option", [(key, said)])
    return found


def of_layers(model: ModelSpec, n: int) -> ModelSpec | None:
    """The model of its first `n` layers; more than there are where all are alike; None: no way to tell."""
    names = model.layer_names
    if model.encoder or (n > len(names) and len(set(names)) > 1):
        return None
    kept = (names * (n // len(names) + 1))[:n]
    runs = (Run(pattern=tuple(f"{len(list(same))}*{name}" for name, same in groupby(kept))),)
    used = {*kept, *([model.mtp.block] if model.mtp else [])}
    blocks = {name: block for name, block in model.blocks.items() if name in used}
    return model.changed(n_layers=n, layers=runs, blocks=blocks, deviations=())


def slid(model: ModelSpec, window: int) -> ModelSpec:
    """The model whose sliding layers keep the last `window` tokens."""
    made = {
        name: block.changed(mixers=tuple(one.changed(window=window) if one.kind == "sliding" else one for one in block.mixers))
        for name, block in model.blocks.items()
    }
    return model.changed(blocks=made)
