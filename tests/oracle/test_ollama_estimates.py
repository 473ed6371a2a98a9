"""Ollama's scheduler, estimate by estimate, against its own Go code: bytes and layers, to the byte.

Rows: ollama_estimates.jsonl, what EstimateGPULayers (llm/memory.go with llm/ggml.go or fs/ggml of the tag, 0.1.33 to 0.12.6) returned for
the GGUF headers of ollama_shapes.py; the files of the tag compiled as they are with Go 1.27, beside stand-ins for the packages that ask
the machine (gpu, discover, api.Options). `go` holds its numbers: layers, their split, bytes of caches (kv), of the graph of a whole
and of a split model (full, partial), of what the model takes on the cards (vram) and in all (total), of the output (out).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvplan.catalogue import find_device
from kvplan.deployment import Deployment
from kvplan.engines import find
from kvplan.engines.llama_cpp.ollama.estimate import Estimate
from kvplan.importers.gguf import Gguf, read_gguf
from tests.conftest import rows_of
from tests.oracle.ollama_shapes import SHAPES, write

ROWS = rows_of(Path(__file__).with_name("ollama_estimates.jsonl"))
MIB = 1 << 20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Gguf]:
    folder: Path = tmp_path_factory.mktemp("gguf")
    return {name: read_gguf(write(folder / f"{i}.gguf", shape)) for i, (name, shape) in enumerate(SHAPES.items())}


@cache
def _devices() -> dict[str, Any]:
    return {"cuda": find_device("rtx-3090"), "metal": find_device("apple-m1-max-64gb")}


def estimate(file: Gguf, row: dict[str, Any]) -> Estimate:
    """Our estimate for the row's question."""
    options = (("flash_attn", "on"),) if row["flash"] else (("flash_attn", "off"),)
    question = Deployment(
        model=file.spec,
        stored=file.stored,
        engine="ollama",
        engine_version=row["release"],
        device=_devices()[row["library"]],
        n_devices=len(row["free_mib"]),
        max_model_len=row["num_ctx"],
        max_num_seqs=row["slots"],
        max_num_batched_tokens=512,
        n_gpu_layers=row["num_gpu"],
        kv_dtype=row["kv_type"],
        engine_option=options,
    )
    settings = find("ollama").settle(question).settings
    scheduler = settings.placing.__self__
    found: Estimate = scheduler.estimate(row["num_ctx"] * row["slots"], row["slots"], [n * MIB for n in row["free_mib"]])
    return found


def numbers(found: Estimate, row: dict[str, Any]) -> dict[str, Any]:
    """As the Go code returns them; without layers it leaves out where they are."""
    got = {
        "layers": found.offloaded, "split": list(found.cards) if len(found.cards) > 1 and found.offloaded else [], "kv": found.kv,
        "full": found.graph.full, "partial": found.graph.partial, "vram": found.partial, "total": found.full, "out": found.output,
    }  # fmt: skip
    return {name: got[name] for name in row["go"]}


@pytest.mark.parametrize("release", sorted({row["release"] for row in ROWS}))
def test_to_the_byte(release: str, files: dict[str, Gguf]) -> None:
    rows = [row for row in ROWS if row["release"] == release]
    wrong = []
    for row in rows:
        got = numbers(estimate(files[row["model"]], row), row)
        wrong += [f"{row} but {got}"] if got != row["go"] else []
    assert not wrong, f"{len(wrong)} of {len(rows)}: {wrong[0]}"


def test_rows_span_models_libraries_and_cards() -> None:
    assert {row["model"] for row in ROWS} == set(SHAPES)
    assert {row["library"] for row in ROWS} == {"cuda", "metal"}
    assert {len(row["free_mib"]) for row in ROWS} == {1, 2, 3}
    assert len({row["release"] for row in ROWS}) == 10


def test_a_file_that_ollama_made_itself_is_the_same_model(tmp_path: Path) -> None:
    """ollama convert/convert_gptoss.go: the architecture is gptoss there, and MXFP4 was type 4 before it was 39."""
    arch, geometry, tensors, vocab = SHAPES["gpt-oss 20b"]
    legacy = [(name, shape, 4 if number == 39 else number, n_bytes) for name, shape, number, n_bytes in tensors]
    theirs = read_gguf(write(tmp_path / "theirs.gguf", ("gptoss", geometry, legacy, vocab)))
    ours = read_gguf(write(tmp_path / "ours.gguf", (arch, geometry, tensors, vocab)))
    assert theirs.spec.changed(id="a/a", name="a", source="a") == ours.spec.changed(id="a/a", name="a", source="a")
    assert theirs.stored == ours.stored
