"""What engines' errors mean: texts that people pasted (public issues, named by each), and the laws of the tables they are found in."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

import kvplan
from kvplan import engines
from kvplan.cli import run
from kvplan.deployment import NAMES
from kvplan.engines.common.releases import in_force
from kvplan.engines.common.stops import Stop, expression, needle, say
from kvplan.errors import KvplanError
from tests.conftest import planned, rows_of

#: Where it was pasted, the text, who says it (empty: no engine; any: every engine that runs torch), what it is, what its meaning holds, and
#: the first setting to move.
PASTED = rows_of(Path(__file__).with_name("pasted.jsonl"))


@pytest.mark.parametrize("row", PASTED, ids=lambda row: row["where"])
def test_pasted(row: dict[str, str]) -> None:
    causes = kvplan.why(row["text"]).causes
    told = causes[0]
    assert (told.name, told.moves[0].setting) == (row["name"], row["setting"])
    assert row["means"] in told.means
    assert told.engine == row["engine"] or (row["engine"] == "any" and {cause.engine for cause in causes} >= {"vllm", "sglang"})


def test_a_line_that_only_points_elsewhere() -> None:
    """vLLM's last line is told only where the reason is not there."""
    last = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    assert [cause.name for cause in kvplan.why(last).causes] == ["the cause is above"]
    both = f"ValueError: No available memory for the cache blocks.\n{last}"
    assert [cause.name for cause in kvplan.why(both).causes] == ["no cache"]


def test_flags_are_the_engines_own() -> None:
    vllm = kvplan.why(PASTED[2]["text"]).causes[0].moves[0]
    assert (vllm.flag, vllm.how) == ("--max-model-len", "at most 23648")
    sglang = kvplan.why("Not enough memory. Please try to increase --mem-fraction-static").causes[0].moves[0]
    assert sglang.flag == "--mem-fraction-static"


def test_settings_are_the_engines_own() -> None:
    """Ollama shares llama.cpp's rows, and has no --n-cpu-moe."""
    text = "allocating 144817.04 MiB on device 0: cudaMalloc failed: out of memory alloc_tensor_range: failed"
    told = {name: [move.setting for move in kvplan.why(text, engine=name).causes[0].moves] for name in ("llama.cpp", "ollama")}
    assert "n_cpu_moe" in told["llama.cpp"]
    assert told["ollama"] == [setting for setting in told["llama.cpp"] if setting != "n_cpu_moe"]


def test_an_engine_that_was_named() -> None:
    text = "CUDA out of memory. Tried to allocate 1.00 GiB"
    assert {cause.engine for cause in kvplan.why(text).causes} >= {"vllm", "sglang", "tensorrt-llm"}
    assert {cause.engine for cause in kvplan.why(text, engine="sglang").causes} == {"sglang"}


@pytest.mark.parametrize("engine", ["nosuch", "ideal"])
def test_an_engine_whose_errors_are_not_known(engine: str) -> None:
    with pytest.raises(KvplanError):
        kvplan.why("out of memory", engine=engine)


def test_unknown_text() -> None:
    found = kvplan.why("the weather is fine today")
    assert (found.causes, found.nearest) == ((), ())
    near = kvplan.why("max_num_batched_tokens is smaller than max_num_seqs: must be greater than or equal")
    assert not near.causes
    assert any("max_num_seqs" in known for known in near.nearest)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["why", PASTED[2]["text"]]) == 0
    out = capsys.readouterr().out
    assert out.startswith("vllm from 0.2.6 on and before 0.11: one longest request\n")
    assert "  try: --max-model-len: at most 23648\n" in out
    assert run(["why", "the weather is fine today"]) == 1
    assert capsys.readouterr().out == "nothing is known of this text; give the engine's own lines, or its whole log: kvplan why FILE\n"
    assert run(["why"]) == 2
    assert "paste the error" in capsys.readouterr().err
    assert run(["why", "--format", "json", PASTED[2]["text"]]) == 0
    assert json.loads(capsys.readouterr().out)["causes"][0]["engine"] == "vllm"


def test_schema() -> None:
    assert {"causes", "nearest"} <= set(kvplan.schema("why")["properties"])


OPTIONS = {key for name in engines.explained() for key in engines.facts(name).options}


@pytest.mark.parametrize("engine", engines.explained())
def test_rows(engine: str) -> None:
    for stop in engines.stops(engine):
        holds(stop)


def holds(stop: Stop) -> None:
    """A row finds its own words, whatever their values; its meaning takes nothing that its words do not give; its settings exist."""
    fields = re.findall(r"\{(\w+)(?::[wt])?\}", stop.text)
    said = say(stop.text, dict.fromkeys(fields, "7")).replace("...", " and more ")
    match = expression(stop.text).search(f"ValueError: {said} after it")
    assert match is not None, stop
    assert all(value.strip() for value in match.groupdict().values()), stop
    assert needle(stop.text) in said, stop
    assert set(re.findall(r"\{(\w+)\}", stop.means)) <= set(fields) | ({"choices"} & set(fields)), stop
    for move in stop.moves:
        key = move.setting.removeprefix("option:")
        assert not key or key in (OPTIONS if move.setting.startswith("option:") else NAMES), move.setting
        assert set(re.findall(r"\{(\w+)\}", move.how)) <= set(fields), stop
    assert stop.means
    assert stop.source
    assert not (stop.since and stop.before) or in_force(stop.since, stop.before, stop.since)


def test_wordings_of_one_name_do_not_overlap() -> None:
    """Checks of one condition in other words are of other releases: a verdict has one text."""
    for name in engines.explained():
        checks = [stop for stop in engines.stops(name) if stop.when is not None]
        for one, other in pairwise(checks):
            if one.when is other.when and one.before:
                assert one.before == other.since, one.text


@pytest.mark.parametrize(
    ("engine", "question"),
    [
        ("vllm", {"tp": 8}), ("vllm", {"tp": 3}), ("sglang", {"tp": 8}), ("tensorrt-llm", {"tp": 3}),
        ("llama.cpp", {"kv_dtype": "f16/q8_0", "engine_option": {"flash_attn": "off"}}), ("llama.cpp", {"max_num_seqs": 300}),
        ("vllm", {"max_model_len": 16384, "device": "24GiB"}), ("sglang", {"device": "24GiB"}),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_start_says_what_why_knows(engine: str, question: dict[str, object]) -> None:
    asked = {"device": "h100-80gb", "context": 4096, **question}
    plan = planned("microsoft/phi-4", engine=engine, **asked)
    assert plan.starts is False
    assert kvplan.why(plan.outcome.reason or "", engine=engine).causes


def test_torchs_words_are_told_for_the_engine_that_is_named() -> None:
    text = "File lmdeploy/pytorch/engine.py: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert {cause.engine for cause in kvplan.why(text).causes} == {"lmdeploy"}
    assert "lmdeploy" not in {cause.engine for cause in kvplan.why("CUDA out of memory. Tried to allocate 2.00 GiB").causes}


def test_the_name_of_an_error_alone_says_nothing_without_what_it_is_near() -> None:
    alone = [
        stop for name in engines.explained() for stop in engines.stops(name) if stop.text in ("AssertionError", "ValueError", "KeyError")
    ]
    assert [stop.name for stop in alone if not stop.near] == []
    for of_any_code in (
        "AssertionError",
        "unsupported operand type(s) for +: 'NoneType' and 'int'",
        "bad operand type for unary -: 'NoneType'",
    ):
        assert kvplan.why(f"{of_any_code}\n").causes == ()
    traced = (
        '  File "transformers_utils/config.py", line 1170, in get_hf_text_config\n    assert hasattr(text_config, "x")\nAssertionError\n'
    )
    assert [cause.name for cause in kvplan.why(traced).causes] == ["overrides of a part that is not there"]
    assert kvplan.why(traced.replace("AssertionError", "AssertionError: why")).causes == ()


def test_a_file_is_read_and_a_missing_one_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "serve.log"
    log.write_text("ValueError: No available memory for the cache blocks.\n", encoding="utf-8")
    assert run(["why", str(log)]) == 0
    assert capsys.readouterr().out.startswith("vllm: no cache")
    assert run(["why", str(tmp_path / "other.log")]) == 2
    assert "no such file" in capsys.readouterr().err
