"""Random questions about every model, engine and device: what `make fuzz` asks 10,000 times and the tests a few.

    python fuzz/questions.py [--questions N] [--seed N]

Prints how many were answered, refused by name, and the ones that broke a law of tests/contract/laws.py or raised something else.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import kvplan
from kvplan import catalogue
from kvplan.engines import ENGINES
from kvplan.errors import KvplanError
from kvplan.planner.plan import Plan
from tests.contract import laws

#: Name of a setting -> values; each is left out in three of four questions.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "tp": (2, 4, 8), "pp": (2,), "dp": (2, 4), "ep": (2, 8), "dcp": (2,),
    "max_model_len": (2048, 8192, 32_768, 131_072), "max_num_seqs": (1, 4, 64, 1024), "max_num_batched_tokens": (512, 2048, 16_384),
    "block_size": (1, 16, 32, 64, 128), "weight_dtype": ("fp8", "awq", "q4_k_m", "mxfp4", "bf16"), "kv_dtype": ("fp8", "q8_0", "bf16", "q8_0/q4_0"),
    "memory_fraction": (0.3, 0.9, 0.975, 0.995), "kv_memory": ("300MiB", "8GiB"), "reserve": ("2GiB",), "lora": ("32x4",),
    "speculative": ("ngram:4", "mtp:1"), "multimodal": ("on", "off"), "enforce_eager": (True,), "host_memory": ("64GiB",),
    "n_gpu_layers": (0, 10, 99), "engine_version": ("0.1", "0.9", "0.4.6", "4.40", "0.20", "1.0"),
}  # fmt: skip


def questions(seed: int) -> Iterator[dict[str, Any]]:
    """Endless, the same for a seed."""
    rng = random.Random(seed)
    models, cards = sorted(catalogue.model_ids()), [*catalogue.device_ids(), "6GiB", "24GiB", "200GiB"]
    while True:
        asked = {name: rng.choice(values) for name, values in SETTINGS.items() if rng.random() < 0.25}
        asked |= {"context": rng.choice((1, 1000, 8192, 40_000, 131_072)), "batch": rng.choice((1, 3, 32, 300))}
        yield asked | {"model": rng.choice(models), "engine": rng.choice([*ENGINES]), "device": rng.choice(cards)}


def check(asked: dict[str, Any]) -> Plan:
    """Its plan. Raises KvplanError where it is refused by name, AssertionError where the answer breaks a law."""
    plan = kvplan.estimate(**asked)
    laws.adds_up(plan)
    laws.verdict_agrees(plan)
    name = asked["model"]
    question = {key: value for key, value in asked.items() if key != "model"}
    laws.limits_hold(name, **question)
    if plan.fits is False and plan.starts and plan.margin_bytes is not None:
        assert not laws.fits(name, **question | {"batch": asked["batch"] * 2}), "twice the sequences fit where these do not"
    return plan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    for _, asked in zip(range(given.questions), questions(given.seed), strict=False):
        try:
            check(asked)
            counts["answered"] += 1
        except KvplanError:
            counts["refused by name"] += 1
        except Exception:
            counts["broken"] += 1
            print(asked, traceback.format_exc(limit=-2), sep="\n", flush=True)
    print("questions:", ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items())))
    return int(counts["broken"] > 0)


if __name__ == "__main__":
    sys.exit(main())
