"""What LMDeploy is: forms, devices and formats it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.methods import Drafting, Way, Words
from kvplan.engines.common.protocol import Facts, Setting
from kvplan.engines.lmdeploy.rules import RELEASES

#: engine_option keys. What has a name of its own in a question: quant_policy is kv_dtype, cache_max_entry_count memory_fraction,
#: cache_block_seq_len and block_size block_size, session_len max_model_len, max_batch_size max_num_seqs, max_prefill_token_num
#: max_num_batched_tokens, eager_mode enforce_eager.
OPTIONS: dict[str, str] = {
    "backend": "turbomind, where it supports the model, or pytorch",
    "dsa_indexer_max_logits_mb": "LMDEPLOY_DSA_INDEXER_MAX_LOGITS_MB: MiB kept for an indexer's scores, from 0.17 on",
    "enable_prefix_caching": "prefix caching: blocks of ended sequences stay until others need them",
    "flash_mla": "flash_mla is installed: latents stay in blocks of 64 tokens",
    "fp32_mamba_ssm_dtype": "LMDEPLOY_FP32_MAMBA_SSM_DTYPE: recurrent states in f32",
    "lora_target_modules": "modules that adapters change, joined by commas; all by default",
    "num_gpu_blocks": "blocks of the pool, counted: PyTorch's num_gpu_blocks, or TurboMind's cache_max_entry_count above 1",
    "prefix_cache_state_budget": "PyTorch: state slots beside those of the batch, for prefix caching",
}

#: Choices of --speculative-algorithm in the wheels of 0.10.2 to 0.18.0 (cli/utils.py; pytorch/spec_decode/proposers). TurboMind takes the
#: option and goes on without.
FACTS = Facts(
    name="lmdeploy",
    title="LMDeploy",
    machines=True,
    versions=RELEASES.versions,
    options=OPTIONS,
    forms=frozenset({"kv", "latent", "latent+index", "gated-delta-net"}),
    unused={
        "n_gpu_layers": "it leaves no layers in host memory",
        "host_memory": "its pool has no blocks in host memory unless num_cpu_blocks says so",
        "enforce_eager": "its graphs are captured after the pool is taken, from what is left",
    },
    drafting=Drafting(
        (
            Way("eagle eagle3 mtp deepseek_mtp nextn", "0.11"),
            Way("qwen3_5_mtp", "0.13"),
            Way("dflash", "0.18"),
        ),
        (
            Words("unrecognized arguments: --speculative-algorithm", "cli/utils.py", before="0.11"),
            Words("argument --speculative-algorithm: invalid choice: '{method}'", "cli/utils.py"),
        ),
    ),
    pool="set aside",
    pages="pools",
    shares_prefixes=False,
    vendors=frozenset({"nvidia"}),
    least_capability=70,
    kernels_from=(("", 70),),  # InternLM/lmdeploy issues 2015, 2322
    weight_schemes=frozenset({"plain", "fp8", "mxfp", "int", "awq", "gptq"}),
    kv_advice=(("int8", 8), ("int4", 4)),
    weight_advice=(("fp8", 8), ("awq", 4)),
    settings=(Setting("backend", ("pytorch", "turbomind"), "run the other backend"),),
    fraction_ceiling=0.95,
)
