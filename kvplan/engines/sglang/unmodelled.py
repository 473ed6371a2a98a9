"""SGLang options without memory in them, and those whose effect is not modelled: (first release, last release) -> names.

From server_args.py and arg_groups/fields of the releases named in arguments.py. Marks: see `block`.
"""

IRRELEVANT: dict[tuple[str, str], str] = {
    ("", "0.4.3"): "disable-jump-forward! file-storage-pth prefill-only-one-req return-hidden-states!",
    ("", "0.4.7"): "enable-flashinfer-mla!",
    ("", "0.5.10"): "ds-channel-config-path ds-heavy-channel-num ds-heavy-channel-type ds-heavy-token-num ds-sparse-decode-threshold",
    ("", "0.5.12"): "enable-nan-detection!",
    ("", "0.5.19"): "stream-output!",
    ("", ""): """
        allow-auto-truncate! api-key chat-template constrained-json-whitespace-pattern decode-log-interval delete-ckpt-after-loading!
        disable-outlines-disk-cache! dist-init-addr=nccl-init-addr download-dir enable-cache-report! enable-custom-logit-processor!
        enable-metrics! enable-p2p-check! grammar-backend host load-balance-method log-level log-level-http log-requests! lora-backend
        port quantization-param-path random-seed revision sampling-backend schedule-conservativeness schedule-policy served-model-name
        show-time-cost! skip-tokenizer-init! stream-interval tokenizer-mode tokenizer-path tool-call-parser torch-compile-max-bs
        triton-attention-reduce-in-fp32! trust-remote-code! watchdog-timeout num-continuous-decode-steps# base-gpu-id#
    """,
    ("0.4.6", "0.4.6"): "n-share-experts-fusion",
    ("0.4.6", "0.4.7"): "enable-flashmla!",
    ("0.4.6", "0.5.1"): "pdlb-url",
    ("0.4.6", "0.5.3"): "max-micro-batch-size#",
    ("0.4.6", "0.5.13"): "debug-tensor-dump-inject",
    ("0.4.6", "0.5.19"): "collect-tokens-histogram! enable-expert-distribution-metrics!",
    ("0.4.6", ""): """
        completion-template debug-tensor-dump-input-file debug-tensor-dump-output-folder disable-fast-image-processor!
        disaggregation-bootstrap-port disaggregation-ib-device disaggregation-transfer-backend dist-timeout
        enable-tokenizer-batch-encode! file-storage-path flashinfer-mla-disable-ragged! hicache-write-policy log-requests-level
        reasoning-parser speculative-accept-threshold-acc speculative-accept-threshold-single warmups disable-chunked-prefix-cache!
        gpu-id-step# bucket-e2e-request-latency* bucket-inter-token-latency* bucket-time-to-first-token* deepep-config
        enable-request-time-stats-logging! ep-dispatch-algorithm eplb-rebalance-num-iterations init-expert-location kv-events-config
        mm-attention-backend preferred-sampling-params
    """,
    ("0.4.7", "0.4.9"): "impl",
    ("0.4.7", ""): "eplb-algorithm eplb-rebalance-layers-per-chunk",
    ("0.4.8", "0.4.9"): "disable-overlap-cg-plan! enable-flashinfer-moe!",
    ("0.4.8", "0.5.3"): "debug-tensor-dump-prefill-only!",
    ("0.4.8", "0.5.9"): "disaggregation-decode-dp disaggregation-prefill-pp",
    ("0.4.8", ""): """
        custom-weight-loader* enable-profile-cuda-graph! enable-return-hidden-states! num-reserved-decode-tokens sleep-on-idle!
        weight-loader-disable-mmap!
    """,
    ("0.4.9", ""): "crash-dump-folder model-loader-extra-config nccl-port skip-server-warmup!",
    ("0.5.0", "0.5.4"): """
        enable-flashinfer-cutlass-moe! enable-flashinfer-trtllm-moe! enable-triton-kernel-moe! enable-flashinfer-mxfp4-moe!
    """,
    ("0.5.0", ""): """
        enable-cudagraph-gc! enable-metrics-for-all-schedulers! hicache-io-backend hicache-mem-layout hicache-storage-backend
        hicache-storage-prefetch-policy max-queued-requests scheduler-recv-interval sm-group-num tbo-token-distribution-threshold
        tool-server weight-version
    """,
    ("0.5.1", ""): """
        disable-flashinfer-cutlass-moe-fp4-allgather! flashinfer-mxfp4-moe-precision gc-warning-threshold-secs
        hicache-storage-backend-extra-config
    """,
    ("0.5.2", ""): """
        eplb-min-rebalancing-utilization-threshold generation-tokens-buckets* numa-node* prompt-tokens-buckets*
        speculative-attention-mode speculative-draft-model-revision tokenizer-worker-num
    """,
    ("0.5.3", "0.5.3"): "nsa-prefill nsa-decode",
    ("0.5.3", "0.5.4"): "enable-flashinfer-cutedsl-moe! oltp-traces-endpoint",
    ("0.5.3", "0.5.5"): "load-watch-interval",
    ("0.5.3", "0.5.9"): """
        speculative-ngram-branch-length speculative-ngram-max-match-window-size speculative-ngram-min-match-window-size
    """,
    ("0.5.3", ""): """
        disaggregation-decode-polling-interval dynamic-batch-tokenizer-batch-size dynamic-batch-tokenizer-batch-timeout
        enable-dynamic-batch-tokenizer! enable-priority-scheduling! enable-single-batch-overlap! enable-trace! max-lora-chunk-size
        priority-scheduling-preemption-threshold radix-eviction-policy remote-instance-weight-loader-seed-instance-ip
        remote-instance-weight-loader-seed-instance-service-port remote-instance-weight-loader-send-weights-group-ports*
        schedule-low-priority-values-first! speculative-ngram-capacity speculative-ngram-match-type speculative-ngram-max-bfs-breadth
        speculative-ngram-min-bfs-breadth tokenizer-metrics-allowed-custom-labels* tokenizer-metrics-custom-labels-header
    """,
    ("0.5.4", "0.5.4"): "enable-beta-spec!",
    ("0.5.4", "0.5.5"): "kt-amx-method kt-amx-weight-path",
    ("0.5.4", "0.5.10"): "multi-item-scoring-delimiter",
    ("0.5.4", "0.5.19"): "piecewise-cuda-graph-compiler",
    ("0.5.4", ""): """
        abort-on-priority-when-disabled! checkpoint-engine-wait-weights-before-ready! constrained-json-disable-any-whitespace!
        disable-tokenizer-batch-decode! elastic-ep-backend grpc-mode! kt-threadpool-count lora-eviction-policy
        modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path mooncake-ib-device pdmux-config-path
        sampling-defaults speculative-draft-load-format
    """,
    ("0.5.5", "0.5.9"): "mm-max-concurrent-calls mm-per-request-timeout",
    ("0.5.5", ""): """
        debug-tensor-dump-layers* decrypted-config-file decrypted-draft-config-file enable-broadcast-mm-inputs-process!
        enable-layerwise-nvtx-marker! export-metrics-to-file! export-metrics-to-file-dir kt-max-deferred-experts-per-token
        otlp-traces-endpoint speculative-moe-runner-backend
    """,
    ("0.5.6", "0.5.6"): "enable-flashinfer-autotune!",
    ("0.5.7", "0.5.7"): "disaggregation-decode-enable-fake-auto!",
    ("0.5.7", "0.5.13"): "custom-sigquit-handler",
    ("0.5.7", ""): """
        disable-flashinfer-autotune! dllm-algorithm-config enable-dynamic-chunking! enable-fused-qk-norm-rope?
        enable-precise-embedding-interpolation! enable-prefix-mm-cache! enable-torch-compile-debug-mode! encoder-transfer-backend
        encoder-urls* fastapi-root-path forward-hooks* fp8-gemm-backend limit-mm-data-per-request log-requests-format mm-process-config
        pp-async-batch-depth prefill-max-requests remote-instance-weight-loader-backend
        remote-instance-weight-loader-start-seed-via-transfer-engine! rl-quant-profile soft-watchdog-timeout
        speculative-moe-a2a-backend
    """,
    ("0.5.9", "0.5.9"): "disable-hicache-numa-detect!",
    ("0.5.9", "0.5.19"): "nsa-prefill-cp-mode",
    ("0.5.9", ""): """
        admin-api-key enable-prefill-delayer! extra-metric-labels fp4-gemm-backend hf-chat-template-name log-requests-target*
        model-checksum prefill-delayer-forward-passes-buckets* prefill-delayer-max-delay-passes
        prefill-delayer-token-usage-low-watermark prefill-delayer-wait-seconds-buckets* uvicorn-access-log-exclude-prefixes*
    """,
    ("0.5.10", "0.5.19"): "prefill-cp-mode",
    ("0.5.10", ""): """
        default-priority-value disable-priority-preemption! enable-adaptive-dispatch-to-encoder! enable-aiter-allreduce-fusion!
        enable-elastic-expert-backup! enable-fused-moe-sum-all-reduce! enable-mfu-metrics! enable-mm-global-cache! enable-ssl-refresh!
        enable-streaming-session! enforce-disable-flashinfer-allreduce-fusion! engine-info-bootstrap-port gc-threshold*
        incremental-streaming-output! linear-attn-prefill-backend modelexpress-config pre-warm-nccl! speculative-ngram-max-trie-depth
        ssl-ca-certs ssl-certfile ssl-keyfile ssl-keyfile-password stream-response-default-include-usage! use-ray!
    """,
    ("0.5.11", "0.5.12"): "record-nolora-graph?",
    ("0.5.11", "0.5.20"): "elastic-ep-rejoin!",
    ("0.5.11", "0.5.22"): "speculative-skip-dp-mlp-sync!",
    ("0.5.11", ""): """
        batch-notify-size enable-dp-attention-local-control-broadcast! enable-http2! enable-quant-communications!
        lora-strict-loading? lora-use-virtual-experts! msprobe-dump-config grpc-http-sidecar-port speculative-adaptive-config
        speculative-ngram-external-corpus-max-tokens speculative-ngram-external-corpus-path speculative-ngram-external-sam-budget
        strip-thinking-cache! tokenizer-backend weight-loader-prefetch-checkpoints! weight-loader-prefetch-num-threads
    """,
    ("0.5.12", "0.5.15"): "enable-deepep-waterfill!",
    ("0.5.12", ""): """
        detokenizer-worker-num enable-forward-pass-metrics! enable-strict-thinking! forward-pass-metrics-ipc-name
        forward-pass-metrics-worker-id lora-drain-wait-threshold prefill-delayer-max-delay-ms
        prefill-delayer-queue-min-ratio weight-loader-drop-cache-after-load!
    """,
    ("0.5.13", "0.5.15"): "optimistic-prefill-retries",
    ("0.5.13", "0.5.19"): "dsa-prefill-cp-mode",
    ("0.5.13", ""): """
        asr-max-buffer-seconds asr-max-concurrent-sessions deepep-dispatcher-output-dtype disable-attn-tp-gather! dsa-topk-backend
        encoder-bootstrap-port encoder-register-urls* kv-canary-real-data kv-canary-sweep-interval lmcache-config-file
        load-snapshot-publish-interval trace-modules
    """,
    ("0.5.14", "0.5.21"): "cuda-graph-tc-compiler",
    ("0.5.14", ""): "cp-strategy flashinfer-allreduce-fusion-backend speculative-use-rejection-sampling!",
    ("0.5.15", ""): """
        bf16-gemm-backend decoupled-spec-bind-endpoint decoupled-spec-connect-endpoints* decoupled-spec-rank decoupled-spec-role
        dsa-paged-mqa-logits-backend enable-session-radix-cache! enable-tf32-matmul?
        mamba-cache-philox-rounds min-free-slots-delay spec-trace-dir
    """,
    ("0.5.16", "0.5.19"): "enable-gdn-replayssm-spec!",
    ("0.5.16", ""): """
        smg-http-sidecar-port default-chat-template-kwargs dllm-fdfo? elastic-ep-join-mode elastic-ep-join-rank-offset
        elastic-ep-scale-timeout enable-waterfill! flexkv-config-file fuseep-mode grpc-port
        optimistic-prefill-attempts retraction-policy sidecar sidecar-args* smg-grpc-mode!
        speculative-dspark-align-verify-tokens-to-graph-tier! speculative-dspark-confidence-sts-path speculative-dspark-sps-table-path
    """,
    ("0.5.17", ""): """
        flashinfer-autotune-skip-ops* linear-attn-verify-backend mm-io-worker-num mm-processor-worker-num
        return-hidden-states-mode weight-cache-socket weight-cache-timeout
    """,
    ("0.5.18", "0.5.18"): "stat-loggers",
    ("0.5.18", ""): """
        allowed-media-domains* disaggregation-decode-retraction-backup enable-tp-lm-head-all-to-all? expert-balancedness-report-mode
        http2-max-concurrent-streams image-processor-backend media-url-max-file-size-mb mlx-enable-sampling! mm-global-cache-backend
        startup-weight-load-mode trust-mm-content-hashes!
    """,
    ("0.5.19", ""): """
        deepep-v2-mode dsv4-prefill-backend enable-lean-attention! enable-w4a4-mxfp4-megamoe! gated-launch-port
        hicache-storage-prefetch-retry-max-attempts hicache-storage-prefetch-retry-poll-interval http2-initial-connection-window-size
        load-publish-endpoint prefill-decode-interval speculative-dsa-topk-backend
    """,
    ("0.5.20", ""): """
        enable-response-store! flashinfer-a2a-dispatch-type ple-offload-backend ple-offload-dir
        radix-eviction-policy-config return-input-ids! return-output-ids! sampling-mask-max-tokens
        speculative-domino-candidate-pool-size unified-cache-external-linker-backend uno-lora-path
    """,
    ("0.5.21", ""): """
        boundary-reduction constrained-json-max-whitespace-cnt disable-aiter-allreduce-fusion-in-decode!
        disable-aiter-allreduce-fusion-in-prefill! disaggregation-decode-host-receive-threshold disaggregation-enable-kv-checksum!
        enable-linker-mla-dedup! enable-pd-role-switch!
        grpc-response-timeout-secs otlp-service-name speculative-draft-sink-size trust-request-chat-template!
    """,
    ("0.5.22", ""): """
        disaggregation-decode-allocation-policy dsa-triton-union enable-dsa-fused-indexer? enable-watermark!
        speculative-enable-w4a4-mxfp4-megamoe? speculative-use-block-verification! watermark-config
    """,
    ("0.5.23", ""): """
        enable-hicache! enable-amd-monokernel! enable-http-worker-reuseport! enable-megamoe-for-layernorm-sp! enable-nvidia-megakernel!
        enable-return-aux-hidden-states! monokernel-backend prefill-decode-interval-min-bs return-aux-hidden-state-layer-ids*
        unified-cache-external-linker-config
    """,
}

EITHER: dict[tuple[str, str], str] = {
    ("", "0.5.17"): "torchao-config",
    ("", ""): "enable-memory-saver! triton-attention-num-kv-splits enable-nccl-nvls! disable-custom-all-reduce!",
    ("0.4.6", ""): "expert-distribution-recorder-buffer-size",
    ("0.4.7", ""): "enable-mscclpp! disable-shared-experts-fusion!",
    ("0.4.9", "0.5.13"): "hybrid-kvcache-ratio*",
    ("0.4.9", ""): "enable-flashinfer-allreduce-fusion!",
    ("0.5.0", ""): "max-loaded-loras",
    ("0.5.2", ""): "enable-lmcache!",
    ("0.5.3", ""): """
        enable-torch-symm-mem! disaggregation-decode-enable-offload-kvcache! enable-weights-cpu-backup! triton-attention-split-tile-size
    """,
    ("0.5.4", ""): """
        kt-cpuinfer kt-num-gpu-experts modelopt-quant pp-max-micro-batch-size quantize-and-serve!
    """,
    ("0.5.5", ""): "enable-attn-tp-input-scattered! kt-method kt-weight-path enable-draft-weights-cpu-backup!",
    ("0.5.6", "0.5.6"): "dllm-block-size#",
    ("0.5.7", ""): "enable-return-routed-experts! speculative-draft-model-quantization",
    ("0.5.8", ""): "enable-lora-overlap-loading! hierarchical-sparse-attention-extra-config",
    ("0.5.10", ""): "hisparse-config",
    ("0.5.10", "0.5.19"): "enable-prefill-context-parallel!",
    ("0.5.11", ""): "speculative-adaptive! speculative-dflash-block-size# enforce-shared-experts-fusion!",
    ("0.5.12", ""): "enable-return-indexer-topk! model-config-parser",
    ("0.5.13", ""): "radix-cache-backend",
    ("0.5.14", ""): """
        disaggregation-decode-extra-slots enable-prefill-cp! enable-int8-mamba-checkpoint!
        int8-mamba-ckpt-size#
    """,
    ("0.5.15", ""): "linear-replayssm-cache-len",
    ("0.5.16", ""): "elastic-ep-initial-size# max-ep-size# enable-flexkv!",
    ("0.5.17", ""): "mamba-max-states-per-path# weight-cache-mode dcp-replicate-q-proj? enable-linear-replayssm-spec!",
    ("0.5.18", ""): "speculative-draft-kv-cache-dtype c128-page-size# mm-preprocess-cache-size-mb",
    ("0.5.19", ""): "hicache-host-memory-mode enable-shared-experts-attn-tp! enable-dense-mlp-attn-tp!",
    ("0.5.20", ""): "enable-unified-cache-external-linker!",
    ("0.5.21", ""): """
        prefill-kv-cache-dequant-dtype cuda-graph-max-seq-len-prefill# cuda-graph-prefill-max-context=context-bucket#
        hicache-host-memory-fraction
    """,
    ("0.5.22", ""): "enable-kv-cache-sharding! qsa-indexer-dtype",
    ("0.5.23", ""): "enable-paged-experts! paged-experts-num-resident",
}

MORE: dict[tuple[str, str], str] = {
    ("", "0.4.3"): "disable-mla!",
    ("", "0.5.10"): "enable-double-sparsity!",
    ("", ""): "disable-cuda-graph-padding!",
    ("0.5.0", ""): "enable-pdmux!",
    ("0.5.3", "0.5.20"): "keep-mm-feature-on-device!",
    ("0.5.3", ""): "enable-fp32-lm-head!",
    ("0.5.7", ""): "mm-enable-dp-encoder?",
}

LESS: dict[tuple[str, str], str] = {
    ("0.4.6", ""): "speculative-token-map",
    ("0.5.1", ""): "offload-group-size# offload-num-in-group# offload-prefetch-step# offload-mode",
    ("0.5.11", "0.5.19"): "speculative-dflash-draft-window-size#",
    ("0.5.12", ""): "prefill-only-disable-kv-cache! speculative-draft-window-size#",
    ("0.5.16", ""): "enable-dsa-cache-layer-split! enable-scattered-sconv!",
    ("0.5.20", ""): "ple-offload-embedding?",
}

#: Variables, without their SGLANG_, that move memory in a way that is not modelled (environ.py of 0.4.6 to 0.5.23).
VARIABLES = """
    ENABLE_POST_CAPTURE_KV_SIZING FLASHINFER_WORKSPACE_SIZE VLM_CACHE_SIZE_MB MM_BUFFER_SIZE_MB MM_FEATURE_CACHE_MB USE_CUDA_IPC_TRANSPORT
    EMBEDDING_POOL_SIZE_MB DISAGG_STAGING_BUFFER DISAGG_STAGING_POOL_SIZE_MB MOONCAKE_CUSTOM_MEM_POOL MAX_KV_CHUNK_CAPACITY
    NIXL_EP_NUM_MAX_DISPATCH_TOKENS_PER_RANK
    PPLX_NUM_MAX_DISPATCH_TOKENS_PER_RANK MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK MORI_PREALLOC_MAX_RECV_TOKENS
    FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK DSV4_FP4_LOGITS_BUDGET_MB DSV4_UNIFIED_KV_FP8
    DSV4_COMPRESS_STATE_DTYPE ZBAL_LOCAL_MEM_SIZE AITER_HONOR_EXPLICIT_MEM_FRACTION
    DSA_MQA_LOGITS_FREE_MEM_FRACTION DEEPGEMM_MASKED_MEMORY_BUDGET_FRACTION ENABLE_PCIE_IPC_ALLREDUCE MEMORY_SAVER_CUDA_GRAPH
    ENABLE_GRAPH_POOL_BORROW ENABLE_GRAPH_POOL_PRECARVE QWEN4_PLE_FILE_RSS_BUDGET_GB
    FLASHINFER_MEGAMOE_MAX_TOKENS_PER_RANK MOONCAKE_EP_NUM_MAX_DISPATCH_TOKENS_PER_RANK
    SHARED_EXPERT_TP1 VIT_ENABLE_CUDA_GRAPH KIMI_K3_VIT_CUDA_GRAPH_CACHE_CAPACITY USE_BREAKABLE_CUDA_GRAPH ENABLE_CUDA_GRAPH_DEDUP
    PREP_IN_CUDA_GRAPH LOGPROB_CHUNK_SIZE ENABLE_LOGPROB_CHUNK DSV4_FP4_DEQUANT DSV4_FP4_EXPERTS OPT_MINIMAX_M3_FP8_INDEX_CACHE
    NVFP4_CKPT_FP8_NEXTN_MOE NVFP4_CKPT_FP8_GEMM_IN_ATTN ROCM_OPT_DSPARK_FP8_LM_HEAD CUSTOM_ALL_REDUCE_V2_MAX_SIZE_KB
    PCIE_IPC_MAX_NUMEL EXPERT_CACHE_VRAM_MIB EXPERT_STAGE_SLOTS DISAGG_STAGING_BUFFER_SIZE_MB DISAGGREGATION_NUM_PRE_ALLOCATE_REQS
    CI_SMALL_KV_SIZE KT_MOE_NUM_GPU_EXPERTS MLX_CACHE_LIMIT_GB DSV4_DECODER_TAIL_GRAPH_MAX_ROWS
"""
#: Words in the names of its variables (srt/environ.py of 0.4.9 to 0.5.23) that say what else they are about.
QUIET_NAMED = (
    r"_(LOG|LOGS|LOGGING|TIMEOUT|IP|PORT|URL|DIR|PATH|HEALTH|HEALTHCHECK|HEARTBEAT|METRICS|WARNING|VERBOSE|DEBUG|TRACE|PROFILE|PROFILER|"
    r"RETRY|RETRIES|FAILURE|NVTX|NVTX_OPERATIONS|PYSPY|INBALANCE_CHECK|SANITY_CHECK|VERSION_CHECK|MODELSCOPE|TOOLS?|REASONING_EFFORT|OTLP|"
    r"PRECOMPILE|COMPILE_WORKERS)(_|$)"
)
