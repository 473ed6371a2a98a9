"""What releases of SGLang stopped at in draws of settings that earlier ones did not vary, and what they went on with."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.sglang.arguments import ARGUMENTS
from tests.unit.engines.test_sglang_refusals import gqa, stopped

LLAMA, V3, V32, V4 = "meta-llama/llama-3.1-8b", "deepseek-ai/deepseek-v3", "deepseek-ai/deepseek-v3.2", "deepseek-ai/deepseek-v4-flash"
GROUPS = {"tp": 4, "dp": 4, "engine_option": {"enable_dp_attention": "true"}}
V2 = {"moe_a2a_backend": "deepep_v2"}
CHUNKS = "assert self.chunked_prefill_size % self.page_size == 0"


@pytest.mark.parametrize(
    ("model", "version", "asked", "said"),
    [
        # mem_cache/memory_pool.py: the run of 0.5.3, 0.5.9, 0.5.12 and 0.5.18 ends at assert self.page_size == 64
        (V32, "0.5.9", {"tp": 8, "engine_option": {"decode_attention_backend": "cutlass_mla"}}, "assert self.page_size == 64"),
        (V32, "0.5.9", {"tp": 8, "engine_option": {"decode_attention_backend": "flashmla"}}, None),
        # server_args.py looks at tokenspeed_mla's pages last: 128 become 64; the run of nvidia/DeepSeek-V3.2-NVFP4 has 1,286,016 tokens
        (V32, "0.5.12", {"tp": 8, "device": "rtx-pro-6000-blackwell", "memory_fraction": 0.9, "kv_dtype": "fp8_e4m3", "engine_option": {
            "attention_backend": "tokenspeed_mla", "decode_attention_backend": "cutlass_mla"}}, None),
        # configs/model_config.py get_num_kv_heads: 1 // 2 attention ranks; the run of DeepSeek-V3 starts, which has no heads to split
        (LLAMA, "0.5.18", GROUPS | {"dcp": 2},
         "ZeroDivisionError: integer division or modulo by zero (dcp 2, attention groups of 1 ranks)"),
        (V3, "0.5.18", GROUPS | {"dcp": 2}, None),
        # arg_groups/moe_hook.py: 8,192 tokens over 2 ranks (0.5.23), whole (0.5.20), against 128
        ("zai-org/glm-5.1", "0.5.23", {"tp": 2, "engine_option": V2},
         "DeepEP v2 per-rank prefill budget exceeds SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK (required=4096, capacity=128)"),
        ("zai-org/glm-5.1", "0.5.20", {"tp": 2, "engine_option": V2},
         "DeepEP v2 per-rank prefill budget exceeds SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK (required=8192, capacity=128)"),
        ("zai-org/glm-5.1", "0.5.23",
         {"tp": 2, "max_num_seqs": 64, "engine_option": V2 | {"deepep_v2_num_max_dispatch_tokens_per_rank": "4096"}}, None),
        # 0.4.6 server_args.py: chunks are looked at before a backend changes the page, 0.4.10 after
        (LLAMA, "0.4.6", {"block_size": 48, "max_num_batched_tokens": 8192, "engine_option": {"attention_backend": "cutlass_mla"}},
         f"{CHUNKS} (chunks of 8192 tokens, pages of 48)"),
        (LLAMA, "0.4.6", {"engine_option": {"disable_chunked_prefill": "true", "attention_backend": "flashmla"}}, None),
        # arg_groups/deepseek_v4_hook.py looks at the width of the tree before one is picked
        (V4, "0.5.12", {"tp": 4, "speculative": "eagle:auto"},
         "Only EAGLE speculative algorithm with topk == 1 is supported for DeepseekV4ForCausalLM"),
        (V4, "0.5.12", {"tp": 4, "speculative": "eagle:2"}, None),
        # 0.4.10 server_args.py, trtllm_mla; 0.4.6 model_runner.py, the backends of latent attention
        (V3, "0.4.10", {"tp": 8, "device": "b200", "speculative": "mtp:1", "engine_option": {"attention_backend": "trtllm_mla"}},
         "trtllm_mla backend does not support speculative decoding yet."),
        (V3, "0.4.6", {"tp": 8, "device": "h200", "engine_option": {"attention_backend": "aiter"}},
         "Invalid attention backend for MLA: aiter"),
        (V3, "0.4.10", {"tp": 8, "engine_option": {"attention_backend": "intel_amx"}}, "Invalid attention backend for MLA: intel_amx"),
        # model_runner_kv_cache_mixin.py imports Ascend's pools from 0.5.7 on, of models without states alone from 0.5.10 on
        (LLAMA, "0.5.9", {"kv_memory": "8GiB", "engine_option": {"attention_backend": "ascend"}},
         "No module named 'torch_npu' (this is h100-80gb)"),
        (LLAMA, "0.5.6", {"kv_memory": "8GiB", "engine_option": {"attention_backend": "ascend"}}, None),
        # eagle_worker.py gives the drafter the target's own length (131,072), asked for or not; 0.4.10 only warns of it
        (LLAMA, "0.5.9", {"speculative": "eagle3:3:yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"},
         "Target model's context_length (131072) is greater than the derived context_length (2048). This may lead to incorrect model "
         "outputs or CUDA errors."),
        (LLAMA, "0.5.9", {"max_model_len": 2048, "speculative": "eagle3:3:yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}, None),
        (LLAMA, "0.4.10", {"speculative": "eagle3:3:yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}, None),
        # arg_groups/model_overrides/nemotron_h.py picks flashinfer_cutlass for 16 bits where the GPU is not of 10.x
        ("nvidia/nemotron-3-nano-30b-a3b", "0.5.23", {"tp": 4, "ep": 2},
         "The expert parallel size must be 1 or the same as the tensor parallel size (ep 2, tp 4)"),
        ("nvidia/nemotron-3-nano-30b-a3b", "0.5.23", {"tp": 4, "ep": 2, "device": "b200"}, None),
    ],
)  # fmt: skip
def test_what_stops_it(model: str, version: str, asked: dict[str, Any], said: str | None) -> None:
    assert stopped(model, version, **asked) == said


@pytest.mark.parametrize(
    ("method", "stored", "version", "asked", "stops"),
    [
        # base_config.py _modelopt_override_quantization_method: its own method is put in the place of any other, from where the
        # tool's name is parsed (0.5.10 model_config.py), and where it names the algorithm alone (0.5.9)
        ("modelopt", "nvfp4", "0.5.23", "gptq_marlin", False),
        ("modelopt", "nvfp4", "0.5.9", "gptq_marlin", True),
        ("none", "fp8", "0.5.9", "awq", False),
        ("modelopt", "nvfp4", "0.5.23", "nvfp4_online", True),
        # model_config.py compatible_quantization_methods: FP4 of ModelOpt's takes a checkpoint in FP8 from 0.5.18 on
        ("fp8", "fp8_block128", "0.4.10", "modelopt_fp4", True),
        ("fp8", "fp8_block128", "0.5.18", "modelopt_fp4", False),
        ("fp8", "fp8", "0.5.23", "awq", True),
    ],
)
def test_modelopts_own_method(method: str, stored: str, version: str, asked: str, stops: bool) -> None:
    model = gqa(method=method, quantization=[{"format": stored, "roles": ["attention", "mlp"]}])
    said = stopped(model, version, device="b200", tp=2, engine_option={"quantization": asked})
    assert ("Quantization method specified in the model config" in (said or "")) == stops


@pytest.mark.parametrize(
    ("version", "line", "said"),
    [
        # server_args.py and arg_groups/*; what 0.4.6, 0.4.10, 0.5.12, 0.5.18 and 0.5.23 said to drawn command lines
        ("0.4.10", "--tp 2 --enable-dp-attention", "Please set a dp-size > 1."),
        ("0.5.3", "--tp 2 --enable-dp-attention", ""),
        ("0.4.6", "--enable-flashinfer-mla", "--enable-flashinfer-mla is deprecated"),
        ("0.5.18", "--tp 2 --no-enable-tp-lm-head-all-to-all", ""),
        ("0.5.18", "--tp 2 --enable-tp-lm-head-all-to-all", "requires attention data parallelism"),
        ("0.5.18", "--speculative-algorithm DFLASH", "requires setting --speculative-draft-model-path."),
        ("0.5.18", "--pp 2 --elastic-ep-backend nixl", "PP size should be set to 1 under elastic EP"),
        ("0.5.18", "--enable-ssl-refresh", "requires --ssl-certfile and --ssl-keyfile"),
        ("0.5.9", "--hybrid-kvcache-ratio", ""),
        ("0.5.6", "--hybrid-kvcache-ratio 0.3", ""),
    ],
)
def test_words(version: str, line: str, said: str) -> None:
    answer = read(ARGUMENTS, words("--model-path", "x", *line.split()), {}, version)
    refused = [one.message for one in answer.findings if one.severity == "error"]
    assert any(said in message for message in refused) if said else not refused


def test_formats_of_states_by_variables() -> None:
    """configs/mamba_utils.py: the variables are read where no option says."""
    env = {"SGLANG_MAMBA_SSM_DTYPE": words("bfloat16")[0], "SGLANG_MAMBA_CONV_DTYPE": words("float32")[0]}
    asked = read(ARGUMENTS, words("--model-path", "x"), env, "0.5.12").question
    assert {name: asked[f"engine_option.mamba_{name}_dtype"].value for name in ("ssm", "conv")} == {"ssm": "bfloat16", "conv": "float32"}
