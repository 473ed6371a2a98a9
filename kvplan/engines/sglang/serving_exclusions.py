"""Options of adapters, roles, elastic experts, watermarks, processes and GPUs of a server that SGLang refuses together or alone.

Source: server_args.py and arg_groups of 26 wheels, 0.4.6.post5 to 0.5.23; each is dated by the first that has the sentence.
"""

from __future__ import annotations

from kvplan.engines.common.exclusions import Exclusion

_ELASTIC = "elastic_ep_backend=mooncake,nixl"
_JOINS = "elastic_ep_join_mode=scale"

EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "enable_lora=*", "lora_paths=*|max_lora_rank=*&lora_target_modules=*",
        "When no initial --lora-paths is provided, you need to specify both --max-lora-rank and --lora-target-modules", "0.4.9",
    ),
    Exclusion("max_loras_per_batch<=0", "max_loras_per_batch=", "max_loras_per_batch must be positive"),
    Exclusion(
        "lora_paths=*", "disable_radix_cache=*|disaggregation_mode=decode|attention_backend=dual_chunk_flash_attn",
        "compatibility of lora and radix attention is in progress", before="0.5.0",
    ),
    *(
        Exclusion(few, "max_loaded_loras=", "max_loaded_loras should be greater than or equal to max_loras_per_batch", "0.4.10")
        for way in ("enable_lora=*", "lora_paths=*")
        for few in (f"{way}&max_loras_per_batch>max_loaded_loras", f"{way}&max_loras_per_batch=&max_loaded_loras<=7")  # 8 of a batch
    ),
    Exclusion(
        "enable_lora=*&enable_lora_overlap_loading=*", "max_loaded_loras=*",
        "Enabling LoRA overlap loading requires --max-loaded-loras of at most double --max-loras-per-batch", "0.5.8",
    ),
    Exclusion(
        "multi_item_scoring_delimiter=*", "disable_radix_cache=*", "Multi-item scoring requires radix cache to be disabled.",
        "0.5.4", "0.5.11",
    ),
    Exclusion(
        "multi_item_scoring_delimiter=*", "chunked_prefill_size=-1", "Multi-item scoring requires chunked prefill to be disabled.",
        "0.5.4", "0.5.11",
    ),
    Exclusion(
        "nnodes>1", "tensor_parallel_size=*|pipeline_parallel_size=*|elastic_ep_join_mode=scale",
        "tp_size must be divisible by number of nodes",
    ),
    *(
        Exclusion(
            f"disaggregation_mode=decode&disaggregation_decode_{size}=*", f"disaggregation_decode_{size}=",
            f"Cannot set --disaggregation-decode-{size} for the decode engine.", "0.4.8", "0.5.10",
        )
        for size in ("tp", "dp")
    ),
    Exclusion(
        "encoder_only=*", "disaggregation_mode=,null",
        "Cannot set --encoder-only and --disaggregation-mode prefill/decode together", "0.5.7",
    ),
    Exclusion(
        "enable_eplb=*&elastic_ep_backend=mooncake,nixl", "eplb_algorithm=,auto,elasticity_aware",
        "Elastic EP requires eplb_algorithm to be set to 'auto' or 'elasticity_aware'.", "0.5.4",
    ),
    Exclusion("model_impl=mindspore", "device=npu", "MindSpore model impl is only supported on Ascend npu.", "0.5.6"),
    Exclusion("base_gpu_id<=-1", "base_gpu_id=", "base_gpu_id must be non-negative"),
    Exclusion("gpu_id_step<=0", "gpu_id_step=", "gpu_id_step must be positive"),
    Exclusion("tokenizer_worker_num<=0", "tokenizer_worker_num=", "Tokenizer worker num must >= 1", "0.5.2"),
    Exclusion(
        "schedule_conservativeness<=-1e-9", "schedule_conservativeness=", "schedule_conservativeness must be non-negative", "0.5.5",
    ),
    Exclusion(
        "elastic_ep_initial_size=*", f"{_ELASTIC}&max_ep_size>1",
        "--elastic-ep-initial-size is only valid for an Elastic EP deployment with --max-ep-size larger than its local TP size.", "0.5.16",
    ),
    Exclusion("max_ep_size=*", _ELASTIC, "--max-ep-size requires --elastic-ep-backend to be set.", "0.5.16"),
    Exclusion(
        "elastic_ep_join_rank_offset>0", _JOINS, "--elastic-ep-join-rank-offset is only valid with --elastic-ep-join-mode scale.", "0.5.16",
    ),
    Exclusion(_JOINS, "node_rank=1", "Elastic EP scale-up requires one joining TP group at --node-rank 1", "0.5.16"),
    Exclusion(
        _JOINS, "elastic_ep_join_rank_offset>0",
        "Elastic EP scale joiners require --elastic-ep-join-rank-offset set to the current effective EP size.", "0.5.16",
    ),
    Exclusion("encoder_only=*&language_only=*", "language_only=", "Cannot set --encoder-only and --language-only together", "0.5.7"),
    *(
        Exclusion(
            "language_model_only=*", f"{flag}=", f"--language-model-only cannot be combined with --{flag.replace('_', '-')}", "0.5.18",
        )
        for flag in (
            "encoder_only", "language_only", "enable_prefix_mm_cache", "enable_broadcast_mm_inputs_process", "mm_enable_dp_encoder",
        )
    ),
    Exclusion(
        "disaggregation_mode=prefill&disaggregation_transfer_backend=fake", "disaggregation_mode=",
        "Prefill server does not support 'fake' as the transfer backend", "0.5.10",
    ),
    Exclusion(
        "disaggregation_mode=decode&dcp_size>1", "enable_hierarchical_cache=",
        "PD decode DCP currently requires chunk cache; --enable-hierarchical-cache is not supported.", "0.5.17", "0.5.21",
    ),
    Exclusion(
        "enable_unified_memory=*&speculative_algorithm=*&speculative_eagle_topk>1", "enable_unified_memory=",
        "--enable-unified-memory supports a linear draft chain only (--speculative-eagle-topk in {None, 1})", "0.5.18",
    ),
    Exclusion(
        "enable_session_radix_cache=*", "radix_eviction_policy=priority",
        "--enable-session-radix-cache requires --radix-eviction-policy priority", "0.5.15", "0.5.17",
    ),
    Exclusion("watermark_config=*", "enable_watermark=*", "--watermark-config requires --enable-watermark", "0.5.22"),
    Exclusion(
        "enable_watermark=*", "speculative_algorithm=,NGRAM,EAGLE,EAGLE3,NEXTN",
        "--enable-watermark supports speculative algorithms NGRAM, EAGLE, and EAGLE3", "0.5.22",
    ),
    Exclusion("load_publish_endpoint=*", "kv_events_config=*", "--load-publish-endpoint requires --kv-events-config", "0.5.19"),
    Exclusion("ssl_keyfile=*", "ssl_certfile=*", "--ssl-keyfile requires --ssl-certfile to be specified as well.", "0.5.10"),
    Exclusion("ssl_certfile=*", "ssl_keyfile=*", "--ssl-certfile requires --ssl-keyfile to be specified as well.", "0.5.10"),
    Exclusion(
        "grpc_port=*", "api_key=&admin_api_key=|smg_grpc_mode=*|grpc_mode=*",
        "--grpc-port is incompatible with --api-key/--admin-api-key: the native gRPC listener bypasses HTTP auth middleware.", "0.5.16",
    ),
    Exclusion("served_model_name~:", "served_model_name~://", "served_model_name cannot contain a colon (':') character.", "0.5.6"),
)  # fmt: skip
