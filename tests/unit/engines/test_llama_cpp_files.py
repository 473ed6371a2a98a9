"""llama.cpp, where what a file keeps, or whose memory it is in, decides: beside figures that people logged."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.planner.plan import Plan


def estimate(**asked: Any) -> Plan:
    return kvplan.estimate(engine="llama.cpp", batch=1, advise=False, **asked)


@pytest.mark.parametrize(("model", "mib"), [
    ("bartowski/DeepSeek-Coder-V2-Lite-Instruct-GGUF", 3910),  # "OOM: 3,910 MiB of KV were lacking"
    ("bartowski/moonshotai_Moonlight-16B-A3B-Instruct-GGUF", 23 * 32_768 * 576 * 34 / 32 / 2**20),  # converted with latents
])  # fmt: skip
def test_files_of_2024_keep_no_latents(model: str, mib: float) -> None:
    """K of 192 and V of 128 a head: 23 x 32,768 x 16 x 320 x 34 / 32 bytes are 3,910.0 MiB, ten times a latent's."""
    options = {"n_cpu_moe": "20", "flash_attn": "on"}
    plan = estimate(
        model=model, device="rtx-3060-ti", engine_version="b10242", context=32_768, max_num_seqs=1, n_gpu_layers=24, kv_dtype="q8_0",
        weight_dtype="q4_k_m", engine_option=options,
    )  # fmt: skip
    (cache,) = (line.bytes for line in plan.ledgers[0].entries if line.name == "cache: kv")
    assert cache / 2**20 == pytest.approx(mib)


def test_what_is_in_ram_is_not_the_gpus_part_of_shared_memory() -> None:
    """81 of 95 layers of Qwen3 235B in Q3_K_M in 93.75 GiB that a Ryzen AI Max+ gives its GPU, the rest in what is left of 122: it ran."""
    asked = {"model": "unsloth/Qwen3-235B-A22B-Thinking-2507-GGUF", "weight_dtype": "q3_k_m", "engine_version": "b7740", "context": 4096,
             "max_num_seqs": 1, "n_gpu_layers": 81, "device": "ryzen-ai-max-395@93.75GiB"}  # fmt: skip
    assert estimate(**asked, host_memory="122GiB").starts
    assert not estimate(**asked, host_memory="100GiB").starts
    assert not estimate(**asked).starts
