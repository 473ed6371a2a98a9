"""Adapters, engine by engine: arithmetic written out from the engines' own buffers.

Llama 3.1 8B has 32 layers: q and o 4,096 x 4,096, k and v 1,024 x 4,096, gate, up and down between 4,096 and 14,336.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from tests.conftest import planned

LLAMA = "meta-llama/llama-3.1-8b"
WHOLE = 32 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336))
HALVED = 32 * ((4096 + 2048) + 2 * (4096 + 512) + (2048 + 4096) + 2 * (4096 + 7168) + (7168 + 4096))  # tp 2


def slots(engine: str, name: str = "LoRA slots", model: str = LLAMA, **question: Any) -> int:
    plan = planned(model, engine=engine, context=4096, lora="16x4", **{"device": "h100", **question})
    return sum(e.bytes for e in plan.ledgers[0].entries if e.name == name)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_slots_of_every_adapted_matrix(engine: str) -> None:
    assert slots(engine) == 4 * 16 * WHOLE * 2
    assert slots(engine, tp=2) == 4 * 16 * HALVED * 2


def test_target_modules() -> None:
    chosen = {"lora_target_modules": "q_proj,v_proj"}
    assert slots("vllm", engine_option=chosen) == 4 * 16 * 32 * (4096 + 4096 + 4096 + 1024) * 2
    # SGLang's buffers are those of qkv_proj, whichever of the three is named (lora/utils.py get_normalized_target_modules)
    assert slots("sglang", engine_option=chosen) == 4 * 16 * 32 * (3 * 4096 + 4096 + 2 * 1024) * 2


def test_modules_that_sglang_names_by_its_buffers() -> None:
    # utils/common.py SUPPORTED_LORA_TARGET_MODULES: those of layers as they are stored, and the vocabulary's
    fused, apart = ({"lora_target_modules": names} for names in ("qkv_proj", "q_proj,v_proj"))
    assert slots("sglang", engine_option=fused) == slots("sglang", engine_option=apart)
    assert slots("sglang", engine_option={"lora_target_modules": "gate_up_proj,lm_head"}) == 4 * 16 * 32 * (2 * 4096 + 2 * 14336) * 2


def test_the_pages_of_tensorrt_llm() -> None:
    # peftCacheManager.cpp: modules are 8,192 (q, o), 5,120 (k, v) and 18,432 wide, a page slot 5,120; 2 + 1 + 1 + 2 + 4 + 4 + 4 slots a row
    # and layer, 8 rows to a page; 16 ranks x 224 modules x 4 adapters of 4 slots each
    per_page = 8 * 18 * 32
    pages = -(-16 * 224 * 4 * 4 // per_page)
    assert slots("tensorrt-llm", "LoRA cache") == pages * per_page * 5120 * 2


def test_llama_cpp_loads_adapters_beside_the_layers_they_adapt() -> None:
    assert slots("llama.cpp") == 4 * 16 * WHOLE * 2
    assert slots("llama.cpp", n_gpu_layers=17, host_memory="64GiB") == 4 * 16 * WHOLE // 2 * 2  # 16 of 32 layers beside the output


def test_transformers_and_mlx_keep_them_in_f32() -> None:
    assert slots("transformers") == slots("mlx-lm", device="apple-m4-max-128gb") == 4 * 16 * WHOLE * 4


def test_lmdeploy_by_its_backend() -> None:
    assert slots("lmdeploy", engine_option={"backend": "pytorch"}) == 4 * 16 * WHOLE * 2
    plan = planned(LLAMA, engine="lmdeploy", context=4096, lora="16x4", device="h100")
    assert any("TurboMind loads no adapters" in note for note in plan.model.notes)


def test_a_module_that_is_none() -> None:
    with pytest.raises(kvplan.errors.SpecError, match="lora_target_modules"):
        slots("vllm", engine_option={"lora_target_modules": "banana"})


EXPERTS, VOCABULARY = "LoRA slots of experts", "LoRA slots of the vocabulary"


def test_vllm_stacks_factors_of_every_expert() -> None:
    # lora/layers/fused_moe.py: 48 layers of 128 experts, gate and up 768 x 2,048, down 2,048 x 768; ranks split the 768 or the experts
    name, elements = "qwen/qwen3-30b-a3b", 4 * 16 * 48 * 128
    assert slots("vllm", EXPERTS, name) == elements * 3 * (2048 + 768) * 2
    assert slots("vllm", EXPERTS, name, tp=2) == elements * 3 * (2048 + 384) * 2
    assert slots("vllm", EXPERTS, name, tp=2, ep=2) == elements // 2 * 3 * (2048 + 768) * 2
    assert slots("vllm", EXPERTS, name, engine_version="0.11.0") == 0
    assert slots("vllm", EXPERTS, name, engine_version="0.23.0", engine_option={"lora_target_modules": "q_proj"}) == 0


def test_vllm_fused_experts_share_a_first_factor() -> None:
    # FusedMoE3DWithLoRA: 24 layers of 32 experts, gate and up one matrix, all sides 2,880; two matrices before 0.12
    assert slots("vllm", EXPERTS, "openai/gpt-oss-20b") == 4 * 16 * 24 * 32 * ((2880 + 2 * 2880) + (2880 + 2880)) * 2
    assert slots("vllm", EXPERTS, "openai/gpt-oss-20b", engine_version="0.11.2") == 4 * 16 * 24 * 32 * 3 * (2880 + 2880) * 2


def test_vllm_stacks_factors_of_the_vocabulary() -> None:
    # vocal_parallel_embedding.py, logits_processor.py: (vocabulary + hidden) x rank for each of embedding and head, whole on every rank;
    # up to 0.11 also 256 rows of added tokens for each, and those tokens' first factor in the embedding
    one = 16 * (128256 + 4096)
    assert slots("vllm", VOCABULARY) == slots("vllm", VOCABULARY, tp=2) == 4 * 2 * one * 2
    assert slots("vllm", VOCABULARY, engine_version="0.11.2") == 4 * (2 * (one + 256 * 4096) + 256 * 16) * 2
    assert slots("vllm", VOCABULARY, engine_option={"lora_target_modules": "q_proj"}) == 0


@pytest.mark.parametrize(("release", "head", "embedding"), [("0.33.0", 1, 1), ("0.29.0", 0, 0)])
def test_vllm_adapts_what_is_named(release: str, head: int, embedding: int) -> None:
    """model_manager.py _create_lora_modules: a module whose name ends in one of --lora-target-modules; from 0.30 on also one that is not
    among `embedding_modules`, as Qwen 2.5's (152,064 x 3,584); a router is mlp.gate, the experts' runner mlp.experts."""
    name, elements = "qwen/qwen3-30b-a3b", 4 * 16 * 48 * 128
    only: dict[str, Any] = {"engine_version": release, "engine_option": {"lora_target_modules": "q_proj,experts,gate,lm_head"}}
    assert slots("vllm", EXPERTS, name, **only) == elements * 3 * (2048 + 768) * 2
    assert slots("vllm", "LoRA slots", name, **only) == 4 * 16 * 48 * (2048 + 4096) * 2
    assert slots("vllm", "LoRA slots of routers", name, **only) == 4 * 16 * 48 * (2048 + 128) * 2
    assert slots("vllm", VOCABULARY, name, **only) == 4 * 16 * (151936 + 2048) * 2
    for module, counted in (("lm_head", head), ("embed_tokens", embedding)):
        only = {"engine_version": release, "engine_option": {"lora_target_modules": module}}
        assert slots("vllm", VOCABULARY, "qwen/qwen2.5-7b", **only) == counted * 4 * 16 * (152064 + 3584) * 2


@pytest.mark.parametrize("module", ["experts", "lm_head", "embed_tokens"])
def test_a_command_that_names_them(module: str, tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    words = "vllm serve Qwen/Qwen3-30B-A3B --enable-lora --max-lora-rank 64 --max-loras 8 --lora-target-modules q_proj"
    script.write_text(f"{words} {module}\n")
    (verdict,) = kvplan.check(script, device="h100")
    assert verdict.found is not None
    assert verdict.found.question["engine_option"]["lora_target_modules"] == f"q_proj,{module}"
    assert (verdict.status == "fits") == (module != "experts")
    assert not any(finding.rule.startswith("not-modelled") for finding in verdict.findings)
    script.write_text(f"{words} shared_expert_gate\n")
    (verdict,) = kvplan.check(script, device="h100")
    assert any(finding.rule == "not-modelled-more" for finding in verdict.findings)


def test_whose_vocabulary_vllm_adapts() -> None:
    # embedding_modules: Qwen 3 from 0.16 on (151,936 x 4,096), Qwen 2.5 never, Mistral not since it has a class of its own
    assert slots("vllm", VOCABULARY, "qwen/qwen3-8b", engine_version="0.16.0") == 4 * 2 * 16 * (151936 + 4096) * 2
    assert slots("vllm", VOCABULARY, "qwen/qwen3-8b", engine_version="0.15.0") == 0
    assert slots("vllm", VOCABULARY, "qwen/qwen2.5-7b") == 0
    assert slots("vllm", VOCABULARY, "mistralai/mistral-7b-instruct-v0.3", engine_version="0.14.0") > 0
    assert slots("vllm", VOCABULARY, "mistralai/mistral-7b-instruct-v0.3", engine_version="0.15.0") == 0


def test_vllm_captures_graphs_with_adapters_and_without() -> None:
    # vllm#25914, in 0.11.1: 1.62 GiB became 2.38; at most twice as many graphs take twice as much
    def graphs(version: str, lora: str) -> Any:
        plan = planned(LLAMA, engine="vllm", engine_version=version, context=4096, lora=lora, device="h100")
        return next(e for e in (*plan.ledgers[0].entries, *plan.ledgers[0].outside) if e.name == "CUDA graphs")

    alone, both = graphs("0.23.0", "off"), graphs("0.23.0", "16x1")
    assert both.bytes / alone.bytes == pytest.approx(2.38 / 1.62, rel=1e-6)
    assert (both.low, both.high) == (alone.low, pytest.approx(2 * alone.high, abs=1))
    assert graphs("0.11.0", "16x1") == graphs("0.11.0", "off")


def test_ten_narrow_adapters_on_a_large_card() -> None:
    """Logged (stannum13/adapter-cache-tradeoffs, vLLM 0.23.0, Qwen2.5 7B on an H100, ten slots of rank 8): 53.34 GiB of cache."""
    question: dict[str, Any] = {"engine_version": "0.23.0", "memory_fraction": 0.9, "max_model_len": 4096}
    plan = planned("Qwen/Qwen2.5-7B-Instruct", engine="vllm", device="h100-80gb", lora="8x10", **question)
    kv = next(e for e in plan.ledgers[0].entries if e.name == "KV cache")
    assert kv.low < 53.34 * 2**30 < kv.high


def test_modules_that_a_file_of_tensorrt_llm_names(tmp_path: Path) -> None:
    """Q and V alone of Llama 3.1 8B, by TensorRT-LLM's own names; one that is not counted apart is said."""
    (tmp_path / "lora.yaml").write_text("lora_config: {max_lora_rank: 16, max_loras: 4, lora_target_modules: [attn_q, attn_v]}\n")
    script = tmp_path / "serve.sh"
    script.write_text("trtllm-serve meta-llama/Llama-3.1-8B-Instruct --extra_llm_api_options lora.yaml\n")
    (verdict,) = kvplan.check(script, device="h100")
    assert verdict.found is not None
    assert verdict.found.question["engine_option"]["lora_target_modules"] == "q_proj,v_proj"
    (tmp_path / "lora.yaml").write_text("lora_config: {max_lora_rank: 16, max_loras: 4, lora_target_modules: [moe_gate]}\n")
    (verdict,) = kvplan.check(script, device="h100")
    assert any("not of moe_gate" in finding.message for finding in verdict.findings)


def test_vllm_adapts_every_linear_layer_of_qwen3_next() -> None:
    """lora/utils.py get_supported_lora_modules: all linear layers. qwen3_next.py: 48 layers of 2,048, every fourth of them attention.

    Attention: q_proj of 8,192 rows with its gates, K and V of 512, o_proj of 4,096 to 2,048. Delta nets: in_proj_qkvz of 12,288,
    in_proj_ba of 64, out_proj of 4,096, a convolution of 8,192 channels by 4. Every layer: a shared expert of 512, a router of 512 experts.
    """
    model, one = "qwen/qwen3-next-80b-a3b", 4 * 16 * 2
    shared = 3 * (2048 + 512)
    attention = (2048 + 8192) + 2 * (2048 + 512) + (4096 + 2048)
    net = (2048 + 12288) + (2048 + 64) + (4096 + 2048)
    assert slots("vllm", model=model, device="b300") == one * (12 * attention + 36 * net + 48 * shared)
    assert slots("vllm", "LoRA slots of delta nets", model, device="b300") == one * 36 * (4 + 8192)
    assert slots("vllm", "LoRA slots of routers", model, device="b300") == one * 48 * (2048 + 512)
    only = {"device": "b300", "engine_option": {"lora_target_modules": "q_proj,in_proj_qkvz"}}
    assert slots("vllm", model=model, **only) == one * (12 * (2048 + 8192) + 36 * (2048 + 12288))


def test_vllm_stacks_first_factors_of_qwen3_5() -> None:
    # create_qkvz_proj: four matrices, create_ba_proj: two; 64 layers of 5,120, three of four are nets with a convolution of 10,240 by 4
    extra = 48 * ((3 + 1) * 5120 + 4 + 10240)
    assert slots("vllm", "LoRA slots of delta nets", "qwen/qwen3.5-27b", engine_version="0.32.0") == 4 * 16 * 2 * extra
