"""Replicas with a clock each, and one source of requests: whatever happens first happens first.

A request is routed when every replica has begun all steps that begin before it arrives. What ends a step later can only bring requests that
come later still, so one pass in order of time is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from kvplan.simulate.scheduler import Scheduler
from kvplan.simulate.source import Source
from kvplan.simulate.workload import Request

#: Which of the replicas gets a request.
Route = Callable[[Request, Sequence[Scheduler]], int]


def drive(replicas: Sequence[Scheduler], source: Source, route: Route, most_bad: int | None = None) -> list[int]:
    """Until the source is over, every request has ended, or more than `most_bad` ended badly: how many requests each replica got."""
    busy: list[tuple[float, int]] = []
    got = [0] * len(replicas)
    number, warmed = 0, source.warmed
    for one in replicas:
        one.on_end = source.ended
    while not source.over:
        coming = source.coming
        if coming is not None and not (busy and busy[0][0] < coming):
            request = source.take()
            i = route(request, replicas) if len(replicas) > 1 else 0
            one = replicas[i]
            idle = one.idle
            if idle and coming > one.now:
                one.recorder.idle(coming - one.now)
                one.now = coming
            if not one.arrive(number, request):
                source.ended(request, coming, False)
            elif idle:
                heappush(busy, (one.now, i))
            got[i] += 1
            number += 1
        elif busy:
            _, i = heappop(busy)
            replicas[i].one_step()
            if not replicas[i].idle:
                heappush(busy, (replicas[i].now, i))
            if most_bad is not None and sum(one.recorder.bad for one in replicas) > most_bad:
                break
        else:
            break
        if not warmed and source.warmed:
            warmed, got = True, [0] * len(replicas)
            for one in replicas:
                one.recorder.begin(one.now, one.manager)
    end = max(one.now for one in replicas)
    for one in replicas:
        if one.idle and one.now < end:
            one.recorder.idle(end - one.now)
    return got
