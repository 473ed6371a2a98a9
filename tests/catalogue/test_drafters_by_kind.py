"""Drafters in the catalogue, counted by kind; sizes that were published of some."""

from __future__ import annotations

from collections import Counter

import pytest

from kvplan.catalogue import find_model, model_ids
from tests.conftest import planned

#: Class that a drafter is loaded as -> its kind.
KINDS = {
    "LlamaForCausalLMEagle": "EAGLE", "LlamaForCausalLMEagle3": "EAGLE-3", "DFlashDraftModel": "DFlash", "Qwen3DSparkModel": "DSpark",
    "DSparkDraftModel": "DSpark", "K3DSparkModel": "DSpark", "DFlash2DraftModel": "DFlash", "DFlashLagunaForCausalLM": "DFlash",
    "Gemma4AssistantForCausalLM": "MTP", "Gemma4UnifiedAssistantForCausalLM": "MTP",
}  # fmt: skip


def test_heads_and_drafters_with_files_of_their_own() -> None:
    found = Counter(KINDS[name] for name in (find_model(i).architecture or "" for i in model_ids()) if name in KINDS)
    assert found >= Counter({"EAGLE": 2, "EAGLE-3": 13, "DFlash": 8, "DSpark": 6, "MTP": 5})
    assert found.total() >= 34


def test_models_that_ship_draft_modules() -> None:
    assert sum(find_model(i).mtp is not None for i in model_ids()) >= 40


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # headers of its file as quoted in public: 64 tensors, "~2.371B parameters, ~4.74 GB"; written out from its table of shapes
        (
            "deepseek-ai/dspark_qwen3_8b_block7",
            2 * 151936 * 4096 + 4096 + 4096 * 20480 + 4096 + 2 * 151936 * 256 + 4352 + 1
            + 5 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 2 * 128 + 3 * 12288 * 4096 + 2 * 4096),
        ),
        # "z-lab/Qwen3.5-122B-A10B-DFlash (1.5GB)": the layers, the final norm, eight hidden states into one
        (
            "z-lab/Qwen3.5-122B-A10B-DFlash",
            6 * (2 * 3072 * 4096 + 2 * 3072 * 1024 + 2 * 128 + 3 * 3072 * 9216 + 2 * 3072) + 3072 + 3072 * 8 * 3072 + 3072,
        ),
        # bytes that a loader demands of the file beside the embedding, which is Kimi K3's (gavamedia/deltafin dspark_checkpoint.rs)
        ("Inferact/Kimi-K3-DSpark", 4_775_815_682 // 2 + 163_840 * 7168),
        # the header of its file: 69 tensors (shisa-ai/hipEngine docs/LAGUNA.md)
        ("poolside/Laguna-S-2.1-DFlash", 1_114_977_792),
        ("poolside/Laguna-S-2.1-DFlash-NVFP4", 1_114_977_792),
    ],
)  # fmt: skip
def test_sizes_of_published_drafters(name: str, parameters: int) -> None:
    plan = planned(name, engine="ideal", context=1024)
    assert plan.model.parameters == parameters


@pytest.mark.parametrize(
    ("name", "n_bytes", "off"),
    [
        ("Inferact/MiniMax-M3-EAGLE3-GQA", 6_149_993_396, 1e-5),  # the file, its header and tables beside it
        ("Inferact/MiniMax-M3-EAGLE3", 6.53e9, 1e-3),
        ("RadixArk/Inkling-Small-DSpark-Preview", 1.80e9, 1e-3),
        ("google/gemma-4-12B-it-assistant", 806.5 * 2**20, 1e-3),
        ("google/gemma-4-26B-A4B-it-assistant", 840e6, 1e-3),
        ("google/gemma-4-31B-it-assistant", 940e6, 2e-3),
        ("google/gemma-4-E4B-it-assistant", 2 * 78.8e6, 1e-3),  # its table of words counted
        ("google/gemma-4-E2B-it-assistant", 2 * 78.0e6, 1e-3),
    ],
)
def test_files_of_published_drafters(name: str, n_bytes: float, off: float) -> None:
    plan = planned(name, engine="ideal", context=1024)
    assert plan.model.weight_bytes == pytest.approx(n_bytes, rel=off)


def test_mimo_v2_ships_three_modules() -> None:
    """The Hub's 1,023,182,841,600 of MiMo-V2.5-Pro: its layers, 69 x 384 biases of routers, three modules. vLLM loads the first alone."""
    plan = planned("XiaomiMiMo/MiMo-V2.5-Pro", engine="ideal", context=1024)
    assert plan.model.parameters + 69 * 384 + plan.model.mtp_parameters == 1_023_182_841_600
    one = 6144 * (128 * 192 + 8 * 192 + 8 * 128) + 128 * 128 * 6144 + 128 + 3 * 6144 * 16384 + 2 * 6144 * 6144 + 5 * 6144
    assert plan.model.mtp_parameters == 3 * one
