"""Parallel sizes for a number of devices that was asked for without any: what an engine would be started with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.errors import KvplanError, SpecError
from kvplan.planner.evaluate import evaluate

#: Devices of one machine: tensor parallelism stays within it.
NODE = 8


def laid_out(d: Deployment) -> Deployment:
    """The question with tp, and pp for what tp leaves over, where it names several devices and no sizes and its engine asks for them.

    The widest tp of a machine that the engine does not refuse; `assumed` names what was chosen. Raises what the question itself raises
    where no such layout can be asked.
    """
    n = d.n_devices or 1
    if n == 1 or any(getattr(d, name) is not None for name in ("tp", "pp", "dp", "ep", "dcp")):
        return d
    try:
        evaluate(d, limits=False)
    except SpecError as error:
        return d if error.source != "n_devices" else _first(d, n, error)
    except KvplanError:
        return d
    return d


def _first(d: Deployment, n: int, error: SpecError) -> Deployment:
    found = None
    for tp, pp in _layouts(n):
        asked = replace(d, tp=tp, pp=pp, assumed=("tp", "pp"))
        try:
            outcome = evaluate(asked, limits=False).outcome
        except KvplanError:
            continue
        if outcome.margin_bytes is not None or outcome.fits is None:
            return asked
        found = found or asked
    if found is None:
        raise error
    return found


def _layouts(n: int) -> Iterator[tuple[int, int]]:
    """tp x pp of n devices: powers of two up to a machine, the widest first, then its other divisors."""
    divisors = [size for size in range(min(n, NODE), 0, -1) if n % size == 0]
    yield from ((tp, n // tp) for tp in sorted(divisors, key=lambda size: (size & (size - 1) != 0, -size)))
