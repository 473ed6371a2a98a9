"""Which devices prefill and which decode: for each pair of devices the workers of both kinds, their layout and how many. From rooflines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.common.checks import refusal, too_old
from kvplan.engines.common.protocol import Apart
from kvplan.errors import KvplanError, SpecError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.layouts import NODE, LayoutSizes, common
from kvplan.planner.links import Link
from kvplan.planner.records import DisaggregateRecord
from kvplan.planner.speed import SECONDS_PER_HOUR
from kvplan.planner.transfer import Transfer, connected, connector, transfer
from kvplan.planner.workers import Split, Worker, best_split, decoder, fewest, prefiller

#: What the figures leave out.
BOUNDS = (
    "bounds, not predictions: prompts one after the other and full batches of decoding at the devices' peak rates, every request of this "
    "length, no waiting; real workers carry less, and the split holds where both kinds are as far from their bounds"
)


class Wish(NamedTuple):
    """What the split is for.

    prompt, output             tokens of a request; prompt None: the context
    most                       GPUs of both kinds together
    rate                       requests a second that the fewest GPUs should carry; None: the most that `most` GPUs carry
    first_token, per_token     seconds that a prompt with its transfer, and a step of decoding, may take at its bound
    link                       between workers, of one GPU
    rank_by, prices            as `fit`
    """

    prompt: int | None
    output: int
    most: int
    rate: float | None
    first_token: float | None
    per_token: float | None
    link: Link
    rank_by: str
    prices: Mapping[str, float]


class Disaggregated(NamedTuple):
    """One pair of devices as an answer: the split, its two kinds of workers, and what moves between them. None, and why not: `reason`."""

    prefill_device: Device
    decode_device: Device
    split: Split | None = None
    prefill: Worker | None = None
    decode: Worker | None = None
    moved: Transfer | None = None
    price: float | None = None
    reason: str | None = None

    @property
    def first_token_seconds(self) -> float | None:
        """Of a prompt alone, and its way to the decode worker after it."""
        return self.prefill.seconds + self.moved.times[0].seconds if self.prefill and self.moved else None

    @property
    def memory_bytes(self) -> int | None:
        """Of all devices, which is what is bought."""
        if self.split is None or self.prefill is None or self.decode is None:
            return None
        one, other = self.split.prefill * self.prefill.gpus, self.split.decode * self.decode.gpus
        return one * self.prefill_device.memory_bytes + other * self.decode_device.memory_bytes

    def as_dict(self) -> DisaggregateRecord:
        """Plain data, as `--format json` prints it."""
        split, one, other, moved = self.split, self.prefill, self.decode, self.moved
        rate = split and split.requests_per_second
        output = moved and moved.workers and moved.workers.output_tokens
        tokens = rate * output if rate and output else None
        return {
            "prefill_device": self.prefill_device.id, "prefill_workers": split and split.prefill, "prefill_tp": one and one.tp,
            "decode_device": self.decode_device.id, "decode_workers": split and split.decode, "decode_tp": other and other.tp,
            "devices": split and split.gpus, "price": self.price, "memory_bytes": self.memory_bytes,
            "requests_per_second": rate, "bound_by": split and split.bound_by, "decode_batch": other and other.batch,
            "prefill_per_decode": other.per_second / one.per_second if one and other else None,
            "moved_bytes": moved and moved.total_bytes, "link": moved and moved.times[0].link,
            "transfer_seconds": moved and moved.times[0].seconds, "step_seconds": other and other.seconds,
            "tokens_per_second": tokens, "first_token_seconds": self.first_token_seconds,
            "cost_per_million_tokens": self.price / (tokens * SECONDS_PER_HOUR) * 1e6 if tokens and self.price is not None else None,
            "why_not": self.reason,
        }  # fmt: skip


def disaggregate(
    d: Deployment,
    decode: Deployment,
    pairs: Sequence[tuple[Device, Device]],
    wish: Wish,
    watch: Callable[[int, Device], None] | None = None,
) -> tuple[Disaggregated, ...]:
    """For each pair of a device that prefills and one that decodes the best split, ranked, losers last with their reason.

    tp of either side is kept where `d` or `decode` chooses it, else powers of two within a machine are tried. Raises KvplanError where the
    engine does not move caches, or the question can not be asked of any pair.
    """
    way, rows, faults = connector(replace(d, engine=d.engine or engines.DEFAULT)), list[Disaggregated](), list[KvplanError]()
    for i, (one, other) in enumerate(pairs):
        if watch is not None:
            watch(i, one)
        try:
            rows.append(_row(replace(d, device=one), replace(decode, device=other), (one, other), way, wish))
        except KvplanError as error:
            faults.append(error)
            rows.append(Disaggregated(one, other, reason=str(error)))
    if faults and len(faults) == len(rows):
        raise faults[0]
    return tuple(sorted(rows, key=lambda row: _rank(row, wish)))


def _row(d: Deployment, decode: Deployment, devices: tuple[Device, Device], way: Apart, wish: Wish) -> Disaggregated:
    facts = engines.facts(d.engine or engines.DEFAULT)
    for asked, device in zip((d, decode), devices, strict=True):
        if reason := refusal(asked, facts) or too_old(device, facts):
            return Disaggregated(*devices, reason=reason)
    whys: list[str] = []
    prompt = wish.prompt or d.context or d.model.max_context or 1
    ones = [*_tried(d, lambda asked: _prefills(connected(asked, way), prompt, wish), "prefill", wish, whys)]
    others = [
        *_tried(decode, lambda asked: decoder(connected(asked, way), prompt, wish.output, wish.per_token), "decode", wish, whys)
    ] if ones else []  # fmt: skip
    best: Disaggregated | None = None
    for one, other in product(ones, others):
        sizes = one.tp, other.tp
        split = None if max(sizes) % min(sizes) else _split(one, other, wish)
        if split is None:
            continue
        found = Disaggregated(*devices, split, one, other, price=_price(split, one, other, wish))
        if best is None or _merit(found, wish) < _merit(best, wish):
            best = found
    if best is None or best.prefill is None or best.decode is None:
        short = f"not with {wish.most} of them"
        return Disaggregated(*devices, reason=whys[-1] if whys and not (ones and others) else short)
    held = replace(best.decode.asked, batch=best.decode.batch)
    moved = transfer(best.prefill.asked, held, prompt, wish.output, [wish.link], None)
    best = best._replace(moved=moved)
    if wish.first_token is not None and (best.first_token_seconds or 0) > wish.first_token:
        return best._replace(split=None, price=None, reason=f"with its transfer a prompt takes {best.first_token_seconds:.3g} s at least")
    return best


def _tried(d: Deployment, made: Callable[[Deployment], Worker], kind: str, wish: Wish, whys: list[str]) -> Iterator[Worker]:
    """Workers of every tp that may be had; what stands against the others goes to `whys`."""
    assert d.device is not None
    widest = min(NODE, wish.most - 1)
    for tp in [d.tp] if d.tp is not None else [n for n in range(1, widest + 1) if common(LayoutSizes(n, 1, 1), d, d.device)]:
        try:
            yield made(replace(d, tp=tp))
        except SpecError as error:
            whys.append(f"{kind}, tp {tp}: {error.faults[0][1] if error.faults else error}")
        except KvplanError as error:
            whys.append(f"{kind}, tp {tp}: {error}")


def _prefills(d: Deployment, prompt: int, wish: Wish) -> Worker:
    """A prefill worker that holds one prompt and is fast enough by itself."""
    plan = evaluate(replace(d, context=prompt, batch=1), limits=False)
    if not plan.fits:
        raise SpecError("prompt", [("", plan.verdict)])
    found = prefiller(d, prompt)
    if wish.first_token is not None and found.seconds > wish.first_token:
        raise SpecError("first_token", [("", f"a prompt takes {found.seconds:.3g} s at least")])
    return found


def _split(one: Worker, other: Worker, wish: Wish) -> Split | None:
    if wish.rate is None:
        return best_split(wish.most, one, other)
    found = fewest(wish.rate, one, other)
    return found if found.gpus <= wish.most else None


def _price(split: Split, one: Worker, other: Worker, wish: Wish) -> float | None:
    each = [wish.prices.get(worker.asked.device.id) if worker.asked.device else None for worker in (one, other)]
    if each[0] is None or each[1] is None:
        return None
    return split.prefill * one.gpus * each[0] + split.decode * other.gpus * each[1]


def _merit(row: Disaggregated, wish: Wish) -> tuple[float, ...]:
    """What rows, and the splits of one, are ordered by, the smaller the better; equal but for the arithmetic of floats: fewer GPUs."""
    if row.split is None or row.prefill is None:
        return (float("inf"),)
    rate, price = row.split.requests_per_second, row.price
    first = row.first_token_seconds or row.prefill.seconds
    figures = {
        "price": price,
        "memory": float(row.memory_bytes or 0),
        "tokens_per_second": -rate,
        "first_token": first,
        "cost_per_token": None if price is None else price / rate,
    }
    merit = figures[wish.rank_by]
    return float("inf") if merit is None else float(f"{merit:.9g}"), row.split.gpus, first


def _rank(row: Disaggregated, wish: Wish) -> tuple[bool, tuple[float, ...], str, str]:
    return row.split is None, _merit(row, wish), row.prefill_device.id, row.decode_device.id
