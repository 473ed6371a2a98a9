"""What results are as plain data, for JSON and everyone who reads it: the keys of each `as_dict`, from which its schema is made."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic brings it, and reads no other before Python 3.12


class FitRecord(TypedDict):
    """One device of `fit`: `devices` of it in this layout carry the question; None and `why_not` where none of those tried does.

    memory_bytes  of all of them together: what is bought, which is ranked by where there is no price
    """

    device: str
    devices: int | None
    tp: int | None
    pp: int | None
    dp: int | None
    ep: int | None
    price: float | None
    memory_bytes: int | None
    margin_bytes: int | None
    certainty: Literal["certain", "likely", "too close to call"] | None
    tokens_per_second: float | None
    first_token_seconds: float | None
    cost_per_million_tokens: float | None
    why_not: str | None


class DisaggregateRecord(TypedDict):
    """One pair of devices of `fit --disaggregate`: workers of each kind, or None and `why_not`. Bounds, of requests of one length.

    decode_batch         requests that a decode worker decodes at once; step_seconds: of that step
    prefill_per_decode   workers that prefill for each that decodes, where both are as far from their bounds
    moved_bytes          of one request, to all GPUs of its decode worker; transfer_seconds: over `link` of the busiest GPU
    first_token_seconds  of a prompt alone, and its transfer; tokens_per_second: of answers, all workers together
    """

    prefill_device: str
    prefill_workers: int | None
    prefill_tp: int | None
    decode_device: str
    decode_workers: int | None
    decode_tp: int | None
    devices: int | None
    price: float | None
    memory_bytes: int | None
    requests_per_second: float | None
    bound_by: Literal["prefill", "decode"] | None
    decode_batch: int | None
    prefill_per_decode: float | None
    moved_bytes: int | None
    link: str | None
    transfer_seconds: float | None
    step_seconds: float | None
    tokens_per_second: float | None
    first_token_seconds: float | None
    cost_per_million_tokens: float | None
    why_not: str | None


class CompareRecord(TypedDict):
    """One figure of `compare`, a value for each plan; `ratios` over the first."""

    name: str
    unit: str
    values: list[Any]
    ratios: list[float | None]
    differs: bool


class RooflineRecord(TypedDict):
    """The bounds of `roofline`, of one replica; `bound_by` and `first_token_ms` are null where the device's rate is not known."""

    tokens_per_second: float
    without_cache: float
    step_ms: float
    bound_by: Literal["memory", "compute"] | None
    weight_bytes: int
    cache_bytes: int
    first_token_ms: float | None
    compute_bound_batch: int | None


class DeviceRecord(TypedDict):
    """One line of `devices list`."""

    id: str
    name: str
    memory_gb: int | None
    nvml_total_mib: int | None
    cuda_total_mib: int | None
    bandwidth_gb_per_s: float | None
    bf16_tflops: float | None


class EngineRecord(TypedDict):
    """One engine of `engines`: releases oldest first, its options, ways of drafting with the releases that have them, and the names of a
    question that it has no use for, each with why."""

    engine: str
    title: str
    releases: list[str]
    vendors: list[str]
    pool: Literal["set aside", "per context", "grows"]
    weight_formats: list[str]
    forms: list[str]
    options: dict[str, str]
    drafts: dict[str, str]
    unused: dict[str, str]


class MoveRecord(TypedDict):
    """A setting that moves what a text says: the question's name of it, the engine's spelling (empty: none), and what to do with it."""

    setting: str
    flag: str
    how: str


class CauseRecord(TypedDict):
    """One thing that a text says; `engine` is empty where any may say it, `since` and `before` where all releases that were read do."""

    engine: str
    name: str
    text: str
    means: str
    moves: list[MoveRecord]
    since: str
    before: str
    source: str


class WhyRecord(TypedDict):
    """What `why` says of a text: its causes, the likeliest first; without any, known texts that are near it."""

    causes: list[CauseRecord]
    nearest: list[str]


class OpenRecord(TypedDict):
    """Something that `check` would have to know; `give`: how to say it."""

    what: str
    why: str
    give: str
    line: int


class FindingRecord(TypedDict):
    """Something that is to be said about a place of a file."""

    rule: str
    severity: Literal["error", "warning", "note"]
    message: str
    line: int
    column: int


class CheckRecord(TypedDict):
    """What `check` says of one engine that a file starts, or of a file that starts none. `plan`: as `kvplan schema plan`, or null."""

    file: str
    line: int
    name: str
    status: Literal["fits", "starts", "refuses", "unknown", "broken", "empty"]
    exit_code: Literal[0, 1, 2]
    message: str
    engine: str | None
    engine_version: str | None
    model: str | None
    question: dict[str, Any]
    unresolved: list[OpenRecord]
    findings: list[FindingRecord]
    plan: dict[str, Any] | None


class ModelRecord(TypedDict):
    """One line of `models list`."""

    id: str


#: What `kvplan schema` prints, beside the plan, the simulation and the model spec.
RECORDS: dict[str, Any] = {
    "fit": list[FitRecord],
    "disaggregate": list[DisaggregateRecord],
    "compare": list[CompareRecord],
    "roofline": list[RooflineRecord],
    "check": list[CheckRecord],
    "devices": list[DeviceRecord],
    "models": list[ModelRecord],
    "engines": list[EngineRecord],
    "why": WhyRecord,
}
