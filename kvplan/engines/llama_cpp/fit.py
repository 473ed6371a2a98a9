"""--fit: what was not set is made smaller until every device keeps its margin free. What was set is never changed.

llama.cpp common/fit.cpp, common_params_fit_impl (b11312): first the context, by interpolation, then layers. The layers are searched here as
whole ones, experts of the first layers moved to host memory before that; llama.cpp also splits one layer's matrices.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan.engines.llama_cpp.situation import Loaded, Placed, Situation, place
from kvplan.units import cdiv

ALIGN = 256

Try = Callable[[int, Placed], Situation]
"""n_ctx and placed layers -> what the devices would hold."""


def fit_context(f: Loaded, attempt: Try, *, n_streams: int, n_gpu_layers: int) -> int:
    """The -c that --fit settles on where none was given, in tokens over all streams."""
    d = f.question
    most = (d.model.max_context or 0) * n_streams
    least = min(f.options.fit_ctx * n_streams, most)
    n_devices = d.n_devices or 1
    free = sum(f.memory(device) - (d.reserve or 0) for device in range(n_devices))
    target = free - n_devices * f.options.fit_target
    placed = place(f, n_gpu_layers, f.options.n_cpu_moe)
    full = attempt(most, placed)
    used_most = _used(f, full)
    if all(_keeps_margin(f, full, device) for device in range(n_devices)) or used_most <= target or most <= least:
        return most
    if n_devices > 1:
        model = sum(e.bytes for i in range(n_devices) for e in full.entries[i] if e.kind == "weights")
        per_layer = model // max(1, min(n_gpu_layers, len(f.rows)))
        target -= (n_devices + 1) * per_layer // (6 if any(w.experts for w in f.model.layers[-1].weights) else 2)
    used_least = _used(f, attempt(least, placed))
    if target <= used_least:
        return least
    n_ctx = least + (most - least) * (target - used_least) // (used_most - used_least)
    return max(n_ctx - n_ctx % (ALIGN * n_streams), least)


def fit_layers(f: Loaded, attempt: Try, *, n_ctx: int, put: Callable[[int, int], Placed] | None = None) -> tuple[int, int]:
    """-ngl and --n-cpu-moe that --fit settles on where neither was given and the whole model leaves no margin.

    put  how layers are dealt out; None: as the question says
    """
    n_layers = len(f.rows) + len(f.model.draft) + 1

    def keeps(n_gpu_layers: int, n_cpu_moe: int) -> bool:
        tried = attempt(n_ctx, put(n_gpu_layers, n_cpu_moe) if put else place(f, n_gpu_layers, n_cpu_moe))
        return all(_keeps_margin(f, tried, device) for device in range(f.question.n_devices or 1))

    if keeps(n_layers, 0):
        return n_layers, 0
    if any(w.experts for layer in f.model.layers for w in layer.weights) and keeps(n_layers, len(f.rows)):
        return n_layers, _least(1, len(f.rows), lambda n: keeps(n_layers, n))
    off = _least(1, n_layers, lambda n: keeps(n_layers - n, 0))
    return n_layers - off, 0


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest n in low..high for which `holds`, which once true stays true; `high` where none does."""
    while low < high:
        middle = cdiv(low + high, 2) - (low + high) % 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _used(f: Loaded, tried: Situation) -> int:
    reserve = f.question.reserve or 0
    return sum(tried.used(device) - reserve for device in range(f.question.n_devices or 1))


def _keeps_margin(f: Loaded, tried: Situation, device: int) -> bool:
    return f.memory(device) - tried.used(device) >= f.options.fit_target
