"""What `python -m sglang.launch_server` and `sglang serve` take: sglang/srt/server_args.py of the releases below. Plain argparse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import (
    MIRRORED,
    Answer,
    Arguments,
    Repository,
    allowed,
    block,
    loaded_as,
    moved,
    names,
    number,
    row,
)
from kvplan.engines.common.kinds import structure
from kvplan.engines.common.libraries import LOUD
from kvplan.engines.common.options import DSPARK_BLOCK, read_lora, read_speculative
from kvplan.engines.common.stored import PACKED_ONLY
from kvplan.engines.common.words import Finding, Given, refuse, warn
from kvplan.engines.sglang.adapter_words import slots_of
from kvplan.engines.sglang.choices import CHOICES
from kvplan.engines.sglang.exclusions import EXCLUSIONS
from kvplan.engines.sglang.graph_words import graphs_of, sizes_said
from kvplan.engines.sglang.unmodelled import EITHER, IRRELEVANT, LESS, MORE, QUIET_NAMED, VARIABLES

RELEASES = (
    "0.4.3", "0.4.6", "0.4.7", "0.4.8", "0.4.9", "0.5.0", "0.5.1", "0.5.2", "0.5.3", "0.5.4", "0.5.5", "0.5.7", "0.5.9", "0.5.10",
    "0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.15", "0.5.16", "0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23",
)  # fmt: skip

_DISPATCHED_V2, _HELD_MEGA = "option:deepep_v2_num_max_dispatch_tokens_per_rank", "option:mega_moe_num_max_tokens_per_rank"
_SHARED_PROMPTS = "option:enable_dsa_prefill_context_parallel"
BLOCK = 16  # speculative_hook.py _handle_dflash (0.5.11 on)
LONGER = "option:allow_overwrite_longer_context_len"
#: Formats of a cache that it calls otherwise.
KV_FORMATS = {"fp8": "fp8_e4m3", "nvfp4": "fp4_mx_block16 fp4_e2m1"}

ROWS = (
    row("--model-path --model", "@model"),
    row("--config", "@config", since="0.5.3"),
    row("--context-length", "max_model_len", "si"),
    row("--max-running-requests", "max_num_seqs", "int"),
    row("--chunked-prefill-size", "max_num_batched_tokens", "int"),
    row("--page-size", "block_size", "int", since="0.4.6"),
    row("--mem-fraction-static", "memory_fraction", "float"),
    row("--tensor-parallel-size --tp-size --tp", "tp", "int"),
    row("--pipeline-parallel-size --pp-size --pp", "pp", "int", since="0.4.6"),
    row("--data-parallel-size --dp-size --dp", "dp", "int"),
    row("--expert-parallel-size --ep-size", "ep", "int"),
    row("--ep", "ep", "int", since="0.4.10"),
    row("--dcp-size --decode-context-parallel-size", "dcp", "int", since="0.5.15"),
    row("--enable-dp-attention", "option:enable_dp_attention", takes="flag"),
    row("--attn-dp-size --attention-data-parallel-size", "@attention_dp", "int", since="0.5.22"),
    row("--attn-cp-size --attention-context-parallel-size", "option:attn_cp_size", "int", since="0.5.9"),
    row("--nnodes", "@nodes", "int"),
    row("--node-rank", "@rank", "int"),
    row("--disaggregation-decode-tp", "@decode_tp", "int", since="0.4.8", until="0.5.9"),
    row("--dtype", "dtype", "compute"),
    row("--kv-cache-dtype", "kv_dtype", "format", says=KV_FORMATS),
    row("--quantization", "@quantization"),
    row("--load-format", "@load"),
    row("--max-total-tokens", "option:max_total_tokens", "si"),
    row("--disable-cuda-graph", "enforce_eager", takes="flag"),
    row("--cuda-graph-max-bs", "option:cuda_graph_max_bs", "int", until="0.5.19"),
    row("--cuda-graph-max-bs-decode", "option:cuda_graph_max_bs", "int", since="0.5.14"),
    row("--cuda-graph-backend-decode", "@decode_graphs", since="0.5.14"),
    row("--cuda-graph-backend-prefill", "option:cuda_graph_backend_prefill", since="0.5.14"),
    row("--disable-decode-cuda-graph", "option:disable_decode_cuda_graph", takes="flag", since="0.5.14", effect="less"),
    row("--cuda-graph-max-bs-prefill", "option:cuda_graph_max_bs_prefill", "int", since="0.5.14", effect="either"),
    row("--piecewise-cuda-graph-max-tokens", "option:cuda_graph_max_bs_prefill", "int", since="0.5.4", until="0.5.19", effect="either"),
    row("--enable-breakable-cuda-graph", "option:enable_breakable_cuda_graph", takes="flag", since="0.5.11", until="0.5.19"),
    row("--enforce-piecewise-cuda-graph", "option:enforce_piecewise_cuda_graph", takes="flag", since="0.5.10", until="0.5.19"),
    row("--enable-page-major-kv-layout", "option:enable_page_major_kv_layout", takes="flag", since="0.5.15", effect="either"),
    row("--enable-deepseek-v4-fp4-indexer", "option:enable_deepseek_v4_fp4_indexer", takes="flag", since="0.5.13", effect="either"),
    row("--disable-prefill-cuda-graph", "option:disable_prefill_cuda_graph", takes="flag", since="0.5.14"),
    row("--disable-piecewise-cuda-graph", "option:disable_prefill_cuda_graph", takes="flag", since="0.5.10", until="0.5.19"),
    row("--dsv4-attn-backend", "option:dsv4_attn_backend", since="0.5.20"),
    row("", "option:dsv4_kv_layout", since="0.5.21", variables="SGLANG_DSV4_KV_LAYOUT"),
    row("", "option:dsv4_compressed_kv_layout", since="0.5.21", variables="SGLANG_DSV4_COMPRESSED_KV_LAYOUT"),
    row("", "option:engram_host_table", "one_or_true", since="0.5.21", variables="SGLANG_ENABLE_DSV41_ENGRAM_HOST_TABLE"),
    row("", "option:swa_eviction_interval", "int", since="0.5.15", variables="SGLANG_SWA_EVICTION_INTERVAL"),
    row("--swa-prefix-tails", "option:swa_prefix_tails", "int", since="0.5.21"),
    row("--enable-encoder-swa-bounded-replay", "option:enable_encoder_swa_bounded_replay", takes="flag", since="0.5.21"),
    row("--enable-decoder-swa-bounded-replay", "option:enable_decoder_swa_bounded_replay", takes="switch", since="0.5.21"),
    row("--attention-backend", "option:attention_backend"),
    row("--decode-attention-backend", "option:decode_attention_backend", since="0.4.10"),
    row("--prefill-attention-backend", "option:prefill_attention_backend", since="0.4.10"),
    row("", "option:allocator", variables="PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF"),
    row("--model-impl", "@model_impl", since="0.5.0"),
    row("--is-embedding", "option:is_embedding", takes="flag"),
    row("--disable-radix-cache", "option:disable_radix_cache", takes="flag"),
    row("--disable-overlap-schedule", "option:disable_overlap_schedule", takes="flag"),
    row("--disable-hybrid-swa-memory", "option:disable_hybrid_swa_memory", takes="flag", since="0.5.0"),
    row("--swa-full-tokens-ratio", "option:swa_full_tokens_ratio", "float", since="0.5.0"),
    row("--mamba-full-memory-ratio", "option:mamba_full_memory_ratio", "float", since="0.5.4"),
    row("--mamba-track-interval", "option:mamba_track_interval", "int", since="0.5.7"),
    row("--max-mamba-cache-size", "option:max_mamba_cache_size", "int", since="0.5.2"),
    row("", "option:mamba_skip_decode_lock", "one_or_true", since="0.5.17", variables="SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK"),
    row("--mamba-ssm-dtype", "option:mamba_ssm_dtype", since="0.5.2"),
    row("", "option:mamba_ssm_dtype", since="0.5.8", variables="SGLANG_MAMBA_SSM_DTYPE"),
    row("", "option:mamba_conv_dtype", since="0.5.9", variables="SGLANG_MAMBA_CONV_DTYPE"),
    row("--mamba-radix-cache-strategy", "option:mamba_radix_cache_strategy", since="0.5.14"),
    row("--mamba-scheduler-strategy", "option:mamba_radix_cache_strategy", since="0.5.7", until="0.5.19"),
    row("--moe-dp-size --moe-data-parallel-size", "option:moe_dp_size", "int", since="0.5.9", effect="more"),
    row("--moe-a2a-backend", "option:moe_a2a_backend", since="0.5.0"),
    row("--deepep-mode", "option:deepep_mode", since="0.4.6"),
    row("", "option:deepep_num_max_dispatch_tokens_per_rank", "int", variables="SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"),
    row("", _HELD_MEGA, "int", variables="SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK"),
    row("", _DISPATCHED_V2, "int", variables="SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK"),
    row("--ep-num-redundant-experts", "option:ep_num_redundant_experts", "int", since="0.4.6"),
    row("--enable-symm-mem", "option:enable_symm_mem", takes="flag", since="0.4.10"),
    row("", "option:symm_mem_prealloc_gb", since="0.5.9", variables="SGLANG_SYMM_MEM_PREALLOC_GB_SIZE"),
    row("--enable-eplb", "option:enable_eplb", takes="flag", since="0.4.6"),
    row("--cuda-graph-bs", "@graph_bs", takes="many", until="0.5.19"),
    row("--cuda-graph-bs-decode", "@graph_bs", takes="many", since="0.5.14"),
    row("--piecewise-cuda-graph-tokens", "@graph_tokens", takes="many", since="0.5.4", until="0.5.19"),
    row("--cuda-graph-bs-prefill", "@graph_tokens", takes="many", since="0.5.14"),
    row("--cuda-graph-config", "@graph_config", "json", since="0.5.14"),
    row("--speculative-draft-attention-backend", "option:speculative_draft_attention_backend", since="0.5.7"),
    row("--dllm-algorithm", "option:dllm_algorithm", since="0.5.6", effect="either"),
    row("--enable-deepep-moe", "option:moe_a2a_backend", takes="flag", value="deepep", since="0.4.6", until="0.5.4"),
    row("--enable-ep-moe", "@ep_moe", takes="flag", until="0.5.4"),
    row("--enable-two-batch-overlap", "option:enable_two_batch_overlap", takes="flag", since="0.4.7", effect="more"),
    row("--enable-dp-lm-head", "option:enable_dp_lm_head", takes="flag", since="0.4.6"),
    row("--moe-dense-tp-size", "option:moe_dense_tp_size", "int", since="0.4.6"),
    row("--enable-deterministic-inference", "option:enable_deterministic_inference", takes="flag", since="0.5.3", effect="either"),
    row("--disaggregation-mode", "option:disaggregation_mode", since="0.4.6", effect="either"),
    row("--prefill-round-robin-balance", "option:prefill_round_robin_balance", takes="flag", since="0.5.2", until="0.5.19"),
    row("--disaggregation-decode-enable-radix-cache", "option:disaggregation_decode_enable_radix_cache", takes="flag", since="0.5.11"),
    row("--enable-mis", "option:enable_mis", takes="flag", since="0.5.11"),
    row("--dwdp-size", "@dwdp", "int", since="0.5.17", effect="more"),
    row("--cpu-offload-gb", "option:cpu_offload_gb", "float", effect="less"),
    row("--enable-layernorm-sp", "option:enable_layernorm_sp", takes="flag", since="0.5.19"),
    row("--moe-runner-backend", "option:moe_runner_backend", since="0.5.1", effect="either"),
    row("--kv-canary", "option:kv_canary", since="0.5.13", effect="either"),
    row("--expert-distribution-recorder-mode", "option:expert_distribution_recorder_mode", since="0.4.6", effect="either"),
    row("--debug-cuda-graph", "option:debug_cuda_graph", takes="flag", since="0.5.11"),
    row("--enable-dsa-prefill-context-parallel", _SHARED_PROMPTS, takes="flag", since="0.5.13", until="0.5.19", effect="either"),
    row("--enable-nsa-prefill-context-parallel", _SHARED_PROMPTS, takes="flag", since="0.5.7", until="0.5.19", effect="either"),
    row("--linear-attn-backend", "option:linear_attn_backend", since="0.5.10"),
    row("--linear-attn-decode-backend", "option:linear_attn_decode_backend", since="0.5.10"),
    row("--mamba-backend", "option:mamba_backend", since="0.5.9"),
    row("--enable-mamba-cache-stochastic-rounding", "option:enable_mamba_cache_stochastic_rounding", takes="flag", since="0.5.15"),
    row("--mm-feature-transport", "option:mm_feature_transport", since="0.5.16"),
    row("--dcp-comm-backend", "option:dcp_comm_backend", since="0.5.17"),
    row("--enable-unified-memory", "option:enable_unified_memory", takes="flag", since="0.5.15", effect="either"),
    row("--enable-linear-replayssm", "option:enable_linear_replayssm", takes="flag", since="0.5.15", effect="either"),
    row("--enable-cp-decode-attn-tp", "option:enable_cp_decode_attn_tp", takes="flag", since="0.5.17", effect="either"),
    row("--shared-experts-tp-size", "option:shared_experts_tp_size", "int", since="0.5.21", effect="either"),
    row("--enable-multi-layer-eagle", "option:enable_multi_layer_eagle", takes="flag", since="0.5.7", effect="either"),
    row("--rl-on-policy-target", "@on_policy", since="0.5.5"),
    row("--enable-piecewise-cuda-graph", "option:enable_piecewise_cuda_graph", takes="flag", since="0.5.4", until="0.5.13"),
    row("--enable-torch-compile", "option:enable_torch_compile", takes="flag", effect="either"),
    row("--enable-mixed-chunk", "option:enable_mixed_chunk", takes="flag"),
    row("--max-prefill-tokens", "option:max_prefill_tokens", "si"),
    row("--enable-multimodal", "@multimodal", takes="flag"),
    row("--dsa-decode-backend", "option:dsa_backend", since="0.5.13"),
    row("--dsa-prefill-backend", "option:dsa_prefill_backend", since="0.5.13"),
    row("--nsa-prefill-backend", "option:dsa_prefill_backend", since="0.5.4", until="0.5.19"),
    row("--nsa-decode-backend", "option:dsa_backend", since="0.5.4", until="0.5.19"),
    row("--speculative-algorithm", "@spec_method"),
    row("--speculative-draft-model-path --speculative-draft-model", "@spec_model"),
    row("--speculative-num-steps", "@spec_steps", "int"),
    row("--speculative-eagle-topk", "@spec_topk", "int"),
    row("--speculative-num-draft-tokens", "@spec_tokens", "int"),
    row("--speculative-dspark-block-size", "@spec_block", "int", since="0.5.16"),
    row("--enable-lora", "@lora", takes="flag", since="0.5.0"),
    row("--lora-paths", "@lora_paths", takes="many"),
    row("--max-lora-rank", "@lora_rank", "int", since="0.5.0"),
    row("--max-loras-per-batch", "@loras", "int"),
    row("--lora-target-modules", "@lora_modules", takes="many", since="0.5.0"),
    row("--experts-shared-outer-loras", "option:experts_shared_outer_loras", takes="switch", since="0.5.10"),
    row("--enable-hierarchical-cache", "option:enable_hierarchical_cache", takes="flag"),
    row("--hicache-ratio", "option:hicache_ratio", "float"),
    row("--hicache-size", "option:hicache_size", "float"),
    row("--json-model-override-args", "@overrides", "json"),
    row("", LONGER, "one_or_true", variables="SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"),
    row("--encoder-only", "option:encoder_only", takes="flag", since="0.5.7", effect="less"),
    row("--language-only", "@text_only", takes="flag", since="0.5.7"),
    row("--language-model-only", "option:language_model_only", takes="flag", since="0.5.18"),
    row("--device", "@device"),
    *block(IRRELEVANT),
    *block(EITHER, "either"),
    *block(MORE, "more"),
    *block(LESS, "less"),
    row("--enable-hisparse", "option:enable_hisparse", takes="flag", since="0.5.10"),
)  # fmt: skip

#: Tokens of n-grams where no option says them (server_args.py, 0.5.3 to 0.5.23).
NGRAM_TOKENS = 12
#: Methods whose steps a release picks by the model (auto_choose_speculative_params).
PICKED = ("eagle", "eagle3", "nextn", "standalone")
ON_LOAD = {"fp8": "fp8", "w8a8_fp8": "fp8_channel", "bitsandbytes": "nf4", "mxfp8": "mxfp8"}


def finish(given: Mapping[str, Given], positional: tuple[Given, ...]) -> Answer:
    """The question: what several options say together."""
    question, findings = names(given), list[Finding]()
    for name in ("dtype", "kv_dtype"):
        if name in question and question[name].value == "auto":
            del question[name]
    if (one := question.get("max_num_batched_tokens")) and one.value < 1:
        question["engine_option.disable_chunked_prefill"] = moved(question.pop("max_num_batched_tokens"), True)
        if one.value == 0:
            question["engine_option.zero_chunk"] = moved(one, True)
    findings += graphs_of(given, question)
    if one := given.get("@attention_dp"):
        question["dp"], question["engine_option.enable_dp_attention"] = one, moved(one, one.value > 1)
    if (one := given.get("@dwdp")) and one.value > 1:  # experts' weights are fetched from the others: server_args.py _handle_dwdp
        shared = {"dp": one.value, "ep": one.value, "engine_option.enable_dp_attention": True, "enforce_eager": True}
        question |= {name: moved(one, value) for name, value in shared.items()}
    if one := given.get("@on_policy"):
        question["engine_option.enable_deterministic_inference"] = moved(one, True)
    if "@ep_moe" in given and "tp" in question:
        question["ep"] = moved(given["@ep_moe"], question["tp"].value)
    a2a = question.get("engine_option.moe_a2a_backend")
    if a2a and a2a.value not in ("none", "flashinfer") and "ep" not in question and "tp" in question:
        question["ep"] = moved(a2a, question["tp"].value)  # server_args.py: these backends set ep_size to tp_size
    quantised = given.get("@quantization") or loaded_as(given.get("@load"))
    if quantised and quantised.value in ON_LOAD:
        question["weight_dtype"] = moved(quantised, ON_LOAD[quantised.value])
    if one := given.get("@quantization"):
        question["engine_option.quantization"] = moved(one, str(one.value).lower())
    if (one := given.get("@model_impl")) and one.value == "transformers":
        findings.append(warn("not-modelled-either", f"{one.spelled} transformers runs other code, whose memory is not modelled", one.place))
    findings += _speculative(given, question)
    if (one := given.get("@lora_modules")) and "all" in one.value and len(one.value) > 1:
        message = f"If 'all' is specified in {one.spelled}, it should be the only module specified; the engine would stop"
        findings.append(refuse(message, one.place))
    adapters = slots_of(given, question)
    if "@multimodal" in given:
        question["multimodal"] = moved(given["@multimodal"], "on")
    if "@text_only" in given:
        question["multimodal"] = moved(given["@text_only"], "off")
        question["engine_option.language_only"] = moved(given["@text_only"], True)
    if one := question.get("engine_option.language_model_only"):
        question["multimodal"] = moved(one, "off")
    if (one := given.get("@device")) and one.value not in ("cuda", "auto"):
        what = "a processor" if one.value == "cpu" else f"{str(one.value)[:20]} devices"
        findings.append(warn("not-modelled-less", f"--device {str(one.value)[:20]}: SGLang on {what} is not modelled", one.place))
    if (one := question.get("memory_fraction")) and not 0 < one.value < 1:
        findings.append(refuse(f"{one.spelled} {one.value:g} is not between 0 and 1", one.place))
        del question["memory_fraction"]
    if (one := given.get("@overrides")) and one.value:
        question["engine_option.json_model_override_args"] = moved(one, json.dumps(one.value))
        findings.append(Finding("overridden", "note", f"{one.spelled} replaces what the model's own config says", one.place))
    if (one := given.get(LONGER)) and one.value:
        findings.append(allowed(one))
    nodes = number(given, "@nodes")
    if "tp" in given and nodes > 1 and number(given, "tp") * number(given, "pp") % nodes:
        findings.append(refuse(f"tp_size must be divisible by number of nodes ({nodes}); the engine would stop", given["@nodes"].place))
    tp, decoding = number(given, "tp"), number(given, "@decode_tp")
    role = given.get("option:disaggregation_mode")
    if role and role.value == "prefill" and "@decode_tp" in given and max(tp, decoding) % max(min(tp, decoding), 1):
        message = "Different tp size is supported only when one tp is multiple of the other."
        findings.append(refuse(f"{message} decode_tp={decoding}, prefill_tp={tp}", given["@decode_tp"].place))
    rank = given.get("@rank")
    model = given.get("@model") or (positional[0] if positional else None)
    is_worker = bool(rank and rank.value)
    return Answer(question, model, tuple(findings), nodes=nodes, is_worker=is_worker, weights=quantised, adapters=adapters)


def _speculative(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    """--speculative-*: steps, or as many as the release picks by itself."""
    one = given.get("@spec_method")
    if one is None:
        if branches := given.get("@spec_topk"):  # Blackwell's default looks at it, whether something drafts or not
            question["engine_option.speculative_eagle_topk"] = branches
        if idle := given.get("@spec_tokens"):  # states have copies for them, whether something drafts or not
            question["engine_option.speculative_num_draft_tokens"] = idle
        return []
    steps, tokens = given.get("@spec_steps"), given.get("@spec_tokens")
    method = str(one.value).lower()
    if method == "ngram" and tokens is None:
        tokens = moved(one, NGRAM_TOKENS)
    model = given.get("@spec_model")
    noted = list[Finding]()
    if steps is None and tokens is None and method in PICKED:
        question["speculative"] = moved(one, f"{method}:auto" + (f":{model.value}" if model else ""))
        return []
    if method == "dflash" and steps is None and tokens is None:
        tokens = moved(one, BLOCK)
        message = f"{one.spelled} {one.value}: blocks of {BLOCK} tokens, SGLang's default where the drafter's config names no block_size"
        noted.append(Finding("block", "note", message, one.place))
    if method == "dspark":  # whose steps are made 1 whatever is asked
        steps = given.get("@spec_block")
        if steps and tokens and tokens.value != steps.value + 1:
            noted.append(refuse(f"DSpark speculative_num_draft_tokens must equal gamma + 1 (= {steps.value + 1})", tokens.place))
        if steps is None and tokens and tokens.value != DSPARK_BLOCK + 1:  # which other checkpoints may have
            question["engine_option.speculative_num_draft_tokens"] = tokens
        if steps is None and tokens is None:
            steps = moved(one, DSPARK_BLOCK)
            message = f"{one.spelled} {one.value}: blocks of {DSPARK_BLOCK} drafts, DeepSeek's dspark_block_size"
            noted.append(Finding("block", "note", message, one.place))
    if steps is None and tokens and method in ("dflash", "dspark"):  # a block: the token before it, and those that are drafted
        steps = moved(tokens, max(1, tokens.value - 1))
    if steps is None and not (method == "ngram" and tokens):
        message = f"{one.spelled} without --speculative-num-steps: SGLang picks the steps by model, which is not modelled"
        return [warn("not-modelled-more", message, one.place)]
    n = steps.value if steps else tokens.value if tokens else 1
    question["speculative"] = moved(one, f"{method}:{n}" + (f":{model.value}" if model else ""))
    topk = given.get("@spec_topk")
    chain = topk is not None and topk.value == 1 and method in PICKED  # whose tokens are made the steps and one
    if tokens and tokens.value != n + 1 and not chain:
        question["engine_option.speculative_num_draft_tokens"] = tokens
    if topk and topk.value > 1:
        question["engine_option.speculative_eagle_topk"] = topk
    return noted


def say(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The other way of `finish`."""
    says: dict[str, Any] = {}
    said = {name for name in ("speculative", "lora") if name in asked}
    if quantization := {ours: theirs for theirs, ours in ON_LOAD.items()}.get(asked.get("weight_dtype", "")):
        says["@quantization"] = quantization
        said.add("weight_dtype")
    if method := asked.get("option:quantization"):
        says["@quantization"] = method
        said.add("option:quantization")
    if asked.get("option:disable_chunked_prefill") in (True, "true"):
        zero = asked.get("option:zero_chunk") in (True, "true")
        says["max_num_batched_tokens"] = 0 if zero else -1
        said |= {"option:disable_chunked_prefill"} | ({"option:zero_chunk"} if zero else set())
    if text := asked.get("option:json_model_override_args"):
        says["@overrides"] = structure(text)
        said.add("option:json_model_override_args")
    if draft := read_speculative(asked.get("speculative")):
        says |= {"@spec_method": draft.method.upper()} | ({"@spec_model": draft.model} if draft.model else {})
        told, branches = asked.get("option:speculative_num_draft_tokens"), asked.get("option:speculative_eagle_topk")
        said |= {f"option:speculative_{key}" for key, one in (("num_draft_tokens", told), ("eagle_topk", branches)) if one}
        if draft.method == "ngram":
            says["@spec_tokens"] = told or draft.tokens
        elif draft.method == "dspark":
            says["@spec_block"] = draft.tokens
        elif draft.tokens:  # the engine picks all three or none; a tree's width is its own default's
            tokens = int(told or draft.tokens + 1)
            says |= {
                "@spec_steps": draft.tokens,
                "@spec_topk": int(branches or (1 if tokens == draft.tokens + 1 else 4)),
                "@spec_tokens": tokens,
            }
    else:
        for key, at in (("eagle_topk", "@spec_topk"), ("num_draft_tokens", "@spec_tokens")):
            if one := asked.get(f"option:speculative_{key}"):
                says[at] = int(one)
                said.add(f"option:speculative_{key}")
    if lora := read_lora(asked.get("lora")):
        says |= {"@lora": True, "@lora_rank": lora.rank, "@loras": lora.adapters}
        modules = asked.get("option:lora_target_modules")  # without adapters' files it wants to be told
        says["@lora_modules"] = str(modules).strip("[]() ").split(",") if modules else ["all"]
        said |= {"option:lora_target_modules"} if modules else set()
    sizes, of_graphs = sizes_said(asked)
    says |= sizes
    said |= of_graphs
    apart, alone = (asked.get(f"option:{key}") in (True, "true") for key in ("language_only", "language_model_only"))
    if apart:
        says["@text_only"] = True
        said |= {"multimodal", "option:language_only"} & set(asked)
    elif alone or asked.get("multimodal") == "on":  # no word says that towers stay out of a server without encoders beside it
        said |= {"multimodal"} & set(asked)
    return says, said


ARGUMENTS = Arguments(
    "sglang",
    ROWS,
    finish,
    say,
    ("python3", "-m", "sglang.launch_server"),
    lambda model: ("--model-path",),
    commands=("sglang serve",),
    modules={"sglang.launch_server": "", "dynamo.sglang": "", "sglang_router.launch_server": "--router-"},
    releases=RELEASES,
    abbreviations=True,
    config="options",
    prefix=("SGLANG_", "SGL_"),
    quiet_named=QUIET_NAMED,
    loud_variables=(*LOUD, *(f"SGLANG_{name}" for name in VARIABLES.split())),
    image=("lmsysorg/sglang", "v{}", "latest"),
    length_bound=True,
    choices=CHOICES,
    exclusions=EXCLUSIONS,
    packed_only=PACKED_ONLY,
    repositories=(
        Repository(r"(^|/)lmsysorg/sglang(-rocm)?$"),
        Repository(r"(^|/)sglang$", tag=MIRRORED),
    ),
)
