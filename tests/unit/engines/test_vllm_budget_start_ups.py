"""Lines of the budget against figures that vLLM printed (tests/oracle/rows/start_ups.jsonl) and against arithmetic written out here."""

from __future__ import annotations

import pytest

from kvplan.ledger import Entry
from kvplan.units import GIB, MIB
from tests.conftest import planned


def lines(model: str, device: str, version: str, **question: object) -> dict[str, Entry]:
    plan = planned(model, engine="vllm", device=device, engine_version=version, batch=1, **question)
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


def test_experts_in_nvfp4_without_a_gate_are_padded_to_blocks_of_scales() -> None:
    """vllm-project/vllm#33333, Nemotron 3 Nano on two cards: 9.8291 GiB. 23 layers of 128 experts, 1,856 / 2 = 928 -> 1,024 a rank."""
    asked = {"tp": 2, "max_model_len": 131072, "max_num_seqs": 8, "kv_dtype": "fp8"}
    found = lines("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "rtx-5080", "0.13.0", **asked)
    assert sum(e.bytes for name, e in found.items() if name.startswith("weights")) / GIB == pytest.approx(9.8291, abs=0.06)
    assert found["weights: experts"].bytes == pytest.approx(23 * 128 * 2 * 2688 * 1024 * 9 / 16, rel=0.001)
    marlin = lines("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "rtx-4090", "0.13.0", **asked)
    assert marlin["weights: experts"].bytes == pytest.approx(23 * 128 * 2 * 2688 * 928 * 9 / 16, rel=0.001)


def test_sparse_attention_reserves_room_by_the_longest_request() -> None:
    """GLM-5.2 NVFP4 of 819,200 tokens on four GB200, 0.26.0: 106.69 GiB of weights, 50.62 of cache, 0.0271 of 184.31 of graphs."""
    asked = {"tp": 4, "ep": 4, "max_model_len": 819200, "kv_dtype": "fp8"}
    found = lines("nvidia/GLM-5.2-NVFP4", "gb200", "0.26.0", **asked)
    assert found["KV cache"].bytes / GIB == pytest.approx(50.62, abs=0.01 * 184.31)
    assert found["CUDA graphs"].bytes / GIB == pytest.approx(0.0271 * 184.31, rel=0.25)
    short = lines("nvidia/GLM-5.2-NVFP4", "gb200", "0.26.0", **{**asked, "max_model_len": 16384})
    # FP8 rows on 10.x are FlashInfer's, which gathers none in 16 bits (platforms/cuda.py): eight keys of 128 and their scale, five times
    assert found["activations"].bytes - short["activations"].bytes == 5 * 8 * 132 * (819200 - 16384)
    assert lines("nvidia/GLM-5.2-NVFP4", "gb200", "0.32.0", **asked)["activations"].bytes < 2 * 576 * 2 * 819200 + 3 * GIB


def test_deepseek_v4_keeps_its_compressors_in_16_bits_and_two_tables_of_rotations() -> None:
    """DeepSeek-V4-Flash with its MTP layer on two cards of compute capability 12.0, 0.25.0: 75.64 GiB; two tables of 1,048,576 x 64 x 4."""
    asked = {"tp": 2, "max_num_seqs": 64, "max_num_batched_tokens": 4096, "kv_dtype": "fp8", "speculative": "mtp:2"}
    found = lines("deepseek-ai/DeepSeek-V4-Flash", "rtx-pro-6000-blackwell", "0.25.0", memory_fraction=0.95, **asked)
    assert sum(e.bytes for name, e in found.items() if name.startswith("weights")) / GIB == pytest.approx(75.64, abs=0.3)
    assert found["weights: rotary tables"].bytes == 2 * 1_048_576 * 64 * 4


@pytest.mark.parametrize(("version", "reserved"), [("0.12.0", False), ("0.13.0", True)])
def test_the_indexers_workspace_is_since_0_13_and_not_on_amds_boards(version: str, reserved: bool) -> None:
    """0.13.0 deepseek_v2.py: get_simultaneous of 40 x max_model_len keys of 128 + 4 bytes while attn_metadata is no dict."""
    asked = {"tp": 8, "max_num_seqs": 16}
    long, short = (lines("deepseek-ai/DeepSeek-V3.2", "h200", version, max_model_len=n, **asked) for n in (131072, 65536))
    more = long["activations"].bytes - short["activations"].bytes
    assert more == (40 * 65536 * 132 if reserved else 0)
    amd = [lines("deepseek-ai/DeepSeek-V3.2", "mi300x", version, max_model_len=n, **asked)["activations"].bytes for n in (131072, 65536)]
    assert amd[0] == amd[1]
