"""Adapters that a command names by their files: their rank and modules, where the files lie beside, or how to say them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.engines.common.arguments import Adapters, moved
from kvplan.engines.common.words import STOPS, Finding, Given, Unresolved, refuse, warn
from kvplan.errors import KvplanError
from kvplan.importers.gguf.header import read_header

#: Names of a GGUF file's matrices -> those of checkpoints (gguf-py/gguf/tensor_mapping.py).
GGUF_MODULES = {
    "attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj", "ffn_gate": "gate_proj", "ffn_up": "up_proj",
    "ffn_down": "down_proj",
}  # fmt: skip
_FIRST_FACTOR = re.compile(r"(?:^|\.)(\w+)\.weight\.lora_a$")
MAX_RANK = 99_999
LATE = "the engine starts, and fails at the first request that names it"


class Adapter(NamedTuple):
    """What a file says of an adapter; modules empty: not told."""

    rank: int
    modules: tuple[str, ...]


#: The text of a file that a command names, by its path there; None where it is not at hand.
Text = Callable[[str, Given], "str | None"]


def told(adapters: Adapters, question: dict[str, Given], text: Text, options: Mapping[str, str]) -> tuple[list[Finding], list[Unresolved]]:
    """Puts `lora` into the question where all files are at hand; else what is open. `options`: those that the engine has.

    Where the command says the largest rank, a file with a larger one is what the engine stops at (vLLM lora/peft_helper.py validate_legal),
    at once or late (SGLang lora/mem_pool.py load_lora_weight_tensor; as it starts, validate_new_adapter has no pool to ask yet).
    """
    found = [(one, _read(str(one.value), one, text)) for one in adapters.paths]
    if (most := adapters.most) is not None:
        wide = [(one, adapter.rank) for one, adapter in found if adapter is not None and adapter.rank > most]
        say, ends = (partial(warn, "adapter-rank"), LATE) if adapters.late else (refuse, STOPS)
        said = [
            say(f"{one.spelled} {one.value}: LoRA rank {rank} is greater than max_lora_rank {most}; {ends}", one.place)
            for one, rank in wide
        ]
        return said, []
    first = adapters.paths[0]
    read = [adapter for _, adapter in found if adapter is not None]
    if len(read) < len(found):
        missing = next(str(one.value) for one, adapter in found if adapter is None)
        held = adapters.slots or len(found)
        why = f"the rank of {missing[:60]} is in its adapter_config.json or GGUF file, which is not at hand"
        return [], [Unresolved("lora", why, f"--lora RANKx{held}", first.place)]
    rank = max(adapter.rank for adapter in read)
    question["lora"] = moved(first, f"{rank}x{adapters.slots or len(found)}")
    names = sorted({name for adapter in read for name in adapter.modules})
    key = "engine_option.lora_target_modules"
    if names and all(adapter.modules for adapter in read) and "lora_target_modules" in options:
        question.setdefault(key, moved(first, ",".join(names)))
    of = f" of {', '.join(names)}" if names else ""
    return [Finding("adapters-read", "note", f"adapters are read from beside this file: rank {rank}{of}", first.place)], []


def _read(path: str, place: Given, text: Text) -> Adapter | None:
    """The adapter of a folder with an adapter_config.json, or of a GGUF file."""
    folder = path.rstrip("/")
    data = text(folder if folder.endswith((".gguf", ".json")) else f"{folder}/adapter_config.json", place)
    if data is None:
        return None
    try:
        return _of_config(json.loads(data))
    except ValueError:
        return None


def _of_config(config: Any) -> Adapter | None:
    """peft's LoraConfig: r, the largest of rank_pattern, target_modules by name or `all-linear`."""
    if not isinstance(config, dict):
        return None
    pattern = config.get("rank_pattern")
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    sure = [n for n in ranks if isinstance(n, int) and not isinstance(n, bool) and 0 < n <= MAX_RANK]
    modules = config.get("target_modules")
    named = tuple(str(name).rsplit(".", 1)[-1] for name in modules) if isinstance(modules, list) else ()
    return Adapter(max(sure), named) if sure else None


def gguf_config(path: str | Path) -> str | None:
    """What a GGUF adapter's header says, as an adapter_config.json would; None for another file, or one that can not be read.

    convert_lora_to_gguf.py: general.type is adapter; of each adapted matrix a `.lora_a` with rows of its inputs, as many as its rank.
    """
    try:
        header = read_header(path)
    except (KvplanError, OSError):
        return None
    firsts = [(match[1], one.shape[-1]) for one in header.tensors if (match := _FIRST_FACTOR.search(one.name)) and len(one.shape) > 1]
    if header.metadata.get("general.type") != "adapter" or not firsts:
        return None
    modules = {name for name, _ in firsts}
    known = modules <= GGUF_MODULES.keys()
    return json.dumps({"r": max(n for _, n in firsts), "target_modules": sorted(GGUF_MODULES[name] for name in modules) if known else None})
