"""What SGLang is: forms, devices and formats it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.protocol import Apart, Facts, Setting
from kvplan.engines.sglang.rules import VERSIONS
from kvplan.engines.sglang.ways import DRAFTING
from kvplan.forms import Form

#: engine_option keys, by the names of its server arguments.
OPTIONS: dict[str, str] = {
    "allow_overwrite_longer_context_len": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN: lengths beyond the model's own",
    "allocator": "PYTORCH_CUDA_ALLOC_CONF: how torch reserves memory",
    "attention_backend": "the attention backend, which may set the page size",
    "decode_attention_backend": "... of decoding alone",
    "prefill_attention_backend": "... of prompts alone",
    "attn_cp_size": "ranks that share the tokens of a prompt: attention is split over the others of tp alone",
    "cuda_graph_bs": "the batches that decode graphs are captured for, such as 1,2,4,8",
    "deepep_mode": "auto, normal or low_latency: which of DeepEP's kernels have buffers; normal alone captures no graphs",
    "deepep_num_max_dispatch_tokens_per_rank": "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK: 128 by default",
    "deepep_v2_num_max_dispatch_tokens_per_rank": "SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK: 128 by default",
    "disaggregation_mode": "null, prefill or decode: what of serving this server does",
    "prefill_round_robin_balance": "prompts come in turn to the groups of a server that only decodes: to be said up to 0.5.7",
    "disaggregation_decode_enable_radix_cache": "a server that only decodes keeps prefixes, too",
    "enable_deterministic_inference": "results do not depend on the batch, which decides the attention backend",
    "enable_dp_lm_head": "the output layer is dealt out like attention data parallelism",
    "enable_two_batch_overlap": "two batches at once, where experts are spread over ranks",
    "enable_mis": "several items are scored in one prompt: no chunks, no prefixes, no graphs",
    "enable_layernorm_sp": "norms are dealt out over the sequence",
    "enable_unified_memory": "both pools of a hybrid, or states and cache, share one",
    "enable_linear_replayssm": "recurrent states are replayed from a ring of inputs",
    "enable_cp_decode_attn_tp": "decoding splits attention over the ranks of a prompt",
    "shared_experts_tp_size": "ranks that split the shared experts",
    "enable_piecewise_cuda_graph": "prefill graphs, where a release captures them on request alone",
    "enable_mixed_chunk": "prompts and decoding share steps",
    "enable_torch_compile": "torch.compile, for small batches",
    "enable_symm_mem": "NCCL's symmetric memory, of which 4 GiB are set aside when it starts",
    "symm_mem_prealloc_gb": "GiB of symmetric memory set aside, 0 for none",
    "enable_eplb": "experts are dealt out to the ranks anew while it serves",
    "ep_num_redundant_experts": "copies of experts in every layer, dealt out with them",
    "cuda_graph_max_bs": "the largest batch that decode graphs are captured for",
    "disable_chunked_prefill": "prompts go in whole (--chunked-prefill-size -1)",
    "zero_chunk": "... said as --chunked-prefill-size 0, which releases up to 0.4.10 take with pages, and -1 not",
    "disable_hybrid_swa_memory": "window layers share the full pool",
    "disable_overlap_schedule": "no overlap scheduling",
    "disable_prefill_cuda_graph": "no prefill graphs",
    "disable_decode_cuda_graph": "no decode graphs: the default fraction leaves no room for them",
    "cuda_graph_max_bs_prefill": "the most tokens that prefill graphs are captured for",
    "enforce_piecewise_cuda_graph": "prefill graphs, whatever speaks against them",
    "enable_page_major_kv_layout": "pages hold all layers",
    "enable_deepseek_v4_fp4_indexer": "index keys of DeepSeek-V4 in FP4, on Blackwell",
    "disable_radix_cache": "no prefix cache",
    "dsa_backend": "the sparse attention's decode backend",
    "dsa_prefill_backend": "... and that of its prompts",
    "enable_dp_attention": "dp is attention data parallelism inside tp",
    "is_embedding": "embeddings or scores are served: nothing is decoded, no graphs of that are captured",
    "is_hybrid_swa": "window layers get a pool of their own, whatever the architecture",
    "mamba_full_memory_ratio": "memory of states beside that of the cache",
    "mamba_radix_cache_strategy": "auto, no_buffer, extra_buffer or extra_buffer_lazy",
    "mamba_ssm_dtype": "format of recurrent states",
    "mamba_skip_decode_lock": "a decoding request does not lock the state it came with",
    "mamba_conv_dtype": "SGLANG_MAMBA_CONV_DTYPE: format of convolution states",
    "json_model_override_args": 'keys of the model\'s config that are replaced, as JSON, such as {"max_position_embeddings": 65536}',
    "encoder_only": "the encoders of a server whose language model is another, which is not modelled",
    "language_only": "the language model of a server whose encoders are others",
    "language_model_only": "the encoders are not loaded, where a release lets them be left out",
    "enable_hisparse": "rows of sparse attention in host memory",
    "cpu_offload_gb": "GB of weights in host memory, which is not modelled: some releases capture no prefill graphs beside it",
    "enable_hierarchical_cache": "a second tier of the prefix cache in host memory",
    "hicache_ratio": "tokens of that tier to each of the pool's; 2 by default",
    "hicache_size": "GB of that tier on each rank, instead",
    "experts_shared_outer_loras": "factors outside of experts are shared by all of them",
    "lora_target_modules": "modules that adapters change, joined by commas; all linear ones by default",
    "linear_attn_backend": "kernels of recurrent layers",
    "linear_attn_decode_backend": "... of decoding alone",
    "mamba_track_interval": "tokens after which a decoding request's state is kept for prefixes",
    "max_mamba_cache_size": "state slots",
    "max_prefill_tokens": "tokens of a step of prompts; where they are not cut into chunks the default fraction leaves room for as many",
    "max_total_tokens": "tokens of the pool, at most",
    "moe_runner_backend": "kernels of the experts",
    "moe_dp_size": "groups of ranks that each have all experts",
    "moe_a2a_backend": "the experts' all-to-all backend: DeepEP's has buffers beside the fraction",
    "quantization": "the method that weights are loaded with, which the checkpoint's own must be",
    "speculative_draft_layers": "layers of a draft model that is not named",
    "speculative_eagle_topk": "tokens that one step of drafts branches into; 1: they are a chain",
    "speculative_num_draft_tokens": "tokens verified in one step",
    "swa_full_tokens_ratio": "window tokens for each full token",
}

#: Forms of cache that were read for this engine; a new one is refused until it is.
_FORMS: frozenset[Form] = frozenset({
    "none", "shared", "kv", "kv+blocks", "encoder-kv", "latent", "latent+index", "latent+pooled-index", "compressed", "mamba1",
    "mamba2", "gated-delta-net", "kda", "linear-attention", "short-conv", "rg-lru", "rwkv", "kv+index", "depthwise-conv",
})  # fmt: skip

FACTS = Facts(
    name="sglang",
    title="SGLang",
    versions=VERSIONS,
    read_from="0.3.6",
    options=OPTIONS,
    forms=_FORMS,
    unused={
        "n_gpu_layers": "it leaves no layers in host memory",
        "host_memory": "it is what host lines are compared with: nothing of a device follows it",
    },
    drafting=DRAFTING,
    picks_drafts=("eagle", "eagle3", "nextn", "mtp", "standalone", "draft_model"),
    pool="set aside",
    pages="radix",
    vendors=frozenset({"nvidia", "amd", "intel"}),
    weight_schemes=frozenset(
        {"plain", "fp8", "mxfp", "nvfp4", "int", "awq", "gptq", "affine", "bitsandbytes", "gguf", "w4afp8", "unknown"}
    ),
    kv_advice=(("fp8", 8),),
    weight_advice=(("fp8", 8), ("int4_g128", 4)),
    settings=(
        Setting(
            "allow_overwrite_longer_context_len",
            ("true",),
            "allow more than the model's own maximum (SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1)",
        ),
        Setting("swa_full_tokens_ratio", ("0.7", "0.6", "0.5", "0.4", "0.3", "0.2", "0.1", "0.9", "1"), "share the pools differently"),
        Setting(
            "mamba_full_memory_ratio", ("0.7", "0.5", "0.3", "0.2", "0.1", "1.5", "2", "4"), "share memory with the states differently"
        ),
        Setting("disable_radix_cache", ("true",), "no prefix cache"),
        Setting("disable_overlap_schedule", ("true",), "no overlap scheduling"),
    ),
    constants="sglang",
    measured_sizes=("tp", "pp"),
    tiers="enable_hierarchical_cache=true asks for one, hicache_size or hicache_ratio says how large",
    apart=Apart("pages"),
)
