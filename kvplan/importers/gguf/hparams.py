"""GGUF metadata read as llama.cpp reads it (src/llama-model.cpp load_hparams, b11312): typed values, one per layer where it is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.errors import SpecError
from kvplan.importers.gguf.architectures import Arch
from kvplan.importers.gguf.header import Long

MAX_LAYERS = 4096
MAX_NUMBER = 1 << 40


class Keys:
    """The metadata of one file, by key without the architecture's prefix. Raises SpecError with the full key."""

    def __init__(self, metadata: Mapping[str, Any], arch: str, source: str) -> None:
        self.metadata, self.arch, self.source = metadata, arch, source

    def fault(self, key: str, message: str) -> SpecError:
        return SpecError(self.source, [(f"{self.arch}.{key}", message)])

    def get(self, key: str) -> Any:
        return self.metadata.get(f"{self.arch}.{key}")

    def need(self, key: str) -> int:
        """A count that must be there and above 0."""
        value = self.number(key, 0)
        if value < 1:
            raise self.fault(key, "missing or 0; llama.cpp can not load this file either")
        return value

    def number(self, key: str, default: int) -> int:
        """A count; of an array that says one thing for all layers, that one."""
        value = self.get(key)
        if isinstance(value, tuple) and value and len(set(value)) == 1:
            value = value[0]
        return default if value is None else self._number(key, value)

    def _number(self, key: str, value: Any) -> int:
        if not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
            raise self.fault(key, f"{str(value)[:60]} is not a count from 0 to {MAX_NUMBER}")
        return int(value)

    def layers(self, key: str, n: int, default: list[int]) -> list[int]:
        """A value per layer: an array of `n` values, or one for all."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, Long):
            raise self.fault(key, f"an array of {value.length} values; the model has {n} layers")
        if not isinstance(value, tuple):
            return [self._number(key, value)] * n
        if len(value) != n:
            raise self.fault(key, f"an array of {len(value)} values; the model has {n} layers")
        return [self._number(key, v) for v in value]

    def flags(self, key: str, n: int) -> list[bool] | None:
        """A flag per layer from an array; layers past its end have none. None where the file has no such array."""
        value = self.get(key)
        if not isinstance(value, tuple):
            return None
        return [bool(v) for v in value[:n]] + [False] * (n - len(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hparams:
    """What all layers share, and lists with one value per layer: trunk first, then the draft (NextN) layers.

    `window` of a layer 0: it keeps every token; `reuses`: it reads an earlier layer's cache.
    """

    keys: Keys
    arch: Arch
    n_layers: int
    n_draft: int
    hidden: int
    context: int
    heads: list[int]
    kv_heads: list[int]
    ffn: list[int]
    k_dim: list[int]
    v_dim: list[int]
    window: list[int]
    recurrent: list[bool]
    reuses: list[bool]

    @property
    def n_all(self) -> int:
        return self.n_layers + self.n_draft


def read_hparams(keys: Keys, arch: Arch) -> Hparams:
    """Raises SpecError where a key is missing, of the wrong type or of the wrong length."""
    n_all, n_draft = keys.need("block_count"), keys.number("nextn_predict_layers", 0)
    if n_all > MAX_LAYERS or n_draft >= n_all:
        raise keys.fault("block_count", f"{n_all} layers, {n_draft} of them draft layers")
    n, hidden = n_all - n_draft, keys.need("embedding_length")
    heads = keys.layers("attention.head_count", n_all, [0] * n_all)
    kv_heads = keys.layers("attention.head_count_kv", n_all, heads)
    ffn = keys.layers("feed_forward_length", n_all, [0] * n_all)
    window = _windows(keys, arch, n, n_all)
    first = next((h for h in heads if h), 0)
    k, v = (keys.number(f"attention.{part}_length", hidden // first if first else 0) for part in ("key", "value"))
    k_swa, v_swa = keys.number("attention.key_length_swa", k), keys.number("attention.value_length_swa", v)
    recurrent = _recurrent(keys, arch, n, n_all, kv_heads, ffn)
    if arch.recurrent and arch.recurrent.kind == "short_conv":
        window = [0 if rec else w for w, rec in zip(window, recurrent, strict=True)]
    own = arch.kv_layers if arch.kv_layers is not None else n_all - keys.number("attention.shared_kv_layers", 0)
    return Hparams(
        keys=keys, arch=arch, n_layers=n, n_draft=n_draft, hidden=hidden, context=keys.need("context_length"),
        heads=heads, kv_heads=kv_heads, ffn=ffn,
        k_dim=[k_swa if w else k for w in window], v_dim=[v_swa if w else v for w in window],
        window=window, recurrent=recurrent, reuses=[i >= own for i in range(n_all)],
    )  # fmt: skip


def _windows(keys: Keys, arch: Arch, n: int, n_all: int) -> list[int]:
    """The window of each layer (llama-model.cpp load_swa_pattern, llama-hparams.cpp set_swa_pattern)."""
    swa, said = arch.swa, keys.number("attention.sliding_window", 0)
    present = keys.get("attention.sliding_window") is not None
    off = swa is None or (swa.optional and not said) or (swa.kind == "chunked" and present and not said)
    if swa is None or off or (swa.n_layers and swa.n_layers != n):
        return [0] * n_all
    window = swa.window if swa.fixed or not present else said
    if not window:
        raise keys.fault("attention.sliding_window", "missing or 0; llama.cpp needs it for this architecture")
    flags = keys.flags("attention.sliding_window_pattern", n_all)
    if flags is None:
        if swa.every is None:
            raise keys.fault("attention.sliding_window_pattern", "missing; this architecture's windows are a flag per layer")
        every = keys.number("attention.sliding_window_pattern", swa.every)
        full = 0 if swa.full_first else every - 1
        flags = [not every or il % every != full for il in range(n)] + [False] * (n_all - n)
    return [window if flag else 0 for flag in flags]


def _recurrent(keys: Keys, arch: Arch, n: int, n_all: int, kv_heads: list[int], ffn: list[int]) -> list[bool]:
    rule = arch.recurrent
    if rule is None:
        return [False] * n_all
    trunk = [il < n for il in range(n_all)]
    if rule.where in ("all", "beside"):
        return trunk
    if rule.where == "interval":
        said = keys.layers("attention.recurrent_layers", n_all, [])
        interval = keys.number("full_attention_interval", rule.interval)
        if interval < 1:
            raise keys.fault("full_attention_interval", "must be at least 1")
        return [bool(r) for r in said] or [t and (il + 1) % interval != 0 for il, t in enumerate(trunk)]
    no_ffn = rule.where == "no_kv_heads_no_ffn"
    return [t and not kv and not (no_ffn and ff) for t, kv, ff in zip(trunk, kv_heads, ffn, strict=True)]
