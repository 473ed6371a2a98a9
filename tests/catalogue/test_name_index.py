"""The index of names: every line resolves to a spec that lowers, says what it rests on, and counts what the Hub counts."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import pairwise

from kvplan import catalogue, names
from kvplan.dtypes import canonical_weight
from kvplan.spec import lower
from kvplan.tensors import CacheFormats
from kvplan.weights import count
from tests.conftest import rows_of, shared

LINES = names.everything()
FORMATS = CacheFormats("bf16", "bf16", "bf16", "bf16")


def test_the_index_is_sorted_and_every_name_is_there_once() -> None:
    """But for base models whose hub id is, in lower case, the catalogue id of their tuned release: a line after that id's."""
    keys = [line.name.lower() for line in LINES]
    assert keys == sorted(keys)
    for before, line in pairwise(LINES):
        assert before.name.lower() != line.name.lower() or (before.name == before.base == line.base and before.length != line.length)
    assert all(line.evidence in names.EVIDENCE for line in LINES)


def test_every_spec_and_alias_is_in_the_index() -> None:
    """A spec that was added without `tools/build_names.py` is not found by its names."""
    known = {line.name.lower(): line.base for line in LINES}
    for id_ in catalogue.model_ids():
        assert known[id_] == id_
        for alias in catalogue.find_model(id_).aliases:
            assert known[alias.lower()] == id_, alias


def test_every_name_resolves() -> None:
    """Each meaning once: the base is read, and is taken in the line's format and length."""
    bases = {line.base: catalogue.read_spec(catalogue.model_folder() / f"{line.base}.yaml") for line in LINES}
    for line in {(line.base, line.weights, line.length): line for line in LINES}.values():
        if line.weights == "gguf":
            continue
        if line.weights:
            assert canonical_weight(line.weights)
        found = catalogue.find_model(line.name)
        assert (found.blocks, found.layers, found.vocab_size) == (
            bases[line.base].blocks, bases[line.base].layers, bases[line.base].vocab_size,
        )  # fmt: skip
        assert found.max_context == (bases[line.base].max_context if line.length is None else line.length or None)


def test_parameters_are_the_hubs_totals() -> None:
    """model_facts.jsonl: rows whose parameters were recounted to the Hub's total; every one that the index took from there."""
    rows = rows_of(shared("data/model_facts.jsonl"))
    index = {line.name: line.base for line in LINES}
    counted: dict[str, int] = {}
    checked, wrong = 0, []
    for row in rows:
        base, verified = index.get(row["hf_id"]), row["verified"]
        if base is None or verified.get("status") != "exact":
            continue
        if base not in counted:
            counted[base] = count(lower(catalogue.read_spec(catalogue.model_folder() / f"{base}.yaml"), FORMATS)).total
        checked += 1
        if counted[base] != verified["hub_total"]:
            wrong.append((row["hf_id"], base, counted[base], verified["hub_total"]))
    assert not wrong
    assert checked > 800


def test_fine_tunes_count_as_their_base_does() -> None:
    """same_geometry.jsonl: plain rows name the Hub's total in their evidence."""
    totals = defaultdict(set)
    index = {line.name: line for line in LINES}
    for row in map(json.loads, shared("data/same_geometry.jsonl").read_text().splitlines()):
        line = index.get(row["hf_id"])
        found = re.search(r"hub total (\d+) equals total of same_as", row["evidence"])
        if line is not None and found and line.weights is None and row["weights"] == "bf16":
            totals[line.base].add(int(found[1]))
    assert len(totals) > 100
    for base, expected in totals.items():
        spec = catalogue.read_spec(catalogue.model_folder() / f"{base}.yaml")
        own = count(lower(spec, FORMATS))
        assert expected <= {own.total, own.total + own.draft}, base
