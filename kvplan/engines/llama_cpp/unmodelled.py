"""llama-server options without memory in them. From common/arg.cpp of build 11312. Marks: see `block`."""

IRRELEVANT: dict[tuple[str, str], str] = {
    ("", ""): """
                -C=cpu-mask -Cb=cpu-mask-batch -Cr=cpu-range -Crb=cpu-range-batch -a=alias -ag=agent! -bf=binary-file
        -cb=cont-batching! -cl=cache-list! -cms=checkpoint-min-step -dt=defrag-thold -e=escape! -f=file         -h=help=usage!
        -hft=hf-token -j=json-schema -jf=json-schema-file -l=logit-bias -lcd=lookup-cache-dynamic         -lcs=lookup-cache-static
        -lv=verbosity=log-verbosity -lzm=lazy-mode -no-ag=no-agent! -nocb=no-cont-batching!         -p=prompt
        -r=reverse-prompt -rea=reasoning -s=seed -sp=special! -sps=slot-prompt-similarity -t=threads -tb=threads-batch
        -to=timeout -v=verbose=log-verbose! adaptive-decay adaptive-target api-key api-key-file api-prefix cache-idle-slots!
        cache-prompt! cache-reuse chat-template chat-template-file chat-template-kwargs check-tensors! completion-bash!
        context-shift! control-vector-layer-range* control-vector-scaled cors-credentials! cors-headers cors-methods cors-origins
        cpu-strict cpu-strict-batch draft-min=draft-n-min dry-allowed-length dry-base dry-multiplier dry-penalty-last-n
        dry-sequence-breaker dynatemp-exp dynatemp-range embd-normalize          frequency-penalty         grammar grammar-file host
        ignore-eos! jinja!         keep list-devices! log-colors log-disable! log-file log-jsonl! log-prefix! log-prompts-dir
        log-timestamps!         lora-init-without-apply! mcp-servers-config mcp-servers-json media-path metrics! min-p mirostat
        mirostat-ent mirostat-lr         models-autoload! models-max no-cache-idle-slots! no-cache-prompt! no-context-shift!
        no-cors-credentials! no-escape! no-jinja! no-log-jsonl! no-log-prefix! no-log-timestamps! no-models-autoload! no-perf!
        no-prefill-assistant! no-reasoning-preserve! no-skip-chat-parsing! no-slots!          no-ui-mcp-proxy=no-webui-mcp-proxy!
        no-ui=no-webui! no-warmup! numa offline! path perf! poll poll-batch pooling port         prefill-assistant! presence-penalty
        prio prio-batch props! reasoning-budget reasoning-budget-message reasoning-effort         reasoning-format
        reasoning-preserve! repeat-last-n repeat-penalty reuse-port! rope-freq-base rope-freq-scale         sampler-seq=sampling-seq
        samplers skip-chat-parsing! sleep-idle-seconds slot-save-path slots!
        spec-draft-cpu-mask-batch=-Cbd=cpu-mask-batch-draft spec-draft-cpu-mask=-Cd=cpu-mask-draft
        spec-draft-cpu-range=-Crd=cpu-range-draft spec-draft-cpu-strict-batch=cpu-strict-batch-draft
        spec-draft-cpu-strict=cpu-strict-draft spec-draft-n-min spec-draft-p-min=draft-p-min spec-draft-p-split=draft-p-split
        spec-draft-poll-batch=poll-batch-draft spec-draft-poll=poll-draft spec-draft-prio-batch=prio-batch-draft
        spec-draft-prio=prio-draft spec-draft-threads-batch=-tbd=threads-batch-draft spec-draft-threads=-td=threads-draft
        spec-ngram-map-k-min-hits spec-ngram-map-k-size-m spec-ngram-map-k-size-n spec-ngram-map-k4v-min-hits
        spec-ngram-map-k4v-size-m spec-ngram-map-k4v-size-n spec-ngram-min-hits spec-ngram-mod-n-match spec-ngram-mod-n-max
        spec-ngram-mod-n-min spec-ngram-simple-min-hits spec-ngram-simple-size-m spec-ngram-simple-size-n spec-ngram-size-m
        spec-ngram-size-n spec-synth-len spec-synth-rates spm-infill! sse-ping-interval ssl-cert-file ssl-key-file tags
        temp=temperature threads-http tools tools-runtime top-k top-nsigma=top-n-sigma top-p typical=typical-p
        ui-config-file=webui-config-file ui-config=webui-config ui-mcp-proxy=webui-mcp-proxy! ui=webui! version! video-ffmpeg-dir
        video-fps video-timestamp-interval warmup! xtc-probability         xtc-threshold yarn-attn-factor yarn-beta-fast
        yarn-beta-slow yarn-ext-factor         embedding! embeddings! rerank!
        reranking!         -n=predict=n-predict         no-host=-nr=no-repack=repack!
    """,
}

EITHER: dict[tuple[str, str], str] = {
    ("", ""): """
        -ctkd=spec-draft-type-k=cache-type-k-draft=-ctvd=spec-draft-type-v=cache-type-v-draft
        -devd=spec-draft-device=device-draft -mmdev=mmproj-device
        -bs=backend-sampling! spec-draft-backend-sampling! no-spec-draft-backend-sampling! image-max-tokens image-min-tokens
        mtmd-batch-max-tokens embd-gemma-default! fim-qwen-1.5b-default! fim-qwen-14b-spec! fim-qwen-30b-default!
        fim-qwen-3b-default! fim-qwen-7b-default! fim-qwen-7b-spec! gpt-oss-120b-default! gpt-oss-20b-default!
        vision-gemma-12b-default! vision-gemma-4b-default! spec-default!
    """,
}

MORE: dict[tuple[str, str], str] = {
    ("", ""): "control-vector",
}

LESS: dict[tuple[str, str], str] = {
    ("", ""): """
        -cmoed=spec-draft-cpu-moe=cpu-moe-draft! -ncmoed=spec-draft-n-cpu-moe=spec-draft-ncmoe=n-cpu-moe-draft
        -otd=spec-draft-override-tensor=override-tensor-draft
    """,
}
