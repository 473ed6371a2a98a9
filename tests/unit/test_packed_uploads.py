"""Uploads of which it is known what they pack: bytes by hand from the Hub's count of elements, and what engines logged as loaded."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan import packed
from kvplan.catalogue import find_model
from kvplan.dtypes import canonical_weight
from tests.conftest import planned

BASE = 27_356_728_560  # elements of Qwen3.5 27B without its draft module, its tower in: the Hub's count
GIB = 1 << 30


def weights(name: str, **question: object) -> tuple[int, int, int]:
    """Bytes of the weights on a rank, and the ends of their interval."""
    lines = [one for one in planned(name, context=1024, **question).ledgers[0].entries if one.kind == "weights"]
    lines = [one for one in lines if "rotary" not in one.name]
    return sum(one.bytes for one in lines), sum(one.low for one in lines), sum(one.high for one in lines)


@pytest.mark.parametrize(
    ("name", "packed_elements", "each"),
    [
        ("apolo13x/Qwen3.5-27B-NVFP4", Fraction(BASE - 16_713_682_960) / Fraction(7, 16), Fraction(9, 16)),
        ("vrfai/Qwen3.6-27B-NVFP4", Fraction(BASE - 19_135_893_232) / Fraction(7, 16), Fraction(9, 16)),
        ("apolo13x/Qwen3.5-27B-quantized.w4a16", Fraction(27_546_783_760 - BASE) * 128, Fraction(4 * 128 + 16, 128 * 8)),
    ],
)
def test_bytes_follow_from_the_hubs_count(name: str, packed_elements: Fraction, each: Fraction) -> None:
    """Of x packed elements NVFP4 shows x (1/2 + 1/16), W4A16 in groups of 128 x (1 + 1/128); each other element takes 2 bytes."""
    expected = 2 * (BASE - packed_elements) + packed_elements * each
    ours, low, high = weights(name, engine="ideal")
    assert abs(ours / float(expected) - 1) < 0.001
    assert high - low < 0.08 * ours


@pytest.mark.parametrize(
    ("name", "question", "logged"),
    [
        # what vLLM logged after loading; none of these is behind the line of packed.tsv (tests/threads has their sources)
        ("unsloth/Qwen3.8-27B-NVFP4", {}, 21.34),
        ("unsloth/Qwen3.8-27B-NVFP4", {"speculative": "mtp:3"}, 22.13),
        ("Qwen/Qwen3.8-27B-FP8", {}, 28.51),
        ("Qwen/Qwen3.8-27B-FP8", {"tp": 2}, 14.28),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", {"tp": 4}, 55.22),
        ("Sehyo/Qwen3.5-122B-A10B-NVFP4", {"speculative": "mtp:1"}, 75.17),
        ("cyankiwi/Qwen3.8-27B-AWQ-INT4", {"multimodal": "off"}, 18.37),
    ],
)
def test_engines_loaded_what_is_counted(name: str, question: dict[str, object], logged: float) -> None:
    ours, low, high = weights(name, engine="vllm", device="b200", **question)
    assert low <= logged * GIB <= high
    assert abs(ours / (logged * GIB) - 1) < 0.025


def test_what_is_packed_of_unsloths_file_is_what_it_weighs() -> None:
    """23.42 GB of tensors, draft module and tower in, as a benchmark of that file measured (docs/weights.md)."""
    spec = find_model("unsloth/Qwen3.8-27B-NVFP4")
    assert [(one.format, one.roles) for one in spec.quantization] == [("fp8_channel", ("attention", "head")), ("nvfp4", ("mlp",))]
    assert weights("unsloth/Qwen3.8-27B-NVFP4", engine="vllm", device="b200", speculative="mtp:3")[0] == pytest.approx(23.42e9, rel=0.005)


def test_the_newest_file_of_an_upload_weighs_what_its_users_say() -> None:
    """18.8 GB at its commit 0cc2795 (skrodahl/qwen38-27B-dual-rtx5060), with tower and draft module; 20.6 before its head was packed."""
    ours = weights("gittensor-model-hub/Qwen3.8-27B-NVFP4-RTX5090", engine="vllm", device="b200", speculative="mtp:3")[0]
    assert ours == pytest.approx(18.8e9, rel=0.01)


def test_every_line_is_of_a_known_name_and_known_formats() -> None:
    assert len(packed._lines()) > 150
    for name, (parts, evidence) in packed._lines().items():
        assert evidence in packed.EVIDENCE
        assert all(canonical_weight(each.partition(": ")[0]) for each in parts.split("; "))
        assert find_model(name).quantization, name


def test_what_a_hf_quant_config_packs() -> None:
    """nvidia--MiniMax-M3-NVFP4_hf_quant_config.json of ai-dynamo/aiconfigurator (095f58a): the experts in NVFP4, the layers' other matrices
    in MXFP8 (33/32)."""
    experts, others = 57 * 128 * 3 * 6144 * 3072, 3 * 3 * 6144 * 12_288 + 57 * 3 * 6144 * 3072 + 60 * 6144 * 128 * (64 + 4 + 4 + 64)
    ours = planned("nvidia/MiniMax-M3-NVFP4", engine="ideal", context=1024).model.weight_bytes
    plain = 2 * (2 * 200_064 * 6144 + 57 * 6144 * (128 + 2 * 4 * 128) + 865_567_232)  # embeddings, routers, indexers, towers
    assert abs(ours / (experts * 9 / 16 + others * 33 / 32 + plain) - 1) < 0.002


def test_pruned_uploads_have_the_sizes_of_their_cards() -> None:
    """80 of 160 experts make 246B; 154 of 256 in NVFP4 make 75 GB on disk, which their cards say; counted here by hand."""
    each = 62 * (6144 * 128 * (2 * 96 + 2 * 8) + 80 * 3 * 6144 * 2560 + 80 * 6144) + 2 * 151_936 * 6144
    coder = planned("cerebras/Qwen3-Coder-REAP-246B-A35B-FP8", engine="ideal", context=1024)
    assert 0 <= coder.model.parameters - each < 2_000_000  # norms
    assert coder.cache.bytes_per_token == 62 * 2 * 8 * 128 * 2
    packed_elements = 62 * (3072 * 128 * (2 * 48 + 2 * 8) + 154 * 3 * 3072 * 1536)
    small = planned("saricles/MiniMax-M2.5-REAP-139B-A10B-NVFP4-GB10", engine="ideal", context=1024).model.weight_bytes
    assert abs(small / (packed_elements * 9 / 16 + 2 * 2 * 200_064 * 3072 + 2 * 62 * 154 * 3072) - 1) < 0.001
    assert abs(small / (75 * GIB) - 1) < 0.01
