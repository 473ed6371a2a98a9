"""What check prints for machines, and what diff says."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import kvplan
from kvplan.manifests import Source, check, diff
from kvplan.report import findings, github, junit, sarif

GOOD = Source("a/good.sh", "# kvplan: device=h100\nvllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192\n")
BAD = Source("a/bad.sh", "# kvplan: device=h100\nCUDA_VISIBLE_DEVICES=0 vllm serve meta-llama/Llama-3.1-8B-Instruct \\\n  -tp 2\n")
OPEN = Source("b, c:d.sh", "vllm serve /models/50%\n")
BROKEN = Source("e.yaml", "a: [")


def rows() -> list[dict[str, Any]]:
    return [v.as_dict() for v in check([GOOD, BAD, OPEN, BROKEN], kvplan.estimate)]


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


def test_text_for_people() -> None:
    text = findings.text(rows())
    assert text.splitlines()[0].startswith("ok a/good.sh:2 vllm meta-llama/Llama-3.1-8B-Instruct: 1 x 8,192 tokens")
    assert text.endswith("1 fits, 1 refuses, 1 unknown, 1 broken")


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


def test_diff_pairs_by_name() -> None:
    services = "services:\n" + "".join(
        f"  {name}:\n    # kvplan: device=l40s\n    image: vllm/vllm-openai:v0.11.0\n    command: [Qwen/Qwen3-8B, --max-num-seqs, '{n}']\n"
        for name, n in (("a", 8), ("b", 16))
    )
    old = check([Source("old.yaml", services)], kvplan.estimate)
    new = check([Source("new.yaml", services.replace("'16'", "'32'").replace("  a:", "  c:"))], kvplan.estimate)
    changes = {change.name: change for change in diff(old, new)}
    assert changes["services/b"].settings["max_num_seqs"] == (16, 32)
    assert changes["services/c"].settings == {}
    assert [change.name for change in diff(old, ())] == ["services/a", "services/b"]
