"""params.json, Mistral's own format -> the config.json that says the same.

Keys as vLLM 0.33 (transformers_utils/configs/mistral.py, adapt_config_dict) and transformers 5.23 (models/ministral3/
convert_ministral3_weights_to_hf.py) read them. Meta's params.json, which gives no `hidden_dim`, is another format.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kvplan.errors import SpecError, UnsupportedError
from kvplan.spec import MAX_LAYERS

#: Mistral's key -> that of a config.json.
_KEYS = {
    "dim": "hidden_size", "norm_eps": "rms_norm_eps", "n_kv_heads": "num_key_value_heads", "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads", "hidden_dim": "intermediate_size", "tied_embeddings": "tie_word_embeddings", "dtype": "torch_dtype",
}  # fmt: skip
_EXPERTS = {
    "route_every_n": "moe_layer_freq", "first_k_dense_replace": "first_k_dense_replace", "num_experts_per_tok": "num_experts_per_tok",
    "num_experts": "n_routed_experts", "expert_hidden_dim": "moe_intermediate_size", "routed_scale": "routed_scaling_factor",
    "num_shared_experts": "n_shared_experts", "num_expert_groups": "n_group", "num_expert_groups_per_tok": "topk_group",
}  # fmt: skip
_YARN = {"factor": "factor", "original_max_position_embeddings": "original_max_position_embeddings"}
#: What vLLM takes where the file says nothing.
DEFAULTS = {"tie_word_embeddings": False, "max_position_embeddings": 128_000, "sliding_window": None}


#: Keys that say nothing of a shape, or are shapes under the names of a config.json.
_MORE = frozenset({
    "head_dim", "vocab_size", "rope_theta", "max_position_embeddings", "max_seq_len", "model_max_length", "sliding_window", "moe",
    "multimodal", "vision_encoder", "yarn", "llama_4_scaling", "quantization", "q_lora_rank", "kv_lora_rank", "qk_rope_head_dim",
    "qk_nope_head_dim", "v_head_dim", "causal", "model_parallel", "activation", "model_type", "use_biases",
})  # fmt: skip
NAME = "params.json"  # the file that vLLM looks for (transformers_utils/config.py MISTRAL_CONFIG_NAME)


def is_mistral(path: str, config: Mapping[str, Any]) -> bool:
    """Whether a file is such: its name, and a model sized in Mistral's words. Others write the same words into files of other names."""
    return os.path.basename(path) == NAME and {"dim", "n_layers", "n_heads"} <= config.keys()


def as_config(params: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The config.json. Raises SpecError, UnsupportedError."""
    absent = [key for key in ("hidden_dim", "n_kv_heads", "vocab_size") if not isinstance(params.get(key), int)]
    if absent:
        why = "missing: this is not Mistral's params.json but another of that name (Meta's); name the folder of a converted checkpoint"
        raise SpecError(source, [(key, why) for key in absent[:1]])
    for key in ("dim", "n_layers", "n_heads"):
        if params.get(key) is None:
            raise SpecError(source, [(key, "missing")])
    foreign = sorted(key for key in params.keys() - _KEYS.keys() - _MORE if params[key] not in (None, False))
    if foreign or params.get("use_biases"):
        key = (foreign or ["use_biases"])[0]
        raise SpecError(source, [(key[:80], "is nothing that the models have which engines run by Mistral's params.json")])
    parts = {key: params[key] for key in ("moe", "multimodal", "quantization", "vision_encoder", "yarn") if params.get(key)}
    for key, part in parts.items():
        if not isinstance(part, dict):
            raise SpecError(source, [(key, "must be a mapping")])
    if "multimodal" in parts and not isinstance(params["multimodal"].get("vision_encoder_args"), dict):
        raise UnsupportedError(f"{source}: multimodal: Mistral's own format of models that hear is not read; name the config.json")
    text = {_KEYS.get(key, key): value for key, value in params.items() if value is not None}
    text = {**DEFAULTS, **text, "max_seq_len": text.get("max_seq_len", text.get("max_position_embeddings", 128_000))}
    text |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"]} | _window(text, source) | _experts(text, source)
    if yarn := text.pop("yarn", None):
        text["rope_scaling"] = {"rope_type": "yarn", **{new: yarn[old] for old, new in _YARN.items() if old in yarn}}
    quantization = _quantization(text.pop("quantization", None), source)
    tower = text.pop("vision_encoder", None) or (text.pop("multimodal", None) or {}).get("vision_encoder_args")
    return (_seeing(text, tower) if tower else text) | quantization


def said(params: Mapping[str, Any]) -> list[str]:
    """What is assumed of such a file."""
    if params.get("max_position_embeddings") is not None:
        return []
    return ["params.json says no max_position_embeddings: 128,000, as vLLM takes it where no config.json lies beside it"]


def _window(text: Mapping[str, Any], source: str) -> dict[str, Any]:
    """A window for all layers, or a pattern of windows and none that repeats."""
    window, n = text.get("sliding_window"), text.get("num_hidden_layers")
    if not isinstance(window, list):
        return {}
    if any(size is not None and not isinstance(size, int) for size in window):
        raise SpecError(source, [("sliding_window", "must be whole numbers and null")])
    if not window or not isinstance(n, int) or not 0 < n <= MAX_LAYERS or n % len(window) or len(set(window) - {None}) > 1:
        raise SpecError(source, [("sliding_window", "must be one window, or a pattern of it and null that divides the layers")])
    kinds = ["full_attention" if size is None else "sliding_attention" for size in window] * (n // len(window))
    own = {"model_type": "ministral", "architectures": ["MinistralForCausalLM"], "layer_types": kinds}  # Mistral's with layer types
    return {**own, "sliding_window": next((size for size in window if size), None)}


def _experts(text: dict[str, Any], source: str) -> dict[str, Any]:
    """Mixture of experts: Mixtral's where none is shared, else DeepSeek-V3's layers."""
    moe = text.pop("moe", None)
    latent = bool(text.get("qk_nope_head_dim"))
    if not moe and not latent:
        return {}
    if not moe:
        raise UnsupportedError(f"{source}: qk_nope_head_dim: latent attention without experts in Mistral's own format is not modelled")
    if not moe.get("num_shared_experts"):
        named = {"num_local_experts": moe.get("num_experts"), "num_experts_per_tok": moe.get("num_experts_per_tok")}
        return {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], **named}
    named = {new: moe[old] for old, new in _EXPERTS.items() if old in moe}
    return {"model_type": "deepseek_v3", "architectures": ["MistralLarge3ForCausalLM"], **named}


def _quantization(stated: dict[str, Any] | None, source: str) -> dict[str, Any]:
    if not stated:
        return {}
    method = str(stated.get("quant_method", "")).lower().replace("_", "-")
    if method == "compressed-tensors":
        return {"quantization_config": {**stated, "quant_method": method}}
    if stated.get("qformat_weight") == "fp8_e4m3":
        scheme = "dynamic" if stated.get("qscheme_act") == "NO_SCALES" else "static"
        return {"quantization_config": {"quant_method": "fp8", "activation_scheme": scheme}}
    raise SpecError(source, [("quantization", "must be fp8_e4m3 as qformat_weight, or of compressed-tensors: vLLM reads no other")])


def _seeing(text: dict[str, Any], tower: dict[str, Any]) -> dict[str, Any]:
    """Pixtral: its tower and projector are those of transformers' Llava, or of its Mistral3 where patches are merged."""
    merged = tower.get("mm_projector_id") == "patch_merge"
    whole = ("mistral3", "Mistral3ForConditionalGeneration") if merged else ("llava", "LlavaForConditionalGeneration")
    made: dict[str, Any] = {"model_type": whole[0], "architectures": [whole[1]], "text_config": text, "projector_hidden_act": "gelu"}
    made |= {"tie_word_embeddings": text["tie_word_embeddings"]}
    made |= {"multimodal_projector_bias": bool(tower.get("adapter_bias", True)), "vision_feature_layer": -1}
    made |= {"spatial_merge_size": tower.get("spatial_merge_size", 1)} if merged else {"vision_feature_select_strategy": "full"}
    return made | {"vision_config": {**tower, "model_type": "pixtral"}}
