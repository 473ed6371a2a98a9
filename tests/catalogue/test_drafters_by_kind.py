"""Drafters in the catalogue, counted by kind; sizes that were published of some."""

from __future__ import annotations

from collections import Counter

import pytest

from kvplan.catalogue import find_model, model_ids
from tests.conftest import planned

#: Class that a drafter is loaded as -> its kind.
KINDS = {
    "LlamaForCausalLMEagle": "EAGLE", "LlamaForCausalLMEagle3": "EAGLE-3", "DFlashDraftModel": "DFlash", "Qwen3DSparkModel": "DSpark",
}  # fmt: skip


def test_heads_and_drafters_with_files_of_their_own() -> None:
    found = Counter(KINDS[name] for name in (find_model(i).architecture or "" for i in model_ids()) if name in KINDS)
    assert found >= Counter({"EAGLE": 2, "EAGLE-3": 11, "DFlash": 6, "DSpark": 3})
    assert found.total() >= 22


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
    ],
)  # fmt: skip
def test_sizes_of_published_drafters(name: str, parameters: int) -> None:
    plan = planned(name, engine="ideal", context=1024)
    assert plan.model.parameters == parameters
