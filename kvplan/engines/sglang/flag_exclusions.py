"""Options of roles, elastic experts, watermarks and servers that SGLang refuses together or alone, in its words.

Source: server_args.py and arg_groups/* of 26 wheels, 0.4.6.post5 to 0.5.23; each is dated by the first that has the sentence.
"""

from __future__ import annotations

from kvplan.engines.common.exclusions import Exclusion

_ELASTIC = "elastic_ep_backend=mooncake,nixl"
_JOINS = "elastic_ep_join_mode=scale"

EXCLUSIONS: tuple[Exclusion, ...] = (
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
    Exclusion("tokenizer_worker_num<=0", "tokenizer_worker_num>0", "Tokenizer worker num must >= 1", "0.5.2"),
)  # fmt: skip
