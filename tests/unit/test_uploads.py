"""What uploads of a format keep in 16 bits, where only the format is named: against the sizes of published uploads.

The Hub counts elements by type (as llmfit 1.1.17 lists them, `parameters_raw`), packed integers unpacked and two FP4 as one. An upload of
`total` elements of a model of BASE has thereby packed, of x elements: NVFP4 BASE - total = x (1 - 1/2 - 1/16); MXFP4 x (1 - 1/2 - 1/32);
integers in groups of g, with one 16-bit scale, total - BASE = x / g. Its bytes follow: 2 for each that is not packed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvplan import Plan
from kvplan.ledger import Entry
from tests.conftest import planned

BASE = 27_356_728_560  # Qwen3.5 27B without its draft module
DRAFT = 424_699_392  # its draft module: 27,781,427,952 - BASE, the Hub's count of Qwen/Qwen3.5-27B
MLP = 64 * 3 * 5120 * 17408
GIB = 1 << 30


def asked(model: str, weight_dtype: str, **question: Any) -> tuple[Plan, list[Entry]]:
    plan = planned(model, engine="ideal", context=1024, weight_dtype=weight_dtype, **question)
    return plan, [entry for entry in plan.ledgers[0].entries if entry.name.startswith("weights")]


def ends(lines: list[Entry]) -> tuple[int, int]:
    return sum(entry.low for entry in lines), sum(entry.high for entry in lines)


#: Upload, format asked for, packed elements, bytes of a packed element with its scales.
UPLOADS = [
    ("apolo13x/Qwen3.5-27B-NVFP4: all packed", "nvfp4", Fraction(BASE - 16_713_682_960) / Fraction(7, 16), Fraction(9, 16)),
    ("vrfai/Qwen3.6-27B-NVFP4: Gated DeltaNet kept", "nvfp4", Fraction(BASE - 19_135_893_232) / Fraction(7, 16), Fraction(9, 16)),
    ("mmangkad/Qwen3.6-27B-NVFP4: mlp alone", "nvfp4", Fraction(BASE + DRAFT - 20_294_595_312) / Fraction(7, 16), Fraction(9, 16)),
    ("prithivMLmods/Qwen3.6-27B-MXFP4: Gated DeltaNet kept", "mxfp4", Fraction(BASE - 18_548_690_160) / Fraction(15, 32), Fraction(17, 32)),
    ("apolo13x/Qwen3.5-27B-quantized.w4a16: all packed", "int4", Fraction(27_546_783_760 - BASE) * 128, Fraction(4 * 128 + 16, 128 * 8)),
    ("apolo13x/Qwen3.5-27B-quantized.w4a16", "w4a16", Fraction(27_546_783_760 - BASE) * 128, Fraction(4 * 128 + 16, 128 * 8)),
    ("cyankiwi/Qwen3.5-27B-AWQ-BF16-INT4: Gated DeltaNet kept, draft packed (372 million)", "awq",
     Fraction(28_380_263_678 - BASE - DRAFT) * 32 - 5120 * (14336 + 6144) - 3 * 5120 * 17408, Fraction(4 * 32 + 16, 32 * 8)),
    ("Qwen/Qwen3.5-27B-GPTQ-Int4: its `dynamic` leaves out every `attn`", "gptq", Fraction(MLP), Fraction(4 * 128 + 20, 128 * 8)),
]  # fmt: skip


@pytest.mark.parametrize(("upload", "name", "packed", "each"), UPLOADS, ids=[row[0].split(":")[0] + " " + row[1] for row in UPLOADS])
def test_the_interval_holds_what_uploads_of_a_hybrid_weigh(upload: str, name: str, packed: Fraction, each: Fraction) -> None:
    low, high = ends(asked("qwen/qwen3.5-27b", name)[1])
    assert low <= 2 * (BASE - packed) + packed * each <= high, upload


@pytest.mark.parametrize(("logged", "multimodal"), [(19.77, "on"), (17.71, "on")])
def test_the_interval_holds_what_engines_logged(logged: float, multimodal: str) -> None:
    """vLLM 0.19.1 of QuantTrio's AWQ of a fine-tune, SGLang 0.5.18 of an AWQ with its tower, both in GiB."""
    low, high = ends(asked("qwen/qwen3.5-27b", "awq", multimodal=multimodal)[1])
    assert low <= logged * GIB <= high


def test_the_estimate_is_where_most_uploads_are() -> None:
    """Of 18 uploads in 4-bit integers whose counts tell it, 11 pack the mixers; LibertAIDAI/Qwen3.6-27B-W4A16-G128 lists what it packs."""
    packed = MLP + 16 * 5120 * (14336 + 6144) + 48 * 5120 * (16384 + 6144)
    point = sum(entry.bytes for entry in asked("qwen/qwen3.5-27b", "int4_g128")[1])
    assert point == pytest.approx(2 * (BASE - packed) + packed * Fraction(33, 64), rel=0.003)  # the gates of two sides, 0.02e9


@pytest.mark.parametrize(
    ("model", "name", "either"),
    [
        ("qwen/qwen3.5-27b", "awq", True),
        ("tiiuae/falcon-h1-7b", "w4a16", True),
        ("qwen/qwen3.5-27b", "w8a16", True),
        ("qwen/qwen3.5-27b", "fp8_block128", False),  # of 12 releases by their counts none keeps a mixer
        ("qwen/qwen3.5-27b", "bitsandbytes", False),  # packed on loading
        ("qwen/qwen3-32b", "awq", False),
    ],
)
def test_only_where_uploads_differ(model: str, name: str, either: bool) -> None:
    plan, lines = asked(model, name)
    attention = next(entry for entry in lines if entry.name == "weights: attention")
    assert ("some checkpoints store it in bf16" in attention.source) is either
    assert any("differ in whether they pack attention" in note for note in plan.model.notes) is either


@pytest.mark.parametrize("name", ["awq", "nvfp4"])
def test_a_draft_module_stays_in_16_bits(name: str) -> None:
    """bowmanslayer/Qwen3.6-27B-Text-Only-W4A16-g128-MTP: 849 MB more."""
    _, lines = asked("qwen/qwen3.5-27b", name, speculative="mtp:1")
    draft = [entry for entry in lines if "drafter" in entry.name]
    assert sum(entry.bytes for entry in draft) == 2 * DRAFT
    assert ends(draft)[0] < DRAFT  # cyankiwi packs it


def test_a_draft_module_is_packed_in_fp8() -> None:
    """Qwen/Qwen3.5-27B-FP8 has 426,206,912 elements beyond BASE: the draft's and a scale for each 128 x 128 of all matrices, the draft's
    among them."""
    _, lines = asked("qwen/qwen3.5-27b", "fp8_block128", speculative="mtp:1")
    assert 0 < sum(entry.bytes for entry in lines if "drafter" in entry.name) < 1.3 * DRAFT


def test_a_config_that_lists_what_it_packs_has_no_such_interval() -> None:
    """The same model with Qwen's own list: nothing is either."""
    plan = planned("nvidia/qwen3.6-27b-nvfp4", engine="ideal", context=1024)
    assert not any("differ in whether" in note for note in plan.model.notes)
    lines = [entry for entry in plan.ledgers[0].entries if entry.name.startswith("weights")]
    low, high = ends(lines)
    assert high - low < 0.08 * sum(entry.bytes for entry in lines)


def test_an_upload_of_which_only_the_format_is_known_decides_nothing_near_the_limit() -> None:
    """A 24 GB card on which the logged upload (19.77 GiB) had room for 2,352 of 4,096 tokens."""
    plan = planned(
        "qwen/qwen3.5-27b", weight_dtype="awq", engine="vllm", engine_version="0.19.1", device="rtx-4090", dtype="fp16",
        memory_fraction=0.92, max_model_len=4096, max_num_seqs=4, max_num_batched_tokens=2112, multimodal="off", batch=1,
    )  # fmt: skip
    assert (plan.outcome.start_certainty or plan.certainty) == "too close to call"


def test_an_upload_of_which_only_the_name_is_known_is_told_what_is_exact() -> None:
    """QuantTrio's AWQ: its geometry is known by a table, its config is not here."""
    plan = planned("QuantTrio/Qwen3.5-27B-AWQ", engine="ideal", context=1024)
    (note,) = (one for one in plan.model.notes if "differ in whether" in one)
    assert note.startswith("uploads in awq differ")
    assert "its folder or config.json as the model" in note
