"""Host memory that a vLLM server takes in service, as its options bound it.

processed images  mm_processor_cache_gb GiB of each API server and each engine (config/multimodal.py), 4 by default; to 0.10.0
                  VLLM_MM_INPUT_CACHE_GIB, 8 by default (envs.py). An API server for each engine, unless another number is asked for
adapters          max_cpu_loras of them, whole on every rank; as many as max_loras by default (lora/model_manager.py)
weights asleep    a copy of every rank's weights, at level 1 (device_allocator/cumem.py sleep)
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engines.common.lora import adapter_bytes
from kvplan.engines.common.options import Options, read_lora
from kvplan.engines.common.protocol import Outcome, Risk, Settled
from kvplan.engines.vllm.adapters import ELEMENT_BYTES, ROLES
from kvplan.engines.vllm.media import text_alone
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.units import GIB, cdiv


def risks(settled: Settled, outcome: Outcome) -> tuple[Risk, ...]:
    """Those of one replica, all its ranks together."""
    return tuple(Risk(name, 0, 0, high, "serve", removes, "host") for name, high, removes in _all(settled, outcome) if high)


def _all(settled: Settled, outcome: Outcome) -> Iterator[tuple[str, int, str]]:
    d, options = settled.question, Options(settled.question)
    s: VllmSettings = settled.settings
    ranks, replicas = s.tp * s.pp, d.dp or 1
    if d.model.towers and not text_alone(d) and s.rules.v1:
        early = not s.since("0.10.2")
        each = options.number("mm_processor_cache_gb", zero=True)
        processes = 1 + cdiv(options.count("api_server_count") or replicas, replicas)
        yield "processed images", int((each if each is not None else 8 if early else 4) * GIB) * processes, "--mm-processor-cache-gb 0"
    if (lora := read_lora(d.lora)) is not None:
        n = max(lora.adapters, options.count("max_cpu_loras") or 0)
        whole = adapter_bytes(d, lora.rank, settled.model.layers, 1, ELEMENT_BYTES, ROLES)
        yield "adapters in host memory", n * whole * ranks, "a smaller --max-cpu-loras, or adapters of a smaller rank"
    if options.flag("enable_sleep_mode"):
        held = sum(e.bytes * len(ledger.ranks) for ledger in outcome.ledgers for e in ledger.entries if e.kind == "weights")
        yield "weights asleep", held, "sleep at level 2, which drops them"
