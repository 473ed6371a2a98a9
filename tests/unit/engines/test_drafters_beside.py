"""Drafters that an engine finds by itself or loads in part: Gemma 4's file in llama.cpp, MiMo-V2's modules in vLLM and SGLang."""

from __future__ import annotations

import pytest

from tests.conftest import planned


def _held(speculative: str | None, context: int) -> int:
    asked = {"engine_version": "b10200", "device": "rtx-4090", "weight_dtype": "ud_q4_k_xl", "max_num_seqs": 1, "n_gpu_layers": 999}
    options = {"multimodal": "off", "engine_option": {"flash_attn": "on"}, "speculative": speculative, "context": context}
    plan = planned("unsloth/gemma-4-12b-it-GGUF", engine="llama.cpp", **asked, **options)
    return sum(entry["bytes"] for entry in plan.as_dict()["ledgers"][0]["entries"])


@pytest.mark.parametrize(("context", "mib"), [(32_768, 580), (131_072, 868), (262_144, 1252)])
def test_what_gemma_4s_drafter_adds_in_llama_cpp(context: int, mib: int) -> None:
    """unslothai/unsloth#6719: what a start with `draft-mtp` holds more than one without, of Gemma 4 12B."""
    more = _held("mtp:4", context) - _held(None, context)
    assert more / 2**20 == pytest.approx(mib, abs=12)


def test_the_file_beside_it_is_said() -> None:
    plan = planned("unsloth/gemma-4-12b-it-GGUF:UD-Q4_K_XL", engine="llama.cpp", device="rtx-4090", context=8192, speculative="mtp:4")
    assert any("gemma-4-12b-assistant in q8_0" in note for note in plan.model.notes)


@pytest.mark.parametrize(("engine", "version", "said", "modules"), [
    ("vllm", "0.26", "mtp:1", 1), ("vllm", "0.26", "mtp:3", 1),  # models/mimo_v2_mtp.py: the first alone
    ("sglang", "0.5.17", "eagle:1", 1), ("sglang", "0.5.17", "eagle:3", 3),  # a runner for each step
])  # fmt: skip
def test_modules_of_mimo_v2_that_are_loaded(engine: str, version: str, said: str, modules: int) -> None:
    """eh_proj [4096, 8192] in bf16, whole on every rank."""
    asked = {"device": "h200", "n_devices": 8, "tp": 8, "context": 4096, "max_num_seqs": 8, "speculative": said}
    plan = planned("XiaomiMiMo/MiMo-V2-Flash", engine=engine, engine_version=version, **asked).as_dict()
    other = {entry["name"]: entry["bytes"] for entry in plan["ledgers"][0]["entries"]}["weights: drafter other"]
    assert other == modules * 2 * 4096 * 8192
