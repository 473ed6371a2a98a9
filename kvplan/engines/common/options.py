"""Options of engines and speculation, read with their types."""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.errors import SpecError

#: Drafts of a block of DeepSeek's checkpoints (dspark_block_size).
DSPARK_BLOCK = 5


class Options:
    """The engine options of a question, read with their types. Raises SpecError where a value is not what the option takes."""

    __slots__ = ("_values",)

    def __init__(self, d: Deployment) -> None:
        self._values = dict(d.engine_option)

    def text(self, key: str, choices: tuple[str, ...] = ()) -> str | None:
        value = self._values.get(key)
        if value is not None and choices and value not in choices:
            raise SpecError("engine_option", [(key, f"{value[:60]!r} is not one of {', '.join(choices)}")])
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._values.get(key)
        if value is None:
            return default
        word = value.lower()
        if word not in ("true", "1", "yes", "on", "false", "0", "no", "off"):
            raise SpecError("engine_option", [(key, f"{value[:60]!r} is not true or false")])
        return word in ("true", "1", "yes", "on")

    def count(self, key: str, least: int = 1) -> int | None:
        value = self._values.get(key)
        if value is None:
            return None
        if not value.isascii() or not value.isdecimal() or len(value) > 18 or int(value) < least:
            raise SpecError("engine_option", [(key, f"{value[:60]!r} is not a whole number of at least {least}")])
        return int(value)

    def counts(self, key: str, *, zero: bool = False) -> tuple[int, ...]:
        """Whole numbers above 0 (with `zero` that too) apart by commas, in brackets or not; none where nothing is said."""
        text = self._values.get(key)
        if text is None:
            return ()
        parts = [part.strip() for part in text.strip("[]() ").split(",")]
        if not all(part.isascii() and part.isdecimal() and len(part) < 8 and (int(part) or zero) for part in parts):
            raise SpecError("engine_option", [(key, f"{text[:60]!r}: write whole numbers apart by commas, such as 1,2,4,8")])
        return tuple(int(part) for part in parts)

    def allocator(self) -> str:
        """torch's settings of its allocator (PYTORCH_CUDA_ALLOC_CONF): key:value pairs apart by commas, without blanks, in lower case."""
        word = self._values.get("allocator", "").replace(" ", "").lower()
        if word and not re.fullmatch(r"[a-z_]+[0-9]*:.+", word):
            said = f"{word[:60]!r}: write it as torch takes it, such as expandable_segments:True"
            raise SpecError("engine_option", [("allocator", said)])
        return word

    def driver(self) -> int | None:
        """The branch of NVIDIA's driver (535 of 535.183.01)."""
        value = self._values.get("driver")
        if value is None:
            return None
        if not re.fullmatch(r"[1-9][0-9]{2,3}(\.[0-9]{1,4})*", value):
            said = f"{value[:60]!r}: write what nvidia-smi calls the driver version, such as 550.54.15"
            raise SpecError("engine_option", [("driver", said)])
        return int(value.partition(".")[0])

    def growing_segments(self) -> bool:
        """Whether torch's allocator maps memory into segments that grow."""
        return "expandable_segments:true" in self.allocator()

    def number(self, key: str, most: float = 1e9, *, zero: bool = False) -> float | None:
        """A number above 0; with `zero` that too, where it says that there is none."""
        value = self._values.get(key)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= most or not (number or zero):
            least = "of at least" if zero else "above"
            raise SpecError("engine_option", [(key, f"{value[:60]!r} is not a number {least} 0 and at most {most:g}")])
        return number


class Speculation(NamedTuple):
    """`METHOD:TOKENS[:MODEL]`, read; `auto` for tokens is 0: as many as the engine picks."""

    method: str
    tokens: int
    model: str | None


#: Methods that draft from the text itself: no weights, no cache.
FREE = ("ngram", "ngram_gpu", "suffix", "lookahead", "prompt_lookup", "user_provided")


def read_speculative(text: str | None) -> Speculation | None:
    """None for `off`. Raises SpecError for anything but METHOD:TOKENS[:MODEL]."""
    if text in (None, "off", ""):
        return None
    named, _, rest = str(text).partition(":")
    method = "draft_model" if named.lower() == "draft" else named.lower()
    tokens, _, model = rest.partition(":")
    if tokens == "auto":
        return Speculation(method, 0, model or None)
    if not tokens.isascii() or not tokens.isdecimal() or not 1 <= int(tokens[:9]) <= 1024:
        raise SpecError("speculative", [("", f"{str(text)[:60]!r}: write METHOD:TOKENS[:MODEL] such as eagle3:3, or off")])
    return Speculation(method, int(tokens), model or None)


class Lora(NamedTuple):
    """`RANKxADAPTERS`, read."""

    rank: int
    adapters: int


def read_lora(text: str | None) -> Lora | None:
    """None for `off`. Raises SpecError for anything but RANKxADAPTERS."""
    if text in (None, "off", ""):
        return None
    rank, _, adapters = str(text).lower().partition("x")
    sizes = [int(part) if part.isascii() and part.isdecimal() and len(part) < 6 else 0 for part in (rank, adapters)]
    if min(sizes) < 1:
        raise SpecError("lora", [("", f"{str(text)[:60]!r}: write RANKxADAPTERS such as 32x4, or off")])
    return Lora(*sizes)
