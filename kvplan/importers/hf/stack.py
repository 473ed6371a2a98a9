"""From a list of layers to the blocks and patterns of a spec: equal layers become one block, repeats become a pattern."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Block = dict[str, Any]

#: How a block is called after what it has.
_NAMES = {
    "mha": "attention", "gqa": "attention", "mqa": "attention", "mla": "attention", "mla_sparse": "attention", "block_sparse": "attention",
    "sliding": "local", "chunked": "chunked", "shared": "shared", "encoder": "encoder", "cross": "cross",
}  # fmt: skip


def block(mixers: Sequence[Any] = (), mlps: Sequence[Any] = (), norms: int = 2, weights: Sequence[Any] = ()) -> Block:
    """One layer as the spec declares it, what is empty left out."""
    made: Block = {key: kinds for key, part in (("mixers", mixers), ("mlps", mlps)) if (kinds := [kind for kind in part if kind])}
    if norms != 2:
        made["norms"] = norms
    if weights:
        made["weights"] = list(weights)
    return made


def weight(name: str, *shape: int, role: str = "other") -> dict[str, Any]:
    """One extra tensor of a block or a model."""
    return {"name": name, "shape": list(shape)} | ({} if role == "other" else {"role": role})


def _key(layer: Block) -> str:
    return json.dumps(layer, sort_keys=True)


def _title(layer: Block) -> str:
    kinds = [_NAMES.get(m["kind"], m["kind"]) for m in layer.get("mixers", ())]
    if not kinds:
        return "moe" if _has_experts(layer) else "mlp" if "mlps" in layer else "nothing"
    return "_".join(dict.fromkeys(kinds))


def _has_experts(layer: Block) -> bool:
    return any(m["kind"] == "moe" for m in layer.get("mlps", ()))


def name_blocks(layers: Sequence[Block], blocks: dict[str, Block]) -> list[str]:
    """The block name of each layer; new blocks are added to `blocks`."""
    known = {_key(made): name for name, made in blocks.items()}
    distinct = {_key(layer): layer for layer in layers}
    titles = {key: _title(layer) for key, layer in distinct.items()}
    for key, layer in distinct.items():
        if key in known:
            continue
        title = titles[key]
        same = [k for k in distinct if titles[k] == title]
        if len({_has_experts(distinct[k]) for k in same}) > 1:
            title += "_moe" if _has_experts(layer) else "_dense"
        name, n = title, 2
        while name in blocks:
            name, n = f"{title}_{n}", n + 1
        blocks[name] = layer
        known[key] = name
    return [known[_key(layer)] for layer in layers]


def _packed(names: Sequence[str]) -> list[str]:
    """`a a a b` -> `3*a b`."""
    items: list[list[Any]] = []
    for name in names:
        if items and items[-1][1] == name:
            items[-1][0] += 1
        else:
            items.append([1, name])
    return [f"{n}*{name}" if n > 1 else name for n, name in items]


def patterns(names: Sequence[str]) -> list[dict[str, Any]]:
    """The runs of a spec's `layers`: at each place the period (of at most 32) that covers most."""
    runs: list[dict[str, Any]] = []
    i, n = 0, len(names)
    while i < n:
        best_covered, best_period, best_repeat = 0, 0, 1
        for period in range(2, min(32, (n - i) // 2) + 1):
            repeat = 1
            while names[i + repeat * period : i + (repeat + 1) * period] == names[i : i + period]:
                repeat += 1
            if repeat > 1 and repeat * period > best_covered and len(set(names[i : i + period])) > 1:
                best_covered, best_period, best_repeat = repeat * period, period, repeat
        same = 1
        while i + same < n and names[i + same] == names[i]:
            same += 1
        if best_covered > same:
            runs.append({"pattern": _packed(names[i : i + best_period]), "repeat": best_repeat})
            i += best_covered
            continue
        if runs and "repeat" not in runs[-1]:
            runs[-1]["pattern"] += _packed(names[i : i + same])
        else:
            runs.append({"pattern": _packed(names[i : i + same])})
        i += same
    return runs
