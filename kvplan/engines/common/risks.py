"""What may run out after a start that no profile saw: named, with bytes and what removes it. Rows of data; a size is a pure function.

A risk is told where its high end is more than the tightest rank has left in service (phases.py). Its estimate is what this question
itself brings; what only some request would bring is in the high end alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kvplan.engines.common.lines import Span
from kvplan.engines.common.lora import adapter_bytes
from kvplan.engines.common.options import read_lora
from kvplan.engines.common.phases import Moment, tightest
from kvplan.engines.common.protocol import Outcome, Risk, Settled
from kvplan.units import GIB, MIB

#: Bytes of a prompt's logits per token and entry: in 16 bits, in f32, and their logarithms (vLLM v1/sample/sampler.py compute_logprobs).
LOGPROB_BYTES = 10
#: Workspaces that libraries take at first use: cuBLAS 32 MiB a handle (torch CUDABlas), FlashInfer 394 MiB (vLLM backends/flashinfer.py).
LIBRARIES = 512 * MIB
#: Images at once, of 4,096 tokens with 4 patches each, through a tower of 12 widths of 1,152 and 588 pixel values, in 16 bits.
IMAGES = 8 * 4096 * 4 * 2 * (12 * 1152 + 588)
#: What is free on memory that the host shares varies by so much from run to run.
SHARED = 3 * GIB
_LESS = "a smaller memory_fraction"
_PROFILED = ("vllm",)  # its profile run has the largest images in it


class Row(NamedTuple):
    """A risk: `removes` by engine (an engine without a row does not have it), and its size; None where the question does not have it."""

    name: str
    removes: Mapping[str, str]
    size: Callable[[Settled, int], Span | None]


def _prompt_logprobs(settled: Settled, activations: int) -> Span | None:
    """Beyond what the largest batch took in the profile run, in bytes; the head's outputs are gathered on every rank."""
    d = settled.question
    tokens = min(max(d.max_num_batched_tokens or 0, 0) or d.max_model_len or 1, d.max_model_len or 1)
    return Span(0, 0, max(0, tokens * (d.model.vocab_size or 0) * LOGPROB_BYTES - activations)) if d.model.lm_head else None


def _images(settled: Settled, _: int) -> Span | None:
    d = settled.question
    return Span(0, 0, IMAGES) if d.model.towers and d.multimodal != "off" else None


def _fragments(settled: Settled, activations: int) -> Span | None:
    """As much again as the largest batch: a block that is split can not be had whole."""
    allocator = dict(settled.question.engine_option).get("allocator", "")
    return None if "expandable_segments:true" in allocator.lower() else Span(0, 0, activations)


def _adapters(settled: Settled, _: int) -> Span | None:
    """One adapter more than the slots hold, while it is loaded."""
    d, lora = settled.question, read_lora(settled.question.lora)
    if lora is None:
        return None
    return Span(0, 0, adapter_bytes(d, lora.rank, settled.model.layers, d.tp or 1, 2))


def _neighbours(settled: Settled, _: int) -> Span | None:
    """Others grow, or the host does."""
    d = settled.question
    high = (d.reserve or 0) + (SHARED if d.device is not None and d.device.unified else 0)
    return Span(0, 0, high) if high else None


_EVERY = dict.fromkeys(("vllm", "sglang", "tensorrt-llm", "lmdeploy"), "")
ROWS: tuple[Row, ...] = (
    Row("prompt logprobs", {
        "vllm": "--max-logprobs 0, or a smaller max_num_batched_tokens",
        "sglang": "requests without logprob_start_len, or a smaller max_num_batched_tokens (--chunked-prefill-size)",
    }, _prompt_logprobs),
    Row("images at once", dict.fromkeys([name for name in _EVERY if name not in _PROFILED], f"{_LESS}, or multimodal off"), _images),
    Row("fragmentation", dict.fromkeys(("vllm", "sglang"), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), _fragments),
    Row("first use of libraries", dict.fromkeys(_EVERY, _LESS), lambda settled, _: Span(0, 0, LIBRARIES)),
    Row("loading an adapter", dict.fromkeys(_EVERY, f"{_LESS}, or adapters of a smaller rank"), _adapters),
    Row("neighbours", dict.fromkeys(_EVERY, "a device of its own, or a larger reserve"), _neighbours),
)  # fmt: skip


def risks(settled: Settled, engine: str, outcome: Outcome) -> tuple[Risk, ...]:
    """The risks of a start on a device that is known, the largest first."""
    service = tightest(outcome.ledgers, serving=True) if outcome.starts else None
    if service is None:
        return ()
    found = _found(settled, engine, service, _activations(outcome, service.rank))
    return tuple(sorted(found, key=lambda risk: (-risk.bytes, -risk.high)))


def _found(settled: Settled, engine: str, service: Moment, activations: int) -> Iterator[Risk]:
    for row in ROWS:
        removes, size = row.removes.get(engine), row.size(settled, activations)
        if removes is not None and size is not None and size.high > service.spare:
            yield Risk(row.name, size.point, size.low, size.high, "serve", removes)


def _activations(outcome: Outcome, rank: int) -> int:
    """What a rank's largest batch takes, in bytes."""
    ledger = next(one for one in outcome.ledgers if rank in one.ranks)
    return sum(entry.bytes for entry in (*ledger.entries, *ledger.outside) if entry.kind == "activations" and entry.held_in("serve"))
