"""The same ranges of a sweep on a Dask cluster: dealt out, retried, and handed back in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kvplan.deployment import Deployment
from kvplan.errors import KvplanError
from kvplan.extras import missing

RETRIES = 3


@contextmanager
def connected(scheduler: str, workers: int | None = None) -> Iterator[Any]:
    """A Dask client of the scheduler at an address (tcp://...), or of a local cluster of processes for `local`."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise missing("a sweep on a cluster needs dask", "dask", "leave --scheduler out") from None
    if scheduler != "local":
        try:
            client = Client(scheduler, timeout="10s")  # type: ignore[no-untyped-call]
        except OSError as error:
            raise KvplanError(f"no Dask scheduler answers at {scheduler}: {error}") from None
        with client:
            yield client
        return
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)  # type: ignore[no-untyped-call]
    with cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
        yield client


def columns(client: Any, d: Deployment, over: Any, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Any]]:
    """Each range's size and columns, in order. Twice as many ranges as workers are under way; a lost worker's are done again."""
    from kvplan.planner.sweep import columns as points

    waiting: deque[tuple[int, Any]] = deque()
    most = 2 * max(1, len(client.scheduler_info()["workers"]))
    for start, stop in ranges:
        waiting.append((stop - start, client.submit(points, d, over, start, stop, retries=RETRIES, pure=False)))
        if len(waiting) >= most:
            n, future = waiting.popleft()
            yield n, future.result()
    while waiting:
        n, future = waiting.popleft()
        yield n, future.result()
