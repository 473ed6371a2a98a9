"""vLLM options without memory in them, and those whose effect is not modelled: (first release, last release) -> names.

From engine/arg_utils.py of the releases named in arguments.py and of 0.6.2, 0.7.3, 0.8.2 and 0.8.3; the server's cli_args.py of 0.32.
Marks: see `block`.
"""

IRRELEVANT: dict[tuple[str, str], str] = {
    ("", ""): """
        -h=help allow-credentials? allowed-headers{ allowed-local-media-path allowed-methods{ allowed-origins{ api-key* chat-template
        chat-template-content-format code-revision config-format disable-cascade-attn? disable-fastapi-docs? disable-log-stats!
        disable-uvicorn-access-log? download-dir enable-auto-tool-choice? enable-force-include-usage? enable-log-outputs?
        enable-prompt-tokens-details? enable-request-id-headers? enable-server-load-tracking? enable-ssl-refresh?
        enable-tokenizer-info-endpoint? exclude-tools-when-tool-choice-none? generation-config h11-max-header-count
        h11-max-incomplete-event-size hf-config-path hf-token host ignore-patterns* log-config-file log-error-stack? lora-dtype
        max-log-len max-parallel-loading-workers# middleware model-loader-extra-config override-generation-config{ port
        prefix-caching-hash-algo ray-workers-use-nsight? reasoning-parser response-role return-tokens-as-token-ids?
        revision root-path seed served-model-name* show-hidden-metrics-for-version skip-tokenizer-init? ssl-ca-certs ssl-cert-reqs
        ssl-certfile ssl-keyfile tokenizer tokenizer-mode tokenizer-revision tokens-only? tool-call-parser tool-parser-plugin tool-server
        trust-request-chat-template? uds use-tqdm-on-load? uvicorn-log-level
    """,
    ("", "0.6.2"): "quantization-param-path worker-use-ray!",
    ("", "0.8.2"): """
        disable-logprobs-during-spec-decoding ngram-prompt-lookup-max# ngram-prompt-lookup-min# spec-decoding-acceptance-method
        speculative-disable-by-batch-size# speculative-disable-mqa-scorer! typical-acceptance-sampler-posterior-alpha~
        typical-acceptance-sampler-posterior-threshold~
    """,
    ("", "0.9.2"): """
        prompt-adapters*
        enable-reasoning? expand-tools-even-if-tool-choice-none? long-lora-scaling-factors max-prompt-adapter-token max-prompt-adapters
        qlora-adapter-name-or-path
        tokenizer-pool-extra-config tokenizer-pool-size tokenizer-pool-type use-v2-block-manager?
    """,
    ("", "0.10.0"): "multi-step-stream-outputs?",
    ("", "0.10.1.1"): "override-neuron-config",
    ("", "0.11.0"): "rope-theta~",
    ("", "0.11.2"): "num-lookahead-slots override-pooler-config{",
    ("", "0.16.0"): "disable-log-requests?",
    ("", "0.27.0"): "calculate-kv-scales?",
    ("0.9.0", "0.11.2"): """
        guided-decoding-disable-additional-properties? guided-decoding-disable-any-whitespace? guided-decoding-disable-fallback?
    """,
    ("0.9.0", ""): "data-parallel-address=-dpa data-parallel-rpc-port=-dpp# pt-load-map-location",
    ("0.9.1", ""): "data-parallel-backend=-dpb",
    ("0.9.2", "0.11.2"): "eplb-log-balancedness? eplb-step-interval",
    ("0.9.2", ""): "data-parallel-rank=-dpn#",
    ("0.10.0", ""): "data-parallel-hybrid-lb=-dph? data-parallel-start-rank=-dpr default-mm-loras{ interleave-mm-strings? logprobs-mode",
    ("0.10.1", ""): "enable-log-requests? logits-processors*",
    ("0.10.2", ""): "io-processor-plugin safetensors-load-strategy",
    ("0.11.0", ""): """
        allowed-media-domains* dbo-decode-token-threshold# dbo-prefill-token-threshold# expert-placement-strategy
        mm-shm-cache-max-object-size-mb structured-outputs-config{
    """,
    ("0.11.1", ""): """
        aggregate-engine-logging! data-parallel-external-lb=-dpe? dcp-kv-cache-interleave-size disable-nccl-for-dp-synchronization?
        master-addr master-port mm-encoder-attn-backend reasoning-parser-plugin stream-interval#
    """,
    ("0.12.0", ""): "cp-kv-cache-interleave-size kv-cache-metrics-sample~ kv-cache-metrics?",
    ("0.13.0", ""): "cudagraph-metrics? enable-layerwise-nvtx-tracing? profiler-config{",
    (
        "0.14.0",
        "",
    ): "default-chat-template-kwargs enable-log-deltas? enable-offline-docs? enable-logging-iteration-details? enable-mfu-metrics?",
    ("0.16.0", ""): "enable-flashinfer-autotune?",
    ("0.17.1", ""): "fail-on-environ-validation?",
    ("0.18.0", ""): "grpc! dcp-comm-backend distributed-timeout-seconds enable-ep-weight-filter? gdn-prefill-backend shutdown-timeout#",
    ("0.19.0", ""): "mm-tensor-ipc reasoning-config{ renderer-num-workers scheduler-reserve-full-isl?",
    ("0.20.0", ""): """
        enable-flash-late-interaction?
        enable-mamba-cache-stochastic-rounding? ir-op-priority{ mamba-backend mamba-cache-philox-rounds numa-bind-cpus*
        numa-bind-nodes* numa-bind?
    """,
    ("0.21.0", ""): """
        fingerprint-mode fingerprint-value
        mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path
        safetensors-prefetch-block-size# safetensors-prefetch-num-threads#
    """,
    ("0.22.0", ""): """
        data-parallel-supervisor-port dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s
        dp-supervisor-probe-timeout-s cpu-distributed-timeout-seconds data-parallel-multi-port-external-lb=-dpm!
    """,
    ("0.24.0", ""): "device-ids jit-monitor-verbose? prefill-schedule-interval#",
    ("0.25.0", ""): "enable-per-request-metrics? jit-monitor-mode",
    ("0.26.0", "0.29.0"): "enable-bf16x3-router-gemm?",
    ("0.27.0", ""): """
        cohere-format cohere-is-reasoning-model?
        enable-fault-tolerance? fault-tolerance-config{ kda-prefill-backend mamba-ssu-algorithm mm-hasher-algorithm
        video-pruning-method
    """,
    ("0.28.0", ""): "mm-device-do-normalize?",
    ("0.29.0", ""): """
        sse-keep-alive-interval#
        enable-trace-replay? max-num-queued-reqs# max-num-queued-tokens# per-request-spec-decode-metrics
    """,
    ("0.30.0", "0.30.0"): "enable-mamba-fine-grained-prefix-cache?",
    (
        "0.30.0",
        "",
    ): "enable-scale-out? dp-sync-interval# enable-nccl-comm-suspend? kda-decode-backend sparse-indexer-topk-backend watermark-config{",
    ("0.31.0", ""): """
        anthropic-disabled-thinking-effort tool-strict-level trust-request-mm-kwargs?
        log-level logging-config{ long-prefill-token-threshold-adaptive? max-lora-cls-labels sleep-preserve-parameter-names*
    """,
    ("0.32.0", ""): "grpc-port custom-histogram-buckets{ enable-hc-sp?",
    ("0.33.0", ""): "monokernel? reasoning-effort-map{ watchdog-config{",
    ("0.15.0", ""): "disable-access-log-for-endpoints ssl-ciphers",
    ("", "0.19.0"): "disable-frontend-multiprocessing!",
    ("0.17.0", "0.18.0"): "use-gpu-for-pooling-score!",
}

EITHER: dict[tuple[str, str], str] = {
    ("", ""): "additional-config{ scheduler-cls worker-cls",
    ("", "0.6.2"): "max-context-len-to-capture#",
    ("", "0.8.2"): "speculative-draft-tensor-parallel-size# speculative-max-model-len# speculative-model-quantization",
    ("", "0.10.2"): "max-seq-len-to-capture#",
    ("", "0.11.2"): "lora-extra-vocab-size#",
    ("0.9.2", "0.27.0"): "override-attention-dtype",
    ("0.11.0", ""): "video-pruning-rate",
    ("0.11.1", ""): "enable-mm-embeds?",
    ("0.13.0", ""): "",
    ("0.14.0", ""): "ubatch-size#",
    ("0.15.0", ""): "mm-encoder-only?",
    ("0.16.0", ""): "weight-transfer-config{ kernel-config{",
    ("0.17.1", ""): "offload-num-in-group# offload-params* offload-prefetch-step#",
    ("0.22.0", ""): "enable-cumem-allocator? linear-backend",
    ("0.24.0", ""): "watermark~",
    ("0.28.0", ""): "ec-manager-config{ return-sampling-mask?",
    ("0.29.0", ""): "dcp-q-replicate?",
    ("0.31.0", ""): "enable-mamba-shared-prefix-checkpoint? max-num-active-seqs# swa-bounded-replay? aux-output-config{",
    ("0.32.0", ""): "enable-shm-tensor-arena? sleep-mode-offload-cudagraph?",
    ("0.33.0", ""): "sleep-mode-backend",
}

MORE: dict[tuple[str, str], str] = {
    ("", "0.11.0"): "enable-lora-bias?",
    ("0.11.0", ""): "enable-dbo?",
    ("0.11.1", ""): "ec-transfer-config{",
    ("0.14.0", ""): "enable-tower-connector-lora?",
    ("0.17.1", ""): "enable-elastic-ep?",
    ("0.22.0", ""): "quantization-config{ use-fp64-gumbel?",
    ("0.24.0", ""): "diffusion-config=-dc{",
    ("0.25.0", ""): "model-class-overrides{",
    ("0.30.0", ""): "elastic-ep-max-dp-size#",
}

LESS: dict[tuple[str, str], str] = {
    ("0.10.1", ""): "kv-sharing-fast-prefill?",
    ("0.17.1", ""): "cpu-offload-params* offload-backend offload-group-size#",
    ("0.29.0", ""): "enable-batch-sharded-sampling?",
}
