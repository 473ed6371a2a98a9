"""Options of adapters, of a server's role, names, processes and GPUs that SGLang refuses: server_args.py and arg_groups of the wheels of
20 releases, 0.4.6 to 0.5.23."""

from __future__ import annotations

from kvplan.engines.common.exclusions import Exclusion

EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "enable_lora=*", "lora_paths=*|max_lora_rank=*&lora_target_modules=*",
        "When no initial --lora-paths is provided, you need to specify both --max-lora-rank and --lora-target-modules", "0.4.9",
    ),
    Exclusion("max_loras_per_batch<=0", "max_loras_per_batch=", "max_loras_per_batch must be positive"),
    Exclusion("lora_paths=*", "disable_radix_cache=*", "compatibility of lora and radix attention is in progress", before="0.5.0"),
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
            f"Cannot set --disaggregation-decode-{size} for the decode engine.", "0.4.9", "0.5.10",
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
)  # fmt: skip
