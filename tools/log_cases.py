"""Published start-up logs as questions: what the fit and the accuracy report share.

A row of the log set names the model, the GPU and the flags; a case is that as contract names, and what was logged.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kvplan import api, catalogue, engines
from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.vllm.rules import VERSIONS
from kvplan.errors import KvplanError, UnknownName
from kvplan.spec import ModelSpec, parse_spec
from kvplan.units import GIB

LOGS = Path(__file__).parents[2] / "shared" / "data" / "engine_logs.jsonl"

#: Names in the logs that are no catalogue name: fine-tunes and quantised derivatives -> model of the same shape.
SAME_SHAPE: dict[str, str] = {
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": "meta-llama/llama-3.1-8b",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8": "meta-llama/llama-3.1-8b",
    "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8": "mistralai/mistral-small-3.1-24b",
    "RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic": "qwen/qwen2.5-7b",
    "scb10x/typhoon-ocr-7b": "qwen/qwen2.5-vl-7b",
    "typhoon-ai/typhoon-s-thaillm-8b-instruct-research-preview": "qwen/qwen3-8b",
    "Qwen2.5-3B (train/checkpoints/qwen25-3b-distill-merged)": "qwen/qwen2.5-3b",
    "Qwen3.6-27B-AutoRound (INT4)": "qwen/qwen3.6-27b",
    "qwen3.6-35b-a3b-nvfp4": "qwen/qwen3.6-35b-a3b",
    "qwen3.8-27b-fp8": "qwen/qwen3.6-27b",
    "Qwen3.6-35B-A3B heretic fine-tune (/models/target)": "qwen/qwen3.6-35b-a3b",
    "Jackrong/Qwen3.5-27B-Claude-4.6-Opus-Reasoning-Distilled": "qwen/qwen3.5-27b",
    "cyankiwi/Kimi-Linear-48B-A3B-Instruct-AWQ-4bit": "moonshotai/kimi-linear-48b-a3b",
    "Qwen1.5-7B (sft)": "qwen/qwen1.5-7b",
    "llama-2-7b": "meta-llama/llama-2-7b",
}
#: What a log says of the weights -> format, where the model's spec does not say it itself; `as`: the recipe of a published checkpoint of
#: that generation, its dense format on the experts too.
WEIGHTS: tuple[tuple[str, str], ...] = (
    (r"cyankiwi/.*awq", "int4_g32_any"),
    (r"w4a16|awq 4-bit", "int4_g128"),
    (r"autoround int4", "gptq_g128"),
    (r"w8a8", "int8_channel"),
    (r"fp8-dynamic|27b-fp8", "fp8_channel"),
    (r"fp8 \(modelopt\)", "fp8"),
    (r" int8$", "int8_channel"),
    (r"qwen3\.6.*nvfp4", "as nvidia/qwen3.6-27b-nvfp4"),
    (r"nvfp4", "nvfp4"),
    (r"heretic", "int4_g128"),
)
#: The newest release at a date, for logs that name none (PyPI upload dates).
RELEASED: tuple[tuple[str, str], ...] = (
    ("2024-09-04", "0.6"), ("2025-01-20", "0.7"), ("2025-03-18", "0.8"), ("2025-05-05", "0.9"), ("2025-06-10", "0.9.1"),
    ("2025-07-07", "0.9.2"), ("2025-07-24", "0.10"), ("2025-09-13", "0.10.2"), ("2025-10-02", "0.11"), ("2025-11-18", "0.11.1"),
    ("2025-12-03", "0.12"), ("2025-12-18", "0.13"), ("2026-01-20", "0.14"), ("2026-04-20", "0.19"), ("2026-05-01", "0.20"),
    ("2026-06-10", "0.22"), ("2026-07-01", "0.24"), ("2026-08-01", "0.27"),
)  # fmt: skip

BY_REQUESTS = "0.21"


class Case(NamedTuple):
    """One row: `deployment` is None where it can not be asked, for the reason in `skipped`."""

    id: str
    group: str
    row: dict[str, Any]
    deployment: Deployment | None
    skipped: str | None

    @property
    def logged_bytes(self) -> int | None:
        gib = self.row["logged"]["kv_cache_gib"]
        return None if gib is None else int(gib * GIB)

    @property
    def noisy(self) -> bool:
        return bool(self.row.get("noisy"))

    @property
    def inferred(self) -> bool:
        """Neither the device's name nor its total was logged: the total was worked out from the figures that are to be predicted."""
        return "device total inferred" in str(self.row["note"])


def rows() -> list[dict[str, Any]]:
    """The log set. Raises SystemExit where it does not lie beside the checkout."""
    if not LOGS.is_file():
        raise SystemExit(f"{LOGS} is not there: the set of logs is not published with kvplan")
    return [json.loads(line) for line in LOGS.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_cases() -> list[Case]:
    """Every row of the log set as a question."""
    return [read_case(row) for row in rows()]


def read_case(row: dict[str, Any]) -> Case:
    group = _group(row)
    try:
        asked = question(row)
        if unknown := engines.settle(asked)[1].unknown:
            return Case(row["id"], group, row, None, unknown[:120])
        return Case(row["id"], group, row, asked, None)
    except KvplanError as error:
        return Case(row["id"], group, row, None, str(error).splitlines()[0][:120])


def _group(row: dict[str, Any]) -> str:
    """A repository; inside the public sweep a model family."""
    if not row["id"].startswith("pl-"):
        return str(row["source"]).split("#")[0].split(":")[0].split(",")[0].strip()
    name = SAME_SHAPE.get(row["model"], row["model"]).split("/")[-1].lower()
    for family in ("llama-3.1", "codellama", "mistral", "qwen3", "qwen2.5", "gemma-2", "gemma-3", "granite", "kimi-dev"):
        if family in name or family.replace("llama-3.1", "llama-3") in name:
            return "pl/qwen2.5" if family == "kimi-dev" else f"pl/{family}"
    return "pl/" + name


def question(row: dict[str, Any]) -> Deployment:
    """The row's flags as a question. Raises KvplanError where model or device are not known."""
    device = _device(row)
    asked: dict[str, Any] = {
        "engine": row["engine"],
        "engine_version": _release(row),
        "device": device,
        "tp": row["tp"],
        "pp": row["pp"],
        "dp": row["dp"],
        "max_model_len": row["max_model_len"],
        "max_num_seqs": row["max_num_seqs"],
        "max_num_batched_tokens": row["max_num_batched_tokens"],
        "block_size": row["block_size"],
        "memory_fraction": row["gpu_memory_utilization"],
        "enforce_eager": row["enforce_eager"],
    }
    if row["kv_cache_dtype"] not in (None, "auto"):
        asked["kv_dtype"] = row["kv_cache_dtype"]
    weights, recipe = str(row["weight_dtype_or_quant"] or "").lower(), None
    if weights in ("float16", "half", "float32"):
        asked["dtype"] = {"float32": "f32"}.get(weights, "f16")
        if weights == "float32":
            asked["weight_dtype"] = "f32"
    if "quantization='fp8'" in str(row["extra_flags"]):
        asked["weight_dtype"] = "fp8"
    for pattern, name in WEIGHTS:
        if re.search(pattern, f"{row['model']} {weights}".lower()):
            recipe = name.removeprefix("as ") if name.startswith("as ") else None
            asked["weight_dtype"] = None if recipe else name
            break
    asked |= _extra(str(row["extra_flags"] or ""))
    if row["speculative"] and "/" in str(row["speculative"]):
        asked["speculative"] = str(row["speculative"]).replace("/", ":")
    if "language_model_only=True" in str(row["extra_flags"]):
        asked["multimodal"] = "off"
    if row["max_model_len"] is None:
        asked["context"] = None
    name = str(row["model"])
    model = catalogue.find_model(SAME_SHAPE.get(name, name))
    return replace(api.deployment(_stored_as(model, recipe) if recipe else model, **asked), constants=None)


def _stored_as(model: ModelSpec, recipe: str) -> ModelSpec:
    """The model with the formats of another checkpoint."""
    formats = [{"format": q.format, "roles": [*q.roles]} for q in catalogue.find_model(recipe).quantization]
    for one in formats:
        if "mlp" in one["roles"]:
            one["roles"] = [*one["roles"], "experts", "shared_experts"]
    return parse_spec({**model.plain(), "quantization": formats}, model.id)


def _extra(flags: str) -> dict[str, Any]:
    """Flags that only the row's free text has."""
    found: dict[str, Any] = {}
    options = {}
    for name in ("enable_prefix_caching", "async_scheduling", "mamba_ssm_cache_dtype"):
        match = re.search(rf"\b{name}\b(?:=\'?(\w+)\'?)?", flags)
        if match:
            options[name] = (match[1] or "true").lower()
    if options:
        found["engine_option"] = options
    dcp = re.search(r"decode_context_parallel_size=(\d+)", flags)
    if dcp:
        found["dcp"] = int(dcp[1])
    return found


def _release(row: dict[str, Any]) -> str | None:
    """As logged; else the newest vLLM release at the log's date, or the first that counts tokens as the log does, if that is newer.

    A build of main towards a patch that never came is of the next release.
    """
    version = str(row["engine_version"] or "")
    match = re.match(r"v?((\d+)\.(\d+)(?:\.\d+)?)", version)
    if match is not None and "dev1+g" not in version:
        of_main = row["engine"] == "vllm" and ".dev" in version and match[1] not in VERSIONS and not match[1].endswith(".0")
        return f"{match[2]}.{int(match[3]) + 1}" if of_main else match[1]
    date = re.search(r"(20\d\d)-?(\d\d)-?(\d\d)", str(row["source"]))
    if row["engine"] != "vllm" or date is None:
        return None
    older = [release for since, release in RELEASED if since <= "-".join(date.groups())]
    if older and _by_requests(row) and VERSIONS.index(older[-1]) < VERSIONS.index(BY_REQUESTS):
        return BY_REQUESTS
    return older[-1] if older else None


def _by_requests(row: dict[str, Any]) -> bool:
    """Whether the tokens that a log reports are its concurrency times the length: what releases from 0.21 on print."""
    logged, longest = row["logged"], row["max_model_len"]
    if not longest or not logged["kv_tokens"] or not logged["max_concurrency"] or row["attention_kind"] in ("GQA", "MHA"):
        return False  # with layers of one kind both ways of counting agree
    return abs(logged["kv_tokens"] / longest - logged["max_concurrency"]) <= 0.0051


def _device(row: dict[str, Any]) -> Device:
    """By product name, else by the total the log printed: the two things that identify a device."""
    name = str(row["gpu"] or "").split("(")[0].strip()
    if name:
        try:
            return api.device(name)
        except UnknownName:
            return api.device(name.lower().replace(" ", "-"))
    total = row["gpu_total_gib_logged"]
    if total is None:
        raise UnknownName("device", "none named and no total logged", [])
    return catalogue.device_of_total(total) or api.device(f"{total}GiB")
