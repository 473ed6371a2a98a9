"""Engine options that a question names as the engine does mean what they mean on its command line, in its file or its environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.errors import KvplanError, SpecError

LLAMA = "meta-llama/llama-3.1-8b"
#: Two of what SGLang's EAGLE is told have these names here too.
DRAFTS = {"speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
EAGLE = {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3, **DRAFTS}


def plan(engine: str, options: dict[str, Any], **question: Any) -> kvplan.Plan:
    return kvplan.estimate(LLAMA, engine=engine, device="h100-80gb", engine_option=options, advise=False, **question)


@pytest.mark.parametrize(
    ("engine", "theirs", "ours"),
    [
        ("vllm", {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}, {"engine_option": {"estimate_graphs": False}}),
        ("vllm", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, {"engine_option": {"allocator": "expandable_segments:True"}}),
        ("vllm", {"gpu_memory_utilization": 0.5, "max-num-seqs": 16}, {"memory_fraction": 0.5, "max_num_seqs": 16}),
        ("vllm", {"enable_lora": True, "max_lora_rank": 32, "max_loras": 4}, {"lora": "32x4"}),
        ("vllm", {"spec_method": "ngram", "spec_tokens": 3}, {"speculative": "ngram:3"}),
        ("vllm", {"no_enable_prefix_caching": True}, {"engine_option": {"enable_prefix_caching": False}}),
        ("sglang", EAGLE, {"speculative": "eagle:3", "engine_option": DRAFTS}),
        ("sglang", {"mem_fraction_static": 0.7, "disable_cuda_graph": True}, {"memory_fraction": 0.7, "enforce_eager": True}),
        ("tensorrt-llm", {"free_gpu_memory_fraction": 0.5}, {"memory_fraction": 0.5}),
        ("tensorrt-llm", {"kv_cache_config.free_gpu_memory_fraction": 0.5}, {"memory_fraction": 0.5}),
        ("llama.cpp", {"no_op_offload": True, "cache_type_k": "q8_0"}, {"kv_dtype": "q8_0/f16", "engine_option": {"op_offload": False}}),
        ("vllm", {"--max-num-seqs": 16, "tp": 2}, {"max_num_seqs": 16, "tp": 2}),
        ("vllm", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, {"speculative": "ngram:3"}),
        ("vllm", {"compilation_config.cudagraph_mode": "NONE", "compilation_config.mode": 0}, {"enforce_eager": True}),
        ("sglang", {"quantization": "fp8"}, {"weight_dtype": "fp8", "engine_option": {"quantization": "fp8"}}),
        ("tensorrt-llm", {"tp_size": 2, "kv-cache-free-gpu-memory-fraction": 0.5}, {"tp": 2, "memory_fraction": 0.5}),
        (
            "tensorrt-llm",
            {"kv_cache_config": {"free_gpu_memory_fraction": 0.5, "dtype": "fp8"}},
            {"memory_fraction": 0.5, "kv_dtype": "fp8"},
        ),
        ("llama.cpp", {"np": 4, "LLAMA_ARG_KV_OFFLOAD": 0}, {"max_num_seqs": 4, "engine_option": {"no_kv_offload": True}}),
        ("llama.cpp", {"no_kvu": True, "-c": 4096}, {"max_model_len": 4096, "engine_option": {"kv_unified": False}}),
        ("ollama", {"OLLAMA_NUM_PARALLEL": 4, "OLLAMA_SCHED_SPREAD": 1}, {"max_num_seqs": 4, "engine_option": {"sched_spread": True}}),
    ],
)
def test_they_are_what_they_set(engine: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    asked = kvplan.estimate(LLAMA, engine=engine, device="h100-80gb", advise=False, **ours)
    found = plan(engine, theirs)
    assert found.question == asked.question
    assert (found.ledgers, found.capacity) == (asked.ledgers, asked.capacity)


@pytest.mark.parametrize(
    ("engine", "option", "note"),
    [
        ("vllm", {"long_prefill_token_threshold": 4096}, "--long-prefill-token-threshold is taken to move no memory"),
        ("vllm", {"distributed_executor_backend": "ray", "max_num_seqs": 16}, "distributed_executor_backend changes nothing of the plan"),
        ("tensorrt-llm", {"enable_partial_reuse": True}, "kv_cache_config.enable_partial_reuse is taken to move no memory"),
        (
            "tensorrt-llm",
            {"max_beam_width": 4, "tp_size": 2},
            "not computed: --max_beam_width takes more memory in a way that is not modelled",
        ),
        ("llama.cpp", {"LLAMA_ARG_MMPROJ": "x.gguf"}, "not computed: -mm takes more memory in a way that is not modelled"),
        ("tensorrt-llm", {"moe_backend": "TRTLLM"}, "not computed: moe_backend changes memory in a way that is not modelled"),
    ],
)
def test_one_that_moves_nothing_is_said(engine: str, option: dict[str, Any], note: str) -> None:
    found = plan(engine, option)
    assert note in found.model.notes


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"VLLM_USE_V1": "1", "use_v1": "0"}, "VLLM_USE_V1 says the same, with another value"),
        ({"gpu_memory_utilization": 0.5}, "is said twice: 0.9 and 0.5"),
        ({"max_num_seqs": "many"}, "'many' is not a whole number"),
        ({"nnodes": 2}, "it is n_devices here"),
        ({"max_lora_rank": 32}, "it is lora here"),
    ],
)
def test_what_can_not_be_meant_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        plan("vllm", options, memory_fraction=0.9)


@pytest.mark.parametrize(
    ("option", "fraction", "said"),
    [
        ({"gpu_memory_utilization": 0.5}, 0.5, ""),
        ({"n_ubatch": 512}, 0.92, "n_ubatch = 512 is not modelled for vllm; the default is used"),
        ({"distributed_executor_backend": "ray"}, 0.92, "--distributed-executor-backend is taken to move no memory"),
        ({"distributed_executor_backend": "ray", "max_num_seqs": 9}, 0.92, "distributed_executor_backend changes nothing of the plan"),
    ],
)
def test_check_takes_them_beside_a_file(option: dict[str, Any], fraction: float, said: str, tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(f"vllm serve {LLAMA} --max-model-len 8192\n", encoding="utf-8")
    (verdict,) = kvplan.check(script, device="h100-80gb", engine_option=option)
    assert verdict.plan is not None
    assert verdict.plan.question["memory_fraction"][0] == fraction
    assert said in "; ".join(finding.message for finding in verdict.findings)
    with pytest.raises(SpecError, match="no engine has such an option"):
        kvplan.check(script, device="h100-80gb", engine_option={"foo": 1})
    with pytest.raises(KvplanError, match="memory_fraction is said twice"):
        kvplan.check(script, device="h100-80gb", memory_fraction=0.9, engine_option={"gpu_memory_utilization": 0.5})


_LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
_BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
_MISMATCH = (
    "Quantization method specified in the model config ({own}) does not match the quantization method specified in the `quantization`"
)


@pytest.mark.parametrize(
    ("engine", "stored", "method", "says"),
    [
        ("vllm", _AWQ, "fp8", _MISMATCH.format(own="awq")),
        ("vllm", _AWQ, "gptq", _MISMATCH.format(own="awq")),
        ("vllm", _AWQ, "compressed-tensors", _MISMATCH.format(own="awq")),
        ("vllm", _AWQ, "awq_marlin", ""),
        ("vllm", _BLOCKS, "awq", _MISMATCH.format(own="fp8")),
        ("vllm", _BLOCKS, "fp8", ""),
        ("vllm", None, "awq", "Cannot find the config file for awq"),
        ("vllm", None, "fp8", ""),
        ("sglang", _AWQ, "gptq", "Quantization method specified in the model config"),
        ("sglang", None, "gptq", "Cannot find the config file for gptq"),
    ],
)
def test_another_method_than_a_config_states_is_refused(
    engine: str, stored: dict[str, Any] | None, method: str, says: str, tmp_path: Path
) -> None:
    """vLLM config/model.py, SGLang configs/model_config.py _verify_quantization; model_loader/weight_utils.py get_quant_config: the same of
    a folder, of the spec that was read of it and of a release by its name."""
    (tmp_path / "config.json").write_text(json.dumps(_LLAMA | ({"quantization_config": stored} if stored else {})))
    spec = tmp_path / "spec.yaml"
    spec.write_text(kvplan.import_model(str(tmp_path)), encoding="utf-8")
    for model in (tmp_path, spec, *(("Qwen/Qwen2.5-7B-Instruct-AWQ",) if stored is _AWQ else (LLAMA,) if stored is None else ())):
        found = kvplan.estimate(model, engine=engine, device="h100-80gb", engine_option={"quantization": method})
        assert (says in found.verdict, found.starts) == (True, not says), found.verdict
        assert found.question["weight_dtype"][0] == ("fp8" if not stored and method == "fp8" else found.question["weight_dtype"][0])


def test_check_takes_a_list_of_them(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(f"vllm serve {LLAMA} --max-model-len 8192\n", encoding="utf-8")
    (verdict,) = kvplan.check(script, device="h100-80gb", engine_option=["max-num-seqs=16", "quantization=fp8"])
    assert verdict.plan is not None
    assert verdict.plan.question["max_num_seqs"][0] == 16
    assert verdict.plan.question["weight_dtype"][0] == "fp8"


def test_a_slot_s_own_length_makes_the_pool(tmp_path: Path) -> None:
    """llama.cpp: --kv-unified-per-slot N with -np S is a pool of S x N tokens."""
    script = tmp_path / "serve.sh"
    script.write_text("llama-server -m x.gguf -np 4 --kv-unified --kv-unified-per-slot 4096\n", encoding="utf-8")
    (verdict,) = kvplan.check(script, device="h100-80gb", models=[LLAMA])
    assert verdict.plan is not None
    assert verdict.plan.question["max_model_len"][0] == 16384


@pytest.mark.parametrize(
    ("model", "method", "format_", "bytes_"),
    [
        (LLAMA, "fp8_per_block", "fp8_block128", 1),
        (LLAMA, "fp8_per_channel", "fp8_channel", 1),
        (LLAMA, "int8_per_channel_weight_only", "bf16", 2),  # no experts
        ("qwen/qwen3-30b-a3b", "int8_per_channel_weight_only", "int8_channel", 2),
        ("qwen/qwen3-30b-a3b", "nvfp4_per_token", "nvfp4", 2),
    ],
)
def test_weights_that_vllm_makes_as_it_loads_them(model: str, method: str, format_: str, bytes_: int) -> None:
    """config/quantization.py _ONLINE_SHORTHANDS of 0.33: all matrices, or experts alone, whose attention stays in 16 bits."""
    found = kvplan.estimate(model, engine="vllm", engine_version="0.33.0", device="b200", engine_option={"quantization": method})
    plain = kvplan.estimate(model, engine="vllm", engine_version="0.33.0", device="b200")
    (attention, own) = (
        next(entry.bytes for entry in each.ledgers[0].entries if entry.name == "weights: attention") for each in (found, plain)
    )
    assert found.question["weight_dtype"][0] == format_
    assert attention == pytest.approx(own * bytes_ / 2, rel=0.01)


@pytest.mark.parametrize(
    ("version", "options", "starts"),
    [
        ("0.13.0", {}, True),
        ("0.33.0", {}, False),
        ("0.33.0", {"allow_deprecated_quantization": True}, True),
    ],
)
def test_a_checkpoint_in_a_method_that_releases_are_to_lose(version: str, options: dict[str, Any], starts: bool) -> None:
    """vLLM config/model.py _verify_quantization, DEPRECATED_QUANTIZATION_METHODS of 0.14 to 0.33: Meta's own FP8 is FBGEMM's."""
    found = kvplan.estimate(
        "meta-llama/Llama-3.1-405B-Instruct-FP8", engine="vllm", engine_version=version, device="b200", tp=8, max_model_len=8192,
        engine_option=options,
    )  # fmt: skip
    assert (found.starts, "is deprecated" in found.verdict) == (starts, not starts)
