"""Options of 0.8 to 0.10 with which those releases run their V0 engine, as V1 does not have them yet.

vLLM 0.8.0 to 0.11.0 `vllm/engine/arg_utils.py` _is_v1_supported_oracle. They are one option of a question,
`v0_options`: `name=value`, apart by blanks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.engines.common.arguments import RELEASE, Argument, Takes, moved, row
from kvplan.engines.common.releases import release as numbers
from kvplan.engines.common.words import Given
from kvplan.errors import UnsupportedError

#: SET: an option whose value is an object.
OPTION, MARK, SET = "v0_options", "@v0:", "set"
#: Which of the stages' executors V1 takes: releases that ask.
EXECUTOR, STAGED_SINCE, STAGED_LAST = "distributed_executor_backend", "0.8.3", "0.9.0.1"


class Oracle(NamedTuple):
    """An option, the last release that falls back because of it, and the values that V1 takes.

    named  what the engine calls it with VLLM_USE_V1=1; empty: by its flag
    lacks  the values that V1 does not take, instead
    """

    name: str
    last: str
    taken: str = ""
    named: str = ""
    lacks: str = ""


_PARTIAL = "Concurrent Partial Prefill"
ORACLES = (
    Oracle("load_format", "0.8.5", named="--load_format {value}", lacks="tensorizer sharded_state"),
    Oracle("load_format", "0.10.2", named="--load_format {value}", lacks="sharded_state"),
    Oracle("logits_processor_pattern", "0.11.0", ""),
    Oracle("preemption_mode", "0.10.2", ""),
    Oracle("disable_async_output_proc", "0.10.2", "False"),
    Oracle("scheduling_policy", "0.9.1", "fcfs"),
    Oracle("worker_cls", "0.8.1", "auto"),
    Oracle("worker_extension_cls", "0.8.1", ""),
    Oracle("num_scheduler_steps", "0.10.0", "1"),
    Oracle("scheduler_delay_factor", "0.10.2", "0.0"),
    Oracle("additional_config", "0.8.4", ""),
    Oracle("guided_decoding_backend", "0.8.1", "xgrammar xgrammar:nofallback"),
    Oracle("guided_decoding_backend", "0.8.2", "xgrammar xgrammar:disable-any-whitespace guidance auto"),
    Oracle("guided_decoding_backend", "0.8.4", "xgrammar xgrammar:disable-any-whitespace guidance guidance:disable-any-whitespace auto"),
    Oracle("guided_decoding_backend", "0.9.2", "auto xgrammar guidance", "--guided-decoding-backend={value}"),
    Oracle("guided_decoding_backend", "0.10.0", "auto xgrammar guidance outlines", "--guided-decoding-backend={value}"),
    Oracle("enable_prompt_adapter", "0.9.2", "False"),
    Oracle("enable_prompt_embeds", "0.10.2", "False"),
    Oracle("model_impl", "0.8.2", named="model_impl={value}", lacks="transformers"),
    Oracle("max_num_partial_prefills", "0.11.0", "1", _PARTIAL),
    Oracle("max_long_partial_prefills", "0.11.0", "1", _PARTIAL),
    Oracle("long_prefill_token_threshold", "0.8.2", "0", _PARTIAL),
    Oracle("otlp_traces_endpoint", "0.10.1.1", ""),
    Oracle("collect_detailed_traces", "0.10.1.1", "", "--otlp-traces-endpoint"),
    Oracle("kv_transfer_config", "0.8.4", ""),
)
#: Backends by VLLM_ATTENTION_BACKEND that V1 takes: from a release on, before another (V1_BACKENDS).
BACKENDS: dict[tuple[str, str], str] = {
    ("0.8", ""): "FLASH_ATTN PALLAS TRITON_MLA FLASHMLA",
    ("0.8", "0.11"): "FLASH_ATTN_VLLM_V1 PALLAS_VLLM_V1",
    ("0.8.2", "0.11"): "TRITON_ATTN_VLLM_V1",
    ("0.8.5", ""): "FLASHINFER",
    ("0.8.5", "0.11"): "FLASHINFER_VLLM_V1",
    ("0.9", ""): "ROCM_AITER_MLA",
    ("0.9.1", "0.10.1"): "CUTLASS_MLA_VLLM_V1",
    ("0.9.1", "0.11"): "TORCH_SDPA_VLLM_V1",
    ("0.9.1", ""): "FLEX_ATTENTION",
    ("0.10.1", ""): "CUTLASS_MLA TREE_ATTN",
    ("0.10.1", "0.11"): "XFORMERS_VLLM_V1",
    ("0.10.2", "0.11"): "FLASHMLA_VLLM_V1",
    ("0.10.2", ""): "FLASH_ATTN_MLA FLASHINFER_MLA",
    ("0.11", ""): "TRITON_ATTN TORCH_SDPA XFORMERS ROCM_ATTN",
}
#: Rows of others that are one of these in the releases that fall back because of them.
BESIDE: dict[str, str] = {
    "@load": "load_format", "@model_impl": "model_impl", "@long_prefill": "long_prefill_token_threshold", "@executor": EXECUTOR,
    "@worker_extension": "worker_extension_cls", "!kv_transfer": "kv_transfer_config", "!--worker-cls": "worker_cls",
    "!--additional-config": "additional_config",
}  # fmt: skip


def _row(name: str, kind: str = "text", takes: Takes = "one", since: str = "", until: str = "", **more: Any) -> Argument:
    return row(f"--{name}", f"{MARK}{name.replace('-', '_')}", kind, takes, since=since, until=until, **more)


ROWS = (
    _row("num-scheduler-steps", "int", until="0.10.0"),
    _row("preemption-mode", until="0.10.2"),
    _row("disable-async-output-proc", takes="switch", until="0.10.2"),
    _row("scheduler-delay-factor", "float", until="0.10.2"),
    _row("guided-decoding-backend", until="0.11.2"),
    _row("scheduling-policy"),
    _row("enable-prompt-adapter", takes="switch", until="0.10.1.1", effect="more"),
    _row("enable-prompt-embeds", takes="switch", since="0.9.0", effect="either"),
    _row("max-num-partial-prefills", "int", until="0.26.0"),
    _row("max-long-partial-prefills", "int", until="0.26.0"),
    _row("logits-processor-pattern", until="0.16.0"),
    _row("otlp-traces-endpoint"),
    _row("collect-detailed-traces", takes="many"),
)


def read(given: Mapping[str, Given], question: dict[str, Given]) -> None:
    """Those of a command line into the question, in the order of the table."""
    asked = {key.removeprefix(MARK): one for key, one in given.items() if key.startswith(MARK)}
    if release := given.get(RELEASE):
        at = numbers(str(release.value))
        others = {name: given[key] for key, name in BESIDE.items() if key in given}
        asked |= {name: one for name, one in others.items() if _lacks(name, _word(one), at) or (name == EXECUTOR and _asks_stages(at))}
    words = [f"{name}={_word(one)}" for name, one in asked.items()]
    if words:
        question[f"engine_option.{OPTION}"] = moved(next(iter(asked.values())), " ".join(words))


def _word(one: Given) -> str:
    return str(one.value) if isinstance(one.value, str | int | float) else SET


def say(text: str) -> dict[str, Any]:
    """The other way."""
    keys = {name: key for key, name in BESIDE.items()}
    if lost := [name for name, value in _pairs(text) if value == SET]:
        raise UnsupportedError(f"what --{lost[0].replace('_', '-')} was set to is not kept")
    return {keys.get(name, f"{MARK}{name}"): {"True": True, "False": False}.get(value, value) for name, value in _pairs(text)}


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (word.partition("=") for word in text.split())]


def beside(text: str | None) -> bool:
    """Whether all of them are rows of others, which say what they move."""
    return {name for name, _ in _pairs(text or "")} <= set(BESIDE.values())


def multi_step(text: str | None) -> bool:
    """Whether a batch is scheduled several steps ahead, which cuts no prompt (config.py SchedulerConfig)."""
    return dict(_pairs(text or "")).get("num_scheduler_steps", "1") != "1"


def executor(text: str | None) -> str:
    """--distributed-executor-backend; empty where it is not given."""
    return dict(_pairs(text or "")).get(EXECUTOR, "")


def _asks_stages(at: tuple[int, ...]) -> bool:
    return numbers(STAGED_SINCE) <= at <= numbers(STAGED_LAST)


def staged(text: str | None, at: tuple[int, ...]) -> bool:
    """Whether V1 runs pipeline stages under the executor: Ray's alone from 0.8.3 on; in 0.9.0 others that are named, too."""
    return not _asks_stages(at) or executor(text) in (("ray",) if at < numbers("0.9") else ("ray", "mp", "external_launcher"))


def _lacks(name: str, value: str, at: tuple[int, ...]) -> Oracle | None:
    """The row by which a release's V1 does not have an option's value."""
    one = next((one for one in ORACLES if one.name == name and at <= numbers(one.last)), None)
    bare = value.partition(":")[0] if numbers("0.8.5") <= at < numbers("0.9") else value
    if one is None:
        return None
    return one if (bare in one.lacks.split() if one.lacks else bare not in one.taken.split()) else None


def reason(text: str | None, backend: str | None, at: tuple[int, ...]) -> tuple[str, str] | None:
    """Why V1 is not run, by the options and by VLLM_ATTENTION_BACKEND, and what the engine calls it; None where it is."""
    for name, value in _pairs(text or ""):
        if one := _lacks(name, value, at):
            flag = f"--{name.replace('_', '-')}"
            return f"its V1 does not have {flag} {value}", (one.named or flag).replace("{value}", value)
    name = (backend or "").upper()
    if not name or at > numbers("0.11.0"):
        return None
    taken = {word for (first, end), names in BACKENDS.items() if numbers(first) <= at < numbers(end or "99") for word in names.split()}
    return None if name in taken else (f"its V1 does not have VLLM_ATTENTION_BACKEND={name}", f"VLLM_ATTENTION_BACKEND={name}")
