"""What exllamav3 is: forms, devices and formats it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.methods import Drafting, Way
from kvplan.engines.common.protocol import Facts, Setting
from kvplan.engines.exllamav3.releases import RELEASES
from kvplan.forms import Form

_NOT_COUNTED = "what that would take is not counted"
#: Those of exllamav3/modules: attn, sliding_attn, qsa_indexer, mla_attn, gated_delta_net, mamba2, short_conv, ple.
_FORMS: frozenset[Form] = frozenset({
    "none", "shared", "kv", "kv+index", "latent", "latent+index", "latent+pooled-index", "gated-delta-net", "kda", "mamba2",
    "short-conv", "depthwise-conv",
})  # fmt: skip
FACTS = Facts(
    name="exllamav3",
    title="exllamav3",
    versions=RELEASES.versions,
    options={
        "k_bits": "bits of K, 2 to 8",
        "v_bits": "bits of V, 2 to 8",
        "cache_mode": "both as TabbyAPI has them: FP16, Q8, Q6, Q4, or bits of K and V (6,6)",
        "draft_cache_mode": "the same of the drafter's cache (FP16 beside cache_mode; beside k_bits the same bits)",
        "cache_tokens": "max_num_tokens: tokens of the cache",
        "cache_size": "the same (TabbyAPI, -cs)",
        "max_seq_len": "tokens of the longest sequence (TabbyAPI); without cache_size those of the cache",
        "chunk_size": "tokens of a step of a prompt (TabbyAPI: in 256; 2048)",
        "max_history": "drafted tokens that states can be taken back by; without it those of --speculative",
        "gpu_split": "GB of each card that a load may take, 0 of one that it leaves out: 8,15.5 (use_per_device, -gs)",
        "gpu_split_auto": "false: TabbyAPI reads no autosplit_reserve",
        "draft_gpu_split": "the same of the drafter's load (TabbyAPI; without it gpu_split)",
        "autosplit_reserve": "MB of each card that a load keeps free (TabbyAPI; 96 of the first, 512 of others)",
        "cpu_moe_offload_layers": "layers whose experts are in host memory (TabbyAPI; moe_cpu_offload)",
        "cpu_moe_split_experts": "experts of each layer in host memory, the last ones (TabbyAPI; moe_cpu_split)",
        "ngram_ram": "whether a table of n-grams is in host memory, not read from its file",
        "vision_offload": "whether a vision tower is in host memory (EXL3_VISION_PINNED)",
    },
    forms=_FORMS,
    unused={
        "dtype": "it computes in f16",
        "n_gpu_layers": "it leaves no layers in host memory",
        "host_memory": _NOT_COUNTED,
        "lora": _NOT_COUNTED,
        "enforce_eager": "it captures no graphs",
    },
    # generator/generator.py: a draft model with a cache of as many tokens as the model's in every release; n-grams and DFlash's
    # architecture is in 0.0.43 and not in 0.0.30; --mtp of model_init.py is in 0.0.41 and not in 0.0.40
    drafting=Drafting((Way("draft_model"), Way("ngram dflash", "0.0.31"), Way("mtp", "0.0.41"))),
    pool="per context",
    constants="torch",
    vendors=frozenset({"nvidia"}),
    least_capability=80,
    kernels_from=(("", 80),),  # turboderp-org/exllamav3 issue 14: cp.async and m16n8k16; theroyallab/tabbyAPI pull request 463
    settings=(Setting("k_bits", ("8", "6", "4"), "store the cache in fewer bits"),),
    weight_schemes=frozenset({"plain", "exl3", "unknown"}),
    weight_advice=(("exl3_4bpw", 4),),
)
