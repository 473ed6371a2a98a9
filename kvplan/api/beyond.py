"""What lies beyond one GPU's memory: tiers of the cache, and workers that prefill and decode apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from kvplan.api.asking import asked, at_least_one
from kvplan.api.searches import among, candidate, prices_by_id, ranking
from kvplan.api.several import several
from kvplan.api.workloads import number
from kvplan.devices import Device
from kvplan.errors import SpecError
from kvplan.spec import ModelSpec
from kvplan.units import parse_seconds, parse_tokens

if TYPE_CHECKING:
    from os import PathLike

    from kvplan.api.names import Question
    from kvplan.planner.disaggregate import Disaggregated
    from kvplan.planner.tiers import Tiers
    from kvplan.planner.transfer import Transfer


def tiers(
    model: str | PathLike[str] | ModelSpec,
    *,
    prefix: int | str | None = None,
    link: str | float | None = None,
    disk_link: str | float | None = None,
    remote_link: str | float | None = None,
    **question: Unpack[Question],
) -> Tiers:
    """What the CPU and disk tiers of `model`'s cache hold, and how long a prefix takes to come back beside computing it again.

    prefix       tokens of the prefix; by default the context
    link         to RAM, of one GPU: a name of `kvplan.planner.links.LINKS` or GB (10^9) a second; by default the device's
    disk_link    to the disk, of all ranks together; by default one PCIe 4.0 drive
    remote_link  to a remote store of any size, of all ranks together; by default none is shown
    question     the names of `estimate`; engine_option asks for tiers (`kv_offloading_size`, `enable_hierarchical_cache`, ...)

    Returns a Tiers. Raises KvplanError for bad input, and where no tier is asked for.

    >>> on = {"kv_offloading_size": "64"}
    >>> found = tiers("meta-llama/llama-3.1-8b", engine="vllm", device="h100", context="8k", engine_option=on)
    >>> found.tiers[0].pieces, found.tiers[0].tokens
    (32768, 524288)
    """
    from kvplan.planner.links import read_link
    from kvplan.planner.tiers import tiers as found

    links = {"cpu": ("link", link), "disk": ("disk_link", disk_link), "remote": ("remote_link", remote_link)}
    ways = {place: None if text is None else read_link(text, name) for place, (name, text) in links.items()}
    return found(asked(model, **question), _tokens("prefix", prefix), ways)


def transfer(
    model: str | PathLike[str] | ModelSpec,
    *,
    prompt: int | str | None = None,
    output: int | str | None = None,
    decode_tp: int | str | None = None,
    decode_device: str | Device | None = None,
    links: Sequence[str | float] = (),
    gpus: int | str | None = None,
    **question: Unpack[Question],
) -> Transfer:
    """What one request of `model` moves from a prefill worker to a decode worker, and how long that takes.

    prompt         its tokens; by default the context
    output         tokens of its answer: then also how many prefill workers feed one decode worker
    decode_tp, decode_device  of the decode worker, where they are not the prefill worker's
    links          of one GPU: names of `kvplan.planner.links.LINKS` or GB (10^9) a second; by default the device's own and networks
    gpus           with `output`: also how to split so many of them
    question       the names of `estimate`, of the prefill worker

    Returns a Transfer. Raises KvplanError for bad input and where the engine's way is not known.

    >>> found = transfer("meta-llama/llama-3.1-8b", engine="vllm", device="h100", context="8k")
    >>> found.rank_bytes == 8192 * 131072
    True
    """
    from kvplan.planner.links import read_link
    from kvplan.planner.transfer import transfer as found

    for name, value in (("dp", question.get("dp")), ("n_devices", question.get("n_devices"))):
        if value is not None:
            raise SpecError(name, [("", "transfer asks about one worker of each kind; leave it out")])
    same = question if decode_tp is None else several({"device": question.get("device")})  # another tp needs a number of its own
    other = {"tp": decode_tp if decode_tp is not None else question.get("tp"), "device": decode_device or same.get("device")}
    return found(
        asked(model, **question),
        asked(model, **(question | other)),  # type: ignore[arg-type]
        _tokens("prompt", prompt),
        _tokens("output", output),
        [read_link(link) for link in links],
        None if gpus is None else at_least_one("gpus", parse_tokens(gpus, "gpus")),
    )


def disaggregate(
    model: str | PathLike[str] | ModelSpec,
    *,
    output: int | str,
    prompt: int | str | None = None,
    devices: Sequence[str | Device] | None = None,
    decode_devices: Sequence[str | Device] | None = None,
    decode_tp: int | str | None = None,
    prices: Mapping[str, float] | None = None,
    most: int = 16,
    rate: float | None = None,
    first_token: float | str | None = None,
    per_token: float | str | None = None,
    link: str | float = "400gb",
    rank_by: str | None = None,
    watch: Callable[[int, int, Device], None] | None = None,
    **question: Unpack[Question],
) -> tuple[Disaggregated, ...]:
    """Which GPUs prefill and which decode (`kvplan fit --disaggregate`): workers of both kinds, their tp and how many. Bounds throughout.

    output         tokens of an answer; prompt: of its prompt, by default the context
    devices        candidates; None: every packaged device. Decode workers have the same, or one of `decode_devices`
    decode_tp      of decode workers, where it is chosen; `tp` is of those that prefill
    most           GPUs of both kinds together
    rate           requests a second: the fewest GPUs that carry them; None: the most that `most` GPUs carry
    first_token, per_token  what a prompt with its transfer, and a step of decoding, may take at its bound: 2, "2s", "50ms"
    link           between workers, of each GPU: a name of `kvplan.planner.links.LINKS` or GB (10^9) a second
    prices, rank_by, watch  as for `fit`; by default price or memory with a rate, cost per token or tokens a second without

    Returns rows, the best first, losers with their reason. Raises KvplanError for bad input and where the engine's way is not known.

    >>> best = disaggregate("meta-llama/llama-3.1-8b", devices=["h100"], engine="vllm", context="8k", output=500, most=8)[0]
    >>> best.split.gpus, best.split.bound_by
    (8, 'decode')
    """
    from kvplan.planner.disaggregate import Wish
    from kvplan.planner.disaggregate import disaggregate as search
    from kvplan.planner.links import read_link

    for name in ("device", "dp", "n_devices", "kv_memory"):
        if question.get(name) is not None:
            raise SpecError(name, [("", "disaggregate looks for the devices of both kinds of workers; leave it out")])
    d, named = candidate(model, question), prices_by_id(prices)
    other = d if decode_tp is None else candidate(model, question | {"tp": decode_tp})
    ones = among(devices)
    pairs = [(x, x) for x in ones] if decode_devices is None else [(x, y) for x in ones for y in among(decode_devices)]
    wish = Wish(
        prompt=_tokens("prompt", prompt),
        output=at_least_one("output", parse_tokens(output, "output")),
        most=at_least_one("most", most),
        rate=None if rate is None else number("rate", rate, above=True),
        first_token=_limit("first_token", first_token),
        per_token=_limit("per_token", per_token),
        link=read_link(link),
        rank_by=ranking(rank_by, named) or _usual(rate, named),
        prices=named,
    )
    return search(d, other, pairs, wish, None if watch is None else lambda i, x: watch(i, len(pairs), x))


def _usual(rate: float | None, prices: Mapping[str, float]) -> str:
    if rate is not None:
        return "price" if prices else "memory"
    return "cost_per_token" if prices else "tokens_per_second"


def _limit(name: str, text: float | str | None) -> float | None:
    if text is None:
        return None
    seconds = parse_seconds(text, name)
    if seconds <= 0:
        raise SpecError(name, [("", "write a time above 0, such as 2s")])
    return seconds


def _tokens(name: str, value: int | str | None) -> int | None:
    return None if value is None else at_least_one(name, parse_tokens(value, name))
