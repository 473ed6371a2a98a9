"""Changed seeds into every parser: bytes cut, doubled and swapped, and trees with values of other types. `make fuzz SECONDS=600`.

Prints for each parser, which has a process of its own: inputs, how many it answered, the slowest in seconds, the peak of memory. All
seconds are of the processor. An input that raises anything but a KvplanError, or takes longer than LIMIT, is kept in fuzz/crashes and makes
the exit code 1.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))
from fuzz.targets import TARGETS, Target
from kvplan.errors import KvplanError

LIMIT, WAITED = 20, 600  # seconds of one input: of the processor, and in all (a machine may be busy)
CRASHES = Path(__file__).parent / "crashes"
ODD: list[Any] = [None, True, 0, -1, 1, 2**31, 2**63, 10**30, 1.5, 1e308, "", "x", "9" * 5000, "\u202e\x1b[0m", [], [[]], {}, {"a": 1}]
PIECES = [
    b"\0",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b"{",
    b"}",
    b"[",
    b"(",
    b"$(",
    b"${A:-",
    b"`",
    b"\\",
    b"&a ",
    b"*a",
    b"!!int ''",
    b"<<E\n",
    b"\xff",
    b": ",
    b"- ",
]


def changed_tree(data: Any, rng: random.Random) -> Any:
    """A deep copy with one value of another type, left out, doubled, or moved."""
    made = copy.deepcopy(data)
    at, path = made, []
    while isinstance(at, dict | list) and at:
        key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        path.append((at, key))
        at = at[key]
        if rng.random() < 0.25:
            break
    if not path:
        return rng.choice(ODD)
    holder, key = rng.choice(path)
    what = rng.random()
    if what < 0.6:
        holder[key] = rng.choice(ODD)
    elif what < 0.75:
        del holder[key]
    elif what < 0.9:
        holder[key] = [holder[key], holder[key]]
    elif isinstance(holder, dict):
        holder[str(rng.choice(ODD))] = holder[key]
    return made


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few cuts, doublings, flips and insertions."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at, end = sorted((rng.randint(0, len(made)), rng.randint(0, len(made))))
        end = min(end, at + rng.choice((1, 4, 40, 4000)))
        what = rng.randrange(5)
        if what == 0:
            del made[at:end]
        elif what == 1:
            made[at:at] = made[at:end] * rng.choice((1, 1, 2, 50))
        elif what == 2 and made:
            made[min(at, len(made) - 1)] = rng.randrange(256)
        else:
            made[at:at] = rng.choice(PIECES) * rng.choice((1, 1, 3, 300))
    return bytes(made[: 1 << 20])


def inputs(target: Target, rng: random.Random) -> Any:
    """Endless inputs from the seeds."""
    trees = []
    for seed in target.seeds if target.tree else []:
        try:
            trees.append(next(yaml.load_all(seed, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))))
        except (yaml.YAMLError, StopIteration):
            continue
    yield from target.seeds
    while True:
        if target.made and rng.random() < 0.5:
            fresh = target.made(rng)
            yield fresh if rng.random() < 0.7 else changed_bytes(fresh, rng)
        elif trees and rng.random() < 0.6:
            tree = rng.choice(trees)
            for _ in range(rng.randint(1, 3)):
                tree = changed_tree(tree, rng)
            yield json.dumps(tree, default=str).encode()
        else:
            yield changed_bytes(rng.choice(target.seeds), rng)


class Hung(BaseException):
    """No Exception: nothing that handles one may take it for a fault of a file."""


def stopped(*_: object) -> None:
    raise Hung(f"longer than {LIMIT} s")


def fuzz(name: str, target: Target, seconds: float, seed: int) -> int:
    """Crashes of one parser."""
    rng, end = random.Random(f"{name} {seed}"), time.process_time() + seconds
    n = answered = crashes = 0
    slowest = 0.0
    for data in inputs(target, rng):
        started = time.process_time()
        if started > end:
            break
        n += 1
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        signal.alarm(WAITED)
        try:
            target.call(data)
            answered += 1
        except KvplanError:
            pass
        except (Exception, Hung):
            crashes += 1
            CRASHES.mkdir(exist_ok=True)
            path = CRASHES / f"{name.replace(' ', '-')}-{hashlib.sha256(data).hexdigest()[:12]}"
            path.write_bytes(data)
            print(f"{name}: {path.name}: {traceback.format_exc(limit=-2)}")
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        slowest = max(slowest, time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{name:15} {n:9,} inputs {answered:9,} answered {crashes:4} crashes, slowest {slowest:6.2f} s, peak {peak:5} MiB", flush=True)
    return crashes


def apart(name: str, seconds: float, seed: int) -> int:
    """Whether one parser crashed, in a child: the peak of its memory is its own."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            code = int(fuzz(name, TARGETS[name], seconds, seed) > 0)
        finally:
            sys.stdout.flush()
            os._exit(code)
    return int(os.waitpid(child, 0)[1] != 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="over all parsers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []])
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, stopped)
    signal.signal(signal.SIGPROF, stopped)
    names = asked.targets or list(TARGETS)
    return int(sum([apart(name, asked.seconds / len(names), asked.seed) for name in names]) > 0)


if __name__ == "__main__":
    sys.exit(main())
