"""What the config importer refuses: files that can not be read, and configs that lack, contradict or do not say something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError, SpecError, UnsupportedError
from kvplan.importers.hf_config import MAX_CONFIG_BYTES, import_config, parse_json, read_config
from kvplan.spec import parse_spec

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTRAL = {**LLAMA, "architectures": ["MixtralForCausalLM"], "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None}
GEMMA3: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "dtype": "bfloat16",
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 12, "sliding_window": 1024,
                    "vocab_size": 262208},
    "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
                      "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False},
}  # fmt: skip
DEEPSEEK = {
    **LLAMA, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 16, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1,
}  # fmt: skip


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k != key}


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(KvplanError) as caught:
        parse_spec(import_config(config, "c.json"), "c.json")
    return str(caught.value)


SHAPE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size")


def test_a_file_that_says_nothing_of_its_size_is_refused() -> None:
    bare = {key: value for key, value in LLAMA.items() if key not in SHAPE}
    assert "missing; a llama states" in refusal(bare)


@pytest.mark.parametrize(("key", "default"), [("hidden_size", 4096), ("num_hidden_layers", 32), ("vocab_size", 32000)])
def test_one_missing_shape_is_the_default_of_the_class_and_said(key: str, default: int) -> None:
    """LlamaConfig of transformers 5.23: hidden_size 4096, num_hidden_layers 32, vocab_size 32000."""
    made = import_config(without(LLAMA, key), "c.json")
    assert f"{key} = {default}" in made["notes"][0]


@pytest.mark.parametrize(("config", "key"), [(DEEPSEEK, "num_experts_per_tok"), (MIXTRAL, "intermediate_size")])
def test_missing_keys_of_other_families(config: dict[str, Any], key: str) -> None:
    broken = {**config, key: None}
    assert key in refusal(broken)


@pytest.mark.parametrize("value", ["4096", 4096.5, True, 0, -1, [4096], 1 << 40])
def test_a_shape_is_a_positive_whole_number(value: Any) -> None:
    assert "c.json: hidden_size: must be a positive whole number" in refusal({**LLAMA, "hidden_size": value})


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**LLAMA, "num_attention_heads": 30}, "num_attention_heads"),
        ({**LLAMA, "num_key_value_heads": 5}, "5 does not divide num_attention_heads (32)"),
        ({**MIXTRAL, "num_experts_per_tok": 9}, "9 of 8 experts"),
        ({**LLAMA, "architectures": ["Qwen3ForCausalLM"], "layer_types": ["full_attention"] * 31}, "31 entries for 32 layers"),
        ({**LLAMA, "architectures": ["Qwen3ForCausalLM"], "head_dim": 128, "layer_types": ["linear"] * 32}, "'linear'"),
        ({**LLAMA, "architectures": ["Qwen3ForCausalLM"], "head_dim": 128, "layer_types": [["full_attention"]] * 32}, "layer_types"),
        ({**LLAMA, "torch_dtype": "int4"}, "torch_dtype"),
        ({**LLAMA, "tie_word_embeddings": "no"}, "tie_word_embeddings: must be true or false"),
        ({**LLAMA, "quantization_config": []}, "quantization_config: must be a mapping"),
        ({**LLAMA, "quantization_config": "fp8"}, "quantization_config: must be a mapping"),
    ],
)
def test_contradictions_and_wrong_types(config: dict[str, Any], words: str) -> None:
    assert words in refusal(config)


def test_layer_types_and_a_pattern_that_disagree() -> None:
    text = {**GEMMA3["text_config"], "layer_types": ["sliding_attention"] * 12, "sliding_window_pattern": 6}
    assert "sliding_window_pattern: 6 contradicts layer_types" in refusal({**GEMMA3, "text_config": text})


def test_an_unknown_architecture_names_its_neighbours_and_what_to_declare() -> None:
    with pytest.raises(UnsupportedError, match=r"'LlamaForCausaLM'.*Nearest known: LlamaForCausalLM.*Declare the model") as caught:
        import_config({**LLAMA, "architectures": ["LlamaForCausaLM"]}, "c.json")
    assert str(caught.value).startswith("c.json: architectures.0")


def test_an_unknown_model_type_is_refused_where_no_architecture_is_named() -> None:
    assert "model_type: 'lama'" in refusal({**without(LLAMA, "architectures"), "model_type": "lama"})
    assert "architectures: missing, and so is model_type" in refusal({"hidden_size": 8})
    assert import_config(without(LLAMA, "architectures"), "c.json")["hidden_size"] == 4096


def test_a_wrapper_without_its_text_model_and_one_nested_twice() -> None:
    assert "text_config: missing" in refusal(without(GEMMA3, "text_config"))
    assert "text_config: must be a mapping" in refusal({**GEMMA3, "text_config": 3})
    twice = {**GEMMA3, "text_config": {"text_config": GEMMA3["text_config"]}}
    assert "text_config.text_config: a text model nested twice" in refusal(twice)


def test_an_unknown_text_model_inside_a_wrapper() -> None:
    text = {**GEMMA3["text_config"], "model_type": "gemma9_text"}
    assert "text_config.model_type: 'gemma9_text'" in refusal({**GEMMA3, "text_config": text})


def test_nemotron_patterns() -> None:
    config = {
        **LLAMA, "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "num_hidden_layers": 4, "mamba_num_heads": 128,
        "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "use_conv_bias": True, "head_dim": 128,
        "hybrid_override_pattern": "M-M*",
    }  # fmt: skip
    assert import_config(config, "c.json")["n_layers"] == 4
    assert "has 5 layers and num_hidden_layers is 4" in refusal({**config, "hybrid_override_pattern": "M-M*-"})
    assert "'X' is none of" in refusal({**config, "hybrid_override_pattern": "MXM*"})
    assert "contradicts hybrid_override_pattern" in refusal({**config, "layers_block_type": ["mamba"] * 4})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "a config is a JSON object"),
        ("{", "not JSON"),
        ('{"a": 1, "a": 2}', "a: is there twice"),
        ('{"a": {"b": 1, "b": 2}}', "b: is there twice"),
        ('{"a": NaN}', "NaN is no number"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested deeper"),
    ],
)
def test_strict_json(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_json(text.encode(), "c.json")


def test_infinity_is_read_because_released_mamba_configs_have_it() -> None:
    assert parse_json(b'{"time_step_limit": [0.0, Infinity]}', "c.json")["time_step_limit"][1] == float("inf")


def test_files_that_are_no_config(tmp_path: Path) -> None:
    for content in (b"\xff\xfe", b"x" * (MAX_CONFIG_BYTES + 1)):
        path = tmp_path / "config.json"
        path.write_bytes(content)
        with pytest.raises(SpecError):
            read_config(path)
    with pytest.raises(SpecError, match="no such file"):
        read_config(tmp_path / "absent.json")
    with pytest.raises(SpecError, match="a directory"):
        read_config(tmp_path)


def test_every_removed_key_is_noted_or_refused() -> None:
    """No key of a config changes the result in silence: taking it out is refused, noted, or changes nothing."""
    whole = parse_spec(import_config(DEEPSEEK, "c.json"), "c.json")
    for key in DEEPSEEK:
        try:
            spec = parse_spec(import_config(without(DEEPSEEK, key), "c.json"), "c.json")
        except KvplanError:
            continue
        same = (spec.blocks, spec.layers, spec.vocab_size, spec.tied_embeddings) == (
            whole.blocks, whole.layers, whole.vocab_size, whole.tied_embeddings)  # fmt: skip
        assert same or any(key in note for note in spec.notes), key


def test_a_spec_from_a_file_keeps_its_path_as_source(tmp_path: Path) -> None:
    path = tmp_path / "Some Model" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA))
    spec = read_config(path)
    assert spec.source == str(path)
    assert spec.id == "local/some-model"


ODD = ([["a"], {}], {}, [], "x", 5, None, True, [None], [[[]]], -1, 1.5, 10**400)


@pytest.mark.parametrize("config", [LLAMA, MIXTRAL, GEMMA3, DEEPSEEK], ids=["llama", "mixtral", "gemma3", "deepseek"])
def test_any_value_of_another_type_is_read_or_refused(config: dict[str, Any]) -> None:
    """Whatever a stranger's file holds under a known key: an answer or a KvplanError, never another exception."""
    more = (
        "layer_types",
        "sliding_window",
        "rope_scaling",
        "quantization_config",
        "torch_dtype",
        "vision_config",
        "head_dim",
        "architectures",
    )
    for key in (*config, *more):
        for value in ODD:
            for made in (value, [value] * config.get("num_hidden_layers", 12)):
                read_or_refused({**config, key: made}, f"{key}: {made!r:.80}")


@pytest.mark.parametrize("model_type", ["gemma3_text", "qwen3_next", "gpt_oss", "cohere2", "falcon_h1", "jamba", "olmo3", "lfm2"])
def test_layer_types_that_are_no_words(model_type: str) -> None:
    for value in ODD:
        for made in (value, [value] * 32):
            read_or_refused({**without(LLAMA, "architectures"), "model_type": model_type, "layer_types": made}, f"{made!r:.80}")


def read_or_refused(config: dict[str, Any], what: str) -> None:
    try:
        parse_spec(import_config(config, "x"), "x")
    except KvplanError:
        return
    except Exception as error:
        pytest.fail(f"{what}: {type(error).__name__}: {error}")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model_type": ["llama"]}, "model_type: must be the name of a model type"),
        ({"quantization": {"bits": "4", "group_size": 64}}, "quantization.bits: must be a whole number"),
    ],
)
def test_words_of_another_type_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        import_config({**LLAMA, **more}, "x")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"architectures": ["HrmTextForCausalLM"], "model_type": "hrm_text", "hidden_size": 64, "H_cycles": 40}, "H_cycles: 40 x (3 + 1)"),
        ({"architectures": ["IdeficsForVisionText2Text"], "model_type": "idefics", "hidden_size": 64, "num_hidden_layers": 10,
          "cross_layer_interval": 4}, "cross_layer_interval: 4 does not divide num_hidden_layers (10)"),
        ({"architectures": ["XLNetLMHeadModel"], "model_type": "xlnet"}, "XLNetLMHeadModel is not modelled: it keeps the hidden states"),
    ],
)  # fmt: skip
def test_decoders_that_loop_or_read_images(config: dict[str, Any], words: str) -> None:
    assert words in refusal(config)
