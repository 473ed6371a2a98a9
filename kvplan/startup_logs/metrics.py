"""A page of Prometheus metrics, as vLLM and SGLang serve it: samples, and what one engine's table makes of them.

The text format: `name{label="value",...} number`, a sample a line (prometheus.io, exposition formats). Numbers may have exponents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from kvplan.engines.common.logs import Figure, Gauge

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]{0,200})(?:\{(.*)\})?[ \t]{1,10}(\S{1,40})(?:[ \t]{1,10}-?\d{1,20})?$")
_LABEL = re.compile(r'([A-Za-z_]\w{0,100})="((?:[^"\\]|\\.)*)"')
_RANKS = (("DP", "dp_rank"), ("PP", "pp_rank"), ("TP", "tp_rank"), ("DP", "engine"))
_LARGEST_BLOCK = 256


class Sample(NamedTuple):
    """One sample of a page."""

    name: str
    labels: dict[str, str]
    value: float

    @property
    def rank(self) -> str | None:
        """The ranks that its labels name, as logs spell them."""
        parts = [f"{word}{self.labels[key]}" for word, key in _RANKS if self.labels.get(key, "").isdecimal()]
        return "_".join(parts) or None


def sample(text: str) -> Sample | None:
    """A line's sample; None for a comment, and for a value that is no finite number."""
    match = _SAMPLE.match(text)
    if match is None:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return Sample(match[1], {key: re.sub(r"\\(.)", r"\1", label) for key, label in _LABEL.findall(match[2] or "")}, value)


def read_sample(one: Sample, gauges: Iterable[Gauge], line: int) -> tuple[list[Figure], dict[str, Any]]:
    """The figures and facts of a sample."""
    figures: list[Figure] = []
    facts: dict[str, Any] = {}
    for gauge in gauges:
        if gauge.name != one.name:
            continue
        text = one.labels.get(gauge.label, "") if gauge.label else f"{one.value:.12g}"
        name, _, unit = gauge.to.partition("__")
        if not unit or name == "q":
            if text not in ("", "None"):
                facts[gauge.to] = text
        elif (value := _number(text)) is not None and value > 0:
            figures.append(Figure(name, value, unit, one.rank, line))
    return figures, facts


def settings(labels: dict[str, str]) -> dict[str, str]:
    """The labels of an engine's own settings, without a block size that it chose: a page that does not say who did holds vLLM's own
    where it is no power of two (vllm/config/cache.py, user_specified_block_size)."""
    kept = dict(labels)
    size = labels.get("block_size", "")
    by_itself = size.isdecimal() and (int(size) > _LARGEST_BLOCK or int(size) & (int(size) - 1) != 0)
    if labels.get("user_specified_block_size", str(not by_itself)) == "False":
        kept.pop("block_size", None)
    return kept


def length(tokens: float, concurrency: float) -> int | None:
    """The length that both figures imply: tokens are the whole part of concurrency times it (vllm/v1/core/kv_cache_utils.py)."""
    if concurrency <= 0:
        return None
    about = tokens / concurrency
    near = [n for n in (math.ceil(about), math.floor(about), round(about)) if math.floor(concurrency * n + 1e-6) == tokens]
    return near[0] if near else round(about)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
