"""`kvplan serve` on loopback: one change on the page, `/api/estimate` warm, and both under load. Medians and shares of one run.

    python benchmarks/serve.py [REQUESTS] [WORKERS]

changes  a question that was not asked before, as the page asks while a slider is dragged (no advice), one connection
kept     a question that was asked before
load     as many connections as it says, each with its next request as soon as it has its answer; one in ten is a new question
beside   the same new questions of the library, in this process: what HTTP adds is the difference

Beside the time that a client waits stands the processor time that the server's processes took for each request (Linux), which says the
same on a machine that others use too.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kvplan

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 300
WORKERS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
CONNECTIONS = 8
QUESTION = {"model": "meta-llama/llama-3.1-8b", "device": "h100", "engine": "vllm", "context": "8k"}


def ask(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> float:
    """Seconds from sending a question to having read its answer."""
    data = json.dumps(body)
    began = time.perf_counter()
    connection.request("POST", path, data, {"content-type": "application/json"})
    response = connection.getresponse()
    response.read()
    assert response.status == 200
    return time.perf_counter() - began


def said(what: str, seconds: list[float], note: str = "") -> None:
    """Median and tail in milliseconds."""
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    print(f"{what:<34} {1000 * statistics.median(ordered):8.2f} ms p50 {1000 * p99:8.2f} ms p99  {len(ordered):>6,} requests {note}")


def cpu_seconds(pid: int) -> float:
    """What a process and its children have taken of the processors, in seconds; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(cpu_seconds(int(child)) for child in children)


def new_questions() -> Iterator[dict[str, Any]]:
    """Questions of which none is like another."""
    for context in itertools.count(1024, 8):
        yield QUESTION | {"context": context, "advise": False}


def loaded(address: tuple[str, int], bodies: Callable[[int], Iterator[dict[str, Any]]]) -> tuple[list[float], float]:
    """Every request's seconds, and how long all took."""
    took: list[float] = []

    def client(n: int) -> None:
        connection = http.client.HTTPConnection(*address)
        took.extend([ask(connection, "/api/estimate", body) for body in itertools.islice(bodies(n), REQUESTS)])

    threads = [threading.Thread(target=client, args=(n,)) for n in range(CONNECTIONS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, time.perf_counter() - began


def one_in_ten(n: int) -> Iterator[dict[str, Any]]:
    for i in itertools.count():
        yield QUESTION | ({"context": 1 << 16 | i << 4 | n, "advise": False} if i % 10 == 0 else {"batch": 1 + i % 20})


def main() -> None:
    command = [sys.executable, "-m", "kvplan", "serve", "--port", "0", "--workers", str(WORKERS)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        host, port = server.stderr.readline().split()[0].removeprefix("http://").rstrip("/").split(":")
        address = (host, int(port))
        connection = http.client.HTTPConnection(*address)
        fresh = new_questions()
        for _ in range(20):
            ask(connection, "/page/answer", next(fresh))
        for what, path, bodies in (
            ("one change on the page", "/page/answer", fresh),
            ("/api/estimate, new question", "/api/estimate", fresh),
            ("/api/estimate, asked before", "/api/estimate", itertools.repeat(QUESTION)),
        ):
            ask(connection, path, next(bodies))
            before = cpu_seconds(server.pid)
            took = [ask(connection, path, next(bodies)) for _ in range(REQUESTS)]
            said(what, took, f"{1000 * (cpu_seconds(server.pid) - before) / REQUESTS:.1f} ms of processor each")
        for what, bodies in (("kept answers", lambda n: itertools.repeat(QUESTION)), ("one in ten new", one_in_ten)):
            took, seconds = loaded(address, bodies)
            said(f"{CONNECTIONS} connections, {what}", took, f"{len(took) / seconds:,.0f} a second, {WORKERS} processes")
        server.terminate()
    for body in itertools.islice(new_questions(), 20):
        kvplan.estimate(body.pop("model"), **body).as_dict()
    began = time.process_time()
    for body in itertools.islice(new_questions(), 20, 20 + REQUESTS):
        kvplan.estimate(body.pop("model"), **body).as_dict()
    print(f"beside: the library takes {1000 * (time.process_time() - began) / REQUESTS:.2f} ms of processor for a new question (mean)")


if __name__ == "__main__":
    main()
