"""Options of SGLang that want another GPU or class of model, classes that drafts find nothing to share in, kernels of plug-ins.

Expected are words of the wheels (server_args.py, arg_groups/*) and what their model classes have (srt/models).
"""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.sglang.arguments import ARGUMENTS
from kvplan.engines.sglang.settle import settle
from tests.unit.engines.test_sglang_refusals import stopped

LLAMA, NANO, BGE = "meta-llama/llama-3.1-8b", "nvidia/nemotron-3-nano-30b-a3b", "baai/bge-m3"
ROUNDED = {"enable_mamba_cache_stochastic_rounding": "true", "mamba_ssm_dtype": "float16"}


@pytest.mark.parametrize(
    ("model", "device", "version", "asked", "said"),
    [
        (LLAMA, "mi300x", "0.5.23", {"mm_feature_transport": "cuda_ipc"}, "requires NVIDIA CUDA"),
        (LLAMA, "mi300x", "0.5.23", {"mm_feature_transport": "cpu"}, None),
        (LLAMA, "h100-80gb", "0.5.23", {"mm_feature_transport": "cuda_ipc"}, None),
        (NANO, "mi300x", "0.5.19", ROUNDED, "only supported on NVIDIA CUDA"),
        (NANO, "h100-80gb", "0.5.19", ROUNDED, "requires SM100"),
        (NANO, "h100-80gb", "0.5.19", ROUNDED | {"mamba_backend": "flashinfer"}, None),
        (NANO, "b200", "0.5.19", ROUNDED, None),
    ],
)
def test_options_for_another_gpu(model: str, device: str, version: str, asked: dict[str, str], said: str | None) -> None:
    found = stopped(model, version, device=device, engine_option=asked)
    assert said in (found or "") if said else found is None


def test_scales_of_an_nvfp4_cache_are_looked_for_in_the_class() -> None:
    """fp4_kv_cache_quant_method.py load_scales_from_model: XLMRobertaModel has no `model`, LlamaForCausalLM has."""
    assert "object has no attribute 'model'" in (stopped("baai/bge-reranker-large", "0.5.22", device="b200", kv_dtype="nvfp4") or "")
    assert stopped(LLAMA, "0.5.22", device="b200", kv_dtype="nvfp4") is None


MEGA, OWN = {"moe_a2a_backend": "megamoe"}, {"moe_a2a_backend": "flashinfer_megamoe", "enable_dp_attention": "true"}
QWEN = "qwen/qwen3-30b-a3b"


@pytest.mark.parametrize(
    ("device", "version", "asked", "said"),
    [  # probes of 0.5.19, 0.5.22 and 0.5.23: 16,384 tokens of a chunk on a B200, 8,192 held; 48 requests, or 512 of graphs, of 32 drafts
        ("b200", "0.5.22", {"engine_option": MEGA}, "effective prefill token budget"),
        ("b200", "0.5.19", {"engine_option": MEGA}, None),
        ("b200", "0.5.22", {"engine_option": MEGA, "max_num_batched_tokens": 4096}, None),
        ("b200", "0.5.22", {"engine_option": MEGA | {"mega_moe_num_max_tokens_per_rank": 16384}}, None),
        ("b200", "0.5.22", {"engine_option": MEGA | {"enable_dp_attention": "true"}, "dp": 2, "max_num_batched_tokens": 32768}, None),
        ("b200", "0.5.22", {"engine_option": MEGA | {"disable_chunked_prefill": "true"}}, "chunked prefill to be enabled"),
        ("b200", "0.5.22", {"engine_option": MEGA, "max_num_batched_tokens": 8192, "speculative": "ngram:32"}, "decode / verify"),
        ("b200", "0.5.23", {"engine_option": MEGA, "max_num_batched_tokens": 8192, "speculative": "ngram:32"}, None),
        ("a100-80gb", "0.5.22", {"engine_option": MEGA, "max_num_batched_tokens": 4096}, "needs a CUDA SM90 GPU"),
        ("b200", "0.5.22", {"engine_option": OWN, "dp": 4}, "supports only MXFP8"),
        ("b200", "0.5.22", {"engine_option": OWN | {"quantization": "mxfp8"}, "dp": 4}, None),
        ("h200", "0.5.22", {"engine_option": OWN | {"quantization": "mxfp8"}, "dp": 4}, "SM100-family"),
        ("b200", "0.5.22", {"engine_option": OWN | {"quantization": "mxfp8"}, "dp": 2}, "is only supported with"),
    ],
)
def test_tokens_that_megamoe_holds(device: str, version: str, asked: dict[str, Any], said: str | None) -> None:
    found = stopped(QWEN, version, device=device, tp=4, **asked)
    assert said in (found or "") if said else found is None


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("--enable-amd-monokernel", "no monokernel backend"),
        ("--monokernel-backend amd", "no monokernel backend"),
        ("--enable-nvidia-megakernel", "plugin is not installed"),
        ("--mm-feature-transport cuda_ipc --nnodes 2 --tp-size 16", "only supports a single node"),
    ],
)
def test_options_that_no_release_serves_alone(argv: str, said: str) -> None:
    found = read(ARGUMENTS, words("--model-path", "m/x", *argv.split()), {}, "0.5.23").findings
    assert any(said in one.message for one in found if one.severity == "error")


def test_flags_of_experts_went_with_0_5_5() -> None:
    for version, there in (("0.5.4", True), ("0.5.5", False)):
        found = read(ARGUMENTS, words("--model-path", "m/x", "--enable-ep-moe"), {}, version).findings
        assert any("NOTE" in one.message for one in found) is there
        assert any(one.severity == "error" for one in found)


@pytest.mark.parametrize(
    ("model", "version", "speculative", "lacks"),
    [
        ("stabilityai/stablelm-3b-4e1t", "0.5.23", "nextn:1", "get_embed_and_head"),
        ("mistralai/mixtral-8x7b-v0.1", "0.5.23", "eagle:3:some/drafter", "get_embed_and_head"),
        ("zai-org/glm-4.5", "0.5.4", "eagle3:3:some/drafter", "set_eagle3_layers_to_capture"),
        ("zai-org/glm-4.5", "0.5.5", "eagle3:3:some/drafter", ""),
        ("qwen/qwen3-30b-a3b", "0.5.12", "nextn:1", "set_embed_and_head"),
        ("qwen/qwen3-30b-a3b", "0.5.13", "nextn:1", ""),
        ("qwen/qwen3-30b-a3b", "0.5.12", "eagle3:3:some/drafter", ""),
        ("mistralai/mixtral-8x7b-v0.1", "0.5.23", "ngram:8", ""),
        # a post-release has at most what the next release has: 0.4.7 has MiMo's, 0.4.9 Qwen3's
        ("qwen/qwen3-30b-a3b", "0.4.6.post5", "eagle3:3:some/drafter", "get_embed_and_head"),
        ("qwen/qwen3-8b", "0.4.6.post5", "eagle3:3:some/drafter", "set_eagle3_layers_to_capture"),
        ("xiaomimimo/mimo-7b-rl", "0.4.6.post5", "nextn:1", ""),
        ("xiaomimimo/mimo-7b-rl", "0.4.6", "nextn:1", "get_embed_and_head"),
        (LLAMA, "0.4.6", "eagle3:3:some/drafter", ""),
    ],
)
def test_classes_that_drafts_share_with(model: str, version: str, speculative: str, lacks: str) -> None:
    asked: dict[str, Any] = {"engine": "sglang", "engine_version": version, "device": "h200", "tp": 8, "speculative": speculative}
    found = settle(kvplan.deployment(model, **asked)).lacks
    assert f"no attribute '{lacks}'" in found if lacks else not found


def test_unused_positions_count_to_the_length() -> None:
    """hf_transformers_utils.py get_context_length: max_position_embeddings, 8,194 of bge-m3; above 8,192 AITER takes its share."""
    plan = kvplan.estimate(BGE, engine="sglang", engine_version="0.5.4", device="mi300x", advise=False)
    assert plan.question["max_model_len"][0] == 8194
    assert any("AITER attention backend scales" in note for note in plan.model.notes)


def test_llama_4_is_refused_before_determinism_picks_a_backend() -> None:
    """0.5.4 server_args.py __post_init__: model-specific adjustments first, deterministic inference last."""
    option = {"enable_deterministic_inference": "true"}
    for version, there in (("0.5.4", True), ("0.5.7", False)):
        assert bool(stopped("meta-llama/llama-4-scout-17b-16e", version, tp=8, engine_option=option)) is there


def test_one_pool_of_states_alone() -> None:
    """0.5.19 unified_memory_pool.py SubPoolSpec: layer_num must be positive; got 0."""
    found = stopped("tiiuae/falcon-mamba-7b", "0.5.23", engine_option={"enable_unified_memory": "true"})
    assert "layer_num must be positive" in (found or "")


def test_determinism_keeps_prefixes_off_before_or_after_the_tier_is_looked_at() -> None:
    """server_args.py __post_init__: _handle_cache_compatibility before _handle_deterministic_inference to 0.5.11, after it from 0.5.12."""
    option = {"enable_deterministic_inference": "true", "enable_hierarchical_cache": "true", "attention_backend": "flashinfer"}
    for version, there in (("0.5.7", False), ("0.5.11", False), ("0.5.12", True)):
        assert bool(stopped("qwen/qwen3-32b", version, engine_option=option)) is there
    assert stopped("qwen/qwen3-32b", "0.5.7", engine_option=option | {"disable_radix_cache": "true"})


@pytest.mark.parametrize(
    ("model", "version", "takes"),
    [  # arg_groups/model_overrides/gemma4.py and olmo2.py; Llama has AITER's
        ("google/gemma-4-e2b", "0.5.23", False),
        ("google/gemma-4-e2b", "0.5.12", False),
        (LLAMA, "0.5.23", True),
    ],
)
def test_classes_with_triton_on_amd_gpus(model: str, version: str, takes: bool) -> None:
    plan = kvplan.estimate(model, engine="sglang", engine_version=version, device="mi300x", context=32768, advise=False)
    assert any("AITER attention backend scales" in note for note in plan.model.notes) is takes


def test_determinism_meets_a_backend_that_the_class_has_set() -> None:
    """0.5.18 arg_groups/overrides.py _qwen3_5_hybrid_overrides: trtllm_mha beside drafts on a B200, else Triton's kernels."""
    option = {"enable_deterministic_inference": "true"}
    drafted = stopped("qwen/qwen3.5-27b", "0.5.18", device="b200", speculative="nextn:2", engine_option=option)
    assert "supported for deterministic inference" in (drafted or "")
    assert stopped("qwen/qwen3.5-27b", "0.5.18", device="b200", engine_option=option) is None


def test_a_diffusion_algorithm_is_for_diffusion_models() -> None:
    """dllm/config.py DllmConfig.from_server_args."""
    option = {"dllm_algorithm": "LowConfidence"}
    for version in ("0.5.6", "0.5.23"):
        assert "Unknown diffusion LLM: LlamaForCausalLM" in (stopped(LLAMA, version, engine_option=option) or "")
