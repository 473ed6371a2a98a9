"""Imported configs against what transformers itself built: parameters, embeddings and the cache a real forward left.

Rows: ../shared/data/transformers_oracle.jsonl and transformers_defaults_oracle.jsonl (transformers 5.23.0, torch 2.13.0).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import read_config
from kvplan.spec import ModelSpec, lower
from kvplan.tensors import CacheFormats, CacheTensor, Lowered
from kvplan.weights import count
from tests.conftest import SHARED

DATA = SHARED / "data"
SOURCES = {"transformers_oracle.jsonl": "hf_configs", "transformers_defaults_oracle.jsonl": "hf_default_configs"}
DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="needs transformers_oracle.jsonl beside the checkout")


def rows() -> list[tuple[Path, dict[str, Any]]]:
    found = []
    for name, folder in SOURCES.items():
        for line in (DATA / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found.append((DATA / folder / row["file"], row))
    return found


def imported() -> list[tuple[ModelSpec, dict[str, Any]]]:
    return [(read_config(path), row) for path, row in rows() if row.get("params_total")]


def formats(row: dict[str, Any]) -> CacheFormats:
    dtype = DTYPES[row["dtype"]]
    return CacheFormats(dtype, dtype, dtype, dtype)


def expected_total(spec: ModelSpec, row: dict[str, Any]) -> int:
    modules = row["params_by_module"]
    if any(
        name.startswith("talker") for name in modules
    ):  # Qwen omni: kvplan plans the thinker, which is what engines serve; the speech side is noted as not counted
        return sum(n for name, n in modules.items() if name.startswith("thinker"))
    return row["params_total"]


def image_rows(spec: ModelSpec) -> int:
    """Llama 3.2 Vision's embedding has rows that its head has not: the spec declares them apart."""
    shapes = [w.shape for w in spec.weights if w.name == "embedding_of_image_tokens"]
    return sum(shape[0] * shape[1] for shape in shapes)


def test_parameters_are_those_that_transformers_builds() -> None:
    wrong = []
    for spec, row in imported():
        found = count(lower(spec, formats(row)))
        if found.total != expected_total(spec, row):
            wrong.append(f"{row['file']}: {found.total} is not {expected_total(spec, row)} ({found.total - expected_total(spec, row):+})")
        if row["params_embedding"] and found.embedding + image_rows(spec) != row["params_embedding"]:
            wrong.append(f"{row['file']}: embedding {found.embedding} is not {row['params_embedding']}")
    assert not wrong, "\n".join(wrong)


class Rules:
    """What transformers 5.23.0 does with a cache that the model itself does not ask for, read off the row and the config.

    - SlidingWindowLayer (cache_utils.py) keeps window - 1 tokens; where the row has no sliding layer (GPT-Neo) it keeps every token;
    - a convolution state has all `kernel` columns, one more than the next step needs, but for RecurrentGemma's;
    - indexer keys stay in the compute type (DeepSeek's release stores e4m3 with scales);
    - Falcon's new decoder stores K and V expanded to every query head.
    """

    def __init__(self, spec: ModelSpec, row: dict[str, Any], run: dict[str, Any]) -> None:
        kinds = run["by_layer_type"].keys()
        self.windows = run["cache_class"] != "DynamicCache" or any("sliding" in k or "chunked" in k or "DeepseekV4" in k for k in kinds)
        self.seq = run["seq"]
        self.encoder = run.get("encoder_seq", run.get("image_tokens", 0))
        self.extra_column = spec.architecture != "RecurrentGemmaForCausalLM"
        self.element = {"bf16": 2, "f16": 2, "f32": 4}[DTYPES[row["dtype"]]]
        self.expand = 1
        if spec.architecture == "FalconForCausalLM":
            mixer: Any = spec.blocks[spec.layer_names[0]].mixers[0]
            self.expand = mixer.heads // mixer.kv_heads if mixer.kind == "gqa" else 1

    def held(self, t: CacheTensor) -> int:
        """Bytes of one tensor of one sequence."""
        if t.tokens_per_state is None:
            return t.bytes_per_state // t.columns * (t.columns + 1) if t.columns and self.extra_column else t.bytes_per_state
        if t.name == "index_k":
            return self.element * t.elems_per_state * (self.seq // t.tokens_per_state)
        if t.keep.kind == "source":
            return t.bytes_per_state * (t.keep.tokens or self.encoder)
        tokens = self.seq if t.keep.kind == "all" or not self.windows else min(self.seq, t.keep.tokens - 1)
        return self.expand * t.bytes_per_state * (tokens // t.tokens_per_state)

    def whole(self, model: Lowered) -> int:
        return sum(self.held(t) for layer in model.layers for cache in layer.caches for t in cache.tensors)


#: DeepSeek-V4: window rows, compressed rows and indexer rows are the cache; V of pure window layers repeats K, and compressor buffers
#: (rows that wait for their group) depend on the phase of the sequence, not on its length.
V4_ROWS = ("keys", "compressed_kv_compressor", "compressed_kv_indexer")


def cache_bytes(run: dict[str, Any]) -> int:
    if any(name.startswith("DeepseekV4") for name in run["by_layer_type"]):
        return sum(run["by_tensor"][name]["bytes"] for name in V4_ROWS if name in run["by_tensor"])
    return int(run["cache_bytes"])


def test_cache_is_what_a_real_forward_left() -> None:
    wrong, compared = [], 0
    for spec, row in imported():
        model = lower(spec, formats(row))
        for run in row.get("rows") or []:
            found = run["batch"] * Rules(spec, row, run).whole(model)
            compared += 1
            if found != cache_bytes(run):
                wrong.append(f"{row['file']} {run['batch']}x{run['seq']}: {found} is not {cache_bytes(run)} {run['by_layer_type']}")
    assert compared > 600
    assert not wrong, f"{len(wrong)} of {compared}\n" + "\n".join(wrong)


def test_every_config_is_imported_or_refused_with_a_reason() -> None:
    refused = []
    for path, _ in rows():
        try:
            read_config(path)
        except KvplanError as error:
            refused.append(path.name if str(error).startswith(str(path)) else str(error))
    # A stub that is not the layout of the release, and a class default that does not say which layers attend.
    assert sorted(refused) == [
        "stepfun-ai--Step-3.7-Flash-FP8.json", "stepfun-ai--Step-3.7-Flash.json", "transformers-default--lfm2_moe.json",
    ]  # fmt: skip
