"""Where mutants start: the class defaults of transformers' generative classes with few layers, and real files where they lie beside us."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parents[3].parent / "shared" / "data"
LAYERS = re.compile(r"^(num_hidden_layers|n_layers?|num_layers|(en|de)coder_layers|num_(en|de)coder_layers|depth|num_blocks)$")
TOWER = re.compile(
    r"vision|visual|audio|speech|image|vq|vit|perceiver|qformer|encoder_config|projector|resampler|sam|aligner|talker|token2wav"
)
_MROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [8, 12, 12], "partial_rotary_factor": 0.5}
_T5GEMMA = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
            "query_pre_attn_scalar": 16, "sliding_window": 24, "vocab_size": 512}  # fmt: skip
_GLM5 = {"hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4,
         "n_routed_experts": 8, "kv_lora_rank": 16, "q_lora_rank": 32, "v_head_dim": 16, "qk_nope_head_dim": 16, "index_head_dim": 128,
         "index_n_heads": 4, "linear_head_dim": 16, "linear_num_heads": 4, "vocab_size": 512, "pad_token_id": 0,
         "index_topk": 32}  # fmt: skip
_QWEN4 = {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048, "indexer_compress_ratio": 4,
          "ple_layer_ids": [2], "eos_token_id": 1, "number_of_conv_states": 3, "rope_parameters": {
              "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]}}  # fmt: skip
_COMPASS = {"tie_word_embeddings": True, "rope_parameters": {
    "full_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [24, 20, 20]}}}  # fmt: skip
#: What a class default lacks to be a model at all, by model type: dotted key -> value.
LACKS: dict[str, dict[str, Any]] = {
    "blenderbot": {"encoder_layers": 4, "decoder_layers": 4},
    "chameleon": {"vocabulary_map": {"<image>": 8711}}, "emu3": {"vocabulary_map": {"<image>": 151851}}, "fnet": {"dtype": "float32"},
    "deepseek_ocr2": {"text_config.mlp_layer_types": ["dense", *["sparse"] * 31], "text_config.num_experts_per_tok": 6},
    "dots1": {"n_routed_experts": 16, "n_shared_experts": 2, "num_experts_per_tok": 4, "first_k_dense_replace": 1},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128}, "ministral": {"head_dim": 128},
    "glm4_moe": {"head_dim": 128}, "hunyuan_vl": {"text_config.head_dim": 128, "text_config.rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "mrope_section": [16, 16, 16, 16]}},
    "granite4_vision": {"downsample_rate": "4/8", "deepstack_layer_map": [[-1, 0]]},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "granitemoehybrid": {"layer_types": ["mamba", "mamba", "mamba", "attention"] * 8},
    "bamba": {"attn_layer_indices": [2, 5]},
    "glm4v": {"text_config.rope_parameters": _MROPE}, "glm46v": {"text_config.rope_parameters": _MROPE},
    "glmga": {"text_config.rope_parameters": _MROPE}, "glm4v_moe": {"text_config.head_dim": 128, "text_config.rope_parameters": _MROPE},
    "qwen3_omni_moe_thinker": {"text_config.head_dim": 128, "text_config.num_attention_heads": 32,
                               "text_config.rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [24, 20, 20]}},
    "ovis2": {"text_config.hidden_size": 1536, "text_config.num_attention_heads": 12, "text_config.num_key_value_heads": 2,
              "vocab_size": 151936},
    "step3p7": {"text_config.sliding_window": 512}, "deepseek_v2": {"num_experts_per_tok": 6},
    "vipllava": {"vision_feature_layers": [-2, -5, -8, -11, 6]}, "aya_vision": {"vision_config.num_attention_heads": 16},
    "dbrx": {"attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000.0}, "n_heads": 32, "d_model": 2048,
             "ffn_config": {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1}},
    "t5gemma": {f"{side}.{key}": v for side in ("encoder", "decoder") for key, v in _T5GEMMA.items()} | {"vocab_size": 512},
    "jamba": {"attn_layer_period": 4, "attn_layer_offset": 2}, "molmo2": {"adapter_config.vision_feature_layer": [-1, -2]},
    "mistral_large4": {"text_config.kv_source_layers": None},
    "cohere_compass_text": _COMPASS, "cohere_compass": {f"text_config.{k}": v for k, v in _COMPASS.items()},
    "qwen4_exp_text": _QWEN4, "qwen4_exp": {f"text_config.{k}": v for k, v in _QWEN4.items()},
    "glm5_next": {f"text_config.{k}": v for k, v in _GLM5.items()} | {"vision_config.out_hidden_size": 64},
}  # fmt: skip
#: Encoder classes that are causal only where the file says so; nobody serves them as decoders.
ENCODERS = frozenset({
    "bert", "bert-generation", "camembert", "data2vec-text", "electra", "ernie", "roberta", "roberta-prelayernorm", "roc_bert",
    "xlm-roberta", "xlm-roberta-xl", "megatron-bert", "rembert", "roformer", "reformer", "xmod", "big_bird",
})  # fmt: skip
_WRITTEN = ("_name_or_path", "id2label", "label2id", "problem_type", "chunk_size_feed_forward", "output_attentions", "output_hidden_states",
            "return_dict", "per_layer_config", "transformers_version")  # fmt: skip


class Base(NamedTuple):
    """One config to mutate. name: `model type/class`, or a real file's stem."""

    name: str
    config: dict[str, Any]


def classes() -> dict[tuple[str, str], str]:
    """(model type, class) -> causal, image-text, seq2seq or masked-LM: the first of these mappings that has it."""
    from transformers.models.auto import modeling_auto as auto

    found: dict[tuple[str, str], str] = {}
    for kind, names in (
        ("causal", auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
        ("image-text", auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES),
        ("seq2seq", auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
        ("masked-LM", auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    ):
        for model_type, made in names.items():
            for name in made if isinstance(made, (tuple, list)) else (made,):
                if kind != "causal" or model_type not in ENCODERS:
                    found.setdefault((model_type, name), kind)
    return found


def default(model_type: str, name: str, *, saved: bool) -> dict[str, Any]:
    """A copy of a class's default config."""
    return copy.deepcopy(_default(model_type, name, saved))


@cache
def _default(model_type: str, name: str, saved: bool) -> dict[str, Any]:
    """A class default as `to_dict` writes it, or as `save_pretrained` does (nested parts without their own defaults)."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    made = CONFIG_MAPPING[model_type]()
    config = json.loads(json.dumps(made.to_diff_dict() if saved else made.to_dict(), default=str))
    _bare(config)
    for dotted, value in LACKS.get(model_type, {}).items():
        *path, last = dotted.split(".")
        part = config
        for key in path:
            part = part.setdefault(key, {})
        part[last] = copy.deepcopy(value)
    return {**config, "dtype": config.get("dtype") or "bfloat16", "architectures": [name]}


def _bare(config: dict[str, Any]) -> None:
    for key in _WRITTEN:
        config.pop(key, None)
    for part in config.values():
        if isinstance(part, dict) and "model_type" in part:
            if part.get("architectures", 0) is None:
                del part["architectures"]
            _bare(part)


def real() -> Iterator[Base]:
    """Every real config beside the checkout whose model type transformers has."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    for folder in ("hf_configs", "hf_configs_more"):
        for path in sorted((DATA / folder).glob("*.json")):
            config = json.loads(path.read_text(encoding="utf-8"))
            if config.get("model_type") in CONFIG_MAPPING_NAMES and config["model_type"] not in ENCODERS:
                for key in ("quantization_config", "compression_config", "auto_map"):
                    config.pop(key, None)
                    for part in config.values():
                        if isinstance(part, dict):
                            part.pop(key, None)
                yield Base(path.stem, config)


def shrunk(config: dict[str, Any], layers: int) -> dict[str, Any]:
    """The same config with few layers: lists of one entry per layer and layer numbers follow."""
    made: dict[str, Any] = {k: shrunk(v, 2 if TOWER.search(k) else layers) if isinstance(v, dict) else v for k, v in config.items()}
    for key in [k for k in made if LAYERS.match(k) and _whole(made[k]) and made[k] > layers]:
        old, new = made[key], layers
        made[key] = new
        for name, value in list(made.items()):
            if isinstance(value, list) and old <= len(value) <= old + 4 and len(value) != 3:
                made[name] = _every_kind(value, new) + value[old:]
            elif isinstance(value, str) and len(value) == old and name.endswith("pattern"):
                made[name] = "".join(_every_kind(list(value), new))
            elif (
                isinstance(value, list) and re.search(r"layer|indices|idxs", name) and value and all(map(_whole, value)) and max(value) > 1
            ):
                made[name] = [i for i in value if i < new] or [0]
            elif _whole(value) and re.search(r"dense_replace|dense_layers|_end_index|kv_shared", name) and value >= new:
                made[name] = new - 1 if "end" in name else max(new - 5, 0) if "shared" in name else max(new // 2, 1)
            elif _whole(value) and name in ("layer_group_size", "full_attention_interval", "attn_layer_period") and value > new:
                made[name] = 4
    inner = made.get("linear_attn_config")
    if isinstance(inner, dict):
        for name, value in inner.items():
            if isinstance(value, list):
                inner[name] = [i for i in value if i <= layers]
    return made


def _every_kind(value: list[Any], new: int) -> list[Any]:
    """The first entries; where a kind comes later only, it takes the last places."""
    kept = value[:new]
    later = [kind for kind in dict.fromkeys(map(str, value)) if kind not in map(str, kept)][: new - 1]
    return kept[: new - len(later)] + [next(v for v in value if str(v) == kind) for kind in later]


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
