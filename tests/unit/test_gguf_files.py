"""How large published GGUF files are, against sizes that are not behind the lines of gguf_files.tsv."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.gguf_files import _lines, own_name
from kvplan.rows import rows
from tests.conftest import planned

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
    plan = planned(model, engine="ideal", context=1, weight_dtype=kind)
    lines = [entry for entry in plan.ledgers[0].entries if entry.name.startswith("weights") and "tower" not in entry.name]
    return sum(entry.low for entry in lines), sum(entry.bytes for entry in lines), sum(entry.high for entry in lines)


@pytest.mark.parametrize(("kind", "sizes"), CARD.items())
def test_files_of_a_model_card(kind: str, sizes: tuple[float, float]) -> None:
    low, _, high = interval("Qwen/Qwen3.6-27B", kind)
    assert low < sizes[0] * 2**30 <= sizes[1] * 2**30 < high
    assert (high - low) / low < (0.25 if kind.startswith("ud") else 0.11)


#: Bytes of Qwen3.8 27B's files, draft module in (424,699,392 parameters): unsloth's as the Hub listed them on 2026-09-08, and before they
#: were made anew, as ModelScope did on 2026-08-16; bartowski's; and of a fine-tune (ukisai/Swift-Qwen3.8-27B-GGUF).
OF_QWEN_38 = {
    "ud_q4_k_xl": (17_559_178_144, 17_923_394_624), "ud_q5_k_xl": (20_876_938_144, 20_218_178_624), "ud_iq1_m": (6_729_166_848,),
    "ud_q6_k_m": (23_088_409_504,), "ud_q8_k_l": (28_045_695_904,), "q4_k_m": (17_106_775_008, 17_772_537_440),
    "iq4_xs": (15_705_861_088, 15_567_824_480, 15_688_288_352),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "files"), OF_QWEN_38.items())
def test_files_of_a_model_that_shares_its_shapes_with_others(kind: str, files: tuple[int, ...]) -> None:
    """The draft module takes what a whole file does for each parameter (27,320,697,856 of them, by the Hub), a little less in 1 bit."""
    low, _, high = interval("Qwen/Qwen3.8-27B", kind)
    for n_bytes in files:
        assert low < n_bytes * 26_895_998_464 / 27_320_697_856 < high
    assert (high - low) / low < (0.25 if kind == "ud_iq1_m" else 0.1)


def test_parts_of_a_file_add_up() -> None:
    """MiniMax-M2.7 in UD-IQ4_XS: four parts of a public download script. The rule's bytes are 14 % above."""
    low, estimate, high = interval("MiniMaxAI/MiniMax-M2.7", "ud_iq4_xs")
    assert low < 8_237_824 + 49_638_761_280 + 49_598_675_552 + 9_168_106_656 < high
    assert estimate == pytest.approx(108_413_781_312, rel=0.001)


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


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("unsloth/Qwen3.6-27B-MTP-GGUF:UD-Q4_K_XL", "qwen3.6-27b"), ("qwen/qwen3.6-27b", "qwen3.6-27b"),
        ("bartowski/Qwen_Qwen3.6-27B-GGUF", "qwen3.6-27b"),
        ("unsloth/Llama-3_3-Nemotron-Super-49B-v1-GGUF", "llama-3_3-nemotron-super-49b-v1"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"), ("llama3.1:8b-instruct-q4_K_M", "llama3.1"),
    ],
)  # fmt: skip
def test_a_model_by_the_names_of_its_uploads(name: str, own: str) -> None:
    assert own_name(name) == own


def test_the_table_of_what_was_seen_elsewhere() -> None:
    for upload, kind, n_bytes, holds, source in rows(Path(__file__).parents[2] / "tools" / "gguf_seen.tsv"):
        assert upload.count("/") == 1
        assert kind.isupper()
        assert int(n_bytes) > 10**9
        assert holds in ("", "draft")
        assert source


def test_lines_have_ends_in_order() -> None:
    assert len(_lines()) > 1500
    for low, high, files in _lines().values():
        assert 0 < low <= high
        assert files > 0
