"""Findings as SARIF 2.1.0 (OASIS), for code scanning: each with its rule, file, line and column."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from kvplan.report.printable import printable
from kvplan.rows import rows

RULES = dict(rows("report/sarif.tsv"))


def text(verdicts: Sequence[dict[str, Any]], version: str = "") -> str:
    """The log of one run."""
    results = [_result(v, f) for v in verdicts for f in v["findings"]]
    used = dict.fromkeys(r["ruleId"] for r in results)
    rules = [{"id": rule, "shortDescription": {"text": RULES.get(rule, "A fact that the file does not say")}} for rule in used]
    driver: dict[str, Any] = {"name": "kvplan", "rules": rules} | ({"version": version} if version else {})
    return json.dumps(
        {
            "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
        },
        indent=2,
    )


def _result(v: dict[str, Any], f: dict[str, Any]) -> dict[str, Any]:
    region = {"startLine": max(f["line"], 1), "startColumn": max(f["column"], 1)}
    place = {"artifactLocation": {"uri": quote(os.fsencode(v["file"].removeprefix("./")))}, "region": region}
    return {
        "ruleId": f["rule"],
        "level": f["severity"],
        "message": {"text": printable(f"{v['name']}: {f['message']}")},
        "locations": [{"physicalLocation": place}],
    }
