"""Values of options, read as the engine reads them and written so that it reads the same. A reader raises ValueError with its complaint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from kvplan.dtypes import ALIASES
from kvplan.units import LARGEST

TORCH_TYPES = ("auto", "float16", "bfloat16", "half", "float", "float32")
_HUMAN = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([kKmMgGtT])")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_C_INT = re.compile(r"\s*([+-]?\d{1,18})")


def whole(text: str) -> int:
    """Python's int(), as argparse and click call it."""
    try:
        value = int(text) if len(text) < 64 else LARGEST + 1
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a whole number") from None
    if abs(value) > LARGEST:
        raise ValueError(f"{text[:60]!r} is out of range")
    return value


def human(text: str) -> int:
    """vLLM's human_readable_int (vllm/utils/argparse_utils.py, 0.8.5 to 0.33): 32k = 32,000, 32K = 32,768; no fractions with capitals."""
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return whole(text.strip())
    number, unit = match[1], match[2]
    if unit in _DECIMAL:
        return int(float(number) * _DECIMAL[unit])
    if "." in number:
        raise ValueError(f"{text[:60]!r}: decimals are not allowed with binary suffixes like {unit}; did you mean {number}{unit.lower()}?")
    return int(number) * _BINARY[unit]


def si_or_iec(text: str) -> int:
    """SGLang's human_readable_int (srt/utils/common.py, 0.5.10 to 0.5.23): 1k = 1,000, 1Ki = 1,024; cases count, no fractions with Ki."""
    match = re.fullmatch(r"(\d+)(\.\d+)?(Ki|Mi|Gi|Ti|k|M|G|T)", text.strip())
    if match is None:
        return whole(text.strip())
    number, part, unit = match.groups()
    power = "KMGT".index(unit[0].upper()) + 1
    if unit.endswith("i") and part:
        raise ValueError(f"{text[:60]!r}: decimals are not allowed with IEC suffixes like {unit}")
    return int(number) * 1024**power if unit.endswith("i") else int(Fraction(number + (part or "")) * 1000**power)


def human_or_auto(text: str) -> int:
    """vLLM's human_readable_int_or_auto (from 0.14): -1 for `auto`."""
    return -1 if text.strip().lower() in ("-1", "auto") else human(text)


def number(text: str) -> float:
    """Python's float()."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a number") from None
    if value != value or abs(value) > LARGEST:
        raise ValueError(f"{text[:60]!r} is out of range")
    return value


def c_int(text: str) -> int:
    """std::stoi, as llama.cpp calls it: what follows the digits is dropped without a word, so 32k is 32."""
    match = _C_INT.match(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a whole number")
    return int(match[1])


def structure(text: str) -> Any:
    """A JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text[:60]!r} is not JSON") from None
    return value


def truth(text: str) -> bool:
    """true, 1, yes, on and their opposites."""
    word = text.strip().lower()
    if word not in ("true", "1", "yes", "on", "false", "0", "no", "off"):
        raise ValueError(f"{text[:60]!r} is not true or false")
    return word in ("true", "1", "yes", "on")


def one_or_true(text: str) -> bool:
    """A variable that is on for `1` and `true` and off for all else, as vllm/envs.py and SGLang's EnvBool have it."""
    return text.strip().lower() in ("1", "true")


def limits(text: str) -> Any:
    """vLLM's --limit-mm-per-prompt: JSON, or `image=0,video=0` up to 0.9."""
    try:
        found = structure(text)
        if not isinstance(found, dict):
            return found
        return {kind: int(n) if isinstance(n, bool) or (isinstance(n, str) and n.isdecimal()) else n for kind, n in found.items()}
    except ValueError:
        if not all("=" in part for part in text.split(",")):
            raise
        return dict(part.split("=", 1) for part in text.split(","))


def on_off_auto(text: str) -> str:
    """llama.cpp's three-way switches (common/arg.cpp is_truthy, is_falsey, is_autoy), as 0 and 1 in the logs of older builds."""
    word = text.strip().lower()
    names = {"true": "on", "1": "on", "enabled": "on", "false": "off", "0": "off", "disabled": "off", "-1": "auto"}
    if names.get(word, word) not in ("on", "off", "auto"):
        raise ValueError(f"{text[:60]!r} is not on, off or auto")
    return names.get(word, word)


def counts(text: str) -> str:
    """Whole numbers apart by commas, in brackets or not."""
    return ",".join(str(whole(part)) for part in text.strip("[]() ").split(","))


def written(value: Any) -> str:
    """A value as one word: integers in full, fractions as short as they are exact, true and false in small letters."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def torch_type(text: str) -> str:
    """--dtype: ModelDType of vllm/config/model.py (0.8 to 0.33), SGLang's server_args.py; LMDeploy has the first three."""
    name = text.removeprefix("torch.")
    if name not in TORCH_TYPES:
        raise ValueError(f"{text[:60]!r} is none of {', '.join(TORCH_TYPES)}")
    return name


def compute_type(value: Any) -> str:
    """A 16 or 32 bit format as torch calls it; others are spelled alike."""
    name = str(value).strip().lower()
    name = ALIASES.get(name, name)
    return {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}.get(name, name)


def one_format(value: Any) -> str:
    """A cache format, of an engine that has one for keys and values. Raises ValueError for two."""
    k, _, v = str(value).strip().lower().partition("/")
    if v and v != k:
        raise ValueError(f"one cache format for keys and values, not {k[:20]}/{v[:20]}")
    return k


class Kind(NamedTuple):
    """A kind of value: from a word, and to one."""

    read: Callable[[str], Any]
    write: Callable[[Any], str] = written


KINDS: dict[str, Kind] = {
    "text": Kind(str),
    "int": Kind(whole),
    "human": Kind(human),
    "si": Kind(si_or_iec),
    "auto": Kind(human_or_auto, lambda value: "auto" if value == -1 else written(value)),
    "float": Kind(number),
    "c_int": Kind(c_int),
    "json": Kind(structure, json.dumps),
    "limits": Kind(limits, json.dumps),
    "truth": Kind(truth),
    "one_or_true": Kind(one_or_true, lambda value: "1" if value else "0"),
    "on_off_auto": Kind(on_off_auto),
    "compute": Kind(torch_type, compute_type),
    "format": Kind(str, one_format),
    "counts": Kind(counts),
}
