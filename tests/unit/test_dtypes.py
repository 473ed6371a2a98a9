"""Bytes of one row: expected numbers from the engines' own layouts (vLLM 0.33 spec classes, ggml block structs, OCP MX)."""

from __future__ import annotations

import pytest

from kvplan.dtypes import matrix_bytes, parse_kv_dtype, row_bytes
from kvplan.errors import SpecError, UnknownName


@pytest.mark.parametrize(
    ("name", "elems", "expected"),
    [
        ("f32", 128, 512), ("f16", 128, 256), ("bf16", 128, 256), ("fp8_e4m3", 128, 128), ("fp8_e5m2", 128, 128), ("int8", 128, 128),
        ("int8_per_token_head", 128, 132), ("fp8_per_token_head", 128, 132), ("int4_per_token_head", 128, 68),
        ("nvfp4", 128, 72), ("mxfp8", 128, 132), ("fp8_scale128", 128, 132),
        ("q8_0", 128, 136), ("q5_1", 128, 96), ("q5_0", 128, 88), ("q4_1", 128, 80), ("q4_0", 128, 72), ("iq4_nl", 128, 72),
        ("fp8_ds_mla", 576, 656), ("nvfp4_ds_mla", 576, 352), ("fp8_ds_v4", 512, 584),
    ],
)  # fmt: skip
def test_row_bytes(name, elems, expected):
    assert row_bytes(name, elems) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("turboquant_k8v4", 196), ("turboquant_4bit_nc", 134), ("turboquant_k3v4_nc", 118), ("turboquant_3bit_nc", 102)],
)
def test_turboquant_pairs_at_head_dim_128(name, expected):
    assert sum(row_bytes(part, 128) for part in parse_kv_dtype(name)) == expected


def test_k_and_v_apart():
    assert parse_kv_dtype("q8_0/q4_0") == ("q8_0", "q4_0")
    assert parse_kv_dtype("bfloat16") == ("bf16", "bf16")


@pytest.mark.parametrize(("name", "elems"), [("fp8_ds_mla", 128), ("q8_0", 80), ("nvfp4", 24)])
def test_a_row_that_the_format_can_not_hold_is_refused(name, elems):
    with pytest.raises(SpecError, match=r"rows? of"):
        row_bytes(name, elems)


@pytest.mark.parametrize("text", ["fp7", "", "q8_0/q4_0/q4_0", "bf16/"])
def test_unknown_formats_are_refused(text):
    with pytest.raises((UnknownName, SpecError)):
        parse_kv_dtype(text)


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("bf16", (4096, 4096), 33_554_432),
        ("fp8_block128", (7168, 2048), 7168 * 2048 + 56 * 16 * 4),
        ("fp8_block128", (576, 7168), 576 * 7168 + 5 * 56 * 4),  # 576 rows are 4.5 blocks: 5
        ("mxfp4", (2880, 2880), 2880 * 2880 // 2 + 2880 * 90),
        ("nvfp4", (4096, 4096), 4096 * 4096 // 2 + 4096 * 256),
        ("awq_g128", (4096, 4096), 4096 * 4096 // 2 + 4096 * 32 * 2 + 4096 * 32 // 2),
    ],
)  # fmt: skip
def test_matrix_bytes_include_scales(name, shape, expected):
    assert matrix_bytes(name, *shape) == expected
