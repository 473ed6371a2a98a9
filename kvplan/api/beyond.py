"""What lies beyond one GPU's memory: tiers of the cache, and workers that prefill and decode apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from kvplan.api.asking import asked, at_least_one
from kvplan.devices import Device
from kvplan.errors import SpecError
from kvplan.spec import ModelSpec
from kvplan.units import parse_tokens

if TYPE_CHECKING:
    from kvplan.api.names import Question
    from kvplan.planner.tiers import Tiers
    from kvplan.planner.transfer import Transfer


def tiers(
    model: str | ModelSpec,
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
    model: str | ModelSpec,
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
    other = {"tp": decode_tp if decode_tp is not None else question.get("tp"), "device": decode_device or question.get("device")}
    return found(
        asked(model, **question),
        asked(model, **(question | other)),  # type: ignore[arg-type]
        _tokens("prompt", prompt),
        _tokens("output", output),
        [read_link(link) for link in links],
        None if gpus is None else at_least_one("gpus", parse_tokens(gpus, "gpus")),
    )


def _tokens(name: str, value: int | str | None) -> int | None:
    return None if value is None else at_least_one(name, parse_tokens(value, name))
