"""Starts the worker, hands it a job and passes on its events; whatever happens here, the worker is gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from kvplan.errors import ProbeError, UnsupportedError

Event = dict[str, Any]

# Every larger allocation its own mapping, given back when freed: resident memory then says what is alive.
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
# What would give torch's allocator of GPU memory other rules than those it has by default, which are predicted (segments.py).
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")


class Worker:
    """`with Worker("cpu") as worker`: `worker.machine` and `worker.free` at once, then `worker.run(job, ...)`, one after the other."""

    def __init__(self, device: str, threads: int | None = None) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the worker
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kvplan.validate.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={name: text for name, text in os.environ.items() if name not in _ALLOCATOR} | _ENVIRONMENT,
            start_new_session=True,  # Ctrl-C reaches the caller, which ends the worker
        )
        try:
            self._send({"device": device, "threads": threads})
            ready = next(self._events())
            self.machine: Event = ready["machine"]
            self.free: int | None = ready["free"]
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the worker and waits until its memory is given back."""
        self.process.kill()
        self.process.communicate()
        self._errors.close()

    def run(self, job: str, **arguments: Any) -> Iterator[Event]:
        """The events of a job; where the worker is killed, a last event `killed` says by what."""
        self._send({"job": job, **arguments})
        yield from self._events()

    def _send(self, message: Event) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _events(self) -> Iterator[Event]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break  # cut off in the middle of an event
            event: Event = json.loads(line)
            if event["event"] == "done":
                return
            if event["event"] == "failed":
                raise _failure(event["kind"], event["message"])
            yield event
        code = self.process.wait()
        if code >= 0:
            self._errors.seek(0)
            last = self._errors.read().strip().splitlines()[-1:]
            raise ProbeError(f"the measuring process ended with {code}: {last[0] if last else 'it said nothing'}")
        yield {"event": "killed", "signal": signal.Signals(-code).name}


def _failure(kind: str, message: str) -> Exception:
    if kind == "ModuleNotFoundError":
        missing = message.rsplit("'", 2)[-2] if "'" in message else message
        return UnsupportedError(
            f"validate needs {missing}, which is not installed: install kvplan-llm[gpu] (torch), or {missing} beside it"
        )
    if kind == "UnsupportedError":
        return UnsupportedError(message)
    return ProbeError(message if kind == "ProbeError" else f"{kind}: {message}")
