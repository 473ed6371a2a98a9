"""The tensors a checkpoint really stores, from its headers: bytes by role, layer and dtype, scales and packing included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from kvplan.tensors import Role

Stack = Literal["model", "encoder", "draft", "tower"]
PLAIN = ("F16", "BF16", "F32", "F64")


class StoredTensor(NamedTuple):
    """One tensor as a file stores it.

    dtype      the file's own word: `BF16`, `F8_E4M3`, `q4_K`
    role       what it does in the model; scales and zero points have the role of the matrix they belong to
    layer      index inside its stack; None outside the layers
    stack      the model itself, the encoder of an encoder-decoder model, draft (MTP) modules, towers
    companion  a scale, zero point or index of a quantised matrix: bytes, but no parameters
    elems      parameters it holds; None where packing hides their number
    experts    > 0: shape holds so many experts in one stack
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    n_bytes: int
    role: Role
    layer: int | None = None
    stack: Stack = "model"
    companion: bool = False
    elems: int | None = None
    experts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """All tensors of a checkpoint, in file order. `source` says which headers: the source of ledger lines of basis `exact`.

    unlike  why they can not be those of the model beside them; empty where nothing was found
    """

    source: str
    tensors: tuple[StoredTensor, ...]
    unlike: str = ""

    @property
    def total_bytes(self) -> int:
        """Every tensor, draft modules and towers included."""
        return sum(t.n_bytes for t in self.tensors)

    @property
    def parameters(self) -> int | None:
        """Parameters of model, encoder and towers: scales, buffers and draft modules out; None where packing hides the number."""
        counted = [t.elems for t in self.tensors if t.stack != "draft" and not t.companion and t.role != "buffer"]
        return None if None in counted else sum(n for n in counted if n is not None)

    @property
    def quantized(self) -> bool:
        """Whether any matrix is packed or has scales."""
        return any(t.companion or t.elems is None for t in self.tensors)

    def cast(self, n_bytes: int) -> StoredWeights:
        """As an engine loads it that makes its parameters in a compute type of so many bytes: plain tensors cast, the rest as stored.

        Scales, buffers and the tensors of recurrent states stay as they are. FP8 without scales is no format of quantisation, and cast too.
        """
        kinds = PLAIN if self.quantized else (*PLAIN, "F8_E4M3", "F8_E5M2")
        tensors = (t._replace(n_bytes=(t.elems or 0) * n_bytes) if _is_plain(t, kinds) else t for t in self.tensors)
        return replace(self, tensors=tuple(tensors))

    def bytes_by(self, key: Callable[[StoredTensor], Any]) -> dict[Any, int]:
        """Bytes summed by whatever `key` says of a tensor, in order of first appearance."""
        sums: dict[Any, int] = {}
        for t in self.tensors:
            sums[key(t)] = sums.get(key(t), 0) + t.n_bytes
        return sums

    def by_role(self, stack: Stack | None = "model") -> dict[Role, int]:
        """Bytes by role, of one stack or (None) of all."""
        sums = self.bytes_by(lambda t: (t.stack, t.role))
        roles: dict[Role, int] = {}
        for (where, role), n_bytes in sums.items():
            if stack is None or where == stack:
                roles[role] = roles.get(role, 0) + n_bytes
        return roles

    def by_layer(self, stack: Stack = "model") -> dict[int, dict[Role, int]]:
        """Layer -> role -> bytes of one stack: what pipeline, tensor and expert parallelism deal out."""
        layers: dict[int, dict[Role, int]] = {}
        for t in self.tensors:
            if t.stack == stack and t.layer is not None:
                roles = layers.setdefault(t.layer, {})
                roles[t.role] = roles.get(t.role, 0) + t.n_bytes
        return dict(sorted(layers.items()))

    def outside(self) -> dict[Role, int]:
        """Role -> bytes of the model's tensors that belong to no layer: embedding, head, final norm."""
        roles: dict[Role, int] = {}
        for t in self.tensors:
            if t.stack == "model" and t.layer is None:
                roles[t.role] = roles.get(t.role, 0) + t.n_bytes
        return roles

    def by_stack(self) -> dict[Stack, int]:
        """Bytes by stack."""
        return self.bytes_by(lambda t: t.stack)


def _is_plain(t: StoredTensor, kinds: tuple[str, ...]) -> bool:
    return t.elems is not None and not t.companion and t.dtype in kinds and t.role not in ("buffer", "state")
