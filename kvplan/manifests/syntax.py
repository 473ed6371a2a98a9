"""Python's own parser on foreign text."""

from __future__ import annotations

import ast
import warnings
from typing import Any


def parse(text: str, mode: str = "exec") -> Any:
    """The tree of a module, or with mode `eval` of an expression; what the parser would warn of is nobody's here.

    Raises SyntaxError, ValueError, RecursionError, MemoryError.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(text, mode=mode)
