"""Options of the test run."""

from __future__ import annotations

import os

import pytest

# Before torch is imported: a thread pool per worker on the same cores makes small models twenty times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write tests/golden/*.txt anew")
