"""--hf-overrides: the model with what of its config is replaced, and what is said of keys whose effect is not modelled.

config/model.py ModelConfig.__post_init__ and _get_and_verify_max_len, transformers_utils/config.py get_config; the lengths are those that
EngineArgs.create_engine_config of 17 releases, 0.10.2 to 0.33, makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical
from kvplan.engines.common import replaced
from kvplan.engines.common.options import Options
from kvplan.engines.common.passed import Passed
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import in_force
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.model import SLIDES_ALIKE
from kvplan.engines.vllm.registered import REGISTRY
from kvplan.engines.vllm.rules import VllmRules
from kvplan.spec import ModelSpec

OPTION = "hf_overrides"
#: Keys without memory in them.
HARMLESS = frozenset({
    "rope_theta", "id2label", "label2id", "num_labels", "classifier_from_token", "is_original_qwen3_reranker", "method", "is_matryoshka",
    "matryoshka_dimensions", "problem_type", "use_cache", "attention_dropout", "hidden_dropout", "initializer_range", "max_model_len",
    "transformers_version", "bos_token_id", "eos_token_id", "pad_token_id", "image_token_index", "rms_norm_eps", "layer_norm_eps",
    "hidden_act", "router_aux_loss_coef", "auto_map", "_name_or_path", "sep_token_id", "attention_bias_scale", "logits_scaling",
    "norm_topk_prob", "num_nextn_predict_layers", "n_predict", "final_logit_softcapping", "attn_logit_softcapping",
})  # fmt: skip
#: Other names of the maximum length, beside max_position_embeddings (model_arch_config_convertor.py derive_max_model_len_and_key).
LENGTHS = frozenset(
    {"n_positions", "max_seq_len", "seq_length", "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"}
)
#: Classes with towers whose published configs have the text model's keys beside the towers' (transformers' Qwen2VLConfig).
FLAT = ("Qwen2VL", "Qwen2_5_VL")
#: Classes whose published lengths are what YaRN makes of a shorter one.
YARN = ("DeepseekV2", "DeepseekV3", "KimiK25", "GptOss")
#: Kinds of RoPE that leave the length as it is; others multiply it by their factor.
UNSCALED = frozenset({"default", "llama3", "su", "longrope", "mrope", "deepseek_yarn", "deepseek_llama_scaling", "proportional"})
#: `rope_scaling` is not read with transformers 4 once the release reads rope_parameters; from 0.19.1 on there is transformers 5.
UNREAD_SCALING, PARAMETERS_SINCE, TYPED_SINCE = ("0.12", "0.19.1"), "0.12", "0.11.1"
#: How the names of classes end that the pooling runner serves unless another is asked for (config/model.py _SUFFIX_TO_DEFAULTS).
POOLED = (
    "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification", "ForTextEncoding", "ForRewardModel", "RewardModel", "Model",
)  # fmt: skip
_PLAIN_MASK = {False: "all", True: "none"}
#: `sliding_window` replaces the window of layers that slide, but in classes that take theirs from another key. Else it is CacheConfig's,
#: which the attention of every layer takes that is given none of its own (layers/attention/attention.py): not where `layer_types` differ,
#: from 0.27 on not where there are any (engine/arg_utils.py create_engine_config).
OTHER_WINDOWS = ("MiMoV2", "Step3p", "Plamo3", "Pangu", "OpenPangu", "Laguna", "Inkling", "ModernBert", "IQuestLoop", "GritLM")
#: Classes whose attention is given no CacheConfig (models/falcon.py, baichuan.py), and whose configs have no layer_types but full ones.
UNCACHED = ("FalconForCausalLM", "RWForCausalLM", "BaichuanForCausalLM", "BaiChuanForCausalLM")
ALIKE = (
    "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen2MoeForCausalLM", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration",
    "SmolLM3ForCausalLM", "Dots1ForCausalLM",
)  # fmt: skip
#: Classes with recurrent or chunked layers among their layer_types, and the first release that knows those.
MIXED, MIXED_SINCE = ("Qwen3Next", "Qwen3_5", "Lfm2", "GraniteMoeHybrid", "Llama4"), "0.11.1"
_WHOLE, _STATES = frozenset({"mha", "gqa", "mqa"}), frozenset({"mamba2"})


class Overridden(NamedTuple):
    """The model as served; keys that were read and moved something; keys whose effect is not modelled."""

    model: ModelSpec
    read: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def given(options: Options) -> dict[str, Any]:
    """The keys and values. Raises SpecError for what is no object."""
    return replaced.given(options, OPTION)


def overridden(d: Deployment, options: Options, rules: VllmRules) -> tuple[Deployment, tuple[str, ...]]:
    """The question with the model that is served, and notes."""
    keys = given(options)
    if not keys:
        return d, ()
    found = apply(d.model, keys, rules, d.engine_version)
    notes = (f"hf_overrides: {', '.join(found.read)} of the model's config replaced",) if found.read else ()
    return replace(d, model=found.model), notes


def unmodelled(d: Deployment, rules: VllmRules, own: ModelSpec) -> tuple[Passed, ...]:
    """What is said of keys that no line follows. `own`: the model before."""
    options = Options(d)
    unread = apply(own, given(options), rules, d.engine_version).unread
    return (Passed(OPTION, options.text(OPTION) or "", f"{OPTION}: {', '.join(unread)}", "either"),) if unread else ()


def apply(model: ModelSpec, keys: Mapping[str, Any], rules: VllmRules, version: str | None) -> Overridden:
    """What a release makes of the keys."""
    read, unread = list[str](), list[str]()
    inner = keys.get("text_config")
    for key, value in keys.items():
        if key == "text_config" and isinstance(value, dict):
            continue
        whole = not model.towers or key == "architectures" or (model.architecture or "").startswith(FLAT)
        changed = _one(model, key, value, rules, version) if whole else None
        if changed is None and key not in HARMLESS:
            unread.append(key)
        model, read = (changed, [*read, key]) if changed is not None and changed is not model else (model, read)
    if isinstance(inner, dict) and model.towers:
        for key, value in inner.items():
            changed = _one(model, key, value, rules, version)
            if changed is None and key not in HARMLESS:
                unread.append(f"text_config.{key}")
            model, read = (changed, [*read, f"text_config.{key}"]) if changed is not None and changed is not model else (model, read)
    return Overridden(model, tuple(read), tuple(unread))


def _one(model: ModelSpec, key: str, value: Any, rules: VllmRules, version: str | None) -> ModelSpec | None:
    """The model with one key replaced: itself where that changes nothing; None where that is not modelled."""
    whole = value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
    # what YaRN counts from its own length is the factor's, whatever the config counts
    yarn = rules.stretches_yarn and bool(model.stated_context or (model.architecture or "").startswith(YARN))
    if key == "max_position_embeddings" and whole:
        return model if yarn else model.changed(max_context=whole, stated_context=None)
    if key in LENGTHS and whole:  # the least of all that are there
        own = model.stated_context or model.max_context
        return model if yarn or (own and own <= whole) else model.changed(max_context=whole, stated_context=None)
    if key == "model_max_length" and whole:
        return model if yarn else model.changed(max_context=whole, stated_context=None, original_context=None)
    if key in ("rope_scaling", "rope_parameters") and isinstance(value, dict):
        return _rope(model, key, value, rules, version)
    if key == "num_hidden_layers" and whole:
        return replaced.of_layers(model, whole)
    if key == "sliding_window" and whole:
        return _slid(model, whole, version)
    if key == "architectures" and isinstance(value, list) and value and isinstance(value[0], str):
        named = value[0][:100]
        pooled = named.endswith(POOLED)
        return model.changed(architecture=named, lm_head=model.lm_head and not pooled) if named in REGISTRY.first else None
    if key in ("dtype", "torch_dtype") and isinstance(value, str):
        return _typed(model, value)
    if key == "is_causal" and isinstance(value, bool) and model.bidirectional in ("none", "all"):
        return model.changed(bidirectional=_PLAIN_MASK[value])
    if key == "tie_word_embeddings" and isinstance(value, bool):
        return model if value is model.tied_embeddings else model.changed(tied_embeddings=value)
    return None


def _slid(model: ModelSpec, window: int, version: str | None) -> ModelSpec | None:
    """The model with layers of that window: those that slide, or all where none has a type of its own."""
    named = model.architecture or ""
    kinds = {mixer.kind for block in model.blocks.values() for mixer in block.mixers}
    if model.encoder or not named or named.startswith(OTHER_WINDOWS):
        return None
    if "sliding" in kinds:
        return replaced.slid(model, window)
    if kinds <= {"mla", "mla_sparse"} or named in UNCACHED or (named in ALIKE and in_force(SLIDES_ALIKE[1], "", version)):
        return model
    if named.startswith(MIXED):
        return model if in_force(MIXED_SINCE, "", version) else None
    alike = kinds <= _WHOLE or (named.startswith("NemotronH") and kinds <= _WHOLE | _STATES)
    return model.changed(cache_window=window) if alike else None


def _typed(model: ModelSpec, value: str) -> ModelSpec | None:
    name = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}.get(value)
    return None if name is None else model if canonical(model.dtype, "dtype") == name else model.changed(dtype=name)


def _rope(model: ModelSpec, key: str, value: Mapping[str, Any], rules: VllmRules, version: str | None) -> ModelSpec | None:
    if in_force(*UNREAD_SCALING, version) if key == "rope_scaling" else not in_force(PARAMETERS_SINCE, "", version):
        return model
    kind, factor = value.get("rope_type") or value.get("type") or "", value.get("factor", 1)
    base = model.stated_context or model.max_context
    if not isinstance(kind, str) or not isinstance(factor, int | float) or not base or model.original_context or kind == "longrope":
        return None
    if any(isinstance(one, dict) for one in value.values()):  # by the type of a layer
        return None
    length = base
    if kind == "yarn":
        original = value.get("original_max_position_embeddings")
        length = int(original * factor) if rules.stretches_yarn and isinstance(original, int) else base
    elif kind not in UNSCALED and not (model.architecture or "").startswith("Gemma3"):
        length = int(base * factor)
    return model if length == model.max_context else model.changed(max_context=length, stated_context=None)


def not_a_part(settled: Settled) -> Values:
    """`text_config` of a model whose config is all text."""
    model, keys = settled.question.model, given(Options(settled.question))
    return {} if not model.towers and model.encoder is None and isinstance(keys.get("text_config"), dict) and keys["text_config"] else None


def scaling(settled: Settled) -> Mapping[str, Any]:
    """The RoPE that is asked for and read."""
    version, keys = settled.question.engine_version, given(Options(settled.question))
    inner = keys.get("text_config")
    keys = {**keys, **(inner if isinstance(inner, dict) and settled.question.model.towers else {})}
    names = [] if in_force(*UNREAD_SCALING, version) else ["rope_scaling"]
    names += ["rope_parameters"] if in_force(PARAMETERS_SINCE, "", version) else []
    return next((keys[name] for name in names if isinstance(keys.get(name), dict) and keys[name]), {})


def untyped(settled: Settled) -> Values:
    found = scaling(settled)
    nested = any(isinstance(one, dict) for one in found.values())
    return {} if found and "rope_type" not in found and not nested else None


def unsized(settled: Settled) -> Values:
    found = scaling(settled)
    return {} if found.get("rope_type") == "yarn" and "original_max_position_embeddings" not in found else None


_WRITE = (Move(f"option:{OPTION}", "written as the release reads it"),)
CHECKS = (
    Stop(
        "overrides of a part that is not there", "AssertionError", "the config has no text_config, and one with nothing else in it is made",
        _WRITE, "transformers_utils/config.py get_hf_text_config", before="0.13", when=not_a_part, numbers="text_config",
        near=("get_hf_text_config",),
    ),
    Stop(
        "overrides of a part that is not there",
        "The text_config extracted from the model config does not have `num_attention_heads` attribute.",
        "the config has no text_config, and one with nothing else in it is made", _WRITE,
        "transformers_utils/config.py get_hf_text_config", since="0.13", when=not_a_part,
    ),
    Stop(
        "overrides of RoPE without a type", "KeyError: 'rope_type'", "the release looks for rope_type, and not for type",
        _WRITE, "config/model.py _get_and_verify_max_len", since=TYPED_SINCE, when=untyped,
    ),
    Stop(
        "overrides of RoPE without a length", "KeyError: 'original_max_position_embeddings'", "YaRN multiplies the length before it",
        _WRITE, "config/model.py _get_and_verify_max_len", before="0.30", when=unsized,
    ),
)  # fmt: skip
