"""exllamav3's load over cards, by hand from util/memory.py, model/model.py, model_ls.py, block_sparse_mlp_cpu.py of its wheels and from
TabbyAPI's backends/exllamav3/model.py."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.devices import sized
from kvplan.errors import SpecError, UnsupportedError
from kvplan.units import GIB, MIB
from tests.conftest import planned
from tests.unit.engines.test_exllamav3 import LLAMA, ask, held

DENSE: dict[str, Any] = {"engine": "exllamav3", "model": "qwen/qwen3-14b", "weight_dtype": "exl3_4.0bpw", "context": "8k", "batch": 1}
#: Qwen3.8-Flash-Next: 48 layers of 512 experts of 3 x 640 x 2,560; a table of 128 x 2,500,012 rows of 160 elements.
EXPERTS: dict[str, Any] = {
    **DENSE, "model": "Qwen/Qwen3.8-Flash-Next", "weight_dtype": "exl3_4.05bpw", "device": "rtx-pro-6000-blackwell", "n_devices": 2,
}  # fmt: skip
DRAFTED = {**DENSE, "device": "rtx-4090", "speculative": "draft_model:4:qwen/qwen3-0.6b"}


def lines(plan: Any, rank: int = 0) -> dict[str, int]:
    return {line.name: line.bytes for line in plan.ledgers[rank].entries}


def with_options(asked: dict[str, Any], **options: str) -> Any:
    """A plan with engine options; `release` is the engine's."""
    version = options.pop("release", None)
    return planned(**asked, engine_version=version, engine_option=options)


def tensors(of: dict[str, int]) -> int:
    """What a load puts on a card: weights, cache, the widest step of a chunk."""
    return sum(n for name, n in of.items() if name.startswith(("weights", "cache: ", "activations of")))


@pytest.mark.parametrize("gb", ["10", "[10]", "9.5"])
def test_a_split_caps_what_tensors_take(gb: str) -> None:
    """set_memory_fraction_use: so many GiB of what torch allocates, whatever the card has."""
    plan = with_options({**DENSE, "device": "rtx-4090"}, gpu_split=gb)
    of = lines(plan)
    assert plan.outcome.margin_bytes == float(gb.strip("[]")) * GIB - tensors(of)
    assert sum(of.values()) + plan.outcome.margin_bytes == plan.ledgers[0].limit_bytes
    assert plan.outcome.certainty == "likely"


def test_more_than_a_card_has_is_what_it_has() -> None:
    free = with_options({**DENSE, "device": "rtx-4090"}).outcome.margin_bytes
    assert with_options({**DENSE, "device": "rtx-4090"}, gpu_split="24").outcome.margin_bytes == free


def test_a_split_that_is_too_small_fails() -> None:
    assert with_options({**DENSE, "device": "rtx-4090"}, gpu_split="7").starts is False
    assert with_options({**DENSE, "device": "rtx-4090"}).starts


def test_unequal_cards_take_unequal_parts() -> None:
    """Two cards of a split have the same left: the fullest one decides."""
    plan = with_options({**DENSE, "device": "rtx-4090"}, gpu_split="3,0,8", release="1.4.9")
    assert len(plan.ledgers) == 2
    left = [gb * GIB - tensors(lines(plan, rank)) for rank, gb in enumerate((3, 8))]
    layer = sum(n for name, n in lines(plan).items() if name.startswith(("weights: attention", "weights: mlp"))) / 10
    assert min(left) == plan.outcome.margin_bytes > 0
    assert abs(left[0] - left[1]) < layer


@pytest.mark.parametrize(("release", "options", "kept"), [
    ("0.0.4", {}, (96, 256)), ("0.0.5", {}, (96, 512)), ("1.4.9", {}, (96, 512)), ("1.5.0", {}, (256, 512)),
    ("1.4.9", {"autosplit_reserve": "1536,1536"}, (1536, 1536)), ("1.4.9", {"autosplit_reserve": "[1024]"}, (1024, 512)),
    ("1.4.9", {"autosplit_reserve": "64,-1,300"}, (64, 300)),
    ("1.4.9", {"autosplit_reserve": "1024,0", "gpu_split_auto": "false"}, (96, 512)),
    ("1.4.9", {"autosplit_reserve": "1024,0", "gpu_split": "20,20"}, (0, 0)), ("1.5.1", {"gpu_split": "20,20"}, (256, 256)),
])  # fmt: skip
def test_what_a_load_leaves_free(release: str, options: dict[str, str], kept: tuple[int, int]) -> None:
    """load_gen: 0.5 GB (0.25 before 0.0.5) of cards that TabbyAPI's [96] does not name; below 0 is left out. gpu_split reads none."""
    plan = with_options({**DENSE, "device": "rtx-4090", "n_devices": 2}, release=release, **options)
    assert tuple(lines(plan, rank)["kept free by a load"] for rank in (0, 1)) == tuple(n * MIB for n in kept)


def test_tabbyapi_reads_no_reserve_with_one_card() -> None:
    """`if gpu_count == 1`: neither gpu_split nor autosplit_reserve."""
    plan = with_options({**DENSE, "device": "rtx-4090"}, autosplit_reserve="2048", release="1.4.9")
    assert lines(plan)["kept free by a load"] == 96 * MIB
    assert "autosplit_reserve: TabbyAPI reads none with one card" in plan.model.notes


def test_a_drafter_is_loaded_first() -> None:
    """Before the model, onto the first card, or where draft_gpu_split says."""
    for options, rank in (({}, 0), ({"gpu_split": "6,6", "draft_gpu_split": "0,3"}, 1)):
        plan = with_options({**DRAFTED, "n_devices": 2}, **options)
        assert [any("drafter" in name for name in lines(plan, n)) for n in (0, 1)] == [rank == 0, rank == 1]
    assert "Insufficient VRAM" in with_options(DRAFTED, gpu_split="20", draft_gpu_split="0.1").outcome.reason


def test_what_was_loaded_before_by_release() -> None:
    """A reserve is of what is free then and was set against all that is allocated: up to 1.4.2 the drafter counts twice; gpu_split is of
    each load up to 0.0.29 and from 1.4.5 on, of all of the process in between."""
    before, after = (with_options(DRAFTED, release=release) for release in ("1.4.2", "1.4.5"))
    drafter = sum(n for name, n in lines(before).items() if "drafter" in name)
    assert drafter > 0.5 * GIB
    assert lines(before)["counted twice by a load"] == drafter
    assert "counted twice by a load" not in lines(after)
    of_all, of_each = (with_options(DRAFTED, release=release, gpu_split="12").outcome.margin_bytes for release in ("1.4.2", "1.4.5"))
    assert of_each - of_all == drafter


def test_the_last_experts_of_each_layer_in_host_memory() -> None:
    """moe_cpu_split: the last 416 of 512; all of them: none up to 1.4.9, from 1.5.0 on all but one."""
    expert = 48 * 3 * 640 * 2560 * 405 / 100 / 8
    for release, asked, beside in (("1.5.1", 416, 416), ("1.4.9", 512, 0), ("1.5.0", 600, 511)):
        plan = with_options(EXPERTS, cpu_moe_split_experts=str(asked), release=release)
        host = {line.name: line.bytes for line in plan.outcome.host}
        assert host.get("weights: experts", 0) == pytest.approx(beside * expert, rel=0.002)
        on_cards = sum(lines(plan, rank)["weights: experts"] for rank in (0, 1))
        assert on_cards == pytest.approx((512 - beside) * expert, rel=0.002)


def test_options_of_a_load_by_release() -> None:
    for release, option, since in (("1.4.2", "cpu_moe_split_experts", "1.4.5"), ("1.1.0", "cpu_moe_offload_layers", "1.2.0"),
                                   ("1.4.2", "ngram_ram", "1.4.5"), ("1.4.2", "vision_offload", "1.4.5")):  # fmt: skip
        with pytest.raises(SpecError, match=f"{option}: exllamav3 {release} has no such option; it is there from {since} on"):
            ask(LLAMA, context=256, engine_version=release, **{option: 1})
    with pytest.raises(SpecError, match="mutually exclusive"):
        with_options(EXPERTS, cpu_moe_split_experts="8", cpu_moe_offload_layers="8")
    tensor_parallel = {key: value for key, value in EXPERTS.items() if key != "n_devices"} | {"tp": 2}
    assert "layer-split" in with_options(tensor_parallel, cpu_moe_split_experts="8").outcome.reason


def test_a_model_without_experts_has_none_in_host_memory() -> None:
    plan = with_options({**DENSE, "device": "rtx-4090"}, cpu_moe_split_experts="8")
    assert "rings for experts from the CPU" not in lines(plan)
    assert "experts on the CPU: the model has none" in plan.model.notes


def test_a_table_of_n_grams_in_host_memory() -> None:
    """words_per_row: rows of K x 160 / 16 + 1 words of 16 bits, K the file's bits rounded; 1 to 8 bits with --ngram_bits."""
    plan = with_options(EXPERTS, ngram_ram="true")
    (line,) = [line for line in plan.outcome.host if "n-grams" in line.name]
    rows = 128 * 2_500_012
    assert (line.low, line.bytes, line.high) == (rows * 22, rows * 82, rows * 162)
    assert not any("n-grams" in line.name for line in with_options(EXPERTS).outcome.host)


def test_a_tower_in_host_memory() -> None:
    asked = {**DENSE, "model": "google/gemma-3-27b-it", "device": "rtx-4090", "multimodal": "on"}
    on, off = with_options(asked), with_options(asked, vision_offload="true")
    (tower,) = [line.bytes for line in off.outcome.host if line.name == "weights: tower"]
    assert lines(on)["weights: tower"] == tower
    assert "weights: tower" not in lines(off)


@pytest.mark.parametrize(("mode", "row"), [("FP16", 4096), ("Q8", 2176), ("Q6", 1664), ("6,6", 1664), ("8, 4", 1664), ("4", 1152)])
def test_cache_modes(mode: str, row: int) -> None:
    """(bits + 0.5) / 8 bytes of each of 2 x 1,024 elements."""
    assert held(LLAMA, context=256, cache_mode=mode) == 256 * row


@pytest.mark.parametrize("mode", ["nvfp4", "fp8", "9,4", "Q5"])
def test_modes_that_it_does_not_have(mode: str) -> None:
    with pytest.raises(SpecError, match="write FP16, Q8, Q6, Q4"):
        ask(LLAMA, context=256, cache_mode=mode)


@pytest.mark.parametrize(("options", "bits"), [
    ({}, 16), ({"cache_mode": "8,8"}, 16), ({"k_bits": "8"}, 8.5), ({"cache_mode": "4,4", "draft_cache_mode": "Q8"}, 8.5),
    ({"k_bits": "4", "draft_cache_mode": "FP16"}, 16),
])  # fmt: skip
def test_the_drafters_cache(options: dict[str, str], bits: float) -> None:
    """TabbyAPI's draft_cache_mode is FP16 where nothing is said; a script has one for both. Qwen3-0.6B: 28 layers of 2 x 8 x 128."""
    cache = sum(n for name, n in lines(with_options(DRAFTED, **options)).items() if name.startswith("cache: drafter"))
    assert cache == 8192 * 28 * 2 * 8 * 128 * bits / 8


def test_sizes_by_tabbyapis_names() -> None:
    assert held(LLAMA, max_seq_len=2048) == held(LLAMA, max_seq_len=1024, cache_size=2048) == 2048 * 4096
    short = ask(LLAMA, context=2000, max_seq_len=1024, cache_size=2048, device=sized(1 << 30))
    assert (short.fits, short.reason) == (False, "2,000 tokens are more than the 1,024 of max_seq_len")
    chunked = with_options(DENSE, chunk_size="1000")
    assert chunked.question["max_num_batched_tokens"][0] == 1024
    for more in ({"cache_size": 2048, "cache_tokens": 4096}, {"chunk_size": 1024, "max_num_batched_tokens": 2048}):
        with pytest.raises(SpecError, match="different values"):
            ask(LLAMA, context=256, **more)


def test_splits_that_are_none() -> None:
    for options, says in (
        ({"gpu_split": "8,8,8"}, "3 cards above 0"),
        ({"gpu_split": "a"}, "a number for each card"),
        ({"gpu_split": "0,0"}, "no card"),
        ({"gpu_split": "8,8", "draft_gpu_split": "0,0,3"}, "none of the model's"),
    ):
        with pytest.raises(SpecError, match=says):
            with_options({**DENSE, "device": "rtx-4090", "n_devices": 2}, **options)
    with pytest.raises(UnsupportedError, match="tensor parallelism"):
        with_options({**DENSE, "device": "rtx-4090", "tp": 2}, gpu_split="8,8")


@pytest.mark.parametrize(("options", "most"), [({}, 390_922_240), ({"cpu_moe_split_experts": "64"}, 450_972_672)])
def test_what_a_load_sets_aside_for_experts(options: dict[str, str], most: int) -> None:
    """_autosplit_worst_case of 1.5.0 for 2,048 tokens and 8 of 128 experts of 3 x 768 x 2,048. On the card: results and slots in f32 for
    each of 16,384 assignments and a tenth, the output, 172,818,432 bytes, and a group of 16 experts' matrices in f16 with 16,384 rows,
    218,103,808. Split, with a quarter of the assignments on the card: 62,087,168 of it, 59,650,048 and a group of 329,235,456 of the rest.
    Beside it 10 bytes of each token's 2,048 elements. What the CPU has of an expert leaves its signs: 3 x (768 + 2,048) x 2 bytes."""
    asked = {**DENSE, "model": "qwen/qwen3-30b-a3b", "device": "rtx-5090"}
    of = lines(with_options(asked, release="1.5.0", **options))
    assert of["activations of a chunk"] == most + 2048 * 2048 * 10
    assert of.get("weights: other", 0) == (64 * 48 * 3 * 2816 * 2 if options else 0)
    assert of.get("rings for experts from the CPU", 0) == (64 * MIB if options else 0)
    assert lines(with_options(asked, release="1.4.9", **options))["activations of a chunk"] != most + 2048 * 2048 * 10
