"""Writes kvplan/gguf_files.tsv, how large published GGUF files of a model are; prints how far each type's are from llama-quantize's rule.

python tools/gguf_files.py JAN.json OLLAMA.json

JAN     model_catalog_v2.json of github.com/janhq/model-catalog at 5410b10 (sizes in GiB, called GB)
OLLAMA  ollama_models/ollama_models.json of github.com/MarkWard0110/ollama-models at 8a7dfc0

and gguf_seen.tsv beside this file, of sizes published elsewhere: upload, type, bytes, `draft` where the model's own draft module is in it,
source. A size is a number of few digits: where the rule gives the same ones, it is taken, so that what is written differs where a file
does. As many bytes are taken off for a draft module as the rule gives it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import kvplan
from kvplan.api.asking import deployment
from kvplan.dtypes import GGUF_TYPES
from kvplan.engines.common.settling import checkpoint_format
from kvplan.errors import KvplanError
from kvplan.gguf_files import HEAD, elements, file_bytes, line_of
from kvplan.llama_quantize import with_types
from kvplan.rows import rows
from kvplan.spec import lower
from kvplan.tensors import CacheFormats, Lowered

FILE = Path(kvplan.__file__).parent / "gguf_files.tsv"
SEEN = Path(__file__).parent / "gguf_seen.tsv"
#: Who makes files of the models as they were released.
PUBLISHERS = (
    "unsloth", "bartowski", "lmstudio-community", "ggml-org", "Qwen", "google", "openai", "mistralai", "ibm-granite", "LiquidAI", "allenai",
)  # fmt: skip
FORMATS = CacheFormats("bf16", "bf16", "bf16", "bf16")
_TYPE = re.compile(r"(UD-)?(I?Q\d_[A-Z0-9_]+|MXFP4_MOE|TQ\d_0)(?=\.gguf$)", re.IGNORECASE)
#: A tokenizer takes 6 to 16 MB of a file: smaller ones say less.
SMALLEST = 1.5e9
#: Of a size of so few digits that they leave more than this open, nothing is known but that it is the rule's, or not where a finer one is.
COARSE = 0.006
#: Models of Ollama's library whose files hold the draft module: Q8_0 of qwen3.6:27b is 0.4 % below the rule's bytes with it, 1.7 % above
#: those without. DeepSeek's do not.
OLLAMA_DRAFTS = ("qwen3.5", "qwen3.6")


class File(NamedTuple):
    """A published file: what to ask kvplan for, its bytes, half a unit of their last digit, whether towers and draft modules are in it."""

    name: str
    bytes: float
    half: float
    tower: bool
    draft: bool


class Seen(NamedTuple):
    """A file of a line: its publisher, its bytes without towers and draft modules, and what share of it its digits leave open."""

    publisher: str
    bytes: float
    open: float


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
                yield File(
                    f"{at[1]}:{kind[0].upper()}", *_size(one["file_size"], {"GB": 2**30, "MB": 2**20}), tower=False, draft="-MTP-" in at[1]
                )


def of_ollama(path: str) -> Iterator[File]:
    """Tags of the library that name their type."""
    for model in json.loads(Path(path).read_text(encoding="utf-8")):
        for tag in model["tags"]:
            if tag.get("quantization") and tag.get("size", "-")[:1].isdecimal():
                yield File(
                    f"{model['name']}:{tag['name']}",
                    *_size(tag["size"], {"GB": 1e9, "MB": 1e6, "KB": 1e3}),
                    tower=True,
                    draft=model["name"] in OLLAMA_DRAFTS,
                )


def of_the_table() -> Iterator[File]:
    """gguf_seen.tsv."""
    for upload, kind, size, draft, _ in rows(SEEN):
        yield File(f"{upload}:{kind}", int(size), 0.5, tower=False, draft=draft == "draft")


def apart(model: Lowered, kind: str, architecture: str | None, file: File) -> int:
    """Bytes of a file that are none of the model's own: towers in 16 bits, draft modules by the rule."""
    towers = 2 * sum(w.elems for w in model.first if w.role == "tower") if file.tower else 0
    if not file.draft:
        return towers
    draft = with_types(replace(model, layers=model.draft, draft=(), first=(), last=(), embedding=None), kind, architecture)
    return towers + file_bytes(draft)


def kept(files: list[Seen]) -> list[Seen]:
    """Those that say something of their own: not what a finer size of the same publisher says, nor few digits beside more."""
    found: list[Seen] = []
    for one in sorted(files, key=lambda f: f.open):
        same = any(f.publisher == one.publisher and abs(f.bytes / one.bytes - 1) <= one.open + 0.002 for f in found)
        if not same and not (found and one.open > COARSE):
            found.append(one)
    return found


def main(jan: str, ollama: str) -> None:
    """The table, and what it says of each type."""
    found: dict[tuple[int, str, str], list[Seen]] = defaultdict(list)
    ratios: dict[str, list[tuple[float, str]]] = defaultdict(list)
    names: dict[tuple[int, str], str] = {}
    for file in (*of_the_hub(jan), *of_ollama(ollama), *of_the_table()):
        try:
            d = deployment(file.name)
        except KvplanError:
            continue
        kind = checkpoint_format(d)
        if kind not in GGUF_TYPES:
            continue
        bare = lower(d.model, FORMATS)
        model = with_types(bare, kind, d.model.architecture)
        rule, size = file_bytes(model), file.bytes - apart(bare, kind, d.model.architecture, file)
        exact = abs(size - rule) <= file.half
        if file.bytes < SMALLEST or not 0.6 < size / rule < 1.6:
            continue
        upload = file.name.partition(":")[0]
        line = line_of(elements(model), kind, upload)
        names.setdefault((line[0], line[2]), upload)
        publisher = "ollama" if file.tower else upload.partition("/")[0]
        found[line].append(Seen(publisher, rule if exact else size, 0 if exact else file.half / size))
        ratios[kind].append((found[line][-1].bytes / rule, file.name))
    lines = []
    for (n, kind, own), files in sorted(found.items()):
        files = kept(files)
        low, high = (end(f.bytes for f in files) / 2**30 for end in (min, max))
        seen = len(files) if own else len({f.publisher for f in files})
        lines.append(f"{n}\t{kind}\t{low:.4f}\t{high:.4f}\t{seen}\t{names[n, own]}\n")
    FILE.write_text(HEAD + "".join(lines), encoding="utf-8")
    print(f"{len(lines)} lines of {len(names)} models")
    for kind, beside in sorted(ratios.items()):
        values = sorted(ratio for ratio, _ in beside)
        low, *_, high = quantiles(values, n=20) if len(values) > 1 else (values[0], values[0])
        shown = " ".join(f"{ratio:.3f}" for ratio in (values[0], low, median(values), high, values[-1]))
        print(f"{kind:12} {len(values):4} {shown}  {min(beside)[1]}  {max(beside)[1]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
