"""Findings as SARIF 2.1.0 (OASIS), for code scanning: each with its rule, file, line and column."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from kvplan.report.printable import printable

RULES = {
    "bad-comment": "A kvplan comment that says nothing readable",
    "bad-config": "A configuration file of the engine that can not be read",
    "bad-quantity": "A size or count that Kubernetes refuses",
    "bad-value": "A value that the engine does not take",
    "by-variables": "A server of own code, read by the names of its variables",
    "carriage-return": "A line that a shell does not continue",
    "config-read": "A configuration file beside the checked one was read",
    "contradiction": "Settings that contradict",
    "cut-command": "Options on a line that a shell takes for a command of its own",
    "does-not-fit": "The asked load does not stay resident",
    "does-not-start": "The engine would not start",
    "given-twice": "An option given twice: the last value counts",
    "host-memory": "More host memory than the container may hold",
    "host-memory-weights": "Weights larger than the memory that the container may hold",
    "idle-devices": "More devices than the parallel sizes use",
    "longer-allowed": "Lengths beyond the model's own are allowed",
    "may-run-out": "Memory that a start leaves too little of",
    "no-effect": "A value that no template reads",
    "no-engine": "No engine in the file",
    "not-converted": "A generating model under a pooling runner without a conversion",
    "not-known-kind": "A kind of file of which only the engine's command or options are read",
    "not-modelled-either": "A setting that changes memory and is not modelled",
    "not-modelled-engine": "An engine that is not modelled",
    "not-modelled-less": "A setting that lowers the memory on the device and is not modelled",
    "not-modelled-more": "A setting that raises memory and is not modelled",
    "overridden": "A setting that replaces what the model's own config says",
    "not-all-layers": "Layers that the checkpoint and the config do not share",
    "not-modelled-rope": "A setting that changes the model's own length or shape",
    "not-read": "A file that is not read",
    "not-split": "Several words where one is meant",
    "not-text": "A number where Kubernetes takes text",
    "note": "An assumption",
    "number-cut": "A number that the engine reads as another",
    "open-words": "A variable that may hold more options",
    "removed-option": "An option that this release no longer has",
    "router": "A server that loads models on request",
    "runner-not-chosen": "A conversion that does not choose the runner",
    "runs-split": "A model of which a part stays in RAM",
    "shared-gpu": "Engines on one GPU that do not fit together",
    "shorter-pool": "A pool smaller than the model's length",
    "small-shm": "Shared memory smaller than the workers need",
    "tag": "A tag of a private image that may be the engine's release",
    "template": "A text that another tool fills in first",
    "too-close-to-call": "A margin smaller than what is not known",
    "too-few-devices": "Fewer devices than the parallel sizes need",
    "too-long": "A length beyond the model's own",
    "too-new-option": "An option that this release does not have yet",
    "unclosed": "A quote or bracket that is left open",
    "unknown-choice": "A value that this release does not take",
    "unknown-option": "An option that the engine does not have",
    "unknown-variable": "A variable that the engine may read",
    "unreadable": "A file that can not be read",
    "weights-as-said": "The format of the weights is the command's, not the catalogue's",
    "wrapper": "A program that is taken to run the command behind it",
}


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
