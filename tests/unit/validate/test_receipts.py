"""Receipts: written whole, read as records before anything is multiplied, kept ones still true, and the page made from them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import tracemalloc
from pathlib import Path

import pytest

from kvplan.deployment import Deployment
from kvplan.errors import SpecError
from kvplan.layers import MIXERS
from kvplan.units import MIB
from kvplan.validate import run
from kvplan.validate.predict import predict, propose
from kvplan.validate.receipts import faults, read, receipt, write
from tests.conftest import one_block

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import validation_page  # noqa: E402

GQA = {"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64}


def question(context: int = 1024) -> Deployment:
    return Deployment(model=one_block(GQA, 2), context=context, batch=2)


def test_a_receipt_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "one.json"
    first = receipt("caches", {"device": "cpu", "name": "CPU"})
    write(first, path)
    assert read(path) == first

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        write(receipt("kinds", {}), path)
    assert read(path) == first
    assert [p.name for p in path.parent.iterdir()] == ["one.json"]


@pytest.mark.usefixtures("one_process")
def test_a_receipt_can_be_checked_again(tmp_path):
    found = run.validate(question(context=64))
    write(found, tmp_path / "r.json")
    again = read(tmp_path / "r.json")
    assert again == found
    assert faults(again) == []
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "kvplan.receipt/1"
    (case,) = again.cases
    row = case.rows[0]
    forged = again._replace(cases=(case._replace(rows=(row._replace(predicted_bytes=1), *case.rows[1:])),))
    assert len(faults(forged)) == 3  # the row, the sum, the verdict
    lying = again._replace(cases=(case._replace(rows=(row._replace(allocated_bytes=1), *case.rows[1:])),))
    assert len(faults(lying)) == 2


def changed(data, path, value):
    """The data with the value at a path replaced."""
    if not path:
        return value
    key, *rest = path
    if isinstance(data, list):
        return [changed(item, rest, value) if i == key else item for i, item in enumerate(data)]
    return {**data, key: changed(data.get(key), rest, value)}


WRONG = ([1], {"a": 1}, "x", -1, 1.5, None, True, 10**30, "9" * 5000, [[]])


@pytest.mark.parametrize("kept", ["cpu-llama", "cpu-speed"])
def test_a_receipt_with_any_field_of_another_type_is_refused_before_anything_is_multiplied(kept, tmp_path):
    """A shape with `"sequences": [1]` once took 4.1 GiB: a list times a length."""
    data = json.loads((ROOT / "validation" / f"{kept}.json").read_text())
    paths = [["subject"], ["date"], ["machine"], ["cases"], ["speed"], ["status"], ["digest"], ["kvplan"], ["more"]]
    if kept == "cpu-llama":
        paths += [["cases", 0, field] for field in data["cases"][0]] + [["cases", 0]]
        paths += [["cases", 0, "rows", 0, field] for field in data["cases"][0]["rows"][0]]
        paths += [["cases", 0, "rows", 0, "shape", field] for field in (*data["cases"][0]["rows"][0]["shape"], "more")]
    else:
        paths += [["speed", field] for field in data["speed"]] + [["speed", "points", 0, field] for field in data["speed"]["points"][0]]
        paths += [["speed", "exponents", field] for field in data["speed"]["exponents"]]
    path = tmp_path / "r.json"
    tracemalloc.start()
    for where in paths:
        for value in WRONG:
            made = changed(data, where, value)
            path.write_text(json.dumps(made))
            if made == data:
                continue
            try:
                found = read(path)
            except SpecError:
                continue
            assert found.changed, (where, value)  # of the right type: then the digest tells
            assert faults(found), (where, value)
    assert tracemalloc.get_traced_memory()[1] < 50 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("text", ["[" * 100_000, "null", "9" * 5000, '{"schema": "kvplan.receipt/1", "cases": {}}', "\0", "\ud800"])
def test_a_file_that_is_no_receipt_at_all(tmp_path, text):
    (tmp_path / "r.json").write_text(text, errors="surrogatepass")
    with pytest.raises(SpecError):
        read(tmp_path / "r.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other/9"}', '{"schema": "kvplan.receipt/1"}'])
def test_a_file_that_is_no_receipt(tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(SpecError):
        read(tmp_path / "r.json")
    with pytest.raises(SpecError):
        read(tmp_path / "absent.json")


KEPT = validation_page.receipts(ROOT / "validation")


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_receipt_still_holds(name):
    found = KEPT[name]
    assert faults(found) == []
    assert found.status in ("equal", "measured")
    assert not [key for key in found.machine if "host" in key or "path" in key]


def test_the_kept_receipts_cover_every_kind_and_resident_memory_is_within_a_percent():
    cases = {case.name: case for case in KEPT["cpu-kinds"].cases}
    assert set(MIXERS) <= set(cases)
    for case in cases.values():
        assert case.allocated_bytes == case.predicted_bytes
        if case.predicted_bytes >= 256 * MIB:
            assert case.measured["resident"] == pytest.approx(case.predicted_bytes, rel=0.01)
    assert sum(case.predicted_bytes >= 256 * MIB for case in cases.values()) == len(cases) - 2  # all but those that keep nothing


def test_on_a_gpu_nvml_and_the_allocator_hold_what_was_predicted():
    """An H200: tensors, whole segments of torch's allocator, and what NVML saw the device and the process grow by, to the byte."""
    found = KEPT["cuda-kinds"]
    assert found.machine["name"] == "NVIDIA H200"
    assert {case.name for case in found.cases} == {case.name for case in KEPT["cpu-kinds"].cases}
    for case in found.cases:
        assert case.allocated_bytes == case.predicted_bytes
        seen = [case.measured[name] for name in ("nvml_used", "nvml_process", "cuda_used", "torch_reserved")]
        if case.segments is not None:  # a cache that grows by concatenation leaves blocks behind
            assert seen == [case.segments["reserved"]] * 4
            assert case.measured["torch_allocated"] == case.segments["allocated"]


def test_every_file_is_on_one_side_of_the_contract():
    """Who measures, and who plans or reads: a new file has to be put on one of the lists, or nothing would keep it from both."""
    contracts = {c["name"]: c for c in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]}
    measures = set(contracts["What measures never imports what predicts"]["source_modules"])
    plans = set(contracts["torch stays in the measuring process"]["source_modules"])
    files = {f"kvplan.validate.{path.stem}" for path in (ROOT / "kvplan" / "validate").glob("*.py") if path.stem != "__init__"}
    assert measures | plans == files
    assert not measures & plans


@pytest.mark.parametrize("line", ["from kvplan.dtypes import row_bytes", "from kvplan.validate import predict"])
def test_the_contract_notices_a_measuring_file_that_predicts(line, tmp_path):
    shutil.copytree(ROOT / "kvplan", tmp_path / "kvplan", ignore=shutil.ignore_patterns("*.yaml", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    blocks = tmp_path / "kvplan" / "validate" / "blocks.py"
    blocks.write_text(blocks.read_text() + f"\n{line}\n")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert found.returncode == 1
    assert "What measures never imports what predicts BROKEN" in found.stdout


def test_the_page_is_made_from_the_receipts():
    """`python tools/validation_page.py validation docs` writes it anew."""
    assert (ROOT / "docs" / "validation.md").read_text() == validation_page.page(KEPT, validation_page.facts(ROOT / "validation"))
    for name, found in KEPT.items():
        if found.speed:
            assert (ROOT / "docs" / f"{name}.svg").read_text() == validation_page.plot(found.speed)


def test_prediction_of_a_shape_by_hand():
    shape = propose(question()).rows[0].shape
    assert predict(shape) == 2 * 2 * 1024 * 4 * 64 * 2
    assert predict(shape._replace(element="int4_per_token_head", layers=1, sequences=1)) == 1024 * 4 * (32 + 4)
