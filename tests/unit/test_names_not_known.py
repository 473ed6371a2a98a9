"""Names that nothing has: what is said of them; and names with an address, a file or a publisher of another hub."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from kvplan import catalogue
from kvplan.errors import AmbiguousName, KvplanError, UnknownName
from kvplan.names.nearest import nearest
from tests.conftest import planned


def test_the_draft_layer_in_a_file_is_said() -> None:
    assert any("draft layer beside it, which is not counted" in note for note in kvplan.model("unsloth/Qwen3.6-27B-MTP-GGUF:Q8_0").notes)


@pytest.mark.parametrize("written", ["models/nope.gguf", "nope.gguf", "foo/bar:bar.gguf"])
def test_a_file_that_is_not_there_is_still_a_file(written: str) -> None:
    with pytest.raises(KvplanError, match="no such file"):
        kvplan.model(written)


@pytest.mark.parametrize("written", ["unsloth/Qwen3.6-27B-GGUF", "unsloth/Qwen3.6-27B-MTP-GGUF", "Qwen/Qwen3-8B-GGUF"])
def test_a_repository_of_files_says_how_one_is_named(written: str) -> None:
    with pytest.raises(AmbiguousName, match="is a repository of GGUF files; name one by its type, such as: ") as caught:
        catalogue.find_model(written)
    assert catalogue.find_model(str(caught.value).rpartition(", ")[2]).checkpoint == "q8_0"


@pytest.mark.parametrize("written", ["Qwen/Qwen3.5-397B-A17B-fast", "acme/qwen3-8b-lite"])
def test_a_word_that_speaks_of_a_format_only_beside_one(written: str) -> None:
    with pytest.raises(UnknownName) as caught:
        catalogue.find_model(written)
    assert "says a format" not in str(caught.value)


def test_four_bits_of_who_is_not_mlx_are_not_mlx_s() -> None:
    """LMDeploy's W4A16 is AWQ in groups (internlm/lmdeploy, docs/en/quantization/w4a16.md)."""
    assert kvplan.model("internlm/internlm-chat-20b-4bit").checkpoint == "int4_any"
    assert kvplan.model("mlx-community/Qwen3-8B-4bit").checkpoint == "mlx_4bit"


def test_a_tag_that_is_newer_than_the_copy_of_the_library() -> None:
    for tag, weights in (("qwen3.8:27b", "q4_k_m"), ("qwen3.8:27b-q8_0", "q8_0")):
        found = kvplan.model(tag)
        assert (found.checkpoint, found.blocks) == (weights, kvplan.model("Qwen/Qwen3.8-27B").blocks)
        assert any(f"{tag} is not in the copy of Ollama's library" in note for note in found.notes)
    for tag in ("qwen3.8:99b", "qwen3.8:27b-tuned", "qwen3.8:latest"):
        with pytest.raises(UnknownName, match=r"did you mean Qwen/Qwen3\.8-27B"):
            catalogue.find_model(tag)


def test_the_maker_s_own_name_comes_before_what_shares_its_shapes() -> None:
    assert nearest("somebody/GLM-5.2-Fine")[0] == "zai-org/GLM-5.2"
    assert nearest("somebody/Qwen3.8-27B-tuned")[0] == "Qwen/Qwen3.8-27B"
    notes = catalogue.find_model("PWD/Meta-Llama-3-8B-Instruct-FP8-Dynamic").notes
    assert any("shapes and length of meta-llama/llama-3-8b" in note for note in notes)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("deepseek-ai/DeepSeek-V4.2-Flash", "no model of that family and version is known here; of other versions: "),
        ("Twu31/Qwen3.8-27B-AWQ-INT4-MTP-LowLatency", "if it is that: kvplan estimate Qwen/Qwen3.8-27B --weight-dtype awq"),
        ("somebody/Llama-3.1-8B-My-Tune", "if it was tuned from that: kvplan estimate meta-llama/llama-3.1-8b"),
        ("mlx-community/Qwen3.6-27B-OptiQ-4bit", "in a mix of formats, which its config.json tells layer by layer: give that"),
        ("unsloth/gemma-4-E4B-it-UD-MLX-4bit", "in a mix of formats"),
        ("QuantTrio/gemma-4-31B-it-AWQ-6Bit", "in a mix of formats"),
        ("malaiwah/Qwen3.8-27B-EXL3-K5K6", "in a mix of formats"),
        ("festr2/GLM-5-NVFP4-MTP", "if it is: kvplan estimate zai-org/glm-5 --weight-dtype nvfp4"),
        (
            "a/Qwen3.6-35B-A3B-Uncensored-HauhauCS-Aggressive:Q4_K_M",
            "if it is that: kvplan estimate qwen/qwen3.6-35b-a3b --weight-dtype q4_k_m",
        ),
        ("Infatoshi/GLM-5.3-UNCENSORED-EXL3-3.0bpw", "if it is that: kvplan estimate zai-org/GLM-5.3 --weight-dtype exl3:3.0bpw"),
        ("a/Qwen3.8-Flash-Next-125B-A5B-INT4-AutoRound", "if it is: kvplan estimate qwen/qwen3.8-flash-next --weight-dtype gptq"),
        ("RedHatAI/GLM-5.2-NVFP4-FP8", "speaks of zai-org/GLM-5.2 in a mix of formats"),
        ("mlx-community/Qwen3-8B-NVFP4-mlx-4bit", "in a mix of formats"),
        ("tclf90/GLM-4.6-GPTQ-Int4-Int8Mix", "'-gptq-int4-int8mix' says a format of zai-org/GLM-4.6 that is not known by that name"),
        ("Eco-Tech/GLM-5.3-Flash-w4a8c8", "'-w4a8c8' says a format of zai-org/glm-5.3-flash that is not known by that name"),
        ("jerryzh168/llama3-8b-int8wo", "'-int8wo' says a format of meta-llama/llama-3-8b that is not known by that name"),
        (
            "mlx-community/DeepSeek-V4-Flash-2bit-DQ",
            "'-2bit-dq' says a format of deepseek-ai/deepseek-v4-flash that is not known",
        ),
        ("mlx-community/GLM-5.1-MXFP4-Q8", "'-mxfp4-q8' says a format of zai-org/glm-5.1 that is not known by that name"),
        ("somebody/gpt-oss-20b", "did you mean openai/gpt-oss-20b"),
        ("somebody/GLM-4.5-Air-REAP-70B", "did you mean cerebras/glm-4.5-air-reap-82b-a12b"),
    ],
)
def test_what_is_not_known_is_answered_with_a_step_that_helps(written: str, said: str) -> None:
    with pytest.raises(UnknownName) as caught:
        catalogue.find_model(written)
    assert said in str(caught.value)


@pytest.mark.parametrize("written", ["gpt-oss-20b-GGUF", "gpt oss 20b GGUF"])
def test_a_short_name_of_a_repository_of_files_says_how_one_is_named(written: str) -> None:
    with pytest.raises(AmbiguousName, match=r"gpt-oss-20b-GGUF:F16"):
        catalogue.find_model(written)


def test_a_repository_of_one_file_is_that_file() -> None:
    one = catalogue.find_model("ggml-org/gpt-oss-20b-GGUF")  # gpt-oss-20b-mxfp4.gguf alone
    assert one.weights == catalogue.find_model("ggml-org/gpt-oss-20b-GGUF:MXFP4").weights


@pytest.mark.parametrize(
    "written",
    [
        "somebody/Qwen3-8B-Eagle3",
        "stepfun-ai/Step-3.9-Flash",
        "yandex/AliceAI-Foundation-80B-A3B-Base",
        "somebody/Qwen3-32B-REAP",
        "somebody/Qwen3-8B-vision",
    ],
)
def test_a_name_that_says_other_shapes_is_not_taken_for_the_model_it_begins_with(written: str) -> None:
    with pytest.raises(UnknownName) as caught:
        catalogue.find_model(written)
    assert "kvplan estimate" not in str(caught.value)


def test_a_repository_of_files_and_the_type_of_one_name_it() -> None:
    asked = planned("unsloth/Qwen3.6-27B-GGUF", engine="ideal", context=1024, weight_dtype="ud-q4_k_xl")
    named = planned("unsloth/Qwen3.6-27B-GGUF:UD-Q4_K_XL", engine="ideal", context=1024)
    assert asked.model == named.model
    assert asked.model.weight_bytes == pytest.approx(16.4 * 2**30 + 0.92e9, rel=0.01)  # the Hub's, by janhq/model-catalog, and its tower
    with pytest.raises(AmbiguousName, match="name one by its type"):
        planned("unsloth/Qwen3.6-27B-GGUF", engine="ideal", context=1024, weight_dtype="fp8")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("depseek-r1", "deepseek-ai/DeepSeek-R1"),
        ("quen3-8b", "qwen/qwen3-8b"),
        ("minimx-m2", "minimaxai/minimax-m2.5"),
        ("phi5", "microsoft/phi-1_5"),
    ],
)
def test_a_misspelt_family_is_offered_and_never_taken(typed: str, meant: str) -> None:
    """`phi5` was Phi-1.5 before: a version with an underscore for its point is one word, of which no half is left out."""
    with pytest.raises(UnknownName, match=f"did you mean {meant}"):
        catalogue.find_model(typed)


def test_cpatonn_is_called_cyankiwi_since() -> None:
    """The Hub's account of these uploads was renamed."""
    old, new = (catalogue.find_model(f"{who}/GLM-4.5-Air-AWQ-4bit") for who in ("cpatonn", "cyankiwi"))
    assert old.checkpoint == new.checkpoint
    assert old.blocks == new.blocks


@pytest.mark.parametrize(
    ("tag", "model", "weights"),
    [  # ollama.com/library has the first; the copy of it here has the thinking ones alone
        ("qwen3:30b-a3b-instruct-2507-q4_K_M", "Qwen/Qwen3-30B-A3B-Instruct-2507", "q4_k_m"),
        ("qwen3:4b-instruct-2507-q8_0", "Qwen/Qwen3-4B-Instruct-2507", "q8_0"),
        ("qwen3:235b-a22b-instruct-2507", "Qwen/Qwen3-235B-A22B-Instruct-2507", "q4_k_m"),
    ],
)
def test_a_tag_of_a_release_that_the_librarys_copy_lacks(tag: str, model: str, weights: str) -> None:
    """The release that its words name, not a tag of the family's that is another release, of another length."""
    found, of = kvplan.model(tag), kvplan.model(model)
    assert (found.checkpoint, found.blocks, found.max_context) == (weights, of.blocks, of.max_context)


@pytest.mark.parametrize("size", ["8B", "70B"])
def test_tulu_3s_last_stage_is_of_the_shapes_of_those_before(size: str) -> None:
    """allenai/Llama-3.1-Tulu-3-8B's README: finetuned from Llama-3.1-Tulu-3-8B-DPO; the 70B's family table says the same of its own."""
    of = catalogue.find_model(f"allenai/Llama-3.1-Tulu-3-{size}-SFT")
    assert catalogue.find_model(f"allenai/Llama-3.1-Tulu-3-{size}").blocks == of.blocks


def test_no_name_that_looks_like_a_model_s_is_taken_for_it() -> None:
    """lookalikes.txt: names of a size, a version, a length or a part that nobody released, or of drafters, mixes and pruned models."""
    taken = {}
    for written in (Path(__file__).parent / "lookalikes.txt").read_text(encoding="utf-8").split("\n"):
        if written and not written.startswith("#"):
            try:
                taken[written] = catalogue.find_model(written).id
            except (AmbiguousName, UnknownName):
                continue
    assert taken == {}
