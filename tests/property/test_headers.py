"""Headers under fire: whatever a file holds, the parsers answer or raise KvplanError, and soon."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvplan.errors import FormatError, KvplanError
from kvplan.importers import safetensors as st_files
from kvplan.importers.gguf import header as gguf_header
from kvplan.importers.gguf import read_gguf
from tests.conftest import examples
from tools.header_files import F32, Q8_0, gguf, layout, model, safetensors

METADATA = model(
    "gemma4",
    {
        "block_count": 3, "embedding_length": 64, "feed_forward_length": [128, 64, 0], "attention.head_count": 4,
        "attention.head_count_kv": [4, 2, 1], "context_length": 2048, "attention.sliding_window": 32,
        "attention.sliding_window_pattern": [True, False, True], "tokenizer.ggml.tokens": ["a", "b"], "general.name": "x",
    },
)  # fmt: skip
GGUF = gguf(METADATA, [("blk.0.attn_q.weight", (64, 64), F32, 16384), ("token_embd.weight", (64, 10), Q8_0, 680)])
GGUF_HEADER = len(GGUF) - 16384 - 704
SAFE = safetensors(
    {
        "__metadata__": {"format": "pt"},
        **layout([("model.layers.0.mlp.up_proj.weight", "BF16", [8, 4], 64), ("lm_head.weight", "F8_E4M3", [9], 9)]),
    }
)
FLIPS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=6)


def flipped(data: bytes, flips: list[tuple[int, int]], within: int) -> bytes:
    changed = bytearray(data)
    for at, value in flips:
        changed[at % within] = value
    return bytes(changed)


@given(FLIPS)
@examples(400)
def test_flipped_gguf(tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped.gguf"
    path.write_bytes(flipped(GGUF, flips, GGUF_HEADER))
    with contextlib.suppress(KvplanError):
        read_gguf(path)


@given(FLIPS)
@examples(400)
def test_flipped_safetensors(flips: list[tuple[int, int]]) -> None:
    with contextlib.suppress(KvplanError):
        header = st_files.read_header(io.BytesIO(flipped(SAFE, flips, len(SAFE) - 73)))
        st_files.stored_weights([header])


def test_every_truncation_is_refused() -> None:
    for n in range(len(SAFE)):
        with pytest.raises(FormatError):
            st_files.read_header(io.BytesIO(SAFE[:n]))
    for n in [*range(GGUF_HEADER), len(GGUF) - 25]:  # the last 24 bytes are padding
        with pytest.raises(FormatError):
            gguf_header.read_header(io.BytesIO(GGUF[:n]))


@given(st.binary(max_size=400))
@example(b"GGUF" + b"\xff" * 60)
@example(b"\x02\0\0\0\0\0\0\0{}")
@examples(300)
def test_any_bytes(data: bytes) -> None:
    for read in (st_files.read_header, gguf_header.read_header):
        for raw in (data, b"GGUF\3\0\0\0" + data, len(data).to_bytes(8, "little") + data):
            with contextlib.suppress(KvplanError):
                read(io.BytesIO(raw))


names = st.text(min_size=1, max_size=30).filter(lambda s: s != "__metadata__")


@given(st.dictionaries(names, st.tuples(st.sampled_from(["U8", "BF16", "F32"]), st.lists(st.integers(0, 9), max_size=4)), max_size=8))
@examples(150)
def test_what_is_written_is_read(tensors: dict[str, tuple[str, list[int]]]) -> None:
    size = {"U8": 1, "BF16": 2, "F32": 4}
    sized = []
    for name, (dtype, shape) in tensors.items():
        n_bytes = size[dtype]
        for n in shape:
            n_bytes *= n
        sized.append((name, dtype, shape, n_bytes))
    header = st_files.read_header(io.BytesIO(safetensors(layout(sized))))
    assert {t.name: (t.dtype, list(t.shape)) for t in header.tensors} == tensors
    stored = st_files.stored_weights([header])
    assert stored.total_bytes == sum(t[3] for t in sized)
    assert sum(stored.by_role(None).values()) == stored.total_bytes == sum(stored.by_stack().values())


@given(st.dictionaries(names, st.one_of(st.booleans(), st.integers(-(1 << 62), 1 << 62), st.text(max_size=50)), max_size=8))
@examples(150)
def test_metadata_that_is_written_is_read(metadata: dict[str, object]) -> None:
    metadata.pop("general.alignment", None)
    assert gguf_header.read_header(io.BytesIO(gguf(metadata))).metadata == metadata


def test_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(KvplanError):
        read_gguf(tmp_path)
