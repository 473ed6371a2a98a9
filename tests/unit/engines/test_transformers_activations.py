"""transformers: what decides the memory of a pass, by hand arithmetic; tests/oracle/test_transformers_passes.py compares with classes."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.ledger import Entry
from kvplan.units import MIB
from tests.conftest import planned

LLAMA, GPT_OSS, GEMMA = "meta-llama/llama-3.1-8b", "openai/gpt-oss-20b", "google/gemma-2-9b-it"


def line(model: str, name: str = "activations of a prompt", **question: Any) -> Entry:
    plan = planned(model, engine="transformers", device=question.pop("device", "h200"), **question)
    return next(entry for entry in plan.ledgers[0].entries if entry.name == name)


def test_all_sequences_go_through_at_once() -> None:
    """8 x 4,096 tokens x 2 B x (3 x 14,336 + 4 x 4,096)."""
    assert line(LLAMA, context=4096, batch=8).bytes == 8 * 4096 * 2 * (3 * 14_336 + 4 * 4096)


def test_prompts_of_unequal_length_are_the_high_end() -> None:
    """A mask of 32,768 x 32,768 for each of two sequences, in booleans and in 16 bits: 6 GiB more than none where flash takes no mask."""
    question = {"context": 32_768, "batch": 2}
    without = line(LLAMA, engine_option={"attn_implementation": "flash_attention_2"}, **question)
    padded = line(LLAMA, **question)
    assert padded.bytes == without.bytes
    assert padded.high > without.high
    assert line(LLAMA, context=32_768, batch=1).high < padded.high / 2 + 1  # one alone is not padded


def test_scores_grow_with_the_square() -> None:
    """gpt-oss makes 64 scores for each pair of tokens three times over; with flash attention its experts are the widest."""
    eager = line(GPT_OSS, context=8192)
    assert eager.bytes == pytest.approx(8192 * 8192 * 64 * 3 * 2, rel=0.04)
    flash = line(GPT_OSS, context=8192, engine_option={"attn_implementation": "flash_attention_2"})
    assert flash.bytes == 8192 * 2 * (4 * (12 * 2880 + 2880) + 4 * 2880)
    chunked = line(GPT_OSS, context=8192, engine_option={"prefill_chunk_size": "1024"})
    assert chunked.bytes == pytest.approx(eager.bytes / 8, rel=0.05)


@pytest.mark.parametrize(("release", "makes"), [("5.20.0", False), ("5.21.0", True), ("5.24.0", True)])
def test_gemma_2_lost_its_fused_attention(release: str, makes: bool) -> None:
    """modeling_gemma2.py of the wheels 5.20.0 and 5.21.0: `_supports_sdpa`."""
    large = line(GEMMA, context=8192, engine_version=release).bytes > 8192 * 8192 * 16 * 4 * 2
    assert large is makes
    asked = planned(
        GEMMA, engine="transformers", device="h200", context=8192, engine_version=release, engine_option={"attn_implementation": "sdpa"}
    )
    assert asked.starts is not makes
    assert ("does not support an attention implementation" in (asked.outcome.reason or "")) is makes


def test_before_5_0_experts_come_one_after_the_other() -> None:
    """Qwen3-30B-A3B: of 8 of 128 experts a token has results at once; before, of a sixteenth of the tokens (integrations/moe.py)."""
    at_once = line("qwen/qwen3-30b-a3b", context=8192, engine_version="5.0.0")
    assert at_once.bytes == 8192 * 2 * (4 * 8 * 2048 + 4 * 2048)
    assert line("qwen/qwen3-30b-a3b", context=8192, engine_version="4.57.6").bytes < at_once.bytes / 2


def test_a_token_after_a_short_prompt() -> None:
    """A prompt of 16 tokens: the growth of one layer's keys, 8 x 128 x 2 B of 8,191 tokens, is more than its pass."""
    moment = line(LLAMA, "transient: concatenation", context=8192, max_num_batched_tokens=16)
    assert moment.bytes == 8191 * 8 * 128 * 2


def test_what_a_process_holds() -> None:
    """cuBLAS's workspace is 32 MiB from Hopper on, 8 before."""
    assert line(LLAMA, "library workspace", context=1024).bytes == 32 * MIB
    assert line(LLAMA, "library workspace", context=1024, device="a100-80gb").bytes == 8 * MIB
    assert line(LLAMA, "CUDA context", context=1024).bytes == 500 * MIB
    names = {e.name for e in planned(LLAMA, engine="transformers", device="mi300x", context=1024).ledgers[0].entries}
    assert "CUDA context" not in names
