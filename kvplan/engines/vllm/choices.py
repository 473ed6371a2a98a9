"""Values that vLLM's parser takes of its options, by release.

From the parsers of 23 releases, 0.9.2 to 0.33.0, as they build themselves (entrypoints' make_arg_parser), and the members of
AttentionBackendEnum in 0.11.1 to 0.33.0: option -> (last of them without these values, first of them without them again) -> values.
Left out are options that take any word in the newest releases (load formats, tokenisers), and those whose values a plan checks. Formats of
the cache and of weights are those of config/cache.py CacheDType and quantization/__init__.py QuantizationMethods, whichever part refuses
another; an executor is a class of one's own, too, by its path.
"""

from __future__ import annotations

from kvplan.engines.common.arguments import Times
from kvplan.engines.vllm.keys import KINDS, VALUES

#: Option -> the first release whose parser takes any text for it: a word of no release is for the plan to refuse (engine/arg_utils.py).
ANY_WORD = {"--quantization": "0.17"}
_BACKENDS: dict[tuple[str, str], str] = {
    ("", ""): (
        "CPU_ATTN CUSTOM CUTLASS_MLA FLASHINFER FLASHINFER_MLA FLASHMLA FLASHMLA_SPARSE FLASH_ATTN FLASH_ATTN_MLA FLEX_ATTENTION "
        "NO_ATTENTION ROCM_AITER_FA ROCM_AITER_MLA ROCM_AITER_UNIFIED_ATTN ROCM_ATTN TORCH_SDPA TRITON_ATTN TRITON_MLA"
    ),
    ("", "0.12.0"): "XFORMERS",
    ("", "0.14.1"): "PALLAS",
    ("", "0.16.0"): "IPEX",
    ("", "0.21.0"): "TREE_ATTN",
    ("0.11.2", ""): "ROCM_AITER_MLA_SPARSE ROCM_AITER_TRITON_MLA",
    ("0.13.0", ""): "FLASH_ATTN_DIFFKV",
    ("0.16.0", ""): "FLASHINFER_MLA_SPARSE",
    ("0.17.1", ""): "XPU_MLA_SPARSE",
    ("0.19.1", ""): "TURBOQUANT",
    ("0.20.0", ""): "TOKENSPEED_MLA",
    ("0.22.1", ""): "FLASHINFER_MLA_SPARSE_DSV4 FLASHMLA_SPARSE_DSV4 ROCM_FLASHMLA_SPARSE_DSV4",
    ("0.23.0", ""): "FLASHINFER_MLA_SPARSE_SM120 MINIMAX_M3_SPARSE TRITON_ATTN_DIFFKV",
    ("0.24.0", ""): "FLASH_ATTN_MLA_SPARSE HPC_ATTN",
    ("0.26.0", ""): "CUTLASS_MSA TRITON_MSA",
    ("0.27.0", ""): "CPU_MLA",
    ("0.28.0", ""): "AMX_MLA",
    ("0.29.0", ""): "B12X FLASHINFER_MLA_SPARSE_DSV41 FLASHINFER_MLA_SPARSE_SM90 FLASHMLA_SPARSE_DSV41 TRITON_FLASHINFER TRITON_FLASH_ATTN",
    ("0.30.0", ""): "FLASHMLA_MEGA_ATTN_DSV41",
    ("0.31.0", ""): "ROCM_SEGMENTED_ATTN ULTRAQUANT",
    ("0.32.0", ""): "FLASH_ATTN_MLA_SPARSE_FA4 ROCM_FLASHMLA_SPARSE_DSV41 ROCM_OCTAVE STEP5_DSA",
}

_WITH_LOWER: Times = {times: f"{names} {names.lower()}" for times, names in (_BACKENDS | {("", ""): f"{_BACKENDS['', '']} AUTO"}).items()}

METHODS: Times = {
    ("", ""): (
        "None awq awq_marlin compressed-tensors experts_int8 fbgemm_fp8 fp8 gptq gptq_marlin modelopt modelopt_fp4 moe_wna16 quark torchao"
    ),
    ("", "0.10.2"): "aqlm marlin neuron_quant qqq",
    ("", "0.14.1"): "tpu_int8",
    ("", "0.15.0"): "auto-round deepspeedfp hqq",
    ("", "0.16.0"): "bitblas gptq_bitblas gptq_marlin_24 ipex",
    ("", "0.19.1"): "ptpc_fp8",
    ("", "0.24.0"): "gguf",
    ("", "0.28.0"): "bitsandbytes",
    ("0.9.1", "0.15.0"): "rtn",
    ("0.9.2", ""): "inc",
    ("0.10.0", ""): "mxfp4",
    ("0.10.0", "0.20.0"): "petit_nvfp4",
    ("0.11.0", ""): "fp_quant",
    ("0.11.2", "0.14.1"): "cpu_gptq",
    ("0.11.2", "0.23.0"): "cpu_awq",
    ("0.15.0", ""): "modelopt_mxfp8",
    ("0.16.0", ""): "modelopt_mixed",
    ("0.18.1", ""): "mxfp8",
    ("0.19.1", ""): "deepseek_v4_fp8 fp8_per_block fp8_per_tensor gpt_oss_mxfp4 humming int8_per_channel_weight_only online",
    ("0.21.0", ""): "auto_gptq",
    ("0.23.0", ""): "auto_awq fp8_per_channel",
    ("0.25.1", ""): "nvfp4_per_token",
}

_LEVELS = "CRITICAL ERROR WARNING INFO DEBUG NOTSET"
_MOE: Times = {
    ("", ""): "aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm marlin triton",
    ("0.19.1", ""): "deep_gemm_mega_moe emulation",
    ("0.20.0", ""): "humming triton_unfused",
    ("0.21.0", ""): "flashinfer_b12x",
    ("0.23.0", ""): "flydsl",
    ("0.24.0", ""): "hpc",
    ("0.26.0", ""): "batched_triton",
    ("0.28.0", ""): "b12x flashinfer_moe_ep_mega_deep_gemm",
    ("0.28.0", "0.32.0"): "flashinfer_moe_ep_mega_cutedsl",
    ("0.29.0", ""): "aiter_triton_mxfp4_bf16 rdna3",
    ("0.31.0", ""): "aiter_mega_moe flashinfer_moe_ep_cutedsl",
    ("0.32.0", ""): "aiter_triton_mxfp4_mxfp4",
}
_LINEAR: Times = {
    ("", ""): (
        "aiter auto conch cutlass deep_gemm emulation exllama fbgemm flashinfer_cudnn flashinfer_cutlass flashinfer_trtllm "
        "machete marlin torch triton"
    ),
    ("0.23.0", ""): "flashinfer_b12x flashinfer_cutedsl",
    ("0.24.0", ""): "humming xpu xpu_woq",
    ("0.27.0", ""): "b12x",
}
_TOPK: Times = {
    ("", ""): "auto cooperative deep_select flashinfer per_row persistent torch",
    ("0.31.0", ""): "aiter",
}

CHOICES: dict[str, Times] = {
    "--all2all-backend": {
        ("", ""): "allgather_reducescatter deepep_high_throughput deepep_low_latency flashinfer_all2allv naive pplx",
        ("", "0.14.1"): "None",
        ("0.14.1", "0.23.0"): "mori",
        ("0.16.0", ""): "flashinfer_nvlink_one_sided flashinfer_nvlink_two_sided nixl_ep",
        ("0.22.1", ""): "mori_high_throughput mori_low_latency",
        ("0.23.0", ""): "deepep_v2",
        ("0.30.0", ""): "moonep",
    },
    "--anthropic-disabled-thinking-effort": {("", ""): "auto high low max medium none xhigh"},
    "--chat-template-content-format": {("", ""): "auto openai string"},
    "--collect-detailed-traces": {
        ("", ""): "None all model worker",
        ("", "0.31.0"): "all,model all,worker model,all model,worker worker,all worker,model",
    },
    "--convert": {("", ""): "auto classify embed none", ("", "0.16.0"): "reward", ("0.12.0", "0.16.0"): "mm_encoder_only"},
    "--dcp-comm-backend": {("", ""): "a2a ag_rs", ("0.28.0", ""): "None"},
    "--distributed-executor-backend": {
        ("", ""): "external_launcher mp ray uni *.*",
        ("0.11.0", ""): "None",
    },
    "--kv-cache-dtype": {
        ("", ""): "auto fp8 fp8_e4m3 fp8_e5m2",
        ("0.9.2", ""): "fp8_inc",
        ("0.10.2", ""): "bfloat16",
        ("0.11.0", ""): "fp8_ds_mla",
        ("0.17.1", ""): "float16",
        ("0.19.1", ""): (
            "fp8_per_token_head int8_per_token_head nvfp4 turboquant_3bit_nc turboquant_4bit_nc turboquant_k3v4_nc turboquant_k8v4"
        ),
        ("0.24.0", ""): "int4_per_token_head",
        ("0.27.0", ""): "nvfp4_4over6",
        ("0.29.0", ""): "nvfp4_ds_mla",
        ("0.31.0", ""): "ultraquant_4bit",
        ("0.32.0", ""): "octave_k3v3 octave_k3v3_compact octave_k3v4",
    },
    "--quantization": METHODS,
    "--config-format": {("", ""): "auto hf mistral"},
    "--optimization-level": {("", ""): "0 1 2 3"},
    "--dtype": {("", ""): "auto bfloat16 float float16 float32 half"},
    "--expert-placement-strategy": {("", ""): "linear round_robin"},
    "--fingerprint-mode": {("", ""): "custom full hash none"},
    "--gdn-prefill-backend": {
        ("", ""): "flashinfer triton",
        ("0.21.0", ""): "cutedsl",
        ("0.31.0", ""): "aiter_flydsl",
        ("0.32.0", ""): "sycl",
    },
    "--jit-monitor-mode": {("", ""): "error warn"},
    "--kda-decode-backend": {("", ""): "auto flashinfer native triton"},
    "--kda-prefill-backend": {("", ""): "auto flashkda triton", ("0.29.0", ""): "flashinfer fused"},
    "--kv-offloading-backend": {("", ""): "lmcache native", ("", "0.14.1"): "None"},
    "--linear-backend": _LINEAR,
    "--logprobs-mode": {("", ""): "processed_logits processed_logprobs raw_logits raw_logprobs"},
    "--lora-dtype": {("", ""): "auto bfloat16 float16"},
    "--mamba-cache-dtype": {("", ""): "auto float32", ("0.12.0", ""): "float16", ("0.21.0", ""): "bfloat16"},
    "--mamba-cache-mode": {("", ""): "align none", ("", "0.32.0"): "all"},
    "--mamba-ssm-cache-dtype": {("", ""): "auto float32", ("0.12.0", ""): "float16", ("0.21.0", ""): "bfloat16"},
    "--mamba-ssu-algorithm": {("", ""): "None auto horizontal simple vertical"},
    "--mm-encoder-attn-dtype": {("", ""): "None fp8"},
    "--mm-encoder-tp-mode": {("", ""): "data weights"},
    "--mm-hasher-algorithm": {("", ""): "blake3 sha256 sha512"},
    "--mm-processor-cache-type": {("", ""): "lru shm"},
    "--mm-processor-device": {("", ""): "auto cpu cuda"},
    "--mm-tensor-ipc": {("", ""): "direct_rpc torch_shm"},
    "--moe-backend": _MOE,
    "--offload-backend": {("", ""): "auto prefetch uva"},
    "--per-request-spec-decode-metrics": {("", ""): "detailed none summary"},
    "--performance-mode": {("", ""): "balanced interactivity throughput"},
    "--prefix-caching-hash-algo": {
        ("", ""): "sha256",
        ("", "0.10.2"): "builtin",
        ("0.9.2", ""): "sha256_cbor",
        ("0.12.0", ""): "xxhash xxhash_cbor",
    },
    "--runner": {("", ""): "auto draft generate pooling"},
    "--scheduling-policy": {("", ""): "fcfs priority"},
    "--sparse-indexer-topk-backend": _TOPK,
    "--spec-method": {
        ("", ""): (
            "None custom_class deepseek_mtp dflash draft_model eagle eagle3 ernie_mtp exaone4_5_mtp exaone_moe_mtp "
            "extract_hidden_states gemma4_mtp glm4_moe_lite_mtp glm4_moe_mtp glm_ocr_mtp hy_v3_mtp longcat_flash_mtp mimo_mtp "
            "mimo_v2_mtp mtp nemotron_h_mtp ngram ngram_gpu pangu_ultra_moe_mtp qwen3_5_mtp qwen3_next_mtp step3p5_mtp suffix"
        ),
        ("", "0.33.0"): "medusa mlp_speculator",
        ("0.23.0", ""): "minimax_m3_mtp",
        ("0.24.0", ""): "bailing_hybrid_mtp dspark",
        ("0.25.1", ""): "inkling_mtp",
        ("0.26.0", ""): "kimi_k3_mtp",
        ("0.27.0", ""): "bailing_hybrid_v3_mtp dots3_note_mtp",
        ("0.28.0", ""): "hy_v4_mtp qwen4_exp_mtp",
        ("0.29.0", ""): "glm5_next_mtp",
        ("0.32.0", ""): "step5_mtp",
    },
    "--safetensors-load-strategy": {("", "0.24.0"): "*", ("", ""): "None eager lazy prefetch torchao"},
    "--tool-strict-level": {("", ""): "auto function parameter", ("0.32.0", ""): "None"},
    "--uvicorn-log-level": {("", ""): "critical debug error info trace warning"},
    "--video-pruning-method": {("", ""): "evs vidcom2"},
    "--attention-backend": _WITH_LOWER,  # in capitals or not, and `auto` where none is named
    "--attention-config.backend": _WITH_LOWER,
    "--speculative-config.attention_backend": _WITH_LOWER,
    **{f"--attention-config.backend_per_kind.{kind}": _WITH_LOWER for kind in KINDS.split()},
    "--logging-config.log_level": {("", ""): _LEVELS},
    "--log-level": {("", ""): _LEVELS},
    "--mamba-backend": {("", ""): "FLASHINFER TRITON flashinfer triton", ("0.27.1", ""): "CPU cpu"},
    "--kernel-config.moe_backend": _MOE,
    "--speculative-config.moe_backend": _MOE,
    "--kernel-config.linear_backend": _LINEAR,
    "--kernel-config.sparse_indexer_topk_backend": _TOPK,
    "--hf-overrides.quantization_config.quant_method": METHODS,
    **VALUES,
}
