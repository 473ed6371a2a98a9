"""What engine options of a question say, some of which TabbyAPI and the library's scripts write in different ways.

theroyallab/tabbyAPI common/config_models.py, backends/exllamav3/model.py create_cache, adjust_chunk_size; exllamav3/model_init.py.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import release, three_parts
from kvplan.engines.exllamav3.placed import Beside
from kvplan.engines.exllamav3.releases import SINCE
from kvplan.errors import SpecError
from kvplan.units import round_up

CHUNK, CHUNKS_OF = 2048, 256
_MODES = {"fp16": None, "q4": 4, "q6": 6, "q8": 8}
#: K and V; None: f16.
Bits = tuple[int | None, int | None]


class Asked(NamedTuple):
    """Sizes and formats.

    tokens   of the cache; None: nothing is said. longest: of a sequence (max_seq_len)
    chunk    tokens of a step of a prompt
    bits, draft_bits  of the cache, and of the drafter's
    beside   what stays in host memory
    refusal  why nothing starts with these
    """

    tokens: int | None
    longest: int | None
    chunk: int | None
    bits: Bits
    draft_bits: Bits
    beside: Beside
    refusal: str


def asked(d: Deployment, version: str) -> Asked:
    """Raises SpecError where two options say the same with different values, or exclude each other, and of one that a release has not."""
    o = Options(d)
    chunk = o.count("chunk_size")
    tokens = _same(
        "the tokens of the cache", max_model_len=d.max_model_len, cache_size=o.count("cache_size"), cache_tokens=o.count("cache_tokens")
    )
    longest = o.count("max_seq_len")
    steps = _same("the tokens of a step", max_num_batched_tokens=d.max_num_batched_tokens, chunk_size=chunk and round_up(chunk, CHUNKS_OF))
    bits, draft_bits = _bits(o)
    beside = Beside(
        layers=o.count("cpu_moe_offload_layers", 0) or 0,
        experts=o.count("cpu_moe_split_experts", 0) or 0,
        tables=o.flag("ngram_ram"),
        towers=o.flag("vision_offload"),
    )
    if beside.layers and beside.experts:
        raise SpecError("engine_option", [("cpu_moe_split_experts", "moe_cpu_split and moe_cpu_offload are mutually exclusive; keep one")])
    on = {"cpu_moe_offload_layers": beside.layers, "cpu_moe_split_experts": beside.experts, "ngram_ram": beside.tables,
          "vision_offload": beside.towers}  # fmt: skip
    if late := [name for name, said in on.items() if said and three_parts(version) < release(SINCE[name])]:
        raise SpecError(
            "engine_option", [(name, f"exllamav3 {version} has no such option; it is there from {SINCE[name]} on") for name in late]
        )
    on_cpu = bool(beside.layers or beside.experts) and (d.tp or 1) > 1
    refusal = "experts on the CPU need layer-split mode, not tensor parallelism" if on_cpu else ""
    return Asked(tokens or longest, longest, steps, bits, draft_bits, beside, refusal)


def _same(what: str, **said: int | None) -> int | None:
    """The one value that is said, whatever the name."""
    given = {name: n for name, n in said.items() if n}
    if len(set(given.values())) > 1:
        raise SpecError("engine_option", [("", f"{', '.join(given)} say {what}, with different values; keep one")])
    return next(iter(given.values()), None)


def _bits(o: Options) -> tuple[Bits, Bits]:
    """Of the cache and of the drafter's: a script gives both the same, TabbyAPI the drafter's f16 where nothing is said of it."""
    mode, drafts = _mode(o, "cache_mode"), _mode(o, "draft_cache_mode")
    k, v = o.count("k_bits"), o.count("v_bits")
    if mode is None:
        own: Bits = (k or v, v or k)
        return own, drafts or own
    if k or v:
        raise SpecError("engine_option", [("cache_mode", "k_bits and v_bits say the same; keep one")])
    return mode, drafts or (None, None)


def _mode(o: Options, key: str) -> Bits | None:
    """`FP16`, `Q6`, `6,6`, and as a script has it `6`; None where nothing is said."""
    text = o.text(key)
    if text is None:
        return None
    if text.lower() in _MODES:
        return (_MODES[text.lower()],) * 2
    if match := re.fullmatch(r"([2-8])(?:\s*,\s*([2-8]))?", text.strip("[]() ")):
        return int(match[1]), int(match[2] or match[1])
    raise SpecError("engine_option", [(key, f"{text[:60]!r}: write FP16, Q8, Q6, Q4, or bits of K and V from 2 to 8, such as 6,6")])
