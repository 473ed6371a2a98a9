"""The vocabulary below the model spec: what a layer keeps (CacheTensor), what it owns (WeightTensor), and bytes as a curve over length.

Once a model is lowered to these, nothing knows layer kinds any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, NamedTuple, TypeVar

from kvplan.dtypes import row_bytes
from kvplan.forms import Form
from kvplan.units import LARGEST, cdiv, longest

T = TypeVar("T")
#: How many models a cache keeps what it derived from: questions asked one after the other are mostly of one.
KEPT_MODELS = 32


class Same(Generic[T]):
    """An object as the key of a cache: equal to itself alone, which is cheaper to see than to compare all that is in it."""

    __slots__ = ("it",)

    def __init__(self, it: T) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.it is other.it


class CacheFormats(NamedTuple):
    """The formats of one question: compute type, K and V cache formats, and those of recurrent layers.

    state  for recurrent states whose kind pins none; forced_state overrides a pinned one too
    """

    compute: str
    k: str
    v: str
    conv: str
    state: str = "f32"
    forced_state: str | None = None


class Keep(NamedTuple):
    """Which tokens stay: all; the last `tokens` (+ `sinks` first ones); one chunk of `tokens`; the encoder's (0: as many as asked)."""

    kind: Literal["all", "window", "chunk", "source"] = "all"
    tokens: int = 0
    sinks: int = 0

    def __str__(self) -> str:
        if self.kind == "all":
            return "all"
        if self.kind == "source":
            return f"encoder {self.tokens}" if self.tokens else "encoder"
        return f"{self.kind} {self.tokens}" + (f" + {self.sinks} sinks" if self.sinks else "")


ALL = Keep()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTensor:
    """One tensor that a layer keeps between steps.

    heads             units that tensor parallelism may split; 1 = headless, replicated
    elems_per_state   elements per head and state
    dtype             a storage format of dtypes.FORMATS
    tokens_per_state  1; N where N tokens share one entry; None = one state per sequence whatever its length
    keep              which tokens stay
    columns           of a convolution state: the token columns inside elems_per_state (kernel - 1), so that an engine
                      which keeps more or fewer can say so; else 0
    lookback          of a compressed row: the last tokens whose raw entries its compressor needs (one or two ratios), so that an
                      engine which keeps them can count them; of a convolution's inputs kept as they are, their columns; else 0
    """

    name: str
    heads: int
    elems_per_state: int
    dtype: str
    tokens_per_state: int | None = 1
    keep: Keep = ALL
    columns: int = 0
    lookback: int = 0

    @property
    def bytes_per_state(self) -> int:
        """All heads, scales and packing included."""
        return self.heads * row_bytes(self.dtype, self.elems_per_state)


class TokenWork(NamedTuple):
    """Operations (a multiply-add is 2) of one query token besides the weights' matrices: `fixed`, and `per_kept` for each kept token.

    prompt  for each kept token of a prompt, where kernels for many queries need fewer; 0: as many
    """

    fixed: int = 0
    per_kept: int = 0
    keep: Keep = ALL
    prompt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What one mixer of one layer keeps, and its work; `kind` (the mixer) and `source` (of its shapes) are labels for people.

    form  what it is to an engine: nothing below the spec looks at the kind
    reads rows of an earlier layer that this one reads, in the size that it would keep itself
    """

    kind: str
    form: Form
    tensors: tuple[CacheTensor, ...]
    source: str
    work: tuple[TokenWork, ...] = ()
    reads: tuple[CacheTensor, ...] = ()


Role = Literal[
    "attention", "mlp", "experts", "shared_experts", "router", "norm", "embedding", "head", "state", "tower", "buffer", "other"
]  # fmt: skip


#: `WeightTensor.own` of what a quantised checkpoint leaves in its compute type.
PLAIN = "plain"


class WeightTensor(NamedTuple):
    """One checkpoint tensor.

    shape    as stored; a stack of experts has the experts first
    role     what a checkpoint's quantisation addresses; `buffer` is stored but is no parameter
    units    how many equal pieces tensor parallelism may split it into; 1 = a copy on every rank
    experts  > 0: shape[0] experts, which expert parallelism deals out whole; `active` of them serve a token
    stored   its bytes in the checkpoint at hand, where the headers say so; None: by shape and format
    own      the checkpoint's format of this tensor where it is not its role's; PLAIN: not quantised
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    units: int = 1
    experts: int = 0
    active: int = 0
    stored: int | None = None
    own: str = ""

    @property
    def elems(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One lowered layer; equal layers of a model share one object."""

    caches: tuple[Cache, ...]
    weights: tuple[WeightTensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A whole model, lowered. `first` and `last` belong to the first and last pipeline stage, `draft` to the MTP modules.

    `embedding` is the input embedding, which a tied model also needs at its last stage.
    """

    layers: tuple[Layer, ...]
    first: tuple[WeightTensor, ...]
    embedding: WeightTensor | None
    last: tuple[WeightTensor, ...]
    draft: tuple[Layer, ...]
    tied: bool


def layer_counts(layers: Sequence[Layer]) -> list[tuple[Layer, int]]:
    """Each layer once and how often it comes, in the order of their first places: arithmetic on 80 equal layers is that of one."""
    numbers = Counter(map(id, layers))
    return [(layer, numbers[key]) for key, layer in {id(layer): layer for layer in layers}.items()]


def distinct(layers: Iterable[Layer]) -> list[Layer]:
    """Each layer once, in the order of their first places; equal ones are mostly one object, which is cheaper to see than to hash."""
    return list({id(layer): layer for layer in layers}.values())


def changed(model: Lowered, change: Callable[[Layer], Layer]) -> Lowered:
    """The model with a change of its layers and draft modules; each different one is changed once, equal ones still share one object."""
    made = {id(layer): change(layer) for layer in distinct((*model.layers, *model.draft))}
    if all(id(layer) == key for key, layer in made.items()):
        return model
    return replace(model, layers=tuple(made[id(x)] for x in model.layers), draft=tuple(made[id(x)] for x in model.draft))


def windowed(layers: Iterable[Layer]) -> bool:
    """Whether there is a layer that keeps the tokens of a window alone."""
    return any(t.keep.kind == "window" for layer in distinct(layers) for cache in layer.caches for t in cache.tensors)


def routed(layers: Iterable[Layer]) -> bool:
    """Whether any of them has experts."""
    return any(w.experts for layer in distinct(layers) for w in layer.weights)


class Term(NamedTuple):
    """`unit_bytes` for each started `unit_tokens` tokens, at most `cap` units (None: no limit)."""

    unit_bytes: int
    unit_tokens: int
    cap: int | None


class Segment(NamedTuple):
    """From `from_tokens` on: fixed_bytes + bytes_per_token x tokens (exact at whole units)."""

    from_tokens: int
    fixed_bytes: int
    bytes_per_token: int | float


class Curve(NamedTuple):
    """Bytes of one sequence as a function of its length: a fixed part and terms that grow, some up to a cap."""

    fixed_bytes: int
    terms: tuple[Term, ...]

    def at(self, tokens: int) -> int:
        """Bytes held by a sequence that has grown to `tokens` tokens."""
        n_bytes = self.fixed_bytes
        for unit_bytes, unit_tokens, cap in self.terms:
            units = -(-tokens // unit_tokens)
            n_bytes += unit_bytes * (units if cap is None or units < cap else cap)
        return n_bytes

    def most_tokens(self, n_bytes: int) -> int | None:
        """The exact inverse: the longest sequence held in `n_bytes`.

        None where length costs nothing more, -1 where not even an empty sequence fits.
        """
        if n_bytes < self.fixed_bytes:
            return -1
        found = longest(lambda n: self.at(n) <= n_bytes)
        return None if found == LARGEST else found

    def segments(self) -> tuple[Segment, ...]:
        """The curve as straight pieces; a new one starts where a term reaches its cap."""
        starts = sorted({0, *(term.cap * term.unit_tokens for term in self.terms if term.cap is not None)})
        return tuple(self._segment(start) for start in starts)

    def slope(self, tokens: int) -> int | float:
        """Bytes that one more token costs at this length, averaged over a unit."""
        return self._segment(tokens).bytes_per_token

    def _segment(self, tokens: int) -> Segment:
        fixed, numerator, denominator = self.fixed_bytes, 0, 1
        for unit_bytes, unit_tokens, cap in self.terms:
            if cap is not None and tokens >= cap * unit_tokens:
                fixed += unit_bytes * cap
            else:
                numerator = numerator * unit_tokens + unit_bytes * denominator
                denominator *= unit_tokens
        slope = numerator // denominator if numerator % denominator == 0 else numerator / denominator
        return Segment(tokens, fixed, slope)

    def plus(self, other: Curve) -> Curve:
        """Both caches side by side, like terms merged."""
        merged: dict[tuple[int, int | None], int] = {}
        for term in (*self.terms, *other.terms):
            key = (term.unit_tokens, term.cap)
            merged[key] = merged.get(key, 0) + term.unit_bytes
        terms = tuple(Term(n_bytes, *key) for key, n_bytes in merged.items())
        return Curve(fixed_bytes=self.fixed_bytes + other.fixed_bytes, terms=terms)

    def times(self, n: int) -> Curve:
        """`n` equal caches side by side."""
        terms = tuple(Term(term.unit_bytes * n, term.unit_tokens, term.cap) for term in self.terms)
        return Curve(fixed_bytes=self.fixed_bytes * n, terms=terms)


EMPTY = Curve(fixed_bytes=0, terms=())


def tensor_curve(t: CacheTensor, *, encoder_tokens: int | None = None, block_size: int | None = None, shards: int = 1) -> Curve:
    """Bytes of one tensor over the length of its sequence.

    encoder_tokens  length of the encoder side; None: as long as the sequence
    block_size      None: contiguous; else pages of that many tokens, started pages counted whole, and a window of W tokens
                    touching at most ceil((W - 1) / block) + 1 pages
    shards          ranks that share the tokens (decode context parallelism): the fullest rank's part
    """
    if t.tokens_per_state is None:
        return Curve(fixed_bytes=t.bytes_per_state, terms=())
    keep = t.keep
    source = keep.tokens or encoder_tokens if keep.kind == "source" else None
    unit_tokens, unit_bytes = t.tokens_per_state, t.bytes_per_state
    if block_size is not None:
        unit_tokens, unit_bytes = block_size, t.bytes_per_state * cdiv(block_size, t.tokens_per_state)
    if source:
        return Curve(fixed_bytes=cdiv(source, unit_tokens) * unit_bytes, terms=())
    cap: int | None = None
    if keep.kind == "window":
        cap = cdiv(keep.tokens + keep.sinks, unit_tokens)
        if block_size is not None:
            cap = cdiv(keep.tokens - 1, block_size) + 1 + cdiv(keep.sinks, block_size)
    elif keep.kind == "chunk":
        cap = cdiv(keep.tokens, unit_tokens)
    if shards > 1 and keep.kind == "all":
        unit_tokens *= shards
    return Curve(fixed_bytes=0, terms=(Term(unit_bytes, unit_tokens, cap),))


def total(curves: Iterable[Curve]) -> Curve:
    """The sum of curves, like terms merged."""
    result = EMPTY
    for curve in curves:
        result = result.plus(curve)
    return result
