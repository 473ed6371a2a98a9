"""What MLX-LM is: forms, devices and formats it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.methods import Drafting, Way, Words
from kvplan.engines.common.protocol import Facts, Setting
from kvplan.forms import Form

#: Forms of cache that were read for this engine; a new one is refused until it is.
_FORMS: frozenset[Form] = frozenset({
    "none", "shared", "kv", "encoder-kv", "latent", "latent+index", "mamba1", "mamba2", "gated-delta-net", "kda",
    "linear-attention", "short-conv", "rg-lru", "rwkv",
})  # fmt: skip

FACTS = Facts(
    name="mlx-lm",
    title="MLX-LM",
    versions=("0.32.2",),
    options={
        "lora_target_modules": "modules that adapters change, joined by commas; all by default",
        "kv_bits": "--kv-bits: bits of the cache, 2 to 8",
        "kv_group_size": "--kv-group-size: elements that share a scale and a bias",
        "quantized_kv_start": "--quantized-kv-start: tokens from which the cache is quantised",
        "max_kv_size": "--max-kv-size: every layer rotates at so many tokens",
        "prompt_concurrency": "--prompt-concurrency: prompts that the server reads together, 8",
        "prompt_cache_size": "--prompt-cache-size: prompts whose caches the server keeps, 10",
        "prompt_cache_bytes": "--prompt-cache-bytes: bytes of them at most, without a unit",
    },
    forms=_FORMS,
    unused={
        "max_num_seqs": "sequences are those of the question",
        "block_size": "its buffers grow by 256 tokens",
        "n_gpu_layers": "it leaves no layers in host memory",
        "host_memory": "its memory is the host's",
        "multimodal": "it loads no towers",
        "enforce_eager": "it captures no graphs",
    },
    # --draft-model, generate.py speculative_generate_step: 0.20.6 has none, 0.21.0 has it
    drafting=Drafting((Way("draft_model", "0.21"),), (Words("unrecognized arguments: --draft-model", "generate.py"),)),
    vendors=frozenset({"apple"}),
    # utils.py load_model: AWQ and packed integers of 4 bits become its own; GPTQ's files hold g_idx, at which it stops
    weight_schemes=frozenset({"plain", "affine", "awq", "int", "mlx", "mxfp", "nvfp4", "unknown"}),
    own_formats={how.format(n): f"mlx_{n}bit" for how in ("{}bit", "{}_bit", "int{}") for n in (2, 3, 4, 5, 6, 8)},  # convert.py --q-bits
    kv_advice=(),
    weight_advice=(("affine4_g64", 4),),
    settings=(Setting("kv_bits", ("8", "4"), "store the cache in fewer bits"),),
)
