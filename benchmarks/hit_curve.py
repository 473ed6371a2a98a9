"""Block references a minute of the one pass over all cache sizes, and of the bounds at one size.

python benchmarks/hit_curve.py [--largest 10000000]    conversations of four turns behind 64 system prompts, blocks of 16 tokens

Seconds are of one core. Making the requests is not counted: a trace is read at its own pace.
"""

from __future__ import annotations

import argparse
import resource
import time

from kvplan.simulate import Arrivals, generate, named
from kvplan.simulate.bounds import first_in, next_uses, optimum
from kvplan.simulate.stack import chain, stack

BLOCK, REFERENCES = 16, 110  # blocks of a request, on average


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--largest", type=int, default=10_000_000)
    largest = options.parse_args().largest
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
