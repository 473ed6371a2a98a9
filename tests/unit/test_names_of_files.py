"""Names that mean a file to Ollama and a release to who serves the Hub's weights; LM Studio's NAME@TYPE."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.errors import KvplanError, UnsupportedError
from tests.conftest import planned

#: Weights of the release in 16 bits, by hand from the published counts of parameters: ollama.com/library has each of these names in four.
_RELEASED = [("mixtral", 46_702_792_704), ("llama3.1", 8_030_261_248), ("llama3.1:8b", 8_030_261_248), ("mistral-small", 23_572_403_200)]


@pytest.mark.parametrize(("name", "parameters"), _RELEASED)
@pytest.mark.parametrize("engine", [None, "vllm", "sglang", "transformers"])
def test_a_name_of_ollamas_is_the_release_where_the_hubs_weights_are_served(engine: str | None, name: str, parameters: int) -> None:
    plan = planned(name, engine=engine, device="h200", tp=2, context=4096)
    assert plan.model.weight_bytes == 2 * parameters
    assert any("not as the file in q4_" in note for note in plan.model.notes)


@pytest.mark.parametrize("engine", ["ollama", "llama.cpp"])
def test_it_is_the_file_to_those_who_serve_files(engine: str) -> None:
    """ollama.com/library/llama3.1: 4.9 GB."""
    plan = planned("llama3.1", engine=engine, device="h100", context=4096)
    assert round(plan.model.weight_bytes / 1e9, 1) == 4.9
    assert not any("as it was released, not" in note for note in plan.model.notes)


def test_a_tag_that_names_its_type_is_that_file_everywhere() -> None:
    """8.54 GB on ollama.com: 8.03 G elements in 34 bytes for 32."""
    plan = planned("llama3.1:8b-instruct-q8_0", engine="vllm", device="h100", context=4096)
    assert round(plan.model.weight_bytes / 1e9, 2) == 8.53


def test_a_search_for_devices_asks_as_the_engine_that_it_asks() -> None:
    """16.06 GB of weights in 16 bits are no question of a card of 16 GB, which the file of 4.9 GB would be."""
    assert kvplan.fit("llama3.1", devices="t4,a16,l4", context=8192, most=1)[0].device.id == "l4"


def test_lm_studios_spelling_of_a_type() -> None:
    """bartowski/Meta-Llama-3.1-8B-Instruct-GGUF lists its Q4_K_M with 4.92 GB, vocabulary and all."""
    asked = {"engine": "llama.cpp", "device": "rtx-4090", "context": 4096}
    plan = planned("meta-llama-3.1-8b-instruct@q4_k_m", **asked)
    assert round(plan.model.weight_bytes / 1e9, 2) in (4.91, 4.92)
    with pytest.raises(KvplanError, match=r"names q4_k_m, and q8_0 is asked for"):
        planned("meta-llama-3.1-8b-instruct@q4_k_m", weight_dtype="q8_0", **asked)
    with pytest.raises(KvplanError, match="unknown model"):
        planned("meta-llama-3.1-8b-instruct@main", **asked)


@pytest.mark.parametrize("name", ["qwen2.5-coder", "qwen2.5-coder:7b"])
def test_a_command_never_serves_the_model_whose_shapes_a_name_has(name: str) -> None:
    """Qwen2.5-Coder-7B has the shapes of Qwen2-7B and is another model."""
    with pytest.raises(UnsupportedError, match="give that with --serve NAME"):
        kvplan.emit(name, "vllm", device="h100", context=4096)
    served = "Qwen/Qwen2.5-Coder-7B-Instruct"
    assert served in kvplan.emit(name, "vllm", device="h100", context=4096, serve=served)
    assert "qwen2.5-coder" in kvplan.emit(name, "ollama", device="h100", context=4096)


def test_a_command_serves_the_release_of_a_short_name() -> None:
    assert "vllm serve meta-llama/Llama-3.1-8B" in kvplan.emit("llama3.1", "vllm", device="h100", context=4096)


def test_unsloths_tags_of_k_xl_are_its_dynamic_files() -> None:
    """llama.cpp looks for a file that the tag ends (common/download.cpp): unsloth's are UD-Q4_K_XL, bartowski's Q3_K_XL its own."""
    from kvplan.names.releases import taken_apart

    assert taken_apart("unsloth/qwen3-32b-gguf:q4_k_xl") == ("unsloth/qwen3-32b", "ud-q4_k_xl")
    assert taken_apart("bartowski/qwen3-32b-gguf:q3_k_xl") == ("bartowski/qwen3-32b", "q3_k_xl")
