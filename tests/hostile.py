"""How a reader is to refuse a hostile file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from kvplan.errors import FormatError


def refused_at_once(read: Callable[[bytes], object], data: bytes, says: str, most_bytes: int) -> FormatError:
    """The refusal of a hostile file, with its place in the file: in no more memory than `most_bytes`."""
    tracemalloc.start()
    with pytest.raises(FormatError, match=says) as caught:
        read(data)
    assert tracemalloc.get_traced_memory()[1] < most_bytes
    tracemalloc.stop()
    return caught.value
