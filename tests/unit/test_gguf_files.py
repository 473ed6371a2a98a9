"""How large published GGUF files are, against sizes that are not behind the lines of gguf_files.tsv."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.gguf_files import _lines

#: GiB of Qwen3.6 27B's files, to three digits: the model card of sokann/Qwen3.6-27B-GGUF-4.256bpw ("Size (GiB)").
CARD = {"ud_q3_k_xl": (13.469, 13.469), "q3_k_m": (13.370, 13.370), "iq4_xs": (14.036, 14.369)}
#: Bytes of files that programs carry in lists of downloads: unsloth's Qwen3-Coder-30B-A3B (aflin/rampart-langtools), Qwen3.5 9B's.
BYTES = {
    ("qwen/qwen3-coder-30b-a3b", "ud_q3_k_xl"): 13_806_312_608,
    ("qwen/qwen3-coder-30b-a3b", "ud_q4_k_xl"): 17_665_334_432,
    ("qwen/qwen3-coder-30b-a3b", "ud_q5_k_xl"): 21_740_305_568,
    ("qwen/qwen3-coder-30b-a3b", "ud_q6_k_xl"): 26_340_328_608,
    ("Qwen/Qwen3.5-9B", "q4_k_m"): 5_680_522_464,
    ("Qwen/Qwen3.5-9B", "ud_q4_k_xl"): 5_966_095_584,
}


def interval(model: str, kind: str) -> tuple[float, float, float]:
    """Low end, estimate and high end of the weights without towers, in bytes."""
    plan = kvplan.estimate(model, engine="ideal", context=1, weight_dtype=kind)
    lines = [entry for entry in plan.ledgers[0].entries if entry.name.startswith("weights") and "tower" not in entry.name]
    return sum(entry.low for entry in lines), sum(entry.bytes for entry in lines), sum(entry.high for entry in lines)


@pytest.mark.parametrize(("kind", "sizes"), CARD.items())
def test_files_of_a_model_card(kind: str, sizes: tuple[float, float]) -> None:
    low, _, high = interval("Qwen/Qwen3.6-27B", kind)
    assert low < sizes[0] * 2**30 <= sizes[1] * 2**30 < high
    assert (high - low) / low < (0.3 if kind.startswith("ud") else 0.21)


@pytest.mark.parametrize(("asked", "size"), BYTES.items())
def test_files_to_the_byte(asked: tuple[str, str], size: int) -> None:
    """An estimate within 1.5 % of files in unsloth's types that are known by three digits, and of a file by the rule."""
    low, estimate, high = interval(*asked)
    assert low < size < high
    assert estimate == pytest.approx(size, rel=0.015)


def test_a_type_of_which_no_file_is_known_is_wider() -> None:
    """unsloth's dynamic types of a model that no list has: of Llama 3.1 8B none is in the table."""
    low, _, high = interval("meta-llama/llama-3.1-8b", "ud_q4_k_xl")
    assert (high - low) / low > 0.15
    low, _, high = interval("meta-llama/llama-3.1-8b", "q4_k_m")  # 4.58 GiB by llama.cpp's own README
    assert low < 4.58 * 2**30 < high
    assert (high - low) / low < 0.05


def test_lines_have_ends_in_order() -> None:
    assert len(_lines()) > 1500
    for low, high, files in _lines().values():
        assert 0 < low <= high
        assert files > 0
