"""Workloads through the pool that a plan describes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from kvplan import files
from kvplan.api.asking import asked, at_least_one
from kvplan.deployment import Deployment
from kvplan.errors import SpecError, UnknownName
from kvplan.extras import missing
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.api.names import Question
    from kvplan.planner.simulation import Simulation
    from kvplan.simulate.steptime import StepTime
    from kvplan.simulate.workload import Request

REQUESTS = 1000
KINDS = ("prompt", "output")
#: Sees the requests of each run as they arrive, and how many there will be (None: not known); for a progress bar.
Watch = Callable[[Iterable["Request"], int | None], Iterable["Request"]]


def simulate(
    model: str | ModelSpec,
    *,
    workload: str | None = None,
    rate: float | None = None,
    burstiness: float = 1.0,
    requests: int | None = None,
    seed: int = 0,
    prompt_lengths: str | int | None = None,
    output_lengths: str | int | None = None,
    prefixes: int = 0,
    prefix_tokens: int = 0,
    branch: int = 0,
    depth: int = 1,
    turns: int = 1,
    think_seconds: float = 10.0,
    samples: int = 1,
    beams: int = 1,
    trace: str | None = None,
    trace_format: str | None = None,
    policy: str | Sequence[str] = "paged",
    share_prefixes: bool | None = None,
    step_time: str | Mapping[int, float] | None = None,
    step_overhead: float = 0.0,
    swap_seconds: float | None = None,
    warm: float = 0.0,
    size_for: str | float | None = None,
    most: int = 16,
    watch: Watch | None = None,
    **question: Unpack[Question],
) -> Simulation:
    """What requests do to the cache of `model`: pages used and lost, sharing, waiting, preemption, how many run at once.

    workload        sharegpt, alpaca or fixed; prompt_lengths and output_lengths replace its lengths: `512`, `lognormal:MEAN:CV`, `10,20,40`
    rate            requests a second over all replicas; None: all at once (a trace: at its own times)
    burstiness      1: Poisson arrivals; below: gamma bursts, above: more even
    requests, seed  how many (1,000; a trace: all), and what draws them
    prefixes        this many system prompts of prefix_tokens tokens; or few-shot trees of `branch` children a node and `depth` levels
    turns           of conversations that bring their past along, think_seconds apart on average
    samples, beams  answers to each prompt: requests of their own, or a beam search whose pages fork and are copied on write
    trace           a file: Azure, BurstGPT or Mooncake trace, ShareGPT conversations, CSV or JSON lines of lengths (trace_format; found
                    by its first line)
    policy          paged, contiguous-max, contiguous-pow2, contiguous-oracle; several side by side
    share_prefixes  None: as the engine does
    step_time       a CSV of sequences,seconds of measured decode steps, or such a mapping; None: the device's roofline and step_overhead
    swap_seconds    to read a preempted token back; None: it is computed again
    warm            simulated seconds that averages leave out
    size_for        such as `p99`: the pool, and the devices (up to `most`), at which that share of requests never waits for pages
                    nor is preempted
    question        the names of `estimate`; a device or kv_memory at least

    Returns a Simulation. Raises KvplanError for bad input. Needs numpy (the `simulate` extra).

    >>> found = simulate("meta-llama/llama-3.1-8b", kv_memory="8GiB", engine="vllm", max_model_len="4k", rate=2, requests=50)
    >>> found.policies[0].requests
    50
    """
    try:
        from kvplan.planner.simulation import simulated
    except ImportError:
        raise missing("simulate needs numpy", "simulate") from None
    d = asked(model, **question)
    replica, described, notes = requested(
        d, rate, burstiness, requests, seed, trace, trace_format, watch, workload=workload, prompt_lengths=prompt_lengths,
        output_lengths=output_lengths, prefixes=prefixes, prefix_tokens=prefix_tokens, branch=branch, depth=depth, turns=turns,
        samples=samples, beams=beams, think_seconds=think_seconds,
    )  # fmt: skip
    steps = None if step_time is None else _measured(step_time)
    overhead = _number("step_overhead", step_overhead)
    if overhead and steps:
        raise SpecError("step_overhead", [("", "measured steps contain it; give one of both")])
    return simulated(
        d,
        replica,
        described,
        policies=_policies(policy),
        steps=steps,
        overhead=overhead,
        size_for=None if size_for is None else _share(size_for),
        most=_whole("most", most, 1),
        notes=notes,
        share_prefixes=share_prefixes,
        swap_seconds=None if swap_seconds is None else _number("swap_seconds", swap_seconds),
        warm_seconds=_number("warm", warm),
    )


def requested(
    d: Deployment,
    rate: float | None,
    burstiness: float,
    requests: int | None,
    seed: int,
    trace: str | None,
    trace_format: str | None,
    watch: Watch | None,
    **drawn: Any,
) -> tuple[Callable[[int], Iterable[Request]], dict[str, Any], list[str]]:
    """The requests of one of n replicas, the same at every call; how they are described; notes. `drawn`: names of drawn requests."""
    from kvplan.simulate.workload import Arrivals

    if rate is not None:
        _number("rate", rate, above=True)
    arrivals = Arrivals(rate, _number("burstiness", burstiness, above=True) ** -0.5)
    _whole("seed", seed, 0)
    if trace is not None:
        idle = {"depth", "think_seconds"}
        own = {name: value > 1 if name in ("turns", "samples", "beams") else value for name, value in drawn.items() if name not in idle}
        if any(own.values()):
            raise SpecError("trace", [(name, "describes drawn requests; a trace has its own") for name, value in own.items() if value])
        every, described, notes = _traced(trace, trace_format, arrivals, requests, seed)
    else:
        if trace_format is not None:
            raise SpecError("trace_format", [("", "name the file with trace")])
        lengths = (drawn["prompt_lengths"], drawn["output_lengths"])
        counts = {name: drawn[name] for name in ("prefixes", "prefix_tokens", "branch", "depth", "turns", "samples", "beams")}
        every, described, notes = _drawn(
            d, drawn["workload"] or "sharegpt", lengths, counts, drawn["think_seconds"], arrivals, requests, seed
        )
    described |= {"rate": rate, "burstiness": burstiness, "seed": seed}
    total = described["requests"]

    def replica(n: int) -> Iterable[Request]:
        mine = islice(every(), 0, None, n)
        return mine if watch is None else watch(mine, None if total is None else -(-total // n))

    return replica, described, notes


Made = tuple[Callable[[], Iterator["Request"]], dict[str, Any], list[str]]


def _drawn(
    d: Deployment,
    name: str,
    lengths: tuple[str | int | None, str | int | None],
    counts: Mapping[str, int],
    think: float,
    arrivals: Any,
    requests: int | None,
    seed: int,
) -> Made:
    """Requests drawn from distributions, and how they are described."""
    from kvplan.simulate.workload import generate, named, parse_lengths

    shape = named(name)
    prompt, output = (None if text is None else parse_lengths(text, f"{kind}_lengths") for kind, text in zip(KINDS, lengths, strict=True))
    if prompt or output:
        shape = shape._replace(prompt=prompt or shape.prompt, output=output or shape.output, max_tokens=1 << 30)
    n = {key: _whole(key, value, 1 if key in ("depth", "turns", "samples", "beams") else 0) for key, value in counts.items()}
    if n["samples"] > 1 and n["beams"] > 1:
        raise SpecError("workload", [("beams", "samples or beams, not both")])
    if (n["prefixes"] or n["branch"]) and not n["prefix_tokens"]:
        raise SpecError("workload", [("prefix_tokens", "how many tokens do they share?")])
    if n["prefix_tokens"] and not (n["prefixes"] or n["branch"]):
        raise SpecError("workload", [("prefixes", "how many different ones are there?")])
    if n["turns"] > 1 and (n["samples"] > 1 or n["beams"] > 1 or n["branch"]):
        raise SpecError("workload", [("turns", "conversations are drawn with one answer a turn and without trees")])
    longest = d.max_model_len or d.context or d.model.max_context or 1 << 30
    shared = n["prefix_tokens"] * (n["depth"] if n["branch"] else 1)
    shape = shape._replace(
        max_tokens=longest if n["turns"] > 1 else min(shape.max_tokens + shared, 1 << 30),
        prefixes=n["prefixes"], prefix_tokens=n["prefix_tokens"], branch=n["branch"], depth=n["depth"],
        turns=n["turns"], think_seconds=_number("think_seconds", think), samples=n["samples"], width=n["beams"], beam=n["beams"] > 1,
    )  # fmt: skip
    asked = at_least_one("requests", _whole("requests", requests, 1)) if requests is not None else REQUESTS
    generate(shape, arrivals, asked, seed)  # says now what is wrong with it
    described = {"name": name, "trace": None, "requests": asked, "prompt_lengths": str(lengths[0] or "") or None,
                 "output_lengths": str(lengths[1] or "") or None, **n, "think_seconds": think}  # fmt: skip
    return lambda: generate(shape, arrivals, asked, seed), described, []


def _traced(path: str, format_name: str | None, arrivals: Any, requests: int | None, seed: int) -> Made:
    """The requests of a file, read anew each time and never kept."""
    from kvplan.simulate.traces import IN_PIECES, detect, read, timed

    if format_name is None:
        format_name = detect(next(files.text(path), "")[:4096], path)
    if format_name == "sharegpt" and arrivals.rate is None:
        raise SpecError(path, [("", "conversations have no times; say how many requests come a second with rate")])
    most = None if requests is None else _whole("requests", requests, 1)

    def told() -> Iterator[Request]:
        pieces = files.text(path)
        return read(pieces if format_name in IN_PIECES else files.lines(pieces, path), format_name, path)

    def every() -> Iterator[Request]:
        return islice(told() if arrivals.rate is None else timed(told(), arrivals, seed), most)

    next(told(), None)  # says now what is wrong with its beginning
    notes = ["ShareGPT texts are counted as a token for every 4 characters, each turn as a request"] if format_name == "sharegpt" else []
    if arrivals.rate is not None and format_name != "sharegpt":
        notes.append("the trace's own times are replaced by the rate asked for")
    return every, {"name": format_name, "trace": Path(path).name, "requests": most}, notes


def _measured(table: str | Mapping[int, float]) -> StepTime:
    from kvplan.simulate.steptime import fitted, read_table

    if not isinstance(table, str):
        return fitted(list(table.items()))
    return fitted(read_table(files.read_text(table, what="a table of steps has a few rows").splitlines(), table))


def _policies(policy: str | Sequence[str]) -> list[str]:
    from kvplan.simulate.run import POLICIES

    names = [name.strip() for name in (policy.split(",") if isinstance(policy, str) else policy)]
    for name in names:
        if name not in POLICIES:
            raise UnknownName("policy", name, list(POLICIES))
    return list(dict.fromkeys(names))


def _share(text: str | float) -> float:
    """`p99`, `99%` or 0.99."""
    plain = str(text).strip().lower()
    try:
        share = float(plain.strip("p%")) / (100 if plain[:1] == "p" or plain[-1:] == "%" else 1)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise SpecError("size_for", [("", f"{str(text)[:40]!r} is no share of requests; write p99")])
    return share


def _number(name: str, value: Any, *, above: bool = False) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12 and (value > 0 or not above)
    if not good:
        raise SpecError(name, [("", f"{str(value)[:40]!r} is not a number {'above 0' if above else 'of at least 0'}")])
    return float(value)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 40:
        raise SpecError(name, [("", f"{str(value)[:40]!r} is not a whole number of at least {least}")])
    return value
