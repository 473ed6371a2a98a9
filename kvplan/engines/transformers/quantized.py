"""QuantizedCache: groups of 64 with a residual in full precision (quanto, HQQ), or one fp8 byte an element.

transformers 5.23.0 src/transformers/cache_utils.py, QuantizedLayer, Fp8QuantizedLayer.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common.whole import KeptTensor
from kvplan.ledger import Entry
from kvplan.units import F32, cdiv

BACKENDS = ("quanto", "hqq", "fp8")
BITS = {"quanto": (2, 4), "hqq": (1, 2, 3, 4, 8), "fp8": (8,)}


class Quantized(NamedTuple):
    """`compute` is bytes of one element in full precision; `prompt` the tokens quantised at once at the start (0: not said)."""

    backend: str
    bits: int
    group: int
    residual: int
    compute: int
    prompt: int = 0

    def at(self, full_bytes: int, tokens: int) -> int:
        """Bytes of a tensor of `tokens` tokens that takes `full_bytes` in full precision."""
        if not tokens:
            return 0
        if self.backend == "fp8":
            return full_bytes // self.compute + F32  # and one scale
        loose = self.loose(tokens)
        elems = full_bytes // self.compute // tokens
        packed = elems * (tokens - loose)
        payload = cdiv(packed * (4 if self.bits == 3 else self.bits), 8)
        return payload + cdiv(packed, self.group) * 2 * self.compute + elems * loose * self.compute

    def loose(self, tokens: int) -> int:
        """Tokens in full precision: those since the last full residual; at most residual - 1 where the prompt is not known."""
        if self.backend == "fp8":
            return 0
        if self.prompt:
            return (tokens - self.prompt) % self.residual if tokens > self.prompt else 0
        return min(tokens - 1, self.residual - 1)


def quantize(held: tuple[KeptTensor, ...], q: Quantized) -> tuple[KeptTensor, ...]:
    """The same tensors, quantised."""

    def one(h: KeptTensor) -> KeptTensor:
        return h._replace(at=lambda n: q.at(h.at(n), n))

    return tuple(one(h) for h in held)


def transient(largest_full: int, q: Quantized) -> Entry:
    """The moment a layer is read: its K or V again in full precision, and for fp8 in f32 before that."""
    n = largest_full if q.backend != "fp8" else largest_full + largest_full // q.compute * 2 * F32
    return Entry(
        name="transient: a layer dequantised",
        bytes=n,
        low=largest_full,
        high=n + largest_full,
        basis="modelled",
        source=f"transformers 5.23.0 {'Fp8QuantizedLayer' if q.backend == 'fp8' else 'QuantizedLayer'}.update",
        kind="transient",
    )
