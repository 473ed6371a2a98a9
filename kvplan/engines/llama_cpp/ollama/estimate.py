"""The scheduler's own estimate: how many layers of a model go on which card, before anything is allocated.

llm/memory.go EstimateGPULayers: one sum over all cards (0.1.33 to 0.1.44); card by card (0.1.45 to 0.12.10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvplan.engines.llama_cpp.ollama import graph
from kvplan.engines.llama_cpp.ollama.graph import Graph, Load
from kvplan.engines.llama_cpp.ollama.metadata import Metadata
from kvplan.engines.llama_cpp.ollama.rules import OllamaRules
from kvplan.units import MIB


def minimum(*, metal: bool) -> int:
    """Bytes of a card that are never dealt out (gpu/gpu.go cudaMinimumMemory, gpu_darwin.go metalMinimumMemory, ml/device.go)."""
    return (512 if metal else 457) * MIB


class Estimate(NamedTuple):
    """Layers of each card (the output counted as one), and what the log line says of them, in bytes.

    asked       num_gpu, None where nobody says
    cards       layers by card; allocated: bytes by card
    full        memory of the whole model; lacking: of what found no place
    weights     of the layers and the output; before 0.6.3 caches are counted among them
    """

    cards: tuple[int, ...]
    layers: int
    full: int
    partial: int
    kv: int
    allocated: tuple[int, ...]
    weights: int
    output: int
    graph: Graph
    projector: int
    vision_graph: int
    lacking: int
    asked: int | None = None

    @property
    def offloaded(self) -> int:
        return sum(self.cards)

    @property
    def whole(self) -> bool:
        return self.offloaded >= self.layers

    @property
    def fits(self) -> bool:
        """All that is asked for is on these cards (PredictServerFit); more layers than there are never are."""
        return 0 < self.offloaded >= (self.layers if self.asked is None else self.asked)


class Sizes(NamedTuple):
    """What every way of placing starts from, in bytes: layers with and without caches, the output, graphs, towers.

    at_end  the tower goes with the output, not on the first card
    metal   Apple's: more is kept free, a model in part takes no more than a whole one
    """

    layers: tuple[int, ...]
    weights: tuple[int, ...]
    output: int
    kv: tuple[int, ...]
    graph: Graph
    tower: int
    vision_graph: int
    at_end: bool
    metal: bool

    @property
    def minimum(self) -> int:
        return minimum(metal=self.metal)


def sizes(rules: OllamaRules, m: Metadata, load: Load, kv_type: str, *, metal: bool) -> Sizes:
    """The estimates of a release for one load."""
    own = m.arch in rules.own
    images = m.tower > 0 and not (own and rules.release < (0, 6, 1))
    least = rules.least or (2048 if images and not own and rules.release < (0, 11, 5) else 0)
    load = load._replace(tokens=max(load.tokens, least))
    load = load._replace(batch=min(load.tokens, load.batch))
    kv = graph.caches(rules, m, load, kv_type)
    shown = graph.graph(rules, m, load, sum(kv))
    if metal:
        shown = Graph(shown.full, shown.full)
    return Sizes(
        layers=tuple(w + c for w, c in zip(m.layers, kv, strict=True)),
        weights=m.layers,
        output=m.output,
        kv=kv,
        graph=shown,
        tower=(m.tower if own else m.projector) if images else 0,
        vision_graph=graph.vision_graph(rules, m) if images else 0,
        at_end=own and rules.vision == "output",
        metal=metal,
    )


def estimate(rules: OllamaRules, s: Sizes, free: Sequence[int], asked: int | None) -> Estimate:
    """Layers on cards with so many bytes free; `asked`: num_gpu, None: as many as fit."""
    return (_sum if rules.placing == "sum" else _spread)(rules, s, list(free), asked)._replace(asked=asked)


def _sum(rules: OllamaRules, s: Sizes, free: list[int], asked: int | None) -> Estimate:
    """One budget for all cards; llama.cpp deals the layers out to equal parts."""
    n = len(s.layers)
    shown = Graph(s.graph.full * len(free), s.graph.partial * len(free))
    least = s.minimum + s.tower + (s.weights[0] if rules.buffer == "first" else 0)
    each = sum(s.kv) // n
    total, partial = least + shown.full, least + shown.partial + (s.output if s.metal else 0)  # the file is mapped, output and all
    count = 0
    for weights in s.weights:
        size = weights + each
        total += size
        if sum(free) > partial + size and (asked is None or count < asked):
            partial += size
            count += 1
    total += s.output
    if sum(free) > total and (asked is None or count < asked):
        count, partial = n + 1, total
    if least + shown.partial > sum(free):
        count = partial = 0
    shares = tuple(count // len(free) + (i < count % len(free)) for i in range(len(free)))
    return Estimate(
        cards=shares,
        layers=n + 1,
        full=total,
        partial=partial,
        kv=sum(s.kv),
        allocated=(partial,),
        weights=total - least - shown.full - sum(s.kv),
        output=s.output,
        graph=shown,
        projector=s.tower,
        vision_graph=0,
        lacking=max(0, total - sum(free)) if count <= n else 0,
    )


def _with_room(cards: list[int], turn: int, n_bytes: int, left: Callable[[int], int], *, drop: bool) -> int | None:
    """The card whose turn it is, else the next before it; None where none has room. `drop`: one that has none is never asked again.

    left  bytes that are left of a card
    """
    for n in range(len(cards), 0, -1):
        card = cards[turn % n]
        if left(card) > n_bytes:
            return card
        if drop:
            cards.remove(card)
    return None


def _spread(rules: OllamaRules, s: Sizes, free: list[int], asked: int | None) -> Estimate:
    """Layers go round the cards that have space; a card that refuses one gets no more."""
    n = len(s.layers)
    shown = s.graph if len(free) == 1 else Graph(s.graph.partial, s.graph.partial)
    most = max(shown)
    buffer = max(*s.weights, s.output) if rules.buffer == "largest" else s.weights[0]
    buffer += s.kv[0] if rules.windows else sum(s.kv) // n
    images = s.tower + s.vision_graph
    first, last = (0, s.output + images) if s.at_end else (images, s.output)
    used = [0] * len(free)
    counts = [0] * len(free)
    cards: list[int] = []
    for i, memory in enumerate(free):
        if memory >= (0 if cards else first) + most + s.minimum + 2 * buffer:
            used[i] += s.minimum + buffer + (0 if cards else first)
            cards.append(i)

    def left(card: int) -> int:
        return free[card] - used[card] - most

    lacking = 0 if cards or rules.vision == "card" else first
    placed = size = 0
    kv_each = None if rules.windows else sum(s.kv) // n
    for i in range(n - 1, -1, -1) if rules.backwards else range(n):
        size = s.weights[i] + (s.kv[i] if kv_each is None else kv_each)
        if asked is not None and placed >= asked:
            lacking += size
            continue
        card = _with_room(cards, i, size, left, drop=True)
        if card is None:
            lacking += size
            continue
        used[card] += size
        counts[card] += 1
        placed += 1
    if not rules.backwards:
        lacking = (n - placed) * size  # as many times the last layer
    card = None
    if asked is None or placed < asked:
        card = _with_room(cards, placed, last, left, drop=False)
    if card is not None:
        used[card] += last
        counts[card] += 1
        placed += 1
    whole = placed >= n + 1
    if not whole:
        lacking += last if rules.release >= (0, 7, 1) or asked is None or placed < asked else 0
    used = [bytes_ + (shown.full if whole else shown.partial) if count else bytes_ for bytes_, count in zip(used, counts, strict=True)]
    return Estimate(
        cards=tuple(counts),
        layers=n + 1,
        full=sum(used) + lacking,
        partial=sum(used) if placed else 0,
        kv=sum(s.kv),
        allocated=tuple(used),
        weights=sum(s.weights) + (sum(s.kv) if not rules.windows else s.output),
        output=s.output,
        graph=shown,
        projector=s.tower,
        vision_graph=s.vision_graph,
        lacking=lacking,
    )
