"""fit and compare, and the runnable examples of the library."""

from __future__ import annotations

import doctest
import io
import json
import sys
from importlib import import_module

import jsonschema
import pytest
import yaml

import kvplan
from kvplan.cli import run
from kvplan.errors import KvplanError, SpecError
from kvplan.planner.limits import largest
from tests.conftest import planned

MODEL = "meta-llama/llama-3.1-8b"


#: Public functions whose examples allocate and measure.
MEASURING = ("validate", "validate_all_kinds", "validate_speed", "keep_receipt", "check_receipt")
FUNCTIONS = sorted(name for name in kvplan.__all__ if not name.startswith("_") and name not in ("KvplanError", *MEASURING))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_an_example_that_is_true(name):
    shows_what_is_true(name)


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("name", MEASURING)
def test_so_have_those_that_measure(name):
    shows_what_is_true(name)


def shows_what_is_true(name):
    function = getattr(kvplan, name)
    module = import_module(function.__module__)
    (found,) = doctest.DocTestFinder(recurse=False).find(function, name, module=module, globs=vars(module).copy())
    assert found.examples, f"{name} shows no example"
    result = doctest.DocTestRunner().run(found)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("end", [0, 1, 131_071, 131_072, 131_073, 500_000, 504_064])
def test_the_most_that_fits_is_found_wherever_it_ends(end):
    assert largest(lambda n: n <= end, 504_064, (131_072, None)) == end


def test_where_it_often_ends_three_questions_are_enough():
    """A guess that does not fit, the model's own length, and one token more."""
    asked = []
    assert largest(lambda n: asked.append(n) or n <= 131_072, 504_064, (131_072, None)) == 131_072
    assert asked == [504_064, 131_072, 131_073]


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


def test_ranked_by_speed_the_fastest_layout_comes_first():
    question = {"engine": "ideal", "context": "32k", "batch": 64, "devices": ["h100", "h200", "l40s", "24GiB"]}
    ranked = kvplan.fit(MODEL, rank_by="tokens_per_second", **question)
    rates = [c.pace.tokens_per_second for c in ranked if c.pace]
    assert rates == sorted(rates, reverse=True)
    assert [c.device.id for c in ranked][-1] == "24GiB"  # declares no rates
    for c in ranked[:-1]:
        n = c.n_devices
        for tp, pp in ((tp, pp) for tp in range(1, n + 1) for pp in range(1, n + 1) if n % (tp * pp) == 0):
            sizes = {"device": c.device, "tp": tp, "pp": pp, "dp": n // tp // pp}
            asked = {"engine": "ideal", "context": "32k", "batch": 64} | sizes
            if planned(MODEL, **asked).fits:  # every other layout of as many devices is slower
                bound = kvplan.roofline(MODEL, **asked).tokens_per_second * min(64, sizes["dp"])
                assert bound <= c.pace.tokens_per_second * (1 + 1e-9)


def test_ranked_by_cost_and_by_first_token():
    question = {"engine": "ideal", "context": "8k", "batch": 8, "devices": ["h100", "l40s"]}
    dear, cheap = {"h100": 50.0, "l40s": 1.0}, {"h100": 1.0, "l40s": 50.0}
    for prices, first in ((dear, "l40s"), (cheap, "h100-80gb")):
        best = kvplan.fit(MODEL, rank_by="cost_per_token", prices=prices, **question)[0]
        assert best.device.id == first
        assert best.pace.cost_per_million == pytest.approx(best.price / 3600 / best.pace.tokens_per_second * 1e6)
    times = [c.pace.first_token_seconds for c in kvplan.fit(MODEL, rank_by="first-token", **question)]
    assert times == sorted(times)
    with pytest.raises(SpecError, match="needs prices"):
        kvplan.fit(MODEL, rank_by="cost_per_token", **question)
    with pytest.raises(KvplanError, match="unknown ranking"):
        kvplan.fit(MODEL, rank_by="colour", **question)


def test_compared_plans_are_ranked_too(capsys):
    same = {"model": MODEL, "engine": "ideal", "context": "8k", "batch": 4}
    rows = kvplan.compare(*(same | {"device": name} for name in ("l4", "rtx-3060", "h100")), rank_by="first_token")
    by_name = {row.name: row.values for row in rows}
    assert by_name["device"] == ("h100-80gb", "l4", "rtx-3060-12gb")  # the last does not fit
    assert by_name["asked as number"] == (3, 1, 2)
    args = ["compare", MODEL, "--engine", "ideal", "--context", "8k", "--device", "l4,h100", "--rank-by", "cost-per-token"]
    assert run([*args, "--price", "h100=1", "--price", "l4=1"]) == 0
    out = capsys.readouterr().out
    assert "2: h100" in out.splitlines()[0].split("1: l4")[0]
    assert "per million tokens" in out
    assert "bounds, not predictions" in out


def test_fit_says_what_is_wrong_with_a_question_that_nothing_could_carry(refused):
    for args, told in (
        (["--engine", "nope"], "unknown engine"),
        (["--kv-dtype", "fp7"], "unknown KV cache format"),
        (["--engine", "sglang", "--engine-option", "foo=1"], "has no such option"),
        (["--engine", "vllm", "--engine-option", "max_lora_rank=32"], "it is lora here"),
        (["--kv-memory", "1GiB"], "fit any device"),
        (["--context", "8k,16k"], "one value at a time"),
        (["--devices", ","], "an empty name"),
    ):
        assert told in refused("fit", MODEL, "--devices", "h100,l4", *args)


def test_fit_keeps_the_number_of_devices_and_finds_replicas_that_deal_out_experts():
    (found,) = kvplan.fit(MODEL, devices=["h100"], n_devices=3, context="8k")
    assert found.plan.question["n_devices"][0] == 3
    sizes = {"engine": "vllm", "context": "8k", "batch": 512, "devices": ["h200"]}
    (whole,) = kvplan.fit("deepseek-ai/deepseek-v3", **sizes)
    assert whole.plan.question["ep"][0] > 1  # every replica keeps its own latents, the experts are dealt out over all of them


FORMATS = ["table", "markdown", "html", "json", "jsonl", "yaml", "csv", "parquet"]
PRINTING = {
    "estimate": ["estimate", MODEL, "--context", "8k", "--engine", "ideal"],
    "fit": ["fit", MODEL, "--devices", "h100,t4", "--context", "8k", "--engine", "ideal"],
    "compare": ["compare", MODEL, "--context", "8k,16k", "--engine", "ideal"],
    "sweep": ["sweep", MODEL, "--grid", "batch=1,2", "--context", "8k", "--engine", "ideal"],
    "roofline": ["roofline", MODEL, "--device", "h100", "--context", "8k"],
    "explain": ["explain", MODEL, "--context", "8k", "--device", "h100"],
    "models": ["models", "list", "llama"],
    "devices": ["devices", "list", "h100"],
}


@pytest.mark.parametrize("command", PRINTING)
def test_every_command_prints_every_format(command, capfdbinary):
    for fmt in FORMATS:
        if (command, fmt) == ("sweep", "parquet"):
            continue  # a folder of parts; tests/unit/test_sweep_files.py
        assert run([*PRINTING[command], "--format", fmt]) == 0
        out, err = capfdbinary.readouterr()
        assert not err
        if fmt == "parquet":
            parquet = pytest.importorskip("pyarrow.parquet", reason="the sweep extra brings pyarrow")
            assert parquet.read_table(io.BytesIO(out)).num_rows
        elif fmt == "json":
            assert json.loads(out)
        elif fmt == "jsonl":
            assert all(json.loads(line) for line in out.splitlines())
        elif fmt == "yaml":
            assert yaml.safe_load(out)
        elif fmt == "csv":
            lines = out.decode().splitlines()
            assert len(lines) > 1
            assert all(lines)
        elif fmt == "html":
            assert out.startswith(b"<!doctype html>")
            assert out.count(b"<table>") >= 1
        else:
            assert b"---" in out or fmt == "table"


def test_parquet_without_pyarrow_and_on_a_terminal_is_one_clear_error(capsys, monkeypatch):
    from kvplan.cli import options

    monkeypatch.setattr(options.sys.stdout, "isatty", lambda: True, raising=False)
    assert run([*PRINTING["fit"], "--format", "parquet"]) == 2
    assert "redirect it" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run([*PRINTING["fit"], "--format", "parquet"]) == 2
    assert "needs pyarrow" in capsys.readouterr().err


def test_a_refused_layout_has_a_row_in_every_format(capsys):
    """vLLM stops before it has a ledger."""
    for fmt in FORMATS[:-1]:
        assert run(["estimate", MODEL, "--device", "h100", "--tp", "3,2", "--context", "8k", "--format", fmt]) == 1
        assert run(["compare", MODEL, "--device", "h100", "--tp", "3,2", "--context", "8k", "--format", fmt]) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize("what", ["fit", "compare", "roofline", "devices", "models", "device"])
def test_every_result_has_a_schema(what: str) -> None:
    """What `as_dict` gives is what the schema says, key by key; jsonschema is the judge."""
    asked = {"device": "h100", "engine": "ideal", "context": 8192}
    rows = {
        "fit": lambda: [
            row.as_dict() for row in kvplan.fit("meta-llama/llama-3.1-8b", devices=["h100", "a10"], engine="ideal", context=8192)
        ],
        "compare": lambda: [row.as_dict() for row in kvplan.compare({"model": MODEL, **asked})],
        "roofline": lambda: [kvplan.roofline(MODEL, **asked).as_dict()],
        "devices": lambda: [device.as_dict() for device in kvplan.devices()],
        "models": lambda: [{"id": id_} for id_ in kvplan.models()],
        "device": lambda: kvplan.api.device("h100").plain(),
    }[what]()
    schema = kvplan.schema(what)
    jsonschema.validate(json.loads(json.dumps(rows)), schema)
    if what != "device":
        keys = schema["items"].get("properties") or next(iter(schema["$defs"].values()))["properties"]
        assert set(rows[0]) == set(keys)
