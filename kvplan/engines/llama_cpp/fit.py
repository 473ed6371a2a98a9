"""--fit: what was not set is made smaller until every device keeps its margin free. What was set is never changed.

llama.cpp common/fit.cpp, common_params_fit_impl (b11312): first the context, by interpolation, then what goes on which device. A dense
model fills the devices with whole layers from the last to the first; a mixture's layers go there without their experts, and experts come
back from the first device on, at last those of a part of one layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.engines.llama_cpp import named
from kvplan.engines.llama_cpp.loaded import Loaded
from kvplan.engines.llama_cpp.named import EXPERTS, HOST, Rules
from kvplan.engines.llama_cpp.placement import Placed
from kvplan.engines.llama_cpp.placing import place
from kvplan.engines.llama_cpp.situation import Situation, spare
from kvplan.tensors import routed

ALIGN = 256
#: From then on it does not count draft layers that are not loaded, -ngl does: as many of the first layers stay in host memory (b11312;
#: llama-cpp-python 0.3.28 is the first that was read with a count of its own for them).
DRAFTS_APART = 9460
#: What of its feed-forward network a layer leaves elsewhere: the experts, all of it, all but `up`, `down` alone.
MOE, ATTN, UP, GATE = EXPERTS, r"\.ffn_(gate|up|gate_up|down).*", r"\.ffn_(gate|gate_up|down).*", r"\.ffn_down.*"

Try = Callable[[int, Placed], Situation]
"""n_ctx and placed layers -> what the devices would hold."""


class Share(NamedTuple):
    """What one device gets: layers, how many of them (its last) in part, what the first of those leaves elsewhere, and who has that."""

    layers: int = 0
    parts: int = 0
    left: str = MOE
    to: int = HOST


Deal = tuple[Share, ...]


def keeps_from_placing(f: Loaded) -> str | None:
    """What was said that keeps it from placing layers: how many go on the devices, their shares, tensors that do not; None: it may."""
    o, several = f.options, (f.question.n_devices or 1) > 1
    said = {
        "n_gpu_layers": f.question.n_gpu_layers is not None and f.question.n_gpu_layers >= 0,
        "tensor_split": several and any(o.tensor_split),
        "split_mode": several and o.split_mode != "layer",
        "override_tensor": bool(o.override_tensor),
        "n_cpu_moe": o.n_cpu_moe > 0,
        "n_cpu_ffn": o.n_cpu_ffn > 0,
    }
    return next((name for name, is_said in said.items() if is_said), None)


def fit_context(f: Loaded, attempt: Try, *, n_streams: int, n_gpu_layers: int) -> int:
    """The -c that --fit settles on where none was given, in tokens over all streams."""
    d = f.question
    most = (d.model.max_context or 0) * n_streams
    least = min(f.options.fit_ctx * n_streams, most)
    n_devices = d.n_devices or 1
    target = sum(_target(f, device) for device in range(n_devices))
    placed = place(f, n_gpu_layers)
    full = attempt(most, placed)
    used_most = _used(f, full)
    if all(_keeps_margin(f, full, device) for device in range(n_devices)) or used_most <= target or most <= least:
        return most
    if n_devices > 1:
        model = sum(e.bytes for i in range(n_devices) for e in full.entries[i] if e.kind == "weights")
        per_layer = model // max(1, min(n_gpu_layers, len(f.rows)))
        target -= (n_devices + 1) * per_layer // (6 if routed(f.model.layers) else 2)
    used_least = _used(f, attempt(least, placed))
    if target <= used_least:
        return least
    n_ctx = least + (most - least) * (target - used_least) // (used_most - used_least)
    return max(n_ctx - n_ctx % (ALIGN * n_streams), least)


def fit_layers(f: Loaded, attempt: Try, *, n_ctx: int, cards: Sequence[int] = ()) -> Placed:
    """What --fit puts on the devices where nothing was said of that and they do not keep their margins with all of it.

    cards  the devices that it sees; empty: all
    """
    return _Search(f, attempt, n_ctx, tuple(cards) or tuple(range(f.question.n_devices or 1))).run()


class _Search:
    def __init__(self, f: Loaded, attempt: Try, n_ctx: int, cards: tuple[int, ...]) -> None:
        self.f, self.attempt, self.n_ctx, self.cards = f, attempt, n_ctx, cards
        self.n_whole = len(f.rows) + len(f.model.draft) + 1
        unloaded = not f.draft_rows and f.rules.build >= DRAFTS_APART
        self.n_layers = self.n_whole - (len(f.model.draft) if unloaded else 0)
        self.targets = [_target(f, card) for card in cards]
        self.last = len(cards) - 1
        self.known: dict[Deal, list[int]] = {}

    def run(self) -> Placed:
        whole = self._whole(())
        if all(n <= target for n, target in zip(self._held(whole), self.targets, strict=True)):
            return whole
        moe = routed(self.f.model.layers)
        deal = self._back_to_front(moe=moe)
        if moe and self._dense_fits():
            deal = self._front_to_back(deal)
        return self._placed(deal)

    def _whole(self, rules: Rules) -> Placed:
        """Every layer on the devices that it sees."""
        n_devices = self.f.question.n_devices or 1
        shares = [Fraction(i in self.cards) for i in range(n_devices)] if len(self.cards) < n_devices else None
        return place(self.f, self.n_whole, rules, shares=shares)

    def _held(self, placed: Placed) -> list[int]:
        tried = self.attempt(self.n_ctx, placed)
        return [tried.used(card) - (self.f.question.reserve or 0) for card in self.cards]

    def _placed(self, deal: Deal) -> Placed:
        shares = [Fraction(0)] * (self.f.question.n_devices or 1)
        for card, share in zip(self.cards, deal, strict=True):
            shares[card] = Fraction(share.layers)
        return place(self.f, sum(share.layers for share in deal), self._rules(deal), shares=shares)

    def _rules(self, deal: Deal) -> Rules:
        found: Rules = ()
        first = self.n_layers - sum(share.layers for share in deal)
        for share in deal:
            first += share.layers - share.parts
            if share.parts:
                to = self.cards[share.to] if share.to != HOST else HOST
                found += named.of_layers(share.left, range(first, first + 1), to)
                found += named.of_layers(MOE, range(first + 1, first + share.parts), HOST)
            first += share.parts
        return found

    def _used(self, deal: Deal) -> list[int]:
        if deal not in self.known:
            self.known[deal] = self._held(self._placed(deal))
        return self.known[deal]

    def _fits(self, deal: Deal, card: int) -> bool:
        return self._used(deal)[card] <= self.targets[card]

    def _dense_fits(self) -> bool:
        """Whether all but the experts leaves something free of the devices together."""
        held = self._held(self._whole(named.of_layers(MOE, range(len(self.f.rows)), HOST)))
        return sum(self.targets) - sum(held) > 0

    def _back_to_front(self, *, moe: bool) -> Deal:
        """Every device from the last on as many layers as leave its margin; the output layer, on the last, is never in part."""
        deal: Deal = (Share(),) * len(self.cards)
        for card in range(self.last, -1, -1):
            rest = self.n_layers - sum(share.layers for share in deal)

            def given(n: int, card: int = card, deal: Deal = deal) -> Deal:
                parts = (n - (card == self.last) if n else 0) if moe else 0
                return _with(deal, card, Share(n, parts))

            deal = given(_most(rest, lambda n, card=card, given=given: self._fits(given(n), card)))  # type: ignore[misc]
        return deal

    def _front_to_back(self, deal: Deal) -> Deal:
        """Experts come back: layers in part at the back become whole layers of the first devices, then one of them in part."""
        start = next((i for i, share in enumerate(deal) if share.layers), len(deal))
        card = 0
        while card <= start <= self.last:
            parts = sum(share.parts for share in deal[start:])
            every = self._all_to(deal, start, card)
            if self._fits(every, card):
                deal, start = every, self.last
            else:
                n = _most(
                    parts - 1,
                    lambda n, card=card, deal=deal, start=start: self._fits(self._converted(deal, start, card, n)[0], card),  # type: ignore[misc]
                )
                deal, start = self._converted(deal, start, card, n)
            if start <= self.last and deal[start].layers > (card == self.last) and deal[start].parts:
                deal, start = self._one_more(deal, start, card)
            card += 1
        return deal

    def _all_to(self, deal: Deal, start: int, card: int) -> Deal:
        for other in range(start, len(deal)):
            moved = deal[other].layers - (other == self.last)
            deal = _with(deal, card, deal[card]._replace(layers=deal[card].layers + moved))
            deal = _with(deal, other, deal[other]._replace(layers=deal[other].layers - moved, parts=0))
        return deal

    def _converted(self, deal: Deal, start: int, card: int, n: int) -> tuple[Deal, int]:
        """`n` layers in part of the devices from `start` on as whole layers of `card`, and where such layers begin then."""
        while start < len(deal):
            moved = min(n, deal[start].parts)
            deal = _with(deal, start, deal[start]._replace(layers=deal[start].layers - moved, parts=deal[start].parts - moved))
            deal = _with(deal, card, deal[card]._replace(layers=deal[card].layers + moved))
            n -= moved
            if deal[start].parts:
                break
            start += 1
        return deal, start

    def _one_more(self, deal: Deal, start: int, card: int) -> tuple[Deal, int]:
        """One layer more on `card`, without most of its network or the experts' down matrices, where there is room for that."""
        source = deal[start]
        tried = _with(deal, start, source._replace(layers=source.layers - 1, parts=source.parts - 1))
        to = card + 1 if card < self.last else HOST

        def left(pattern: str) -> Deal:
            share = tried[card]
            return _with(tried, card, share._replace(layers=share.layers + 1, parts=share.parts + 1, left=pattern, to=to))

        after = start + (not left(UP)[start].parts)
        beside = (card,) if card == self.last else (card, card + 1)
        if self._below(left(UP), beside):
            return (left(GATE) if self._below(left(GATE), beside) else left(UP)), after
        return (left(ATTN), after) if self._below(left(ATTN), beside) else (deal, start)

    def _below(self, deal: Deal, cards: tuple[int, ...]) -> bool:
        used = self._used(deal)
        return all(used[card] < self.targets[card] for card in cards)


def _with(deal: Deal, card: int, share: Share) -> Deal:
    return (*deal[:card], share, *deal[card + 1 :])


def _most(high: int, holds: Callable[[int], bool]) -> int:
    """The largest n in 0..high for which `holds`, which once false stays false; 0 where none does."""
    if high <= 0 or holds(high):
        return max(high, 0)
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def margin(f: Loaded, device: int) -> int:
    """--fit-target of a device, in bytes; one value is every device's, those of a list that is too short keep 1 GiB."""
    targets = f.options.fit_target
    if len(targets) == 1:
        return targets[0]
    return targets[device] if device < len(targets) else 1 << 30


def _target(f: Loaded, device: int) -> int:
    """Bytes that it lets a device hold."""
    return f.memory(device) - (f.question.reserve or 0) - margin(f, device)


def _used(f: Loaded, tried: Situation) -> int:
    reserve = f.question.reserve or 0
    return sum(tried.used(device) - reserve for device in range(f.question.n_devices or 1))


def left(f: Loaded, tried: Situation) -> tuple[int, int, int]:
    """What its margin leaves on the fullest device, in bytes (negative: missing): the estimate and the ends of its interval.

    On several cards it may count drafts once more: two starts of #27162 that have 1.1 and 1.4 GiB left by these lines were split.
    """
    n, drafts = f.question.n_devices or 1, bool(f.draft_rows or f.drafter)
    rooms = [spare(f.memory(i) - margin(f, i), tried.entries[i], together=n > 1 or drafts) for i in range(n)]
    left, low, high = map(min, zip(*rooms, strict=True))
    again = sum(e.bytes for lines in tried.entries.values() for e in lines if "draft" in e.name) if n > 1 and drafts else 0
    return left, low - again, high


def _keeps_margin(f: Loaded, tried: Situation, device: int) -> bool:
    return f.memory(device) - tried.used(device) >= margin(f, device)
