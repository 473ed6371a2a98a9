"""SGLang's own checks, on both sides of each and in the releases around each change, as its source has them (file by each case)."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan import catalogue, engines
from kvplan.engines.common.stops import stop_of
from kvplan.engines.sglang.refusals import CHECKS
from kvplan.spec import ModelSpec
from tests.conftest import one_block, planned

GQA = {"kind": "gqa", "heads": 40, "kv_heads": 10, "head_dim": 128}


def gqa(**more: Any) -> ModelSpec:
    block = {"mixers": [GQA], "mlps": [{"kind": "dense", "intermediate_size": 17920}]}
    return one_block(None, hidden=5120, blocks={"block": block}, max_context=32768, **more)


def stopped(model: str | ModelSpec, version: str, **question: Any) -> str | None:
    """What SGLang of that release says to it; None where no check stops it."""
    question = {"device": "h100-80gb", **question}
    _, settled = engines.settle(kvplan.deployment(model, engine="sglang", engine_version=version, **question))
    return stop_of(CHECKS, settled)


@pytest.mark.parametrize(
    ("tp", "dp", "said"),
    [
        (3, None, "assert self.total_num_heads % tp_size == 0 (40 query heads over 3 attention ranks)"),
        (8, None, "assert self.total_num_kv_heads % tp_size == 0 (10 KV heads over 8 attention ranks)"),  # models/llama.py, 0.4.3 to 0.5.23
        (5, None, None),
        (2, None, None),
        (8, 4, None),  # attention data parallelism: two attention ranks each
    ],
)
def test_heads(tp: int, dp: int | None, said: str | None) -> None:
    option = {"enable_dp_attention": "true"} if dp else {}
    for version in ("0.4.3", "0.5.6", "0.5.23"):
        assert stopped(gqa(), version, tp=tp, dp=dp, engine_option=option) == said


@pytest.mark.parametrize(
    ("version", "sizes", "said"),
    [
        # distributed/parallel_state.py: 4 // 3 = 1 group of ranks 0 to 2, so that rank 3 has none (0.4.10, 0.5.9, 0.5.23)
        ("0.4.10", {"ep": 3}, "assert self.cpu_group is not None (4 ranks in expert groups of 3)"),
        ("0.5.23", {"ep": 8}, "assert self.cpu_group is not None (4 ranks in expert groups of 8)"),
        ("0.5.23", {"ep": 2}, None),
        ("0.4.6", {"ep": 3}, None),  # server_args.py: --enable-ep-moe alone sets ep_size, to tp
        ("0.5.18", {"dcp": 3}, "tensor_model_parallel_size (4) must be divisible by decode_context_parallel_size (3)"),
    ],
)
def test_ranks_that_are_left_over(version: str, sizes: dict[str, int], said: str | None) -> None:
    model = one_block({"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}, max_context=32768)
    assert stopped(model, version, tp=4, **sizes) == said


@pytest.mark.parametrize(
    ("version", "chunk", "said"),
    [
        ("0.4.5", 1000, None),
        ("0.4.6", 1000, "assert self.chunked_prefill_size % self.page_size == 0 (chunks of 1000 tokens, pages of 64)"),  # server_args.py
        ("0.4.10", 1000, "chunked_prefill_size must be divisible by page_size (chunks of 1000 tokens, pages of 64)"),  # check_server_args
        ("0.5.23", 1000, "chunked_prefill_size must be divisible by page_size (chunks of 1000 tokens, pages of 64)"),
        ("0.5.23", 1024, None),
    ],
)
def test_chunks_of_whole_pages(version: str, chunk: int, said: str | None) -> None:
    assert stopped(gqa(), version, max_num_batched_tokens=chunk, block_size=64) == said


@pytest.mark.parametrize(
    ("version", "method", "pp", "stops"),
    [
        ("0.4.3", "eagle:3", 2, False), ("0.4.7", "eagle:3", 2, True), ("0.4.8", "eagle:3", 2, True),
        ("0.5.18", "eagle:3", 2, True), ("0.5.20", "eagle:3", 2, True),
        ("0.5.23", "eagle:3", 2, True), ("0.5.20", "ngram:3", 2, True), ("0.5.20", "ngram:3", 1, False), ("0.5.18", "eagle:3", 1, False),
    ],
)  # fmt: skip
def test_stages_and_drafts(version: str, method: str, pp: int, stops: bool) -> None:
    """server_args.py check_server_args to 0.5.18, arg_groups/validation_hook.py from 0.5.20."""
    model = one_block(GQA, n_layers=4, hidden=5120, max_context=32768)
    assert ((stopped(model, version, pp=pp, speculative=method) or "").startswith(("Pipeline parallelism", "PP + speculative"))) is stops


@pytest.mark.parametrize(
    ("version", "tp", "ep", "said"),
    [
        # 768 / 4 = 192 is no multiple of 128; model_runner.py check_quantized_moe_compatibility from 0.5.6, fp8.py before
        ("0.5.3", 4, None, "The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128."),
        ("0.5.6", 4, None, "For quantized MoE models, please make sure (moe_intermediate_size=768 / moe_tp_size=4) % "
         "weight_block_size_n=128 == 0 where moe_tp_size is equal to tp_size (4) divided by ep_size (1)."),
        ("0.5.23", 4, 4, None),
        ("0.5.23", 2, None, None),
        ("0.5.3", 2, None, None),
    ],
)  # fmt: skip
def test_fp8_experts(version: str, tp: int, ep: int | None, said: str | None) -> None:
    assert stopped("qwen/qwen3-30b-a3b-fp8", version, tp=tp, ep=ep) == said


def test_blocks_that_a_class_does_not_check() -> None:
    """MiMo-V2-Flash at tp 4: one KV head a rank, 192 wide. sglang 0.5.9 models/mimo_v2_flash.py: skip_block_quant_check."""
    spec = catalogue.find_model("xiaomimimo/mimo-v2-flash")
    assert stopped(spec, "0.5.23", tp=4) is None
    said = "Weight output_partition_size = 192 is not divisible by weight quantization block_n = 128."
    assert stopped(spec.changed(architecture="AnotherForCausalLM"), "0.5.23", tp=4) == said


@pytest.mark.parametrize(
    ("format_", "device", "version", "least"),
    [
        ("fp8", "t4", "0.5.23", 80), ("fp8", "a10g", "0.5.23", None),  # quantization/fp8.py, 0.4.3 on
        ("awq", "t4", "0.5.23", None), ("nvfp4", "h100-80gb", "0.5.12", 100), ("nvfp4", "h100-80gb", "0.5.15", None),
        ("nvfp4", "t4", "0.5.18", 80), ("nvfp4", "b200", "0.5.12", None),  # modelopt_quant.py ModelOptFp4Config
    ],
)  # fmt: skip
def test_capability(format_: str, device: str, version: str, least: int | None) -> None:
    said = stopped(gqa(), version, weight_dtype=format_, device=device)
    assert said is None if least is None else said is not None and f"Minimum capability: {least}. Current capability: " in said


def test_gpus_that_are_too_old() -> None:
    """model_runner.py load_model reads the minor number of those below 8.0."""
    assert (stopped(gqa(), "0.5.23", device="v100-16gb") or "").startswith("SGLang only supports sm75 and above.")
    assert stopped(gqa(), "0.5.23", device="t4") is None


def test_flash_attention_3() -> None:
    """layers/attention/attention_registry.py: 8.x without latent attention, or 9.x."""
    ask = {"engine_option": {"attention_backend": "fa3"}}
    assert (stopped(gqa(), "0.5.23", device="b200", **ask) or "").startswith("FlashAttention v3 Backend requires SM>=80 and SM<=90.")
    assert stopped(gqa(), "0.5.23", device="a10g", **ask) is None
    assert stopped(gqa(), "0.5.23", **ask) is None
    assert "FlashAttention v3" in (stopped("deepseek-ai/deepseek-v2-lite", "0.5.23", device="a10g", **ask) or "")


def test_length() -> None:
    """configs/model_config.py _derive_context_length: warned of before 0.5.1, in 0.5.0rc2 too (its default is True)."""
    assert stopped(gqa(), "0.4.10", context=32769) is None
    assert stopped(gqa(), "0.5.0", context=32769) is None
    assert "greater than the derived context_length (32768)" in (stopped(gqa(), "0.5.1", context=32769) or "")
    assert "greater than the derived context_length (32768)" in (stopped(gqa(), "0.5.2", context=32769) or "")
    assert stopped(gqa(), "0.5.1", context=32768) is None


def test_a_question_about_the_cache_alone() -> None:
    plan = planned("microsoft/phi-4", tp=8, engine="sglang", context=4096, kv_memory="8GiB")
    assert plan.starts
    assert plan.outcome.capacity is not None
    assert any("10 KV heads over 8 attention ranks" in warning for warning in plan.outcome.capacity.warnings)


@pytest.mark.parametrize(
    ("model", "version", "said"),
    [
        # sglang issue 28826: qk_rope_head_dim is 192 there, the first projection 2048 + 512 + 192 rows; transformers 5.6.0 and 5.8.1 map
        # head_dim to it, sglang 0.5.13 mends it (configs/model_config.py), transformers 5.3.0 of 0.5.10 does not map it
        ("zai-org/GLM-5.3", "0.5.10", None),
        ("zai-org/GLM-5.3", "0.5.11", "param.shape=torch.Size([2752, 6144])"),
        ("zai-org/GLM-5.2-FP8", "0.5.12", "param.shape=torch.Size([2752, 6144])"),
        ("zai-org/GLM-5.3", "0.5.13", None),
        ("zai-org/GLM-5", "0.5.12", None),  # its head_dim is that of the rotary part, 64
        # configs/nemotron_h.py NemotronHConfig: no layers_block_type before 0.5.10, and "M-M-M-M*-..." where no pattern is given
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "0.5.9", "KeyError: 'model.layers.1.mixer.experts.w13_weight'"),
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "0.5.10", None),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0.5.9", None),  # by letters
    ],
)
def test_configs_that_a_release_reads_otherwise(model: str, version: str, said: str | None) -> None:
    found = stopped(model, version, tp=8)
    assert found == said if said is None else found is not None and found.startswith(said)


def test_the_cache_of_a_config_that_is_read_otherwise_is_what_the_release_makes_of_it() -> None:
    asked = {"engine": "sglang", "engine_version": "0.5.12", "device": "h200", "tp": 8, "kv_memory": 64 << 30, "context": 4096}
    plan = planned("zai-org/GLM-5.3", **asked)
    assert plan.capacity is not None
    assert any("the weights would not load: param.shape" in warning for warning in plan.capacity.warnings)


HICACHE = {"enable_hierarchical_cache": "true"}
LLAMA, GPT, FLASH4 = "meta-llama/llama-3.1-8b", "openai/gpt-oss-20b", "deepseek-ai/deepseek-v4-flash"


@pytest.mark.parametrize(
    ("model", "version", "asked", "said"),
    [
        # texts of the wheels of 0.5.3 to 0.5.23; between which two of them each came is tried on both sides
        (LLAMA, "0.5.3", {"engine_option": HICACHE | {"disable_radix_cache": "true"}},
         "The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive and cannot be used at the same time."),
        (LLAMA, "0.5.23", {"engine_option": HICACHE}, None),
        (LLAMA, "0.5.23", {"engine_option": HICACHE, "tp": 4, "dcp": 2}, "HiCache with --dcp-size > 1 is only supported for MLA models"),
        ("deepseek-ai/deepseek-v3", "0.5.23", {"engine_option": HICACHE, "tp": 8, "dcp": 2, "device": "h200"}, None),
        (GPT, "0.5.23", {"engine_option": {"swa_full_tokens_ratio": "1.5"}}, "--swa-full-tokens-ratio should be in range (0, 1.0]. (1.5)"),
        (GPT, "0.5.23", {"engine_option": {"swa_full_tokens_ratio": "1"}}, None),
        (LLAMA, "0.5.16", {"kv_dtype": "mxfp8"}, "--kv-cache-dtype mxfp8 requires an SM100+ (Blackwell) GPU (this GPU has 9.0)"),
        (LLAMA, "0.5.16", {"kv_dtype": "mxfp8", "device": "b200"}, None),
        (FLASH4, "0.5.12", {"speculative": "ngram:4", "tp": 8}, "Only EAGLE speculative algorithm is supported for DeepseekV4ForCausalLM"),
        (FLASH4, "0.5.23", {"speculative": "ngram:4", "tp": 8},
         "Only EAGLE and DSPARK speculative algorithms are supported for DeepseekV4ForCausalLM"),
        (FLASH4, "0.5.23", {"speculative": "mtp:1", "tp": 8}, None),
        (LLAMA, "0.5.9", {"speculative": "ngram:4", "engine_option": {"attention_backend": "flex_attention"}},
         "Speculative decoding is currently not supported with Flex Attention backend"),
        (LLAMA, "0.5.3", {"speculative": "ngram:4"}, None),
        (LLAMA, "0.4.10", {"engine_option": {"attention_backend": "trtllm_mha"}, "device": "b200"},
         "argument --attention-backend: invalid choice: 'trtllm_mha'"),
        (LLAMA, "0.5.3", {"engine_option": {"attention_backend": "trtllm_mha"}, "device": "b200"}, None),
        (LLAMA, "0.4.10", {"engine_option": {"disable_chunked_prefill": "true"}, "block_size": 16},
         "chunked_prefill_size must be divisible by page_size (chunks of -1 tokens, pages of 16)"),
        (LLAMA, "0.4.10", {"engine_option": {"disable_chunked_prefill": "true"}}, None),
        (LLAMA, "0.5.2", {"engine_option": {"disable_chunked_prefill": "true"}, "block_size": 16}, None),
        ("deepseek-ai/deepseek-v3", "0.4.10", {"engine_option": {"attention_backend": "trtllm_mla"}, "tp": 8, "device": "h200"},
         "TRTLLM MLA backend is only supported on Blackwell GPUs (this GPU has 9.0)"),
        (GPT, "0.5.23", {"engine_option": {"attention_backend": "flashinfer"}}, "GptOssForCausalLM requires one of (not flashinfer)"),
        (GPT, "0.5.23", {"engine_option": {"attention_backend": "triton"}}, None),
        ("google/gemma-4-e2b-it", "0.5.23", {"engine_option": {"attention_backend": "flashinfer"}},
         "Gemma4 only supports trtllm_mha, triton (not flashinfer)"),
        ("google/gemma-4-e2b-it", "0.5.12", {"engine_option": {"attention_backend": "flashinfer"}}, None),
        ("meta-llama/llama-4-scout-17b-16e", "0.5.23", {"engine_option": {"attention_backend": "flashinfer"}, "tp": 8},
         "... is required for Llama4 model but got flashinfer"),
        ("meta-llama/llama-4-scout-17b-16e", "0.5.23", {"tp": 8}, None),
        ("deepseek-ai/deepseek-v3", "0.5.18", {"lora": "16x2", "speculative": "mtp:1", "tp": 8, "device": "h200"},
         "Currently LoRA is only compatible with NGRAM speculative decoding. (not mtp)"),
        ("deepseek-ai/deepseek-v3", "0.5.19", {"lora": "16x2", "speculative": "mtp:1", "tp": 8, "device": "h200"}, None),
        (LLAMA, "0.5.18", {"lora": "16x2", "speculative": "ngram:4"}, None),
    ],
)  # fmt: skip
def test_settings_that_exclude_each_other(model: str, version: str, asked: dict[str, Any], said: str | None) -> None:
    """server_args.py; from 0.5.19 on arg_groups/{kv_cache,hicache,deepseek_v4,attention,model,lora}_hook.py."""
    assert stopped(model, version, **asked) == said


@pytest.mark.parametrize(
    ("version", "model", "options", "said"),
    [
        # what each release's own ServerArgs said to these (jobs drawn over five hybrids, 0.5.9, 0.5.12 and 0.5.23)
        ("0.5.9", "nemotron", {"strategy": "extra_buffer"}, "mamba extra_buffer is not supported for NemotronHForCausalLM model"),
        ("0.5.12", "nemotron", {"strategy": "extra_buffer", "disable_radix_cache": "true"},
         "mamba extra_buffer is not supported for NemotronHForCausalLM model"),
        ("0.5.23", "nemotron", {"strategy": "extra_buffer"}, None),
        ("0.5.12", "qwen", {"strategy": "extra_buffer", "disable_radix_cache": "true"},
         "mamba extra_buffer is not compatible with --disable-radix-cache"),
        ("0.5.9", "qwen", {"strategy": "extra_buffer", "disable_radix_cache": "true"}, None),
        ("0.5.23", "qwen", {"strategy": "extra_buffer", "disable_radix_cache": "true"}, None),
        ("0.5.23", "qwen", {"strategy": "no_buffer"},
         "no_buffer do not support overlap schedule. Try to set disable_overlap_schedule=True."),
        ("0.5.23", "qwen", {"strategy": "no_buffer", "disable_overlap_schedule": "true"}, None),
        ("0.5.23", "qwen", {"strategy": "no_buffer", "disable_radix_cache": "true"}, None),
        ("0.5.12", "qwen", {"strategy": "no_buffer"}, None),
        ("0.5.23", "qwen", {"strategy": "extra_buffer_lazy", "disable_overlap_schedule": "true"},
         "Lazy extra buffer requires overlap schedule (--disable-overlap-schedule is incompatible)"),
        ("0.5.23", "qwen", {"strategy": "extra_buffer_lazy"}, None),
    ],
)  # fmt: skip
def test_strategies_for_states_beside_prefixes(version: str, model: str, options: dict[str, str], said: str | None) -> None:
    name = {"nemotron": "nvidia/nemotron-3-nano-30b-a3b", "qwen": "qwen/qwen3.6-27b"}[model]
    told = {"mamba_radix_cache_strategy" if key == "strategy" else key: value for key, value in options.items()}
    assert stopped(name, version, block_size=1, tp=2, engine_option=told) == said
