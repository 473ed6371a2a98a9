"""Points a second of a sweep on arrays, of the scalar path, and of peers' library calls where they are installed, in one run.

    python benchmarks/sweep.py            # ratios to the scalar path; growth from 10^4 to 10^7 points, with peak memory

Peers (kvfit, llm-d-planner) are asked for the cache of one configuration per call, which is less than a point of ours answers. Where
they lie in an environment of their own: PYTHONPATH=. THAT/bin/python benchmarks/sweep.py, with our dependencies beside them.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kvplan import api
from kvplan.planner import sweep
from kvplan.planner.evaluate import evaluate

MODEL = "meta-llama/llama-3.1-8b"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16", "dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def rate(call: Callable[[int], None], seconds: float = 1.0) -> float:
    """Calls a second of processor time, each with another number."""
    call(1)
    started, n = time.process_time(), 0
    while time.process_time() - started < seconds:
        n += 1
        call(1024 + n)
    return n / (time.process_time() - started)


def swept(points: int, engine: str = "ideal", **question_names: Any) -> float:
    """Processor seconds to evaluate a grid of about `points` points on arrays, 100,000 at a time; nothing is written."""
    side = round((points / 4) ** 0.5)
    question = api.deployment(MODEL, engine=engine, device="h100-80gb", **question_names)
    over = sweep.grid({"tp": [1, 2, 4, 8], "context": range(1024, 1024 + side), "batch": range(1, side + 1)})
    started = time.process_time()
    for first, last in sweep.chunks(over, 100_000):
        sweep.columns(question, over, first, last)
    return time.process_time() - started


def peers() -> dict[str, Callable[[int], Any]]:
    """Library calls of the peers that are installed."""
    found: dict[str, Callable[[int], Any]] = {}
    try:
        import kvfit

        found["kvfit.estimate_cache"] = lambda n: kvfit.estimate_cache(CONFIG, context_tokens=n)
    except ImportError:
        print("kvfit is not installed")
    try:
        from planner.capacity_planner import KVCacheDetail

        config = SimpleNamespace(**CONFIG, to_dict=lambda: CONFIG)
        found["llm-d-planner KVCacheDetail"] = lambda n: KVCacheDetail("m", config, n, 4)
    except ImportError:
        print("llm-d-planner is not installed")
    return found


def main() -> None:
    """Prints both tables."""
    question = api.deployment(MODEL, engine="ideal", device="h100-80gb", batch=4)
    scalar = rate(lambda n: evaluate(replace(question, context=n)))
    vllm = api.deployment(MODEL, engine="vllm", device="h100-80gb", batch=4)
    rows = {
        "kvplan, scalar": scalar,
        "kvplan, arrays": 4e6 / swept(4_000_000),
        "kvplan vllm, scalar": rate(lambda n: evaluate(replace(vllm, context=n))),
        "kvplan vllm, arrays": 4e6 / swept(4_000_000, "vllm", max_model_len="128k"),
        "kvplan vllm, batch on arrays": 1e6 / swept(1_000_000, "vllm"),
    }
    for name, call in peers().items():
        try:
            rows[name] = rate(call)
        except Exception as error:
            print(f"{name} could not be asked: {type(error).__name__}: {error}")
    for name, points in rows.items():
        print(f"{name:32} {points:>14,.0f} points/s {points / scalar:>10.2f} x scalar")
    print()
    for points in (10**4, 10**5, 10**6, 10**7):
        seconds = swept(points)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{points:>12,} points {seconds:>8.2f} s {points / seconds / 1e6:>6.2f} M points/s   peak memory so far {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
