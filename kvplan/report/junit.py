"""Verdicts as JUnit XML: a suite a file, a case an engine; what is not known is an error, what does not fit a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from kvplan.report.printable import printable

_OUTCOMES = {"starts": "failure", "refuses": "failure", "unknown": "error", "broken": "error", "empty": "skipped"}


def text(verdicts: Sequence[dict[str, Any]]) -> str:
    """The document, ready to write."""
    root = ElementTree.Element("testsuites", name="kvplan check")
    files = dict.fromkeys(v["file"] for v in verdicts)
    for file in files:
        cases = [v for v in verdicts if v["file"] == file]
        counts = {kind: str(sum(_OUTCOMES.get(v["status"]) == kind for v in cases)) for kind in ("failure", "error", "skipped")}
        suite = ElementTree.SubElement(
            root, "testsuite", name=printable(file), tests=str(len(cases)), failures=counts["failure"], errors=counts["error"],
            skipped=counts["skipped"],
        )  # fmt: skip
        for v in cases:
            case = ElementTree.SubElement(
                suite, "testcase", classname=printable(file), name=printable(v["name"]), file=printable(file), line=str(v["line"])
            )
            lines = [f"{file}:{f['line']}:{f['column']}: {f['severity']}: {f['message']} [{f['rule']}]" for f in v["findings"]]
            if kind := _OUTCOMES.get(v["status"]):
                outcome = ElementTree.SubElement(case, kind, message=printable(v["message"]))
                if kind != "skipped":
                    outcome.set("type", v["status"])
                outcome.text = printable("\n".join(lines))
            elif lines:
                ElementTree.SubElement(case, "system-out").text = printable("\n".join(lines))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")
