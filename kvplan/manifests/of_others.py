"""An option that another engine has and this one calls otherwise: `--gpu-memory-utilization` in a command of SGLang's."""

from __future__ import annotations

import re

from kvplan import engines
from kvplan.engines.common.arguments import Arguments
from kvplan.engines.common.words import Finding

_UNKNOWN = re.compile(r" has no option (--?[\w-]+) that we know$")


def told(finding: Finding, table: Arguments) -> Finding:
    """The finding with whose option it is, and what it is called here, where both are known."""
    match = _UNKNOWN.search(finding.message) if finding.rule == "unknown-option" else None
    if match is None:
        return finding
    name = match[1].replace("_", "-")
    found = [
        (engines.facts(engine).title, row.to)
        for engine in engines.served()
        for row in engines.arguments(engine).rows
        if name in row.names and row.to
    ]
    here = {to: max((name for row in table.rows if row.to == to for name in row.names[:3]), key=len, default="") for _, to in found}
    title, own = next(((title, here[to]) for title, to in found if here[to]), ("", ""))
    if not own:
        return finding
    return finding._replace(message=f"{finding.message}; it is {title}'s, and {own} here")
