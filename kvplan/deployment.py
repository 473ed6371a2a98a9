"""The question: only what the user chose. Everything left None is resolved by the engine when the question is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvplan.devices import Device
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.constants import Constants
    from kvplan.stored import StoredWeights

Kind = Literal["text", "tokens", "count", "bytes", "fraction", "flag", "device", "options"]


class Name(NamedTuple):
    """How one name of the question is written, and what it means. `parts`: several may be given, each as NAME=SIZE."""

    kind: Kind
    help: str
    parts: bool = False


#: Every name of a question but `model`, in the order reports show them. Command line, library and JSON all read this table.
NAMES: dict[str, Name] = {
    "engine": Name("text", "ideal (exact tensors, no engine) or a serving engine"),
    "engine_version": Name("text", "the release whose rules apply"),
    "device": Name(
        "device",
        "device id, product name, auto (this machine), a size such as 24GiB, or rtx-4080@15.99GiB: a name with the memory it was seen with",
    ),
    "n_devices": Name("count", "how many devices; by default what the parallel sizes need"),
    "tp": Name("count", "tensor parallel size"),
    "pp": Name("count", "pipeline parallel size"),
    "dp": Name("count", "data parallel size"),
    "ep": Name("count", "expert parallel size"),
    "dcp": Name("count", "decode context parallel size"),
    "context": Name("tokens", "tokens per sequence, e.g. 32k"),
    "batch": Name("count", "sequences held at once"),
    "encoder_tokens": Name("tokens", "length of the encoder side"),
    "max_model_len": Name("tokens", "longest request the engine is set to admit"),
    "max_num_seqs": Name("count", "most sequences the engine runs at once"),
    "max_num_batched_tokens": Name("tokens", "most tokens in one engine step"),
    "block_size": Name("tokens", "tokens per page"),
    "dtype": Name("text", "compute type"),
    "weight_dtype": Name("text", "checkpoint format"),
    "kv_dtype": Name("text", "cache format, or K/V apart as q8_0/q4_0"),
    "memory_fraction": Name("fraction", "the engine's memory fraction"),
    "kv_memory": Name("bytes", "bytes per rank given to the cache, e.g. 40GiB"),
    "reserve": Name("bytes", "bytes per device that others hold, or of one of them as NAME=SIZE; repeatable", parts=True),
    "n_gpu_layers": Name("count", "layers on the device (llama.cpp and its like)"),
    "host_memory": Name("bytes", "memory beside the device"),
    "speculative": Name("text", "METHOD:TOKENS[:MODEL]; METHOD:auto where the engine picks"),
    "lora": Name("text", "RANKxADAPTERS: rank and number of the slots, whatever is put in them (vLLM: --max-lora-rank, --max-loras)"),
    "multimodal": Name("text", "on or off"),
    "enforce_eager": Name("flag", "no CUDA graphs"),
    "calibration": Name("text", "packaged, user or none"),
    "engine_option": Name("options", "any other engine setting, as it spells it (`kvplan engines NAME`); KEY= leaves it out; repeatable"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A model and what was asked of it; None everywhere means "not chosen". Sizes are integers (tokens, bytes, counts).

    stored     the model's weights as a checkpoint at hand stores them, where its headers were read
    constants  the measured constants that `calibration` names, where the engine has some
    neighbours who holds `reserve`, with the bytes of each, where they were named
    drafter    the model that `speculative` names, where it is one that can be read
    assumed    names that nobody chose and kvplan set all the same (parallel sizes of a number of devices)
    counted    the device said how many there are of it (`8xH100`): another number, or device, is said so too
    """

    model: ModelSpec
    stored: StoredWeights | None = None
    constants: Constants | None = None
    drafter: ModelSpec | None = None
    neighbours: tuple[tuple[str, int], ...] = ()
    assumed: tuple[str, ...] = ()
    counted: bool = False
    engine: str | None = None
    engine_version: str | None = None
    device: Device | None = None
    n_devices: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    dcp: int | None = None
    context: int | None = None
    batch: int | None = None
    encoder_tokens: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    dtype: str | None = None
    weight_dtype: str | None = None
    kv_dtype: str | None = None
    memory_fraction: float | None = None
    kv_memory: int | None = None
    reserve: int | None = None
    n_gpu_layers: int | None = None
    host_memory: int | None = None
    speculative: str | None = None
    lora: str | None = None
    multimodal: str | None = None
    enforce_eager: bool | None = None
    calibration: str | None = None
    engine_option: tuple[tuple[str, str], ...] = ()
