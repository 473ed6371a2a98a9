"""The names of a question with their types, for editors and type checkers: `estimate("…", context="32k", batch=16)` completes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from kvplan.devices import Device


class Question(TypedDict, total=False):
    """`kvplan.deployment.NAMES` as keywords; sizes as integers or as text (`32k`, `40GiB`). None: not chosen."""

    engine: str | None
    engine_version: str | None
    device: str | Device | None
    n_devices: int | str | None
    tp: int | str | None
    pp: int | str | None
    dp: int | str | None
    ep: int | str | None
    dcp: int | str | None
    context: int | str | None
    batch: int | str | None
    encoder_tokens: int | str | None
    max_model_len: int | str | None
    max_num_seqs: int | str | None
    max_num_batched_tokens: int | str | None
    block_size: int | str | None
    dtype: str | None
    weight_dtype: str | None
    kv_dtype: str | None
    memory_fraction: float | str | None
    kv_memory: int | str | None
    reserve: int | str | None
    n_gpu_layers: int | str | None
    host_memory: int | str | None
    speculative: str | None
    lora: str | None
    multimodal: str | None
    enforce_eager: bool | None
    calibration: str | None
    engine_option: Mapping[str, Any] | Sequence[str] | str | None


class Workload(TypedDict, total=False):
    """What requests come, as keywords of `simulate` and `hit_curve`; `kvplan.api.workloads.DEFAULTS` has what each is where it is left out.

    workload        sharegpt, alpaca or fixed; prompt_lengths and output_lengths replace its lengths: `512`, `lognormal:MEAN:CV`, `10,20,40`
    rate            requests a second over all replicas; None: all at once (a trace: at its own times)
    burstiness      1: Poisson arrivals; below: gamma bursts, above: more even
    requests, seed  how many (1,000; a trace: all; users: 1,000, or two of each where that is more), and what draws them
    prefixes        this many system prompts of prefix_tokens tokens; or few-shot trees of `branch` children a node and `depth` levels
    turns           of conversations that bring their past along, think_seconds (30, `30s`, `2m`) apart on average
    samples, beams  answers to each prompt: requests of their own, or a beam search whose pages fork and are copied on write
    trace           a file: Azure, BurstGPT or Mooncake trace, ShareGPT conversations, CSV or JSON lines of lengths (trace_format; found
                    by its first line)
    users           instead of a rate: this many people, each of whom waits for an answer, thinks, and asks on
    tool_calls      of users: calls of tools before each answer, each a request, whose result of tool_tokens (`512`, `lognormal:MEAN:CV`)
                    comes tool_seconds later
    """

    workload: str | None
    rate: float | None
    burstiness: float
    requests: int | None
    seed: int
    prompt_lengths: str | int | None
    output_lengths: str | int | None
    prefixes: int
    prefix_tokens: int
    branch: int
    depth: int
    turns: int
    think_seconds: float | str
    samples: int
    beams: int
    trace: str | None
    trace_format: str | None
    users: int | None
    tool_calls: int
    tool_tokens: str | int | None
    tool_seconds: float | str


class Loaded(Question, Workload, total=False):
    """A question under a workload."""
