"""Which layers go on which card, by the rules of a release: the one answer that the ledger, the capacity and the verdict all read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import sure_of
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Certainty
from kvplan.engines.llama_cpp import fit, situation
from kvplan.engines.llama_cpp.compute import NO_SPAN
from kvplan.engines.llama_cpp.loaded import Loaded
from kvplan.engines.llama_cpp.ollama import estimate as go
from kvplan.engines.llama_cpp.ollama import printed
from kvplan.engines.llama_cpp.ollama.estimate import Estimate
from kvplan.engines.llama_cpp.ollama.graph import Load
from kvplan.engines.llama_cpp.ollama.layout import layout
from kvplan.engines.llama_cpp.ollama.metadata import Metadata
from kvplan.engines.llama_cpp.ollama.rules import OllamaRules, Placing
from kvplan.engines.llama_cpp.placement import Placed, of_every_layer
from kvplan.engines.llama_cpp.placing import place
from kvplan.engines.llama_cpp.situation import Situation
from kvplan.ledger import desktop
from kvplan.weights import stored_bytes

#: The share of a card's memory by which what is free differs between drivers and idle desktops (23.1 to 24.0 GiB of an RTX 3090 in logs).
NEAR = Fraction(2, 100)
#: llama-server takes one card where the file and the caches, roughly, fill no more than this share of it.
ONE_CARD = Fraction(80, 100)


class Scheduler(NamedTuple):
    """A release of Ollama with a model on cards, ready to place it for any context and number of slots."""

    rules: OllamaRules
    metadata: Metadata
    loaded: Loaded
    unified: bool
    flash: bool
    kv_type: str
    batch: int
    placed: dict[tuple[int, int], Placed]

    @property
    def own(self) -> bool:
        return self.metadata.arch in self.rules.own

    @property
    def way(self) -> Placing:
        return self.rules.own_placing if self.own else self.rules.placing

    @property
    def metal(self) -> bool:
        device = self.loaded.question.device
        return device is not None and device.vendor == "apple"

    @property
    def undercounts(self) -> bool:
        """graph.go takes too little for latent attention: of twelve public starts of it eight ran out (tests/threads)."""
        return self.way != "server" and self.metadata.arch == "deepseek2"

    def free(self, factor: Fraction = Fraction(1)) -> list[int]:
        """Bytes free on each card."""
        d = self.loaded.question
        return [int(self.loaded.memory(i) * factor) - (d.reserve or 0) for i in range(d.n_devices or 1)]

    def place(self, tokens: int, slots: int) -> Placed:
        """What goes where for -c `tokens` over all slots; the same is worked out once."""
        if (tokens, slots) not in self.placed:
            self.placed[tokens, slots] = self._served(tokens, slots) if self.way == "server" else self._counted(tokens, slots)
        return self.placed[tokens, slots]

    def _counted(self, tokens: int, slots: int) -> Placed:
        cards, lacking = self.counts(tokens, slots, self.free())
        return self._dealt(cards)._replace(lacking=lacking)

    def sure(self, tokens: int, slots: int) -> Certainty:
        """How sure it is that the model is wholly on the cards, or is not.

        By what --fit finds free, and the interval of what it measures; before, by whether a little more or less free memory, or a desktop
        that nobody speaks of, changes the scheduler's own estimate. Windows and WSL show a program what others hold as free, in part or
        whole: of eight public starts that such memory alone would split four were split (tests/threads, Ollama 0.24 to 0.35).
        """
        if self.way == "server":
            if self._asked() is not None:
                return "certain"
            left, low, high = self._left(tokens, slots)
            if abs(left) <= int(max(self.free()) * NEAR) or left < 0 < left + self._of_others():
                return "too close to call"
            return sure_of(left, low, high)
        frees = [self.free(1 + share) for share in (-NEAR, NEAR)]
        if self.loaded.may_show_desktops:
            first, *others = self.free()
            frees.append([first - desktop(self.loaded.vendor).high, *others])
        frees.append([n + self._of_others() for n in self.free()])
        around = [self.counts(tokens, slots, free)[0] for free in frees]
        return "certain" if len({sum(cards) > self.metadata.blocks for cards in around}) == 1 else "too close to call"

    def _of_others(self) -> int:
        """What others are said to hold of a card that shows desktops."""
        d = self.loaded.question
        return (d.reserve or 0) if d.device is not None and d.device.shows_desktops else 0

    def counts(self, tokens: int, slots: int, free: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Layers of each card, and bytes that found no place."""
        if self.way == "layout":
            return self._laid_out(tokens, slots, free)
        order, found = self._best(tokens, slots, free)
        by_card = dict(zip(order, found.cards, strict=False))
        return tuple(by_card.get(i, 0) for i in range(len(free))), found.lacking

    def _best(self, tokens: int, slots: int, free: Sequence[int]) -> tuple[list[int], Estimate]:
        """The first estimate that takes the whole model, or as many layers as num_gpu asks for; else that of all cards.

        Cards with most memory come first while it is tried, all of them as they are.
        """
        order = sorted(range(len(free)), key=lambda i: -free[i])
        for n in self._trials(len(free)):
            found = self.estimate(tokens, slots, [free[i] for i in order[:n]])
            if found.fits:
                return order, found
        return list(range(len(free))), self.estimate(tokens, slots, free)

    def lines(self, tokens: int, slots: int) -> tuple[str, ...]:
        """What the scheduler logs before it starts the runner."""
        if self.way not in ("sum", "spread"):
            return ()
        free = self.free()
        order, found = self._best(tokens, slots, free)
        return (printed.offload(found, [free[i] for i in order][: len(found.cards)], self._asked()),)

    def estimate(self, tokens: int, slots: int, free: Sequence[int]) -> Estimate:
        """The scheduler's estimate, as its log line has it."""
        sizes = go.sizes(self.rules, self.metadata, Load(tokens, self.batch, slots, self.flash), self.kv_type, metal=self.metal)
        return go.estimate(self.rules, sizes, free, self._asked())

    def _asked(self) -> int | None:
        asked = self.loaded.question.n_gpu_layers
        return asked if asked is not None and asked >= 0 else None

    def _trials(self, n: int) -> Sequence[int]:
        """Numbers of cards that are tried in turn."""
        if self._spreads():
            return (n,)
        return range(1, n + 1) if self.rules.subsets else (1, n)

    def _spreads(self) -> bool:
        return Options(self.loaded.question).flag("sched_spread")

    def _laid_out(self, tokens: int, slots: int, free: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Sizes as the runner allocates them for Ollama's own engine, as estimated for llama.cpp's models."""
        m = self.metadata
        if self.own:
            text = self._replace(loaded=self.loaded._replace(images=NO_SPAN))
            whole = text._tried(tokens, slots, self._put(m.blocks + 1, None, drafts=False))
            kept = [0] * m.blocks
            for store in whole.stores:
                for layer, k, v in store.parts:
                    kept[layer if layer < m.blocks else m.blocks - 1] += k + v
            layers = [weights + cache for weights, cache in zip(m.layers, kept, strict=True)]
            layers.append(
                m.output + m.projector + sum(stored_bytes(w, text.loaded.formats) for w in text.loaded.model.first if of_every_layer(w))
            )
            graph = next((e.bytes for e in whole.entries[0] if e.kind == "activations"), 0)
            pictured, room = self.loaded.images.point, list(free)
        else:
            sizes = go.sizes(self.rules, m, Load(tokens, self.batch, slots, self.flash), self.kv_type, metal=self.metal)
            layers, graph, pictured = [*sizes.layers, sizes.output], max(sizes.graph), 0
            room = [max(0, n - sizes.layers[0]) for n in free]  # the projector is left out: 0.12.11 to 0.24 look for it among the adapters
        least = go.minimum(metal=self.metal)
        cards = layout(layers, room, graph, self._asked(), spread=self._spreads(), minimum=least, pictured=pictured)
        placed = sum(cards)
        beside = layers[: len(layers) - placed] if placed > m.blocks else [*layers[: m.blocks - placed], layers[-1]]
        return cards, sum(beside)

    def _put(self, n_gpu_layers: int, shares: tuple[Fraction, ...] | None, *, drafts: bool) -> Placed:
        """Layers dealt out."""
        return place(self.loaded, n_gpu_layers, None if drafts else (), shares=shares, drafts=drafts)

    def _dealt(self, cards: Sequence[int]) -> Placed:
        """The last layers, in order over the cards; num_gpu is taken as it is, whatever was estimated."""
        asked = self._asked()
        shares = tuple(map(Fraction, cards)) if any(cards) else None
        n = sum(cards) if asked is None else min(asked, self.metadata.blocks + 1)
        return self._put(n, shares, drafts=False)

    def _one(self, tokens: int) -> tuple[Fraction, ...] | None:
        """llama-server gets one card, that with most memory, where the model is small enough for it; None: all."""
        free = self.free()
        if self._spreads() or self.predicted(tokens) > max(free) * ONE_CARD:
            return None
        return tuple(Fraction(i == free.index(max(free))) for i in range(len(free)))

    def _served(self, tokens: int, slots: int) -> Placed:
        """llama-server: --fit moves to host memory what leaves no margin on a card."""
        f, shares, asked = self.loaded, self._one(tokens), self._asked()
        if asked is not None:
            return self._put(asked, shares, drafts=True)
        cards = [i for i, part in enumerate(shares or ()) if part]
        placed = fit.fit_layers(f, lambda n, placed: self._tried(n, slots, placed), n_ctx=tokens, cards=cards)
        return placed if placed.whole else placed._replace(lacking=max(0, -self._left(tokens, slots)[0]))

    def _tried(self, tokens: int, slots: int, placed: Placed) -> Situation:
        return situation.situation(self.loaded, placed, n_ctx=tokens, n_seq_max=slots, unified=self.unified)

    def _left(self, tokens: int, slots: int) -> tuple[int, int, int]:
        """What --fit's margin leaves on the fullest card with every layer there, in bytes: the estimate and the ends of its interval."""
        f = self.loaded
        return fit.left(f, self._tried(tokens, slots, self._put(len(f.rows) + len(f.model.draft) + 1, self._one(tokens), drafts=True)))

    def predicted(self, tokens: int) -> int:
        """The scheduler's rough size of a model: its file, and f16 caches of its least KV heads over the embedding's share of a head."""
        m = self.metadata
        heads = min(m.kv_heads_of) or 1
        file = sum(m.layers) + m.output + (0 if self.loaded.model.tied else self._embedding())
        return file + 2 * m.blocks * heads * (m.embedding // (m.heads or 1)) * tokens * 2

    def _embedding(self) -> int:
        embedding = self.loaded.model.embedding
        return stored_bytes(embedding, self.loaded.formats) if embedding else 0


def has_cards(d: Deployment) -> bool:
    """Whether there is something to place layers on: with a size for the cache alone, or without a device, there is not."""
    return d.device is not None and d.kv_memory is None
