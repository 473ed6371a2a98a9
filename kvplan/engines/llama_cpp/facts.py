"""What llama.cpp is: forms, devices and formats it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.protocol import Facts, Setting
from kvplan.engines.llama_cpp.rules import VERSIONS
from kvplan.engines.llama_cpp.ways import DRAFTING
from kvplan.forms import Form

#: engine_option keys, by its own names.
OPTIONS: dict[str, str] = {
    "lora_target_modules": "modules that adapters change, joined by commas; all by default",
    "n_ubatch": "-ub: tokens of one physical batch",
    "kv_unified": "one pool of cells for all slots",
    "kv_unified_per_slot": "tokens of a slot, from which the pool follows",
    "flash_attn": "on, off or auto",
    "swa_full": "window layers keep every token",
    "n_rs_seq": "past states kept to roll drafts back",
    "n_outputs_max": "rows of logits reserved for",
    "offload_kqv": "the cache lies with its layers",
    "no_kv_offload": "the cache stays in host memory",
    "tensor_split": "shares of the model by device",
    "device_memory": "memory of each device in order, where cards differ: 24GiB/12GiB",
    "n_cpu_moe": "layers whose experts stay in host memory",
    "n_cpu_ffn": "layers whose dense feed-forward networks stay in host memory",
    "override_tensor": "-ot: PATTERN=BUFFER, where tensors with such names go (CPU, CUDA0)",
    "n_gpu_layers_draft": "-ngld: layers of a draft model on the devices",
    "op_offload": "false: nothing of what is in host memory is computed on a device",
    "mmproj_offload": "false: vision and audio towers in host memory",
    "split_mode": "layer, row or tensor: how several devices share a model; none: one of them has it",
    "main_gpu": "which one, counted from 0",
    "server": "llama-server: its own number of slots",
    "load_mode": "mmap (by default), none, mlock, mmap+mlock or dio: how the file is read into host memory",
    "fit": "--fit: what is not set shrinks until it fits",
    "fit_target": "MiB left free on each device by --fit; or a list, one for each",
    "fit_ctx": "the shortest context that --fit takes",
    "cache_ram": "MiB of host memory that a server keeps prompts in; -1: without end, 0: none",
    "override_kv": "ARCHITECTURE.context_length=int:TOKENS, what the model is taken to be trained for",
    "rope_scaling": "yarn: rope_scale times as long",
    "rope_scale": "the factor of it",
    "yarn_orig_ctx": "of how many tokens; by default the model's own",
    "ctx_checkpoints": "states of each slot that a server keeps in host memory",
}

#: Forms of cache that were read for this engine; a new one is refused until it is.
_FORMS: frozenset[Form] = frozenset({
    "none", "shared", "kv", "encoder-kv", "latent", "latent+index", "latent+pooled-index", "compressed", "mamba1", "mamba2",
    "gated-delta-net", "kda", "linear-attention", "short-conv", "rg-lru", "rwkv", "kv+index", "depthwise-conv",
})  # fmt: skip

#: MTP drafters of Gemma 4, which are files of their own beside a conversion (`mtp-gemma-4-*.gguf`), by the width of the states they read.
#: Their type is that of unsloth's: 465,109,248 bytes beside Gemma 4 12B are its 422,856,960 parameters in q8_0 and its words.
_BESIDE = {
    ("gemma4", width): (f"google/gemma-4-{size}-assistant", "q8_0")
    for width, size in ((1536, "e2b"), (2560, "e4b"), (2816, "26b-a4b"), (3840, "12b"), (5376, "31b"))
}

FACTS = Facts(
    name="llama.cpp",
    drafters_beside=_BESIDE,
    title="llama.cpp",
    versions=VERSIONS,
    options=OPTIONS,
    forms=_FORMS,
    unused={
        "dtype": "its caches are of kv_dtype, its weights of weight_dtype",
        "block_size": "its cells are single tokens",
        "memory_fraction": "it takes what its context needs",
        "enforce_eager": "its graphs are small",
    },
    drafting=DRAFTING,
    pool="per context",
    pages="cells",
    offloads=True,
    beyond_one="with --rpc, say the memory of every server, in order, with device_memory",
    weight_schemes=frozenset({"plain", "gguf", "mxfp", "nvfp4", "unknown"}),
    serves_files=True,
    kv_advice=(("q8_0", 8), ("q4_0", 4)),
    weight_advice=(("q4_k_m", 4),),
    weight_further=(("q3_k_m", 3),),
    settings=(
        Setting("flash_attn", ("on",), "flash attention"),
        Setting("kv_unified", ("true",), "one pool of cells for all slots"),
        Setting("swa_full", ("false",), "let window layers keep their window alone"),
        Setting("n_ubatch", ("256", "128", "64"), "smaller physical batches"),
    ),
    constants="llama.cpp",
    measured_from="",
    measured_names=("max_model_len", "n_gpu_layers"),
)
