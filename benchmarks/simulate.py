"""The simulator's rate, and beside it, where vLLM is installed, that of its own cache manager through the same requests.

python benchmarks/simulate.py [--largest 1000000]    256 live ShareGPT-like requests, no prefix shared; then the same with shared prefixes

Seconds are of the processor, so that what else runs on the machine does not count.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterable
from itertools import islice

from kvplan.simulate import Arrivals, Request, StepTime, generate, named, simulate, slots

LIVE, BLOCK, PAGES = 256, 16, 40_000
STEP = StepTime(overhead=0.03)


def stream(n: int, shared: bool = False) -> Iterable[Request]:
    """Enough arrivals to keep 256 running and a queue that stays short: 256 requests take 338 steps of 30 ms on average."""
    shape = named("sharegpt")
    return generate(
        shape._replace(prefixes=16, prefix_tokens=256, max_tokens=4096) if shared else shape, Arrivals(LIVE / (338 * 0.03)), n, 1
    )


def ours(n: int, shared: bool) -> tuple[float, float]:
    """Requests and tokens a second."""
    start = time.process_time()
    result = simulate(slots(PAGES * BLOCK, BLOCK, 4096), stream(n, shared), step_time=STEP, max_num_seqs=LIVE)
    seconds = time.process_time() - start
    return n / seconds, result.tokens / seconds


def theirs(n: int, shared: bool) -> tuple[float, float]:
    """The same requests through vLLM's KVCacheManager: whole prompts, then one token at a time for each of 256 live ones."""
    import torch
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.request import Request as TheirRequest

    init_none_hash(sha256)
    hasher = get_request_block_hasher(BLOCK, sha256) if shared else None
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float16)
    config = KVCacheConfig(num_blocks=PAGES, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    manager = KVCacheManager(config, max_model_len=4096, scheduler_block_size=BLOCK, hash_block_size=BLOCK, enable_caching=shared)
    made = list(enumerate(stream(n, shared)))
    prompts = {i: _tokens(i, request) for i, request in made}
    coming, live, tokens = iter(made), [], 0
    start = time.process_time()
    while True:
        for i, one in islice(coming, LIVE - len(live)):
            request = TheirRequest(str(i), prompts[i], SamplingParams(max_tokens=one.output), None, block_hasher=hasher)
            blocks, hit, _ = manager.get_computed_blocks(request)
            manager.allocate_slots(request, one.prompt - hit, hit, blocks)
            request.num_computed_tokens = one.prompt
            request.append_output_token_ids(1)
            live.append([request, one.output - 1])
            tokens += one.prompt + one.output
        if not live:
            break
        going = []
        for pair in live:
            request, left = pair
            if left == 0:
                manager.free(request)
                continue
            manager.allocate_slots(request, 1)
            request.num_computed_tokens += 1
            request.append_output_token_ids(1)
            pair[1] = left - 1
            going.append(pair)
        live = going
    seconds = time.process_time() - start
    return n / seconds, tokens / seconds


def _tokens(number: int, request: Request) -> list[int]:
    """Tokens that two prompts share as far as their content says."""
    shared = request.content[-1][1] if request.content else 0
    stream = request.content[-1][0] if request.content else 0
    return [stream * 10_000 + i for i in range(shared)] + [(number + 100) * 10_000 + i for i in range(shared, request.prompt)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--largest", type=int, default=1_000_000)
    largest = options.parse_args().largest
    for shared in (False, True):
        for n in (10_000, 100_000, 1_000_000):
            if n > largest:
                continue
            requests, tokens = ours(n, shared)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            what = "shared prefixes" if shared else "nothing shared "
            print(f"{n:>9,} requests, {what}: {requests:>9,.0f} requests/s, {tokens / 1e6:>6.1f} M tokens/s, peak {peak:,.0f} MiB")
    for shared in (False, True):
        what = "shared prefixes" if shared else "nothing shared "
        try:
            requests, tokens = theirs(3000, shared)
        except ImportError:
            print("vLLM is not installed here: no comparison")
            return
        mine = max(ours(3000, shared)[0] for _ in range(3))
        print(f"    3,000 requests, {what}: vLLM's manager {requests:,.0f} requests/s, {tokens / 1e6:.2f} M tokens/s;", end=" ")
        print(f"ours {mine:,.0f} requests/s, {mine / requests:.1f} times as fast")


if __name__ == "__main__":
    main()
