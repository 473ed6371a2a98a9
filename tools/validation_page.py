"""The receipts of a folder as one page of documentation with a plot. The page is made from the receipts and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpu_facts_page

from kvplan.units import show_bytes
from kvplan.validate.receipts import Case, Receipt, read

_HEAD = """# Measured

Caches allocated as real tensors, written in full, and measured by `make validate`, one receipt per file in `validation/`. This page is
made from the receipts; a test compares the two, and checks every prediction in them again with today's formulas, as
`kvplan validate --check validation/*.json` does (exit code 1 where one does not hold: each receipt has a digest of its figures).

Predicted is what the plan says. Allocated is what torch's allocator reports for the tensors, which were made from shapes and element types
alone by code that never sees the prediction. Measured is what the operating system or NVML saw the process grow by.
"""


def receipts(folder: str | Path) -> dict[str, Receipt]:
    """Name -> receipt, for every JSON file of a folder, by name."""
    return {path.stem: read(path) for path in sorted(Path(folder).glob("*.json"))}


def facts(folder: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Name -> what tools/gpu_facts.py found, for every file of it in a folder."""
    return {path.stem: gpu_facts_page.rows(path) for path in sorted(Path(folder).glob("*-facts.jsonl"))}


def page(found: dict[str, Receipt], measured: dict[str, list[dict[str, Any]]]) -> str:
    """The page, Markdown."""
    parts = [_HEAD.strip(), _devices(found)]
    for name, one in found.items():
        parts += _speed(name, one) if one.speed else _cases(name, one)
    for name, lines in measured.items():
        parts += gpu_facts_page.section(name, lines)
    return "\n\n".join(parts) + "\n"


def _devices(found: dict[str, Receipt]) -> str:
    gpus = sorted({r.machine["name"] for r in found.values() if r.machine["device"] != "cpu"})
    return f"GPUs measured: {', '.join(gpus)}." if gpus else "No GPU has been measured yet: every receipt here is of a CPU."


def _machine(one: Receipt) -> str:
    m = one.machine
    parts = [m["name"], m["system"], f"torch {m['torch']}"]
    labels = (("transformers", "transformers"), ("driver", "driver"), ("compute_capability", "compute capability"))
    parts += [f"{label} {m[key]}" for key, label in labels if m.get(key)]
    return f"{', '.join(parts)}; {one.date}; kvplan {one.kvplan}."


def _cases(name: str, one: Receipt) -> list[str]:
    lines = ["| case | predicted bytes | allocated bytes | equal | measured bytes | off |", "|---|--:|--:|---|--:|--:|"]
    for case in one.cases:
        lines += [_row(case.name, case.predicted_bytes, case.allocated_bytes, _main(case), case.status)]
    if one.subject == "model":
        lines = ["| model | line | predicted bytes | there | equal |", "|---|---|--:|--:|---|", *_model_rows(one)]
    if one.machine["device"] != "cpu" and one.subject != "model":
        lines = ["| case | predicted | tensors | equal | segments predicted | segments | device grew by |", "|---|--:|--:|---|--:|--:|--:|"]
        lines += [_gpu_row(case) for case in one.cases]
    notes = [f"{case.name}: {case.note}." for case in one.cases if case.note]
    return [f"## {name}", _machine(one), *_overheads(one), "\n".join(lines), *notes]


def _gpu_row(case: Case) -> str:
    """Tensors; what torch's allocator took for them in whole segments; what NVML, or without it CUDA, saw the device grow by."""
    segments = (case.segments or {}).get("reserved"), case.measured.get("torch_reserved")
    figures = [case.predicted_bytes, case.allocated_bytes, None, *segments, _main(case)]
    shown = ["" if n is None else f"{n:,}" for n in figures]
    shown[2] = "yes" if case.status == "equal" else case.status
    return f"| {case.name} | {' | '.join(shown)} |"


def _overheads(one: Receipt) -> list[str]:
    """What the process held beside tensors, where a device told."""
    labels = (("context", "CUDA's context"), ("libraries", "libraries outside torch"), ("workspace", "the first product's workspace"))
    found = one.machine.get("overheads") or {}
    told = [f"{label} {show_bytes(found[key])}" for key, label in labels if found.get(key) is not None]
    return [f"Beside tensors: {', '.join(told)}."] if told else []


def _row(label: str, predicted: int, allocated: int | None, measured: int | None, status: str) -> str:
    off = f"{100 * (measured / predicted - 1):+.2f} %" if measured is not None and predicted else ""
    shown = "" if allocated is None else f"{allocated:,}"
    grown = "" if measured is None else f"{measured:,}"
    return f"| {label} | {predicted:,} | {shown} | {'yes' if status == 'equal' else status} | {grown} | {off} |"


def _model_rows(one: Receipt) -> Iterator[str]:
    for case in one.cases:
        for row in case.rows:
            there = row.allocated_bytes if row.allocated_bytes is not None else row.measured_bytes
            shown = ["" if n is None else f"{n:,}" for n in (row.predicted_bytes, there)]
            yield f"| {case.name} | {row.name} | {shown[0]} | {shown[1]} | {'' if row.equal is None else 'yes' if row.equal else 'no'} |"


def _main(case: Case) -> int | None:
    return next((n for n in case.measured.values() if n is not None), None)


def _speed(name: str, one: Receipt) -> list[str]:
    speed = one.speed or {}
    lines = ["| tokens | with a cache | without | times faster | cache read | reads per second |", "|--:|--:|--:|--:|--:|--:|"]
    for p in speed["points"]:
        with_, without, read_ = p["with_cache_s"], p["without_cache_s"], p["cache_bytes"] / p["read_s"]
        times = f"{1e3 * with_:.3f} ms | {1e3 * without:.2f} ms | {without / with_:.0f}"
        lines.append(f"| {p['length']:,} | {times} | {show_bytes(p['cache_bytes'])} | {show_bytes(int(read_))} |")
    e = speed["exponents"]
    grows = (
        f"Seconds grow as tokens to the power {e['with_cache_s']:.2f} with a cache, {e['without_cache_s']:.2f} without "
        f"(0 flat, 1 linear, 2 quadratic); reading the cache alone {e['read_s']:.2f}. "
        f"At the longest length the cache is read at {show_bytes(int(speed['read_bytes_per_s']))} a second; a plain copy moves "
        f"{show_bytes(int(speed['copy_bytes_per_s']))} a second (reads and writes)."
    )
    few = [] if e["without_cache_s"] > 0.5 else ["At these lengths a step of one layer is little but the launches of its kernels."]
    return [f"## {name}", _machine(one), "\n".join(lines), grows, *few, f"![a decode step with and without a cache]({name}.svg)"]


_W, _H, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 360, 70, 20, 620, 310
_LINES = (("without_cache_s", "without a cache", "#b3402a"), ("with_cache_s", "with a cache", "#1f6f8b"))


def plot(speed: dict[str, Any]) -> str:
    """Seconds of a step over tokens, both axes logarithmic, as SVG."""
    points = speed["points"]
    xs = [math.log2(p["length"]) for p in points]
    low = math.floor(min(math.log10(p[key]) for p in points for key, _, _ in _LINES))
    high = math.ceil(max(math.log10(p[key]) for p in points for key, _, _ in _LINES))

    def x(value: float) -> float:
        return _LEFT + (value - xs[0]) / ((xs[-1] - xs[0]) or 1) * (_RIGHT - _LEFT)

    def y(value: float) -> float:
        return _BOTTOM - (value - low) / ((high - low) or 1) * (_BOTTOM - _TOP)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_W} {_H}" font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="{_W}" height="{_H}" fill="white"/>')
    for power in range(low, high + 1):
        parts.append(f'<path d="M{_LEFT} {y(power):.1f}H{_RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(power) + 4:.1f}" text-anchor="end">{1000 * 10.0**power:g} ms</text>')
    for value, p in zip(xs, points, strict=True):
        parts.append(f'<text x="{x(value):.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{p["length"]:,}</text>')
    parts.append(f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_H - 8}" text-anchor="middle">tokens in the sequence</text>')
    for i, (key, label, colour) in enumerate(_LINES):
        at = " ".join(f"{x(value):.1f},{y(math.log10(p[key])):.1f}" for value, p in zip(xs, points, strict=True))
        parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{_LEFT + 12}" y="{_TOP + 16 + 18 * i}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def write(folder: str | Path, docs: str | Path) -> None:
    """Writes validation.md, and a plot per receipt of speeds, beside the other documentation."""
    found = receipts(folder)
    (Path(docs) / "validation.md").write_text(page(found, facts(folder)))
    for name, one in found.items():
        if one.speed:
            (Path(docs) / f"{name}.svg").write_text(plot(one.speed))


if __name__ == "__main__":
    import sys

    write(*sys.argv[1:3])
