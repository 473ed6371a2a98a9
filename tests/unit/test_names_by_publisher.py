"""Names whose publisher says what is in them: makers' own formats, mirrors, tuned models, publishers and repositories since renamed."""

from __future__ import annotations

import pytest

from kvplan import catalogue
from kvplan.errors import UnknownName
from tests.conftest import planned


@pytest.mark.parametrize(
    ("written", "checkpoint", "length", "of"),
    [
        ("Qwen/Qwen3-8B-GPTQ-Int4", "gptq_any", 40_960, "qwen/qwen3-8b"),
        ("Qwen/Qwen3-VL-4B-Thinking-FP8", "fp8_block128", 262_144, "qwen/qwen3-vl-4b"),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", "nvfp4", 131_072, "meta-llama/llama-3.1-70b"),
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", "nvfp4", 163_840, "deepseek-ai/deepseek-v3"),
        ("google/gemma-3-27b-it-qat-q4_0-gguf", "q4_0_qat", 131_072, "google/gemma-3-27b"),
        ("google/gemma-4-E4B-it-qat-w4a16-ct", "int4_g128", 131_072, "google/gemma-4-e4b"),
        ("google/gemma-3-4b-it-qat-q4_0-unquantized", None, 131_072, "google/gemma-3-4b"),
        ("OpenGVLab/InternVL3-8B-AWQ", "awq_any", 32_768, "opengvlab/internvl3-8b"),
    ],
)
def test_a_makers_own_quantised_release_is_what_its_name_says(written: str, checkpoint: str | None, length: int, of: str) -> None:
    found, base = catalogue.find_model(written), catalogue.find_model(of)
    assert (found.id, found.checkpoint, found.max_context, found.blocks) == (written.lower(), checkpoint, length, base.blocks)
    assert any(f"{written} is taken to have the shapes and length of {of}" in note for note in found.notes)
    with pytest.raises(UnknownName):  # only where its own config is not to be had
        catalogue.find_model(written, by_name=False)


def test_a_release_that_is_listed_comes_before_what_its_name_says() -> None:
    """405B FP8 is listed with the modules that Meta leaves in 16 bits; NVIDIA's FP4 of Qwen3 8B under the name that it has since."""
    for written in ("meta-llama/Llama-3.1-405B-Instruct-FP8", "nvidia/Qwen3-8B-FP4"):
        found = catalogue.find_model(written)
        assert not any("is taken to have the shapes" in note for note in found.notes)


def test_a_publisher_that_was_renamed() -> None:
    """huggingface.co/CohereForAI is CohereLabs today, and redirects."""
    assert catalogue.find_model("CohereForAI/c4ai-command-r-plus").id == catalogue.find_model("CohereLabs/c4ai-command-r-plus").id


def test_a_mirror_of_a_release_is_that_release_by_its_name() -> None:
    """huggingface.co/unsloth holds other makers' releases unchanged; gpt-oss-20b is in MXFP4 there too."""
    spec, own = catalogue.find_model("unsloth/gpt-oss-20b"), catalogue.find_model("openai/gpt-oss-20b")
    assert (spec.id, spec.quantization) == ("unsloth/gpt-oss-20b", own.quantization)
    assert any("by its name and publisher" in note for note in spec.notes)


def test_a_tuned_model_of_the_same_publisher_is_said_to_rest_on_its_name() -> None:
    """XVERSE-7B-Chat: 32 layers, as XVERSE-7B's config.json has them."""
    spec = catalogue.find_model("xverse/XVERSE-7B-Chat")
    assert (spec.id, spec.n_layers) == ("xverse/xverse-7b-chat", 32)
    assert any("by its name and publisher; its config.json was not read" in note for note in spec.notes)
    assert any("no source states the maximum length" in note for note in spec.notes)
    with pytest.raises(UnknownName):
        catalogue.find_model("somebody/XVERSE-7B-Chat")


def test_a_publisher_that_converts_all_models_alike() -> None:
    """vLLM 0.13 loads 15.33 to 15.42 GiB of RedHatAI/Qwen3-14B-FP8-dynamic on one card (kyuz0/amd-r9700-vllm-toolboxes, benchmarks)."""
    name = "RedHatAI/Qwen3-14B-FP8-dynamic"
    plan = planned(name, engine="vllm", engine_version="0.13.0", device="rtx-4090", max_model_len=4096)
    assert sum(e.bytes for e in plan.ledgers[0].entries if e.kind == "weights") == pytest.approx(15.37 * 2**30, rel=0.015)
    assert any("by its name and publisher; its config.json was not read" in note for note in plan.model.notes)
    anybody = catalogue.find_model(name.replace("RedHatAI", "somebody"))
    assert any("uploads by others" in note for note in anybody.notes)


@pytest.mark.parametrize(
    "name", ["z-lab/Qwen3.5-9B-PARO", "QuantTrio/Qwen3.6-27B-AWQ-6Bit", "mlx-community/gemma-4-26B-A4B-it-heretic-msq-2.6bit"]
)
def test_a_format_that_is_not_counted_is_not_taken_for_another(name: str) -> None:
    """ParoQuant's 4 bits are no plain release, 6 bits of AWQ no MLX, 2.6 bits not 6."""
    with pytest.raises(UnknownName):
        catalogue.find_model(name)


def test_a_quantised_release_of_a_model_that_is_known_in_16_bits_by_its_maker_and_in_a_copy() -> None:
    """RedHatAI/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-FP8: NVIDIA has it as -BF16, unsloth by the plain name."""
    spec = catalogue.find_model("RedHatAI/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-FP8")
    assert (spec.checkpoint, spec.blocks) == ("fp8", catalogue.find_model("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16").blocks)


def test_a_quantised_release_of_a_model_whose_length_no_source_states() -> None:
    spec = catalogue.find_model("nvidia/Cosmos-Reason2-8B-NVFP4")
    assert (spec.max_context, spec.checkpoint) == (None, "nvfp4")
    assert any("no source states the maximum length" in note for note in spec.notes)
