"""Who else is on a device: each by name, their sum what the engine sees."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kvplan.cli.commands import cli
from kvplan.engines import ENGINES
from kvplan.errors import SpecError
from tests.conftest import planned
from tests.contract.models import DEVICES

LLAMA = "meta-llama/llama-3.1-8b"


@pytest.mark.parametrize("engine", ENGINES)
def test_each_neighbour_has_a_line_and_the_sum_is_the_same(engine: str) -> None:
    asked = {"engine": engine, "device": "h100" if "h100-80gb" in DEVICES[engine] else "64GiB", "context": 4096}
    named = planned(LLAMA, reserve={"embedder": "2GiB", "desktop": "512MiB"}, **asked)
    one = planned(LLAMA, reserve="2.5GiB", **asked)
    assert (named.margin_bytes, named.verdict) == (one.margin_bytes, one.verdict)
    assert named.ledgers[0].total_bytes == one.ledgers[0].total_bytes
    held = {e.name: e.bytes for e in (*named.ledgers[0].entries, *named.ledgers[0].outside) if e.kind == "others"}
    assert held == {"held by embedder": 2 << 30, "held by desktop": 512 << 20}


def test_on_the_command_line_and_in_json() -> None:
    asked = [
        "estimate",
        LLAMA,
        "--engine",
        "sglang",
        "--device",
        "h100",
        "--context",
        "4k",
        "--reserve",
        "embedder=2GiB",
        "--reserve",
        "1GiB",
    ]
    result = CliRunner().invoke(cli, [*asked, "--format", "json"])
    plan = json.loads(result.output)
    names = {entry["name"]: entry["bytes"] for entry in plan["ledgers"][0]["entries"] if entry["kind"] == "others"}
    assert names == {"held by embedder": 2 << 30, "held by neighbour 2": 1 << 30}
    assert plan["question"]["reserve"]["value"] == 3 << 30


@pytest.mark.parametrize("wrong", [["a=1GiB", "a=2GiB"], ["a=much"], {"a": "much"}, 1.5])
def test_what_is_no_neighbour(wrong: object) -> None:
    with pytest.raises(SpecError, match="reserve"):
        planned(LLAMA, context=4096, reserve=wrong)
