"""What an engine's error means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.startup_logs.why import Why


def why(text: str | Path, *, engine: str | None = None) -> Why:
    """What a pasted error says (a Path: a log): which engine and releases say it, what it means with its own numbers, and which settings
    move it, the best first. `causes` is empty where nothing is known of it. Raises SpecError for an empty text or an unknown engine.

    >>> from kvplan import why
    >>> found = why("ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (856).")
    >>> found.causes[0].engine
    'vllm'
    """
    from kvplan.startup_logs import why as reading

    return reading.why(text, engine)
