"""What a step of a prompt holds for a moment: the widest of a rank's layers over a chunk of tokens, as a load measures it.

turboderp-org/exllamav3 1.6.5 modules/{attn,mlp,block_sparse_mlp,gated_delta_net,transformer}.py, modules/quant/exl3.py: matrices are made
in f16 for more than 144 tokens, 32,768 columns at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from kvplan.engines.common.lines import Span
from kvplan.tensors import Layer, WeightTensor
from kvplan.units import cdiv

SOURCE = "the widest step of the widest layer, exllamav3 1.6.5 modules"
COLUMNS, F16, F32, OUT = 32_768, 2, 4, 32
#: Bytes of an element of the residual, its norm and what is added to it.
BESIDE = 2 * F32 + F16
#: Bytes of an element of a gated delta net's values and convolution while a chunk goes through its kernels.
DELTA = 16
#: How far it is off, in parts of it: nothing of it was measured.
LOW, HIGH = 0.6, 1.8


def of_chunk(layers: Sequence[Layer], head: WeightTensor | None, tokens: int, tp: int, expert: tuple[int, int] = (0, 0)) -> Span:
    """Bytes of a chunk's step through the widest layer, or of the logits of the 32 tokens that a load counts.

    expert  bytes that a load sets aside for a layer of experts beside what every layer holds, and its hidden width (experts.py worst)
    """
    most, hidden = expert
    widest = max((_layer({w.name: w for w in layer.weights}, tokens, tp, experts=not most) for layer in layers), default=0)
    logits = OUT * F32 * cdiv(head.shape[0], tp) if head else 0
    others, beside = max(widest, logits), tokens * hidden * BESIDE
    return Span(max(others, most + beside), max(int(LOW * others), most), max(int(HIGH * others), most + int(HIGH * beside)))


def _layer(by_name: dict[str, WeightTensor], tokens: int, tp: int, *, experts: bool) -> int:
    names = ("q", "q_a", "mlp_up", "expert_up", "in_proj_qkvz", "in_proj")
    hidden = next((w.shape[-1] for name in names if (w := by_name.get(name))), 0)
    beside = tokens * hidden * BESIDE

    def through(rows: int, width: int) -> int:
        """A matrix of that many rows and a result as wide."""
        return tokens * width * F16 + hidden * min(rows, COLUMNS) * F16

    def rows(*asked: str) -> list[int]:
        return [cdiv(w.shape[-2], tp) for name in asked if (w := by_name.get(name)) and len(w.shape) > 1]

    steps = [0]
    if q := rows("q", "q_b"):
        all_of = q[0] * 2 + sum(rows("k", "v", "kv_b"))
        steps.append(through(max(chain(q, rows("k", "v", "kv_b"))), all_of))
    for wide in rows("mlp_up", "shared_up"):
        steps.append(through(wide, (3 if "mlp_gate" in by_name or "shared_gate" in by_name else 2) * wide))
    if delta := rows("in_proj_qkvz"):
        steps.append(tokens * delta[0] * DELTA + hidden * min(delta[0], COLUMNS) * F16)
    if experts and (up := by_name.get("expert_up")):
        each = cdiv(up.shape[-2], tp)
        steps.append(tokens * (up.active + 1) * hidden * F32 + through(each, 3 * each))
    return beside + max(steps)
