"""What transformers is: forms and devices it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.methods import Drafting, Way, Words
from kvplan.engines.common.protocol import Facts, Setting
from kvplan.engines.transformers.rules import VERSIONS
from kvplan.forms import Form

_UNUSED = "The following `model_kwargs` are not used by the model: ['{}']"
_VALIDATE = "generation/utils.py _validate_model_kwargs"
_NOT_COUNTED = "what that would take is not counted"
#: Forms of cache that were read for this engine; a new one is refused until it is.
_FORMS: frozenset[Form] = frozenset({
    "none", "shared", "kv", "kv+index", "kv+blocks", "encoder-kv", "latent", "latent+index", "latent+pooled-index",
    "compressed", "mamba1", "mamba2", "gated-delta-net", "kda", "linear-attention", "short-conv", "rg-lru", "rwkv", "mlstm",
    "convolved-qkv", "depthwise-conv", "latent+window",
})  # fmt: skip

FACTS = Facts(
    name="transformers",
    title="transformers",
    versions=VERSIONS,
    options={
        "lora_target_modules": "modules that adapters change, joined by commas; all by default",
        "cache_implementation": "dynamic, static, quantized or paged",
        "backend": "of a quantized cache: quanto, hqq or fp8",
        "nbits": "of a quantized cache: bits",
        "q_group_size": "of a quantized cache: elements that share a scale",
        "residual_length": "of a quantized cache: tokens kept unquantised",
        "num_beams": "beams of one sequence",
        "attn_implementation": "the attention kernel: eager makes every score",
        "prefill_chunk_size": "tokens of a prompt in one pass",
        "num_blocks": "of a paged cache: blocks",
        "max_blocks_per_request": "of a paged cache: blocks of one request",
        "use_async_batching": "of a paged cache: two sets of inputs",
        "return_logprobs": "of a paged cache: log-probabilities are kept",
        "logits_processors": "of a paged cache: logits are processed",
        "logits_to_keep": "of a paged cache: logits of the last token only",
    },
    forms=_FORMS,
    unused={
        "max_num_seqs": "sequences are those of the question",
        "n_gpu_layers": "it leaves no layers in host memory",
        "host_memory": _NOT_COUNTED,
        "enforce_eager": "it captures no graphs",
    },
    # assisted generation, with a model or from the prompt: generation/utils.py of the wheels 4.28 to 4.40
    drafting=Drafting(
        (Way("draft_model", "4.29"), Way("prompt_lookup", "4.37")),
        (Words(_UNUSED.format("assistant_model"), _VALIDATE, "draft_model"), Words(_UNUSED.format("prompt_lookup_num_tokens"), _VALIDATE)),
    ),
    weight_schemes=frozenset(
        {
            "plain",
            "awq",
            "bitsandbytes",
            "fp8",
            "gguf",
            "gptq",
            "int",
            "mxfp",
            "nvfp4",
            "unknown",
        }
    ),  # quantizers/auto.py: no exl2, exl3 or MLX
    constants="torch",
    kv_advice=(("fp8", 8),),
    weight_advice=(("fp8", 8), ("int4_g128", 4)),
    settings=(
        Setting("prefill_chunk_size", ("4096", "1024"), "prompts in passes of so many tokens"),
        Setting("cache_implementation", ("dynamic",), "a cache that grows"),
        Setting("cache_implementation", ("quantized",), "a quantized cache"),
    ),
)
