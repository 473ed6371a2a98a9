"""The command line: data on stdout, everything else on stderr, the contract's exit codes, the library's answers."""

from __future__ import annotations

import csv
import io
import json

import pytest
import yaml
from jsonschema import Draft202012Validator

import kvplan
from kvplan import api
from kvplan.cli.commands import SHOWN, cli
from kvplan.errors import KvplanError
from tests.conftest import planned

MODEL = "meta-llama/llama-3.1-8b"
QUESTION = ["--engine", "ideal", "--context", "8k", "--batch", "4"]


def test_json_is_the_librarys_answer(command):
    code, out, err = command("estimate", MODEL, *QUESTION, "--device", "24GiB", "--format", "json")
    plan = kvplan.estimate(MODEL, engine="ideal", context="8k", batch=4, device="24GiB")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(plan.as_dict()))


@pytest.mark.parametrize(
    "extra",
    [
        [], ["--device", "24GiB"], ["--device", "8GiB"], ["--kv-memory", "1GiB", "--block-size", "16"],
        ["--device", "h100", "--tp", "2", "--pp", "3", "--kv-dtype", "q8_0/q4_0"],
    ],
)  # fmt: skip
def test_json_obeys_the_published_schema(command, extra):
    _, schema, _ = command("schema", "plan")
    _, out, _ = command("estimate", MODEL, *QUESTION, *extra, "--format", "json")
    Draft202012Validator(json.loads(schema)).validate(json.loads(out))


@pytest.mark.parametrize(("device", "code"), [("24GiB", 0), ("16GiB", 1), ("8GiB", 1)])
def test_exit_code_says_whether_it_fits(command, device, code):
    assert command("estimate", MODEL, *QUESTION, "--device", device)[0] == code


def test_several_values_make_a_row_each_and_the_worst_exit_code(command):
    args = ["estimate", MODEL, "--engine", "ideal", "--device", "24GiB", "--context", "4k,8k,1m", "--batch", "2"]
    code, out, _ = command(*args, "--format", "json")
    assert code == 1
    assert [plan["fits"] for plan in json.loads(out)] == [True, True, False]
    assert len(command(*args)[1].splitlines()) == 2 + 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:4", [1, 2, 3, 4]),
        ("1k:3k:+1k", [1024, 2048, 3072]),
        ("8k:64k:x2", [8192, 16384, 32768, 65536]),
        ("5,1:2", ["5", 1, 2]),
    ],
)
def test_grids(text, expected):
    from kvplan.cli.grid import expand

    assert expand("context", text) == expected


@pytest.mark.parametrize("fmt", ["table", "markdown", "html", "yaml", "jsonl", "csv"])
def test_every_format_prints_one_and_several(command, fmt):
    for context in ("8k", "8k,16k"):
        code, out, err = command("estimate", MODEL, "--context", context, "--format", fmt)
        assert (code, err) == (0, "")
        assert "8192" in out or "8,192" in out
    if fmt == "csv":
        assert [row["context"] for row in csv.DictReader(io.StringIO(out))] == ["8192", "16384"]
    if fmt == "yaml":
        assert [plan["question"]["context"]["value"] for plan in yaml.safe_load(out)] == [8192, 16384]
    if fmt == "jsonl":
        assert [json.loads(line)["question"]["context"]["value"] for line in out.splitlines()] == [8192, 16384]


def test_an_internal_error_is_exit_3(command, monkeypatch):
    monkeypatch.setattr(api, "estimate", lambda *a, **k: 1 / 0)
    code, _, err = command("estimate", MODEL)
    assert code == 3
    assert "internal error: ZeroDivisionError" in err


def test_all_faults_of_a_question_at_once(command):
    _, _, err = command("estimate", MODEL, "--context", "x", "--batch", "y")
    assert "context" in err
    assert "batch" in err


def test_lists_and_shows(command):
    assert MODEL in command("models", "list", "llama")[1]
    assert yaml.safe_load(command("models", "show", MODEL)[1])["hidden_size"] == 4096
    assert "81,559" in command("devices", "list", "h100-80gb")[1]
    assert yaml.safe_load(command("devices", "show", "h100")[1])["id"] == "h100-80gb"
    assert command("schema", "none")[0] == 2


def test_models_show_prints_a_spec_that_reads_back_the_same(command, tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text(command("models", "show", MODEL)[1])
    assert api.model(str(path)) == api.model(MODEL)


def test_explain_formulas_are_their_values():
    lines = kvplan.explain(MODEL, context="8k", batch=3, engine="ideal", device="h100")
    for line in lines:
        if line.name.startswith("cache gqa"):
            layers, heads, row, states = (int(part.split()[0].replace(",", "")) for part in line.formula.split(" x "))
            assert line.value == layers * heads * row * states
        if line.name.endswith(("total", "per sequence", "whole model")):
            assert line.value == sum(int(part.replace(",", "")) for part in line.formula.split(" + "))
    assert {line.name for line in lines} >= {"cache per sequence", "GPU 0: total", "GPU 0: left of the limit", "weights attention"}
    token = lines[0]
    assert (token.name, token.value) == ("one token in gqa layers", 2 * 32 * 8 * 128 * 2)
    assert token.formula == "2 (K and V) x 32 layers x 8 KV heads x 128 x 2 B"


def test_completion_knows_the_catalogue():
    from kvplan.cli.commands import Named

    completed = [item.value for item in Named("model").shell_complete(None, None, "meta-llama/llama-3.1-8")]
    assert MODEL in completed


def test_advice_is_evaluated(capsys):
    plan = kvplan.estimate(MODEL, engine="ideal", device="24GiB", context="32k", batch=8)
    assert plan.fits is False
    assert {"context", "batch", "tp", "device"} <= {one.option for one in plan.advice}
    for one in plan.advice:
        changed = {"context": "32k", "batch": 8, "device": "24GiB", "engine": "ideal"} | {one.option: one.value}
        again = kvplan.estimate(MODEL, **changed)
        assert again.fits
        assert again.margin_bytes == one.margin_bytes


def test_a_narrow_terminal_cuts_text_columns_only(monkeypatch):
    from kvplan.report import table

    monkeypatch.setattr(table.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    text = table.rows_text([{"name": "x" * 80, "bytes": 1234567}], "table")
    assert max(map(len, text.splitlines())) <= 60
    assert "1,234,567" in text


@pytest.mark.parametrize("value", [5, 1.5, True, b"a=b", object(), [5], [None], {1: 2}, {"a": None}, ["a"], "a", {"a": ["b"]}])
def test_engine_options_of_any_other_type_are_refused(value):
    with pytest.raises(KvplanError, match="engine_option"):
        planned("meta-llama/llama-3.1-8b", engine_option=value)


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ({"context": "32,768"}, {"context": 32768}),
        ({"batch": "1,024", "context": 8}, {"batch": 1024, "context": 8}),
        ({"device": "24G"}, {"device": "24GiB"}),
        ({"device": "RTX 4090"}, {"device": "rtx-4090"}),
        ({"device": "h100 sxm"}, {"device": "h100-80gb"}),
        ({"device": "2 x 24GiB"}, {"device": "24GiB", "n_devices": 2, "tp": 2}),
        ({"device": "8xH100"}, {"device": "h100", "tp": 8}),
        ({"device": "h100", "n_devices": 16}, {"device": "h100", "tp": 8, "pp": 2}),
        ({"device": "h100", "n_devices": 3}, {"device": "h100", "pp": 3}),  # 32 heads are not divided by three
    ],
)
def test_what_people_type(asked, same):
    question = {"engine": "vllm", "kv_memory": None, "context": "8k"}
    if "device" not in asked:
        question["kv_memory"] = "1GiB"
    plan, other = (planned(MODEL, **{**question, **each}) for each in (asked, same))
    assert (plan.ledgers, plan.cache, plan.capacity) == (other.ledgers, other.cache, other.capacity)
    for name in ("tp", "pp"):
        assert plan.question[name] == (same.get(name, 1), "kvplan")


def test_emit_writes_the_sizes_that_were_chosen():
    assert "--tensor-parallel-size 4" in kvplan.emit(MODEL, "vllm", device="4xh100", context="8k")


def test_an_option_given_twice_is_a_list(command):
    """The last of them alone was taken, in silence."""
    twice = command("estimate", MODEL, "--engine", "ideal", "--device", "h100", "--device", "l4", "--context", "8,192", "--context", "16k")
    assert twice == command("estimate", MODEL, "--engine", "ideal", "--device", "h100,l4", "--context", "8192,16k")
    assert len(twice[1].splitlines()) == 6


def test_help_and_version_as_words(command):
    assert command("help") == command("--help")
    assert command("help", "estimate") == command("estimate", "--help")
    assert command("version") == command("--version")


def test_commas_that_part_thousands_are_noted(command):
    code, out, err = command("estimate", MODEL, "--context", "8,192")
    assert code == 0
    assert "8,192 tokens" in out
    assert err == "note: --context 8,192 is read as the number 8192; several values: '8, 192'\n"
    assert len(command("estimate", MODEL, "--context", "512, 768")[1].splitlines()) == 4
    assert len(command("estimate", MODEL, "--context", "1k", "--batch", "128,256")[1].splitlines()) == 4


@pytest.mark.parametrize(("name", "value"), [("kv_memory", "40"), ("reserve", "2"), ("host_memory", "64")])
def test_bytes_without_a_unit_are_asked_back(name, value):
    with pytest.raises(KvplanError, match=f"{value} what\\? Write {value}GiB"):
        planned(MODEL, **{name: value})


def test_help_is_in_groups(command):
    for name in ("estimate", "fit", "check", "simulate"):
        _, out, _ = command(name, "--help")
        titles = [line for line in out.splitlines() if line.endswith(":") and line[:1].isalpha()]
        assert len(titles) >= 4
        assert out.count("--kv-dtype") == 2  # with its meaning, and in an example
    from kvplan.cli.groups import GROUPS
    from kvplan.deployment import NAMES

    assert sorted(name for _, _, names in GROUPS for name in names) == sorted(NAMES)


def test_engines_says_what_each_takes(command):
    from kvplan import engines

    listed = command("engines")[1]
    assert all(name in listed for name in engines.ENGINES)
    shown = command("engines", "vllm")[1]
    for key, meaning in engines.facts("vllm").options.items():
        assert key in shown
        assert meaning.split()[0] in shown
    assert json.loads(command("engines", "vllm", "--format", "json")[1]) == api.engines("vllm")[0]


@pytest.mark.parametrize(
    ("what", "begun", "found"),
    [("engine", "ll", "llama.cpp"), ("target", "k8", "k8s"), ("kv_dtype", "fp8_e4", "fp8_e4m3"), ("weight_dtype", "q4_k", "q4_k_m"),
     ("device", "h100", "h100-80gb"), ("model", "llama3.3:70", "llama3.3:70b")],
)  # fmt: skip
def test_completion_of_every_kind_of_name(what, begun, found):
    from kvplan.cli.commands import Named

    assert found in [item.value for item in Named(what).shell_complete(None, None, begun)]


@pytest.mark.parametrize(
    ("prefix", "inside", "said"),
    [
        ("/home/a/.local/share/pipx/venvs/kvplan-llm", "site", "pipx install --force 'kvplan-llm[simulate]'"),
        ("/home/a/.local/share/uv/tools/kvplan-llm", "site", "uv tool install --force 'kvplan-llm[simulate]'"),
        ("/venv", "site", "/venv/bin/python -m pip install 'kvplan-llm[simulate]'"),
        ("/venv", "clone", "/venv/bin/python -m pip install -e '{clone}[simulate]'"),
    ],
)
def test_a_missing_extra_says_the_line_that_installs_it(command, tmp_path, prefix, inside, said):
    from kvplan.extras import command

    if inside == "clone":
        (tmp_path / "pyproject.toml").touch()
    assert command("simulate", prefix, tmp_path / "kvplan") == said.format(clone=tmp_path)


def test_simulate_without_numpy_is_no_internal_error(command, monkeypatch):
    import sys

    for name in [
        name for name in sys.modules if name.startswith(("kvplan.simulate", "kvplan.planner.simulation", "kvplan.report.simulation"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    code, _, err = command("simulate", MODEL, "--device", "h100", "--max-model-len", "8k")
    assert code == 2
    assert "[simulate]'" in err


def test_help_shows_every_command_once():
    assert sorted(name for group in SHOWN.values() for name in group) == cli.list_commands(None)  # type: ignore[arg-type]
