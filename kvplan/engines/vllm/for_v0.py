"""Options of 0.8 to 0.10 with which those releases run their V0 engine, as V1 does not have them yet.

vLLM 0.8.5, 0.9.0 to 0.9.2 and 0.10.0 to 0.10.2 `vllm/engine/arg_utils.py` _is_v1_supported_oracle. They are one option of a question,
`v0_options`: `name=value`, apart by blanks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.engines.common.arguments import Argument, Takes, moved, row
from kvplan.engines.common.releases import release as numbers
from kvplan.engines.common.words import Given

OPTION, MARK = "v0_options", "@v0:"


class Oracle(NamedTuple):
    """An option, the last release that falls back because of it, and the values that V1 takes."""

    name: str
    last: str
    taken: str


ORACLES = (
    Oracle("num_scheduler_steps", "0.10.0", "1"),
    Oracle("preemption_mode", "0.10.2", ""),
    Oracle("disable_async_output_proc", "0.10.2", "False"),
    Oracle("scheduler_delay_factor", "0.10.2", "0.0"),
    Oracle("guided_decoding_backend", "0.9.2", "auto xgrammar guidance"),
    Oracle("guided_decoding_backend", "0.10.0", "auto xgrammar guidance outlines"),
    Oracle("scheduling_policy", "0.9.0", "fcfs"),
    Oracle("enable_prompt_adapter", "0.9.2", "False"),
    Oracle("enable_prompt_embeds", "0.10.2", "False"),
    Oracle("max_num_partial_prefills", "0.10.2", "1"),
    Oracle("max_long_partial_prefills", "0.10.2", "1"),
    Oracle("logits_processor_pattern", "0.10.2", ""),
    Oracle("otlp_traces_endpoint", "0.10.1.1", ""),
)
#: Backends by VLLM_ATTENTION_BACKEND that V1 takes; those with _VLLM_V1 behind their name beside them.
BACKENDS = frozenset({
    "CUTLASS_MLA", "FLASHINFER", "FLASHINFER_MLA", "FLASHMLA", "FLASH_ATTN", "FLASH_ATTN_MLA", "FLEX_ATTENTION", "PALLAS",
    "ROCM_AITER_MLA", "TREE_ATTN", "TRITON_MLA",
})  # fmt: skip


def _row(name: str, kind: str = "text", takes: Takes = "one", since: str = "", until: str = "", **more: Any) -> Argument:
    return row(f"--{name}", f"{MARK}{name.replace('-', '_')}", kind, takes, since=since, until=until, **more)


ROWS = (
    _row("num-scheduler-steps", "int", until="0.10.0"),
    _row("preemption-mode", until="0.10.2"),
    _row("disable-async-output-proc", takes="switch", until="0.10.2"),
    _row("scheduler-delay-factor", "float", until="0.10.2"),
    _row("guided-decoding-backend", until="0.11.2"),
    _row("scheduling-policy"),
    _row("enable-prompt-adapter", takes="switch", until="0.10.0", effect="more"),
    _row("enable-prompt-embeds", takes="switch", since="0.9.1", effect="either"),
    _row("max-num-partial-prefills", "int", until="0.26.0"),
    _row("max-long-partial-prefills", "int", until="0.26.0"),
    _row("logits-processor-pattern", until="0.16.0"),
    _row("otlp-traces-endpoint"),
)


def read(given: Mapping[str, Given], question: dict[str, Given]) -> None:
    """Those of a command line into the question, in the order of the table."""
    asked = {key: one for key, one in given.items() if key.startswith(MARK)}
    words = [f"{key.removeprefix(MARK)}={str(one.value).split(':')[0]}" for key, one in asked.items()]
    if words:
        question[f"engine_option.{OPTION}"] = moved(next(iter(asked.values())), " ".join(words))


def say(text: str) -> dict[str, Any]:
    """The other way."""
    return {f"{MARK}{name}": {"True": True, "False": False}.get(value, value) for name, value in _pairs(text)}


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (word.partition("=") for word in text.split())]


def multi_step(text: str | None) -> bool:
    """Whether a batch is scheduled several steps ahead, which cuts no prompt (config.py SchedulerConfig)."""
    return dict(_pairs(text or "")).get("num_scheduler_steps", "1") != "1"


def reason(text: str | None, backend: str | None, release: str) -> str | None:
    """Why V1 is not run, by the options and by VLLM_ATTENTION_BACKEND; None where it is."""
    asked, at = dict(_pairs(text or "")), numbers(release)
    for one in ORACLES:
        if one.name in asked and at <= numbers(one.last) and asked[one.name] not in one.taken.split():
            return f"its V1 does not have --{one.name.replace('_', '-')} {asked[one.name]}"
    name = (backend or "").upper()
    if name and name not in BACKENDS and not name.endswith("_VLLM_V1") and at <= numbers("0.10.2"):
        return f"its V1 does not have VLLM_ATTENTION_BACKEND={name}"
    return None
