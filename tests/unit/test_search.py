"""fit and compare, and the runnable examples of the library."""

from __future__ import annotations

import doctest
import json
from importlib import import_module

import pytest

import kvplan
from kvplan import api
from kvplan.cli import run
from kvplan.errors import SpecError

MODEL = "meta-llama/llama-3.1-8b"


def test_the_examples_of_the_library_are_true():
    results = [doctest.testmod(import_module(f"kvplan.api.{name}")) for name in sorted(set(api.HOMES.values()))]
    assert sum(r.attempted for r in results) >= 5
    assert not any(r.failed for r in results)


def test_fit_ranks_by_price_where_there_is_one():
    question = {"engine": "ideal", "context": "32k", "batch": 64, "devices": ["h100", "h200", "l40s"]}
    assert next(iter(kvplan.fit(MODEL, prices={"h100": 1, "h200": 3.5}, **question))).device.id == "h100-80gb"
    assert next(iter(kvplan.fit(MODEL, prices={"h100": 2, "h200": 3.5}, **question))).device.id == "h200"


def test_fit_keeps_what_was_chosen_and_says_why_losers_lost():
    kept = kvplan.fit(MODEL, devices=["l40s"], engine="ideal", context="32k", batch=16, tp=2)[0]
    assert kept.plan.question["tp"][0] == 2
    lost = kvplan.fit(MODEL, devices=["rtx-3060"], engine="ideal", context="32k", batch=64, most=4)[0]
    assert lost.plan is None
    assert "more than the 4 tried" in lost.reason


def test_fit_refuses_a_device_and_a_price_that_is_none():
    with pytest.raises(SpecError, match="fit looks for the device"):
        kvplan.fit(MODEL, device="h100")
    with pytest.raises(SpecError, match="is not a price"):
        kvplan.fit(MODEL, devices=["h100"], prices={"h100": float("nan")})


def test_fit_exit_code(capsys):
    assert run(["fit", MODEL, "--engine", "ideal", "--context", "8k", "--devices", "h100"]) == 0
    assert run(["fit", MODEL, "--engine", "ideal", "--context", "1m", "--batch", "64", "--devices", "t4", "--most", "2"]) == 1
    assert run(["fit", MODEL, "--engine", "ideal", "--devices", "h100", "--price", "h100"]) == 2
    assert "DEVICE=PRICE" in capsys.readouterr().err


def test_compare_shows_what_differs_first():
    rows = kvplan.compare({"model": MODEL, "kv_dtype": "bf16", "context": "8k"}, {"model": MODEL, "kv_dtype": "q8_0", "context": "8k"})
    differing = [row.name for row in rows if row.differs]
    assert [row.name for row in rows][: len(differing)] == differing
    assert {"kv_dtype", "cache of a sequence"} <= set(differing)
    assert "context" not in differing
    (cache,) = [row for row in rows if row.name == "cache of a sequence"]
    assert cache.ratios == (1.0, 34 / 64)  # q8_0: 34 bytes for 32 elements


def test_compare_reads_deployment_files(tmp_path, capsys):
    path = tmp_path / "deployment.yaml"
    path.write_text(f"model: {MODEL}\ncontext: 16k\nbatch: 4\n")
    assert run(["compare", str(path), MODEL, "--engine", "ideal", "--format", "json"]) == 0
    rows = {row["name"]: list(row.values())[2:] for row in json.loads(capsys.readouterr().out)}
    assert rows["batch"] == [4, 1]
    path.write_text("model: x\ncolour: red\n")
    assert run(["compare", str(path)]) == 2
    assert "colour" in capsys.readouterr().err
