"""What may run out after a start that no profile saw: named, with bytes and what removes it. Rows of data; a size is a pure function.

A risk is told where its high end is more than the tightest rank has left in service, or than is left of host memory that the question
gives. Its estimate is what this question itself brings, of these rows nothing; what only some request would bring is in the high end
alone. Rows that one engine alone has are its own (`Engine.risks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kvplan.engines.common.lora import adapter_bytes
from kvplan.engines.common.options import Options, read_lora
from kvplan.engines.common.protocol import Engine, Outcome, Risk, Settled
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.common.widths import layer_width
from kvplan.ledger import HOST, Ledger
from kvplan.tensors import distinct, layer_counts, tensor_curve, total
from kvplan.units import GIB, MIB, show_bytes

#: Bytes of a prompt's logits per token and entry: in 16 bits, in f32, and their logarithms (vLLM v1/sample/sampler.py compute_logprobs).
LOGPROB_BYTES = 10
#: The same where logits alone are given back, of every token where return_context_logits is set: in 16 bits and in f32 (TensorRT-LLM
#: _torch/modules/logits_processor.py).
LOGIT_BYTES = 6
#: Workspaces that libraries take at first use: cuBLAS 32 MiB a handle (torch CUDABlas), FlashInfer 394 MiB (vLLM backends/flashinfer.py).
LIBRARIES = 512 * MIB
#: Images at once, of 4,096 tokens with 4 patches each, through a tower of 12 widths of 1,152 and 588 pixel values, in 16 bits.
IMAGES = 8 * 4096 * 4 * 2 * (12 * 1152 + 588)
#: What is free on memory that the host shares varies by so much from run to run.
SHARED = 3 * GIB
#: Hidden states alive beside a layer's widest sublayer: 3.8 in vLLM's logs (calibration/vllm.yaml, hidden_copies), rounded up.
HIDDEN, HALF = 4, 2
_LESS = "a smaller memory_fraction"


class Row(NamedTuple):
    """A risk: `removes` by engine (an engine without a row does not have it), and its high end in bytes; None: the question has none."""

    name: str
    removes: Mapping[str, str]
    size: Callable[[Settled, Ledger], int | None]


def _prompt_logits(each: int) -> Callable[[Settled, Ledger], int | None]:
    """Beyond what the largest batch took in the profile run, in bytes; the head's outputs are gathered on every rank."""

    def size(settled: Settled, ledger: Ledger) -> int | None:
        d = settled.question
        if dict(d.engine_option).get("max_logprobs") == "0":
            return None
        tokens = min(max(d.max_num_batched_tokens or 0, 0) or d.max_model_len or 1, d.max_model_len or 1)
        return max(0, tokens * (d.model.vocab_size or 0) * each - _activations(ledger)) if d.model.lm_head else None

    return size


def _images(settled: Settled, _: Ledger) -> int | None:
    d = settled.question
    return IMAGES if d.model.towers and d.multimodal != "off" else None


def _fragments(settled: Settled, ledger: Ledger) -> int | None:
    """As much again as the largest batch: a block that is split can not be had whole."""
    return None if Options(settled.question).growing_segments() else _activations(ledger)


def _adapters(settled: Settled, _: Ledger) -> int | None:
    """One adapter more than the slots hold, while it is loaded."""
    d, lora = settled.question, read_lora(settled.question.lora)
    if lora is None:
        return None
    return adapter_bytes(d, lora.rank, settled.model.layers, d.tp or 1, 2)


def _neighbours(settled: Settled, _: Ledger) -> int | None:
    """Others grow, or the host does."""
    d = settled.question
    high = (d.reserve or 0) + (SHARED if d.device is not None and d.device.unified else 0)
    return high or None


def _step(settled: Settled, ledger: Ledger) -> int | None:
    """What a layer makes of one step of a prompt, in 16 bits, where no line of the ledger has it (continuous batching has one)."""
    d = settled.question
    if _activations(ledger):
        return None
    tokens = min(max(d.max_num_batched_tokens or 0, 0) or d.context or 1, d.context or 1) * (d.batch or 1)
    tp, ep, formats = d.tp or 1, d.ep or 1, weight_formats(d)
    widest = max((layer_width(one, d.model.hidden_size, tp, ep, formats) for one in distinct(settled.model.layers)), default=0.0)
    return int(tokens * HALF * (widest + HIDDEN * d.model.hidden_size))


def _longer(settled: Settled, ledger: Ledger) -> int | None:
    """A cache that grows with its tokens up to the model's own length, where nothing stops it before (bytes of the rank)."""
    d, options = settled.question, dict(settled.question.engine_option)
    most, asked = d.model.max_context or 0, d.context or 1
    stops = options.get("cache_implementation", "dynamic") not in ("dynamic", "quantized") or "max_kv_size" in options
    if stops or most <= asked:
        return None
    tensors = ((t, n) for layer, n in layer_counts(settled.layers) for cache in layer.caches for t in cache.tensors)
    curve = total(tensor_curve(t, encoder_tokens=d.encoder_tokens or 1).times(n) for t, n in tensors)
    now = curve.at(asked)
    return (curve.at(most) - now) * ledger.cache_bytes // max(1, now)


_PAGED = ("vllm", "sglang", "tensorrt-llm", "lmdeploy")
_OWN_DEVICE = "a device of its own, or a larger reserve"
ROWS: tuple[Row, ...] = (
    Row("prompt logprobs", {
        "vllm": "--max-logprobs 0, or a smaller max_num_batched_tokens",
        "sglang": "requests without logprob_start_len, or a smaller max_num_batched_tokens (--chunked-prefill-size)",
    }, _prompt_logits(LOGPROB_BYTES)),
    Row("prompt logits", {
        "tensorrt-llm": "requests without return_context_logits, or a smaller max_num_batched_tokens (max_num_tokens)",
    }, _prompt_logits(LOGIT_BYTES)),
    # vLLM's profile run has the largest images in it
    Row("images at once", dict.fromkeys(("sglang", "tensorrt-llm", "lmdeploy"), f"{_LESS}, or multimodal off"), _images),
    Row("fragmentation", dict.fromkeys(("vllm", "sglang"), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), _fragments),
    Row("first use of libraries", dict.fromkeys(_PAGED, _LESS), lambda settled, _: LIBRARIES),
    Row("loading an adapter", dict.fromkeys(_PAGED, f"{_LESS}, or adapters of a smaller rank"), _adapters),
    # mlx-lm 0.32.2 generate.py
    Row("a step of a prompt", {"mlx-lm": "a smaller --prefill-step-size (max_num_batched_tokens)"}, _step),
    # transformers 5.23 cache_utils.py DynamicLayer.update; mlx-lm 0.32.2 models/cache.py KVCache.update_and_fetch
    Row("longer requests", {
        "transformers": "max_new_tokens and shorter prompts, or cache_implementation static",
        "mlx-lm": "--max-kv-size, or shorter requests",
    }, _longer),
    Row("neighbours", dict.fromkeys([*_PAGED, "transformers", "exllamav3", "llama.cpp", "ollama", "mlx-lm"], _OWN_DEVICE), _neighbours),
)  # fmt: skip


def with_risks(settled: Settled, engine: Engine, outcome: Outcome) -> Outcome:
    """The outcome of a start on a device that is known with its risks, the largest first."""
    rooms = [(room, ledger) for ledger in outcome.ledgers if (room := _room(ledger)) is not None] if outcome.starts else []
    if not rooms:
        return outcome
    room, ledger = min(rooms, key=lambda pair: pair[0])
    beside = _host_room(settled, outcome, room)
    found = sorted(
        (*_common(settled, engine.facts.name, ledger), *(engine.risks(settled, outcome) if engine.risks else ())),
        key=lambda risk: (-risk.bytes, -risk.high),
    )
    told = tuple(risk for risk in found if (left := room if risk.memory == "device" else beside) is not None and risk.high > left)
    unsaid = tuple(risk for risk in found if risk.memory == "host" and beside is None)
    outcome = outcome._replace(risks=told, host_risks=unsaid)
    sure = next((risk for risk in told if risk.memory == "device" and risk.bytes > room), None)
    if sure is None or not outcome.survives:
        return outcome
    text = f"out of memory in service: {sure.name} {show_bytes(sure.bytes)}, of which {show_bytes(max(room, 0))} are free; {sure.removes}"
    return outcome._replace(survives=False, risk=text)


def _common(settled: Settled, engine: str, ledger: Ledger) -> Iterator[Risk]:
    for row in ROWS:
        removes = row.removes.get(engine)
        if removes is not None and (size := row.size(settled, ledger)) is not None:
            yield Risk(row.name, 0, 0, size, "serve", removes)


def _room(ledger: Ledger) -> int | None:
    """What service leaves of a device, in bytes; None for host memory, or where no device is known."""
    has = ledger.limit_bytes if ledger.device_bytes is None else ledger.device_bytes
    if ledger.device in (None, HOST) or has is None:
        return None
    return has - ledger.peak("serve").bytes


def _host_room(settled: Settled, outcome: Outcome, room: int) -> int | None:
    """What is left of host memory, in bytes: of a device's own where both are one; None where nobody says how much there is."""
    d = settled.question
    held = sum(ledger.total_bytes for ledger in outcome.ledgers if ledger.device == HOST) + sum(entry.bytes for entry in outcome.host)
    if d.host_memory is not None:
        return d.host_memory - held
    return room - held if d.device is not None and d.device.unified else None


def _activations(ledger: Ledger) -> int:
    """What a rank's largest batch takes, in bytes."""
    return sum(entry.bytes for entry in (*ledger.entries, *ledger.outside) if entry.kind == "activations" and entry.held_in("serve"))
