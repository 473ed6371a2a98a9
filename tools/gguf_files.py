"""Writes kvplan/gguf_files.tsv, how large published GGUF files of a model are; prints how far each type's are from llama-quantize's rule.

python tools/gguf_files.py JAN.json OLLAMA.json

JAN     model_catalog_v2.json of github.com/janhq/model-catalog at 5410b10 (sizes in GiB, called GB)
OLLAMA  ollama_models/ollama_models.json of github.com/MarkWard0110/ollama-models at 8a7dfc0

A size is a number of few digits: where the rule gives the same ones, it is taken, so that what is written differs where a file does.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import kvplan
from kvplan.api.asking import deployment
from kvplan.dtypes import GGUF_TYPES
from kvplan.engines.common.settling import checkpoint_format
from kvplan.errors import KvplanError
from kvplan.gguf_files import HEAD, LOW, elements, file_bytes, own_name
from kvplan.llama_quantize import with_types
from kvplan.spec import lower
from kvplan.tensors import CacheFormats

FILE = Path(kvplan.__file__).parent / "gguf_files.tsv"
#: Who makes files of the models as they were released.
PUBLISHERS = (
    "unsloth", "bartowski", "lmstudio-community", "ggml-org", "Qwen", "google", "openai", "mistralai", "ibm-granite", "LiquidAI", "allenai",
)  # fmt: skip
FORMATS = CacheFormats("bf16", "bf16", "bf16", "bf16")
_TYPE = re.compile(r"(UD-)?(I?Q\d_[A-Z0-9_]+|MXFP4_MOE|TQ\d_0)(?=\.gguf$)", re.IGNORECASE)
#: A tokenizer takes 6 to 16 MB of a file: smaller ones say less.
SMALLEST = 1.5e9


class File(NamedTuple):
    """A published file: what to ask kvplan for, its bytes and half a unit of their last digit, and whether a tower is in it."""

    name: str
    bytes: float
    half: float
    tower: bool


def _size(text: str, units: dict[str, float]) -> tuple[float, float]:
    number, unit = re.fullmatch(r"([\d.]+)\s*([A-Z]+)", text).groups()  # type: ignore[union-attr]
    return float(number) * units[unit], 0.5 * 10 ** -len(number.partition(".")[2]) * units[unit]


def of_the_hub(path: str) -> Iterator[File]:
    """Single files of known publishers."""
    for model in json.loads(Path(path).read_text(encoding="utf-8")):
        for one in model.get("quants", ()):
            at = re.search(r"huggingface\.co/(([^/]+)/[^/]+)/resolve/main/(.+)$", one["path"])
            kind = _TYPE.search(at[3]) if at else None
            if at and kind and at[2] in PUBLISHERS and "mmproj" not in at[3] and "-of-0" not in at[3]:
                yield File(f"{at[1]}:{kind[0].upper()}", *_size(one["file_size"], {"GB": 2**30, "MB": 2**20}), tower=False)


def of_ollama(path: str) -> Iterator[File]:
    """Tags of the library that name their type."""
    for model in json.loads(Path(path).read_text(encoding="utf-8")):
        for tag in model["tags"]:
            if tag.get("quantization") and tag.get("size", "-")[:1].isdecimal():
                yield File(f"{model['name']}:{tag['name']}", *_size(tag["size"], {"GB": 1e9, "MB": 1e6, "KB": 1e3}), tower=True)


def main(jan: str, ollama: str) -> None:
    """The table, and what it says of each type."""
    found: dict[tuple[int, str, str], dict[str, float]] = defaultdict(dict)
    ratios: dict[str, list[tuple[float, str]]] = defaultdict(list)
    names: dict[tuple[int, str], str] = {}
    for file in (*of_the_hub(jan), *of_ollama(ollama)):
        try:
            d = deployment(file.name)
        except KvplanError:
            continue
        kind = checkpoint_format(d)
        if kind not in GGUF_TYPES:
            continue
        model = with_types(lower(d.model, FORMATS), kind, d.model.architecture)
        towers = 2 * sum(w.elems for w in model.first if w.role == "tower") if file.tower else 0
        rule = file_bytes(model)
        size = rule if abs(file.bytes - towers - rule) <= file.half else file.bytes - towers
        if file.bytes < SMALLEST or not 0.7 < size / rule < 1.6:
            continue
        upload = file.name.partition(":")[0]
        one = (elements(model), own_name(upload) if LOW.match(kind) else "")
        names.setdefault(one, upload)
        found[*one, kind][file.name] = size
        ratios[kind].append((size / rule, file.name))
    lines = [
        f"{n}\t{kind}\t{min(sizes.values()) / 2**30:.2f}\t{max(sizes.values()) / 2**30:.2f}\t{len(sizes)}\t{names[n, own]}\n"
        for (n, own, kind), sizes in sorted(found.items())
    ]
    FILE.write_text(HEAD + "".join(lines), encoding="utf-8")
    print(f"{len(lines)} lines of {len(names)} models")
    for kind, beside in sorted(ratios.items()):
        values = sorted(ratio for ratio, _ in beside)
        low, *_, high = quantiles(values, n=20) if len(values) > 1 else (values[0], values[0])
        shown = " ".join(f"{ratio:.3f}" for ratio in (values[0], low, median(values), high, values[-1]))
        print(f"{kind:12} {len(values):4} {shown}  {min(beside)[1]}  {max(beside)[1]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
