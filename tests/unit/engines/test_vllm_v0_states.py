"""States that V0's models keep beside the blocks: models/mamba_cache.py, minimax_cache.py and jamba.py of vLLM 0.6.4 to 0.10.1, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.units import MIB
from tests.conftest import planned

NEMOTRON, JAMBA, MINIMAX = "nvidia/NVIDIA-Nemotron-Nano-9B-v2", "ai21labs/AI21-Jamba-Mini-1.5", "minimaxai/minimax-text-01"
#: A slot of Nemotron Nano 9B v2: 27 layers, 128 heads of 80 x 128 values, 3 inputs of 10,240 + 2 x 8 x 128 channels in 16 bits.
CONV, SSM = 27 * 3 * (10_240 + 2 * 8 * 128) * 2, 27 * 128 * 80 * 128
#: A slot of Jamba Mini 1.5 on one rank of 8: 28 layers of 8,192 channels, 3 inputs and 16 values each, in 16 bits.
JAMBA_SLOT = 28 * 8192 // 8 * (3 + 16) * 2


def states(model: str, version: str, **question: Any) -> list[int]:
    plan = planned(model, engine="vllm", engine_version=version, **{"device": "h200", "max_model_len": 8192, **question})
    return [entry.bytes for ledger in plan.outcome.ledgers for entry in ledger.entries if entry.name == "recurrent states"]


def test_the_log_of_issue_23230() -> None:
    """vllm-project/vllm#23230, 0.10.1: "Tried to allocate 33.75 GiB" on an L40S, states in f32 of 256 sequences, apart from the inputs."""
    asked: dict[str, Any] = {"device": "l40s", "engine_option": {"mamba_ssm_cache_dtype": "float32"}, "max_model_len": None}
    assert SSM * 4 * 256 == 34_560 * MIB
    assert states(NEMOTRON, "0.10.1", **asked) == [256 * (4 * SSM + CONV)]
    plan = planned(NEMOTRON, engine="vllm", engine_version="0.10.1", **asked)
    assert plan.starts is False


@pytest.mark.parametrize(("version", "eager", "sequences", "slots"), [
    ("0.10.1", False, 17, 24),  # pad_for_cudagraph: 1, 2, 4 and multiples of 8
    ("0.10.1", False, 3, 4),
    ("0.10.1", False, 2, 2),
    ("0.10.1", True, 17, 17),
    ("0.9.2", True, 17, 17),
])  # fmt: skip
def test_slots_are_a_batch_of_graphs(version: str, eager: bool, sequences: int, slots: int) -> None:
    assert states(NEMOTRON, version, max_num_seqs=sequences, enforce_eager=eager) == [slots * (2 * SSM + CONV)]


@pytest.mark.parametrize(("version", "eager", "slots"), [
    ("0.6.4", True, 24),  # _get_graph_batch_size, with graphs or without
    ("0.6.6", False, 24),
    ("0.6.6", True, 8194),  # 8192 + 2
    ("0.7.2", True, 8194),
    ("0.7.3", True, 17),
])  # fmt: skip
def test_slots_of_jamba(version: str, eager: bool, slots: int) -> None:
    assert states(JAMBA, version, tp=8, max_num_seqs=17, enforce_eager=eager)[0] == slots * JAMBA_SLOT


@pytest.mark.parametrize(("version", "wide"), [("0.9.1", 2), ("0.9.2", 4), ("0.10.1", 4)])
def test_lightning_attention_in_f32(version: str, wide: int) -> None:
    """70 of 80 layers, 64 heads of 128 x 128 values, 17 slots: `dtype=self._dtype`, the model's, then torch.float32."""
    slot = 70 * 64 // 8 * 128 * 128 * wide
    assert states(MINIMAX, version, tp=8, max_num_seqs=17)[0] == 17 * slot
