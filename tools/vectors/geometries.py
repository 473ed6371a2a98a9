"""Geometries drawn at random in the keys of a config.json: what of a model decides its cache, hidden sizes, vocabularies and experts small.

Each family is a function of a random source; the classes are those that engines have. Nothing here is a released model.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Config = dict[str, Any]


def draw(family: str, number: int, seed: int = 1) -> Config:
    """Number `number` of a family: the same whatever else is drawn."""
    rng = random.Random(f"{seed}|{family}|{number}")
    architecture, model_type, make = FAMILIES[family]
    config = make(rng)
    return {"architectures": [architecture], "model_type": model_type, **config}


def base(r: random.Random, layers: tuple[int, int] = (2, 40), context: tuple[int, ...] = (4096, 8192, 32768, 131072)) -> Config:
    return {
        "num_hidden_layers": r.randint(*layers), "hidden_size": r.choice([64, 128, 256]), "vocab_size": r.choice([1024, 4096]),
        "max_position_embeddings": r.choice(context), "torch_dtype": r.choice(["bfloat16", "bfloat16", "float16"]),
        "tie_word_embeddings": r.random() < 0.5, "pad_token_id": 0,
    }  # fmt: skip


def heads(r: random.Random, dims: tuple[int, ...] = (64, 96, 128, 256), most: int = 16) -> Config:
    kv = r.choice([1, 2, 4, 8, 8, 16])
    kv = min(kv, most)
    return {"num_attention_heads": kv * r.choice([1, 2, 4, 8]), "num_key_value_heads": kv, "head_dim": r.choice(dims)}


def dense(r: random.Random) -> Config:
    return {**base(r), **heads(r), "intermediate_size": 256}


def without_head_dim(r: random.Random) -> Config:
    """Classes that take the width of a head from the hidden size."""
    kv, group, dim = r.choice([1, 2, 4]), r.choice([1, 2, 4]), r.choice([32, 64, 128])
    return {**base(r, (2, 24)), "num_attention_heads": kv * group, "num_key_value_heads": kv, "hidden_size": kv * group * dim,
            "intermediate_size": 256}  # fmt: skip


def qwen2(r: random.Random) -> Config:
    return {**without_head_dim(r), "use_sliding_window": False}


def windowed(r: random.Random) -> Config:
    """Every layer of one window, as in Mistral 7B v0.1."""
    return {**dense(r), "sliding_window": r.choice([512, 1024, 4096])}


def alternating(r: random.Random) -> Config:
    """Gemma 2: every other layer sees a window."""
    return {**dense(r), "sliding_window": r.choice([256, 1024, 4096]), "query_pre_attn_scalar": 256}


def gemma3(r: random.Random) -> Config:
    made = {**dense(r), "sliding_window": r.choice([512, 1024]), "query_pre_attn_scalar": 256}
    every = r.choice([2, 4, 6])
    made["layer_types"] = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(made["num_hidden_layers"])]
    return made


def patterned(r: random.Random) -> Config:
    """Layers named one by one in layer_types, a window for some."""
    made = {**dense(r), "sliding_window": r.choice([128, 512, 4096])}
    every = r.choice([2, 3, 4, 6])
    made["layer_types"] = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(made["num_hidden_layers"])]
    return made


def gpt_oss(r: random.Random) -> Config:
    made = {**base(r, (2, 36)), **heads(r, (64,)), "intermediate_size": 128, "num_local_experts": 4, "num_experts_per_tok": 2,
            "sliding_window": 128}  # fmt: skip
    made["layer_types"] = ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(made["num_hidden_layers"])]
    return made


def experts(r: random.Random) -> Config:
    return {**dense(r), "num_hidden_layers": r.randint(2, 24), "moe_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2,
            "decoder_sparse_step": 1, "mlp_only_layers": []}  # fmt: skip


def mixtral(r: random.Random) -> Config:
    return {**dense(r), "num_hidden_layers": r.randint(2, 24), "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}


def latent(r: random.Random) -> Config:
    n = r.randint(2, 30)
    return {
        **base(r), "num_hidden_layers": n, "num_attention_heads": (h := r.choice([8, 16, 64])), "num_key_value_heads": h,
        "kv_lora_rank": r.choice([256, 512]), "q_lora_rank": r.choice([None, 128]), "qk_nope_head_dim": r.choice([64, 128]),
        "qk_rope_head_dim": r.choice([32, 64]), "v_head_dim": r.choice([64, 128]), "intermediate_size": 256, "moe_intermediate_size": 64,
        "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
        "moe_layer_freq": 1, "routed_scaling_factor": 1.0, "topk_method": "greedy", "scoring_func": "softmax", "norm_topk_prob": True,
    }  # fmt: skip


def latent_v3(r: random.Random) -> Config:
    return {**latent(r), "topk_method": "noaux_tc", "scoring_func": "sigmoid", "q_lora_rank": 128}


def qwen3_next(r: random.Random) -> Config:
    every = r.choice([2, 3, 4])
    n = every * r.randint(1, 8)
    made = {**experts(r), "num_hidden_layers": n, "full_attention_interval": every, "shared_expert_intermediate_size": 64}
    k = r.choice([4, 8, 16])
    made |= {"linear_num_key_heads": k, "linear_num_value_heads": k * r.choice([1, 2]), "linear_key_head_dim": 128,
             "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}  # fmt: skip
    made["layer_types"] = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(n)]
    return made


def mamba2(r: random.Random) -> Config:
    dim, n = r.choice([32, 64]), r.choice([16, 32, 64])
    return {
        "num_hidden_layers": r.randint(2, 40), "hidden_size": dim * n // 2, "vocab_size": 1024, "head_dim": dim, "num_heads": n,
        "expand": 2, "state_size": r.choice([64, 128]), "n_groups": r.choice([1, 8]), "conv_kernel": 4, "torch_dtype": "bfloat16",
        "tie_word_embeddings": True,
    }  # fmt: skip


def mamba1(r: random.Random) -> Config:
    hidden = r.choice([128, 256, 512])
    return {
        "num_hidden_layers": r.randint(2, 40), "hidden_size": hidden, "vocab_size": 1024, "expand": 2, "intermediate_size": 2 * hidden,
        "state_size": r.choice([16, 32]), "conv_kernel": 4, "time_step_rank": 8, "torch_dtype": "bfloat16", "tie_word_embeddings": True,
    }  # fmt: skip


def granite_hybrid(r: random.Random) -> Config:
    n, hidden, dim = r.randint(4, 32), r.choice([256, 512]), 64
    kv = r.choice([1, 2, 4])
    attends = sorted(r.sample(range(n), max(1, n // r.choice([4, 8]))))
    return {
        **base(r), "num_hidden_layers": n, "hidden_size": hidden, "num_attention_heads": hidden // 64, "num_key_value_heads": kv,
        "layer_types": ["attention" if i in attends else "mamba" for i in range(n)], "intermediate_size": 256,
        "shared_intermediate_size": 256, "num_local_experts": 0, "num_experts_per_tok": 0, "mamba_expand": 2, "mamba_d_head": dim,
        "mamba_n_heads": 2 * hidden // dim, "mamba_d_state": r.choice([64, 128, 256]), "mamba_n_groups": 1, "mamba_d_conv": 4,
        "position_embedding_type": "nope",
    }  # fmt: skip


def falcon_h1(r: random.Random) -> Config:
    """Attention and a Mamba-2 mixer side by side in every layer."""
    n, dim = r.choice([16, 24, 32]), r.choice([32, 64])
    return {
        **base(r, (2, 30)), **heads(r, (64, 128), 4), "intermediate_size": 256, "mamba_d_ssm": n * dim, "mamba_n_heads": n,
        "mamba_d_head": dim, "mamba_d_state": r.choice([64, 128, 256]), "mamba_n_groups": r.choice([1, 2]), "mamba_d_conv": 4,
        "mamba_expand": 2,
    }  # fmt: skip


def jamba(r: random.Random) -> Config:
    n, period = 8 * r.randint(1, 3), r.choice([4, 8])
    return {
        **base(r), "num_hidden_layers": n, "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": r.choice([1, 2, 4]),
        "attn_layer_period": period, "attn_layer_offset": r.randrange(period), "expert_layer_period": 2, "expert_layer_offset": 1,
        "num_experts": 2, "num_experts_per_tok": 1, "intermediate_size": 256, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
        "mamba_dt_rank": 16, "use_mamba_kernels": False,
    }  # fmt: skip


def lfm2(r: random.Random) -> Config:
    n = r.randint(4, 20)
    kv, hidden = r.choice([2, 4]), r.choice([256, 512])
    attends = sorted(r.sample(range(n), max(1, n // 3)))
    return {
        **base(r), "num_hidden_layers": n, "hidden_size": hidden, "num_attention_heads": hidden // 64, "num_key_value_heads": kv,
        "layer_types": ["full_attention" if i in attends else "conv" for i in range(n)], "conv_L_cache": r.choice([3, 4]),
        "conv_bias": False, "block_ff_dim": 256, "intermediate_size": 256, "block_auto_adjust_ff_dim": False,
    }  # fmt: skip


def nemotron_h(r: random.Random) -> Config:
    n, dim, many = r.randint(6, 40), 64, r.choice([8, 16, 32])
    pattern = "".join(r.choices("M-*", weights=[5, 4, 1], k=n))
    pattern = "M*-" + pattern[3:]
    return {
        **base(r), **heads(r, (64, 128), 8), "num_hidden_layers": n, "hybrid_override_pattern": pattern, "intermediate_size": 256,
        "mamba_num_heads": many, "mamba_head_dim": dim, "ssm_state_size": r.choice([64, 128]), "n_groups": r.choice([1, 8]),
        "conv_kernel": 4, "expand": 2, "chunk_size": 128,
    }  # fmt: skip


def plain_heads(r: random.Random) -> Config:
    """OPT: as many KV heads as heads."""
    h, dim = r.choice([2, 4, 8]), r.choice([64, 128])
    return {
        "num_hidden_layers": r.randint(2, 32), "hidden_size": h * dim, "word_embed_proj_dim": h * dim, "num_attention_heads": h,
        "ffn_dim": 256, "vocab_size": 1024, "max_position_embeddings": 2048, "torch_dtype": "float16", "do_layer_norm_before": True,
    }  # fmt: skip


def gpt2(r: random.Random) -> Config:
    h, dim = r.choice([2, 4, 8]), 64
    return {"n_layer": r.randint(2, 32), "n_embd": h * dim, "n_head": h, "n_positions": 1024, "vocab_size": 1024, "torch_dtype": "float16"}


def falcon(r: random.Random) -> Config:
    """One KV head for all, or groups of them (new_decoder_architecture)."""
    h, dim, new = r.choice([4, 8]), 64, r.random() < 0.5
    made = {"num_hidden_layers": r.randint(2, 24), "hidden_size": h * dim, "num_attention_heads": h, "vocab_size": 1024, "alibi": False,
            "bias": False, "parallel_attn": True, "multi_query": True, "new_decoder_architecture": new,
            "torch_dtype": "bfloat16"}  # fmt: skip
    return made | ({"num_kv_heads": r.choice([1, 2, 4])} if new else {})


#: name -> (class, model_type, its draw)
FAMILIES: dict[str, tuple[str, str, Callable[[random.Random], Config]]] = {
    "llama": ("LlamaForCausalLM", "llama", dense), "mistral": ("MistralForCausalLM", "mistral", dense),
    "mistral-window": ("MistralForCausalLM", "mistral", windowed), "qwen2": ("Qwen2ForCausalLM", "qwen2", qwen2),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", dense), "phi3": ("Phi3ForCausalLM", "phi3", without_head_dim),
    "gemma": ("GemmaForCausalLM", "gemma", dense), "gemma2": ("Gemma2ForCausalLM", "gemma2", alternating),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text", gemma3), "gpt-oss": ("GptOssForCausalLM", "gpt_oss", gpt_oss),
    "cohere2": ("Cohere2ForCausalLM", "cohere2", patterned), "olmo3": ("Olmo3ForCausalLM", "olmo3", patterned),
    "exaone4": ("Exaone4ForCausalLM", "exaone4", patterned), "qwen3-moe": ("Qwen3MoeForCausalLM", "qwen3_moe", experts),
    "mixtral": ("MixtralForCausalLM", "mixtral", mixtral), "deepseek-v2": ("DeepseekV2ForCausalLM", "deepseek_v2", latent),
    "deepseek-v3": ("DeepseekV3ForCausalLM", "deepseek_v3", latent_v3), "qwen3-next": ("Qwen3NextForCausalLM", "qwen3_next", qwen3_next),
    "mamba2": ("Mamba2ForCausalLM", "mamba2", mamba2), "mamba": ("MambaForCausalLM", "mamba", mamba1),
    "granite-hybrid": ("GraniteMoeHybridForCausalLM", "granitemoehybrid", granite_hybrid),
    "falcon-h1": ("FalconH1ForCausalLM", "falcon_h1", falcon_h1), "jamba": ("JambaForCausalLM", "jamba", jamba),
    "lfm2": ("Lfm2ForCausalLM", "lfm2", lfm2), "nemotron-h": ("NemotronHForCausalLM", "nemotron_h", nemotron_h),
    "opt": ("OPTForCausalLM", "opt", plain_heads), "gpt2": ("GPT2LMHeadModel", "gpt2", gpt2),
    "falcon": ("FalconForCausalLM", "falcon", falcon), "starcoder2": ("Starcoder2ForCausalLM", "starcoder2", without_head_dim),
    "glm4": ("Glm4ForCausalLM", "glm4", dense), "smollm3": ("SmolLM3ForCausalLM", "smollm3", without_head_dim),
    "granite": ("GraniteForCausalLM", "granite", without_head_dim),
}  # fmt: skip
