"""How large published GGUF files of a model are: gguf_files.tsv beside this file, written by tools/gguf_files.py.

elements, type, low, high, files, model, parted by tabs: the parameters of the model without towers and draft modules, the smallest and the
largest file of that type in GiB, how many there are, and one of the models of those shapes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from kvplan.llama_quantize import with_types
from kvplan.tensors import KEPT_MODELS, Layer, Lowered, Same, WeightTensor
from kvplan.weights import Tensors, model_tensors

HEAD = "# Written by tools/gguf_files.py; kvplan/gguf_files.py says what the columns mean.\n"
_FILE = Path(__file__).parent / "gguf_files.tsv"


#: How far another file of a type may be from one that is known: of a type that a rule makes, and of unsloth's, which are made anew for each
#: upload (Qwen3.6 27B and 3.8 27B, Qwen3-Next 80B and Qwen3-Coder-Next: in 1 to 3 bits up to 13 %).
_RULED, _UNRULED, _UNRULED_LOW = 0.015, 0.04, 0.11


class Sized(NamedTuple):
    """A model whose matrices have the bytes of a file's type, and how far a whole file may be from their sum: as shares of it, with the
    reason; None: no file of the type is known of a model of these shapes."""

    model: Lowered
    ends: tuple[float, float] | None
    said: str


@lru_cache(maxsize=KEPT_MODELS)
def sized(model: Same[Lowered], kind: str, architecture: str | None) -> Sized:
    """The model by llama-quantize's rule, and as large as files of this type that are published are."""
    ruled = with_types(model.it, kind, architecture)
    known = _lines().get((elements(ruled), kind))
    if known is None:
        return Sized(ruled, None, "")
    low, high, _ = known
    text = f"{low / 2**30:.1f}" if high / low < 1.005 else f"{low / 2**30:.1f} to {high / 2**30:.1f}"
    rule, middle, more = file_bytes(ruled), (low + high) / 2, _UNRULED_LOW if re.search(r"q[123]_", kind) else _UNRULED
    if not kind.startswith("ud_"):  # another publisher may go by the rule alone
        low, high, middle, more = min(low, rule), max(high, rule), rule, _RULED
    said = f"published files of these shapes in {kind} are {text} GiB"
    return Sized(scaled(ruled, middle / rule), (low * (1 - more) / middle, high * (1 + more) / middle), said)


def scaled(model: Lowered, ratio: float) -> Lowered:
    """The model with so many times the bytes in each matrix; equal layers still share one object."""
    if ratio == 1:
        return model
    made: dict[int, Layer] = {}
    for layer in model.layers:
        if id(layer) not in made:
            made[id(layer)] = replace(layer, weights=tuple(_larger(w, ratio) for w in layer.weights))
    return replace(
        model,
        layers=tuple(made[id(layer)] for layer in model.layers),
        first=tuple(_larger(w, ratio) for w in model.first),
        last=tuple(_larger(w, ratio) for w in model.last),
        embedding=_larger(model.embedding, ratio) if model.embedding else None,
    )


def _larger(w: WeightTensor, ratio: float) -> WeightTensor:
    return w if w.stored is None else w._replace(stored=int(w.stored * ratio))


def elements(model: Lowered) -> int:
    """Parameters of what a GGUF file of the model holds: its towers are in a file of their own."""
    return sum(n * w.elems for w, n in _in_file(model))


def file_bytes(model: Lowered) -> int:
    """Bytes of those tensors, of a model to whose matrices a type gave theirs; the others in 32 bits."""
    return sum(n * (4 * w.elems if w.stored is None else w.stored) for w, n in _in_file(model))


def _in_file(model: Lowered) -> Tensors:
    return [(w, n) for w, n in model_tensors(model) if w.role not in ("tower", "buffer")]


@cache
def _lines() -> dict[tuple[int, str], tuple[int, int, int]]:
    """Elements and type -> the smallest and the largest file in bytes, and how many are known."""
    rows = (line.split("\t") for line in _FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {(int(n), kind): (int(float(low) * 2**30), int(float(high) * 2**30), int(files)) for n, kind, low, high, files, _ in rows}
