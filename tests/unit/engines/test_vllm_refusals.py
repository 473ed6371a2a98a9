"""vLLM's own checks, on both sides of each and in the releases around each change, as its source has them (file by each case)."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan import catalogue, engines
from kvplan.engines.common.stops import stop_of
from kvplan.engines.vllm.refusals import CHECKS
from kvplan.spec import ModelSpec
from tests.conftest import one_block, planned

GQA = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}


def gqa(heads: int = 32, kv_heads: int = 8, width: int = 14336, **more: Any) -> ModelSpec:
    block = {"mixers": [{**GQA, "heads": heads, "kv_heads": kv_heads}], "mlps": [{"kind": "dense", "intermediate_size": width}]}
    return one_block(None, hidden=4096, blocks={"block": block}, max_context=32768, **more)


def stopped(model: str | ModelSpec, version: str, **question: Any) -> str | None:
    """What vLLM of that release says to it; None where no check stops it."""
    question = {"device": "h100-80gb", **question}
    _, settled = engines.settle(kvplan.deployment(model, engine="vllm", engine_version=version, **question))
    return stop_of(CHECKS, settled)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "tp", "said"),
    [
        (40, 8, 3, "Total number of attention heads (40) must be divisible by tensor parallel size (3)."),  # config/model.py, 0.33
        (40, 10, 8, "assert self.total_num_kv_heads % tp_size == 0 (10 KV heads over 8 ranks)"),  # models/llama.py, 0.33
        (28, 4, 7, "assert tp_size % self.total_num_kv_heads == 0 (4 KV heads over 7 ranks)"),
        (40, 10, 10, None),
        (40, 10, 5, None),
        (28, 4, 4, None),
        (32, 8, 16, None),  # copied twice
    ],
)
def test_heads(heads: int, kv_heads: int, tp: int, said: str | None) -> None:
    assert stopped(gqa(heads, kv_heads, width=13440 * 8), "0.33", tp=tp) == said


@pytest.mark.parametrize(
    ("version", "width", "tp", "said"),
    [
        ("0.9.2", 11008, 3, None),  # 32 heads stop it before
        ("0.9.2", 13696, 2, None),
        ("0.9.2", 11008, 128, None),
        ("0.9.2", 4302, 4, "assert all(output_size % tp_size == 0 for output_size in output_sizes) (a width of 4302 over 4 ranks)"),
        ("0.10.0", 4302, 4, "assert all(output_size % self.tp_size == 0 for output_size in output_sizes) (a width of 4302 over 4 ranks)"),
        ("0.33", 4302, 4, "assert all(output_size % self.tp_size == 0 for output_size in output_sizes) (a width of 4302 over 4 ranks)"),
        ("0.33", 4304, 4, None),
    ],
)
def test_widths(version: str, width: int, tp: int, said: str | None) -> None:
    """model_executor/layers/linear.py MergedColumnParallelLinear.__init__."""
    found = stopped(gqa(width=width), version, tp=tp)
    assert found == said or (said is None and found is not None and "attention heads" in found)


@pytest.mark.parametrize(
    ("version", "tp", "ep", "said"),
    [
        # 768 / 4 = 192 is no multiple of 128: vllm-project/vllm#25292
        ("0.6.5", 4, None, None),
        ("0.6.6", 4, None, "The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128."),
        ("0.33", 4, None, "The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128."),
        ("0.33", 2, None, None),
        ("0.33", 4, 4, None),  # experts whole
    ],
)
def test_fp8_experts(version: str, tp: int, ep: int | None, said: str | None) -> None:
    """model_executor/layers/quantization/fp8.py Fp8MoEMethod.create_weights; the class is one that all of these releases have."""
    model = catalogue.find_model("qwen/qwen3-30b-a3b-fp8").changed(architecture="Qwen2MoeForCausalLM")
    assert stopped(model, version, tp=tp, ep=ep) == said


def test_fp8_blocks_of_one_matrix() -> None:
    """DeepSeek-V3's first layers are 18432 wide: 576 a rank over 32 (vllm-project/vllm#12256: tp 32 does not start), 1152 over 16."""
    said = stopped("deepseek-ai/deepseek-v3", "0.7", tp=32)
    assert said == "Weight output_partition_size = 576 is not divisible by weight quantization block_n = 128."
    assert stopped("deepseek-ai/deepseek-v3", "0.7", tp=16) is None


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.13", "Weight output_partition_size = 192 is not divisible by weight quantization block_n = 128."),
        ("0.14", None),  # layers/linear.py _maybe_allow_fp8_block_shape_mismatch: in the wheel of 0.14.0, not in that of 0.13.0
        ("0.33", None),
    ],
)
def test_fp8_blocks_where_matrices_lie_in_one(version: str, said: str | None) -> None:
    """MiMo-V2-Flash at tp 4: one KV head a rank, 192 wide."""
    assert stopped("xiaomimimo/mimo-v2-flash", version, tp=4) == said


def awq(width: int, group: str = "awq_g128") -> ModelSpec:
    return gqa(64, 8, width).changed(checkpoint=group)


@pytest.mark.parametrize(
    ("width", "tp", "stops"),
    [
        (29568, 2, True),  # 14784 a rank: vllm-project/vllm#13640, Qwen2.5-VL-72B AWQ
        (29568, 1, False),
        (29696, 8, False),  # 3712 = 29 x 128: why Qwen padded its later ones
    ],
)
def test_quantised_groups(width: int, tp: int, stops: bool) -> None:
    """model_executor/layers/quantization/awq.py create_weights: input_size_per_partition % group_size, 0.5.5 to 0.33."""
    for version in ("0.5.5", "0.10.2", "0.33"):
        said = stopped(awq(width), version, tp=tp)
        assert (said is not None and "not aligned with the quantized weight shape" in said) is stops


def test_groups_of_a_format_that_is_only_asked_for() -> None:
    """Released files of a model may be wider than the model: nothing is said of them."""
    assert stopped(gqa(64, 8, 29568), "0.33", tp=2, weight_dtype="awq") is None


@pytest.mark.parametrize(
    ("format_", "device", "version", "least"),
    [
        ("fp8", "t4", "0.13", 80), ("fp8", "t4", "0.14", None), ("fp8", "t4", "0.15", None),  # fp8.py get_min_capability
        ("fp8", "v100-16gb", "0.14", 75), ("fp8", "a100-40gb", "0.13", None),
        ("fp8_channel", "t4", "0.15", 80), ("fp8_channel", "t4", "0.16", None),  # schemes/compressed_tensors_w8a16_fp8.py
        ("awq", "v100-16gb", "0.33", 75), ("awq", "t4", "0.33", None), ("awq", "v100-16gb", "0.5.5", 75),
        ("int4_g128", "t4", "0.11", 80), ("int4_g128", "t4", "0.12", None), ("int4_g128", "t4", "0.13", None),  # wNa16.py
        ("nvfp4", "h100-80gb", "0.8.5", 100), ("nvfp4", "h100-80gb", "0.9", None), ("nvfp4", "t4", "0.13", 80),
        ("nvfp4", "t4", "0.14", None), ("nvfp4", "b200", "0.8.5", None),  # modelopt.py ModelOptNvFp4Config
        ("mxfp4", "t4", "0.33", 80), ("mxfp4", "a10g", "0.33", None),
        ("gptq", "v100-16gb", "0.33", None),
        ("fp8", "mi300x", "0.13", None), ("fp8", "24GiB", "0.13", None),  # no compute capability is known
    ],
)  # fmt: skip
def test_capability(format_: str, device: str, version: str, least: int | None) -> None:
    said = stopped(gqa(), version, weight_dtype=format_, device=device, dtype="f16")
    if least is None:
        assert said is None
    else:
        assert said is not None
        assert "is not supported for the current GPU" in said
        assert f"apability: {least}. Current capability: " in said


@pytest.mark.parametrize(
    ("version", "device", "dtype", "stops"),
    [
        # 0.8.5 config.py _get_and_verify_dtype keeps the checkpoint's bf16, worker.py refuses it; 0.9.0 takes f16 there
        ("0.7", "t4", None, True), ("0.8.5", "t4", None, True), ("0.9", "t4", None, False), ("0.9.1", "t4", None, False),
        ("0.8.5", "t4", "f16", False), ("0.33", "t4", "bf16", True), ("0.33", "a10", "bf16", False), ("0.8.5", "a10", None, False),
    ],
)  # fmt: skip
def test_bf16(version: str, device: str, dtype: str | None, stops: bool) -> None:
    said = stopped(gqa(dtype="bf16"), version, device=device, dtype=dtype)
    assert (said is not None and said.startswith("Bfloat16 is only supported on GPUs with compute capability of at least 8.0.")) is stops


def test_f16_of_a_class_that_overflows() -> None:
    """config/model.py _FLOAT16_NOT_SUPPORTED_MODELS, from 0.9.1 on."""
    model = gqa(architecture="Gemma3ForCausalLM")
    assert stopped(model, "0.9", dtype="f16") is None
    assert "does not support float16" in (stopped(model, "0.9.1", dtype="f16") or "")
    assert "does not support float16" in (stopped(model, "0.9.2", dtype="f16") or "")
    assert stopped(model, "0.9.2", dtype="bf16") is None


def test_sequences_and_tokens() -> None:
    """config/scheduler.py verify_max_model_len: strictly fewer."""
    said = stopped(gqa(), "0.33", max_num_batched_tokens=255, max_num_seqs=256)
    assert said == "max_num_batched_tokens (255) must be greater than or equal to max_num_seqs (256)."
    assert stopped(gqa(), "0.33", max_num_batched_tokens=256, max_num_seqs=256) is None


def test_length() -> None:
    """config/model.py _get_and_verify_max_len: the model's own length is allowed."""
    assert (stopped(gqa(), "0.33", max_model_len=32769) or "").startswith(
        "User-specified max_model_len (32769) is greater than the derived"
    )
    assert stopped(gqa(), "0.33", max_model_len=32768) is None
    assert stopped(gqa(), "0.33", max_model_len=32769, engine_option={"allow_long_max_model_len": "true"}) is None


@pytest.mark.parametrize(
    ("version", "rank", "stops"),
    [("0.7", 320, True), ("0.8", 320, False), ("0.9", 24, True), ("0.11", 1, True), ("0.12", 1, False), ("0.33", 24, True)],
)
def test_lora_rank(version: str, rank: int, stops: bool) -> None:
    """config.py LoRAConfig possible_max_ranks to 0.11, config/lora.py MaxLoRARanks after."""
    assert ("max_lora_rank" in (stopped(gqa(), version, lora=f"{rank}x1") or "")) is stops


@pytest.mark.parametrize(
    ("version", "tp", "dcp", "said"),
    [
        ("0.11.1", 8, 2, "tensor parallel size 8 must be greater than total num kv heads 8 when enable"),
        ("0.26", 8, 2, "tensor parallel size 8 must be greater than total num kv heads 8 when enable"),
        ("0.27", 8, 2, "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (8) to be greater than the model's total "
         "number of KV heads (8)."),
        ("0.27", 16, 2, None),
        ("0.27", 16, 4, "`--decode-context-parallel-size` (4) exceeds the maximum supported value (2) for `--tensor-parallel-size` (16)"),
    ],
)  # fmt: skip
def test_decode_context_parallel(version: str, tp: int, dcp: int, said: str | None) -> None:
    """config/model.py verify_with_parallel_config."""
    assert stopped(gqa(), version, tp=tp, dcp=dcp) == said


def test_fp8_cache_and_flash_attention() -> None:
    """v1/attention/backends/flash_attn.py to 0.11, get_attn_backend_cls from 0.12 on: FlashAttention 3 is for Hopper."""
    ask = {"kv_dtype": "fp8", "engine_option": {"attention_backend": "FLASH_ATTN"}}
    assert stopped(gqa(), "0.11", device="rtx-4090", **ask) == "FlashAttention does not support fp8 kv-cache on this device."
    assert "is not valid for this configuration" in (stopped(gqa(), "0.12", device="rtx-4090", **ask) or "")
    assert stopped(gqa(), "0.12", device="h100-80gb", **ask) is None
    assert stopped(gqa(), "0.12", device="rtx-4090", kv_dtype="fp8") is None


def test_cache_in_the_other_16_bits() -> None:
    """config/vllm.py _reject_mismatched_float_kv_cache, 0.33."""
    assert stopped(gqa(dtype="f16"), "0.32", kv_dtype="bf16") is None
    assert "incompatible with dtype" in (stopped(gqa(dtype="f16"), "0.33", kv_dtype="bf16") or "")
    assert stopped(gqa(dtype="f16"), "0.33", kv_dtype="f16") is None


def test_a_refusal_is_an_answer() -> None:
    plan = planned("microsoft/phi-4", device="h100-80gb", tp=8, engine="vllm", context=4096)
    assert (plan.starts, plan.fits, plan.outcome.certainty) == (False, False, "likely")
    assert "10 KV heads over 8 ranks" in plan.verdict
    assert plan.verdict.endswith("; it would not start")


def test_a_question_about_the_cache_alone() -> None:
    """With kv_memory the weights are not asked about: their refusal is a warning."""
    plan = planned("microsoft/phi-4", tp=8, engine="vllm", context=4096, kv_memory="8GiB")
    assert plan.starts
    assert plan.outcome.capacity is not None
    assert any("10 KV heads over 8 ranks" in warning for warning in plan.outcome.capacity.warnings)


def test_small_projections_are_not_in_blocks() -> None:
    """Qwen3.5-397B FP8 runs over tp 2 and pp 3 (local-inference-lab/rtx6kpro#7), though its decays and gates are 64 wide a rank."""
    ask = {"weight_dtype": "fp8_block", "tp": 2, "pp": 3, "device": "rtx-pro-6000-blackwell"}
    assert stopped("qwen/qwen3.5-397b-a17b", "0.20", **ask) is None


@pytest.mark.parametrize(
    ("version", "question", "stops"),
    [
        ("0.2.1", {"max_num_batched_tokens": 2048}, False),
        ("0.2.2", {"max_num_batched_tokens": 2048}, True),
        ("0.6.6", {"max_num_batched_tokens": 2048}, True),
        ("0.6.6", {"max_num_batched_tokens": 8192}, False),
        ("0.6.6", {"max_num_batched_tokens": 2048, "engine_option": {"enable_chunked_prefill": "true"}}, False),
        ("0.8.5", {"max_num_batched_tokens": 2048}, False),  # V1 reads prompts in pieces
        ("0.8.5", {"max_num_batched_tokens": 2048, "engine_option": {"enable_chunked_prefill": "false"}}, False),  # ... whatever is asked
        ("0.8.5", {"max_num_batched_tokens": 2048, "engine_option": {"enable_chunked_prefill": "false", "use_v1": "false"}}, True),
        ("0.33", {"max_num_batched_tokens": 2048, "engine_option": {"enable_chunked_prefill": "false"}}, True),
        ("0.33", {"engine_option": {"enable_chunked_prefill": "false"}}, False),  # the batch follows the length
    ],
)
def test_without_chunks_a_batch_holds_the_longest_prompt(version: str, question: dict[str, Any], stops: bool) -> None:
    """config.py SchedulerConfig._verify_args of the wheels of 0.2.2, 0.4.0, 0.7.0 and 0.9.2, config/scheduler.py of 0.12 to 0.32;
    engine/arg_utils.py _set_default_args_v1 of 0.8.5."""
    said = stopped(gqa(), version, max_model_len=8192, **question)
    assert (said is not None) is stops
    assert not said or said.startswith("max_num_batched_tokens (2048) is smaller than max_model_len (8192).")


@pytest.mark.parametrize(
    ("model", "version", "asked", "said"),
    [
        # ParallelConfig(tensor_parallel_size=8, decode_context_parallel_size=3) of 0.33, on a CPU
        ("deepseek-ai/deepseek-v3", "0.33", {"tp": 8, "dcp": 3}, "tp_size=8 must be divisible by dcp_size=3."),
        ("deepseek-ai/deepseek-v3", "0.25", {"tp": 8, "dcp": 3}, "tp_size=8 must be divisible bydcp_size=3."),  # as it is spelled there
        ("deepseek-ai/deepseek-v3", "0.15", {"tp": 8, "dcp": 3}, "tp_size=8 must be divisible bydcp_size=3."),  # engine/arg_utils.py
        ("deepseek-ai/deepseek-v3", "0.33", {"tp": 8, "dcp": 4}, None),
        # 14 query heads and 2 KV heads: 7 query heads are not halved (config/model.py verify_with_parallel_config)
        ("odd", "0.33", {"tp": 14, "dcp": 2}, "The model's number of query heads per KV head (7) must be divisible by "
         "`--decode-context-parallel-size` (2) for GQA/MQA."),
        ("odd", "0.20", {"tp": 14, "dcp": 2}, "Total number of q per kv attn heads (7) must be divisible by dcp world size when enable "
         "decode context parallel for GQA (2)."),
        ("odd", "0.33", {"tp": 14, "dcp": 7}, None),
        # config/vllm.py, in the wheel of 0.22.0, not in that of 0.20.0
        ("deepseek-ai/deepseek-v3", "0.33", {"tp": 8, "kv_dtype": "nvfp4"},
         "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends."),
        ("deepseek-ai/deepseek-v3", "0.33", {"tp": 8, "kv_dtype": "fp8"}, None),
    ],
)  # fmt: skip
def test_ranks_and_formats_that_do_not_go_together(model: str, version: str, asked: dict[str, Any], said: str | None) -> None:
    spec = gqa(14, 2, width=14 * 1024) if model == "odd" else model
    assert stopped(spec, version, device="h200", **asked) == said


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        # supports_pp and supports_lora of the classes of 0.33, on a CPU: False, True; True, False; True, True
        ("openai/whisper-large-v3", {"pp": 2}, "Pipeline parallelism is not supported for this model. Supported models implement the "
         "`SupportsPP` interface."),
        ("google/gemma-3n-e4b", {"pp": 2}, "Pipeline parallelism is not supported for this model. Supported models implement the "
         "`SupportsPP` interface."),
        ("openai/whisper-large-v3", {"pp": 1}, None),
        ("moonshotai/kimi-k2.5", {"pp": 2, "tp": 8, "device": "b200"}, None),
        ("meta-llama/llama-3.1-8b", {"pp": 2, "lora": "16x2"}, None),
        ("google/gemma-3n-e4b", {"lora": "16x2"}, "LoRA is not supported for Gemma3nForConditionalGeneration (google/gemma-3n-e4b). "
         "Supported models implement the `SupportsLoRA` interface."),
    ],
)  # fmt: skip
def test_classes_without_stages_or_adapters(model: str, asked: dict[str, Any], said: str | None) -> None:
    assert stopped(model, "0.33", **asked) == said


def test_adapters_before_the_check_was_made_at_once() -> None:
    """v1/worker/lora_model_runner_mixin.py, once the weights are there; 0.28 and 0.32 have no other check."""
    assert stopped("google/gemma-3n-e4b", "0.28", lora="16x2") == "Gemma3nForConditionalGeneration does not support LoRA yet."


@pytest.mark.parametrize(
    ("model", "device", "backend", "reason"),
    [
        # validate_configuration of the classes of 0.33, asked on a CPU: this is the last reason that each gives, or there is none
        ("deepseek-ai/deepseek-v3", "h200", "FLASH_ATTN", "MLA not supported"),
        ("deepseek-ai/deepseek-v3", "h200", "TRITON_ATTN", "MLA not supported"),
        ("meta-llama/llama-3.1-8b", "h200", "FLASHMLA", "non-MLA not supported"),
        ("meta-llama/llama-3.1-8b", "h200", "TRITON_MLA", "non-MLA not supported"),
        ("deepseek-ai/deepseek-v3", "a100-80gb", "FLASHMLA", "compute capability not supported"),
        ("meta-llama/llama-3.1-8b", "t4", "FLASH_ATTN", "compute capability not supported"),
        ("deepseek-ai/deepseek-v3", "h200", "FLASHMLA", None),
        ("deepseek-ai/deepseek-v3", "a100-80gb", "TRITON_MLA", None),
        ("meta-llama/llama-3.1-8b", "h200", "FLASH_ATTN", None),
        ("meta-llama/llama-3.1-8b", "h200", "FLASHINFER", None),
    ],
)
def test_a_backend_for_the_other_kind_of_attention(model: str, device: str, backend: str, reason: str | None) -> None:
    asked = {"device": device, "engine_option": {"attention_backend": backend}, "tp": 8 if "deepseek" in model else 1}
    dtype = {"weight_dtype": "bf16", "dtype": "fp16" if device == "t4" else None} if device in ("a100-80gb", "t4") else {}
    said = stopped(model, "0.33", **asked, **{k: v for k, v in dtype.items() if v})
    begins = f"Selected backend AttentionBackendEnum.{backend} is not valid for this configuration. Reason:"
    assert said == (None if reason is None else f"{begins} ({reason})")
    old = stopped(model, "0.11", **asked, **{k: v for k, v in dtype.items() if v})
    assert old is None or "Selected backend" not in old


@pytest.mark.parametrize(
    ("version", "question", "batch", "seqs"),
    [
        ("0.9.2", {"max_num_seqs": 1, "max_model_len": 4095}, 8192, 1),
        ("0.11.0", {"max_num_seqs": 1, "max_model_len": 4095}, 8192, 1),
        ("0.11.2", {"max_num_seqs": 1, "max_model_len": 4095}, 4095, 1),  # cut to what one sequence can hold
        ("0.10.1", {"max_num_batched_tokens": 512}, 512, 512),
        ("0.10.0", {"max_num_batched_tokens": 512}, 512, 1024),  # does not start
    ],
)
def test_default_batches(version: str, question: dict[str, Any], batch: int, seqs: int) -> None:
    """engine/arg_utils.py _set_default_args_v1 of 0.9.2, 0.10.0, 0.10.1 and 0.11.0, 0.11.1's _set_default_args; 0.9.2 was run."""
    asked = {"device": "h100-80gb", **question}
    _, settled = engines.settle(kvplan.deployment(gqa(), engine="vllm", engine_version=version, **asked))
    assert (settled.question.max_num_batched_tokens, settled.question.max_num_seqs) == (batch, seqs)
    said = stop_of(CHECKS, settled)
    assert (said is not None) is (seqs > batch)
