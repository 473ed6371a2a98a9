"""Names that people asked for in the newest threads: totals are those that others counted, by hand where no source is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from kvplan import catalogue
from kvplan.errors import UnknownName
from kvplan.names import index, look_up
from kvplan.rows import rows
from tests.conftest import planned


@pytest.mark.parametrize(
    ("written", "billions", "of_cache"),
    [
        # 127.7 B in the Hub's list; keys and values of 8 heads of 128 in 88 layers
        ("mistralai/Mistral-Medium-3.5-128B", 127.7, 88 * 4096),
        # 269.5 B: huggingface.co/xai-org/grok-2/discussions/24; 256 KiB a token: magazine.sebastianraschka.com's gallery
        ("xai-org/grok-2", 269.5, 256 * 1024),
        # 13 full layers (36 slide over 4,096 tokens) of 4 heads of 128, for tokens behind the window
        ("CohereLabs/North-Mini-Code-1.0", 30.5, 13 * 2048),
        # by hand: Yi-34B is 34.39 B, its tower 303.5 M less the pooling, its projector (1,024 + 7,168 + 2) x 7,168
        ("liuhaotian/llava-v1.6-34b", 34.75, 60 * 4096),
        # 4.89 TB of files in 16 bits with one draft layer of 25.8 B; 23 of 92 layers keep 4 heads of 256: people who read its config.json
        ("Qwen/Qwen3.8-2.4T-A95B", 2419.8, 23 * 4096),
        # tables of the OPT paper (arXiv 2205.01068) and the Baichuan 2 report (2309.10305): 12.9 B and 13.9 B, every head its own
        ("facebook/opt-13b", 12.85, 40 * 4 * 5120),
        ("baichuan-inc/Baichuan2-13B-Chat", 13.9, 40 * 4 * 5120),
        # 316 B without the tower: stepfun-ai/Step3's README; one head of 256 for K and for V in 61 layers
        ("stepfun-ai/step3-fp8", 316.3, 61 * 2 * 256 * 2),
        # the Hub's 1,023,182,841,600 less three draft modules, by hand: 644,874,240 in matrices, five norms of 6,144 and 128 sinks each,
        # and less 69 x 384 biases of routers; 10 full layers of 8 heads of 192 + 128
        ("XiaomiMiMo/MiMo-V2.5-Pro", 1021.248, 10 * 8 * 320 * 2),
        # the Hub's 81,932,181,504
        ("cerebras/GLM-4.5-Air-REAP-82B-A12B", 81.932, 46 * 4096),
        ("MidnightPhreaker/GLM-4.5-Air-REAP-82B-A12B-AWQ-4bit", 81.932, 46 * 4096),
        ("speakleash/Bielik-11B-v3.0-Instruct", 11.169, 50 * 4096),  # the Hub's 11,168,796,672
        # by hand, of one token: a latent of 512 + 64; eight full layers of 32, 12 of 48 (the others slide, or read chunks); two layers of
        # attention of 28 with one head; 13 uses of two shared blocks, 32 heads of 224; nine full layers of 36 with four heads of 256
        ("sarvamai/sarvam-105b", 106.032, 32 * 2 * (512 + 64)),
        ("CohereLabs/command-a-plus-05-2026-bf16", 218.75, 8 * 4096),
        ("meta-llama/Llama-Guard-4-12B", 12.001, 12 * 4096),
        ("ai21labs/AI21-Jamba2-3B", 3.029, 2 * 2 * 2 * 128),
        ("Zyphra/Zamba2-7B", 7.357, 13 * 2 * 2 * 32 * 224),
        ("XHToken/Spark-X2.5-4B", 4.112, 9 * 2 * 2 * 4 * 256),
        ("IFM/K2-Horizon-375B-A23B", 379.167, 61 * 4096),
        # 3.43 B in the Hub's list
        ("pankajmathur/orca_mini_3b", 3.43, 26 * 4 * 3200),
    ],
)
def test_a_release_makes_the_parameters_that_others_count(written: str, billions: float, of_cache: int) -> None:
    plan = planned(written, engine="ideal", context=2048)
    assert plan.model.parameters / 1e9 == pytest.approx(billions, abs=0.05 if billions > 100 else 0.035 if billions > 5 else 0.005)
    length = catalogue.find_model(written).max_context or 0
    at = [planned(written, engine="ideal", context=n).cache.total_bytes for n in (length - 1, length)]
    assert at[1] - at[0] == of_cache


@pytest.mark.parametrize("row", rows(Path(__file__).parent / "totals.tsv"), ids=lambda row: row[0])
def test_a_model_makes_the_total_of_its_files_to_the_last_parameter(row: list[str]) -> None:
    """totals.tsv."""
    written, total, beside = (*row, "")[:3]
    made = planned(written, engine="ideal", context=64).model
    assert made.parameters + (made.mtp_parameters or 0) == int(total) - int(beside or 0)


def test_ultravox_is_counted_with_what_joins_its_encoder() -> None:
    """Llama 3.2 1B and the Hub's 689,410,048 of an Ultravox upload without its text model, of 5,120 where this one is 2,048 wide."""
    made = planned("fixie-ai/ultravox-v0_5-llama-3_2-1b", engine="ideal", context=64).model
    assert made.parameters == 1_235_814_400 + 689_410_048 - (5120 - 2048) * 2048


def test_phi_4_multimodal_is_counted_without_its_adapters() -> None:
    """Of rank 256 for images and 320 for speech, on q, k and v, o and both matrices of the network of 32 layers; the Hub's total."""
    adapters = 32 * (256 + 320) * (3072 + 5120 + 3072 + 3072 + 3072 + 16_384 + 8192 + 3072)
    made = planned("microsoft/Phi-4-multimodal-instruct", engine="ideal", context=64).model
    assert made.parameters + adapters == pytest.approx(5_574_460_384, rel=1e-5)


@pytest.mark.parametrize("written", ["inceptionai/jais-adapted-7b-chat", "inceptionai/jais-adapted-13b-chat"])
def test_a_total_that_only_a_wider_vocabulary_makes_is_no_copy(written: str) -> None:
    """7,000,561,664 is Llama 2 7B with twice its vocabulary: 6,738,415,616 + 2 x 32,000 x 4,096, and 2,048 more."""
    assert look_up(written) is None


def test_glm_5_2_pruned_to_504b_is_stored_as_the_hub_counts_it() -> None:
    """Experts in NVFP4, the draft module's too: the Hub counts two numbers as one and a scale of every 16; with biases of 76 routers."""
    made = planned("madeby561/GLM-5.2-NVFP4-REAP-504B", engine="ideal", context=64).model
    experts = 76 * 168 * 3 * 2048 * 6144
    assert made.parameters + (made.mtp_parameters or 0) - experts * 7 // 16 + 76 * 168 == 289_960_857_056
    assert made.weight_bytes == pytest.approx(2 * (made.parameters - experts * 75 / 76) + experts * 75 / 76 * 9 / 16, rel=0.01)


def test_nemotron_3_nano_omni_takes_what_its_model_card_gives() -> None:
    """62, 33 and 21 GB (of 2^30 bytes): its model card, as haimaker.ai/models/nvidia/nemotron-3-nano-30b-a3b has it."""
    for kind, gib in (("BF16", 62), ("FP8", 33), ("NVFP4", 21)):
        made = planned(f"nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-{kind}", engine="ideal", context=64).model
        assert made.weight_bytes / 2**30 == pytest.approx(gib, abs=0.55)


def test_qwen3_8_flash_next_is_stored_as_its_files_are() -> None:
    """The Hub's 179,999,981,424 parameters and the FP8 release's 172.8 GiB are with one draft layer: 512 experts of 3 x 2,560 x 640, which
    FP8 holds in blocks, and about 0.1 B beside them. 51.2 B are the table of n-grams: 320,001,536 rows of 160, in FP8 there."""
    draft_experts = 512 * 3 * 2560 * 640
    plain = planned("Qwen/Qwen3.8-Flash-Next", engine="ideal", context=1024).model
    assert plain.parameters + draft_experts == pytest.approx(179_999_981_424, abs=0.2e9)
    assert plain.active_parameters / 1e9 == pytest.approx(7.76, abs=0.01)  # by hand: the table, of which 16 rows are read, left out
    stored = planned("qwen3.8-flash-next-fp8", engine="ideal", context=1024).model.weight_bytes
    assert (stored + draft_experts) / 2**30 == pytest.approx(172.8, abs=0.3)
    packed = planned("RadixArk/Qwen3.8-Flash-Next-NVFP4", engine="ideal", context=1024).model.weight_bytes
    assert packed / 1e9 == pytest.approx(128.5, rel=0.015)  # as people who loaded it say


@pytest.mark.parametrize("written", ["Flash-0731", "Flash-DSpark", "Pro-0813", "Pro-DSpark"])
def test_deepseek_v4s_with_dspark_are_the_preview_s_shapes_and_its_stages(written: str) -> None:
    found, preview = (catalogue.find_model(f"deepseek-ai/DeepSeek-V4-{name}") for name in (written, written.partition("-")[0]))
    assert found.blocks == preview.blocks
    assert found.mtp is not None
    assert (found.mtp.modules, found.mtp.method) == (3, "dspark")
    assert preview.mtp is not None
    assert (preview.mtp.modules, preview.mtp.method) == (1, "mtp")


@pytest.mark.parametrize(("name", "millions"), [("tiny", 39), ("base", 74), ("small", 244), ("medium", 769), ("large-v3-turbo", 809)])
def test_whispers_sizes(name: str, millions: int) -> None:
    """Table 1 of the Whisper paper (arXiv 2212.04356), to 3.2 % of the smallest; the README of the turbo has 809 M."""
    made = planned(f"openai/whisper-{name}", engine="ideal", context=128).model.parameters / 1e6
    assert made == pytest.approx(millions, rel=0.035)


def test_ling_2_6_flash_is_one_latent_layer_in_eight() -> None:
    """github.com/ljubomirj/l26f counts 107.49 B with the MTP layer; a token keeps 512 + 64 latents in each of 4 layers."""
    plan = planned("inclusionAI/Ling-2.6-flash", engine="ideal", context=4097)
    assert round((plan.model.parameters + (plan.model.mtp_parameters or 0)) / 1e9, 2) == 107.49
    shorter = planned("inclusionAI/Ling-2.6-flash", engine="ideal", context=4096)
    assert plan.cache.total_bytes - shorter.cache.total_bytes == 4 * 576 * 2


def test_mistral_medium_is_stored_in_fp8_but_for_its_tower_and_head() -> None:
    """About 134 GB raw (recipes.vllm.ai/mistralai/Mistral-Medium-3.5-128B)."""
    assert round(planned("mistral-medium-3.5", context=1024).model.weight_bytes / 1e9) == 134


def test_the_dense_layer_of_north_mini_code_has_a_width_of_its_own() -> None:
    """transformers 5.23 Cohere2MoeMLP(config, config.prefix_dense_intermediate_size); its experts are of 768."""
    blocks = catalogue.find_model("north-mini-code-1.0").blocks
    assert {(mlp.kind, mlp.intermediate_size) for block in blocks.values() for mlp in block.mlps} == {("dense", 3072), ("moe", 768)}


def test_the_makers_4_bits_of_north_mini_code_are_of_its_experts() -> None:
    """19.3 GB of files, as people who fetched them say; all in 4 bits but the head would be 16.5."""
    assert round(planned("CohereLabs/North-Mini-Code-1.0-w4a16", context=1024).model.weight_bytes / 1e9, 1) == 19.3


@pytest.mark.parametrize(
    ("written", "of", "length", "said"),
    [
        ("mistral-community/Mixtral-8x22B-v0.1", "mistralai/mixtral-8x22b-v0.1", 65_536, None),
        ("conceptofmind/LLongMA-2-7b-16k", "meta-llama/llama-2-7b", 16_384, "which its makers say it was tuned from"),
        ("dphn/dolphin-2.7-mixtral-8x7b", "mistralai/mixtral-8x7b-v0.1", 32_768, "which its makers say it was tuned from"),
        ("cognitivecomputations/dolphin-2.7-mixtral-8x7b", "mistralai/mixtral-8x7b-v0.1", 32_768, "tuned from"),
        ("psmathur/orca_mini_3b", "openlm-research/open_llama_3b", 2048, "tuned from"),
    ],
)
def test_copies_and_tuned_ones_have_the_shapes_of_their_base(written: str, of: str, length: int, said: str | None) -> None:
    found = catalogue.find_model(written)
    assert found.blocks == catalogue.find_model(of).blocks
    assert found.max_context == length
    assert said is None or any(said in note for note in found.notes)


@pytest.mark.parametrize(
    ("written", "of"),
    [
        ("TheBloke/Mistral-7B-v0.1-AWQ", "mistralai/mistral-7b-v0.1"),
        ("TheBloke/Llama-2-13B-chat-AWQ", "meta-llama/llama-2-13b"),  # of Llama-2-13b-chat-hf
        ("TheBloke/CodeLlama-34B-Instruct-AWQ", "codellama/codellama-34b-instruct"),
    ],
)
def test_thebloke_has_awq_in_groups_of_128_of_what_its_name_says(written: str, of: str) -> None:
    found = catalogue.find_model(written)
    assert found.blocks == catalogue.find_model(of).blocks
    assert any("by its name and publisher" in note for note in found.notes)
    listed = catalogue.find_model("TheBloke/Llama-2-13B-AWQ")  # as those whose config.json a table has
    assert found.checkpoint == listed.checkpoint == "awq_any"


@pytest.mark.parametrize(
    "written",
    [
        "TheBloke/Llama-2-13B-chat-GPTQ",  # its groups differ from model to model
        "TheBloke/nobody-knows-7B-AWQ",
    ],
)
def test_what_no_source_has_stays_refused_by_name(written: str) -> None:
    with pytest.raises(UnknownName, match=written):
        catalogue.find_model(written)


#: malaiwah/qwen38-27b-exl3 docs/56-speculative-decoding-research.md quotes both config.json, the count of one, the file of the other.
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("RadixArk/Qwen3.8-27B-DSpark", 1_359_284_737), ("incoai/Qwen3.8-27B-DFlash2", 3_849_000_000 // 2)],
)
def test_drafters_of_qwen3_8_are_as_large_as_their_files(name: str, parameters: int) -> None:
    plan = planned(name, engine="ideal", context=1024)
    assert plan.model.parameters == pytest.approx(parameters, rel=0 if parameters % 1000 else 1e-3)
    assert plan.model.weight_bytes == 2 * plan.model.parameters


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("simplescaling/s1.1-32B", "qwen/qwen2.5-32b"),  # simplescaling/s1 README
        ("NovaSky-AI/Sky-T1-32B-Preview", "qwen/qwen2.5-32b"),
        ("open-thoughts/OpenThinker2-32B", "qwen/qwen2.5-32b"),
        ("WizardLMTeam/WizardCoder-33B-V1.1", "deepseek-ai/deepseek-coder-33b-base"),  # nlpxucan/WizardLM README
        ("meetkai/functionary-medium-v3.1", "meta-llama/llama-3.1-70b"),  # MeetKai/functionary README
        ("migtissera/Tess-4-27B", "qwen/qwen3.5-27b"),
        ("CohereForAI/aya-23-35B", "cohereforai/c4ai-command-r-v01"),
        ("mistralai/Mathstral-7B-v0.1", "mistralai/mistral-7b-v0.3"),
        ("Octen/Octen-Embedding-0.6B", "qwen/qwen3-embedding-0.6b"),  # MTEB's registry
    ],
)
def test_tuned_releases_have_the_shapes_of_what_they_were_tuned_from(written: str, base: str) -> None:
    line = index.exact(written.lower())
    assert line is not None
    assert line.base == base


def test_deepseek_llm_67b_is_as_large_as_its_paper_s_sizes() -> None:
    """arXiv 2401.02954, table 2: 95 layers, 8192 wide, 64 heads, 8 groups, 4096 tokens; MLP and words as llmfit 1.1.17 has."""
    by_hand = 95 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 22016 + 2 * 8192) + 2 * 102_400 * 8192 + 8192
    plan = planned("deepseek-ai/deepseek-llm-67b-chat", engine="ideal")
    assert (plan.model.parameters, plan.as_dict()["question"]["max_model_len"]["value"]) == (by_hand, 4096)


def test_qwen3_vl_embedding_8b_has_no_output() -> None:
    """MTEB's registry: 8,144,793,840 parameters; those of Qwen3-VL-8B less 151,936 x 4,096."""
    assert planned("Qwen/Qwen3-VL-Embedding-8B", engine="ideal", context=1024).model.parameters == 8_144_793_840
    assert planned("Qwen/Qwen3-VL-Reranker-8B", engine="ideal", context=1024).model.parameters == 8_144_793_840 + 151_936 * 4096


@pytest.mark.parametrize(
    ("written", "kept", "gigabytes"),
    [
        # NVIDIA Dynamo's recipe: about 592 GB, the 8 draft layers (the Hub's total less that of a copy without them) in 16 bits
        ("thinkingmachines/Inkling-NVFP4", 2 * (952_377_623_626 - 947_117_177_922), 592.0),
        ("mlx-community/gpt-oss-20b-MXFP4-Q8", 0, 12.1),  # a public list of models for a Mac
        ("skt/A.X-K2", 0, 694),  # a job that stages its files
        ("0xSero/GLM-5.2-504B-Nvidia", 2 * 6_630_490_880, 317.9),  # the draft module in 16 bits: a report of serving it
    ],
)
def test_a_release_takes_the_files_that_others_list(written: str, kept: int, gigabytes: float) -> None:
    weights = planned(written, engine="ideal", context=2048).model.weight_bytes
    assert (weights + kept) / 1e9 == pytest.approx(gigabytes, rel=0.003)


@pytest.mark.parametrize(("written", "packed"), [("Flash-MOPD", 160_859_947_008), ("Pro-RL", 531_351_207_936)])
def test_experts_that_are_stored_in_mxfp4_beside_fp8(written: str, packed: int) -> None:
    """The headers of MiMo-V2.6's files: so many bytes of packed experts and their scales; by hand 4 bits an element and 8 for 32."""
    spec = kvplan.model(f"XiaomiMiMo/MiMo-V2.6-{written}")
    assert {q.format for q in spec.quantization if "experts" in q.roles} == {"mxfp4"}
    experts = 3 * spec.hidden_size * 2048 * (256 if "Flash" in written else 384) * (spec.n_layers - 1)
    assert experts * 17 // 32 == packed


def test_unsloth_s_files_of_gemma_4_trained_for_q4_0() -> None:
    """People who opened gemma-4-12B-it-qat-UD-Q4_K_XL.gguf: 6.72 GB, all of it Q4_0."""
    found = kvplan.model("unsloth/gemma-4-12B-it-qat-GGUF:UD-Q4_K_XL")
    assert found.checkpoint == "q4_0"
    assert any("Q4_0 throughout" in note for note in found.notes)
    text = planned("unsloth/gemma-4-12B-it-qat-GGUF:UD-Q4_K_XL", engine="llama.cpp", context=2048, multimodal="off")
    assert text.model.weight_bytes / 1e9 == pytest.approx(6.72, rel=0.06)
    apart = planned("unsloth/gemma-4-12B-it-qat-GGUF", engine="llama.cpp", context=2048, multimodal="off", weight_dtype="ud_q4_k_xl")
    assert apart.model.weight_bytes == text.model.weight_bytes


@pytest.mark.parametrize("written", ["bartowski/google_gemma-3-27b-it-qat-GGUF", "unsloth/gemma-3-27b-it-qat-GGUF"])
def test_a_model_trained_for_four_bits_converts_as_any_other(written: str) -> None:
    """Converters ran llama-quantize over google/gemma-3-27b-it-qat-q4_0-unquantized, whose shapes are gemma-3-27b-it's."""
    found = look_up(f"{written}:Q4_K_M")
    assert found is not None
    assert (found.base, found.weights) == ("google/gemma-3-27b", "q4_k_m")


@pytest.mark.parametrize(
    ("written", "parameters"),
    [
        ("deepseek-ai/DeepSeek-V4.1-Flash-1017", 748_979_907_184),  # shapes of vLLM 0.33, by hand; 552B and 196B of tables
        ("THUDM/chatglm-6b", 6_173_286_400),  # PEFT's logs: 6,176,956,416 with an adapter of 3,670,016
        ("mosaicml/mpt-7b-instruct", 6_649_286_656),  # the Hub's
        ("Qwen/Qwen-VL-Chat", 9_656_935_168),  # the Hub's
        ("stepfun-ai/Step-Audio-2-mini", 7_663_326_720),  # Qwen2.5 7B with 158,720 tokens, by hand; its encoder of sound is not counted
    ],
)
def test_models_whose_config_was_found_later(written: str, parameters: int) -> None:
    assert planned(written, engine="ideal", context=1024).model.parameters == parameters


def test_a_repository_of_exl3_is_known_by_the_bits_that_are_asked_for() -> None:
    """turboderp's Qwen3.8-27B-exl3 has a branch for each number of bits: 4.00 of them, by hand, and 16 of embeddings and small matrices."""
    asked = {"engine": "exllamav3", "device": "rtx-4090", "context": 2048}
    by_name = planned("turboderp/Qwen3.8-27B-4.00bpw-exl3", **asked)
    apart = planned("turboderp/Qwen3.8-27B-exl3", **asked, weight_dtype="exl3_4.00bpw")
    assert apart.model.weight_bytes == by_name.model.weight_bytes
    assert kvplan.model("acme/Qwen3.6-27B-INT8-W8A8").checkpoint == "int8_channel"
