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
from kvplan.tensors import KEPT_MODELS, Layer, Lowered, Same, WeightTensor, changed
from kvplan.weights import Tensors, model_tensors

HEAD = "# Written by tools/gguf_files.py; kvplan/gguf_files.py says what the columns mean.\n"
_FILE = Path(__file__).parent / "gguf_files.tsv"


#: How far another file of a type may be from one that is known: of a type that a rule makes, which of hybrids differs between builds
#: (Qwen3.6 27B's IQ4_XS is 14.0 to 14.4 GiB, and 13.7 by builds before and after llama.cpp#22544), and of unsloth's, which are made anew
#: for each upload (Qwen3-Next 80B and Qwen3-Coder-Next: in 1 to 3 bits up to 13 %).
_RULED, _OF_HYBRIDS, _UNRULED, _UNRULED_LOW = 0.015, 0.05, 0.05, 0.11
LOW = re.compile(r"ud_.*q[123]_")  # of which a line is of one model alone, not of those that have its shapes
_SUFFIXES = re.compile(r"(-gguf.*|-instruct|-it|-thinking)$")


class Sized(NamedTuple):
    """A model whose matrices have the bytes of a file's type, and how far a whole file may be from their sum: as shares of it, with the
    reason; None: no file of the type is known of a model of these shapes."""

    model: Lowered
    ends: tuple[float, float] | None
    said: str


@lru_cache(maxsize=KEPT_MODELS)
def sized(model: Same[Lowered], kind: str, architecture: str | None, name: str) -> Sized:
    """The model by llama-quantize's rule, and as large as files of this type that are published are. `name`: the model's id."""
    ruled = with_types(model.it, kind, architecture)
    known = _lines().get((own_name(name) if LOW.match(kind) else str(elements(ruled)), kind))
    if known is None:
        return Sized(ruled, None, "")
    low, high, _ = known
    text = f"{low / 2**30:.1f}" if high / low < 1.005 else f"{low / 2**30:.1f} to {high / 2**30:.1f}"
    rule, middle, more = file_bytes(ruled), (low + high) / 2, _UNRULED_LOW if LOW.match(kind) else _UNRULED
    if not kind.startswith("ud_"):  # another publisher may go by the rule alone
        hybrid = any(w.role == "state" for layer in ruled.layers for w in layer.weights)
        low, high, middle, more = min(low, rule), max(high, rule), rule, _OF_HYBRIDS if hybrid else _RULED
    said = f"published files of these shapes in {kind} are {text} GiB"
    return Sized(scaled(ruled, middle / rule), (low * (1 - more) / middle, high * (1 + more) / middle), said)


def own_name(name: str) -> str:
    """`unsloth/Qwen3.6-27B-GGUF:Q4_K_M` and `qwen/qwen3.6-27b` -> qwen3.6-27b."""
    bare = name.lower().rpartition("/")[2]
    while bare != (less := _SUFFIXES.sub("", bare)):
        bare = less
    return bare


def scaled(model: Lowered, ratio: float) -> Lowered:
    """The model with so many times the bytes in each matrix that a type gave its own."""
    if ratio == 1:
        return model

    def larger(layer: Layer) -> Layer:
        weights = tuple(_larger(w, ratio) for w in layer.weights)
        return layer if weights == layer.weights else replace(layer, weights=weights)

    return replace(
        changed(model, larger),
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
def _lines() -> dict[tuple[str, str], tuple[int, int, int]]:
    """Elements, or of unsloth's types of few bits a name, and type -> the smallest and the largest file in bytes, how many are known."""
    rows = (line.split("\t") for line in _FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {
        (own_name(name) if LOW.match(kind) else n, kind): (int(float(low) * 2**30), int(float(high) * 2**30), int(files))
        for n, kind, low, high, files, name in rows
    }
