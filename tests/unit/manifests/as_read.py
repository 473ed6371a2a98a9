"""What is read of a text, and what was found in it."""

from __future__ import annotations

from textwrap import dedent

from kvplan.manifests.read import read
from kvplan.manifests.values import Found


def found(text: str, name: str = "serve.sh", **files: str) -> list[Found]:
    """What is read of an indented text; `files` lie beside it, `_` in their names for `.`, `__` for `/`."""
    beside = {key.replace("__", "/").replace("_", "."): value for key, value in files.items()}
    return read(dedent(text).lstrip("\n"), name, None, beside.get)


def opened(one: Found) -> set[str]:
    return {unresolved.what for unresolved in one.unresolved}


def rules(one: Found) -> set[str]:
    return {finding.rule for finding in one.findings}
