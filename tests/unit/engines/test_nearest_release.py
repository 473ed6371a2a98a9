"""A release as people write it -> the one whose rules apply."""

from __future__ import annotations

import pytest

from kvplan.engines.common.releases import nearest_version

KNOWN = ("0.18.3", "0.20.0", "0.20.4", "0.22.0")


@pytest.mark.parametrize(
    ("asked", "found", "noted"),
    [
        (None, "0.22.0", False),
        ("0.20", "0.20.0", False),  # two numbers: the first release of that name
        ("v0.20.0-rc1", "0.20.0", False),
        ("0.20.3", "0.20.0", True),
        ("0.21", "0.20.4", True),
        ("0.2", "0.18.3", True),
        ("master", "0.22.0", True),
    ],
)
def test_a_release_of_two_numbers_is_its_first_of_three(asked: str | None, found: str, noted: bool) -> None:
    release, notes = nearest_version(asked, KNOWN, "an engine")
    assert (release, bool(notes)) == (found, noted)
