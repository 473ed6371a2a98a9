"""Drafters read from their own config.json: counts are those of SpecForge's classes (a6b6b023), built of these files on the meta device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import import_config
from kvplan.spec import lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count
from tests.conftest import planned

#: SpecForge configs/, their shapes alone.
QWEN3_8B = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
            "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16"}  # fmt: skip
QWEN3_27B = {**QWEN3_8B, "hidden_size": 5120, "intermediate_size": 17408, "vocab_size": 248320, "max_position_embeddings": 262144}
FIVE = {"target_layer_ids": [1, 9, 17, 25, 33], "mask_token_id": 151669}
SELECTED = {**FIVE, "selector_rank": 256, "selector_top_k": 16, "conv_kernel_size": 2, "conv_group_size": 16}
CORRECTED = {**FIVE, "projector_type": "domino", "emb_dim": 256, "gru_hidden_dim": 1024}
MARKOV = {**FIVE, "markov_rank": 256, "markov_head_type": "vanilla", "enable_confidence_head": True, "confidence_head_with_markov": True}

CASES: dict[str, tuple[dict[str, Any], int]] = {
    "qwen3-8b-eagle3": (
        {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", **QWEN3_8B, "num_hidden_layers": 1, "draft_vocab_size": 32000},
        1_021_853_696,
    ),
    "qwen3-8b-peagle": (
        {"architectures": ["PEagleDraftModel"], "model_type": "llama", **QWEN3_8B, "num_hidden_layers": 4, "draft_vocab_size": 32000},
        1_600_704_512,
    ),
    "qwen3-30B-A3B-eagle3.1": (
        {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": 2048,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "intermediate_size": 12288,
            "vocab_size": 151936,
            "draft_vocab_size": 32000,
            "num_hidden_layers": 1,
            "max_position_embeddings": 2048,
            "fc_norm": True,
            "norm_output": True,
            "torch_dtype": "bfloat16",
        },
        494_155_776,
    ),
    "qwen3-8b-dflash": (
        {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", **QWEN3_8B, "num_hidden_layers": 5, "dflash_config": FIVE},
        1_048_626_432,
    ),
    "qwen3-8b-dspark": (
        {"architectures": ["DSparkDraftModel"], "model_type": "qwen3", **QWEN3_8B, "num_hidden_layers": 5, "dflash_config": MARKOV},
        1_126_422_017,
    ),
    # 3.849 GB in 16 bits: malaiwah/qwen38-27b-exl3 docs/56-speculative-decoding-research.md; the last digits from the shapes of SGLang's
    # DFlashGroupedConv and CandidateSelector: DFlash's own, 10 convolutions, two tables of rank 256 and a projection to it
    "qwen3.8-27b-dflash2": (
        {"architectures": ["DFlash2DraftModel"], "model_type": "qwen3", **QWEN3_27B, "num_hidden_layers": 5, "dflash_config": SELECTED},
        1_730_213_120 + 10 * (4 * 5120 + 1280 * 5120) + 2 * 248_320 * 256 + 256 * 5120,
    ),
    # by hand: DFlash's own; a GRU of 1,024 over the width, what joins both to 256, and that to every word
    "qwen3-8b-domino": (
        {"architectures": ["DominoDraftModel"], "model_type": "qwen3", **QWEN3_8B, "num_hidden_layers": 5, "dflash_config": CORRECTED},
        1_048_626_432 + 3 * 1024 * (4096 + 1024) + 256 * (4096 + 1024) + 151_936 * 256,
    ),
    "qwen3.6-27b-dspark": (
        {"architectures": ["DSparkDraftModel"], "model_type": "qwen3", **QWEN3_27B, "num_hidden_layers": 5, "dflash_config": MARKOV},
        1_857_358_337,
    ),
}


def parameters(config: dict[str, Any]) -> int:
    return count(lower(parse_spec(import_config(config, "a/config.json"), "a"), CacheFormats("bf16", "bf16", "bf16", "bf16"))).total


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_those_of_the_class_that_trains_it(name: str) -> None:
    config, built = CASES[name]
    assert parameters(config) == built


def test_the_format_of_speculators_says_the_same_of_one_layer() -> None:
    """transformer_layer_config holds what a flat file holds (vLLM transformers_utils/configs/speculators/algos.py update_eagle3)."""
    flat, built = CASES["qwen3-8b-eagle3"]
    inner = {key: value for key, value in flat.items() if key not in ("architectures", "draft_vocab_size")}
    nested = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 32000}
    assert parameters({**nested, "transformer_layer_config": inner}) == built


def test_a_drafter_that_reads_wider_states_has_a_wider_projection() -> None:
    """vLLM llama_eagle3.py: fc is [hidden, 3 x target_hidden_size], or as many as its file lists layers."""
    config, built = CASES["qwen3-8b-eagle3"]
    assert parameters({**config, "target_hidden_size": 5120}) == built + 4096 * 3 * 1024
    listed = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 5, 9, 17]}}
    assert parameters({**config, **listed}) == built + 4096 * 4096


def test_its_file_beside_the_target_is_known(tmp_path: Path) -> None:
    """The head and the projection are the drafter's, the embedding is the target's: 32000 x 4096 and 4096 x 12288 in bf16."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CASES["qwen3-8b-eagle3"][0]), encoding="utf-8")
    plan = planned("qwen/qwen3-8b", engine="vllm", device="h100", speculative=f"eagle3:3:{path}").as_dict()
    lines = {e["name"]: e["bytes"] for e in plan["ledgers"][0]["entries"]}
    assert lines["weights: drafter head"] == 32000 * 4096 * 2
    assert lines["weights: drafter other"] == 4096 * 12288 * 2
    assert "weights: drafter embedding" not in lines


def test_an_eagle_head_under_its_targets_class_has_its_projection(tmp_path: Path) -> None:
    """yuhuili/EAGLE-LLaMA3-Instruct-8B says LlamaForCausalLM; vLLM builds an EagleLlamaForCausalLM, whose fc is [4096, 8192] in bf16."""
    config = {**CASES["qwen3-8b-eagle3"][0], "architectures": ["LlamaForCausalLM"], "intermediate_size": 14336, "vocab_size": 128256}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: value for key, value in config.items() if key != "draft_vocab_size"}), encoding="utf-8")
    plan = planned("meta-llama/llama-3.1-8b", engine="vllm", device="h100", speculative=f"eagle:3:{path}").as_dict()
    lines = {e["name"]: e["bytes"] for e in plan["ledgers"][0]["entries"]}
    assert lines["weights: drafter other"] == 4096 * 8192 * 2
    assert "weights: drafter head" not in lines


@pytest.mark.parametrize(("kind", "built"), [("gated", 1_127_536_385), ("rnn", 1_129_961_729)])
def test_other_heads_of_dspark_are_as_large_as_specforge_builds_them(kind: str, built: int) -> None:
    assert parameters({**CASES["qwen3-8b-dspark"][0], "markov_head_type": kind}) == built


def test_a_head_that_is_not_known_is_refused() -> None:
    with pytest.raises(KvplanError, match=r"markov_head_type.*not known"):
        parameters({**CASES["qwen3-8b-dspark"][0], "markov_head_type": "another"})


@pytest.mark.parametrize(("name", "alone"), [("qwen3.8-27b-dflash2", 2 * 248_320 * 256 + 256 * 5120), ("qwen3-8b-domino", 0)])
def test_what_dflash_config_adds_is_counted_whatever_the_class(name: str, alone: int) -> None:
    """SGLang 0.5.23 builds convolutions and Domino's corrector for a DFlashDraftModel too; the selector for DFlash2 alone."""
    config, total = CASES[name]
    assert parameters({**config, "architectures": ["DFlashDraftModel"]}) == total - alone


def test_dflash2_without_a_selector_is_refused() -> None:
    config = CASES["qwen3.8-27b-dflash2"][0]
    with pytest.raises(KvplanError, match="selector"):
        parameters({**config, "dflash_config": FIVE})
    with pytest.raises(KvplanError, match="conv_group_size"):
        parameters({**config, "dflash_config": {**SELECTED, "conv_group_size": 3}})


#: Inferact/Kimi-K3-DSpark and poolside/Laguna-S-2.1-DFlash, their shapes alone: the parameters are those of their files.
K3_DSPARK: dict[str, Any] = {
    "architectures": ["K3DSparkModel"], "model_type": "k3_dspark", "hidden_size": 7168, "intermediate_size": 14336,
    "num_hidden_layers": 5, "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 163840, "max_position_embeddings": 1048576,
    "num_target_layers": 5, "target_hidden_size": 7168, "target_layer_ids": [2, 23, 47, 71, 89], "markov_rank": 256,
    "markov_head_type": "vanilla", "enable_confidence_head": True, "confidence_head_with_markov": True, "tie_word_embeddings": False,
    "draft_vocab_size": 163840, "torch_dtype": "bfloat16",
}  # fmt: skip
LAGUNA_DFLASH: dict[str, Any] = {
    "architectures": ["DFlashLagunaForCausalLM"], "model_type": "laguna", "hidden_size": 3072, "intermediate_size": 12288,
    "num_hidden_layers": 6, "num_attention_heads": 72, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 100352,
    "draft_vocab_size": 100352, "max_position_embeddings": 1048576, "gating": "per-head", "sliding_window": 512, "num_experts": 0,
    "layer_types": ["sliding_attention"] * 6, "dflash_config": {"target_layer_ids": [1, 10, 19, 29, 38, 47], "mask_token_id": 12},
    "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "total", "kind"),
    [(K3_DSPARK, 4_775_815_682 // 2 + 163_840 * 7168, "mla"), (LAGUNA_DFLASH, 1_114_977_792, "sliding")],
)
def test_drafters_of_other_layers_are_as_large_as_their_files(config: dict[str, Any], total: int, kind: str) -> None:
    assert parameters(config) == total
    spec = parse_spec(import_config(config, "a/config.json"), "a")
    assert {mixer.kind for block in spec.blocks.values() for mixer in block.mixers} == {kind}


#: deepseek-ai/DeepSeek-V4-Flash-0731, its shape alone: 46 ratios for 43 layers, one draft module counted, three DSpark stages shipped.
V4_0731: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "dtype": "bfloat16", "hidden_size": 4096, "head_dim": 512,
    "num_attention_heads": 64, "num_key_value_heads": 1, "num_hidden_layers": 43, "num_hash_layers": 3, "num_nextn_predict_layers": 1,
    "q_lora_rank": 1024, "o_lora_rank": 1024, "o_groups": 8, "qk_rope_head_dim": 64, "index_head_dim": 128, "index_n_heads": 64,
    "index_topk": 512, "hc_mult": 4, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 6, "sliding_window": 128, "vocab_size": 129280, "max_position_embeddings": 1048576,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0, 0, 0], "dspark_block_size": 5, "dspark_target_layer_ids": [40, 41, 42],
}  # fmt: skip


def test_dspark_stages_may_have_ratios_of_their_own() -> None:
    """The model is the same as without them; without a word of DSpark the extra ratios contradict the layers."""
    spec = parse_spec(import_config({**V4_0731, "dspark_markov_rank": 256}, "a/config.json"), "a")
    plain = {key: value for key, value in V4_0731.items() if not key.startswith("dspark")}
    assert spec.n_layers == 43
    assert spec.mtp is not None
    assert (spec.mtp.modules, spec.mtp.method) == (3, "dspark")
    assert parameters(V4_0731) == parameters({**plain, "compress_ratios": V4_0731["compress_ratios"][:43], "num_nextn_predict_layers": 0})
    with pytest.raises(KvplanError, match="46 entries for 43 layers"):
        import_config(plain, "a/config.json")


def test_stages_without_a_rank_are_not_counted() -> None:
    spec = parse_spec(import_config(V4_0731, "a/config.json"), "a")
    assert spec.mtp is None
    assert any("3 DSpark stages" in note for note in spec.notes)


#: By hand, of hidden size 4096: experts; latent q, kv, o; shared expert; router; two sets of streams; norms and sinks.
STAGE = (
    256 * 3 * 4096 * 2048 + 1024 * 4096 + 64 * 512 * 1024 + 512 * 4096 + 8 * 1024 * 64 * 512 // 8 + 4096 * 8 * 1024 + 3 * 4096 * 2048
    + 256 * 4096 + 2 * (24 * 4 * 4096 + 24 + 3) + 2 * 4096 + 1024 + 512 + 64
)  # fmt: skip
BESIDE = 4096 * 3 * 4096 + 2 * 4096 + 2 * 129_280 * 256 + 4096 + 256 + 4 * 4 * 4096 + 4 + 1


def test_stages_and_what_stands_beside_them_once() -> None:
    """vLLM models/deepseek_v4/nvidia/dspark.py: main_proj, two norms, two tables of rank 256, the confidence head, hc_head."""
    model = lower(parse_spec(import_config({**V4_0731, "dspark_markov_rank": 256}, "a/config.json"), "a"), CacheFormats(*["bf16"] * 4))
    assert count(model).draft == 3 * STAGE + BESIDE
    assert [len(layer.caches) for layer in model.draft] == [1, 1, 1]


def test_a_release_with_its_stages_is_as_large_as_its_files() -> None:
    """893 GB, as a public reader of DSpark's uploads says of DeepSeek-V4-Pro-DSpark."""
    plan = planned("deepseek-ai/DeepSeek-V4-Pro-DSpark", engine="ideal", context=1024, speculative="dspark:5").as_dict()
    held = sum(e["bytes"] for e in plan["ledgers"][0]["entries"] if e["name"].startswith("weights"))
    assert held == pytest.approx(893e9, rel=1e-3)


def test_stages_are_no_modules_of_mtp() -> None:
    """They load for dspark alone; asked for MTP, the release has none (ggml-org/llama.cpp#25784: no MTP for 0731)."""
    asked = {"engine": "vllm", "engine_version": "0.26", "device": "mi300x", "context": 4096}
    found = planned("deepseek-ai/DeepSeek-V4-Flash-0731", speculative="mtp:1", **asked)
    assert "ships DSpark's stages" in found.outcome.unknown
    assert planned("deepseek-ai/DeepSeek-V4-Flash", speculative="dspark:5", **asked).outcome.unknown
    assert not planned("deepseek-ai/DeepSeek-V4-Flash-0731", speculative="dspark:7", **asked).outcome.unknown


def test_a_pool_beside_stages_is_as_it_was_logged() -> None:
    """vLLM 0.26 on one MI300X with 20 GiB for the cache: 1,927,444 tokens, 156.67 GiB loaded (tests/threads/held_out_20.jsonl)."""
    lines = (Path(__file__).parents[2] / "threads" / "held_out_20.jsonl").read_text(encoding="utf-8").splitlines()
    case = next(json.loads(line) for line in lines if '"n19-a-dsv4f-0731-mi300x-kv20g"' in line)
    plan = planned(batch=1, **case["kvplan"]).as_dict()
    held = sum(e["bytes"] for e in plan["ledgers"][0]["entries"] if e["name"].startswith("weights"))
    assert plan["capacity"]["tokens"] == pytest.approx(case["logged"]["kv_tokens"], rel=1e-3)
    assert held / 2**30 == pytest.approx(case["logged"]["weights_gib"], rel=0.01)


def test_an_assistant_of_gemma_4_is_as_large_as_its_card_says(tmp_path: Path) -> None:
    """google/gemma-4-12B-it-assistant (423 M on its card) as Danmoreng/gem16gb tests/unit/config_test.cpp has its config.json."""
    text = {
        "model_type": "gemma4_unified_text", "hidden_size": 1024, "intermediate_size": 8192, "num_hidden_layers": 4, "vocab_size": 262144,
        "max_position_embeddings": 262144, "sliding_window": 1024, "num_attention_heads": 16, "num_key_value_heads": 8,
        "num_global_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "num_kv_shared_layers": 4, "tie_word_embeddings": True,
        "layer_types": [*["sliding_attention"] * 3, "full_attention"],
    }  # fmt: skip
    config: dict[str, Any] = {
        "architectures": ["Gemma4UnifiedAssistantForCausalLM"], "model_type": "gemma4_unified_assistant", "backbone_hidden_size": 3840,
        "use_ordered_embeddings": False, "tie_word_embeddings": True, "text_config": text,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    plan = planned(str(path), engine="ideal", context=1000)
    assert plan.model.parameters == planned("google/gemma-4-12B-it-assistant", engine="ideal", context=1000).model.parameters == 422_856_960
    assert plan.cache.total_bytes == 0
    ordered = parse_spec(import_config({**config, "use_ordered_embeddings": True, "num_centroids": 2048}, "x"), "x")
    formats = CacheFormats("bf16", "bf16", "bf16", "bf16")
    assert count(lower(ordered, formats)).total == 422_856_960 + 2048 * 1024
    with pytest.raises(KvplanError, match="an assistant has none"):
        import_config({**config, "text_config": {**text, "enable_moe_block": True}}, "x")
