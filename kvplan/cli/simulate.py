"""The command that runs a workload through a plan's pool."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from kvplan import api
from kvplan.cli.grid import questions
from kvplan.cli.groups import Grouped
from kvplan.cli.options import FORMAT, MODEL, parted, put, question_options
from kvplan.errors import SpecError

if TYPE_CHECKING:
    from kvplan.planner.simulation import Simulation


@click.command(cls=Grouped)
@MODEL
@click.option("--workload", metavar="NAME", help="sharegpt (the default), alpaca or fixed: how long prompts and answers are.")
@click.option("--rate", type=float, help="Requests a second, over all replicas; by default all come at once (a trace: at its times).")
@click.option("--burstiness", type=float, default=1.0, show_default=True, help="1: Poisson arrivals; less: gamma bursts; more: even.")
@click.option("--requests", type=int, help="How many requests; by default 1000, or all of a trace.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same requests.")
@click.option("--prompt-lengths", metavar="LENGTHS", help="Instead of the workload's: 512, lognormal:MEAN:CV or 10,20,40.")
@click.option("--output-lengths", metavar="LENGTHS", help="The same for answers.")
@click.option("--prefixes", type=int, default=0, help="How many different system prompts stand before the requests' own.")
@click.option("--prefix-tokens", type=int, default=0, help="Tokens of a system prompt, or of an example.")
@click.option("--branch", type=int, default=0, help="Few-shot trees: examples to choose from at each level, of --prefix-tokens each.")
@click.option("--depth", type=int, default=1, help="Levels of the trees.")
@click.option("--turns", type=int, default=1, help="Turns of a conversation; each brings its whole past.")
@click.option("--think", "--think-seconds", "think_seconds", metavar="TIME", help="Mean time between turns; by default 10s.")
@click.option("--users", type=int, help="Instead of a rate: people who each wait for an answer, think, and ask on.")
@click.option("--tool-calls", type=int, default=0, help="Of users: calls of tools before each answer, each a request.")
@click.option("--tool-tokens", metavar="LENGTHS", help="Tokens of a tool's result.")
@click.option("--tool-seconds", metavar="TIME", help="Mean time that a tool takes; by default 1s.")
@click.option("--samples", type=int, default=1, help="Answers drawn in parallel from each prompt.")
@click.option("--beams", type=int, default=1, help="Beams of a search from each prompt.")
@click.option("--trace", type=click.Path(dir_okay=False), help="Requests from this file instead; may end in .gz.")
@click.option("--trace-format", metavar="NAME", help="azure, burstgpt, mooncake, sharegpt or lengths; by default seen in its first line.")
@click.option("--policy", default="paged", show_default=True, metavar="A,B,...",
              help="paged (the engine's own pages), contiguous-max, contiguous-pow2, contiguous-oracle; several side by side.")  # fmt: skip
@click.option("--router", metavar="A,B,...",
              help="All --dp replicas, behind round-robin, least-loaded, session, cache-aware or prefix-scorer.")  # fmt: skip
@click.option("--first-token", metavar="TIME", help="A good answer's first token comes within it; of users by default 2s.")
@click.option("--per-token", metavar="TIME", help="And each further one; of users by default 200ms.")
@click.option("--share-prefixes/--no-share-prefixes", default=None, help="Whether equal prefixes share pages; by default as the engine.")
@click.option("--step-time", type=click.Path(dir_okay=False), metavar="TABLE",
              help="CSV of sequences,seconds of measured decode steps; by default the device's roofline.")  # fmt: skip
@click.option("--step-overhead", type=float, default=0.0, help="Seconds to add to every step of the roofline.")
@click.option("--swap-seconds", type=float, help="Read a preempted token back in this time, instead of computing it again.")
@click.option("--warm", type=float, default=0.0, help="Simulated seconds that the averages leave out.")
@click.option("--size-for", metavar="p99|users=N",
              help="Also the least pool, and devices, at which p99 never wait for pages; or devices that carry N users.")  # fmt: skip
@click.option("--most", type=int, default=16, show_default=True, help="Devices to try for --size-for.")
@click.option("--hit-curve", is_flag=True, help="Instead: the share of prompt tokens found in the prefix cache, by the cache's size.")
@click.option("--bounds/--no-bounds", default=None, help="Beside --hit-curve: first in, first out and the best possible eviction.")
@click.option("--plot", type=click.Path(dir_okay=False, writable=True), help="Draw it there (.png, .svg, .pdf); needs the `plot` extra.")
@question_options
@FORMAT
def simulate(model: str, policy: str, plot: str | None, hit_curve: bool, bounds: bool | None, fmt: str, **options: Any) -> int:
    """What a workload does to MODEL's cache: pages used and lost, sharing, waiting, preemption, and how many requests run at once.

    `kvplan simulate MODEL --device h100 --workload sharegpt --rate 4`, requests from a file with --trace, or --users, and how many of them
    it carries. Exit code 1 where the engine would not start, or no pool or devices answer --size-for.
    """
    from kvplan.report import simulation

    if plot is not None:
        from kvplan.report import plot as drawing

        drawing.ready(plot)
    asked, workload = parted(options)
    watch = _watch if sys.stderr.isatty() else None
    several = questions(asked)
    if hit_curve:
        return _curves(model, several, fmt, {"policy": policy, "plot": plot, **workload}, watch, bounds is not False)
    if bounds is not None:
        raise SpecError("bounds", [("", "belongs to --hit-curve")])
    if plot is not None and len(several) > 1:
        raise SpecError("plot", [("", "one picture shows one question; give one value of each option")])
    found = [api.simulate(model, policy=policy, watch=watch, **workload, **question) for question in several]
    put(simulation.render(found, fmt))
    if plot is not None:
        drawing.draw(found[0], plot)
    return max(int(one.plan.starts is False or _unanswered(one)) for one in found)


#: What says nothing about a hit curve, by the value it has where it was not given.
_NOT_OF_CURVES = {
    "policy": "paged", "plot": None, "beams": 1, "share_prefixes": None, "step_time": None, "step_overhead": 0.0, "swap_seconds": None,
    "warm": 0.0, "size_for": None, "most": 16, "router": None, "first_token": None, "per_token": None,
}  # fmt: skip


def _curves(model: str, several: list[dict[str, Any]], fmt: str, workload: dict[str, Any], watch: Any, bounds: bool) -> int:
    """Hit curves instead of simulations."""
    from kvplan.report import hits

    given = [name for name, value in _NOT_OF_CURVES.items() if workload.pop(name, value) != value]
    if given:
        raise SpecError("hit_curve", [(name, "belongs to a simulation; leave it out") for name in given])
    found = [api.hit_curve(model, watch=watch, bounds=bounds, **workload, **question) for question in several]
    put(hits.render(found, fmt))
    return max(int(one.plan.starts is False) for one in found)


def _unanswered(found: Simulation) -> bool:
    if found.sized is not None:
        return found.sized.result is None
    return found.size is not None and found.size.n_devices is None and found.plan.asked("device") is not None


def _watch(requests: Iterable[Any], total: int | None) -> Iterator[Any]:
    """The requests as they arrive, and on the terminal how many, how fast, and how long it will take."""
    start = shown = time.monotonic()
    n = 0
    for n, request in enumerate(requests, 1):
        yield request
        if n % 256 == 0 and (now := time.monotonic()) - shown > 0.2:
            shown, rate = now, n / (now - start)
            left = "" if total is None else f" of {total:,}, {max(total - n, 0) / rate:,.0f} s left"
            sys.stderr.write(f"\r{n:,} requests{left}, {rate:,.0f} a second\x1b[K")
            sys.stderr.flush()
    if shown != start:
        sys.stderr.write("\r\x1b[K")
