"""What every layer kind is: checked fields, and three lowerings. Fields are bounded so that no product leaves 62 bits by accident."""

from __future__ import annotations

from typing import Annotated, ClassVar

from kvplan.fields import Between, Record
from kvplan.forms import Form
from kvplan.tensors import CacheFormats, CacheTensor, TokenWork, WeightTensor
from kvplan.units import MOST_TOKENS

Count = Annotated[int, Between(1, 1 << 20)]  # heads, experts, groups
Dim = Annotated[int, Between(1, 1 << 24)]  # widths
Tokens = Annotated[int, Between(1, MOST_TOKENS)]
CountOrNone = Annotated[int, Between(0, 1 << 20)]
DimOrNone = Annotated[int, Between(0, 1 << 24)]
TokensOrNone = Annotated[int, Between(0, MOST_TOKENS)]


class LayerKind(Record):
    """Base of all kinds. `source` says where the shapes come from: a paper, or a file of a reference implementation.

    form  what its cache is to engines (kvplan/forms.py)
    tied  the weights are those of an earlier layer, which counts them (Zamba); the cache is this layer's own
    """

    source: ClassVar[str] = ""
    form: ClassVar[Form] = "none"
    kind: str
    tied: bool = False

    def cache_form(self) -> Form:
        """What the cache is to engines; kinds of which a field decides override it."""
        return self.form

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        """What the layer keeps for one sequence, whole and unreplicated; empty where it keeps nothing."""
        return ()

    def reads(self, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        """What it reads and keeps nothing of itself: another layer's cache, or all of one prompt."""
        return ()

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        """Operations per query token besides its matrices: here of a recurrent state, each element decayed, added to and read."""
        tensors = self.cache(hidden, CacheFormats("bf16", "bf16", "bf16", "bf16"))
        elems = sum(t.heads * t.elems_per_state for t in tensors if t.tokens_per_state is None and not t.columns)
        return (TokenWork(fixed=4 * elems),) if elems else ()

    def weights(self, hidden: int) -> tuple[WeightTensor, ...]:
        """What the layer owns: names, shapes as stored, how they split."""
        raise TypeError(f"{type(self).__name__} declares no weights")


def divides(whole: int, part: int, whole_name: str, part_name: str) -> None:
    """Raises ValueError, which the spec reports with its path, where `part` does not divide `whole`."""
    if whole % part:
        raise ValueError(f"{part_name} ({part}) must divide {whole_name} ({whole})")
