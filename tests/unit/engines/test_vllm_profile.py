"""What vLLM's profile run holds: towers, drafters, latent attention, and which of the two engines runs. Arithmetic written out here."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan import api
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.vllm.modular import shares_workspace
from kvplan.engines.vllm.plan import ENGINE
from kvplan.ledger import Entry
from kvplan.planner.plan import Plan
from kvplan.units import GIB, MIB
from tests.conftest import planned

WORKSPACE = 32 * MIB  # cuBLAS, on Hopper


def ask(model: str, device: str = "h100-80gb", **question: Any) -> Plan:
    return planned(model, engine="vllm", device=device, **question)


def lines(plan: Plan, rank: int = 0) -> dict[str, Entry]:
    return {e.name: e for e in plan.ledgers[rank].entries}


def test_the_largest_image_is_the_peak_where_few_sequences_are_sampled() -> None:
    # Qwen2.5-VL: 12,845,056 pixels / 28^2 = 16,384 tokens of 4 patches; alive per patch 3 + 9 widths of 1280 and 1176 pixels, in 2 bytes
    plan = ask("qwen/qwen2.5-vl-7b", engine_version="0.22", max_model_len=8192, max_num_seqs=4, max_num_batched_tokens=2048)
    assert lines(plan)["activations"].bytes == 16384 * 4 * (12 * 1280 + 1176) * 2 + WORKSPACE


def test_ranks_share_a_towers_attention_and_its_input_stays_whole() -> None:
    question = {"engine_version": "0.27", "max_model_len": 8192, "max_num_seqs": 2, "max_num_batched_tokens": 2048}
    plan = ask("qwen/qwen3.6-27b", device="rtx-5090", tp=2, **question)
    peak = 16384 * 4 * ((3 + 9 / 2) * 1152 + 1536) * 2 + WORKSPACE
    assert lines(plan)["activations"].bytes == peak
    # two RTX 5090 logged 1.59 GiB, 0.09 of it graphs (noonghunna/club-3090#1087)
    assert peak / GIB == pytest.approx(1.5, abs=0.25)


def test_towers_before_0_12_rotate_in_f32() -> None:
    question = {"max_model_len": 8192, "max_num_seqs": 4, "max_num_batched_tokens": 2048}
    old, new = (lines(ask("qwen/qwen2.5-vl-7b", engine_version=v, **question))["activations"].bytes for v in ("0.11", "0.12"))
    assert old - new == 16384 * 4 * 5 * 1280 * 2


def test_encoder_outputs_and_pixels_stay_for_the_sampler() -> None:
    # Gemma-3 on an H100: 8192 tokens are 32 images of 256 tokens, each token 16 patches of 588 pixels and one hidden state of 3840
    with_images, without = (
        lines(ask("google/gemma-3-12b", engine_version="0.19", max_model_len=8192, multimodal=on))["activations"].bytes
        for on in (None, "off")
    )
    assert with_images - without == 8192 * (16 * 588 + 3840) * 2


def test_v0_profiles_as_many_sequences_as_bring_an_image() -> None:
    # V0 takes 8192 tokens for a length of 8192: 2 images of 3025 tokens, so 2 rows of logits and not 256
    plan = ask("mistralai/mistral-small-3.1-24b", device="a100-80gb", engine_version="0.7", max_model_len=8192)
    assert lines(plan)["activations"].bytes < 2 * GIB
    assert plan.as_dict()["question"]["max_num_batched_tokens"]["value"] == 8192
    short = ask("mistralai/mistral-small-3.1-24b", engine_version="0.7", max_model_len=2048)
    assert short.as_dict()["question"]["max_num_batched_tokens"]["value"] == 5120


def test_an_encoder_decoder_of_v0_encodes_an_image_for_every_sequence() -> None:
    # vllm-project/vllm#10569: 256 x 4 tiles of 560 x 560 pixels do not fit an L20; the model runs with few sequences
    question = {"device": "a100-80gb", "engine_version": "0.7", "max_model_len": 8192}
    assert ask("meta-llama/llama-3.2-11b-vision", **question).starts is False
    assert ask("meta-llama/llama-3.2-11b-vision", max_num_seqs=8, **question).starts is True


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"device": "t4", "dtype": "f16"}, "below 8.0"),
        ({"device": "a100-80gb", "kv_dtype": "fp8"}, "FlashAttention 3"),
        ({"device": "h100-80gb", "dtype": "f32", "weight_dtype": "f32"}, "16 bits"),
    ],
)
def test_early_v1_falls_back_to_v0(question: dict[str, Any], why: str) -> None:
    # vLLM 0.8.5 engine/arg_utils.py _is_v1_supported_oracle
    plan = ask("qwen/qwen2.5-1.5b", engine_version="0.8.5", max_model_len=4096, **question)
    assert plan.capacity is not None
    assert plan.capacity.log_lines[0].startswith("# GPU blocks: ")
    assert any(why in note for note in plan.model.notes + plan.capacity.warnings)
    now = ask("qwen/qwen2.5-1.5b", engine_version="0.19", max_model_len=4096, **question)
    assert now.capacity is not None
    assert not now.capacity.log_lines[0].startswith("# GPU blocks: ")


def test_up_to_0_9_1_the_context_and_others_are_charged() -> None:
    question = {"max_model_len": 8192, "device": "l40s", "reserve": GIB}
    old = lines(ask("qwen/qwen2.5-7b", engine_version="0.9", **question))
    assert old["context"].bytes == GIB + 500 * MIB
    assert "context" not in lines(ask("qwen/qwen2.5-7b", engine_version="0.9.2", **question))


def test_a_draft_model_of_the_catalogue_is_loaded_and_cached() -> None:
    question = {"max_model_len": 8192, "engine_version": "0.22"}
    drafted = ask("qwen/qwen3-8b", speculative="draft_model:4:qwen/qwen3-0.6b", **question)
    alone = ask("qwen/qwen3-8b", **question)
    assert drafted.capacity is not None
    # 36 + 28 layers of 8 KV heads of 128, both in bf16: 16 tokens of a block
    assert drafted.capacity.bytes_per_block == (36 + 28) * 2 * 8 * 128 * 2 * 16
    weights = [sum(e.bytes for name, e in lines(plan).items() if name.startswith("weights")) for plan in (drafted, alone)]
    assert (weights[0] - weights[1]) / 2 == pytest.approx(751_632_384 - 151_936 * 1024, rel=0.3)  # Qwen3-0.6B, its embedding once or twice


@pytest.mark.parametrize("speculative", ["dflash:15", "draft_model:4", "draft_model:4:nobody/knows-this"])
def test_a_drafter_of_unknown_size_makes_the_answer_unknown(speculative: str) -> None:
    plan = ask("qwen/qwen3-8b", speculative=speculative, max_model_len=8192)
    method, tokens = speculative.split(":")[:2]
    assert plan.fits is None
    verb = "that" if speculative.count(":") == 2 else "it"
    assert f"give {verb} with --speculative {method}:{tokens}:MODEL" in plan.verdict


def test_latent_attention_keeps_a_quantised_up_projection_twice() -> None:
    # DeepSeek-V3: 61 layers of 128 heads x (128 + 128) x 512 in bf16, over 8 ranks
    line = lines(ask("deepseek-ai/deepseek-v3", device="h200", tp=8, max_model_len=8192, engine_version="0.22"))["weights: buffer"]
    assert line.bytes == pytest.approx(61 * 128 * 256 * 512 * 2 / 8, rel=0.001)


@pytest.mark.parametrize(("version", "mode"), [("0.27.1", 1), ("0.28", 2)])
def test_prefix_caching_of_hybrids_is_opt_in_up_to_0_27(version: str, mode: int) -> None:
    # Qwen3.6-27B: 16 attention layers and three groups of 16 states; a request of 65,536 tokens takes 84 blocks of 784 and 1 or 2 states
    # a group. vLLM 0.27.1 logged 44.73 GiB as 21.48x (souspilot/DiscoverPhysicsWIP)
    plan = ask("qwen/qwen3.6-27b", device="a100-80gb", tp=2, engine_version=version, max_model_len=65536, kv_memory="44.73GiB")
    assert plan.capacity is not None
    assert plan.capacity.block_tokens == 784
    assert plan.capacity.max_concurrency == pytest.approx(21.48 * 87 / (84 + 3 * mode), abs=0.03)


def test_rotary_tables_of_three_directions_are_four_times_as_long() -> None:
    # Qwen2.5-VL: 128,000 positions x 4 x 128 in bf16 (mrope.py)
    assert (
        lines(ask("qwen/qwen2.5-vl-7b", max_model_len=8192, engine_version="0.22"))["weights: rotary tables"].bytes == 128000 * 4 * 128 * 2
    )


@pytest.mark.parametrize(
    ("release", "length", "pairs"),
    [
        ("0.8.5", 128_000, 6),  # beside an image: 111,616 tokens hold six; its log: "a budget of 98304 tokens, and profiled with 1 video"
        ("0.8.5", 32_768, 1),
        ("0.10.2", 262_144, 8),  # 16 frames
        ("0.11", 128_000, 7),
        ("0.20", 262_144, 7),  # 14 frames
        ("0.20", 8_192, 1),
    ],
)
def test_v1_profiles_the_longest_video(release: str, length: int, pairs: int) -> None:
    """Two frames of the largest image are 16,384 tokens (models/qwen2_vl.py get_num_frames_with_most_features of 0.9.2 and 0.20)."""
    question = {"max_num_seqs": 4, "max_num_batched_tokens": 2048, "allow_long_max_model_len": "true"}
    options = {"engine_option": {"allow_long_max_model_len": question.pop("allow_long_max_model_len")}}
    found = lines(ask("qwen/qwen2.5-vl-7b", engine_version=release, max_model_len=length, **question, **options))
    alive = 3 + (9 if release == "0.20" else 14)
    assert found["activations"].bytes == pairs * 16384 * 4 * (alive * 1280 + 1176) * 2 + WORKSPACE


def test_a_matrix_is_in_16_bits_before_bitsandbytes_quantises_it() -> None:
    """Llama-3.1-8B: the embedding, 128,256 x 4,096, is the largest of its matrices; a checkpoint that is in it already has none."""
    plan = ask("meta-llama/llama-3.1-8b", device="rtx-4090", max_model_len=8192, weight_dtype="nf4", engine_version="0.27")
    beside = {entry.name: entry for entry in plan.ledgers[0].outside}
    assert beside["a matrix before it is quantised"].high == 128_256 * 4096 * 2
    assert not any("quantised" in entry.name for entry in ask("meta-llama/llama-3.1-8b", max_model_len=8192).ledgers[0].outside)


@pytest.mark.parametrize(
    ("device", "version", "older"),
    [("rtx-3080-ti", "0.10.1.1", True), ("rtx-3080-ti", "0.11.0", False), ("h100-80gb", "0.10.1.1", False), ("b200", "0.10.1.1", False)],
)
def test_a_cache_of_8_bits_runs_the_older_engine_where_attention_has_none(device: str, version: str, older: bool) -> None:
    """A log of 0.10.1.1 on two RTX 3080 Ti (Juunary/deutsch-shorts SERVER_ENV.md); platforms/cuda.py is_kv_cache_dtype_supported."""
    plan = ask("qwen/qwen3-8b", device=device, engine_version=version, kv_dtype="fp8").as_dict()
    assert any("runs its V0 engine here" in note for note in plan["model"]["notes"]) == older


def test_a_sampler_that_may_not_sort() -> None:
    # v1/sample of 0.9 to 0.11.0 filters with FlashInfer where it is there: three values of f32 for each logit in bf16, beside 256 hidden
    # states and cuBLAS' workspace. 1.40 GiB of cache were logged so on a slice of 4.75 GiB, which sorting leaves none of (1.91 are weights)
    def activations(version: str) -> Entry:
        plan = planned("google/gemma-3-1b-it", engine="vllm", engine_version=version, device="8GiB")
        return next(e for e in plan.ledgers[0].entries if e.name == "activations")

    filtered = 256 * 262_144 * (2 + 3 * 4) + 256 * 1152 * 2 + 32 * 2**20
    for version in ("0.9.0", "0.10.1.1", "0.11.0"):
        assert activations(version).low == pytest.approx(filtered, rel=0.05)
    assert activations("0.11.1").low == activations("0.12.0").low > 1.5 * filtered


def test_a_sampler_that_is_said_not_to_sort() -> None:
    # Qwen2-7B on an A100 80GB at half of its memory, 2,048 tokens, "Using FlashInfer for top-p & top-k sampling": 24.83 GiB of cache
    # (dennislee22/vLLM-benchmarking log/vllm-7B-1gpuA10080GB-0.5GRAM.log); sorting would have left 0.9 GiB less
    def activations(version: str, said: str | None) -> Entry:
        options = {"use_flashinfer_sampler": said} if said else {}
        plan = planned(
            "Qwen/Qwen2-7B-Instruct", engine="vllm", engine_version=version, device="a100-80gb", memory_fraction=0.5, max_model_len=16384,
            max_num_batched_tokens=2048, engine_option=options,
        )  # fmt: skip
        return next(e for e in plan.ledgers[0].entries if e.name == "activations")

    left = 0.5 * 79.25 - 14.2488 - 24.83  # GiB: for activations and what is outside torch
    assert activations("0.10.1.1", "true").bytes / 2**30 == pytest.approx(left, abs=0.1)
    assert activations("0.10.1.1", None).bytes / 2**30 > left + 0.7
    assert activations("0.10.1.1", None).low < activations("0.10.1.1", "false").low  # which of the two is not said
    assert activations("0.13.0", "true").bytes < activations("0.13.0", None).bytes
    assert activations("0.17.0", "true") == activations("0.17.0", None)  # what is measured there holds no sorted copy either


def test_the_workspace_of_experts_stays_beside_the_layers() -> None:
    """Qwen3-235B in FP8, experts whole on four ranks: 65,536 tokens x 8 experts x (4,096 + 4,096) values in 2 bytes are 8 GiB.

    Steps of 65,536 and 32,768 tokens logged 4.83 GiB apart (0.20, four H100): the workspace and some hidden states of 8 KiB a token.
    """
    question = {"engine_version": "0.20.0", "tp": 4, "ep": 4, "max_num_seqs": 128, "max_model_len": 65536, "n_devices": 4}
    long, short = (
        lines(ask("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", max_num_batched_tokens=n, **question))["activations"].bytes
        for n in (65536, 32768)
    )
    assert long > 65536 * 8 * (4096 + 4096) * 2
    assert (long - short) / GIB == pytest.approx(4.83, abs=0.4)


@pytest.mark.parametrize(
    ("release", "more"),
    [("0.13", 0), ("0.15", 8192 * 8 * (2048 + 2048) * 2)],
)
def test_the_samplers_warm_up_has_the_experts_workspace_beside_it(release: str, more: int) -> None:
    """Qwen3-30B-A3B: 1,024 sequences' logits are the peak, 5.57 GiB on 0.10.2 and 6.17 with 0.15 (H200, a public log each)."""
    question = {"max_model_len": 8192, "max_num_seqs": 1024, "max_num_batched_tokens": 8192}
    now, old = (lines(ask("qwen/qwen3-30b-a3b", engine_version=v, **question))["activations"].bytes for v in (release, "0.12"))
    assert now - old == more


@pytest.mark.parametrize(
    ("model", "device", "release", "kept"),
    [
        ("qwen/qwen3-30b-a3b-gptq-int4", "rtx-5090", "0.28", True),  # Marlin's kernels, modular from 0.20 on
        ("qwen/qwen3-30b-a3b-gptq-int4", "rtx-5090", "0.19", False),
        ("openai/gpt-oss-20b", "a100-80gb", "0.19", True),
        ("openai/gpt-oss-20b", "h100-80gb", "0.19", False),  # Triton's own kernels make theirs inside
        ("redhatai/qwen3.6-35b-a3b-nvfp4", "rtx-5090", "0.20", False),  # FlashInfer's
        ("qwen/qwen3-30b-a3b", "h100-80gb", "0.19", True),
        ("qwen/qwen3-30b-a3b", "h100-80gb", "0.22", False),  # FlashInfer's for 16 bits, which Hopper left again
        ("qwen/qwen3-30b-a3b", "h100-80gb", "0.23", True),
        ("qwen/qwen3-30b-a3b", "rtx-pro-6000-blackwell-server", "0.25", False),
        ("google/gemma-4-26b-a4b", "rtx-pro-6000-blackwell-server", "0.23", True),  # with GELU
        ("google/gemma-4-26b-a4b", "rtx-pro-6000-blackwell-server", "0.24", False),
        ("qwen/qwen3-30b-a3b", "a100-80gb", "0.25", True),
    ],
)
def test_whose_experts_share_the_workspace(model: str, device: str, release: str, kept: bool) -> None:
    settled = ENGINE.settle(api.deployment(model, engine="vllm", engine_version=release, device=device, max_model_len=4096))
    s, formats = settled.settings, weight_formats(settled.question)
    assert any(shares_workspace(settled.question, s, layer, formats) for layer in s.served.layers) is kept


def test_a_tower_that_rotates_nothing() -> None:
    """LLaVA-1.6's CLIP takes five images of 2,928 tokens in a step, far below the sampler: 1.97 GiB logged (0.10.2, an H100)."""
    question = {"engine_version": "0.10.2", "max_model_len": 8192, "max_num_seqs": 256, "max_num_batched_tokens": 16384}
    plan = ask("llava-hf/llava-v1.6-mistral-7b", **question)
    assert lines(plan)["activations"].bytes / GIB == pytest.approx(1.97, abs=0.1)
