"""Which release of an engine first has a model's class, by tables of what its releases list."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engines.common.releases import in_force, nearest_version, three_parts
from kvplan.rows import rows


def listed(table: str, column: int = 1) -> dict[str, str]:
    """Release -> the classes that it is the first to have, of a table of engines/ (`lmdeploy/classes`)."""
    return {row[0]: row[column] for row in rows(f"engines/{table}.tsv") if len(row) > column and row[column]}


class Registry:
    """Classes by the first release that has them.

    first     release -> the classes that it is the first to have, in one text
    versions  the releases whose rules are known: a question that names another has been given those of one before it
    ahead     by fewer such releases a start may be older than its class: builds of a branch are called by the release before them
    """

    def __init__(self, first: Mapping[str, str], versions: tuple[str, ...], *, ahead: int = 1) -> None:
        self.first = {named: release for release, classes in first.items() for named in classes.split()}
        self.versions, self.ahead = versions, ahead

    def later(self, named: str | None, release: str | None) -> str:
        """The first release with a class, where that is after `release`; empty where it is not, or no release lists the class."""
        first = self.first.get(named or "", "")
        if not first:
            return ""
        found = self.versions.index(nearest_version(first, self.versions, "")[0])
        known = min(first, self.versions[max(found + 1 - self.ahead, 0)], key=three_parts)
        return first if in_force("", known, release) else ""
