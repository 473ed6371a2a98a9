"""exllamav3, by hand from exllamav3/cache and modules of its wheels, and beside what people reported of it."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines import find
from kvplan.engines.common.protocol import Outcome
from kvplan.engines.exllamav3.kept import quantized_row
from tests.conftest import one_block, planned

LLAMA = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}
MLA = {"kind": "mla", "heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}


def ask(mixer: dict[str, Any], **more: Any) -> Outcome:
    engine = find("exllamav3")
    model = one_block(mixer, **({"architecture": more.pop("architecture")} if "architecture" in more else {}))
    fields = {name: more.pop(name) for name in list(more) if name in Deployment.__dataclass_fields__}
    options = tuple((key, str(value)) for key, value in more.items())
    return engine.plan(engine.settle(Deployment(model=model, engine="exllamav3", engine_option=options, **fields)))


def held(mixer: dict[str, Any], **more: Any) -> int:
    return ask(mixer, **more).ledgers[0].cache_bytes


def test_pages_of_256_tokens_in_f16() -> None:
    assert held(LLAMA, context=1000) == 2 * 1024 * 8 * 128 * 2
    assert held(LLAMA, context=1000, batch=3) == 3 * 2 * 1024 * 8 * 128 * 2
    assert held(LLAMA, context=1000, max_model_len=65_536) == 2 * 65_536 * 8 * 128 * 2


@pytest.mark.parametrize(("bits", "row"), [(4, 1152), (8, 2176)])
def test_quantised_rows(bits: int, row: int) -> None:
    """(bits + 0.5) / 8 bytes an element: for 32 elements `bits` words of 4 bytes and an f16 scale."""
    assert 2 * quantized_row(8 * 128, bits) == row
    assert held(LLAMA, context=256, k_bits=bits) == 256 * row
    assert held(LLAMA, context=256, k_bits=bits, v_bits=2) == 256 * (row // 2 + 8 * 128 * 5 // 16)


@pytest.mark.parametrize(("bits", "row"), [(None, 1152), (8, 672), (6, 544), (4, 416)])
def test_latents_keep_their_rotary_part_in_f16(bits: int | None, row: int) -> None:
    assert held(MLA, context=256, **({"k_bits": bits} if bits else {})) == 256 * row


WINDOW = {**LLAMA, "kind": "sliding", "window": 1024}
DELTA = {"kind": "gated_delta_net", "key_heads": 16, "value_heads": 32, "key_head_dim": 128, "value_head_dim": 128, "d_conv": 4}
CONV, STATE = 8192 * 2, 32 * 128 * 128  # bytes of a column of its convolution, elements of its state


@pytest.mark.parametrize(("named", "release", "rings"), [
    ("Gemma3ForCausalLM", "1.6.5", False), ("GptOssForCausalLM", "1.0.0", True), ("LagunaForCausalLM", "1.6.5", True),
    ("Gemma4ForConditionalGeneration", "0.0.29", False), ("Gemma4ForConditionalGeneration", "0.0.30", True),
])  # fmt: skip
def test_windows_are_rings_where_a_class_has_sliding_attention(named: str, release: str, rings: bool) -> None:
    """Rings of the window and 512 tokens in whole pages, of each slot; every other class keeps all tokens and masks them."""
    for context in (256, 65_536):
        asked = held(WINDOW, context=context, architecture=named, engine_version=release, max_num_seqs=2)
        assert asked == (2 * (1024 + 512) if rings else context) * 4096
    slots = 1 if release == "0.0.30" else 4  # a sequence's own, and TabbyAPI's
    assert held(WINDOW, context=65_536, architecture=named, engine_version=release) == (slots * 1536 if rings else 65_536) * 4096


@pytest.mark.parametrize(("release", "history", "slot"), [
    ("0.0.35", 0, 4 * CONV + STATE * 4), ("1.6.0", 3, 7 * CONV + 4 * STATE * 4),  # a state more for each drafted token
    ("1.6.1", 3, (7 + 4) * CONV + 2 * STATE * 4 + 4 * 32 * 6),  # two, and what the last step took in: its columns, beta, g
    ("1.6.5", 3, (7 + 4) * CONV + 2 * STATE * 2 + 4 * 32 * 6),
])  # fmt: skip
def test_states_of_a_slot(release: str, history: int, slot: int) -> None:
    """GDNLayerState of each wheel; TabbyAPI serves four."""
    for slots in (1, 4):
        more = {"max_num_seqs": 1} if slots == 1 else {}
        assert held(DELTA, context=256, engine_version=release, max_history=history, **more) == slots * slot
    assert held(DELTA, context=256, engine_version=release, speculative="ngram:3", max_num_seqs=1) == held(
        DELTA, context=256, engine_version=release, max_history=3, max_num_seqs=1
    )


def test_before_a_cache_had_slots_a_sequence_brings_its_states() -> None:
    assert held(DELTA, context=256, engine_version="0.0.33", batch=2) == 2 * (4 * CONV + STATE * 4)


def test_keys_of_an_indexer_stay_in_f16() -> None:
    """QSAPlanes: 128 elements a token as they are and, for each four tokens, 128 pooled."""
    indexed = {**LLAMA, "kind": "gqa_indexed", "kv_heads": 2, "index_heads": 4, "index_head_dim": 128, "index_topk": 2048}
    assert held(indexed, context=256) == 256 * (2 * 256 * 2 + 128 * 2 + 128 // 4 * 2)
    assert held(indexed, context=256, k_bits=4) == 256 * (2 * 256 * 9 // 16 + 128 * 2 + 128 // 4 * 2)


@pytest.mark.parametrize(("release", "tokens"), [("0.0.43", 131_072), ("1.2.0", 0), ("1.6.4", 131_072), ("1.6.5", 65_536)])
def test_prompts_attend_to_a_quantised_layer_in_f16(release: str, tokens: int) -> None:
    lines = ask(LLAMA, context=131_072, k_bits=4, engine_version=release).ledgers[0].entries
    assert sum(line.bytes for line in lines if line.name == "a layer's cache in f16") == tokens * 4096


def estimate(**asked: Any) -> Any:
    return planned(engine="exllamav3", batch=1, **asked)


def test_embeddings_and_towers_stay_off_the_card() -> None:
    """A tied model's file has an output of its own, in 6 bits: 262,208 x 5,376 elements."""
    plan = estimate(model="google/gemma-3-27b-it", device="rtx-4090", weight_dtype="exl3_5.0bpw", context="8k")
    names = {line.name: line.bytes for line in plan.ledgers[0].entries}
    assert names["weights: head"] == 262_208 * 5_376 * 6 // 8
    assert not any("embedding" in name or "tower" in name for name in names)
    assert {line.name: line.bytes for line in plan.outcome.host} == {"weights: embedding": 262_208 * 5_376 * 2}
    assert "weights: tower" in {line.name for line in estimate(
        model="google/gemma-3-27b-it", device="rtx-4090", weight_dtype="exl3_5.0bpw", context="8k", multimodal="on"
    ).ledgers[0].entries}  # fmt: skip


def test_experts_of_the_first_layers_in_host_memory() -> None:
    """Qwen3.8-Flash-Next: 512 experts of 3 x 640 x 2,560 in 48 layers, a table of n-grams that stays in its file. On two cards of 20 GiB
    less 1.5 somebody's load failed with 16 and 20 of them and came up with 24: too close to call but for the last."""
    asked: dict[str, Any] = {
        "model": "Qwen/Qwen3.8-Flash-Next",
        "weight_dtype": "exl3_3.05bpw",
        "engine_version": "1.4.9",
        "context": 262_144,
    }
    layer = 512 * 3 * 640 * 2560 * 390 / 128 / 8  # 3.05 bits, in 128ths
    for beside, sure in ((16, "too close to call"), (20, "too close to call"), (24, "likely")):
        options = {"cpu_moe_offload_layers": str(beside), "k_bits": "4", "v_bits": "4", "autosplit_reserve": "1536,1536"}
        plan = estimate(**asked, device="rtx-3080-12gb@20GiB", n_devices=2, engine_option=options)
        host = {line.name: line.bytes for line in plan.outcome.host}
        assert host["weights: experts"] == pytest.approx(beside * layer, rel=0.001)
        on_cards = sum(line.bytes for ledger in plan.ledgers for line in ledger.entries if line.name == "weights: experts")
        assert on_cards == pytest.approx((48 - beside) * layer, rel=0.001)
        assert plan.outcome.start_certainty == sure
    assert plan.starts


def test_classes_by_release() -> None:
    assert ask(LLAMA, context=256, architecture="Gemma4ForConditionalGeneration", engine_version="0.0.26").starts is False
    assert ask(LLAMA, context=256, architecture="NanoChatForCausalLM", engine_version="1.6.5").starts is False
    assert ask(LLAMA, context=256, architecture="Gemma4ForConditionalGeneration", engine_version="0.0.29").starts is None


def test_refusals() -> None:
    assert ask(LLAMA, max_model_len=1000, context=500).reason == "max_num_tokens must be a multiple of 256."
    assert ask(LLAMA, context=256, k_bits=9).reason == "quantized cache must be from 2 to 8 bits"


def test_sequences_share_the_pool_in_whole_pages() -> None:
    outcome = ask(LLAMA, context=1000, batch=3, max_model_len=2048, device=sized(1 << 30))
    assert outcome.capacity is not None
    assert (outcome.fits, outcome.capacity.tokens, outcome.capacity.max_concurrency) == (False, 2048, 2.0)
    assert ask(LLAMA, context=1000, batch=2, max_model_len=2048, device=sized(1 << 30)).fits
