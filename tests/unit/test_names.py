"""Names as people write them: what resolves, under which name, format and length; what is refused, and with which command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import kvplan
from kvplan import catalogue, names
from kvplan.errors import AmbiguousName, UnknownName
from kvplan.names.nearest import nearest
from kvplan.names.releases import taken_apart
from kvplan.rows import rows
from tests.conftest import planned


def test_what_a_name_means() -> None:
    """names.tsv."""
    known = [(*row, "", "", "")[:4] for row in rows(Path(__file__).parent / "names.tsv")]
    assert len(known) > 40
    wrong = {}
    for written, *expected in known:
        try:
            model = catalogue.find_model(written)
        except kvplan.KvplanError as error:
            wrong[written] = str(error)
            continue
        found = model.id, model.checkpoint or "-", str(model.max_context or "-")
        if any(one not in ("", other) for one, other in zip(expected, found, strict=True)):
            wrong[written] = f"{found}, not {expected}"
    assert not wrong


@pytest.mark.parametrize("row", rows(Path(__file__).parent / "same.tsv"), ids=lambda row: row[0])
def test_a_name_has_the_shapes_and_the_format_of_another(row: list[str]) -> None:
    """same.tsv."""
    written, of, kind, length = (*row, "", "")[:4]
    found, other = (kvplan.model if kind else catalogue.find_model)(written), catalogue.find_model(of)
    assert (found.blocks, found.n_layers, found.checkpoint) == (other.blocks, other.n_layers, kind or other.checkpoint)
    assert kind or found.quantization == other.quantization
    assert not length or found.max_context == other.max_context


def test_a_release_that_differs_from_its_base_on_purpose() -> None:
    """Qwen2.5-72B's AWQ pads the network to 29,696; hugging-quants' Llama 3.1 405B keeps 16 KV heads, the base has 8."""
    padded = catalogue.find_model("Qwen/Qwen2.5-72B-Instruct-AWQ")
    assert {mlp.intermediate_size for block in padded.blocks.values() for mlp in block.mlps} == {29_696}  # type: ignore[attr-defined]
    assert {q.format for q in padded.quantization} == {"awq_g128"}
    first = catalogue.find_model("hugging-quants/Meta-Llama-3.1-405B-Instruct-AWQ-INT4")
    assert {mixer.kv_heads for block in first.blocks.values() for mixer in block.mixers} == {16}  # type: ignore[attr-defined]


def test_the_plan_says_what_a_table_is_behind() -> None:
    plan = planned("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", context=1024)
    assert plan.model.id == "redhatai/meta-llama-3.1-8b-instruct-fp8"
    assert plan.question["weight_dtype"] == ("fp8", "model")
    assert any("the format of its weights is by its name" in note for note in plan.model.notes)
    assert not planned("meta-llama/Llama-3.1-8B-Instruct", context=1024).model.notes


def test_a_length_that_no_source_states_is_asked_for() -> None:
    unread = next(line for line in names.everything() if line.length == 0 and line.weights is None)
    with pytest.raises(kvplan.KvplanError, match="say how many tokens with --context"):
        planned(unread.name)
    plan = planned(unread.name, context=1024)
    assert plan.cache.total_bytes > 0
    assert any("no source states the maximum length" in note for note in plan.model.notes)


def test_a_window_that_a_table_leaves_out_is_that_of_the_releases_it_copies() -> None:
    """StarCoder2's three sizes have windows of 4,096 (model_doc/starcoder2.md); Mistral Nemo's config.json has none, nor its copies."""
    for written, window, length in (("bigcode/starcoder2-15b", 4096, 16_384), ("dphn/dolphin-2.9.3-mistral-nemo-12b", None, 1_024_000)):
        found = catalogue.find_model(written)
        assert {getattr(mixer, "window", None) for block in found.blocks.values() for mixer in block.mixers} == {window}
        assert found.max_context == length
        assert any("window" in note for note in found.notes)


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("teknium/OpenHermes-2.5-Mistral-7B", 32_768),
        ("openchat/openchat-3.5-0106", 8192),
        ("berkeley-nest/Starling-LM-7B-alpha", 8192),
        ("TheBloke/OpenHermes-2.5-Mistral-7B-AWQ", 32_768),
        ("TheBloke/Mistral-7B-Instruct-v0.2-GPTQ", 32_768),
    ],
)
def test_a_window_that_nobody_states_is_not_counted_and_said(written: str, length: int) -> None:
    """Mistral 7B of 8 KV heads of 128: 131,072 bytes a token in 16 bits, and no more with a window than without."""
    found = catalogue.find_model(written)
    assert found.max_context == length
    assert any("no source states whether it has a window: it is counted without" in note for note in found.notes)
    plan = planned(written, engine="ideal", context=8192)
    assert plan.cache.total_bytes == 8192 * 131_072
    assert planned("mistralai/Mistral-7B-v0.1", engine="ideal", context=8192).cache.total_bytes == 4096 * 131_072


def test_a_tag_in_a_quantisation_that_is_not_listed() -> None:
    """By hand: 8,030,261,248 parameters, 266,240 of them norms in f32, the others in Q8_0 (34 bytes for 32)."""
    plan = planned("llama3.1:8b-instruct-q8_0", context=1024)
    assert plan.model.weight_bytes == (8_030_261_248 - 266_240) * 34 // 32 + 266_240 * 4
    assert any("as the same tag" in note for note in plan.model.notes)
    assert catalogue.find_model("qwen3:32b-fp16").dtype == "f16"
    assert names.look_up("llama3.1:8b-text-q8_0") is None  # another checkpoint
    assert names.look_up("gpt-oss:20b-q8_0") is None  # stored in MXFP4
    assert names.look_up("qwen3:8b-qat") is None
    with pytest.raises(UnknownName, match="gemma3:27b or gemma3:27b-it-q4_K_M"):
        catalogue.find_model("gemma3:27b-it-awq")


@pytest.mark.parametrize("written", ["gemma3:27b-it-qat", "google/gemma-3-27b-it-qat-q4_0-gguf"])
def test_googles_own_files_keep_their_embedding_in_16_bits(written: str) -> None:
    """ollama/ollama#10823 logs 2.6 GiB outside the layers: 262,208 rows of 5,376 in f16, the norm. The file: 17.2 GB, its tower apart."""
    model = catalogue.find_model(written)
    assert model.checkpoint == "q4_0_qat"
    plan = planned(written, engine="ollama", engine_version="0.7.0", device="21.7GiB", context=4096)
    assert round((plan.model.weight_bytes - 2 * model.towers[0].parameters) / 1e9, 1) == 17.2
    assert any('memory.weights.nonrepeating="2.6 GiB"' in line for line in plan.capacity.log_lines)


def test_a_tag_whose_format_no_page_lists() -> None:
    """ollama.com lists granite4:micro with 2.1 GB and no format: of the library's formats only Q4_K_M makes that of 3.4 G parameters."""
    plan = planned("granite4:micro", context=1024)
    assert plan.question["weight_dtype"] == ("q4_k_m", "model")
    assert 2.05e9 < plan.model.weight_bytes < 2.15e9
    assert any("by the size of the file" in note for note in plan.model.notes)


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("acme/Qwen2.5-32B-Instruct-AWQ", "kvplan estimate qwen/qwen2.5-32b --weight-dtype awq"),
        ("acme/Qwen3-8B-GPTQ-Int4", "kvplan estimate qwen/qwen3-8b --weight-dtype gptq"),
        ("acme/Qwen3-8B-FP8", "kvplan estimate qwen/qwen3-8b --weight-dtype fp8"),
        ("acme/Qwen3-8B-FP8-dynamic", "kvplan estimate qwen/qwen3-8b --weight-dtype fp8-dynamic"),
        ("acme/Qwen3-8B-NVFP4", "kvplan estimate qwen/qwen3-8b --weight-dtype nvfp4"),
        ("acme/Qwen3-8B-quantized.w4a16", "kvplan estimate qwen/qwen3-8b --weight-dtype w4a16"),
        ("acme/Qwen3-8B-GGUF:Q4_K_M", "kvplan estimate qwen/qwen3-8b --weight-dtype q4_k_m"),
        ("acme/Qwen3-8B-bnb-4bit", "kvplan estimate qwen/qwen3-8b --weight-dtype bnb-4bit"),
        ("acme/Qwen3-8B-exl3-4.25bpw", "kvplan estimate qwen/qwen3-8b --weight-dtype exl3:4.25bpw"),
        (
            "acme/Llama-3.3-70B-Instruct-AWQ",
            "kvplan estimate meta-llama/Llama-3.3-70B-Instruct --weight-dtype awq",
        ),  # not 3.1, of its shapes
        ("acme/DeepSeek-R1-0528-MXFP4", "kvplan estimate deepseek-ai/DeepSeek-R1-0528 --weight-dtype mxfp4"),
        ("acme/Qwen3-32B-autoround-4bit-gptq", "kvplan estimate qwen/qwen3-32b --weight-dtype gptq"),
        ("acme/Llama-3.3-70B-Instruct-int4-sym-inc", "kvplan estimate meta-llama/Llama-3.3-70B-Instruct --weight-dtype gptq"),
        ("acme/NVIDIA-Nemotron-3-Nano-30B-A3B-AWQ", "kvplan estimate nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 --weight-dtype awq"),
        ("acme/MiniMax-M2-AWQ", "kvplan estimate MiniMaxAI/MiniMax-M2 --weight-dtype awq"),  # released in FP8
        ("acme/Meta-Llama-3.3-70B-Instruct-AWQ-INT4", "kvplan estimate meta-llama/Llama-3.3-70B-Instruct --weight-dtype awq"),
        ("acme/gemma-3-27b-it-GPTQ-4b-128g", "kvplan estimate google/gemma-3-27b --weight-dtype gptq"),
        ("acme/gemma-3-27b-it-qat-q4_0-gguf", "kvplan estimate google/gemma-3-27b --weight-dtype q4_0_qat"),
        ("acme/Qwen3-Coder-30B-A3B-Instruct-AWQ", "kvplan estimate Qwen/Qwen3-Coder-30B-A3B-Instruct --weight-dtype awq"),
        ("acme/DeepSeek-R1-Distill-Qwen-7B-AWQ", "kvplan estimate deepseek-ai/DeepSeek-R1-Distill-Qwen-7B --weight-dtype awq"),
    ],
)
def test_an_upload_that_no_list_has_is_what_its_name_says(written: str, command: str) -> None:
    """It answers as the command does that spells it out, and says what it rests on."""
    _, _, model, _, weights = command.split()
    found, asked = planned(written, context=1024), planned(model, context=1024, weight_dtype=weights)
    assert found.model.weight_bytes == asked.model.weight_bytes
    assert any("its config.json was not read" in note or "a GGUF conversion keeps them" in note for note in found.model.notes)


@pytest.mark.parametrize(
    "written",
    [
        "acme/Qwen2.5-72B-AWQ2-AWQ",
        "acme/Qwen3-8B-NVFP4-FP8",
        "acme/Qwen3-8B-REAP-AWQ",
        "acme/Qwen3-8B-GGUF:UD-Q4_K_XL",
        "Aleph-Alpha/Kolibri-1",
        "cerebras/GLM-4.7-Flash-REAP-23B-A3B",
    ],
)
def test_a_name_of_two_formats_another_model_or_a_mix_of_somebody_s_is_not_taken(written: str) -> None:
    with pytest.raises(UnknownName):
        catalogue.find_model(written)


def test_an_ambiguous_tail_lists_what_it_could_be(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\na/next-7b\ta/next-7b\t\t\ta\nb/Next-7B-AWQ\ta/next-7b\tawq\t\tn\nb/next-7b\tb/next-7b\t\t\ta\n"
    monkeypatch.setattr("kvplan.names.index.text", lambda: text)
    for module in ("index", "look_up", "spellings"):
        monkeypatch.setattr(sys.modules[f"kvplan.names.{module}"], "lowered", text.lower)
    with pytest.raises(AmbiguousName, match="ends several names that differ in memory: a/next-7b, b/next-7b") as caught:
        names.look_up("Next-7B")
    assert caught.value.candidates == ["a/next-7b", "b/next-7b"]
    assert names.look_up("next-7b-awq").weights == "awq"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("written", "id_", "said"),
    [
        ("llama3-8b", "meta-llama/llama-3-8b", ""),
        ("llama3.1-8b-instruct", "meta-llama/llama-3.1-8b", ""),
        ("gpt_oss_120b", "openai/gpt-oss-120b", ""),
        ("glm4.6", "zai-org/glm-4.6", ""),
        ("code-llama-13b", "codellama/codellama-13b", ""),
        ("meta/llama-3.1-8b-instruct", "meta-llama/llama-3.1-8b", ""),  # as build.nvidia.com names it
        ("google/gemma3-27b", "google/gemma-3-27b", ""),
        ("olmo-2-7b", "allenai/olmo-2-1124-7b", "olmo-2-7b is taken as allenai/OLMo-2-1124-7B, the one model known here that it can mean"),
        ("kimi-linear", "moonshotai/kimi-linear-48b-a3b", "kimi-linear is taken as"),
        ("mistral-7b", "mistralai/mistral-7b-v0.3", "not of the same memory: mistralai/mistral-7b-v0.1, mistralai/mistral-7b-v0.2"),
        ("mistral-7b-instruct", "mistralai/mistral-7b-v0.3", "not of the same memory: mistralai/mistral-7b-v0.1"),
        ("phi3-mini", "microsoft/phi-3-mini-4k", "not of the same memory: microsoft/Phi-3-mini-128k-instruct"),
        ("phi4", "phi4", "phi4 is a tag of Ollama's library, a file in q4_k_m; microsoft/phi-4 is the model as it was released"),
        ("glm-4.5-air", "primeintellect/intellect-3", "they are those of primeintellect/intellect-3"),
        ("llama-3.3-70b", "meta-llama/llama-3.1-70b", "llama-3.3-70b has the shapes of meta-llama/llama-3.1-70b"),
    ],
)
def test_a_short_name_in_any_spelling_and_what_is_said_of_it(written: str, id_: str, said: str) -> None:
    found = catalogue.find_model(written)
    assert found.id == id_
    assert any(said in note for note in found.notes) if said else not any(" is taken as " in note for note in found.notes)


@pytest.mark.parametrize(
    ("written", "one", "other"),
    [
        ("phi-3-medium", "microsoft/phi-3-medium-4k", "microsoft/phi-3-medium-128k"),  # one is 32 times longer
        ("ministral-8b", "mistralai/ministral-8b-2410", "mistralai/ministral-3-8b-2512"),
        ("qwen3-30b", "qwen/qwen3-30b-a3b", "qwen/qwen3-30b-a3b-2507"),
        ("devstral-small", "mistralai/Devstral-Small-2505", "mistralai/devstral-small-2-24b"),
    ],
)
def test_a_short_name_of_several_is_refused_with_them(written: str, one: str, other: str) -> None:
    with pytest.raises(AmbiguousName, match="can mean several models that differ in memory") as caught:
        catalogue.find_model(written)
    assert {one, other} <= set(caught.value.candidates)


def test_a_size_that_was_left_out_is_not_guessed() -> None:
    """One of its sizes is known here: that a model has no others is not."""
    assert names.look_up("mistral-small-3.1") is None
    assert names.look_up("minimaxai/minimax") is None


def test_a_short_name_in_a_format_is_a_release_or_the_command_that_answers() -> None:
    assert names.look_up("llama3.3-70b-instruct-awq").weights == "awq-int4"  # type: ignore[union-attr]
    for written, command in (
        ("qwen-3-vl-4b-nvfp4", "kvplan estimate qwen/qwen3-vl-4b --weight-dtype nvfp4"),
        ("minicpm3_4b:Q4_K_M", "kvplan estimate openbmb/minicpm3-4b --weight-dtype q4_k_m"),
    ):
        with pytest.raises(UnknownName, match="if it is: ") as caught:
            catalogue.find_model(written)
        assert str(caught.value).endswith(command)


@pytest.mark.slow
def test_every_part_of_a_catalogue_id_that_people_write_resolves() -> None:
    """The last part of each id, in any case, means that id or, where a hub id ends the same, what that means; two makers' drafters of one
    target share theirs and differ."""
    for id_ in catalogue.model_ids():
        if id_ not in ("inferact/kimi-k3-dspark", "radixark/kimi-k3-dspark"):
            assert names.look_up(id_.rpartition("/")[2].upper()) is not None, id_
    with pytest.raises(AmbiguousName, match=r"inferact/kimi-k3-dspark.*radixark/kimi-k3-dspark"):
        names.look_up("kimi-k3-dspark")


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ("Qwen/Qwen3-8B-Instructt", "qwen/qwen3-8b"),
        ("llama 3.1 8b", "meta-llama/llama-3.1-8b"),
        ("google/gemma3-27b", "google/gemma-3-27b"),
    ],
)
def test_family_and_size_weigh_more_than_spelling(written: str, first: str) -> None:
    assert nearest(written)[0] == first


@pytest.mark.parametrize("written", ["zzzz/xxxx", "somebody/Leap-3.7-Flash", "LargeWorldModel/LWM-Text-Chat-1M"])
def test_nothing_is_suggested_for_what_is_like_nothing(written: str) -> None:
    """A word that many families use (flash, text) makes no family."""
    assert nearest(written) == []


@pytest.mark.parametrize(("written", "family"), [("qwne3-8b", "qwen/"), ("gema-3-4b", "google/gemma"), ("lama-3.1-8b", "llama")])
def test_a_misspelt_family_is_found(written: str, family: str) -> None:
    assert family in nearest(written)[0]


@pytest.mark.parametrize("written", ["", " ", "/", "a\tb", "a\nb", "../../etc/passwd", "x" * 10_000, "é" * 100, "[", "(?:"])
def test_hostile_names(written: str) -> None:
    with pytest.raises(kvplan.KvplanError):
        catalogue.find_model(written)


def test_suffixes() -> None:
    assert taken_apart("meta-llama/llama-3.1-8b") is None
    assert taken_apart("acme/x-8b-mlx-4bit") == ("acme/x-8b", "mlx-4bit")
    assert taken_apart("acme/x-8b-unsloth-bnb-4bit") == ("acme/x-8b", "unsloth-bnb-4bit")
    assert taken_apart("acme/x-8b-gguf") == ("acme/x-8b", "gguf")
    # Intel/DeepSeek-V4-Flash-W4A16-AutoRound, Minachist/Qwen3.6-35B-A3B-INT8-AutoRound
    assert taken_apart("acme/x-8b-w4a16-autoround") == ("acme/x-8b", "gptq")
    assert taken_apart("acme/x-8b-int8-autoround") == ("acme/x-8b", "gptq-int8")


def test_mistral_small_4_keeps_what_vllm_asked_for_it() -> None:
    """kaito-project/kaito issue 2132: 22.5 GiB for one request of 1,048,576 tokens, on either of two ranks."""
    plan = planned("mistralai/Mistral-Small-4-119B-2603", context=1_048_576)
    assert plan.cache.total_bytes == int(22.5 * 2**30)


def test_the_format_of_an_uploads_cache_is_not_that_of_others_of_its_shapes() -> None:
    """NVIDIA's NVFP4 upload states an fp8 cache; vLLM 0.13 wanted 11.62 GiB on each of four ranks for 196,608 tokens of the original."""
    plan = planned("MiniMaxAI/MiniMax-M2", engine="vllm", engine_version="0.13.0", device="a800-80gb", tp=4)
    assert plan.cache.bytes_per_token == 2 * 62 * 8 * 128 * 2
    assert round(196_608 * plan.cache.bytes_per_token / 4 / 2**30, 2) == 11.62
    upload = planned("nvidia/minimax-m2.5-nvfp4", engine="vllm", device="h200")
    assert upload.cache.bytes_per_token == 62 * 2 * 8 * 128
    stated = {id_ for id_ in catalogue.model_ids() if "\nkv_dtype:" in (catalogue.model_folder() / f"{id_}.yaml").read_text()}
    others = [line.name for line in names.everything() if line.base in stated and line.weights and "/" in line.name]
    assert len(others) > 50
    by_habit = ("nvidia/", "unsloth/")  # whose own uploads in such formats state one (uploads.py)
    assert not [name for name in others if catalogue.find_model(name).kv_dtype and not name.lower().startswith(by_habit)]


@pytest.mark.parametrize(
    ("base", "tuned", "lengths"),
    [
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B-Instruct", (131_072, 32_768)),
        ("Qwen/Qwen2.5-72B", "qwen/qwen2.5-72b", (131_072, 32_768)),
        ("Qwen/Qwen1.5-MoE-A2.7B", "Qwen/Qwen1.5-MoE-A2.7B-Chat", (8_192, 32_768)),
        ("mlx-community/Qwen2.5-7B-4bit", "mlx-community/Qwen2.5-7B-Instruct-4bit", (131_072, 32_768)),
        ("bartowski/Qwen2.5-14B-GGUF:Q4_K_M", "bartowski/Qwen2.5-14B-Instruct-GGUF:Q4_K_M", (131_072, 32_768)),
    ],
)
def test_a_base_model_is_not_its_tuned_release_of_another_length(base: str, tuned: str, lengths: tuple[int, int]) -> None:
    """max_position_embeddings of the config.json files, by llmfit 1.1.17; the catalogue id, in lower case, is the tuned release's."""
    assert (catalogue.find_model(base).max_context, catalogue.find_model(tuned).max_context) == lengths


def test_a_tag_in_another_type_is_not_taken_for_a_later_release() -> None:
    """vicuna:13b is v1.5, of 4,096 tokens; vicuna:13b-fp16 is v1.3, of 2,048 by its page."""
    assert catalogue.find_model("vicuna:13b").max_context == 4_096
    with pytest.raises(UnknownName):
        catalogue.find_model("vicuna:13b-fp16")


def test_a_model_with_its_head_stored_twice_is_not_another_of_an_untied_head() -> None:
    """AMead10's AWQ of Llama 3.2 1B: llmfit 1.1.17 counts 1,498,482,688, the model's 1,235,814,400 and 128,256 x 2,048 of a head beside."""
    found = catalogue.find_model("AMead10/Llama-3.2-1B-Instruct-AWQ")
    assert (found.tied_embeddings, found.max_context) == (True, 131_072)


@pytest.mark.parametrize(
    ("tag", "megabytes"),
    [
        ("all-minilm:22m", 46),
        ("snowflake-arctic-embed:335m", 669),
        ("snowflake-arctic-embed2", 1_200),
        ("paraphrase-multilingual:278m", 563),
        ("deepcoder:14b", 9_000),
        ("cogito:32b", 20_000),
    ],
)
def test_a_tag_is_as_large_as_its_page_says(tag: str, megabytes: int) -> None:
    """ollama.com/library, by MarkWard0110/ollama-models 8a7dfc05ce4f; a file holds its vocabulary beside the tensors."""
    assert planned(tag, context=64).model.weight_bytes / 1e6 == pytest.approx(megabytes, rel=0.06)


@pytest.mark.parametrize("written", ["microsoft/Phi-3-mini-4k-instruct-gguf:fp16", "bartowski/THUDM_GLM-4-9B-0414-GGUF:Q8_0"])
def test_a_file_of_a_renamed_organisation_s_model_or_in_fp16_is_found(written: str) -> None:
    """THUDM is zai-org since; Microsoft calls its 16-bit file fp16 (xorbitsai/inference, llm_family.json)."""
    assert catalogue.find_model(written).max_context in (4_096, 32_768)
