"""SGLang's rules by release, as data. Read from the wheels of the releases named in VERSIONS; each row says what changed in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from kvplan.engines.common.releases import Releases, cumulative
from kvplan.engines.sglang import classes
from kvplan.engines.sglang.classes import KIMI_LINEAR, MAMBA2, STATES_OF_ALL, WHISPER


class Tier(NamedTuple):
    """A class of GPUs: below `below_mib` of memory (None: the rest), its chunked prefill size, largest decode graph (tp < 4, >= 4)."""

    below_mib: int | None
    chunk: int
    graph_bs: int
    graph_bs_tp4: int


_GIB = 1024  # MiB
_SMALL = Tier(25_000, 2048, 8, 80)
#: Graphs of more than 160 sequences on larger cards: model_executor/cuda_graph_runner.py get_batch_sizes_to_capture, 0.4.6 to 0.5.2.
_EARLY = (_SMALL, Tier(None, 8192, 160, 160))
_046 = (_SMALL, Tier(96 * _GIB + 1, 8192, 160, 160), Tier(None, 8192, 256, 256))
_047 = (*_046[:2], Tier(180_001, 8192, 256, 256), Tier(None, 16384, 512, 512))
_CLASSES = (
    Tier(35 * _GIB, 2048, 8, 80), Tier(90 * _GIB + 1, 8192, 160, 160), Tier(160 * _GIB, 8192, 256, 256), Tier(None, 16384, 512, 512),
)  # fmt: skip


def _tiers(chunk_35: int, bs_35: int, bs_35_tp4: int) -> tuple[Tier, ...]:
    return (
        Tier(20 * _GIB, 2048, 8, 8), Tier(35 * _GIB, chunk_35, bs_35, bs_35_tp4), Tier(60 * _GIB, 4096, 32, 160),
        Tier(160 * _GIB, 8192, 256, 512), Tier(None, 16384, 512, 512),
    )  # fmt: skip


#: Window models whose KV is split into a full and a window pool (configs/model_config.py is_hybrid_swa_model). 0.4.10 splits the models
#: whose class names a window (model_runner.py), less those that server_args.py excludes; 0.5.3 and 0.5.6 exclude all of them.
_SPLIT_0410 = frozenset({
    "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3nForCausalLM", "Gemma3nForConditionalGeneration",
})  # fmt: skip
_SPLIT_058 = frozenset({"Llama4ForConditionalGeneration", "GptOssForCausalLM", "MiMoV2FlashForCausalLM"})
_SPLIT_059 = _SPLIT_058 | {"Step3p5ForCausalLM"}
_GEMMA4 = frozenset({"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"})
_SPLIT_0511 = _SPLIT_059 | {"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "MiMoV2ForCausalLM"}
_SPLIT_0512 = _SPLIT_0511 | {"DeepseekV4ForCausalLM", "LagunaForCausalLM"}
_SPLIT_0513 = _SPLIT_0512 | _GEMMA4 | {"Step3p7ForConditionalGeneration"}
_SPLIT_0515 = _SPLIT_0513 | {"UnlimitedOCRForCausalLM"}
_SPLIT_0516 = _SPLIT_0515 | {"InklingForConditionalGeneration", "MellumForCausalLM"}
_SPLIT_0518 = _SPLIT_0516 | {"MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration"}
_SPLIT_0520 = _SPLIT_0518 | {"Spark2_5ForCausalLM"}  # which says so in its own configuration (configs/spark2_5.py is_hybrid_swa)
_SPLIT_0521 = _SPLIT_0520 | {"DiffusionGemmaForBlockDiffusion"}
_SPLIT_0522 = _SPLIT_0521 | {"EmbeddingGemma2Model"}
_SPLIT_0523 = _SPLIT_0522 | {"BeamForCausalLM", "GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM", "IQuestQ1ForCausalLM"}
#: Model classes whose window does not count the token itself: get_attention_sliding_window_size returns sliding_window - 1 (models/*.py).
EXCLUSIVE = _GEMMA4 | _SPLIT_0410 | {
    "AfmoeForCausalLM", "Exaone4ForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM", "MellumForCausalLM", "Spark2_5ForCausalLM",
    "InklingForConditionalGeneration", "MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration", "Olmo2ForCausalLM",
    "Olmo3ForCausalLM",
}  # fmt: skip
#: Models whose maximum these releases multiply by the factor of their rope_scaling (hf_transformers_utils.py get_context_length).
_STRETCHED = {"Gemma3ForConditionalGeneration": 8}
#: Hybrid models whose states get two more slots per request under overlap scheduling (arg_groups/overrides.py, _MAMBA_EXTRA_BUFFER_ARCHS).
_EXTRA_0514 = frozenset({
    "BailingMoeV2_5ForCausalLM", "FalconH1ForCausalLM", "GraniteMoeHybridForCausalLM", "InternS2PreviewForConditionalGeneration",
    "MiniCPMV4_6ForConditionalGeneration", "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM", "Qwen3NextForCausalLM",
    "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip
_EXTRA_0516 = _EXTRA_0514 | KIMI_LINEAR | {"InklingForConditionalGeneration"}  # which asks for them by itself
_EXTRA_0517 = _EXTRA_0516 | {"KimiK3ForConditionalGeneration"}
_EXTRA_0519 = _EXTRA_0517 | {"BailingMoeV3ForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"}
_EXTRA_0520 = _EXTRA_0519 | {"Glm5NextForConditionalGeneration", "NemotronH_Omni_Reasoning_V3", "Qwen4ExpForConditionalGeneration"}
_EXTRA_0521 = _EXTRA_0520 | {"BailingMoeV3VLForConditionalGeneration"}
_EXTRA_0523 = _EXTRA_0521 | {"MiniCPMV4_7ForConditionalGeneration"}
#: Models whose drafts are a chain of three by default (auto_choose_speculative_params); then those that alone get a tree of five steps.
_CHAINS_047 = frozenset({"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"})
_CHAINS_052 = _CHAINS_047 | {"GptOssForCausalLM"}
_CHAINS_053 = _CHAINS_052 | {"BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "DeepseekV32ForCausalLM"}
_CHAINS_057 = _CHAINS_053 | {
    "Glm4MoeForCausalLM", "MiMoV2FlashForCausalLM", "MistralLarge3ForCausalLM", "PixtralForConditionalGeneration",
}  # fmt: skip
TREES = frozenset({"Grok1ForCausalLM", "Grok1VForCausalLM", "LlamaForCausalLM"})
CHAIN = (3, 4)  # steps, tokens verified


class SglangRules(NamedTuple):
    """What one release does.

    fraction         how mem_fraction_static is chosen when unset
    unknown_fraction the fraction where the GPU's memory is not known
    tiers            chunked prefill size and decode graphs by memory
    role_chunk       tokens of a chunk by default where a server only prefills or only decodes
    graph_capped     decode graphs never larger than max_running_requests
    prefill_graphs   prefill graphs are captured by default and reserve memory, save for these reasons; None: they are not
    ungraphed        classes without prefill graphs
    seen_graphs      multimodal classes that have them; pieced: in pieces, kept from them by what kept all classes up to 0.5.14
    lone_groups      --enable-dp-attention reserves memory where dp is 1, too
    eager_graphs     memory of decode graphs is reserved where none are captured, too
    a2a_reserve      memory of DeepEP's buffers is reserved
    role_vision      a vision tower lowers the fraction of a server that only decodes, too
    pieces           memory of prefill graphs that are asked for: none; by the most tokens of one; by their number
    role_step        activations of a server that only decodes are of its largest batch, not of a chunk
    role_graphs      ... not of graphs of the phase that a server leaves to others
    graphed_context  prefill graphs are never longer than a context that is asked for
    eager_pieces     prefill graphs are captured all the same
    blackwell        class -> its backend on B200 and its like; empty: one whose pages are as asked
    blackwell_heads  ... others with K and V take trtllm_mha there; with rows of other widths, fa4 (blackwell_fa4)
    latent_blackwell DeepSeek-V3 and its like take trtllm_mla there; unshared_blackwell: classes with states trtllm_mha, without prefixes
    unpaged_states   Qwen3-Next and its like: trtllm_mha there, or Triton's kernels; with pages of 64 tokens and of one, whatever is asked
    pages            backend -> tokens of a page that it takes, where releases differ
    xpu_phases       pages of intel_xpu bind where it only decodes, too
    raw_blackwell    sparse fp8 rows are raw on Blackwell by default; packed_glm: GLM's are not on 12.x
    ascend_pages     Ascend's backend has pages of 128 tokens on any device
    fa4_pages        whether pages of fa4 are fixed: no; where it is named for prompts; of any phase (fa4_blackwell: on 10.x alone)
    deterministic    deterministic inference wants a backend that is asked for; looks at the one picked without it; picks its own
    flash3           classes that have FlashAttention 3 by default on Hopper, beside latent attention; None: all
    mha_unshared     states without extra buffers have no prefix cache under trtllm_mha
    piled            the last pipeline stage has all layers that are left over
    whole_sinks      gpt-oss has no window pool under trtllm_mha; nor beside drafts
    spec_reserve     MiB reserved for a draft model (a STANDALONE one), its graphs included
    vision           how a multimodal model lowers the fraction (share: one that the user gave, too)
    mm_reserve_mib   kept back from the budget for a multimodal model's caches
    split            architectures with a full and a window pool
    split_from       what the window split starts from: tokens of all layers, limited, split by layers (in pages) or by bytes; or the bytes
    window_checked   a window pool that can not hold one request is refused: none; one that is a share of the full pool; any
    one_buffer       bytes of one pool for both kinds: of its tokens; all that there are, with a page to spare; all that there are
    own_numbers      ... whose window pool numbers its pages by itself
    request_caps     the window pool may be sized from max_running_requests
    draft_in_cell    the draft's KV is part of the bytes per token: of no draft; of one that has a path; of one that the config counts, too
    window_drafts    drafts beside a window pool are charged, too
    scaled_drafts    a token of a plain model is charged for a draft's layers by a float
    block_drafts     DFlash's and DSpark's layers are charged as the target's, none of them beside a window pool; as their own rows over
                     all of tp; as those of a rank
    tree             steps and tokens verified where drafts are a tree by default
    chains           models whose drafts are a chain by default, not a tree; None: all but TREES
    chained_pages    drafts in pages of more than one token are a chain, whatever is asked
    draft_headroom   a pool has rows beside its budget for what running requests draft and verify
    next_window      a pipeline stage of split windows counts the next stage's first layer with its own
    buffers_by       extra buffers are two under overlap scheduling and one without; two and one beside a draft
    spare_states     a request needs two state slots more, buffers or not
    draft_states     copies of states for drafts: not charged; of every slot; of all requests, where the ratio decides; of a worker's; of
                     those, within the ratio
    shared_windows   convolution windows of a draft's steps overlap
    staged_states    a pipeline stage of a recurrent model has the caches of all layers; all states; its own, charged as all; its own,
                     charged as the largest stage's
    drafts_unshared  classes whose states without extra buffers have no prefix cache beside a draft; None: all
    states_of_all    classes whose states all ranks share
    padded_states    the state slot that is allocated beside those of requests is charged
    decode_slots     how many state slots a server that only decodes allocates (pools.States.at)
    decode_received  received requests follow what is asked for, not what runs
    plain_rows       a pool of K and V beside states has one row to spare, not a page
    radix_states     recurrent models: no prefix cache at all; the ratio even against an explicit number; an explicit number first
    fixed_states     so many slots of states as requests, or 512, where there is no prefix cache and no number of slots is given
    no_radix         models without a prefix cache
    paged_states     a prefix cache with states keeps the page size; else it is forced to 1
    running          an explicit max_running_requests: taken as it is; at most the estimate; at most half the tokens
    spare_request    the request pool is one larger than asked
    long_context     a context beyond the model's is only warned of
    stretched        architecture -> factor of its maximum context
    dsa_charge       what a token of sparse fp8 rows is charged: the plain row without indexer keys; with them; the row as stored
    dsa_dp           sparse models get attention data parallelism over all of tp
    dsa_fraction     mem_fraction_static of sparse models, whatever was asked
    amd_dsa_page     page of sparse models on AMD GPUs (since 0.5.12 with AITER's paged kernels, which its images have)
    dsa_elides       layers that share another's indexer keep no keys of it: never; without a host tier and a role; always
    dcp_index        decode context ranks hold every rank's indexer keys, and sparse rows raw
    fp4_windows      fp4 rows of split windows (always stored as bytes) are charged as such
    fp4_pools        there are pools of fp4 rows; else K and V are stored and charged as bytes, latents charged packed and stored as bytes
    fp4_states       fp4 rows beside states are stored packed; else as bytes
    fp4_workspace    fp4: a layer's fp8 rows are charged as a workspace
    v4_states        DeepSeek-V4's compressor states: both ratios' for each window of tokens; the large ratio's for each request; the small
                     ratio's for each page
    v4_index         its index keys have as many spare pages as its rows
    v4_staged        DeepSeek-V4 is charged for a stage's layers; else for all of the model's, its draft's among them
    v41_padding      DeepSeek-V4.1's shared rows are charged in their own layout, padding pages included
    whole_default    a window pool of 0.8 asked of DeepSeek-V4 is taken for the default of others, and so for none asked
    no_buffer_pages  states without extra buffers refuse pages of more than one token
    extra_buffer     architectures that get extra state slots by default
    feature_pool     Qwen3-VL on large Hopper GPUs keeps images' features on the GPU
    rope_by_head_dim transformers takes the head_dim of GLM's sparse models for the width of their rotary part
    layer_lists      Nemotron-H's config class knows layers listed by name
    lora_vocabulary  LoRA buffers of embedding and head: none; of every row on every rank; the head's shared by the ranks
    lora_all_embeds  all modules are those of the model, embedding and head among them
    lora_experts     LoRA buffers of routed experts: none; of all of them, shared by all of tp; as a rank holds the experts
    lora_heads       LoRA buffers of KV heads as ranks hold them, not an equal share
    lora_attention   attention data parallelism is known to LoRA buffers
    """

    fraction: Literal["by_tp", "by_tp_18gib", "by_tp_180", "classes", "formula"] = "by_tp"
    unknown_fraction: float = 0.88
    tiers: tuple[Tier, ...] = _EARLY
    role_chunk: int = 0
    graph_capped: bool = False
    prefill_graphs: frozenset[str] | None = None
    ungraphed: frozenset[str] = frozenset()
    seen_graphs: frozenset[str] = frozenset()
    pieced: frozenset[str] = frozenset()
    lone_groups: bool = True
    eager_graphs: bool = True
    eager_pieces: bool = True
    a2a_reserve: bool = False
    role_step: bool = False
    role_graphs: bool = False
    graphed_context: bool = False
    role_vision: bool = True
    pieces: Literal["", "quarter", "eighth", "sizes", "all sizes"] = ""
    blackwell: Mapping[str, str] = {}
    blackwell_heads: bool = False
    blackwell_fa4: bool = False
    latent_blackwell: bool = False
    unshared_blackwell: frozenset[str] = frozenset()
    unpaged_states: Literal["", "picked", "set"] = ""
    pages: Mapping[str, tuple[int, ...]] = {"trtllm_mha": (16, 32, 64), "intel_xpu": (32, 64, 128)}
    xpu_phases: bool = False
    raw_blackwell: bool = False
    packed_glm: bool = False
    ascend_pages: bool = False
    fa4_pages: Literal["", "prefill", "any"] = ""
    fa4_blackwell: bool = False
    flash3: frozenset[str] | None = None
    deterministic: Literal["asked", "picked", "own"] = "asked"
    mha_unshared: bool = False
    piled: bool = True
    whole_sinks: Literal["", "kernels", "drafts"] = ""
    spec_reserve: tuple[int, int] = (0, 0)
    vision: Literal["share", "x0.9", "by_vit"] = "share"
    mm_reserve_mib: int = 0
    split: frozenset[str] = frozenset()
    split_from: Literal["layers", "pages", "tokens", "bytes"] = "layers"
    window_checked: Literal["", "ratio", "all"] = ""
    one_buffer: Literal["", "counted", "padded", "whole"] = ""
    own_numbers: bool = True
    request_caps: bool = False
    draft_in_cell: Literal["", "by_path", "counted"] = ""
    window_drafts: bool = False
    scaled_drafts: bool = True
    block_drafts: Literal["shared", "ranks", "own"] = "shared"
    tree: tuple[int, int] = (5, 64)
    chains: frozenset[str] | None = frozenset()
    chained_pages: bool = True
    draft_headroom: bool = True
    next_window: bool = False
    buffers_by: Literal["overlap", "drafts"] = "overlap"
    spare_states: bool = False
    draft_states: Literal["free", "slots", "dealt", "requests", "shared"] = "free"
    shared_windows: bool = False
    staged_states: Literal["all", "whole", "kept", "charged"] = "all"
    drafts_unshared: frozenset[str] | None = frozenset()
    states_of_all: frozenset[str] = STATES_OF_ALL | {"FalconH1ForCausalLM"}
    padded_states: bool = False
    decode_slots: Literal["", "requests", "beside", "capped", "least"] = ""
    decode_received: bool = False
    plain_rows: bool = False
    radix_states: Literal["none", "ratio", "asked"] = "none"
    fixed_states: bool = True
    no_radix: frozenset[str] = frozenset()
    paged_states: bool = True
    running: Literal["asked", "estimated", "half"] = "asked"
    spare_request: bool = False
    long_context: bool = True
    stretched: Mapping[str, int] = _STRETCHED
    dsa_charge: Literal["latent", "plain", "stored"] = "latent"
    dsa_dp: bool = False
    dsa_fraction: float | None = None
    amd_dsa_page: int = 64
    dsa_elides: Literal["", "alone", "always"] = ""
    dcp_index: bool = False
    fp4_windows: bool = False
    fp4_pools: bool = False
    fp4_states: bool = False
    fp4_workspace: bool = False
    v4_states: Literal["windows", "requests", "pages"] = "windows"
    v4_index: bool = False
    v4_staged: bool = False
    v41_padding: bool = False
    whole_default: bool = True
    no_buffer_pages: bool = False
    extra_buffer: frozenset[str] = frozenset()
    feature_pool: bool = False
    rope_by_head_dim: bool = False
    layer_lists: bool = False
    lora_vocabulary: Literal["", "whole", "split"] = ""
    lora_all_embeds: bool = False
    lora_experts: Literal["", "whole", "ranks"] = ""
    lora_heads: bool = False
    lora_attention: bool = False


#: Release -> what it changed. Cumulative, oldest first.
CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0.4.3", {"spare_request": True}),
    ("0.4.6", {"tiers": _046, "fraction": "by_tp_18gib", "tree": (5, 8), "role_chunk": 16384}),
    ("0.4.7", {"tiers": _047, "fraction": "by_tp_180", "spare_request": False, "chains": _CHAINS_047}),
    ("0.4.8", {"role_chunk": 0, "fraction": "classes", "tiers": _CLASSES, "spec_reserve": (2048, 2048)}),
    ("0.4.9", {"vision": "x0.9", "chained_pages": False}),
    ("0.4.10", {"split": _SPLIT_0410, "vision": "by_vit"}),
    ("0.5.0", {"split": frozenset()}),
    ("0.5.1", {"long_context": False}),
    ("0.5.2", {"spec_reserve": (2048, 6144), "chains": _CHAINS_052}),
    ("0.5.3", {"chains": _CHAINS_053, "fraction": "formula", "tiers": _tiers(2048, 16, 80), "dsa_dp": True, "dsa_fraction": 0.8}),
    ("0.5.4", {"dsa_fraction": None, "dsa_charge": "plain", "radix_states": "ratio", "no_radix": KIMI_LINEAR | MAMBA2}),
    ("0.5.5", {"tiers": _tiers(2048, 24, 80)}),
    ("0.5.6", {"dsa_dp": False, "piled": False, "fp4_pools": True}),
    (
        "0.5.7",
        {
            "chains": _CHAINS_057,
            "radix_states": "asked",
            "no_radix": KIMI_LINEAR,
            "spare_states": True,
            "draft_headroom": False,
            "lora_vocabulary": "whole",
        },
    ),
    (
        "0.5.8",
        {
            "chains": None,
            "split": _SPLIT_058,
            "split_from": "pages",
            "next_window": True,
            "spare_states": False,
            "buffers_by": "drafts",
            "staged_states": "whole",
            "amd_dsa_page": 1,
        },
    ),
    ("0.5.9", {"split": _SPLIT_059, "split_from": "tokens"}),
    (
        "0.5.10",
        {
            "buffers_by": "overlap",
            "spec_reserve": (4096, 6144),
            "running": "estimated",
            "staged_states": "kept",
            "no_radix": KIMI_LINEAR | WHISPER,
            "layer_lists": True,
            "lora_vocabulary": "split",
            "lora_experts": "whole",
            "lora_all_embeds": True,
            "stretched": {},
        },
    ),
    ("0.5.11", {"split": _SPLIT_0511, "rope_by_head_dim": True, "lora_experts": "ranks"}),
    ("0.5.12", {"split": _SPLIT_0512, "amd_dsa_page": 64, "lora_heads": True}),
    ("0.5.13", {"split": _SPLIT_0513, "v4_staged": True, "rope_by_head_dim": False}),
    (
        "0.5.14",
        {
            "running": "half",
            "spec_reserve": (0, 0),
            "draft_in_cell": "by_path",
            "request_caps": True,
            "draft_states": "shared",
            "shared_windows": True,
            "extra_buffer": _EXTRA_0514,
            "no_buffer_pages": True,
            "paged_states": True,
            "no_radix": WHISPER,
        },
    ),
    ("0.5.15", {"split": _SPLIT_0515, "window_drafts": True, "v4_states": "requests", "one_buffer": "counted"}),
    ("0.5.16", {"split": _SPLIT_0516, "fp4_workspace": True, "fp4_states": True, "extra_buffer": _EXTRA_0516, "window_checked": "ratio"}),
    (
        "0.5.17",
        {
            "staged_states": "charged",
            "padded_states": True,
            "dsa_charge": "stored",
            "extra_buffer": _EXTRA_0517,
            "lora_attention": True,
        },
    ),
    ("0.5.18", {"split": _SPLIT_0518, "mm_reserve_mib": 100, "dsa_elides": "alone"}),
    ("0.5.19", {"extra_buffer": _EXTRA_0519, "one_buffer": "padded"}),
    (
        "0.5.20",
        {
            "split": _SPLIT_0520,
            "whole_default": False,
            "own_numbers": False,
            "feature_pool": True,
            "tiers": _tiers(4096, 48, 160),
            "unknown_fraction": 0.95,
            "window_checked": "all",
            "draft_in_cell": "counted",
            "extra_buffer": _EXTRA_0520,
        },
    ),
    ("0.5.21", {"split": _SPLIT_0521, "next_window": False, "fp4_workspace": False, "v4_states": "pages", "extra_buffer": _EXTRA_0521}),
    ("0.5.22", {"split": _SPLIT_0522, "one_buffer": "whole", "v4_index": True, "dcp_index": True, "dsa_elides": "always"}),
    ("0.5.23", {"split": _SPLIT_0523, "extra_buffer": _EXTRA_0523, "v41_padding": True}),
)

RELEASES = Releases("sglang", cumulative(SglangRules(), tuple((name, what | classes.CHANGES.get(name, {})) for name, what in CHANGES)))
VERSIONS = RELEASES.versions
