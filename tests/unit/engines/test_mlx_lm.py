"""MLX-LM 0.32.2, by hand from mlx_lm/models/cache.py."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.deployment import Deployment
from kvplan.engines import settle
from kvplan.engines.common.protocol import Outcome
from kvplan.engines.mlx_lm.plan import buffer_tokens, grown, quantized_row
from kvplan.errors import SpecError, UnsupportedError
from kvplan.units import GIB
from tests.conftest import one_block, planned

LLAMA = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}


def ask(mixer: dict[str, Any], tokens: int, architecture: str | None = None, batch: int = 1, **options: object) -> Outcome:
    model = one_block(mixer, architecture=architecture)
    given = tuple((key, str(value)) for key, value in options.items())
    engine, settled = settle(Deployment(model=model, engine="mlx-lm", context=tokens, batch=batch, engine_option=given))
    return engine.plan(settled)


def held(mixer: dict[str, Any], tokens: int, architecture: str | None = None, **options: object) -> int:
    return ask(mixer, tokens, architecture, **options).ledgers[0].cache_bytes


def test_buffers_grow_by_256_and_are_cut_to_a_length_that_is_no_multiple() -> None:
    assert grown(0, 0, 100) == 256
    assert grown(256, 100, 100) == 256
    assert grown(256, 200, 100) == 200 + 256
    assert grown(256, 256, 300) == 256 + 512
    assert buffer_tokens(1000, 2048) == 1024
    assert buffer_tokens(300, 100) == 456


def test_a_full_layer() -> None:
    assert held(LLAMA, 1000) == 1024 * 2 * 8 * 128 * 2


@pytest.mark.parametrize(("bits", "row"), [(4, 1152), (5, 1408), (6, 1664), (8, 2176)])
def test_quantised_rows(bits: int, row: int) -> None:
    """K and V of 8 heads of 128: bits / 8 bytes an element (mlx 0.32.1's quantize, run), a 2-byte scale and bias for each 64."""
    assert 2 * 8 * quantized_row(128, bits, 64, 2) == row
    assert held(LLAMA, 1024, kv_bits=bits, quantized_kv_start=0) == 1024 * row
    assert held(LLAMA, 1024, kv_bits=bits) == 1024 * 4096  # below the default start of 5000
    assert held(LLAMA, 8192, kv_bits=bits) == 8192 * row


def test_windows_rotate() -> None:
    window = {**LLAMA, "kind": "sliding", "window": 1000}
    assert held(window, 300) == 512 * 4096
    assert held(window, 5000) == 1000 * 4096
    outcome = ask(window, 8192)
    extra = next(e for e in outcome.ledgers[0].entries if e.name == "transient: prompt in rotating caches")
    assert extra.bytes == 2047 * 4096  # a prompt step of 2048 beside a full window: max_size + 2048 - 1 tokens
    assert ask(window, 8192, kv_bits=4).reason == "RotatingKVCache Quantization NYI"


def test_max_kv_size_rotates_every_layer_but_of_models_with_caches_of_their_own() -> None:
    assert held(LLAMA, 8192, "Qwen3ForCausalLM", max_kv_size=1024) == 1024 * 4096
    assert held(LLAMA, 8192, "LlamaForCausalLM", max_kv_size=1024) == 8192 * 4096


def test_chunks_keep_a_step_beyond_their_size() -> None:
    assert held({**LLAMA, "kind": "chunked", "chunk": 8192}, 20_000) == (8192 + 256) * 4096


def test_latents_and_indexers() -> None:
    mla = {
        "kind": "mla_sparse", "heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "index_heads": 4, "index_head_dim": 128, "index_topk": 64,
    }  # fmt: skip
    assert held(mla, 256) == 256 * (576 * 2 + 2 * 128 * 2)
    plain = {key: value for key, value in mla.items() if not key.startswith("index")} | {"kind": "mla"}
    assert held(plain, 256, "DeepseekV2ForCausalLM") == 256 * 16 * (192 + 128) * 2


def scores(mixer: dict[str, Any], tokens: int, batch: int = 1, **options: object) -> tuple[int, int, int] | None:
    lines = ask(mixer, tokens, None, batch, **options).ledgers[0].entries
    return next(((e.low, e.bytes, e.high) for e in lines if e.name == "transient: attention scores"), None)


def test_heads_without_a_kernel_write_their_scores_out() -> None:
    """A step of 2,048 queries by 16,384 keys of 16 heads in 16 bits is 1 GiB, of which two layers' are alive (mlx-cpu 0.32.4)."""
    wide = {"kind": "gqa", "heads": 16, "kv_heads": 4, "head_dim": 256}
    assert scores(wide, 16384) == (GIB * 3 // 2, 2 * GIB, 3 * GIB)
    assert scores(wide, 1000) == (48_000_000, 64_000_000, 96_000_000)
    assert scores(wide | {"kind": "sliding", "window": 1024}, 16384) == (288 << 20, 384 << 20, 576 << 20)
    assert scores(LLAMA, 16384) is None


def test_quantised_caches_and_latents_write_them_out_too() -> None:
    """32 heads: 2 GiB for the same step, from --quantized-kv-start on; of DeepSeek-V3's 128 heads 8 GiB."""
    assert scores(LLAMA, 16384, kv_bits=8) == (3 * GIB, 4 * GIB, 6 * GIB)
    assert scores(LLAMA, 4096, kv_bits=8) is None
    mla = {"kind": "mla", "heads": 128, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    assert scores(mla | {"q_lora_rank": 1536}, 16384) == (12 * GIB, 16 * GIB, 24 * GIB)


def test_prompts_that_are_read_together_write_theirs_together() -> None:
    wide = {"kind": "gqa", "heads": 16, "kv_heads": 4, "head_dim": 256}
    assert scores(wide, 16384, batch=3) == (GIB * 3 // 2, 2 * GIB, 9 * GIB)
    assert scores(wide, 16384, batch=3, prompt_concurrency=2) == (GIB * 3 // 2, 2 * GIB, 6 * GIB)


def test_prompts_that_the_server_keeps() -> None:
    """A prompt of 32,768 tokens of 131,072 B is 4 GiB; ten are kept."""

    def kept(**options: str) -> int:
        question: dict[str, Any] = {"engine": "mlx-lm", "device": "apple-m3-max-48gb", "context": 32768}
        plan = planned("meta-llama/llama-3.1-8b", **question, engine_option=options)
        return sum(risk.high for risk in plan.outcome.risks if risk.name == "prompts kept by the server")

    assert kept() == 40 * GIB
    assert kept(prompt_cache_size="8") == 32 * GIB
    assert kept(prompt_cache_bytes=str(30 * GIB)) == 30 * GIB
    assert kept(prompt_cache_size="1") == 0  # there is room for it


def test_options_are_checked() -> None:
    with pytest.raises(SpecError, match="no such option"):
        ask(LLAMA, 256, bits=4)
    with pytest.raises(SpecError, match="kv_bits"):
        ask(LLAMA, 256, kv_bits=7)
    with pytest.raises(UnsupportedError, match="tp"):
        settle(Deployment(model=one_block(LLAMA), engine="mlx-lm", tp=2))


@pytest.mark.parametrize(("said", "bits"), [("4bit", 4), ("4-bit", 4), ("int4", 4), ("3bit", 3), ("6bit", 6), ("8bit", 8), ("int8", 8)])
def test_bare_bits_of_weights_are_of_its_own_format(said: str, bits: int) -> None:
    """mlx quantize: `bits` a weight, a 16-bit scale and a 16-bit bias for 64 of them, embedding and head too; norms stay in 16 bits.

    Llama 3.1 8B: 32 layers of 2 x 4096 x 4096 + 2 x 1024 x 4096 + 3 x 14336 x 4096, twice 128,256 x 4096, 65 norms of 4096.
    """
    plan = kvplan.estimate("llama-3.1-8b", engine="mlx-lm", device="m4-max-128gb", weight_dtype=said, context="8k")
    matrices = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096) + 2 * 128_256 * 4096
    assert plan.model.weight_bytes == matrices * (bits * 64 + 32) // 64 // 8 + 65 * 4096 * 2
    assert plan.asked("weight_dtype") == f"mlx_{bits}bit"


def test_bare_bits_are_no_format_of_gguf() -> None:
    plan = kvplan.estimate("llama-3.1-8b", engine="ollama", device="rtx-4090", weight_dtype="4bit", context="8k")
    assert "loads no 4bit weights" in (plan.outcome.reason or "")
    assert plan.advice[0].value == "q4_k_m"


@pytest.mark.parametrize(("format_", "starts"), [("awq", True), ("nvfp4", True), ("gptq", False), ("fp8", False), ("q4_k_m", False)])
def test_checkpoints_that_are_read_as_its_own(format_: str, starts: bool) -> None:
    """utils.py of 0.32.2: _transform_awq_weights stops at g_idx; nvfp4 of compressed-tensors and modelopt stays packed."""
    plan = kvplan.estimate("qwen/qwen3-8b", engine="mlx-lm", device="apple-m3-max-64gb", weight_dtype=format_, context=4096)
    assert plan.starts is starts


def test_on_nvidia_it_runs_and_is_not_modelled() -> None:
    """pyproject's extras cuda12 and cuda13: not a refusal of the engine."""
    with pytest.raises(UnsupportedError, match="cuda12"):
        kvplan.estimate("qwen/qwen3-8b", engine="mlx-lm", device="rtx-4090", context=4096)
