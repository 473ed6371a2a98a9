"""Writes kvplan/packed.tsv, what of a quantised upload is packed, by the Hub's count of its elements, and tools/packed_names.tsv, uploads
that are known by their name and that count alone, for tools/build_names.py.

python tools/packed_uploads.py COUNTS.json    [{"name": ..., "parameters_raw": ...}], as llmfit 1.1.17 (PyPI) has it inside its program

The Hub counts what a file stores: two FP4 as one, packed integers unpacked, and every scale. Of x packed elements it shows
NVFP4 x (1/2 + 1/16), MXFP4 x (1/2 + 1/32), integers in groups of g x (1 + 1/g), with zero points x (1 + 2/g), FP8 in blocks
x (1 + 1/128^2), FP8 and INT8 by channel x and one a row. A line is written where one set of parts alone gives the upload's count, to no
more than four single numbers a matrix (global scales, input scales, shapes). Lines of other evidence stay as they are.

Of ModelOpt's NVFP4 it leaves the scales out (x / 2, to the last one in more than 60 uploads): what is not in NVFP4 may then be in FP8 as
well as in 16 bits, so that a line is written only where all matrices of the layers are in NVFP4.

A release whose publisher's uploads of the same words, of models of the same parts, all pack the same of them, two or more, is taken to pack
them, too (p): 40 of 42 uploads are told so by the others.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kvplan.catalogue import model_folder, read_spec
from kvplan.names.index import everything
from kvplan.packed import taken_apart

FILE = Path(__file__).parent.parent / "kvplan" / "packed.tsv"
NAMES = Path(__file__).parent / "packed_names.tsv"
HEAD = "# Lines of evidence h and p are written by tools/packed_uploads.py; kvplan/packed.py says what the columns mean.\n"
PARTS = ("attention", "mixers", "mlp", "experts", "shared_experts", "head")
SAID = re.compile("nvfp4|mxfp4|fp8|int4|int8|w4a16|w8a16|w8a8|awq|4bit|8bit|autoround")
DRAFTS = ("draft", "draft_experts", "drafts")
SCALARS = 4  # single numbers that a matrix may have beside its packed elements


class Size(NamedTuple):
    """Elements, rows and matrices of a part."""

    elems: int = 0
    rows: int = 0
    matrices: int = 0

    def __add__(self, other: Size) -> Size:  # type: ignore[override]
        return Size(*(a + b for a, b in zip(self, other, strict=True)))


class Form(NamedTuple):
    """A format: what the Hub counts beside, or short of, each element, and of each row; whether its scales are counted."""

    name: str
    each: float
    row: int = 0
    scaled: bool = True


def forms(weights: str) -> list[Form]:
    """What an upload whose format is called `weights` may be in."""
    bits = 8 if re.search("int8|8bit|w8a", weights) else 4
    if fp4 := re.search("nvfp4|mxfp4", weights):
        return [Form("mxfp4", -15 / 32)] if fp4[0] == "mxfp4" else [Form("nvfp4", -7 / 16), Form("nvfp4", -1 / 2, scaled=False)]
    if "fp8" in weights:
        return [Form("fp8_block128", 1 / 16384), Form("fp8_channel", 0, 1)]
    if re.search("int|awq|bit|autoround|w[48]a16", weights):
        plain, zeros = "int", "awq" if bits == 4 else "awq8"
        found = [Form(f"{name}{bits if name == plain else ''}_g{g}", n / g) for n, name in ((1, plain), (2, zeros)) for g in (32, 64, 128)]
        # both counts are one: AutoAWQ's own, groups of 128 with zero points, is what AWQ mostly means
        return sorted(found, key=lambda form: form.name != "awq_g128") if "awq" in weights and bits == 4 else found
    return [Form("int8_channel", 0, 1)] if weights.startswith("w8a8") else []


@cache
def sizes(base: str) -> dict[str, Size]:
    """Part -> its size; `small` matrices beside mixers, `towers`, `drafts` and `rest` too."""
    model, parts = taken_apart(read_spec(model_folder() / f"{base}.yaml"))
    found: dict[str, Size] = defaultdict(Size)

    def add(part: str, shape: tuple[int, ...], elems: int) -> None:
        matrix = len(shape) > 1
        found[part] += Size(elems, elems // shape[-1] if matrix else 0, elems // (shape[-1] * shape[-2]) if matrix else 0)

    for i, layer in enumerate((*model.layers, *model.draft)):
        beside = "rest" if i < len(model.layers) else "drafts"
        for at, w in enumerate(layer.weights):
            if w.role != "buffer" or beside == "drafts":
                add(parts.get((i, at), beside).removesuffix("_out"), w.shape, w.elems)
    for w in (*model.first, *model.last, *([model.embedding] if model.embedding else [])):
        add({"tower": "towers", "head": "head"}.get(w.role, "rest"), w.shape, w.elems)
    return dict(found)


class Found(NamedTuple):
    """A set of parts that gives a count: single numbers left over, the format, the parts, what is in FP8 by channel beside them."""

    left: float
    form: str
    parts: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "; ".join(f"{form}: {' '.join(parts)}" for form, parts in ((self.form, self.parts), ("fp8_channel", self.beside)) if parts)


def subsets(parts: list[str]) -> Iterator[tuple[str, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(parts, n) for n in range(1, len(parts) + 1))


def explained(base: str, weights: str, total: int) -> list[Found]:
    """The sets of parts that give the count `total`, the nearest first."""
    of = defaultdict(Size, sizes(base))
    parts = [part for part in PARTS if of[part].elems]
    whole = sum(size.elems for name, size in of.items() if name not in DRAFTS and name != "towers")
    drafts = sum(of[part].elems for part in DRAFTS)
    main = _main(of)  # no upload leaves most of a model as it was
    found = []
    kinds = ["", *(["kept", "packed"] if drafts else []), *(["experts"] if of["draft_experts"].elems else [])]
    for draft, tower, small in itertools.product(kinds, (0, 1), (0, 1)):
        if (tower and not of["towers"].elems) or (small and not of["small"].elems):
            continue
        start = whole + (0 if tower else of["towers"].elems) + (drafts if draft else 0)
        for form, subset in itertools.product(forms(weights), subsets(parts)):
            if main not in subset or (draft == "experts" and form.name.startswith("fp8")):  # FP8's count does not tell
                continue
            drafted = {"packed": ("draft", "draft_experts"), "experts": ("draft_experts",)}.get(draft, ())
            packed = sum((of[part] for part in (*subset, *drafted, *["small"] * small)), Size())
            named = (*subset, *drafted[:1])
            change, most = packed.elems * form.each + packed.rows * form.row, SCALARS * packed.matrices + 16.0
            left: float = total - start - change
            if not form.scaled:  # to the last one, and nothing left that could be in FP8
                most = 16.0 if {part for part in parts if part != "head"} <= {*subset} else -1.0
            if form.name == "fp8_block128":  # blocks at the edges are whole
                left, most = abs(left), 0.002 * change + 64
            if -64 <= left <= most and abs(change) > 3 * most:
                found.append(Found(left, form.name, named))
            if form.name == "nvfp4" and form.scaled and left > 64:
                for other in subsets([part for part in parts if part not in subset]):
                    beside = sum((of[part] for part in other), Size())
                    if -64 <= left - beside.rows <= most + SCALARS * beside.matrices:
                        found.append(Found(left - beside.rows, form.name, named, other))
    return sorted(found or _mixed(base, weights, total), key=lambda one: abs(one.left))


def _main(of: dict[str, Size]) -> str:
    return max(("mlp", "experts"), key=lambda part: of[part].elems)


def _mixed(base: str, weights: str, total: int) -> Iterator[Found]:
    """NVFP4 of the largest part in some layers alone, of shared experts with it or not, FP8 by channel in the others and all other parts,
    the head's perhaps."""
    of = defaultdict(Size, sizes(base))
    main, parts = _main(of), [part for part in PARTS[:5] if of[part].elems]
    layers = read_spec(model_folder() / f"{base}.yaml").n_layers
    whole = sum(size.elems for name, size in of.items() if name not in DRAFTS)
    scaled = [form for form in forms(weights) if form.scaled and form.name == "nvfp4"]
    shared = [(main,), (main, "shared_experts")] if of["shared_experts"].elems else [(main,)]
    for form, draft, head, packed_parts, n in itertools.product(scaled, (0, 1), (0, 1), shared, range(1, layers)):
        packed = Size(*(sum(sizes) * n // layers for sizes in zip(*(of[part] for part in packed_parts), strict=True)))
        rows = sum(of[part].rows for part in (*parts, *(["head"] if head else []))) - packed.rows
        left: float = total - whole - sum(of[part].elems for part in DRAFTS) * draft - packed.elems * form.each - rows
        if -64 <= left <= SCALARS * sum(of[part].matrices for part in parts) + 16:
            yield Found(left, form.name, tuple(f"{part}/{n}" for part in packed_parts), tuple(parts + ["head"] * head))


def _as_expected(base: str, found: Found) -> bool:
    """Whether it packs what any upload of a dense model without states does: all matrices of the layers."""
    return {part for part in sizes(base) if part in PARTS} - {"head"} == {*found.parts} == {"attention", "mlp"}


@cache
def models_by_name() -> dict[str, str]:
    """Names of models that are not quantised, without publisher and in lower case, longest first -> the catalogue id of their shapes."""
    found = {line.name.lower().partition("/")[2]: line.base for line in everything() if line.weights is None and "/" in line.name}
    stored = {base for base in set(found.values()) if read_spec(model_folder() / f"{base}.yaml").quantization}
    return {name: found[name] for name in sorted(found, key=len, reverse=True) if found[name] not in stored and len(name) > 6}


#: The words at the end of a release's name that speak of its format.
_WORDS = re.compile(
    r"(?:[-.](?:nvfp4|mxfp4|fp8|fp4|int[48]|w4a16|w8a16|w8a8|awq|[48]bit|autoround|gptq|bf16|mtp|quantized|dynamic|block))+$"
)


def called(name: str, base: str) -> tuple[str, str, frozenset[str]] | None:
    """Publisher and words of a release's name, and the parts that its model has; None where no word speaks of a format."""
    words = _WORDS.search(name.lower())
    parts = frozenset(part for part in PARTS[:5] if part in sizes(base))
    return (name.lower().partition("/")[0], words[0], parts) if words else None


def parts_of(text: str) -> str:
    """What a line packs in which kind of format, whatever its groups and zero points, and its draft module."""
    return re.sub(r"(?:awq|int4|gptq)_g\d+|int8_g\d+", "int", re.sub(r" draft\w*", "", text))


def as_the_others(lines: list[str], bases: dict[str, str], named: dict[str, str]) -> list[str]:
    """Lines of evidence `p` for the releases `named` (name -> base) that have none, by what `lines` of their publishers have in common."""
    groups: dict[tuple[str, str, frozenset[str]] | None, list[str]] = defaultdict(list)
    for line in lines:
        name, text, evidence = line.split("\t")
        if evidence == "h" and name.lower() in bases:
            groups[called(name, bases[name.lower()])].append(text)
    groups.pop(None, None)
    have, made = {line.partition("\t")[0].lower() for line in lines}, []
    for name, base in named.items():
        texts = groups.get(called(name, base), [])
        if name.lower() not in have and len(texts) > 1 and len({parts_of(text) for text in texts}) == 1:
            made.append(f"{name}\t{max(sorted(texts), key=texts.count)}\tp")
    return made


def main(counts: str) -> None:
    """Rewrite the lines that rest on counts, and the names that nothing else tells."""
    rows = [row for row in json.loads(Path(counts).read_text(encoding="utf-8")) if "/" in row["name"]]
    kept = [line for line in FILE.read_text(encoding="utf-8").splitlines() if line[:1] != "#" and not line.endswith(("\th", "\tp"))]
    by_hand = {line.partition("\t")[0].lower() for line in kept}
    index, plain = {line.name.lower(): line for line in everything() if line.evidence != "k"}, models_by_name()
    names, bases = [], {name: line.base for name, line in index.items()}
    for row in rows:
        name, known = row["name"].lower(), index.get(row["name"].lower())
        said = "-".join(SAID.findall(name.partition("/")[2]))
        if name in by_hand or (known and not known.weights) or not (known or said) or re.search("int8.*int4|int4.*int8", said):
            continue
        base = known.base if known else next((plain[model] for model in plain if model in name), None)
        weights = known.weights if known else said
        if base is None or not weights:
            continue
        found = explained(base, weights, row["parameters_raw"])
        if not found or len({one.parts for one in found}) != 1:
            continue
        bases[name] = base
        if not _as_expected(base, found[0]):
            kept.append(f"{row['name']}\t{found[0].text}\th")
        if not known:
            own = read_spec(model_folder() / f"{base}.yaml").max_context
            names.append(f"{row['name']}\t{base}\t{found[0].form}\t{'' if row['context_length'] == own else '?'}")
    released = {line.name: line.base for line in index.values() if line.weights not in (None, "gguf") and "/" in line.name}
    kept += as_the_others(kept, bases, released)
    FILE.write_text(HEAD + "".join(f"{line}\n" for line in sorted(kept, key=str.lower)), encoding="utf-8")
    NAMES.write_text("".join(f"{line}\n" for line in sorted(names, key=str.lower)), encoding="utf-8")
    print(f"{len(kept)} uploads, {len(by_hand)} of them by other evidence; {len(names)} names")


if __name__ == "__main__":
    main(*sys.argv[1:])
