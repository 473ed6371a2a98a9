"""What tools/fit_budget.py and tools/fit_engines.py write: the constants that estimates read, and where those of vLLM are from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from budget_terms import TERMS, facts
from log_cases import Case

from kvplan.constants import Constants
from kvplan.startup_logs.fitting import COVERAGE

if TYPE_CHECKING:
    from budget_spreads import Prediction

HEADER = "# Written by tools/fit_budget.py from published start-up logs: run it again, do not edit."


def dump(constants: Constants) -> str:
    """The file that estimates read."""
    terms = {name: (what, unit) for name, (_, what, unit) in TERMS.items()}
    return constants_file(constants, f"{HEADER}\n# Cases, sources and residuals: vllm.residuals.yaml.", terms)


def constants_file(constants: Constants, comment: str, terms: Mapping[str, tuple[str, str]]) -> str:
    """The text of kvplan/calibration/<engine>.yaml. terms: a constant's name -> what it is, its unit."""
    lines = [comment, f"engine: {constants.engine}", f"coverage: {COVERAGE}", "constants:"]
    for c in constants.values:
        what, unit = terms[c.name]
        instead = f', source: "{c.source}"' if c.source != "published logs" else ""
        lines.append(
            f"  - {{name: {c.name}, since: '{c.since}', value: {c.value:.6g}, low: {c.low:.6g}, high: {c.high:.6g},"
            f" cases: {c.cases}, groups: {c.groups},"
            f' unit: {unit}, what: "{what}"{instead}}}'
        )
    lines.append("spreads:  # how far the cache of a rank is off, as a share of device memory, leave-one-group-out")
    lines += [f"  - {{kind: {s.kind}, low: {s.low:.5f}, high: {s.high:.5f}, cases: {s.cases}}}" for s in constants.spreads]
    return "\n".join(lines) + "\n"


def dump_residuals(predictions: Sequence[Prediction], cases: Sequence[Case]) -> str:
    """The provenance: residuals of every case and where its log is."""
    used = sorted({p.case.id for p in predictions})
    lines = [HEADER, "engine: vllm"]
    lines.append(
        "# predicted - logged cache, as a share of device memory, from the constants of the other groups; and beyond what its lines hold"
    )
    lines.append("residuals:")
    for p in sorted(predictions, key=lambda p: p.case.id):
        if p.error is not None:
            share = p.error / p.device
            lines.append(f"  - {{case: {p.case.id}, group: {p.case.group}, kind: {p.kind}, error: {share:.5f}, beyond: {p.beyond:.5f}}}")
    sources = {case.id: str(case.row["source"]).replace('"', "'") for case in cases if case.id in used}
    sources |= {f"fact-{i + 1}": fact.source for i, fact in enumerate(facts())}
    lines.append("sources:")
    lines += [f'  {name}: "{source[:160]}"' for name, source in sorted(sources.items())]
    return "\n".join(lines) + "\n"
