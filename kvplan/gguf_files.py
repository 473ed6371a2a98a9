"""How large published GGUF files of a model are: gguf_files.tsv beside this file, written by tools/gguf_files.py.

elements, type, low, high, seen, model, parted by tabs: the parameters of the model without towers and draft modules, the smallest and the
largest file of that type in GiB, without those as well, of how many publishers (of unsloth's types: how many uploads that differ), and one
of the models of those shapes; of unsloth's types, which are made anew for each model, that model alone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

from kvplan.llama_quantize import NGRAMS, with_types
from kvplan.rows import rows
from kvplan.tensors import KEPT_MODELS, Layer, Lowered, Same, WeightTensor, changed
from kvplan.weights import Tensors, model_tensors

HEAD = "# Written by tools/gguf_files.py; kvplan/gguf_files.py says what the columns mean.\n"


#: How far a file may be beyond those that are known and, of types that a rule makes, beyond the rule: so that nine in ten are nearer where
#: every other one is of a publisher or an upload that is not known. Measured on what is said of each file without its own publisher: of one
#: more, 81 % of 175 files (25 models) are within 1 % below and 2.5 % above, of several, 92 % of 136 (35 models) within 1 %. unsloth's types
#: seen twice: 46 of 49 (12 models) within 2.5 %; in 1 to 3 bits 8 of 10 (2 models) within 10 %: Qwen3.8 27B's of late August 2026 are 2 to
#: 20 % below those of its first week. Of other models of the same shapes: all of 26 within 2.5 %, of hybrids 47 of 95.
_SEVERAL, _ANOTHER, _ANOTHER_LOW = 0.01, 0.025, 0.1
_LOW = re.compile(r"ud_.*q[123]_")
_ORGS = re.compile(
    r"^(qwen|google|openai|mistralai|nvidia|zai-org|deepseek-ai|ibm-granite|allenai|microsoft|thudm|minimaxai|meta-llama|coherelabs)_|^meta-"
)
_SUFFIXES = re.compile(r"(-gguf|-mtp|-instruct|-it|-thinking)$")


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
    n, hybrid = elements(ruled), any(w.role == "state" for layer in ruled.layers for w in layer.weights)
    known = _lines().get(line_of(n, kind, name)) or (None if hybrid else _lines().get((n, kind, "")))
    if known is None:
        return Sized(ruled, None, "")
    low, high, seen = known
    text = f"{low / 2**30:.1f}" if high / low < 1.005 else f"{low / 2**30:.1f} to {high / 2**30:.1f}"
    rule, tables = file_bytes(ruled), sum(n * (w.stored or 0) for w, n in _in_file(ruled) if w.name == NGRAMS)
    if kind.startswith("ud_"):
        middle = (low + high) / 2
        below = above = _ANOTHER_LOW if seen == 1 and _LOW.match(kind) else _ANOTHER
    else:  # another publisher may go by the rule alone
        middle = min(max(rule, low), high) if seen > 1 else rule
        low, high, below, above = min(low, rule), max(high, rule), _SEVERAL, _SEVERAL if seen > 1 else _ANOTHER
    said = f"published files of these shapes in {kind} are {text} GiB"
    return Sized(scaled(ruled, (middle - tables) / (rule - tables)), (low * (1 - below) / middle, high * (1 + above) / middle), said)


def line_of(n: int, kind: str, name: str) -> tuple[int, str, str]:
    """What a line of the table is of: shapes and type; of unsloth's types the model too."""
    return n, kind, own_name(name) if kind.startswith("ud_") else ""


def own_name(name: str) -> str:
    """`bartowski/Qwen_Qwen3.6-27B-GGUF:Q4_K_M` and `qwen/qwen3.6-27b` -> qwen3.6-27b."""
    bare = _ORGS.sub("", name.lower().rpartition("/")[2].partition(":")[0])
    while bare != (less := _SUFFIXES.sub("", bare)):
        bare = less
    return bare


def says_drafts(name: str) -> bool:
    """Whether an upload says by its name that its files hold the model's draft modules: `unsloth/Qwen3.8-27B-MTP-GGUF:Q4_K_M`."""
    return "mtp" in name.lower()


def scaled(model: Lowered, ratio: float) -> Lowered:
    """The model with so many times the bytes in each matrix that a type gave its own; tables of n-grams have theirs by no mixture."""
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
    return w if w.stored is None or w.name == NGRAMS else w._replace(stored=int(w.stored * ratio))


def elements(model: Lowered) -> int:
    """Parameters of what a GGUF file of the model holds: its towers are in a file of their own."""
    return sum(n * w.elems for w, n in _in_file(model))


def file_bytes(model: Lowered) -> int:
    """Bytes of those tensors, of a model to whose matrices a type gave theirs; the others in 32 bits."""
    return sum(n * (4 * w.elems if w.stored is None else w.stored) for w, n in _in_file(model))


def _in_file(model: Lowered) -> Tensors:
    return [(w, n) for w, n in model_tensors(model) if w.role not in ("tower", "buffer")]


@cache
def _lines() -> dict[tuple[int, str, str], tuple[int, int, int]]:
    """What a line is of -> the smallest and the largest file in bytes, how many were seen; of unsloth's types those of all models of the
    same shapes too, under no name."""
    found: dict[tuple[int, str, str], tuple[int, int, int]] = {}
    for n, kind, low, high, seen, name in rows("gguf_files.tsv"):
        one = (int(float(low) * 2**30), int(float(high) * 2**30), int(seen))
        found[line_of(int(n), kind, name)] = one
        if kind.startswith("ud_"):
            least, most, others = found.get((int(n), kind, ""), (*one[:2], 0))
            found[int(n), kind, ""] = (min(least, one[0]), max(most, one[1]), others + one[2])
    return found
