"""kvplan as Python sees it: typed names, the public ones alone, plans that print."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import get_type_hints

import pytest

import kvplan
from kvplan.api.names import Loaded, Question, Workload
from kvplan.api.workloads import DEFAULTS
from kvplan.cli import run
from kvplan.deployment import NAMES
from kvplan.errors import KvplanError, UnknownName

LLAMA = "meta-llama/llama-3.1-8b"
#: What each kind of name may be in Python.
TAKES = {"tokens": int, "count": int, "bytes": int, "fraction": float, "flag": bool, "text": str, "device": str, "options": str}


def test_every_name_of_a_question_is_a_typed_keyword():
    hints = get_type_hints(Question)
    assert set(hints) == set(NAMES)
    for name, (kind, *_) in NAMES.items():
        assert TAKES[kind] in hints[name].__args__, name
        assert type(None) in hints[name].__args__, name
    names = ("estimate", "explain", "deployment", "fit", "emit", "roofline")
    for function in (getattr(kvplan, name) for name in names):
        assert inspect.signature(function).parameters["question"].annotation == "Unpack[Question]"


def test_simulate_and_hit_curve_take_one_table_of_workload_keywords():
    assert set(get_type_hints(Loaded)) == set(NAMES) | set(DEFAULTS)
    assert set(get_type_hints(Workload)) == set(DEFAULTS)
    for function in (kvplan.simulate, kvplan.hit_curve):
        parameters = inspect.signature(function).parameters
        assert parameters["question"].annotation == "Unpack[Loaded]"
        assert not set(parameters) & set(DEFAULTS)
        assert not [name for name in DEFAULTS if name not in (kvplan.simulate.__doc__ or "")]


def test_the_package_is_typed_and_shows_its_public_names_alone():
    assert (Path(kvplan.__file__).parent / "py.typed").is_file()
    assert dir(kvplan) == sorted(kvplan.__all__)
    assert all(getattr(kvplan, name) is not None for name in kvplan.__all__)


def test_a_printed_plan_is_the_first_screen(capsys):
    plan = kvplan.estimate(LLAMA, device="h100", context="8k")
    run(["estimate", LLAMA, "--device", "h100", "--context", "8k"])
    out = capsys.readouterr().out
    assert out.startswith(f"{plan}\n\nmore: ")
    assert plan._repr_html_().count("<table>") >= 3


def test_rows_are_the_lines_of_the_ledgers(monkeypatch):
    plan = kvplan.estimate(LLAMA, engine="ideal", device="h100", context="8k", tp=2)
    rows = plan.rows()
    assert {(row["place"], row["devices"]) for row in rows} == {("GPU 0 to 1", 2)}
    assert sum(row["bytes"] for row in rows) == plan.ledgers[0].total_bytes
    pandas = ModuleType("pandas")
    pandas.DataFrame = lambda rows: SimpleNamespace(rows=rows)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert plan.to_frame().rows == rows


def test_check_takes_a_path(tmp_path):
    file = tmp_path / "serve.sh"
    file.write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192\n")
    told = [[verdict.status for verdict in kvplan.check(files, device="h100")] for files in (file, str(file), [file])]
    assert told == [["fits"]] * 3


def test_engines_is_a_package_and_a_function():
    from kvplan import engines

    assert kvplan.engines is engines
    assert [one["engine"] for one in kvplan.engines()] == list(engines.ENGINES)
    assert kvplan.engines("sglang") == [one for one in kvplan.engines() if one["engine"] == "sglang"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gpu_memory_utilization", "write memory_fraction (vLLM's gpu_memory_utilization)"),
        ("tensor_parallel_size", "write tp (vLLM, SGLang's tensor_parallel_size)"),
        ("enable_dp_attention", """write engine_option={"enable_dp_attention": 'true'} (SGLang's enable_dp_attention)"""),
        ("engine_options", "write engine_option"),
        ("max_modellen", "did you mean max_model_len"),
    ],
)
def test_an_engines_own_name_is_answered_with_ours(name, told):
    with pytest.raises(UnknownName) as caught:
        kvplan.estimate(LLAMA, **{name: 1})
    assert str(caught.value).startswith(f"unknown question {name!r}; {told}")


def test_numbers_of_numpy_are_numbers():
    np = pytest.importorskip("numpy")
    given = {"context": np.int64(8192), "batch": np.int32(4), "reserve": np.int64(1 << 30), "enforce_eager": np.bool_(True)}
    plan = kvplan.estimate(LLAMA, device="h100", engine="vllm", advise=False, **given)
    assert {name: plan.question[name] for name in given} == {
        "context": (8192, "you"), "batch": (4, "you"), "reserve": (1 << 30, "you"), "enforce_eager": (True, "you"),
    }  # fmt: skip
    assert all(type(plan.question[name][0]) in (int, bool) for name in given)
    with pytest.raises(KvplanError, match="is not a size"):
        kvplan.estimate(LLAMA, context=np.array([8192, 16384]))


def test_a_path_is_a_file_and_devices_may_be_one_text(tmp_path):
    text = Path(__file__).parents[2].joinpath("model_specs", "meta-llama", "llama-3.1-8b.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text)
    assert kvplan.estimate(tmp_path / "mine.yaml", context="1k").cache.bytes_per_token == 131072  # 2 x 32 layers x 8 heads x 128 x 2 B
    with pytest.raises(KvplanError, match="no such file"):
        kvplan.estimate(tmp_path / "nothing.json")
    found = kvplan.fit(LLAMA, devices="h100, l4", engine="ideal", context="8k", batch=16)
    assert {row.device.id for row in found} == {"h100-80gb", "l4"}
