"""Writes kvplan/names/names.tsv, and a model_specs file for each geometry that the catalogue does not have.

    python tools/build_names.py DATA

DATA is a folder of facts with their sources: model_facts.jsonl, same_geometry.jsonl, ollama_library.jsonl, hf_configs, hf_configs_more.
What is left out, and why, is printed. Specs that this tool wrote are written anew; names and aliases of all specs go into the index.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from name_rules import (
    BEFORE_TUNING,
    LENGTHS,
    NOT_CONVERTED,
    OLLAMA_FORMATS,
    left_out,
    length_of,
    of_the_page,
    plain_base,
    shapes_by_name,
    source_url,
    spec_id,
    unstated,
    weights_of,
    windowless,
)  # fmt: skip

from kvplan import estimate
from kvplan.catalogue import read_spec
from kvplan.errors import KvplanError
from kvplan.importers.hf_config import import_config, load_json
from kvplan.importers.spec_yaml import dump_spec
from kvplan.names.releases import taken_apart
from kvplan.rows import rows as table
from kvplan.spec import ModelSpec, lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count

ROOT = Path(__file__).parent.parent
SPECS = ROOT / "model_specs"
#: Ways of quantisation that a release of an engine may not know by their name; of other ways, names of two share a file.
TOLD_APART = ("none", "fbgemm-fp8")
INDEX = ROOT / "kvplan" / "names" / "names.tsv"
COUNTED = ROOT / "tools" / "packed_names.tsv"
TABLE = ROOT / "tools" / "table_names.tsv"
SOURCED = ROOT / "tools" / "tuned_names.tsv"
WRITTEN = "Written by tools/build_names.py: correct the importer or the facts, not this file."
PLAIN = CacheFormats("bf16", "bf16", "bf16", "bf16")
HEADER = """\
# Written by tools/build_names.py; kvplan/names/index.py says what the columns mean.
# Sources: hub ids and sizes: llmfit 1.1.17 (PyPI, data/hf_models.json: the Hub's API and config.json, scraped) and the config.json files
# and tables that each spec names; Ollama tags: ollama.com/library as of 2026-06-20 (MarkWard0110/ollama-models 8a7dfc05ce4f).
"""


class Fact(NamedTuple):
    """One hub id with its config."""

    hub_id: str
    config: dict[str, Any]
    source: str
    own: bool  # its own config.json, not a table
    note: str
    total: int | None
    window: bool = False  # its window is that of the releases it is a copy of
    bound: bool = False  # no source states its window: counted without


class Line(NamedTuple):
    name: str
    base: str
    weights: str
    length: str
    evidence: str


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def facts(data: Path, *, bound: bool) -> Iterator[Fact]:
    """Every hub id whose keys can be trusted; config.json files first, so that a geometry is named and sourced by one.

    bound  those alone whose window no source states, without it
    """
    seen = set()
    for folder in ("hf_configs_more", "hf_configs"):
        for line in (data / folder / "INDEX.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            file, hub_id, source, note = [*line.split("\t"), ""][:4]
            if left_out(hub_id, f"config.json {note}") is None:
                seen.add(hub_id.lower())
                if bound:
                    continue
                yield Fact(hub_id, corrected(hub_id, load_json(data / folder / file)), source, True, "", None)
    found = rows(data / "model_facts.jsonl")
    for row in sorted(found, key=lambda row: row["kind"] != "config.json"):
        status, note = str(row["verified"].get("status")), row.get("note") or ""
        silent = row["kind"] != "config.json" or "sliding_window: value not established" in note
        window = unstated(row["hf_id"], row["config"]) if silent and "sliding_window" not in row["config"] else None
        without = None
        if bound and window is None and left_out(row["hf_id"], f"{status} | {note}") == "its window is not stated":
            window = without = windowless(row["config"])
        row["config"] |= window or {}
        why = left_out(row["hf_id"], f"{status} | {note}" if window is None else status)
        known = row["hf_id"].lower() in seen
        if bound and (known or without is None):
            continue
        if why:
            print(f"left out: {row['hf_id']}: {why}")
        if why or known:
            continue
        total = row["verified"].get("kvplan_total") if status.startswith("exact") else None
        yield Fact(row["hf_id"], row["config"], row["source"], row["kind"] == "config.json", note, total, window is not None, bound)


def corrected(hub_id: str, config: dict[str, Any]) -> dict[str, Any]:
    """The config with the modules that its release leaves in 16 bits."""
    if hub_id not in NOT_CONVERTED:
        return config
    return config | {"quantization_config": config["quantization_config"] | {"modules_to_not_convert": NOT_CONVERTED[hub_id]}}


def geometry(spec: ModelSpec, *, stored: bool = True) -> str:
    """What two models must share to share a file."""
    said = {"id", "name", "source", "aliases", "notes", "uncounted"}
    apart = said | {"max_context", "dtype", *(() if stored else ("quantization", "kv_dtype"))}
    apart |= set() if spec.method in TOLD_APART else {"method"}
    text = json.dumps({key: value for key, value in spec.plain().items() if key not in apart}, sort_keys=True)
    for n, block in enumerate(spec.blocks):  # what a file calls its blocks is no difference
        text = re.sub(rf'(?<=["*]){re.escape(block)}"', f'block {n}"', text)
    return text


def catalogue() -> dict[str, ModelSpec]:
    """Every spec that this tool did not write; those that it wrote are removed."""
    found = {}
    for path in sorted(SPECS.glob("*/*.yaml")):
        if WRITTEN in path.read_text(encoding="utf-8"):
            path.unlink()
            continue
        spec = read_spec(path)
        found[spec.id] = spec
    return found


def imported(fact: Fact) -> ModelSpec | None:
    """The spec of a config; None, said, where it can not be read or counts other parameters than were recounted for it."""
    try:
        spec = parse_spec(import_config(fact.config, fact.hub_id), fact.hub_id)
    except KvplanError as error:
        print(f"left out: {fact.hub_id}: {error}")
        return None
    found = count(lower(spec, PLAIN)).total
    if fact.total not in (None, found):
        print(f"left out: {fact.hub_id}: {found} parameters, recounted {fact.total}")
        return None
    return spec.changed(max_context=LENGTHS.get(fact.hub_id, spec.max_context) or None)


def write(spec: ModelSpec, fact: Fact, id_: str) -> ModelSpec:
    """Writes the spec of a geometry and returns it."""
    url = source_url(fact.source)
    notes = list(spec.notes)
    if not fact.own:
        spec = spec.changed(length_unsaid=spec.max_context is None and not (spec.architecture or "").startswith("Mamba"))
        table = re.sub(r"@[0-9a-f]{8,}.*| \(docs corpus copy\)", "", fact.source)
        notes.append(f"from a table, not from the config.json of {fact.hub_id}: {table}; {fact.note}"[:2000])
    if fact.bound:
        notes.append("no source states whether it has a window: it is counted without, so that its cache is at most what is shown")
    data = {"id": id_, "name": fact.hub_id.rpartition("/")[2], "source": url, "hub_id": fact.hub_id, "notes": notes}
    data = {**data, **{key: value for key, value in spec.plain().items() if key not in data}}
    path = SPECS / f"{id_}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_spec(data, (url, WRITTEN)), encoding="utf-8")
    return read_spec(path)


def own_facts(data: Path, specs: dict[str, ModelSpec], index: dict[str, Line], *, bound: bool) -> None:
    """A line for every hub id with a config, and a spec for each geometry that is new."""
    groups: dict[str, list[tuple[Fact, ModelSpec]]] = {}
    for fact in facts(data, bound=bound):
        if fact.hub_id.lower() in index:
            continue
        spec = imported(fact)
        if spec is not None:
            groups.setdefault(geometry(spec), []).append((fact, spec))
    scraped = rows(data / "same_geometry.jsonl")
    stated = {row["hf_id"].lower(): 0 if "not readable" in row["evidence"] else row.get("context_in_source") for row in scraped}
    known: dict[str, list[ModelSpec]] = {}
    for spec in specs.values():
        known.setdefault(geometry(spec), []).append(spec)
    for key, members in groups.items():
        candidates = known.get(key) or known.get(geometry(members[0][1].changed(architecture=None))) or []
        if not candidates:
            fact, spec = min(members, key=naming)
            id_ = spec_id(fact.hub_id, specs)
            method = spec.method if len({other.method for _, other in members}) == 1 else None
            own = {"max_context": told(fact, spec, stated) or None, "checkpoint": by_name(fact, spec) or None, "method": method}
            specs[id_] = write(spec.changed(**own), fact, id_)
            candidates = [specs[id_]]
        for fact, spec in members:
            base = min(candidates, key=lambda own: _apart(fact, spec, stated, own))
            length = told(fact, spec, stated, base)
            says = fact.own or any(key in fact.config for key in ("torch_dtype", "dtype"))
            weights = "" if spec.dtype == base.dtype or spec.quantization or not says else spec.dtype
            if said := by_name(fact, spec):
                weights = said if said != base.checkpoint else ""
            differs = "" if length == (base.max_context or 0) else str(length or "?")
            rests_on = "v" if fact.bound else ("d" if said else "c") if fact.own else "w" if fact.window and "gemma" not in base.id else "f"
            add(index, Line(fact.hub_id, base.id, weights, differs, rests_on))


def naming(member: tuple[Fact, ModelSpec]) -> tuple[bool, int, bool, int]:
    """How little a fact is fit to name and source a geometry."""
    fact, _ = member
    return fact.window or fact.bound, plain_base(fact.hub_id), not fact.own, len(fact.hub_id)


def _apart(fact: Fact, spec: ModelSpec, stated: dict[str, int | None], own: ModelSpec) -> tuple[bool, bool, bool]:
    """How far a catalogue entry of the same shapes is from a hub id: in length as told, in length as written, in dtype."""
    return told(fact, spec, stated, own) != (own.max_context or 0), own.max_context != spec.max_context, own.dtype != spec.dtype


def by_name(fact: Fact, spec: ModelSpec) -> str:
    """The format that the name says where the config does not (ModelOpt writes it into another file); else empty."""
    release = taken_apart(fact.hub_id.lower())
    return release.weights if release and release.weights not in ("bf16", "f16", "gguf") and not spec.quantization else ""


def told(fact: Fact, spec: ModelSpec, stated: dict[str, int | None], base: ModelSpec | None = None) -> int:
    """The length of a hub id: its config's own; of a table the one scraped under the id itself, as `length_of` reads it; 0 not known."""
    if fact.own or fact.hub_id in LENGTHS:
        return spec.max_context or 0
    length, table = stated.get(fact.hub_id.lower()), "llmfit" in fact.source
    if length == 0 and table:  # the table's figure is what it writes where it could not read
        return (base.max_context or 0) if base is not None and spec.max_context == base.max_context else 0
    length = length or spec.max_context
    if base is None or base.hub_id == fact.hub_id:
        return length_of(fact.hub_id, fact.hub_id.lower(), None, length) if table else length or 0
    return length_of(fact.hub_id, base.id, base.max_context, length)


def same_shapes(data: Path, specs: dict[str, ModelSpec], index: dict[str, Line], *, bound: bool) -> None:
    """A line for every fine-tune and quantised release that shares a geometry; `bound`: also where no source states its window, without."""
    for row in rows(data / "same_geometry.jsonl"):
        name = row["hf_id"]
        if name.lower() in index:
            continue
        of = index.get(row["same_as"].lower())
        if of is None:
            print(f"left out: {name}: {row['same_as']} is not known")
            continue
        base = specs[of.base]
        weights = weights_of(name, row["weights"], base)
        why = row.get("caveat") or (f"weights {row['weights']!r} are not said" if weights is None else None)
        if "total + mtp" in row["evidence"] and not base.mtp:
            why = f"{base.id} has no draft module that its total could hold"
        if why and "sliding_window is not in the source" in why and never_reached(base, row.get("context_in_source")):
            why = None
        elif not why and not shapes_by_name(name, base) and not never_reached(base, row.get("context_in_source")):
            why = f"the window of {base.id} is not stated for it"
        without = of.evidence in ("v", "u")
        if bound and why and "window" in why and weights is not None and (twin := without_window(base, specs)) is not None:
            why, without, of = None, True, of._replace(base=twin.id, length=of.length or str(base.max_context))
            base = twin
        if why or (without and not bound):
            print(f"left out: {name}: {why}")
            continue
        own = int(of.length) if of.length.isdecimal() else base.max_context if not of.length else None
        unread = "not readable" in row["evidence"]
        length = LENGTHS.get(name, length_of(name, base.id, own, row.get("context_in_source"), unread=unread))
        said = "" if length == (base.max_context or 0) else str(length or "?")
        evidence = "u" if without else "p" if unread else "n" if "quantisation suffix" in row["evidence"] else "t"
        if evidence in "pt" and "stored lm_head" in row["evidence"]:
            evidence = "h"
        add(index, Line(name, base.id, weights or "", said, evidence))


def without_window(base: ModelSpec, specs: dict[str, ModelSpec]) -> ModelSpec | None:
    """The catalogue entry of a base's shapes that has no window; None where there is none, or the base has none."""

    def key(spec: ModelSpec) -> str:
        text = geometry(spec.changed(architecture=None), stored=False)
        return re.sub(r'"kind": "sliding"', '"kind": "gqa"', re.sub(r', "window": \d+', "", text))

    if '"window"' not in geometry(base):
        return base
    found = [spec for spec in specs.values() if '"window"' not in geometry(spec) and key(spec) == key(base)]
    return min(found, key=lambda spec: (spec.max_context != base.max_context, spec.id), default=None)


def never_reached(base: ModelSpec, stated: int | None) -> bool:
    """Whether the base's windows are no shorter than the model, and the copy is as long as the base: a window left out changes nothing."""
    windows = [getattr(mixer, "window", 0) for block in base.blocks.values() for mixer in block.mixers]
    return bool(stated) and stated == base.max_context and min(windows, default=0) >= (stated or 0)


def sourced(index: dict[str, Line]) -> None:
    """A line for every name that is known by what somebody says of it, which comes before what tables do not state."""
    for names, base, weights, length, evidence, _who in table(SOURCED):
        of = index[base.lower()]
        for name in names.split():
            index[name.lower()] = Line(name, of.base, weights or of.weights, length or of.length, evidence)


def by_size(base: ModelSpec, row: dict[str, Any]) -> str | None:
    """The one format of a file of that size, as the library shows sizes; None where none or several are."""
    shown = float(row["size"].removesuffix("GB")) if row["size"].endswith("GB") else 0.0
    digits = len(row["size"].removesuffix("GB").partition(".")[2])
    sizes = {name: estimate(base.id, weight_dtype=name, context=1).model.weight_bytes for name in OLLAMA_FORMATS}
    fits = [name for name, n_bytes in sizes.items() if round(n_bytes / 1e9, digits) == shown]
    return fits[0] if len(fits) == 1 else None


def ollama(data: Path, specs: dict[str, ModelSpec], index: dict[str, Line]) -> None:
    """A line for every tag of Ollama's library whose model is known."""
    for row in rows(data / "ollama_library.jsonl"):
        of, quant = index.get(row["hf_id"].lower()), row["default_quant"]
        rests_on = "o" if quant else "s"
        if of is not None and quant is None:
            quant = by_size(specs[of.base], row)
        plain = of is not None and (of.weights in ("", "bf16", "f16") or not specs[of.base].quantization)
        if of is None or quant is None or not plain:
            print(f"left out: {row['tag']}: " + ("its format is not known" if quant is None else f"{row['hf_id']} is not known"))
            continue
        base = specs[of.base]
        native = quant == "MXFP4" and any(q.format == "mxfp4" for q in base.quantization)
        weights = "" if native else quant.lower()
        tags = [row["tag"], *(f"{row['tag'].partition(':')[0]}:{tag}" for tag in row["same_blob_as"])]
        if f"{row['tag'].partition(':')[0]}:latest" in tags:
            tags.append(row["tag"].partition(":")[0])
        length = of_the_page(row["context_default"], int(of.length) if of.length.isdecimal() else None if of.length else base.max_context)
        said = of.length if length is None else "" if length == base.max_context else str(length or "?")
        for tag in tags:
            add(index, Line(tag, of.base, weights, said, rests_on))


def counted(index: dict[str, Line]) -> None:
    """A line for every upload that is known by the Hub's count of its elements, or by sizes that a table has."""
    for file, evidence in ((COUNTED, ["k"]), (TABLE, [])):
        for row in table(file):
            add(index, Line(*row, *evidence))


def add(index: dict[str, Line], line: Line) -> None:
    index.setdefault(line.name.lower(), line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    specs = catalogue()
    index: dict[str, Line] = {}
    for spec in specs.values():
        for name in (spec.id, *spec.aliases):
            add(index, Line(name, spec.id, "", "", "a"))
    for bound in (False, True):  # what sources state comes first
        own_facts(data, specs, index, bound=bound)
        for spec in specs.values():
            add(index, Line(spec.id, spec.id, "", "", "a"))
        same_shapes(data, specs, index, bound=bound)
    counted(index)
    sourced(index)
    ollama(data, specs, index)
    for name, length in BEFORE_TUNING.items():
        index[name] = Line(name, index[name.lower()].base, "", str(length), "f")
    lines = ["\t".join(index[name]) for name in sorted(index, key=lambda name: (name.lower(), name != name.lower()))]
    INDEX.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(specs)} specs, {len(index)} names: {dict(Counter(line.evidence for line in index.values()))}")


if __name__ == "__main__":
    main()
