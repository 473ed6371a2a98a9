"""The process that touches memory. It reads jobs as JSON lines, answers with events, and ends when whoever started it is gone.

A process of its own gives clean figures, and whatever kills it, the memory goes back and the answer so far is known.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from queue import SimpleQueue
from typing import Any

#: job -> where it is done: a function of a meter and the job's arguments that yields events
JOBS = {
    "sizes": ("measure", "sizes_job"),
    "caches": ("measure", "caches_job"),
    "speed": ("speed", "speed_job"),
    "model": ("models", "model_job"),
}


def _limit_address_space(headroom: int) -> None:
    """At most `headroom` bytes more than now: how running out of memory is tried out without running a machine out of it."""
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + headroom, now + headroom))


def main() -> None:
    start = json.loads(sys.stdin.readline())
    try:
        from kvplan.validate.meters import meter

        m = meter(start["device"])
        if start.get("threads"):
            import torch

            torch.set_num_threads(start["threads"])
        _say({"event": "ready", "machine": m.facts(), "free": m.free()})
    except Exception as error:
        _fail(error)
        return
    jobs: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    while True:
        asked: dict[str, Any] = json.loads(jobs.get())
        module, name = JOBS[asked.pop("job")]
        if headroom := asked.pop("headroom", None):
            _limit_address_space(headroom)
        try:
            run: Callable[..., Iterator[dict[str, Any]]] = getattr(import_module(f"kvplan.validate.{module}"), name)
            for event in run(m, **asked):
                _say(event)
            _say({"event": "done"})
        except Exception as error:
            _fail(error)


def _listen(jobs: SimpleQueue[str]) -> None:
    """Passes on what the caller sends; where the caller is gone, the process ends at once, whatever it is doing."""
    for line in iter(sys.stdin.readline, ""):
        jobs.put(line)
    os._exit(1)


def _fail(error: Exception) -> None:
    _say({"event": "failed", "kind": type(error).__name__, "message": str(error)})


def _say(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
