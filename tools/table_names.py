"""Writes tools/table_names.tsv, releases that a table gives the sizes of a model that is known, for tools/build_names.py.

python tools/table_names.py TABLE.json    rows of llmfit 1.1.17 (PyPI), as it has them inside its program

A release that is not quantised by its name is taken where its sizes and its total are those of a model, or the total is with the model's
draft module (t), or with a head of its own that the model ties (h), or is another's by no more than a tower, or what the table writes where
it knows no total (x); a quantised one where its sizes are, and its name ends in one format (n). Rows that few download are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from name_rules import GROUPS_OF_32, length_of, shapes_by_name
from packed_uploads import DRAFTS, SAID, explained, models_by_name, sizes

from kvplan.catalogue import model_folder, read_spec
from kvplan.names.index import Named, everything
from kvplan.names.nearest import FORMAT
from kvplan.names.releases import IN_BLOCKS, taken_apart
from kvplan.spec import ModelSpec

FILE = Path(__file__).parent / "table_names.tsv"
SIZES = (
    "architecture", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size", "vocab_size",
    "moe_intermediate_size", "shared_expert_intermediate_size", "num_experts",
)  # fmt: skip
#: Tasks of the Hub that engines serve; the table tells no task of many.
SERVED = ("text-generation", "image-text-to-text", "any-to-any", "image-to-text", "feature-extraction", "sentence-similarity", "unknown")
DOWNLOADS = 100  # of 30 days: below, hardly anybody asks
#: Words that say that a release is another's weights altered in size, or in a format of their own.
OTHER = re.compile(
    r"(?<![a-z])ud-|qx\d|w[1-3](?!\d)|mlx$|reap|prun|jang|optiq|ternary|bonsai|1bit|2bit|mixed|rotor|turbo|hqq|exl|oq\d|mtplx|d?flash2?-|eagle|diffusion"
    r"|draft|gguf|onnx|lora|adapter|(?<![a-z])paro(?![a-z])|\d\.\d+-?bit|awq-6|mlx-\d+b(?!it)"
)
#: Words that say that a release is stored in some format, if not in which.
STORED = frozenset(("gptq", "awq", "bnb", "mlx", "quant", "quantized", "autoround"))


def shape(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(key) for key in SIZES)


def total(base: str) -> tuple[int, int]:
    """Parameters of a model, and with its draft module."""
    of = sizes(base)
    plain = sum(size.elems for part, size in of.items() if part not in DRAFTS)
    return plain, plain + sum(of[part].elems for part in DRAFTS if part in of)


def models(rows: list[dict[str, Any]], index: dict[str, Named]) -> dict[tuple[Any, ...], list[str]]:
    """Sizes in the table -> catalogue ids of models that are stored as they were made and have them."""
    found: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for row in rows:
        line = index.get(row["name"].lower())
        if line is None or line.weights or line.base in found[shape(row)]:
            continue
        spec = read_spec(model_folder() / f"{line.base}.yaml")
        if not spec.quantization and not spec.checkpoint:
            found[shape(row)].append(line.base)
    return found


@cache
def names() -> Counter[str]:
    """How many names a model's shapes go by."""
    return Counter(line.base for line in everything() if line.evidence not in ("t", "x"))


def counts(base: str, found: int) -> bool:
    """Whether a model has that many parameters, with its draft module or without."""
    return any(abs(found - counted) <= 1e-6 * counted for counted in total(base))


def with_a_head(spec: ModelSpec, found: int) -> bool:
    """Whether a model's parameters are that many with a matrix of the vocabulary stored beside the embeddings that it ties."""
    return spec.tied_embeddings and counts(spec.id, found - spec.vocab_size * spec.hidden_size)


def the_base(name: str, candidates: list[str], stated: int | None, found: int) -> ModelSpec:
    """Of models of one geometry those nearest that total, with a head beside the embeddings or without, of them the one that is named,
    else the one of the length, else the one of most names."""
    specs = [read_spec(model_folder() / f"{base}.yaml") for base in candidates]
    said = next((base for model, base in models_by_name().items() if model in name.lower()), "")

    def rank(spec: ModelSpec) -> tuple[int, bool, bool, int, str]:
        apart = (
            0
            if counts(spec.id, found) or with_a_head(spec, found)
            else 1 + min(100 * abs(found - counted) // counted for counted in total(spec.id))
        )
        return apart, spec.id != said, spec.max_context != stated, -names()[spec.id], spec.id

    return min(specs, key=rank)


def taken(row: dict[str, Any], candidates: list[str], made_up: bool) -> str | None:
    """The line of a row; None where it is not certain enough. `made_up`: its total is by the table's own formula, not the Hub's."""
    name = row["name"]
    base = the_base(name, candidates, row["context_length"], row["parameters_raw"])
    tail = name.lower().rpartition("/")[2]
    said, release = SAID.findall(tail), taken_apart(name.lower())
    differ = name.lower().startswith("thebloke/") and "gptq" in tail  # his files differ from model to model
    if differ or OTHER.search(tail) or not shapes_by_name(name, base):
        return None
    if release is None:
        words = re.split(r"[-_.]", tail)
        if said or STORED.intersection(words) or any(FORMAT.fullmatch(word) and re.search(r"\d", word) for word in words):
            return None
        found = row["parameters_raw"]
        evidence = "t" if counts(base.id, found) else "h" if with_a_head(base, found) else "x"
        if evidence == "x" and not made_up:
            return None
        weights = ""
    else:
        if release.weights in ("gguf", "bf16", "f16") or len(set(said)) > 1 or ":" in name:
            return None
        found, whole = row["parameters_raw"], total(base.id)[0]
        counted = made_up or abs(found - whole) < 0.001 * whole  # nothing is told by what the table made up, or the model's own total
        if not counted and not explained(base.id, "-".join(said) or release.weights, found):
            return None
        weights, evidence = release.weights, "n"
        weights = {"gptq": "gptq-int4", "awq": "awq-int4"}.get(weights, weights)
        if weights == "fp8" and name.lower().partition("/")[0] in IN_BLOCKS:
            weights = "fp8-block"
        if weights == "awq-int4" and name.lower().partition("/")[0] in GROUPS_OF_32:
            weights = "int4-g32-any"
    own = base.max_context
    length = length_of(name, base.id, own, row["context_length"], unread=row["context_length"] == 4096)
    return "\t".join((name, base.id, weights, "" if length == (own or 0) else str(length or "?"), evidence))


def meanings(lines: Iterable[Named]) -> dict[str, set[tuple[str, str]]]:
    """The last part of a name -> what it means; nothing where its own maker has one of that name, which comes first."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    first = set()
    for line in lines:
        tail = line.name.lower().rpartition("/")[2]
        found[tail].add((line.base, line.weights or ""))
        if line.publisher == line.base.partition("/")[0]:
            first.add(tail)
    return {tail: those for tail, those in found.items() if tail not in first}


def agrees(line: str, ends: dict[str, set[tuple[str, str]]]) -> bool:
    """Whether the name without its publisher means what it meant."""
    name, base, weights, length, _ = line.split("\t")
    those = ends.get(name.lower().rpartition("/")[2], set())
    return not those or (those == {(base, weights)} and length != "?")


def main(table: str) -> None:
    rows = [row for row in json.loads(Path(table).read_text(encoding="utf-8")) if "/" in row["name"] and row.get("num_hidden_layers")]
    before = {line.partition("\t")[0].lower() for line in FILE.read_text(encoding="utf-8").splitlines()} if FILE.exists() else set()
    index = {line.name.lower(): line for line in everything()}
    known = models(rows, {name: line for name, line in index.items() if name not in before})
    released = {row["name"].lower() for row in rows}
    alike: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in rows:  # 4 and 8 bits are never counted alike
        alike[shape(row), row["parameters_raw"]] |= set(re.findall(r"nvfp4|mxfp4|mxfp8|[48]-?bit|awq|fp8", row["name"].lower()))
    lines, ends = [], meanings(line for name, line in index.items() if name not in before)
    for row in rows:
        name = row["name"].lower()
        twin = f"{name}-bf16" in released  # whoever releases 16 bits by that name has the plain one in another format
        wanted = not twin and row.get("pipeline_tag") in SERVED and (row.get("hf_downloads") or 0) >= DOWNLOADS
        if wanted and (name not in index or name in before) and (candidates := known.get(shape(row))):
            lines.append(taken(row, candidates, len(alike[shape(row), row["parameters_raw"]]) > 1))
    made = sorted({line for line in lines if line and agrees(line, ends)}, key=str.lower)
    FILE.write_text("".join(f"{line}\n" for line in made), encoding="utf-8")
    print(f"{len(made)} of {len(lines)} rows whose sizes are known")


if __name__ == "__main__":
    main(*sys.argv[1:])
