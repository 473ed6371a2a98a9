"""What check prints for machines, and what diff says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import kvplan
from kvplan.manifests import Source, check, diff
from kvplan.report import findings, github, junit, sarif
from tests.conftest import planned

FILES = Path(__file__).parents[2] / "manifests"
GOOD = Source("a/good.sh", "# kvplan: device=h100\nvllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192\n")
BAD = Source("a/bad.sh", "# kvplan: device=h100\nCUDA_VISIBLE_DEVICES=0 vllm serve meta-llama/Llama-3.1-8B-Instruct \\\n  -tp 2\n")
OPEN = Source("b, c:d.sh", "vllm serve /models/50%\n")
BROKEN = Source("e.yaml", "a: [")


def rows() -> list[dict[str, Any]]:
    return [v.as_dict() for v in check([GOOD, BAD, OPEN, BROKEN], planned)]


def test_verdicts_are_plain_data() -> None:
    data = json.loads(json.dumps(rows()))
    assert [(row["file"], row["status"], row["exit_code"]) for row in data] == [
        ("a/good.sh", "fits", 0),
        ("a/bad.sh", "refuses", 1),
        ("b, c:d.sh", "unknown", 2),
        ("e.yaml", "broken", 2),
    ]
    assert data[0]["plan"]["schema"] == "kvplan.plan/1"


def test_github_commands_are_escaped() -> None:
    lines = github.text(rows()).splitlines()
    assert (
        "::error file=a/bad.sh,line=2,col=1,title=kvplan too-few-devices::vllm meta-llama/Llama-3.1-8B-Instruct: "
        "tp 2 needs 2 devices and gets 1; it would not start" in lines
    )
    (first,) = [line for line in lines if "open-model" in line]
    assert first.startswith("::warning file=b%2C c%3Ad.sh,line=1,col=12,title=kvplan open-model::")
    assert "50%25" in first
    assert lines[0].startswith("::notice file=a/good.sh,line=2,")


def test_junit_counts() -> None:
    root = ElementTree.fromstring(junit.text(rows()))
    suites = {suite.get("name"): suite for suite in root}
    assert {name: (s.get("tests"), s.get("failures"), s.get("errors")) for name, s in suites.items()} == {
        "a/good.sh": ("1", "0", "0"),
        "a/bad.sh": ("1", "1", "0"),
        "b, c:d.sh": ("1", "0", "1"),
        "e.yaml": ("1", "0", "1"),
    }
    assert "a/bad.sh:2:1: error: tp 2 needs 2 devices" in (suites["a/bad.sh"][0][0].text or "")


def test_junit_holds_any_text() -> None:
    row = {**rows()[0], "status": "refuses", "message": "a\x00b\x1b[0m <&> \ud800"}
    assert ElementTree.fromstring(junit.text([row])) is not None


def test_sarif_points_at_lines() -> None:
    log = json.loads(sarif.text(rows(), "0.1.0"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    places = {r["ruleId"]: r["locations"][0]["physicalLocation"] for r in run["results"]}
    assert places["too-few-devices"]["artifactLocation"]["uri"] == "a/bad.sh"
    assert places["too-few-devices"]["region"] == {"startLine": 2, "startColumn": 1}
    assert places["open-model"]["artifactLocation"]["uri"] == "b%2C%20c%3Ad.sh"
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {r["ruleId"] for r in run["results"]}
    assert {r["level"] for r in run["results"]} <= {"error", "warning", "note"}


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    """The verdicts on every file of tests/manifests, and texts that a format could stumble over."""
    files = sorted(str(path) for path in FILES.rglob("*") if path.is_file())
    odd = [Source("a b/ü,%:\n\x1b.sh", "vllm serve '/m/<&>%0A::error::\x07\nb' --no-such=%\n")]
    return [v.as_dict() for v in check([*files, *odd], planned)]


def test_sarif_keeps_the_rules_of_its_schema(everything: list[dict[str, Any]]) -> None:
    """SARIF 2.1.0 (OASIS): 3.19.2 driver name, 3.27.10 levels, 3.30.5 lines and columns from 1, 3.49.3 one rule an id, 3.4.3 URI
    references (RFC 3986: no blanks or control characters, a colon in the first segment only behind a scheme)."""
    log = json.loads(sarif.text(everything, "0.1.0"))
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (log["version"], driver["name"], driver["version"], run["columnKind"]) == ("2.1.0", "kvplan", "0.1.0", "unicodeCodePoints")
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)) == len({r["ruleId"] for r in run["results"]})
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", one) for one in ids)
    assert all(one in sarif.RULES or one.startswith("open-") for one in ids)
    assert len(run["results"]) == sum(len(v["findings"]) for v in everything)
    for result in run["results"]:
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"].strip()
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert min(physical["region"].values()) >= 1
        assert re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,;=@/%-]+", physical["artifactLocation"]["uri"])


def test_junit_is_well_formed_and_counts_add_up(everything: list[dict[str, Any]]) -> None:
    root = ElementTree.fromstring(junit.text(everything))
    assert sum(int(suite.get("tests", 0)) for suite in root) == len(everything)
    for kind, statuses in (("failures", ("starts", "refuses")), ("errors", ("unknown", "broken")), ("skipped", ("empty",))):
        assert sum(int(suite.get(kind, 0)) for suite in root) == sum(v["status"] in statuses for v in everything)


def test_github_commands_are_one_line_each(everything: list[dict[str, Any]]) -> None:
    """%, line ends, and in properties : and , are escaped (actions/toolkit command.ts)."""
    lines = github.text(everything).split("\n")
    assert len(lines) == sum(max(len(v["findings"]), 1) for v in everything)
    for line in lines:
        match = re.fullmatch(r"::(error|warning|notice) file=([^,:]+),line=[1-9]\d*,col=[1-9]\d*,title=[^,:]+::(.+)", line)
        assert match, line
        assert not re.search(r"%(?!25|0A|0D|3A|2C)", match[2] + match[3])


def test_text_for_people() -> None:
    text = findings.text(rows())
    assert text.splitlines()[0].startswith("ok a/good.sh:2 vllm meta-llama/Llama-3.1-8B-Instruct: 1 x 8,192 tokens")
    assert text.endswith("1 fits, 1 refuses, 1 unknown, 1 broken; 2 notes more: --format json")


def test_diff_of_a_cache_format() -> None:
    """Half the bytes a token: 131,072 B in bf16, 65,536 B in fp8; with the cache given in bytes, twice the tokens."""
    new = GOOD._replace(text=GOOD.text.replace("8192", "8192 --kv-cache-dtype fp8 --kv-cache-memory-bytes 16G"))
    old = GOOD._replace(text=GOOD.text.replace("8192", "8192 --kv-cache-memory-bytes 16G"))
    (change,) = diff(check([old], kvplan.estimate), check([new], kvplan.estimate))
    assert change.settings == {"kv_dtype": ("auto", "fp8")}
    assert change.capacity["tokens"] == (16 * 2**30 // 131_072, 16 * 2**30 // 65_536)
    weights = change.memory["weights"]
    assert weights[0] == weights[1]
    assert "kv_dtype: auto -> fp8" in findings.change_text([change.as_dict()])


def services(**models: str) -> str:
    return "services:\n" + "".join(
        f"  {name}:\n    # kvplan: device=l40s\n    image: vllm/vllm-openai:v0.11.0\n    command: [{model}]\n"
        for name, model in models.items()
    )


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        ({"a": "Qwen/Qwen3-8B"}, {"a": "Qwen/Qwen3-4B"}, [("a", "a")]),
        ({"a": "Qwen/Qwen3-8B"}, {"b": "Qwen/Qwen3-8B"}, [("a", "b")]),
        ({"a": "Qwen/Qwen3-8B"}, {"b": "Qwen/Qwen3-4B"}, [(None, "b"), ("a", None)]),
        ({"a": "Qwen/Qwen3-8B", "b": "Qwen/Qwen3-4B"}, {"b": "Qwen/Qwen3-4B"}, [("b", "b"), ("a", None)]),
        ({"a": "Qwen/Qwen3-8B"}, {"b": "Qwen/Qwen3-4B", "a": "Qwen/Qwen3-8B"}, [(None, "b"), ("a", "a")]),
        ({"a": "Qwen/Qwen3-8B", "b": "Qwen/Qwen3-4B"}, {"c": "Qwen/Qwen3-4B", "d": "Qwen/Qwen3-8B"}, [("b", "c"), ("a", "d")]),
    ],
)
def test_diff_pairs_by_name_then_by_model(old: dict[str, str], new: dict[str, str], pairs: list[tuple[str | None, str | None]]) -> None:
    changes = diff(check([Source("a.yaml", services(**old))], planned), check([Source("b.yaml", services(**new))], planned))
    names = [tuple(v.name.removeprefix("services/") if v else None for v in (change.old, change.new)) for change in changes]
    assert names == pairs


def test_diff_of_commands_without_names() -> None:
    """A command goes by its model, so another model is another name; in order they are the same place."""
    old, new = GOOD, GOOD._replace(text=GOOD.text.replace("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B"))
    (change,) = diff(check([old], kvplan.estimate), check([new], kvplan.estimate))
    assert change.settings["model"] == ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B")
    assert change.exit_code == 0
    assert "vllm meta-llama/Llama-3.1-8B-Instruct -> vllm Qwen/Qwen3-32B: fits -> fits" in findings.change_text([change.as_dict()])


def test_the_exit_code_of_a_change_is_that_of_the_new() -> None:
    good, bad, open_, broken = (check([one], kvplan.estimate) for one in (GOOD, BAD, OPEN, BROKEN))
    assert [max(c.exit_code for c in diff(good, new)) for new in (good, bad, open_, broken)] == [0, 1, 2, 2]
    assert [max(c.exit_code for c in diff(old, good)) for old in (bad, open_, broken)] == [0, 0, 0]
    assert [c.exit_code for c in diff(good, ())] == [0]
    (change,) = diff(good, bad)
    assert "needs 2 devices" in findings.change_text([change.as_dict()])
