"""The line in which Ollama's scheduler says what it estimated: `msg=offload layers.requested=-1 ...` (llm/memory.go, 0.1.45 to 0.12.10)."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engines.llama_cpp.ollama.estimate import Estimate
from kvplan.units import GIB, KIB, MIB


def size(n_bytes: int) -> str:
    """format.HumanBytes2: one decimal from KiB on."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:.1f} {name}"
    return f"{n_bytes} B"


def offload(e: Estimate, free: Sequence[int], asked: int | None) -> str:
    """The estimate as one line; `free` are the cards it was made for."""
    split = ",".join(map(str, e.cards)) if len(free) > 1 else '""'
    sizes = {
        "memory.required.full": e.full,
        "memory.required.partial": e.partial,
        "memory.required.kv": e.kv,
        "memory.weights.nonrepeating": e.output,
        "memory.graph.full": e.graph.full,
        "memory.graph.partial": e.graph.partial,
        **({"projector.weights": e.projector, "projector.graph": e.vision_graph} if e.projector else {}),
    }
    return " ".join((
        f"msg=offload layers.requested={-1 if asked is None else asked} layers.model={e.layers} layers.offload={e.offloaded}",
        f'layers.split={split} memory.available="[{" ".join(map(size, free))}]"',
        f'memory.required.allocations="[{" ".join(map(size, e.allocated))}]" memory.weights.total="{size(e.weights)}"',
        *(f'{name}="{size(n)}"' for name, n in sizes.items()),
    ))  # fmt: skip
