"""`--format html`: one page that asks for nothing, says the plan's numbers, and takes every name as text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

import kvplan
from kvplan.cli import run
from kvplan.report import render
from tests.conftest import one_block

MODEL = "meta-llama/llama-3.1-8b"
HOSTILE = "</title><script>alert(1)</script><img src=//x.example onerror=alert(2)>\u202e\"'&"
TESTS = Path(__file__).parents[1]
VOID = {"meta", "br", "img", "link"}


class Page(HTMLParser):
    """Elements that are open must be closed in order; what is shown, which tags there are, what they ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.shown: list[str] = []
        self.cells: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)
        if tag == "tr":
            self.cells.append([])

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.shown.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1].append(data)


QUESTIONS = {
    "yes": {"device": "h100", "context": "8k", "batch": 32},
    "no": {"device": "l4", "context": "32k", "batch": 64},
    "refused": {"device": "h100", "tp": 3},
    "ram": {"device": "rtx-3060", "engine": "llama.cpp", "context": "32k"},
    "no device": {"context": "8k"},
    "cache alone": {"engine": "vllm", "kv_memory": "4GiB", "context": "8k"},
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_byte_of_the_plan_is_on_the_page(name):
    plan = kvplan.estimate(MODEL, **QUESTIONS[name])
    page = Page(render([plan], "html"))
    rows = {tuple(row[:1] + row[2:4]) for row in page.cells if len(row) > 3}
    for row in plan.rows():
        before = "" if row["counted"] else "beside it: "
        assert (before + row["line"], f"{row['bytes']:,}", row["basis"]) in rows
    assert any(f"{plan.cache.bytes_per_sequence:,}" in row for row in page.cells)
    asked = {tuple(row) for row in page.cells if len(row) == 3}
    assert ("context", f"{plan.question['context'][0]:,}", plan.question["context"][1]) in asked


def test_the_bars_are_as_long_as_the_bytes():
    plan = kvplan.estimate(MODEL, device="80GiB", engine="ideal", context="8k", batch=8)
    text = render([plan], "html")
    # Llama 3.1 8B: 131,072 B of cache a token (2 x 32 layers x 8 heads x 128 x 2 B); a bar of 80 GiB is 760 wide
    cache = 8 * 8192 * 131_072
    assert f'class="cache" x="{(weights := 16_060_522_496) * 760 / (80 << 30):.2f}"' in text
    assert f'width="{(weights + cache) * 760 / (80 << 30) - weights * 760 / (80 << 30):.2f}"' in text
    assert f"<title>cache: {cache:,} B</title>" in text


def test_the_curve_marks_what_was_asked_and_the_longest_that_fits():
    plan = kvplan.estimate(MODEL, device="h100", context="8k", batch=32)
    shown = " ".join(Page(render([plan], "html")).shown)
    assert "asked: 8,192 tokens, 32.0 GiB" in shown  # 32 x 8,192 x 131,072 B
    assert f"the longest that fits: {plan.capacity.max_context_at_batch:,}" in shown


def test_nothing_is_asked_for_and_nothing_runs(capsys):
    commands = (
        ["estimate", MODEL, "--device", "h100"],
        ["estimate", MODEL, "--context", "8k,16k"],
        ["fit", MODEL, "--devices", "h100,l4", "--engine", "ideal"],
        ["compare", MODEL, "--context", "8k,16k", "--engine", "ideal"],
        ["simulate", MODEL, "--device", "h100,h200", "--requests", "5", "--max-model-len", "8k"],
        ["simulate", MODEL, "--device", "h100", "--requests", "5", "--max-model-len", "8k", "--hit-curve"],
        ["sweep", MODEL, "--engine", "ideal", "--grid", "context=8k,16k"],
        ["reconcile", str(TESTS / "logs" / "vllm-h100.log")],
        ["validate", "--check", str(TESTS.parent / "validation" / "cpu-llama.json")],
    )
    for command in commands:
        if command[0] in ("simulate", "sweep"):
            pytest.importorskip("numpy", reason="the simulate extra brings numpy")
        assert run([*command, "--format", "html"]) == 0
        out = capsys.readouterr().out
        assert out.startswith("<!doctype html>")
        assert out.count("<html") == 1
        page = Page(out)
        assert not page.tags & {"script", "link", "img", "iframe", "a", "object", "form", "base", "embed"}
        assert not {name for name, _ in page.attributes if name in ("src", "href", "xlink:href", "style") or name.startswith("on")}
        assert any(name == "content" and (value or "").startswith("default-src 'none'") for name, value in page.attributes)


def test_hostile_names_are_text():
    spec = one_block({"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64}, 2, name=HOSTILE)
    text = render([kvplan.estimate(spec, engine="ideal", context=100, device="24GiB")], "html")
    page = Page(text)
    assert not page.tags & {"script", "img"}
    assert "\u202e" not in text
    assert HOSTILE.replace("\u202e", "\\u202e") in "".join(page.shown)


def test_a_notebook_gets_a_part_of_a_page():
    shown = kvplan.estimate(MODEL, device="h100")._repr_html_()
    assert "<html" not in shown
    assert "<table>" in shown


def test_what_reconcile_says_beside_its_rows_is_on_its_page(capsys):
    log = str(TESTS / "logs" / "vllm-h100.log")
    run(["reconcile", log])
    told = capsys.readouterr().out
    run(["reconcile", log, "--format", "html"])
    shown = " ".join(Page(capsys.readouterr().out).shown)
    beside = [line.partition(": ")[2] for line in told.splitlines() if line.startswith(("note: ", "not compared: "))]
    assert all(line in shown for line in beside)
    assert "are within their intervals" in shown
    assert "0.95" in shown  # the fraction that the log says (gpu_memory_utilization)
