"""The process that touches memory. It reads a job as JSON lines, answers with events, and ends when whoever started it is gone.

A process of its own gives clean figures, and whatever kills it, the memory goes back and the answer so far is known.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

#: job -> where it is done: a function of a meter and the job's arguments that yields events
JOBS = {"caches": ("measure", "caches_job"), "speed": ("speed", "speed_job"), "model": ("models", "model_job")}


def _limit_address_space(headroom: int) -> None:
    """At most `headroom` bytes more than now: how running out of memory is tried out without running a machine out of it."""
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + headroom, now + headroom))


def main() -> None:
    lines: Iterator[str] = iter(sys.stdin.readline, "")
    start = json.loads(next(lines))
    try:
        from kvplan.validate.measure import meter

        m = meter(start["device"])
    except Exception as error:
        _say({"event": "failed", "kind": type(error).__name__, "message": str(error)})
        return
    if start.get("threads"):
        import torch

        torch.set_num_threads(start["threads"])
    _say({"event": "ready", "machine": m.facts(), "free": m.free()})
    job = next(lines, "")
    if not job:
        return
    threading.Thread(target=_end_with_the_caller, args=(lines,), daemon=True).start()
    asked: dict[str, Any] = json.loads(job)
    module, name = JOBS[asked.pop("job")]
    if headroom := asked.pop("headroom", None):
        _limit_address_space(headroom)
    run: Callable[..., Iterator[dict[str, Any]]] = getattr(import_module(f"kvplan.validate.{module}"), name)
    try:
        for event in run(m, **asked):
            _say(event)
        _say({"event": "done"})
    except Exception as error:
        _say({"event": "failed", "kind": type(error).__name__, "message": str(error)})


def _end_with_the_caller(lines: Iterator[str]) -> None:
    for _ in lines:
        pass
    os._exit(1)


def _say(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
