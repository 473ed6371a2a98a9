"""num_batch where nobody says: by context, and from 0.30 on as far as memory allows.

server/sched.go automaticGenerationBatch (0.30 to 0.32.15).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.engines.llama_cpp.ollama.rules import OllamaRules
from kvplan.units import GIB, MIB

#: Batch -> percent of the memory that the model may take at most, and what the batch itself is thought to take.
_ROOM = {2048: (60, 2 * GIB), 1024: (75, 768 * MIB)}
_SMALL_CARD = 8 * GIB


def by_context(rules: OllamaRules, tokens: int) -> int:
    """The batch for so many tokens over all slots."""
    return next(batch for above, batch in rules.batch if tokens > above or not above)


def automatic(rules: OllamaRules, d: Deployment, free: Sequence[int], tokens: int, predicted: int, flash: str) -> int:
    """The batch that memory free on the cards allows; without flash attention on NVIDIA the small one."""
    batch = by_context(rules, tokens)
    if rules.placing != "server" or d.device is None:
        return batch
    each = min(free)
    if flash == "off" and d.device.vendor == "nvidia":
        return 256 if tokens > 4096 and each <= _SMALL_CARD else 512
    available = sum(free)
    while batch in _ROOM:
        percent, own = _ROOM[batch]
        if predicted <= available * percent // 100 and predicted + own <= available * 80 // 100:
            break
        batch = 1024 if batch > 1024 else 512
    return batch
