"""SGLang's LoRA buffers against its own memory pool: rows of `LoRAMemoryPool.init_buffers`, run on a CPU (rows/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.catalogue import find_model
from kvplan.deployment import Deployment
from kvplan.engines.sglang.plan import ENGINE
from tests.conftest import rows_of

ROWS = rows_of(Path(__file__).parent / "rows" / "sglang_lora.jsonl")


def buffers(
    model: str, release: str, lora: str, options: tuple[tuple[str, str], ...] = (), **sizes: int | None
) -> dict[str, tuple[int, int]]:
    """The lines of the buffers on a rank of 16-bit types: name -> (bytes, low)."""
    d = Deployment(
        model=find_model(model), engine_version=release, kv_memory=400 << 30, lora=lora, dtype="bf16", context=2048, engine_option=options,
        **sizes,  # type: ignore[arg-type]
    )  # fmt: skip
    entries = ENGINE.plan(ENGINE.settle(d)).ledgers[-1].entries
    return {entry.name: (entry.bytes, entry.low) for entry in entries if entry.name.startswith("LoRA")}


@pytest.mark.parametrize("release", sorted({row["sglang"] for row in ROWS}))
def test_the_engines_own_pool(release: str) -> None:
    wrong = []
    for row in (row for row in ROWS if row["sglang"] == release):
        options = (("lora_target_modules", ",".join(row["modules"])), ("experts_shared_outer_loras", str(row.get("outer", False)).lower()))
        found = buffers(row["model"], release, f"{row['rank']}x{row['slots']}", options, tp=row["tp"], ep=row.get("ep"))
        if (held := sum(n for n, _ in found.values())) != row["bytes"]:
            wrong.append((row, held))
    assert not wrong


def test_every_stage_has_buffers_for_all_layers() -> None:
    """`for idx in range(self.num_layer)`: num_hidden_layers, whatever the stage holds (mem_pool.py init_buffers)."""
    one, two = (buffers("meta-llama/llama-3.1-8b", "0.5.23", "16x8", pp=pp) for pp in (1, 2))
    assert one == two


def test_modules_that_nobody_names_leave_the_experts_open() -> None:
    """gpt-oss-20b, slots 8, rank 16: 32 experts x 24 layers x (2 x 2880 + 2 x 2880 + 2880 + 2880) x 8 x 16 x 2 bytes; or none."""
    n_bytes, low = buffers("openai/gpt-oss-20b", "0.5.23", "16x8")["LoRA slots of experts"]
    assert n_bytes == 32 * 24 * 6 * 2880 * 8 * 16 * 2 == 3397386240
    assert low == 0
    assert "LoRA slots of experts" not in buffers("openai/gpt-oss-20b", "0.5.9", "16x8")


def test_all_modules_are_embedding_and_head_too() -> None:
    """From 0.5.10; each of the two gets its buffers twice. Llama 3.1 8B: 2 x 2 x (128256 + 4096) x 8 slots x rank 16 x 2 bytes."""
    every = (("lora_target_modules", "all"),)
    held = buffers("meta-llama/llama-3.1-8b", "0.5.23", "16x8", every)
    assert held["LoRA slots of the vocabulary"] == (4 * (128256 + 4096) * 8 * 16 * 2,) * 2
    assert "LoRA slots of the vocabulary" not in buffers("meta-llama/llama-3.1-8b", "0.5.9", "16x8", every)
