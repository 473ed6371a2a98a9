"""Block references a minute of the one pass over all cache sizes, and of the bounds at one size.

python benchmarks/hit_curve.py [--largest 10000000]    conversations of four turns behind 64 system prompts, blocks of 16 tokens
python benchmarks/hit_curve.py --trace FILE            a trace of Mooncake's, read and counted; beside it kvcache-simulator at four budgets,
                                                       where that command is installed (its second run: the first compiles)

Seconds are of one core. Making the requests is not counted: a trace is read at its own pace.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import time

from kvplan.simulate import Arrivals, generate, named, read
from kvplan.simulate.bounds import first_in, next_uses, optimum
from kvplan.simulate.stack import chain, stack
from kvplan.simulate.traces import MOONCAKE_BLOCK

BLOCK, REFERENCES = 16, 110  # blocks of a request, on average


def beside(file: str) -> None:
    """A trace of blocks of 512 tokens: ours at every size, the peer's LRU at four."""
    start = time.process_time()
    with open(file, encoding="utf-8") as lines:
        requests = list(read(lines, "mooncake", file))
    seconds = time.process_time() - start
    found = stack(chain(request, MOONCAKE_BLOCK) for request in requests)
    took = time.process_time() - start - seconds
    print(f"{len(requests):,} requests, {found.references:,} blocks: read in {seconds:.2f} s, every size in {took:.2f} s")
    command = ["kvcache-simulator", "run", "--trace", file, "--model", "glm-5.2", "--block-size", str(MOONCAKE_BLOCK), "--policies", "lru"]
    if shutil.which(command[0]) is None:
        print("kvcache-simulator is not installed here: no comparison")
        return
    for backend in ("cpp", "cpp", "python"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        whole = [*command, "--budgets-gib", "128,512,2048,4096", "--backend", backend, "--jobs", "1", "--no-progress"]
        subprocess.run(whole, check=True, capture_output=True)
        print(f"kvcache-simulator, {backend}: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before:.2f} s")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--largest", type=int, default=10_000_000)
    options.add_argument("--trace")
    given = options.parse_args()
    if given.trace:
        beside(given.trace)
        return
    largest = given.largest
    shape = named("sharegpt")._replace(prefixes=64, prefix_tokens=512, max_tokens=8192, turns=4)
    for references in (100_000, 1_000_000, 10_000_000):
        if references > largest:
            continue
        requests = list(generate(shape, Arrivals(4.0), references // REFERENCES, 1))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start = time.process_time()
        found = stack(chain(request, BLOCK) for request in requests)
        seconds = time.process_time() - start
        rate, more = found.references / seconds * 60 / 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
        print(f"{found.references:>10,} block references of {len(requests):,} requests:", end=" ")
        print(f"{seconds:.2f} s, {rate:,.0f} M a minute, {more:.0f} MiB")
        chains, size = [chain(request, BLOCK) for request in requests], found.working_set // 4
        for name, bound in (("optimum", lambda c, s: optimum(c, next_uses(c), s)), ("first in, first out", first_in)):
            start = time.process_time()
            hits = bound(chains, size)
            print(
                f"{'':>10} {name} at {size:,} blocks: {time.process_time() - start:.2f} s, {hits:,} pages; the pass {found.found(size):,}"
            )


if __name__ == "__main__":
    main()
