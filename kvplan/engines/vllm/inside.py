"""What vLLM stops at inside the objects that its options take: config/compilation.py, speculative.py, profiler.py, kernel.py, pooler.py,
attention.py and vllm.py of 0.10.2 to 0.33. A release is the first in which the words were seen."""

from __future__ import annotations

from kvplan.engines.common.exclusions import Exclusion

_OPS = "compilation_config.custom_ops"
_COMPILATION = (
    Exclusion(
        rf"{_OPS}.*^(?!all$)(?!none$)[^+-].*", f"{_OPS}=", "Invalid syntax for custom op, must be 'all', 'none', '+op' or '-op'", "0.11",
    ),
    Exclusion(f"{_OPS}.*=all&{_OPS}.*=none", f"{_OPS}=", "Can only specify 'none' or 'all'", "0.10.2"),
    *(
        Exclusion(f"{_OPS}^{both}", f"{_OPS}=", "custom_ops cannot both enable and disable the same operation(s)", "0.27")
        for both in (r".*'\+(\w+)'.*'-\1'.*", r".*'-(\w+)'.*'\+\1'.*")
    ),
    Exclusion(
        "compilation_config.mode=3,VLLM_COMPILE,vllm_compile&compilation_config.backend=*", "compilation_config.backend=,eager,inductor",
        "Invalid backend for piecewise compilation", "0.11.2",
    ),
    *(
        Exclusion(f"compilation_config.{sizes}.*<=0", f"compilation_config.{sizes}=", says, since)
        for sizes, says, since in (
            ("encoder_cudagraph_token_budgets", "All encoder_cudagraph_token_budgets must be positive", "0.22"),
            ("decoder_replay_cudagraph_capture_sizes", "All decoder_replay_cudagraph_capture_sizes must be positive", "0.32"),
            ("compile_ranges_endpoints", "Invalid compile range endpoint", "0.18"),
        )
    ),
    *(
        Exclusion(
            f"compilation_config.cudagraph_mm_encoder=True&compilation_config.{most}^-.*", f"compilation_config.{most}=",
            f"{most} must be non-negative", "0.20",
        )
        for most in ("encoder_cudagraph_max_vision_items_per_batch", "encoder_cudagraph_max_frames_per_batch")
    ),
    *(
        Exclusion(
            f"compilation_config.dynamic_shapes_config.{key}",
            "enforce_eager=True|optimization_level=0|compilation_config.mode=0,NONE,none",
            f"{shapes} requires VLLM_USE_BYTECODE_HOOK=0", "0.13",
        )
        for key, shapes in (("type=unbacked", "UNBACKED dynamic shapes"), ("evaluate_guards=True", "dynamic_shapes_config.evaluate_guards"))
    ),
    Exclusion(
        r"compilation_config.compile_sizes.*^(?!cudagraph_capture_sizes$)[A-Za-z_].*", "compilation_config.compile_sizes=",
        "Unrecognized size type in compile_sizes, expect 'cudagraph_capture_sizes'",
    ),
)  # fmt: skip

_SUFFIX = "speculative_config.method=suffix&speculative_config.suffix_decoding_"
_RATES = "speculative_config.rejection_sample_method=synthetic&speculative_config.synthetic_acceptance_rates"
_SPECULATIVE = (
    *(
        Exclusion(f"{_SUFFIX}{key}{wrong}", "speculative_config=", f"suffix_decoding_{key} must be {right}", "0.11.1")
        for key, wrong, right in (
            ("max_tree_depth", "<=0", ">= 1"), ("max_cached_requests", "^-.*", ">= 0"), ("max_spec_factor", "^-.*", ">= 0"),
            ("min_token_prob", "^-.*", "in [0, 1]"), ("min_token_prob", ">1", "in [0, 1]"),
        )
    ),
    *(
        Exclusion(f"{_RATES}.*{wrong}", "speculative_config=", "synthetic_acceptance_rates entries must be in [0, 1]", "0.20")
        for wrong in (">1", "^-.*")
    ),
    Exclusion(
        "speculative_config.enable_adaptive_verification=True&speculative_config.use_local_argmax_reduction=True", "speculative_config=",
        "Adaptive verification estimates per-position acceptance from the draft logits, which use_local_argmax_reduction never "
        "materializes", "0.30",
    ),
)  # fmt: skip

_PROTON = "profiler_config.profiler=proton"
_GRAPHLESS = "enforce_eager=True|optimization_level=0|compilation_config.cudagraph_mode=NONE,none,None,0,0.0,False"
_PROFILER = (
    *(
        Exclusion(
            f"profiler_config.{key}=*", f"{_PROTON}|profiler_config.{key}={default}",
            f"{key} only applicable when profiler is set to 'proton'", since,
        )
        for key, default, since in (
            ("proton_profiler_dir", "", "0.28"), ("proton_context", "shadow", "0.28"), ("proton_data", "tree", "0.28"),
            ("proton_backend", "", "0.28"), ("proton_mode", "", "0.28"), ("proton_hook", "", "0.28"),
            ("proton_output_format", "", "0.28"), ("proton_graph_attribution", "False", "0.30"),
        )
    ),
    Exclusion(f"{_PROTON}&profiler_config.proton_profiler_dir^.+://.*", "profiler_config=", "proton_profiler_dir must be a local directory",
              "0.28"),
    Exclusion(
        f"{_PROTON}&profiler_config.proton_output_format=chrome_trace", "profiler_config.proton_data=trace",
        "chrome_trace output requires proton_data='trace'", "0.28",
    ),
    Exclusion(
        f"{_PROTON}&profiler_config.proton_output_format=hatchet,hatchet_msgpack", "profiler_config.proton_data=,tree",
        "hatchet output requires proton_data='tree'", "0.28",
    ),
    Exclusion(
        f"{_PROTON}&profiler_config.proton_graph_attribution=True", "profiler_config.proton_data=,tree",
        "proton_graph_attribution requires proton_data='tree'", "0.30",
    ),
    Exclusion(
        f"{_PROTON}&profiler_config.proton_mode^pcsampling.*", _GRAPHLESS, "Proton PC sampling requires CUDA graphs to be disabled",
        "0.30",
    ),
    Exclusion(
        f"{_PROTON}&profiler_config.proton_profiler_dir=*", f"profiler_config.proton_graph_attribution=True|{_GRAPHLESS}",
        "Proton profiling with CUDA graphs requires proton_graph_attribution=True to capture replayed kernels", "0.30",
    ),
    Exclusion(
        r"profiler_config.torch_profiler_activities^.*('\w+').*\1.*", "profiler_config=",
        "torch_profiler_activities must not contain duplicates", "0.31",
    ),
    Exclusion(
        "profiler_config.capture_torch_profiler=True", "profiler_config.profiler=torch",
        "capture_torch_profiler is only applicable when profiler is set to 'torch'", "0.26",
    ),
)  # fmt: skip

_SIZES = {"image": "width height", "video": "width height num_frames", "audio": "length"}
INSIDE: tuple[Exclusion, ...] = (
    *_COMPILATION, *_SPECULATIVE, *_PROFILER,
    Exclusion(
        "watermark_config=*&speculative_config=*", "speculative_config.draft_sample_method=probabilistic",
        "Speculative decoding with watermarking requires draft_sample_method='probabilistic'", "0.30",
    ),
    Exclusion(
        "watermark_config=*&speculative_config.method=ngram,ngram_gpu,suffix,draft_model,extract_hidden_states,custom_class",
        "speculative_config=", "Watermarking supports only dflash, dspark, eagle, eagle3 and mtp speculative decoding", "0.30",
    ),
    *(
        Exclusion(
            f"ir_op_priority.{op}=*&kernel_config.ir_op_priority.{op}=*", "kernel_config=",
            f"Op priority for {op} specified via both ir_op_priority and KernelConfig.ir_op_priority", "0.20",
        )
        for op in ("rms_norm", "fused_add_rms_norm", "gelu_and_mul_sparse")
    ),
    Exclusion("pooler_config.logit_sigma^0(\\.0)?", "pooler_config=", "logit_sigma cannot be 0 (division by zero)", "0.20"),
    Exclusion(
        "mm_encoder_attn_backend=XFORMERS,xformers", "mm_encoder_attn_backend=", "Attention backend 'XFORMERS' has been removed", "0.12",
        of="media",
    ),
    Exclusion(
        'aux_output_config.enable_return_routed_experts=True', "aux_output_config=", "AuxOutput Connector only supports MoE models",
        "0.31", of="dense",
    ),
    Exclusion(
        "kv_offloading_backend=*", "kv_offloading_size=*", "You must set kv_offloading_size when kv_offloading_backend is set", "0.11.1",
        "0.14",
    ),
    Exclusion("logits_processor_pattern=*", "logits_processor_pattern=", "--logits-processor-pattern is not supported", before="0.15"),
    Exclusion(
        "speculative_config.method=eagle,eagle3,medusa,mlp_speculator,draft_model,dflash", "speculative_config.model=*",
        "num_speculative_tokens was provided but without speculative model", "0.11",
    ),
    Exclusion(
        "speculative_config.method=custom_class", "speculative_config.model=*", "method='custom_class' requires 'model'", "0.22",
    ),
    Exclusion("speculative_config.enable_adaptive_verification=True", "speculative_config.method=dspark",
              "Adaptive verification only supported with DSpark", "0.28", "0.30"),
    Exclusion("profiler_config.profiler=proton", _GRAPHLESS, "The Proton profiler requires CUDA graphs to be disabled", "0.28", "0.30"),
    Exclusion("renderer_num_workers>1", "mm_processor_cache_gb<=0",
              "the multimodal processor cache does not support concurrent renderer workers", "0.19", "0.27", of="media"),
    *(
        Exclusion(f"{name}=TORCH_SDPA,NO_ATTENTION,torch_sdpa,no_attention", f"{name}=", "Selected backend is not valid for this "
                  "configuration: there is no class of it")
        for name in ("attention_backend", "attention_config.backend")
    ),
    Exclusion(
        "long_prefill_token_threshold=*&max_model_len=*&long_prefill_token_threshold>max_model_len", "long_prefill_token_threshold=",
        "long_prefill_token_threshold cannot be greater than the max_model_len", "0.27", of="decoder",
    ),
    *(
        Exclusion(f"limit_mm_per_prompt.{at}^-.*", "limit_mm_per_prompt=", "limit_per_prompt.count Input should be greater than or equal "
                  "to 0", "0.11.1", of="media")
        for kind in _SIZES
        for at in (kind, f"{kind}.count")
    ),
    Exclusion("grpc=True&grpc_port=*", "grpc=", "--grpc and --grpc-port are mutually exclusive", "0.32"),
    Exclusion(
        "mm_encoder_fp8_scale_save_margin<=0", "mm_encoder_fp8_scale_save_margin=",
        "mm_encoder_fp8_scale_save_margin Input should be greater than 0", "0.21", of="media",
    ),
    *(
        Exclusion(
            asked, "ec_transfer_config.ec_role=ec_producer",
            "Cannot run the multi-modal processor on 'cuda': this instance also runs the language model", "0.28", of="media",
        )
        for asked in ("mm_processor_device=cuda,gpu", "mm_processor_kwargs.device^cuda.*")
    ),
    *(
        Exclusion(
            rf"limit_mm_per_prompt.{kind}^\{{.*'(?!(count|{'|'.join(sizes.split())})')\w+':.*\}}", "limit_mm_per_prompt=",
            f"limit_per_prompt: Unexpected keyword argument of {kind}", "0.11.1", of="media",
        )
        for kind, sizes in _SIZES.items()
    ),
    *(
        Exclusion(
            f"limit_mm_per_prompt.{kind}.{size}<=0", "limit_mm_per_prompt=", f"limit_per_prompt.{size} Input should be greater than 0",
            "0.11", of="media",
        )
        for kind, sizes in _SIZES.items()
        for size in sizes.split()
    ),
)  # fmt: skip
