"""What README.md says of itself. That its commands and snippets run: tests/docs."""

from __future__ import annotations

import re
from pathlib import Path

from kvplan.cli.commands import cli
from tests.conftest import shared
from tests.docs.pages import blocks
from tools import accuracy_lines, reference

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commands_are_found():
    assert len([command for block in blocks(README) for command in block.commands]) >= 5


def test_the_two_commands_are_first():
    two = re.search(r"^    make estimate .*\n    make test ", README, re.MULTILINE)
    assert two
    assert two.start() < README.index("```console")


def test_the_table_on_accuracy_is_that_of_the_budget_page(request):
    now = accuracy_lines.written(README, (ROOT / "docs" / "budget.md").read_text(encoding="utf-8"))
    if request.config.getoption("--rewrite-golden"):
        (ROOT / "README.md").write_text(now, encoding="utf-8")
    assert now == README or request.config.getoption("--rewrite-golden")


def test_the_rows_that_it_counts_are_there():
    for name, said in (("vllm_oracle.jsonl", "1,253 plans"), ("llamacpp_oracle.jsonl", "1,442 contexts")):
        rows = shared(f"data/{name}").read_text(encoding="utf-8").splitlines()
        assert f"{len(rows):,} {said.split()[1]}" == said
        assert said in README


def test_it_names_only_options_and_commands_that_exist():
    page = reference.page()
    assert set(re.findall(r"--[a-z][a-z-]+", README)) <= set(re.findall(r"--[a-z][a-z-]+", page))
    assert {command.split()[1] for block in blocks(README) for command in block.commands} <= {*cli.list_commands(None)}  # type: ignore[arg-type]


def test_it_is_one_screen():
    assert len(README.splitlines()) <= 80
