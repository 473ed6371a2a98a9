"""What is allocated, by the allocator's own count, against arithmetic written out here."""

from __future__ import annotations

import pytest
import torch

from kvplan.validate.blocks import Blocks, OutOfBlocks, Table, blocks_needed
from kvplan.validate.caches import Growing, Paged, build
from kvplan.validate.description import CacheShape
from kvplan.validate.quantise import FORMATS_WITH_VALUES, decode, encode
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


#: the largest error of a value drawn from a normal distribution, as a fraction of the largest value of its row
ERRORS = {
    "f64": 1e-15, "f32": 1e-6, "f16": 1e-3, "bf16": 0.005, "fp8_e4m3": 1 / 16, "fp8_e5m2": 1 / 8,
    "int8_per_token_head": 0.005, "fp8_per_token_head": 1 / 16, "int4_per_token_head": 0.08, "fp8_scale128": 1 / 16, "nvfp4": 0.25,
    "mxfp8": 1 / 16, "mxfp4": 0.34, "q8_0": 0.005, "q4_0": 0.08, "q4_1": 0.08,
}  # fmt: skip


@pytest.mark.parametrize("element", [name for name in FORMATS_WITH_VALUES if name != "int8"])
def test_what_is_stored_is_enough_to_read_the_values_back(element):
    values = torch.randn(4, 6, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = Rows(element, (4, 6), 128)
    rows.put((slice(None),), values)
    error = (rows.get((slice(None),)) - values).abs().amax(-1) / values.abs().amax(-1)
    assert error.max() < ERRORS[element]
    assert {name: data.shape for name, data in encode(element, values).items()} == {n: t.shape for n, t in rows.tensors.items()}


def test_int8_keeps_whole_numbers():
    values = torch.tensor([[-127.0, 0.0, 3.4, 300.0]])
    assert decode("int8", encode("int8", values), 4).tolist() == [[-127, 0, 3, 127]]


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
            assert blocks_needed(tokens, block, window, sinks) == min(-(-tokens // block), most)


def test_a_pool_counts_and_gives_back():
    pool = Blocks(3)
    table = Table(pool, 4)
    for _ in range(9):
        table.append()
    assert (pool.used, pool.peak) == (3, 3)
    with pytest.raises(OutOfBlocks):
        pool.take()
    table.free()
    assert (pool.used, pool.peak) == (0, 3)


def test_a_fork_of_a_full_pool_fails_and_says_so():
    pool = Blocks(3)
    table = Table(pool, 4)
    for _ in range(9):
        table.append()
    with pytest.raises(OutOfBlocks, match="3 blocks"):
        table.fork()


def test_shared_blocks_are_freed_with_the_last_sequence():
    cache = Paged(shape(layout="paged", block_tokens=16), n_blocks=20)
    cache.append(0, torch.ones(2, 40, 8))
    assert cache.pool.used == 3
    cache.fork(0)
    assert cache.pool.used == 4  # two whole blocks shared, the started one copied
    cache.tables[0].free()
    assert cache.pool.used == 3
    cache.tables[1].free()
    assert cache.pool.used == 0


def test_bookkeeping_is_counted_apart():
    cache = Paged(shape(layout="paged", block_tokens=16), n_blocks=20)
    cache.append(0, torch.ones(2, 40, 8))
    assert cache.bookkeeping == 4 * (3 + 3)
