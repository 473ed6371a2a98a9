"""Lines of the budget against figures that vLLM printed (tests/oracle/rows/start_ups.jsonl) and against arithmetic written out here."""

from __future__ import annotations

import pytest

from kvplan import api
from kvplan.ledger import Entry
from kvplan.units import GIB, MIB


def lines(model: str, device: str, version: str, **question: object) -> dict[str, Entry]:
    plan = api.estimate(model, engine="vllm", device=device, engine_version=version, batch=1, **question)
    return {e.name: e for e in plan.ledgers[0].entries}


def test_each_ranks_part_of_an_mxfp4_expert_is_padded() -> None:
    """dennislee22/vLLM-benchmarking, gpt-oss-120b on four A100: 17.2217 GiB. 2,880 / 4 = 720 -> 768 a rank, 2,880 -> 3,072 hidden."""
    found = lines("openai/gpt-oss-120b", "a100-80gb", "0.10.1.1", tp=4, memory_fraction=0.8, max_model_len=16384)
    assert sum(e.bytes for name, e in found.items() if name.startswith("weights")) / GIB == pytest.approx(17.2217, abs=0.02)
    padded = 36 * 128 * 3 * 3072 * 768 * 17 // 32
    assert padded <= found["weights: experts"].bytes <= 1.01 * padded


def test_v0_prefills_whole_prompts_on_amds_cards() -> None:
    """cmontemuino/amd-mi300x-ml-benchmarks, Llama 3.1 8B of 131,072 tokens on an MI300X: 14.63 GiB of activations."""
    asked = {"memory_fraction": 0.8, "max_model_len": 131072, "dtype": "fp16", "engine_option": {"use_v1": "0", "usage": "offline"}}
    found = lines("meta-llama/Llama-3.1-8B-Instruct", "mi300x", "0.9.1", **asked)
    assert found["activations"].bytes / GIB == pytest.approx(14.63, rel=0.1)


@pytest.mark.parametrize(("version", "charged"), [("0.23.0", False), ("0.25.0", False), ("0.26.0", True)])
def test_graphs_on_amds_cards_are_charged_from_0_26_on(version: str, charged: bool) -> None:
    older = {"v2_model_runner": "false"}  # the newer runner of 0.25 to 0.28 estimates none anywhere
    assert ("CUDA graphs" in lines("google/gemma-3-4b-it", "mi300x", version, max_model_len=8192, engine_option=older)) is charged


@pytest.mark.parametrize(("version", "tp", "switch"), [("0.12.0", 2, False), ("0.12.0", 4, True), ("0.19.0", 2, True)])
def test_switches_reduce_for_two_ranks_from_nccl_2_28_7_on(version: str, tp: int, switch: bool) -> None:
    """Zzsf11/VideoCuttingAgent, 0.12.0 with NCCL 2.27.5 on two H100: 1.13 GiB beside weights and cache, 0.48 of it activations."""
    found = lines("Qwen/Qwen3-30B-A3B", "h100-80gb", version, tp=tp, max_model_len=40960, max_num_seqs=64, max_num_batched_tokens=8192)
    assert (found["outside torch"].bytes > GIB) is switch


def test_qwen3_vl_keeps_outputs_of_153600_tokens_from_0_11_to_0_12() -> None:
    """The same log: "Encoder cache will be initialized with a budget of 153600 tokens"; each brings 4 x 2,048 values of 2 bytes."""
    asked = {"tp": 2, "max_model_len": 65536, "max_num_seqs": 64, "max_num_batched_tokens": 8192}
    old, new = (
        lines("Qwen/Qwen3-VL-30B-A3B-Instruct", "h100-80gb", version, **asked)["activations"].bytes for version in ("0.12.0", "0.13.0")
    )
    kept = 153_600 * 4 * 2048 * 2
    assert kept < old < kept + 2 * GIB
    assert new < kept


def test_where_the_gpu_shares_memory_the_servers_processes_count() -> None:
    """TW-10519/VLLM-ROUTER, gpt-oss-20b on a GB10: 30.42 asked for, 13.72 of weights, 12.94 left for the cache."""
    found = lines("openai/gpt-oss-20b", "gb10", "0.13.0", memory_fraction=0.25, max_model_len=8192, max_num_batched_tokens=2048)
    assert found["outside torch"].bytes > GIB
    assert lines("openai/gpt-oss-20b", "rtx-5090", "0.13.0", max_model_len=8192)["outside torch"].bytes < 200 * MIB
