"""The first line of a search is its answer, no assumption is said of what the plan counts, and tables fit a terminal of 80 columns."""

from __future__ import annotations

import os

import pytest

import kvplan
from kvplan.cli import run
from kvplan.report import assumed, table
from kvplan.report.table import plans_text

LLAMA = "meta-llama/llama-3.1-8b"


def first_line(capsys: pytest.CaptureFixture[str], *typed: str) -> str:
    run(list(typed))
    return " ".join(capsys.readouterr().out.partition("\n\n")[0].split())


def test_fit_says_what_carries_it(capsys: pytest.CaptureFixture[str]) -> None:
    """16.06 GB of weights and 64 x 4 GiB of cache: 271 GiB are two of 139.8 GiB and four of 79.2."""
    asked = [LLAMA, "--engine", "ideal", "--context", "32k", "--batch", "64"]
    assert first_line(capsys, "fit", *asked, "--devices", "h100,h200") == (
        "2 x h200 (tp 2) carries 64 requests of 32,768 tokens, the least memory."
    )
    assert first_line(capsys, "fit", *asked, "--devices", "h100,h200", "--price", "h100=1", "--price", "h200=9") == (
        "4 x h100-80gb (tp 4) carries 64 requests of 32,768 tokens, the lowest price."
    )
    assert first_line(capsys, "fit", *asked, "--devices", "rtx-3060") == f"No device that was tried carries {LLAMA}."


def test_compare_says_which_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """15.0 GiB of weights and 16 GiB of cache on 22, 44 and 79 GiB."""
    said = first_line(capsys, "compare", LLAMA, "--engine", "ideal", "--device", "l4,l40s,h100", "--context", "16k", "--batch", "8")
    assert said == "Fits: 2: l40s, 3: h100. Does not fit: 1: l4."
    close = first_line(
        capsys, "compare", LLAMA, "--device", "h100", "--context", "100k,101k", "--batch", "4", "--engine-option", "platform=cuda"
    )
    assert close.startswith(("Fits: ", "Too close to call: "))
    run(["compare", LLAMA, "google/gemma-2-9b", "--context", "8k"])
    out = capsys.readouterr().out
    assert not out.startswith(("Fits", "Does"))
    assert "  15.0 GiB  " in out  # 16,060,522,496 B


def test_rows_say_first_whether_they_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", LLAMA, "--engine", "ideal", "--device", "l40s", "--context", "8k,512k"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fits ")
    assert [line.split()[0] for line in lines[2:4]] == ["yes", "no"]


def test_memory_that_the_system_takes_is_not_said_to_be_free() -> None:
    shared = kvplan.estimate(LLAMA, engine="ollama", device="gb10", context="8k", weight_dtype="q4_k_m", advise=False)
    said = " ".join(text for text, _, _ in assumed.rows(shared))
    assert "4.0 GiB for the system and the server" in said
    assert "nothing else on the GPU" not in said
    alone = kvplan.estimate(LLAMA, engine="ollama", device="l4", context="8k", weight_dtype="q4_k_m", advise=False)
    assert "nothing else on the GPU" in " ".join(text for text, _, _ in assumed.rows(alone))


@pytest.mark.parametrize("questions", [[{"context": "32k"}], [{"context": "8k"}, {"context": "32k"}]])
def test_tables_fit_a_narrow_terminal(questions: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of a table is longer than 80 columns, and names of lines are whole before their exact bytes are left out."""
    plans = [kvplan.estimate("qwen/qwen2.5-vl-7b", device="l4", batch=2, advise=False, **one) for one in questions]
    monkeypatch.setattr(table.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(table.shutil, "get_terminal_size", lambda _=None: os.terminal_size((80, 24)))
    text = plans_text(plans, "table") if len(plans) > 1 else table.details(plans[0])
    tables = text.partition("\nwhat ")[0]
    assert max(map(len, tables.splitlines())) <= 80
    assert len(plans) > 1 or "weights: rotary tables" in tables


def test_a_simulation_of_what_does_not_start_says_so_first(capsys: pytest.CaptureFixture[str]) -> None:
    """One request of 131,072 tokens takes 16 GiB, beside 15 GiB of weights on 22."""
    assert first_line(capsys, "simulate", LLAMA, "--device", "l4", "--users", "5", "--requests", "10").startswith("No: 1 x L4 lacks ")
