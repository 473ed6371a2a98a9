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
