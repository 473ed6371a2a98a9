"""JSON from strangers: refused with an offset, before much of it is built."""

from __future__ import annotations

import tracemalloc

import pytest

from kvplan.errors import FormatError
from kvplan.importers.strict_json import fail_in, parse

FAIL = fail_in("x.json", start=100)


@pytest.mark.parametrize(
    ("data", "says", "offset"),
    [
        (b'{"a": [' + b"[]," * 1_000_000 + b"[]]}", "more than", 100),
        (b'{"a": [' + b"1," * 2_000_000 + b"1]}", "more than", 100),
        (b"[" * 200_000, "nested too deep", 100),
        (b'{"a":' * 200_000, "nested too deep", 100),
        (b"[" * 40 + b"]" * 40, "nested deeper than 32", 100),
        (b'{"a": 1' + b"0" * 100_000 + b"}", "more digits", 100),
        (b'{"a": 1, "a": 2}', "a: is there twice", 100),
        (b'{"a": {"\\u0062": 1, "b": 2}}', "b: is there twice", 100),
        (b'{"a": NaN}', "NaN is no number", 100),
        (b'{"a": Infinity}', "Infinity is no number", 100),
        ('{"ä": }'.encode(), "not JSON", 107),
        (b'{"a": "\xff"}', "not UTF-8", 107),
        (b"", "not JSON", 100),
        (b'{"a": 1} x', "not JSON: Extra data", 109),
        (b"\xef\xbb\xbf{}", "not JSON", 100),
    ],
)
def test_refused_with_an_offset_and_little_memory(data: bytes, says: str, offset: int) -> None:
    tracemalloc.start()
    with pytest.raises(FormatError, match=says) as caught:
        parse(data, FAIL)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.offset == offset
    assert peak < 40 * len(data) + (1 << 20)
    if "more than" in says:
        assert peak < 1 << 20  # nothing was built


def test_what_configs_may_have() -> None:
    assert parse(b'\xef\xbb\xbf{"a": [0.0, Infinity]}', FAIL, infinity=True) == {"a": [0.0, float("inf")]}
    with pytest.raises(FormatError, match="NaN is no number"):
        parse(b'{"a": NaN}', FAIL, infinity=True)
