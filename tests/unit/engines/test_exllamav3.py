"""exllamav3 1.6.5, by hand from exllamav3/cache and modules/sliding_attn.py."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines import find
from kvplan.engines.common.protocol import Outcome
from kvplan.engines.exllamav3.plan import quantized_row
from tests.conftest import one_block

LLAMA = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}
MLA = {"kind": "mla", "heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}


def ask(mixer: dict[str, Any], **more: Any) -> Outcome:
    engine = find("exllamav3")
    fields = {name: more.pop(name) for name in list(more) if name in Deployment.__dataclass_fields__}
    options = tuple((key, str(value)) for key, value in more.items())
    return engine.plan(engine.settle(Deployment(model=one_block(mixer), engine="exllamav3", engine_option=options, **fields)))


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


def test_windows_and_states_have_slots() -> None:
    window = {**LLAMA, "kind": "sliding", "window": 1024}
    assert held(window, context=256) == 16 * (1024 + 512) * 4096
    assert held(window, context=65_536, max_num_seqs=2) == 2 * (1024 + 512) * 4096
    delta = {"kind": "gated_delta_net", "key_heads": 16, "value_heads": 32, "key_head_dim": 128, "value_head_dim": 128, "d_conv": 4}
    assert held(delta, context=256, max_num_seqs=1) == 8192 * 4 * 2 + 32 * 128 * 128 * 4


def test_refusals() -> None:
    assert ask(LLAMA, max_model_len=1000, context=500).reason == "max_num_tokens must be a multiple of 256."
    assert ask(LLAMA, context=256, k_bits=9).reason == "quantized cache must be from 2 to 8 bits"


def test_sequences_share_the_pool_in_whole_pages() -> None:
    outcome = ask(LLAMA, context=1000, batch=3, max_model_len=2048, device=sized(1 << 30))
    assert outcome.capacity is not None
    assert (outcome.fits, outcome.capacity.tokens, outcome.capacity.max_concurrency) == (False, 2048, 2.0)
    assert ask(LLAMA, context=1000, batch=2, max_model_len=2048, device=sized(1 << 30)).fits
