"""Tiers of the cache beside the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from kvplan.api.asking import asked, at_least_one
from kvplan.spec import ModelSpec
from kvplan.units import parse_tokens

if TYPE_CHECKING:
    from kvplan.api.names import Question
    from kvplan.planner.tiers import Tiers


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
    tokens = None if prefix is None else at_least_one("prefix", parse_tokens(prefix, "prefix"))
    return found(asked(model, **question), tokens, ways)
