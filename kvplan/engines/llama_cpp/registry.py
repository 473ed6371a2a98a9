"""Which models a build of llama.cpp does not know, by unknown.tsv, and which its converter makes files of, by converted.tsv."""

from __future__ import annotations

from kvplan.rows import rows

CONVERTED = frozenset(named for (named,) in rows("engines/llama_cpp/converted.tsv"))
_LAST = {named: int(build) for build, names in rows("engines/llama_cpp/unknown.tsv") for named in names.split()}


def unknown(named: str | None, build: int | None) -> str | None:
    """Why a build does not load a model of that class or architecture, in its words; None where it does, or where that is not known."""
    last = _LAST.get(named or "")
    if last is None or build is None or build > last:
        return None
    return f"unknown model architecture ({named}, which b{last} does not have yet)"
