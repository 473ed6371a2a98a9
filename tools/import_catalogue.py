"""Writes model_specs/<org>/<model>.yaml from released configs.

python tools/import_catalogue.py [--configs FOLDER]

catalogue_index.tsv   configs of FOLDER (a copy of released config.json files with an INDEX.tsv that names the public source of each)
catalogue_facts.jsonl the keys of a released config that shapes depend on, with their public source; needs no folder

A spec written by hand (no "Written by" line) is left alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.importers.hf_config import import_config, load_json
from kvplan.importers.spec_yaml import dump_spec
from kvplan.rows import rows
from kvplan.spec import parse_spec

HERE = Path(__file__).parent
SPECS = HERE.parent / "model_specs"
WRITTEN = "Written by tools/import_catalogue.py: correct the importer or the facts, not this file."


#: Lengths that a public copy of a config has edited to what one chip was compiled for (sophgo/LLM-TPU: 512): id -> the release's own, and
#: who says so.
LENGTHS = {
    "01-ai/yi-6b": (4_096, "that of Yi-34B, of the same release"),
    "qwen/qwen-1.8b": (32_768, "32K in QwenLM/Qwen's overview of its models"),
    "qwen/qwen-7b": (32_768, "32K in QwenLM/Qwen's overview of its models"),
    "qwen/qwen1.5-1.8b": (32_768, "that of Qwen1.5's other sizes"),
    "openbmb/minicpm-v-2.6": (32_768, "that of Qwen2 7B, which its text model is"),
}


class Entry(NamedTuple):
    """One model: its config, and what the catalogue calls it."""

    id: str
    name: str
    aliases: list[str]
    source: str
    notes: list[str]
    config: dict[str, Any]


def public_url(source: str) -> str:
    """`owner/repo:path` -> the public page of that file."""
    repository, _, path = source.partition(":")
    return source if source.startswith("https://") else f"https://github.com/{repository}/blob/HEAD/{path}"


def from_folder(folder: Path) -> list[Entry]:
    sources = {row[0]: (row[2], row[3] if len(row) > 3 else "") for row in rows(folder.absolute() / "INDEX.tsv")[1:]}
    found = []
    for file, id_, name, hub_ids, short in rows(HERE.absolute() / "catalogue_index.tsv"):
        source, note = sources[file]
        notes = [f"the public copy of the config: {note}"] if note and "look-up" not in note else []
        found.append(Entry(id_, name, [*hub_ids.split(","), *short.split(",")], public_url(source), notes, load_json(folder / file)))
    return found


def from_facts() -> list[Entry]:
    lines = (HERE / "catalogue_facts.jsonl").read_text(encoding="utf-8").splitlines()
    facts = [json.loads(line) for line in lines if line.strip()]
    return [Entry(e["id"], e["name"], e["aliases"], public_url(e["source"]), e.get("notes", []), e["config"]) for e in facts]


def write(entry: Entry) -> bool:
    """Writes one spec; False where a hand-written one is there."""
    path = SPECS / f"{entry.id}.yaml"
    if path.exists() and WRITTEN not in path.read_text(encoding="utf-8"):
        return False
    data = import_config(entry.config, entry.id)
    aliases = [a for a in dict.fromkeys(entry.aliases) if a and a.lower() != entry.id]
    if entry.id in LENGTHS:
        length, said = LENGTHS[entry.id]
        entry.notes.append(f"the copy of the config is of one compiled for 512 tokens; its length: {said}")
        data |= {"max_context": length}
    data |= {"id": entry.id, "name": entry.name, "source": entry.source, "notes": [*data.get("notes", []), *entry.notes]}
    first = {key: data.pop(key) for key in ("id", "name", "source")}
    ordered = {**first, "aliases": aliases, "notes": data.pop("notes"), **data}
    parse_spec({key: value for key, value in ordered.items() if value != []}, entry.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_spec(ordered, (entry.source, WRITTEN)), encoding="utf-8")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=Path, help="folder of released configs with an INDEX.tsv")
    folder = parser.parse_args().configs
    entries = (from_folder(folder) if folder else []) + from_facts()
    written = sum(write(entry) for entry in entries)
    print(f"{written} of {len(entries)} specs written, the others are hand-written")


if __name__ == "__main__":
    main()
