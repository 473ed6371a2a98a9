"""A config as its transformers class reads it: other names under their own, and what __post_init__ makes of keys that are absent.

transformers 5.23.0, models/*/configuration_*.py: attribute_map and __post_init__ of each class. One rule a model type; a rule returns the
keys that it makes. Absent and null are the same to most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.importers.hf.classes import FULL, LINEAR, SLIDING, Made, Read, class_defaults, class_part, table


def _untied(c: Read) -> Made:
    """A class that ties nothing."""
    return {"tie_word_embeddings": False}


def _qwen(c: Read) -> Made:
    window = c("sliding_window") if c("use_sliding_window") else None
    first = c("max_window_layers")
    slides = window is not None and isinstance(first, int)
    return {"sliding_window": window} | c.layers(lambda i, n: SLIDING if slides and i >= first else FULL)


def _qwen2_moe(c: Read) -> Made:
    first = c("max_window_layers")
    slides = bool(c("use_sliding_window")) and isinstance(first, int)
    return c.layers(lambda i, n: SLIDING if slides and (i + 1) % 2 and i < first else FULL)


def _halved(c: Read, on: bool) -> Made:
    """Attending both ways, a window reaches half as far to each side."""
    window = c("sliding_window")
    return {"sliding_window": window // 2 + 1} if on and isinstance(window, int) else {}


def _gemma4(c: Read) -> Made:
    types = c.every(6).get("layer_types") or c("layer_types")
    last = {"layer_types": [*types[:-1], FULL]} if isinstance(types, list) and types else {}
    return _halved(c, c("use_bidirectional_attention") == "all") | last


def _cohere2_moe(c: Read) -> Made:
    dense, prefix, rest = c("first_k_dense_replace", 0), c("prefix_dense_sliding_window_pattern"), c("sliding_window_pattern")
    if not all(isinstance(v, int) and v >= least for v, least in ((dense, 0), (prefix, 1), (rest, 1))):
        return {}
    types = c.layers(lambda i, n: FULL if (i + 1 if i < dense else i - dense + 1) % (prefix if i < dense else rest) == 0 else SLIDING)
    return types | c.first_dense(dense)


def _smollm3(c: Read) -> Made:
    rope, step = c("no_rope_layers"), c("no_rope_layer_interval")
    slides = bool(c("use_sliding_window")) and c("sliding_window") is not None

    def has_rope(i: int) -> bool:
        return bool(rope[i]) if isinstance(rope, list) and i < len(rope) else not isinstance(step, int) or step < 1 or (i + 1) % step != 0

    return c.layers(lambda i, n: SLIDING if slides and not has_rope(i) else FULL)


def _llama4(c: Read) -> Made:
    rope, step, every = c("no_rope_layers"), c("no_rope_layer_interval"), c("interleave_moe_layer_step")
    n = c("num_hidden_layers")
    made = {}
    if c("moe_layers") is None and isinstance(every, int) and every > 0 and isinstance(n, int):
        made["moe_layers"] = list(range(every - 1, n, every))
    if not isinstance(rope, list) or not rope:
        rope = [int((i + 1) % step != 0) for i in range(n)] if isinstance(step, int) and step > 0 and isinstance(n, int) else []
    return made | (c.layers(lambda i, n: "chunked_attention" if rope[i] else FULL) if rope and len(rope) == n else {})


def _kimi_linear(c: Read) -> Made:
    inner = c("linear_attn_config") if isinstance(c("linear_attn_config"), dict) else {}
    full, linear = inner.get("full_attn_layers"), inner.get("kda_layers")
    if isinstance(full, list) and isinstance(linear, list):
        types = c.layers(lambda i, n: FULL if i + 1 in full else LINEAR)
    else:
        types = c.layers(lambda i, n: FULL if i and i % 4 == 0 else LINEAR)
    return types | c.first_dense(c("first_k_dense_replace", 1)) | {"tie_word_embeddings": False}  # the class ties nothing


def _longcat(c: Read) -> Made:
    """num_hidden_layers is a property of the class, two for each layer: a file that states it sets num_layers."""
    n = c("num_hidden_layers")
    return {"num_layers": n // 2} if isinstance(n, int) and not isinstance(n, bool) else {}


def _mimo_v2(c: Read) -> Made:
    size = c("sliding_window_size")
    window = {"sliding_window": size + 1} if isinstance(size, int) else {}
    return window | c.layers(lambda i, n: FULL if i == 0 or not (i + 1) % 6 else SLIDING) | c.first_dense(1)


def _olmo_hybrid(c: Read) -> Made:
    types = c.layers(lambda i, n: FULL if i % 4 == 3 or (n < 4 and i == n - 1) else LINEAR)
    heads, hidden = c("num_attention_heads"), c("hidden_size")
    keys = c("linear_num_key_heads") or heads
    values = c("linear_num_value_heads") or heads
    width = c("linear_key_head_dim")
    if width is None and isinstance(keys, int) and isinstance(hidden, int):
        width = int(0.75 * hidden / keys)
    wide = c("linear_value_head_dim")
    wide = 2 * width if wide is None and isinstance(width, int) else wide
    return types | {
        "linear_num_key_heads": keys,
        "linear_num_value_heads": values,
        "linear_key_head_dim": width,
        "linear_value_head_dim": wide,
    }


def _lfm2(c: Read) -> Made:
    indices = c("full_attn_idxs")
    made = {} if c("block_ff_dim") is None else {"intermediate_size": c("block_ff_dim")}
    return made | c.layers(lambda i, n: FULL if indices is None or i in indices else "conv")


def _zamba2(c: Read) -> Made:
    hidden, heads, expand, inner = c("hidden_size"), c("num_attention_heads"), c("mamba_expand"), c("n_mamba_heads")
    if not all(isinstance(v, int) and v > 0 for v in (hidden, heads, expand, inner)):
        return {}
    made: Made = {"attention_head_dim": c("attention_head_dim") or 2 * hidden // heads}
    made["mamba_headdim"] = c.data.get("mamba_headdim") or expand * hidden // inner
    if c("layers_block_type") is None:
        linear = [LINEAR]
        made["layers_block_type"] = linear + (linear * 5 + ["hybrid"]) * 7 + linear * 4 + ["hybrid"] + linear * 3 + ["hybrid"] + linear * 2
    return made


def _mllama(c: Read) -> Made:
    """Layers that look at images; the class reads past those beyond the last, and saves them."""
    n, listed = c("num_hidden_layers"), c("cross_attention_layers")
    listed = list(range(3, 40, 5)) if listed is None else listed
    if not isinstance(n, int) or not isinstance(listed, list):
        return _untied(c)
    return _untied(c) | {"cross_attention_layers": [i for i in listed if not isinstance(i, int) or i < n]}


def _mllama_vision(c: Read) -> Made:
    tiles = [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]
    return {} if c("supported_aspect_ratios") is not None else {"supported_aspect_ratios": tiles}


def _minimax_m3(c: Read) -> Made:
    inner = c("sparse_attention_config") if isinstance(c("sparse_attention_config"), dict) else {}
    flags, freq = inner.get("sparse_attention_freq"), c("moe_layer_freq")
    made = c.layers(lambda i, n: "minimax_m3_sparse" if isinstance(flags, list) and i < len(flags) and flags[i] else FULL)
    if isinstance(freq, list):
        return made | c.layers(lambda i, n: "sparse" if i < len(freq) and freq[i] else "dense", "mlp_layer_types")
    return made | c.layers(lambda i, n: "sparse", "mlp_layer_types")


def _qwen4(c: Read) -> Made:
    """Released files write full_attention for what has an indexer."""
    types = c.every(c("full_attention_interval", 4), LINEAR).get("layer_types") or c("layer_types")
    indexed = ["indexed_attention" if kind == FULL else kind for kind in types] if isinstance(types, list) else types
    return {"layer_types": indexed}


def _dots3(c: Read) -> Made:
    """Released files write full_attention for what has an indexer, where use_dsa does not say otherwise."""
    full = FULL if c("use_dsa") is False else "indexed_attention"
    window = c("use_sliding_window", True)
    made = c.layers(lambda i, n: full if not window or i < 2 or i % 4 == 1 else SLIDING)
    types = made.get("layer_types") or c("layer_types")
    renamed = c("use_dsa", None if "per_layer_config" in c.data else True) is not None and isinstance(types, list)
    types = [full if kind in (FULL, "indexed_attention") else kind for kind in types] if renamed else types
    slides = c("sliding_window") if c("sliding_window") is not None else c("sliding_window_size", 512)
    shared = c("moe_shared_expert_intermediate_size", c("shared_experts_intermediate_size"))
    more = {"layer_types": types, "sliding_window": slides, "shared_experts_intermediate_size": shared}
    freq = c("moe_layer_freq", 1)
    if isinstance(freq, list):
        first = c("first_k_dense_replace", 1)
        return more | c.layers(lambda i, n: "sparse" if i >= first and i < len(freq) and freq[i] else "dense", "mlp_layer_types")
    return more | c.first_dense(c("first_k_dense_replace", 1), freq)


def _inkling(c: Read) -> Made:
    """Released files name the dense layers by their number and write the experts' width as the dense one."""
    local, dense, wide = c("local_layer_ids"), c("dense_mlp_idx", 0), c("dense_intermediate_size")
    slides = local if isinstance(local, list) else None
    made = c.layers(lambda i, n: "hybrid_sliding" if (i in slides if slides is not None else (i + 1) % 6) else "hybrid")
    widths = {} if wide is None else {"moe_intermediate_size": c("intermediate_size"), "intermediate_size": wide}
    return made | c.first_dense(dense) | widths | {"tie_word_embeddings": False}


def _n_embed(c: Read) -> Made:
    """An older name, which counts where both are there."""
    return {} if c.data.get("n_embed") is None else {"hidden_size": c("n_embed")}


def _indexed(c: Read) -> Made:
    made = c.first_dense(c("first_k_dense_replace"))
    return made | ({"n_routed_experts": c("num_experts")} if c("num_experts") is not None else {})


def _granite_swa(c: Read) -> Made:
    return c.layers(lambda i, n: SLIDING if i % 4 else FULL)


def _heads_of_rope(c: Read) -> Made:
    made = {"linear_head_dim": c("linear_head_dim", c("head_dim")), "tie_word_embeddings": False}
    return made | c.every(c("layer_group_size"), LINEAR) | c.first_dense(c("first_k_dense_replace"))


def _tied(c: Read) -> Made:
    """T5 ties always; a file that says otherwise has a head of its own in its checkpoint (flan-t5)."""
    return {"tie_word_embeddings": c("tie_word_embeddings") is not False}


def _tied_inside(c: Read) -> Made:
    """BLIP-2: the text model is a whole model of its own, tied as its config or its class says (OPT and T5: tied)."""
    text = c("text_config")
    return {"tie_word_embeddings": not (isinstance(text, dict) and text.get("tie_word_embeddings") is False)}


def _either_tied(c: Read) -> Made:
    """Tied where the wrapper or its text model says so."""
    text = c("text_config")
    stated = isinstance(text, dict) and text.get("tie_word_embeddings") is True
    return {"tie_word_embeddings": True} if stated else {}


def _over_default(c: Read) -> Made:
    """A text config laid over the wrapper's own."""
    text, whole = c("text_config"), class_part(c.model_type, "text_config")
    return {"text_config": {**whole[3], **text}} if isinstance(text, dict) and whole else {}


def _alternate(c: Read) -> Made:
    return c.every(2)


def _dots1(c: Read) -> Made:
    first = c("max_window_layers")
    slides = c("sliding_window") is not None and isinstance(first, int)
    return c.layers(lambda i, n: SLIDING if slides and i >= first else FULL)


def _deepseek_v4(c: Read) -> Made:
    """Where neither compress_ratios nor layer_types say: two heavily compressed layers, then heavy and light in turn."""
    heavy, light = "heavily_compressed_attention", "compressed_sparse_attention"
    types = {} if c("compress_ratios") is not None else c.layers(lambda i, n: light if i >= 2 and i % 2 else heavy)
    hashed, rates = c("num_hash_layers", 3), dict(c("compress_rates") or {})
    for old, kind in (("compress_rate_csa", light), ("compress_rate_hca", heavy)):
        if c.data.get(old) is not None:
            rates[kind] = c(old)
    types = types | {"compress_rates": rates} if rates else types
    return types | (c.layers(lambda i, n: "hash_moe" if i < hashed else "moe", "mlp_layer_types") if isinstance(hashed, int) else {})


def _udop(c: Read) -> Made:
    """Always tied; three biases where the file lists none."""
    kinds = c("relative_bias_args")
    usual = [{"type": kind} for kind in ("1d", "horizontal", "vertical")]
    return {"tie_word_embeddings": True, "relative_bias_args": usual if kinds is None else kinds}


def _xlstm(c: Read) -> Made:
    made = _untied(c) | ({"hidden_size": c("embedding_dim")} if c("hidden_size") is None else {})
    return made | ({"num_hidden_layers": c("num_blocks")} if c("num_hidden_layers") is None else {})


def _molmo2(c: Read) -> Made:
    """A released file has `vit_config`, the whole tower: its layers behind the deepest that the adapter reads are dropped."""
    tower, joins = c("vit_config"), c("adapter_config")
    if not isinstance(tower, dict) or not isinstance(joins, dict) or c("vision_config") is not None:
        return _untied(c)
    n, read = tower.get("num_hidden_layers"), joins.get("vit_layers", [24, 18])
    if not isinstance(n, int) or n < 1 or not isinstance(read, list) or not read or not all(isinstance(at, int) for at in read):
        return _untied(c)
    return _untied(c) | {"vision_config": {**tower, "num_hidden_layers": max(at % n for at in read) + 1}}


def _molmo2_vision(c: Read) -> Made:
    size, patch, n = c("image_size") or [378, 378], c("patch_size"), c("num_position_embeddings")
    square = isinstance(size, list) and len(size) == 2 and all(isinstance(side, int) for side in size) and isinstance(patch, int) and patch
    return {"image_size": size} | ({"num_position_embeddings": (size[0] // patch) * (size[1] // patch)} if n is None and square else {})


def _inkling2(c: Read) -> Made:
    return c.layers(lambda i, n: "hybrid_sliding" if (i + 1) % 6 else "hybrid") | _untied(c)


def _ocr(c: Read) -> Made:
    """Heads split the width whatever the file says; every kind of attention of this class keeps a prompt whole."""
    n, older = c("num_hidden_layers"), c("first_k_dense_replace", 1)
    kept = {"layer_types": [FULL] * n} if c.model_type == "unlimited_ocr_text" and isinstance(n, int) and 0 < n < 4096 else {}
    return c.split() | kept | c.first_dense(older)


RULES: dict[str, Callable[[Read], Made]] = {
    "xlstm": _xlstm, "unlimited_ocr_text": _ocr, "molmo2_vision": _molmo2_vision, "molmo2": _molmo2,
    "molmo2_adapter": lambda c: {"vision_feature_layer": c("vision_feature_layer") or c("vit_layers") or [24, 18]},
    "afmoe": lambda c: c.every(c("global_attn_every_n_layers")),
    "axk1": lambda c: c.first_dense(c("first_k_dense_replace", 1), c("moe_layer_freq", 1)),
    "axk2": lambda c: c.first_dense(c("first_k_dense_replace", 1), c("moe_layer_freq", 1)),
    "bailing_hybrid": _heads_of_rope,
    "qwen4_exp_text": _qwen4, "inkling_text": _inkling, "dots3_note_text": _dots3, "inkling2": _untied, "inkling2_loop": _untied,
    "cohere_compass_text": lambda c: c.split() | c.layers(lambda i, n: FULL), "inkling_mm_model": _untied,
    "bloom": _n_embed, "falcon": _n_embed,
    "cohere2": lambda c: c.split() | c.every(c("sliding_window_pattern", 4)),
    "cohere2_moe": _cohere2_moe,
    "cwm": lambda c: c.layers(lambda i, n: SLIDING if i % 4 else FULL) | {"sliding_window": c("sliding_window") or None},
    "deepseek_v4": _deepseek_v4,
    "deepseek_v32": _indexed, "glm_moe_dsa": _indexed, "mistral_large4_text": _indexed,
    "dots1": _dots1,
    "ernie4_5_vl_moe_text": lambda c: c.first_dense(1),
    "exaone4": lambda c: c.every(c("sliding_window_pattern")) if c("sliding_window") is not None else {},
    "exaone_moe": lambda c: c.first_dense(c("first_k_dense_replace")) | (
        c.every(c("sliding_window_pattern")) if c("sliding_window") is not None else {}),
    "flint": lambda c: c.layers(lambda i, n: FULL if i < 2 or i % 4 == 1 or i == n - 1 else SLIDING),
    "gemma2": _alternate, "t5_gemma_module": _alternate, "vaultgemma": _alternate, "gpt_oss": _alternate,
    "gemma3n_text": lambda c: c.every(5),
    "gemma4_text": _gemma4, "gemma4_unified_text": _gemma4, "diffusion_gemma_text": _gemma4,
    "glm4_moe": lambda c: c.split(), "glm4v_moe_text": lambda c: c.split(),
    "hrm_text": lambda c: {} if c("num_layers_per_stack") is not None else {"num_layers_per_stack": c("num_hidden_layers")},
    "glm4_moe_lite": lambda c: c.first_dense(1),
    "glm4v": _either_tied, "glm4v_moe": _either_tied, "glm_ocr": _either_tied, "llava": _either_tied, "llava_next_video": _either_tied,
    "llava_onevision": _either_tied, "minimax_m3_vl": _either_tied, "paddleocr_vl": _either_tied, "qwen2_vl": _either_tied,
    "qwen2_5_vl": _either_tied,
    "granite_docling_vision": lambda c: {} if c("deepstack_visual_indexes") is not None else {"deepstack_visual_indexes": [3, 7, 10]},
    "granite4_vision": lambda c: {} if c("spatial_target_layers") is not None else {"spatial_target_layers": [12, 15, 18, 21]},
    "granite_swa": _granite_swa, "granitemoe_swa": _granite_swa,
    "hy_v3": lambda c: c.first_dense(1), "hy_v4": lambda c: c.first_dense(1),
    "hy_v4_vl_text": lambda c: c.first_dense(1),
    "kimi_linear": _kimi_linear,
    "t5gemma2_text": lambda c: c.every(c("sliding_window_pattern", 6)),
    "t5gemma2_decoder": lambda c: c.every(c("sliding_window_pattern", 6)),
    "kolibri1": lambda c: c.every(5),
    "laguna": lambda c: c.layers(lambda i, n: FULL) | c.first_dense(1),
    "lfm2": _lfm2,
    "llama4_text": _llama4,
    "marian": lambda c: {"decoder_vocab_size": c("decoder_vocab_size") or c("vocab_size")},
    "mimo_v2_flash": _mimo_v2,
    "minimax": lambda c: c.layers(lambda i, n: FULL if (i + 1) % 2 else LINEAR),
    "minimax_m3_vl_text": _minimax_m3,
    "ministral": lambda c: c.layers(lambda i, n: FULL if c("sliding_window") is None else SLIDING),
    "mllama": _untied, "mllama_text_model": _mllama, "mllama_vision_model": _mllama_vision,
    "nemotron_h": _untied,
    "muse_spark_text": lambda c: c.layers(lambda i, n: SLIDING if (n - 1 - i) % 4 else FULL),
    "vibevoice_asr": _untied, "cosmos3_edge": _untied, "muse_spark": _untied,
    "muse_glimmer_text": lambda c: c.layers(lambda i, n: SLIDING if (n - 1 - i) % 4 else FULL),
    "olmo3": lambda c: c.every(4),
    "olmo_hybrid": _olmo_hybrid,
    "qwen2": _qwen, "qwen2_5_omni_text": _qwen, "qwen2_5_vl_text": _qwen, "qwen2_vl_text": _qwen, "qwen3": _qwen,
    "qwen2_moe": _qwen2_moe,
    "qwen3_5_text": lambda c: c.every(c("full_attention_interval", 4), LINEAR),
    "qwen3_5_moe_text": lambda c: c.every(c("full_attention_interval", 4), LINEAR),
    "qwen3_next": lambda c: c.every(c("full_attention_interval", 4), LINEAR),
    "recurrent_gemma": lambda c: c.split(), "deepseek_ocr2_text": lambda c: c.split(),
    "smollm3": _smollm3,
    "step3p5": lambda c: c.layers(lambda i, n: FULL),
    "longcat_flash": _longcat,
    "blip-2": _tied_inside, "instructblip": _tied_inside, "instructblipvideo": _tied_inside,
    "mt5": _tied, "t5": _tied, "umt5": _tied,
    "glmasr": _over_default, "voxtral": lambda c: _over_default(c) | _untied(c), "voxtral_realtime": _over_default,
    "audioflamingo3": _untied, "musicflamingo": _untied, "qwen2_audio": _untied,
    "udop": _udop,
    "zamba2": _zamba2,
    "inkling2_text": _inkling2, "inkling2_loop_text": _inkling2,
    "gemma3_text": lambda c: _halved(c, bool(c("use_bidirectional_attention"))) | c.every(c("sliding_window_pattern", 6)),
    "glm5_next_text": lambda c: c.layers(lambda i, n: "indexed_attention" if i % 4 == 3 else LINEAR) | c.first_dense(3),
    "gpt_bigcode": lambda c: {"num_key_value_heads": 1 if c("multi_query") else c("n_head")},
    "mellum": lambda c: c.layers(lambda i, n: FULL) | c.layers(lambda i, n: "sparse", "mlp_layer_types"),
    "minicpm3": lambda c: {} if c("v_head_dim") is not None else c.split("v_head_dim"),
    "qwen3_moe": lambda c: {"sliding_window": c("sliding_window") if c("use_sliding_window") else None},
}  # fmt: skip


def as_read(data: Mapping[str, Any], model_type: str) -> tuple[dict[str, Any], dict[str, str]]:
    """`data` as the class of `model_type` has it once read, and the patterns of layers in it that the class chose, in words.

    A model type that transformers does not have is left as it is.
    """
    made, declared = dict(data), class_defaults().get(model_type, {})
    for other, own in table("class_names.json").get(model_type, {}).items():
        if other in declared and own not in declared:  # the map leads away from the declared field
            other, own = own, other
        if other in made:
            made[own] = made[other]
    if rule := RULES.get(model_type):
        read = Read(made, model_type)
        more = rule(read)
        return made | more, read.taken(more)
    return made, {}
