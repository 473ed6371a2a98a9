"""vLLM's V0 releases as they were: what they counted, checked and stored. Bytes are worked out by hand from the release's source."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.planner.plan import Plan
from kvplan.units import GIB, MIB
from tests.conftest import planned


def ask(model: str, version: str, **question: Any) -> Plan:
    return planned(model, engine="vllm", engine_version=version, **question)


def lines(plan: Plan) -> dict[str, int]:
    return {entry.name: entry.bytes for entry in plan.outcome.ledgers[0].entries}


@pytest.mark.parametrize(
    ("version", "token"),
    [  # DeepSeek-V2 at tp 8: 60 layers, 16 heads a rank, 128 + 64 wide queries, a latent of 512 + 64; 2 bytes
        ("0.5.4", 60 * 16 * (256 + 256) * 2),
        ("0.6.6.post1", 60 * 16 * (256 + 256) * 2),
        ("0.7.0", 60 * 16 * (192 + 192) * 2),
        ("0.7.1", 60 * 576 * 2),
        ("0.7.2", 60 * 640 * 2),  # rows of 1,152 bytes aligned to 256
        ("0.7.3", 60 * 640 * 2),
    ],
)
def test_latent_attention_was_stored_whole_before_0_7_1(version: str, token: int) -> None:
    capacity = ask("deepseek-ai/deepseek-v2", version, tp=8, max_model_len=4096, kv_memory=8 * GIB).capacity
    assert capacity is not None
    assert capacity.bytes_per_block == 16 * token


def test_packed_weights_turned_latent_attention_off_up_to_0_7_2() -> None:
    costs = []
    for version in ("0.7.1", "0.7.2", "0.7.3"):
        capacity = ask("deepseek-ai/deepseek-v2", version, tp=8, max_model_len=4096, kv_memory=8 * GIB, weight_dtype="awq").capacity
        assert capacity is not None
        costs.append(capacity.bytes_per_block)
    assert costs == [16 * 60 * 16 * 384 * 2, 16 * 60 * 16 * 384 * 2, 16 * 60 * 640 * 2]


def test_deepseek_v2_with_64_000_tokens_was_refused() -> None:
    """vllm-project/vllm#4650: 0.5.4 on eight H100 refused a length of 64,000."""
    plan = ask("deepseek-ai/deepseek-v2", "0.5.4", device="h100-80gb", tp=8, max_model_len=64_000)
    assert plan.starts is False
    assert (plan.outcome.reason or "").startswith("The model's max seq len (64000) is larger than the maximum number of tokens")


def test_absorbed_projections_of_0_7() -> None:
    """DeepSeek-V2 in 16 bits at tp 8, a layer and rank: 1536 x 16 x 512, 16 x 512 x 5120 and 1536 x 16 x 64 values of 2 bytes."""
    asked: dict[str, Any] = {"tp": 8, "max_model_len": 4096, "kv_memory": GIB}
    more = [lines(ask("deepseek-ai/deepseek-v2", v, **asked)).get("weights: buffer", 0) for v in ("0.7.0", "0.7.1", "0.7.3", "0.8.5")]
    absorbed = 60 * 16 * (1536 * 512 + 512 * 5120 + 1536 * 64) * 2
    assert [n - more[0] for n in more] == [0, absorbed, absorbed, 0]


@pytest.mark.parametrize(("version", "starts"), [("0.2.1", True), ("0.2.6", True), ("0.2.7", False), ("0.3.0", False)])
def test_the_length_was_not_looked_at_before_0_2_7(version: str, starts: bool) -> None:
    """Llama-2-7B: 32 layers x 4096 x 2 x 2 bytes x 16 tokens = 8 MiB a block; 100 blocks hold 1,600 of 4,096 tokens."""
    plan = ask("meta-llama/llama-2-7b", version, kv_memory=100 * 8 * MIB)
    assert (plan.starts, plan.fits) == (starts, False)
    assert plan.capacity is not None
    assert plan.capacity.blocks == 100


def test_awq_of_0_2_summed_eight_partial_results() -> None:
    """vllm-project/vllm#2312: Mixtral AWQ, two A100 80GB, fraction 0.5, eager, 32,768 tokens a step: 6,487 blocks of 1 MiB."""
    plan = ask(
        "mistralai/mixtral-8x7b-v0.1", "0.2.7", device="a100-80gb", tp=2, weight_dtype="awq", dtype="fp16", memory_fraction=0.5,
        enforce_eager=True,
    )  # fmt: skip
    assert plan.starts
    assert plan.capacity is not None
    assert plan.capacity.blocks == pytest.approx(6487, abs=0.02 * 81_154)  # 2 % of the device's memory, in blocks of 1 MiB
    assert plan.capacity.bytes_per_block == MIB
    assert lines(plan)["activations"] > 2 * 8 * 32_768 * 14_336 * 2
    (activations,) = (e for e in plan.outcome.ledgers[0].entries if e.name == "activations")
    assert activations.bytes - activations.low >= 8 * 32_768 * 14_336 * 2  # whether the second block of partial sums was needed


def test_mixtral_awq_did_not_start_on_two_a10() -> None:
    plan = ask("mistralai/mixtral-8x7b-v0.1", "0.2.7", device="a10", tp=2, weight_dtype="awq", dtype="fp16", enforce_eager=True)
    assert plan.starts is False


def test_awq_since_0_3_unpacks_one_matrix() -> None:
    """Llama-2-13B's widest is gate_up, 5120 x 2 x 13824; with Marlin kernels (0.5.3 and later, 8.0 and later) there is no copy."""
    asked: dict[str, Any] = {"dtype": "fp16", "weight_dtype": "awq", "max_num_seqs": 1}
    old, new, turing = (
        lines(ask("meta-llama/llama-2-13b", version, device=device, **asked))["activations"]
        for version, device in (("0.3.0", "a100-40gb"), ("0.5.4", "a100-40gb"), ("0.5.4", "t4"))
    )
    assert (old - new, turing - new) == (2 * 5120 * 2 * 13_824,) * 2


@pytest.mark.parametrize(("version", "device", "option", "unpacks"), [
    ("0.4.0", "a100-40gb", {}, True),  # no gptq_marlin yet
    ("0.13", "t4", {}, True),
    ("0.14", "t4", {}, False),
    ("0.14", "v100-32gb", {}, True),
    ("0.13", "a100-40gb", {}, False),
    ("0.13", "a100-40gb", {"quantization": "gptq"}, True),
    ("0.24", "a100-40gb", {"quantization": "gptq"}, False),
])  # fmt: skip
def test_gptq_unpacks_a_matrix_in_each_product(version: str, device: str, option: dict[str, str], unpacks: bool) -> None:
    """Llama-2-13B's widest is gate_up, 5120 x 2 x 13824 in 16 bits: q_gemm.cu gptq_gemm (temp_dq), gptq_marlin.py get_min_capability."""
    asked: dict[str, Any] = {"dtype": "fp16", "weight_dtype": "gptq_g128", "max_num_seqs": 1, "device": device, "enforce_eager": True}
    asked |= {"max_num_batched_tokens": 4096}
    took = lines(ask("meta-llama/llama-2-13b", version, engine_option=option, **asked))["activations"]
    without = lines(ask("meta-llama/llama-2-13b", version, **asked | {"device": "h100-80gb", "weight_dtype": "bf16"}))["activations"]
    assert took - without == unpacks * 2 * 5120 * 2 * 13_824


def test_awq_that_is_asked_for_unpacks_gate_and_up() -> None:
    """Llama-3.1-70B over two A100 of 40 GB, 0.19.0: 15.96 GiB of cache beside 18.58 of weights (a log of 2026-04-30), its graph kept."""
    asked: dict[str, Any] = {"device": "a100-40gb", "tp": 2, "dtype": "fp16", "max_model_len": 8192, "max_num_batched_tokens": 2048}
    model, kept = "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", {"compiled": "true"}
    own = {"quantization": "awq", **kept}
    forced, plain = (ask(model, "0.19.0", engine_option=option, **asked) for option in (own, kept))
    assert lines(forced)["activations"] > lines(plain)["activations"]
    assert forced.capacity is not None
    assert forced.capacity.kv_bytes is not None
    assert forced.capacity.kv_bytes / GIB == pytest.approx(15.96, abs=0.1)
    newer = ask(model, "0.24", engine_option=own, **asked)
    assert any("takes Marlin's kernels all the same" in note for note in newer.model.notes)


@pytest.mark.parametrize(
    ("version", "tokens"),
    [("0.4.2", 131_072), ("0.5.1", 131_072), ("0.5.3", 512), ("0.6.4", 512), ("0.6.5", 2048), ("0.7.3", 2048)],
)
def test_steps_of_models_longer_than_32k(version: str, tokens: int) -> None:
    plan = ask("meta-llama/llama-3.1-8b", version, kv_memory=GIB)
    assert plan.question["max_num_batched_tokens"][0] == tokens


@pytest.mark.parametrize(("version", "longest"), [("0.5.0", 8192), ("0.5.1", 4096), ("0.6.3.post1", 4096), ("0.6.4", 8192)])
def test_gemma_2_was_capped_at_its_window(version: str, longest: int) -> None:
    assert ask("google/gemma-2-9b", version, kv_memory=8 * GIB).question["max_model_len"][0] == longest
    assert ask("google/gemma-2-9b", version, kv_memory=8 * GIB, max_model_len=8192).starts is (longest == 8192)


@pytest.mark.parametrize(
    ("version", "context", "libraries"),
    [("0.2.4", False, False), ("0.2.5", True, True), ("0.3.0", True, True), ("0.3.1", False, True), ("0.6.3", False, True)],
)
def test_what_the_profile_run_counted(version: str, context: bool, libraries: bool) -> None:
    """Torch's peak alone up to 0.2.4; all in use on the device up to 0.3.0; what came since the start up to 0.6.3."""
    plan = ask("meta-llama/llama-2-7b", version, device="a100-40gb")
    assert ("context" in lines(plan), "outside torch" in lines(plan)) == (context, libraries)


def test_stages_of_the_pipeline_shared_the_blocks_out() -> None:
    """core/scheduler.py num_gpu_blocks //= pipeline_parallel_size: two schedules, each with half of the blocks."""
    plan = ask("meta-llama/llama-2-7b", "0.7.3", pp=2, kv_memory=400 * 4 * MIB, max_model_len=3216)
    assert plan.capacity is not None
    assert plan.capacity.blocks == 400
    assert plan.starts  # 3,216 tokens are 201 blocks
    assert plan.fits is False


def test_a_build_without_tags_is_a_new_one() -> None:
    plan = ask("meta-llama/llama-2-7b", "0.1.dev19754+g3a0914114", kv_memory=4 * GIB)
    assert "0.1.dev19754+g3a0914114 does not say its release: the rules of 0.33 are used" in plan.model.notes


def cost(version: str, use_v1: str | None, **question: Any) -> tuple[int | None, tuple[str, ...]]:
    """Blocks of 1 GiB for Llama-3.1-8B, and the notes. V1 sets one block aside in what it prints of none; V0 checks the whole pool."""
    options = {"engine_option": {"use_v1": use_v1}} if use_v1 else {}
    plan = ask("meta-llama/llama-3.1-8b", version, kv_memory=GIB, max_model_len=4096, **options, **question)
    return plan.question["max_num_batched_tokens"][0], plan.model.notes


def test_use_v1_chooses_the_engine() -> None:
    """V0 prefills 4,096 tokens whole; V1 takes steps of 2,048 (vllm/engine/arg_utils.py of 0.8.5)."""
    assert [cost("0.8.5", value)[0] for value in (None, "true", "false")] == [2048, 2048, 4096]
    assert [cost("0.7.3", value)[0] for value in (None, "false", "true")] == [4096, 4096, 2048]
    assert any("is taken for that of 0.8" in note for note in cost("0.7.3", "true")[1])
    assert any("VLLM_USE_V1 is not read any more" in note for note in cost("0.20", "false")[1])


def test_expandable_segments_spare_the_second_block_of_partial_sums() -> None:
    asked: dict[str, Any] = {"device": "a100-80gb", "tp": 2, "weight_dtype": "awq", "dtype": "fp16", "enforce_eager": True}
    split, whole = (
        lines(ask("mistralai/mixtral-8x7b-v0.1", "0.2.7", engine_option=option, **asked))["activations"]
        for option in ({}, {"allocator": "expandable_segments:True"})
    )
    assert split - whole == 8 * 32_768 * 14_336 * 2
    note = "this release counts what torch allocates"
    plan = ask("meta-llama/llama-3.1-8b", "0.20", kv_memory=GIB, engine_option={"allocator": "expandable_segments:True"})
    assert any(note in said for said in plan.model.notes)


@pytest.mark.parametrize(("version", "starts"), [("0.8.5", False), ("0.12.0", False), ("0.14.0", True)])
def test_quantising_on_load_held_the_16_bit_checkpoint_first(version: str, starts: bool) -> None:
    """Qwen2.5-32B: 61 GiB in 16 bits, 32 in FP8: up to 0.12 a card of 48 GB can not load it, though it could serve it."""
    plan = ask(
        "qwen/qwen2.5-32b", version, device="l40s", weight_dtype="fp8", max_model_len=4096, enforce_eager=True,
        engine_option={"quantize_on_load": "true"},
    )  # fmt: skip
    assert plan.starts is starts
    if not starts:
        assert "while the weights are loaded" in (plan.outcome.reason or "")
    without = ask("qwen/qwen2.5-32b", version, device="l40s", weight_dtype="fp8", max_model_len=4096, enforce_eager=True)
    assert without.starts


def test_an_fp8_checkpoint_is_not_quantised_again() -> None:
    plan = ask("Qwen/Qwen3-32B-FP8", "0.8.5", device="l40s", max_model_len=4096, engine_option={"quantize_on_load": "true"})
    assert not any(entry.name == "weights before they are quantised" for entry in plan.outcome.ledgers[0].outside)


@pytest.mark.parametrize(("release", "held"), [("0.2.1", True), ("0.2.5", False), ("0.3", False)])
def test_torch_keeps_a_second_block_of_partial_sums(release: str, held: bool) -> None:
    """deepseek-coder-33B over two cards: eight partial results of 65,536 tokens x 19,200 outputs of gate and up, in 16 bits (vllm#1573)."""
    plan = planned(
        "deepseek-ai/deepseek-coder-33b-instruct",
        engine="vllm",
        engine_version=release,
        device="a100-40gb",
        tp=2,
        weight_dtype="awq",
        dtype="fp16",
    )
    found = [entry.bytes for entry in plan.ledgers[0].outside if entry.name == "AWQ's second block"]
    assert found == ([8 * 65_536 * 19_200 * 2] if held else [])
    assert plan.starts is False or not held


@pytest.mark.parametrize(
    ("release", "cards", "lines"),
    [  # worker/model_runner.py capture_model from 0.2.6 on; model_executor/parallel_utils/custom_all_reduce.py from 0.3 on
        ("0.2.5", 2, set()),
        ("0.2.6", 1, {"CUDA graphs"}),
        ("0.2.6", 2, {"CUDA graphs", "NCCL in graphs"}),
        ("0.2.7", 2, {"CUDA graphs", "NCCL in graphs"}),
        ("0.3", 2, {"CUDA graphs"}),
        ("0.3.1", 4, {"CUDA graphs", "NCCL in graphs"}),
    ],
)
def test_what_is_captured(release: str, cards: int, lines: set[str]) -> None:
    plan = ask("meta-llama/llama-2-7b", release, device="a10", tp=cards, context=2048)
    assert {entry.name for entry in plan.ledgers[0].outside} & {"CUDA graphs", "NCCL in graphs"} == lines


def test_states_were_kept_beside_the_blocks() -> None:
    """Jamba at tp 2: 28 layers of 4,096 channels, 3 inputs and 16 states each; MiniMax-01 at tp 8: 70 of 8 heads of 128 x 128; 16 bits."""
    jamba = ask("ai21labs/jamba-v0.1", "0.7.3", device="h200", tp=2, max_model_len=8192)
    assert lines(jamba)["recurrent states"] == 256 * 28 * 4096 * (3 + 16) * 2
    minimax = ask("minimaxai/minimax-m1-80k", "0.8.3", device="h200", tp=8, max_model_len=8192, max_num_seqs=32)
    assert lines(minimax)["recurrent states"] == 32 * 70 * 8 * 128 * 128 * 2
    assert minimax.capacity
    assert minimax.capacity.bytes_per_block == 16 * 10 * 2 * 1 * 128 * 2  # ten layers of attention, one head of K and V a rank


@pytest.mark.parametrize(
    ("model", "last", "first"),
    [
        ("minimaxai/minimax-m1-80k", "0.10.1", "0.10.2"),
        ("nvidia/nemotron-h-8b-base-8k", "0.10.1", "0.10.2"),
        ("ai21labs/jamba-v0.1", "0.10.1", "0.10.2"),
    ],
)
def test_classes_that_only_v0_ran(model: str, last: str, first: str) -> None:
    """SupportsV0Only in the files of these classes; models with states to 0.10.0 (engine/arg_utils.py, V1 unoptimized)."""
    for version, v0 in ((last, True), (first, False)):
        plan = ask(model, version, device="h200", tp=8, max_model_len=4096, max_num_seqs=16)
        assert any("runs its V0 engine" in note for note in plan.model.notes) is v0


def test_a_type_that_nothing_states_is_one_that_the_card_computes_in() -> None:
    """vLLM 0.8.5 refuses bf16 before Ampere: where the config says so, not where bf16 is an assumption. Llama 2's config says f16."""
    for model in ("deepseek-ai/deepseek-coder-6.7b-instruct", "meta-llama/llama-2-7b"):
        assert ask(model, "0.8.5", device="v100-32gb", max_model_len=2048).starts is True
    assert ask("meta-llama/llama-3.1-8b", "0.8.5", device="v100-32gb", max_model_len=2048).starts is False


def test_encoders_of_classes_that_are_not_there_leave_v0_open() -> None:
    """OpenBMB/MiniCPM-V#612: 2 GiB more wanted in the profile run of 0.6.2 on a card of 24 GiB, where 5 would be left."""
    plan = ask("openbmb/minicpm-v-2.6", "0.6.2", device="rtx-3090", dtype="fp16", max_model_len=2048)
    assert plan.certainty == "too close to call"
    assert any("MiniCPMV" in note for note in plan.model.notes)


def test_a_stage_whose_layers_keep_states_alone_has_no_blocks() -> None:
    """Stages of one layer are among the advice that is tried for 80e9 parameters on cards of 24 GB; three of four layers keep states."""
    plan = planned("qwen/qwen3-next-80b-a3b", engine="vllm", engine_version="0.6.0", device="rtx-3090")
    assert plan.fits is False
