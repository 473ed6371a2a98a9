"""What is allocated, by the allocator's own count, against arithmetic written out here."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.validate.caches import Growing, build, entries_of, pages_needed
from kvplan.validate.description import CacheShape
from kvplan.validate.storage import PACKED, PARTS, Rows, parts

#: bytes of a row of 128 elements, from each format's definition
ROW_OF_128 = {
    "f64": 128 * 8, "f32": 128 * 4, "f16": 128 * 2, "bf16": 128 * 2, "fp8_e4m3": 128, "fp8_e5m2": 128, "int8": 128,
    "int8_per_token_head": 128 + 4, "fp8_per_token_head": 128 + 4, "int4_per_token_head": 64 + 4, "fp8_scale128": 128 + 4,
    "nvfp4": 64 + 128 // 16, "mxfp8": 128 + 128 // 32, "mxfp4": 64 + 128 // 32,
    "q8_0": 4 * (2 + 32), "q5_1": 4 * (2 + 2 + 4 + 16), "q5_0": 4 * (2 + 4 + 16), "q4_1": 4 * (2 + 2 + 16), "q4_0": 4 * (2 + 16),
    "iq4_nl": 4 * (2 + 16),
    "turboquant_k8": 128, "turboquant_k4": 64 + 2, "turboquant_k3": 128 * 3 // 8 + 2, "turboquant_v4": 64 + 4, "turboquant_v3": 48 + 4,
}  # fmt: skip


def shape(**fields) -> CacheShape:
    return CacheShape(**{"line": "x", "tensor": "k", "element": "bf16", "heads": 2, "width": 8, "tokens": 100, **fields})


@pytest.mark.parametrize("element", PARTS)
def test_a_format_allocates_what_its_definition_says(element):
    assert sum(Rows(element, (3,), 128).sizes()) == 3 * ROW_OF_128[element]


@pytest.mark.parametrize(
    ("element", "width", "n_bytes"),
    [("fp8_ds_mla", 576, 512 + 16 + 128), ("nvfp4_ds_mla", 576, 256 + 32 + 64), ("fp8_ds_v4", 512, 448 + 128 + 8)],
)
def test_packed_latent_rows(element, width, n_bytes):
    assert sum(Rows(element, (5,), width).sizes()) == 5 * n_bytes
    with pytest.raises(ValueError, match="rows of"):
        parts(element, 100)


def test_every_format_the_predicting_side_knows_can_be_allocated():
    from kvplan.dtypes import FORMATS

    assert set(FORMATS) == set(PARTS) | set(PACKED)


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({}, 100),
        ({"sequences": 3}, 3 * 100),
        ({"tokens_per_entry": 16}, 7),
        ({"tokens_per_entry": None}, 1),
        ({"keep": "window", "keep_tokens": 30}, 30),
        ({"keep": "window", "keep_tokens": 30, "sinks": 4}, 34),
        ({"keep": "window", "keep_tokens": 300}, 100),
        ({"keep": "chunk", "keep_tokens": 64}, 64),
        ({"keep": "source", "tokens": 15}, 15),
        ({"layout": "growing"}, 100),
        ({"layout": "paged", "block_tokens": 16}, 7 * 16),
        ({"layout": "paged", "block_tokens": 16, "sequences": 2}, 2 * 7 * 16),
        ({"layout": "paged", "block_tokens": 16, "tokens_per_entry": 4}, 7 * 4),
        ({"layout": "paged", "block_tokens": 16, "keep": "window", "keep_tokens": 30}, 3 * 16),  # 29 more tokens touch two more pages
        ({"layout": "paged", "block_tokens": 16, "keep": "chunk", "keep_tokens": 40}, 3 * 16),
    ],
)
def test_how_many_rows_each_way_of_keeping_allocates(fields, rows):
    cache = build(shape(**fields))
    assert cache.touch()
    assert sum(cache.sizes()) == rows * 2 * 8 * 2


def test_growing_by_concatenation_holds_old_and_new_for_a_moment():
    cache = Growing(shape())
    assert cache.touch()
    row = 2 * 8 * 2
    assert sum(cache.sizes()) == 100 * row
    assert cache.peak == (99 + 1 + 100) * row


@pytest.mark.parametrize("window", [2, 3, 16, 17, 33])
@pytest.mark.parametrize("sinks", [0, 1, 16, 20])
def test_a_window_of_pages_never_needs_more_than_the_pages_it_can_touch(window, sinks):
    for block in (1, 4, 16):
        for tokens in range(1, 120):
            most = -(-(window - 1) // block) + 1 + -(-sinks // block)
            assert pages_needed(tokens, block, window, sinks) == min(-(-tokens // block), most)


def seen(position: int, fields: dict[str, Any]) -> set[int]:
    """The tokens that one at this position looks at: all before it, a window of them and the sinks, or those of its chunk."""
    n, before = fields.get("keep_tokens", 0), range(position + 1)
    if fields.get("keep") == "window":
        return {k for k in before if k > position - n or k < fields.get("sinks", 0)}
    if fields.get("keep") == "chunk":
        return {k for k in before if k // n == position // n}
    return set(before)


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"keep": "window", "keep_tokens": 9}, {"keep": "window", "keep_tokens": 1}, {"keep": "window", "keep_tokens": 7, "sinks": 3},
        {"keep": "chunk", "keep_tokens": 8},
    ],
)  # fmt: skip
@pytest.mark.parametrize("tokens", [1, 5, 8, 37])
def test_what_is_allocated_holds_what_every_step_looks_at_and_no_more(fields, tokens):
    looked_at = [seen(position, fields) for position in range(tokens)]
    assert entries_of(shape(**fields, tokens=tokens)) == max(map(len, looked_at))
    if fields.get("keep") != "chunk":  # whose pages go back all at once
        pages = [{k // 4 for k in tokens} for tokens in looked_at]
        assert pages_needed(tokens, 4, fields.get("keep_tokens", 0), fields.get("sinks", 0)) == max(map(len, pages))
