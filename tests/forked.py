"""Commands of kvplan in children of a process that has imported it: milliseconds each, and they can be killed and held to limits.

`python -m tests.forked` reads lists of jobs, a list a line, whose jobs run at once, and answers each list with one of exit codes (negative:
the signal) and of what was said on standard error. A job has `args`, and may have `env` and:

    die_at      the process is killed at its so many-th write to disk (fsync, replace, truncate): a kill at each step of a write
    most_bytes  no file may grow beyond (RLIMIT_FSIZE): a disk that is full
    modes       modes of files hold for root too
    no_home     the system knows no home directory
    here        no child: what it imports and reads, later children have
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STEPS = ("fsync", "replace", "unlink")


class Commands:
    """The process that forks, for a `with`."""

    def __enter__(self) -> Commands:
        command = [sys.executable, "-W", "ignore", "-m", "tests.forked"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def warm(self, *args: str) -> None:
        """Runs a command in that process itself: its children have what it imported and read."""
        self.run({"args": args, "here": True})

    def run(self, *jobs: dict[str, Any]) -> list[tuple[int, str]]:
        """All at once; exit code and words of each."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        return [(code, said) for code, said in json.loads(self._process.stdout.readline())]


def _dying(name: str, left: list[int]) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(*args: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **more)

    return call


def _child(job: dict[str, Any], said: int) -> None:
    """Runs one job and never returns."""
    from kvplan.cli import run
    from tests.modes import modes_hold

    os.dup2(said, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ.update(job.get("env", {}))
    if job.get("no_home"):
        import pwd

        for name in ("HOME", "XDG_CONFIG_HOME", "KVPLAN_CALIBRATION"):
            os.environ.pop(name, None)
        pwd.getpwuid = lambda uid: {}[uid]  # type: ignore[assignment, misc]
    if "die_at" in job:
        left = [job["die_at"]]
        for name in STEPS:
            setattr(os, name, _dying(name, left))
    if "most_bytes" in job:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["most_bytes"], resource.RLIM_INFINITY))
    code = 70
    try:
        if job.get("modes"):
            with modes_hold():
                code = run(job["args"])
        else:
            code = run(job["args"])
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    from kvplan.cli import run

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for line in sys.stdin:
        started = []
        for job in json.loads(line):
            if job.get("here"):
                with redirect_stdout(StringIO()):
                    run(job["args"])
                continue
            said = tempfile.TemporaryFile()  # noqa: SIM115
            child = os.fork()
            if not child:
                _child(job, said.fileno())
            started.append((child, said))
        done = []
        for child, said in started:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            done.append((code, said.read().decode(errors="replace")))
            said.close()
        sys.stdout.write(json.dumps(done) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
