"""The engine options of llama.cpp, by its own names, read once into plain values."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.errors import KvplanError, SpecError
from kvplan.units import MIB, parse_bytes

MAX_PATTERN = 4096


class LlamaOptions(NamedTuple):
    """None: not given, the build's default applies. `tensor_split` are shares, `device_memory` bytes of each device where they differ,
    `fit_target` bytes left free on each device (one value: on every one), `cache_ram` MiB (-1: without end), `override_tensor`
    patterns and the buffers that tensors with such names go to, `override_kv` the length it writes over the model's."""

    n_ubatch: int | None
    kv_unified: bool | None
    kv_unified_per_slot: int | None
    flash_attn: str | None
    swa_full: bool
    n_rs_seq: int | None
    n_outputs_max: int | None
    offload_kqv: bool
    tensor_split: tuple[Fraction, ...]
    device_memory: tuple[int, ...]
    n_cpu_moe: int
    n_cpu_ffn: int
    override_tensor: tuple[tuple[re.Pattern[str], str], ...]
    op_offload: bool | None
    mmproj_offload: bool | None
    split_mode: str
    main_gpu: int
    n_gpu_layers_draft: int | None
    server: bool
    load_mode: str
    fit: bool | None
    fit_target: tuple[int, ...]
    fit_ctx: int
    cache_ram: int | None
    ctx_checkpoints: int | None
    override_kv: int | None
    rope_scaling: str | None
    rope_scale: Fraction | None
    yarn_orig_ctx: int | None


def read(d: Deployment) -> LlamaOptions:
    """The options of a question. Raises SpecError with every value that is not one."""
    given, faults = dict(d.engine_option), []

    def take(key: str, convert: object) -> object:
        if key not in given:
            return None
        try:
            return convert(given[key])  # type: ignore[operator]
        except (ValueError, ZeroDivisionError, KvplanError):
            faults.append((key, f"{given[key][:60]!r} is not {_MEANS[convert]}"))  # type: ignore[index]
            return None

    values = {
        **{
            key: take(key, _count)
            for key in (
                "n_ubatch",
                "kv_unified_per_slot",
                "n_rs_seq",
                "n_outputs_max",
                "n_cpu_moe",
                "n_cpu_ffn",
                "main_gpu",
                "n_gpu_layers_draft",
                "fit_ctx",
                "ctx_checkpoints",
                "yarn_orig_ctx",
            )
        },
        **{
            key: take(key, _flag)
            for key in ("kv_unified", "swa_full", "server", "fit", "offload_kqv", "no_kv_offload", "op_offload", "mmproj_offload")
        },
        "override_tensor": take("override_tensor", _overrides),
        "split_mode": take("split_mode", _split),
        "load_mode": take("load_mode", _load),
        "flash_attn": take("flash_attn", _on_off_auto),
        "tensor_split": take("tensor_split", _shares),
        "device_memory": take("device_memory", _sizes),
        "fit_target": take("fit_target", _margins),
        "cache_ram": take("cache_ram", _mib_or_all),
        "override_kv": take("override_kv", _length),
        "rope_scaling": take("rope_scaling", _scaling),
        "rope_scale": take("rope_scale", _scale),
    }
    if faults:
        raise SpecError("engine_option", faults)
    offload = values.pop("offload_kqv")
    stays = values.pop("no_kv_offload")
    defaults = {
        "swa_full": False,
        "server": False,
        "tensor_split": (),
        "device_memory": (),
        "n_cpu_moe": 0,
        "n_cpu_ffn": 0,
        "override_tensor": (),
        "split_mode": "layer",
        "load_mode": "mmap",
        "main_gpu": 0,
        "fit_target": (1024 * MIB,),
        "fit_ctx": 4096,
    }
    filled = {key: defaults.get(key) if value is None else value for key, value in values.items()}
    return LlamaOptions(offload_kqv=offload is not False and stays is not True, **filled)  # type: ignore[arg-type]


def _count(text: str) -> int:
    n = int(text)
    if not 0 <= n <= 1 << 31:
        raise ValueError
    return n


def _flag(text: str) -> bool:
    return _known(text, "true on 1 yes enabled false off 0 no disabled") in ("true", "on", "1", "yes", "enabled")


def _on_off_auto(text: str) -> str:
    word = _known(text, "on off auto true false 1 0 -1 enabled disabled")
    names = {"true": "on", "1": "on", "enabled": "on", "false": "off", "0": "off", "disabled": "off", "-1": "auto"}
    return names.get(word, word)


def _known(text: str, words: str) -> str:
    word = text.strip().lower()
    if word not in words.split():
        raise ValueError
    return word


def _shares(text: str) -> tuple[Fraction, ...]:
    shares = tuple(Fraction(part) for part in text.replace("/", ",").split(","))
    if min(shares) < 0 or not sum(shares):
        raise ValueError
    return shares


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(parse_bytes(part) for part in text.replace("/", ",").split(","))


def _margins(text: str) -> tuple[int, ...]:
    return tuple(int(part) * MIB if part.isdecimal() else parse_bytes(part) for part in text.replace("/", ",").split(","))


#: A repeat of repeats: such a pattern may take longer than anybody waits.
_NESTED = re.compile(r"[+*}]\)*[+*{]|[+*}][^()]*\)[+*{]")


def _overrides(text: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Split at commas as the engine does, inside a pattern too."""
    found = []
    for part in text.split(","):
        pattern, equals, buffer = part.partition("=")
        if not equals or not buffer or len(pattern) > MAX_PATTERN or _NESTED.search(pattern):
            raise ValueError
        try:
            found.append((re.compile(pattern), buffer.strip()))
        except (re.error, RecursionError, OverflowError):
            raise ValueError from None
    return tuple(found)


def _split(text: str) -> str:
    return _known(text, "none layer row tensor")


def _load(text: str) -> str:
    word = _known(text, "auto mmap none mlock mmap+mlock dio")
    return "mmap" if word == "auto" else word  # mmap, unless a device does not support it


def _mib_or_all(text: str) -> int:
    n = int(text)
    if not -1 <= n <= 1 << 31:
        raise ValueError
    return n


def _length(text: str) -> int:
    match = re.fullmatch(r"[\w.-]{1,60}\.context_length=int:(\d{1,10})", text.strip())
    return _count(match[1] if match else "")


def _scaling(text: str) -> str:
    return _known(text, "none linear yarn")


def _scale(text: str) -> Fraction:
    factor = Fraction(text)
    if not 0 < factor <= 1 << 20:
        raise ValueError
    return factor


_MEANS = {
    _count: "a whole number",
    _flag: "true or false",
    _on_off_auto: "on, off or auto",
    _shares: "a list of shares such as 3,1",
    _sizes: "a list of sizes such as 24GiB/12GiB",
    _margins: "a size (MiB, or with its unit), or one for each device",
    _overrides: "a list of PATTERN=BUFFER such as exps=CPU",
    _split: "none, layer, row or tensor",
    _load: "auto, mmap, none, mlock, mmap+mlock or dio",
    _mib_or_all: "a number of MiB, or -1",
    _length: "ARCHITECTURE.context_length=int:TOKENS, the one key whose memory is modelled",
    _scaling: "none, linear or yarn",
    _scale: "a factor above 0",
}
