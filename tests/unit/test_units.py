from __future__ import annotations

import pytest

from kvplan.errors import SpecError
from kvplan.units import parse_bytes, parse_tokens, round_up, show_bytes


@pytest.mark.parametrize(("text", "expected"), [("128k", 131072), ("1m", 1048576), (4096, 4096), ("1.5k", 1536), ("8_192", 8192)])
def test_tokens(text, expected):
    assert parse_tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("40GiB", 40 * 2**30), ("80GB", 80 * 10**9), ("1.5 GiB", 3 * 2**29), ("512", 512), ("24gib", 24 * 2**30)],
)
def test_bytes(text, expected):
    assert parse_bytes(text) == expected


WRONG = ["", "k", "-1", "1e9", "nan", "inf", "12 parsecs", True, 1.5, None, -5, 1 << 70, "9" * 30, "0x10", "\u0661"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(SpecError):
        parse_tokens(text)


def test_rounding_and_showing():
    assert round_up(17, 16) == 32
    assert show_bytes(1536 * 2**20) == "1.500 GiB"
    assert show_bytes(-2048) == "-2.000 KiB"
    assert show_bytes(7) == "7 B"
