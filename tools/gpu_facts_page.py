"""What tools/gpu_facts.py found on a GPU, as a part of docs/validation.md: its lines beside what kvplan says today."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.catalogue import find_model
from kvplan.engines.common.lines import Span
from kvplan.engines.transformers import activations
from kvplan.spec import lower
from kvplan.tensors import CacheFormats
from kvplan.units import show_bytes

Row = dict[str, Any]
#: The release of the machine on which the facts were found, and the bytes of an element of the type it computed in.
RELEASE, ELEMENT = (5, 17), 2


class Pass(NamedTuple):
    """One prompt's pass: the most that was held beside what its caches kept, and the plan's estimate."""

    model: str
    batch: int
    tokens: int
    held: int
    planned: Span


def rows(file: str | Path) -> list[Row]:
    """The lines of a file of facts."""
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def passes(found: list[Row]) -> Iterator[Pass]:
    """Those that ran. The first few of a process also load libraries and their workspace: only passes of 2,048 tokens and more."""
    for row in found:
        if row["what"] == "pass" and "prefill" in row and row["batch"] * row["tokens"] >= 2048:
            model = row["config"].replace("--", "/")
            planned = activations.of_pass(_widths(model), row["batch"], row["tokens"], row["tokens"], ELEMENT)
            yield Pass(model, row["batch"], row["tokens"], row["prefill"] - row["allocated"], planned)


@cache
def _widths(name: str) -> activations.Widths:
    model = find_model(name)
    layers = lower(model, CacheFormats("bf16", "bf16", "bf16", "bf16")).layers
    return activations.widths(layers, model.architecture or "", RELEASE)


def section(name: str, found: list[Row]) -> list[str]:
    """The part of the page."""
    machine = next(row for row in found if row["what"] == "machine")
    first = [row for row in found if row["what"] == "first use" and "allocator" not in row and row["outside"]]
    graphs = [row for row in found if row["what"] == "graph"]
    rates = [row for row in found if "per_second" in row]
    uses = ["| first use of | outside torch |", "|---|--:|", f"| CUDA's context | {show_bytes(machine['context'])} |"]
    uses += [f"| {row['step']} | {show_bytes(row['outside'])} |" for row in first]
    captured = ["| sequences | outside torch | in the graphs' pool |", "|--:|--:|--:|"]
    captured += [
        f"| {row['sequences']} | {show_bytes(row['captured']['outside'])} | {show_bytes(row['captured']['reserved'])} |" for row in graphs
    ]
    speeds = ["| what | a second |", "|---|--:|"]
    speeds += [
        f"| {_what(row)} | {row['per_second'] / 1e12:,.2f} {'TFLOP' if row['what'].startswith('matmul') else 'TB'} |" for row in rates
    ]
    table = ["| model | sequences x tokens | held beside the caches | planned | off |", "|---|--:|--:|--:|--:|"]
    for one in passes(found):
        off = f"{100 * (one.planned.point / one.held - 1):+.1f} %"
        shape = f"{one.batch} x {one.tokens:,}"
        table.append(f"| {one.model} | {shape} | {show_bytes(one.held)} | {show_bytes(one.planned.point)} | {off} |")
    return [
        f"## {name}",
        f"{machine['name']}, driver {machine['driver']}, torch {machine['torch']}; by `tools/gpu_facts.py`.",
        "\n".join(uses),
        "Graphs of a decode step of Llama-3.1-8B's shapes (32 layers that share one layer's weights), captured from the largest down:",
        "\n".join(captured),
        "\n".join(speeds),
        "A prompt's pass through two layers of each kind of real classes (transformers 5.17, random weights): the most that torch's "
        "allocator held beside the weights and what the caches kept, and what `--engine transformers` plans for it.",
        "\n".join(table),
    ]


def _what(row: Row) -> str:
    if row["what"] == "decode attention":
        return f"attention of {row['batch']} sequences over {row['tokens']:,} tokens each, cache read"
    return {"copy": "a copy, read and written"}.get(row["what"], f"{row['what']}, {row.get('n')} cubed")
