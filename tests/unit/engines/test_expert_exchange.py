"""What experts over ranks take beside their weights: copies, DeepEP's buffers, EPLB's books. Numbers by hand from the sources named.

DeepSeek-V3: 58 layers of 256 experts, 3 matrices of 7,168 x 2,048 in FP8 with a 4-byte scale per 128 x 128, 8 of them for a token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.engines.common.deepep import low_latency_bytes, normal_bytes
from kvplan.planner.plan import Plan
from tests.conftest import planned

MIB, GIB = 1 << 20, 1 << 30
V3 = "deepseek-ai/deepseek-v3"
#: One expert of it: 3 x 7,168 x 2,048 bytes and 3 x 56 x 16 scales.
EXPERT = 3 * 7168 * 2048 + 3 * 56 * 16 * 4


def ask(engine: str = "vllm", model: str = V3, **question: Any) -> Plan:
    given = {"device": "h200", "context": 4096, **question}
    return planned(model, engine=engine, **given)


def lines(plan: Plan) -> dict[str, int]:
    return {e.name: e.bytes for e in (*plan.ledgers[0].entries, *plan.ledgers[0].outside)}


def wide(version: str = "0.33", ranks: int = 16, **options: str) -> Plan:
    return ask(engine_version=version, dp=ranks, ep=ranks, engine_option=options)


def test_low_latency_buffers_by_hand() -> None:
    """csrc/legacy/config.hpp LowLatencyLayout: 256 tokens, 288 experts; 14,336 bytes and 56 minima and maxima of 4 come back."""
    message = 2 * 7168 + 4 * 56
    one_way = 288 * 256 * message
    assert low_latency_bytes(256, 7168, 288) == 4 * one_way + 2 * 1152 + 128  # 288 counters of 4 bytes, and one block of 128 more
    assert low_latency_bytes(128, 7168, 256) == pytest.approx(4 * 256 * 128 * message, rel=1e-5)


def test_high_throughput_buffers_by_hand() -> None:
    """get_nvl_buffer_size_hint with Config(20, 6, 256, 6, 128): 10 channels x 8 peers x 256 tokens of 14,336 + 8 + 128 x 16 bytes."""
    message = 14336 + 8 + 128 * (8 + 4 + 4)
    near, far = normal_bytes(7168, 8)
    assert near == pytest.approx(10 * 8 * 256 * message, rel=1e-4)
    assert far == 0  # one node
    near, far = normal_bytes(7168, 16)  # 288 tokens near, 140 far: 128 in whole messages of 20
    assert near == pytest.approx(10 * 8 * 288 * message, rel=1e-4)
    assert far == pytest.approx(2 * 10 * 2 * 140 * (message + 16), rel=1e-3)


@pytest.mark.parametrize(("copies", "held"), [(0, 16), (16, 17), (32, 18)])
def test_copies_of_experts_are_dealt_out_with_them(copies: int, held: int) -> None:
    """vLLM models/deepseek_v2.py: (256 + copies) / 16 on a rank."""
    found = lines(wide(enable_eplb="true", num_redundant_experts=str(copies)))
    assert found["weights: experts"] == 58 * held * EXPERT
    assert found["EPLB: room for experts"] == held * EXPERT  # eplb_state.py expert_buffer
    assert found["EPLB: loads of experts"] == 1001 * 58 * (256 + copies) * 4  # expert_load_window and expert_load_pass, int32


def test_what_balancing_keeps_changes_with_releases() -> None:
    window = lines(wide("0.10", enable_eplb="true", eplb_window_size="500"))
    assert window["EPLB: loads of experts"] == 501 * 58 * 16 * 4  # 0.10: a rank's own experts alone
    assert "EPLB: room for experts" not in window
    assert window["EPLB: experts in exchange"] == 16 * EXPERT  # rebalance_execute.py makes it each time
    staged = {e.name: e for e in wide("0.22", enable_eplb="true").ledgers[0].entries}["EPLB: room for experts"]
    assert (
        staged.high >= staged.bytes + 17 * 16 * EXPERT
    )  # eplb_communicator.py: a partition of NIXL's buffer for each of 16 ranks, and one
    assert not [name for name in lines(wide()) if name.startswith("EPLB")]


def test_copies_take_a_share_of_whole_experts_too() -> None:
    """A model whose parameters are reported stays what it is: copies are bytes of ranks."""
    plain, more = wide(), wide(enable_eplb="true", num_redundant_experts="32")
    assert plain.model.parameters == more.model.parameters
    held = [plan.capacity.kv_bytes for plan in (plain, more) if plan.capacity]
    assert held[0] > held[1] + 2 * 58 * EXPERT


@pytest.mark.parametrize(
    ("version", "question", "words"),
    [
        ("0.33", {"tp": 8, "engine_option": {"enable_eplb": "true"}}, "enable_expert_parallel must be True"),
        ("0.33", {"tp": 8, "ep": 8, "engine_option": {"num_redundant_experts": "8"}}, "num_redundant_experts is set to 8 but EPLB is not"),
        ("0.9.2", {"tp": 8, "ep": 8, "engine_option": {"num_redundant_experts": "8"}}, "num_redundant_experts should be used with EPLB"),
        ("0.33", {"tp": 8, "ep": 8, "engine_option": {"enable_eplb": "true", "num_redundant_experts": "9"}}, "Got 265 experts and 8 EP"),
        ("0.20", {"tp": 8, "ep": 8, "engine_option": {"enable_eplb": "true", "num_redundant_experts": "9"}}, "265 experts and 8 ranks"),
    ],
)
def test_what_stops_copies_of_experts(version: str, question: dict[str, Any], words: str) -> None:
    """config/parallel.py, fused_moe/layer.py."""
    plan = ask(engine_version=version, **question)
    assert plan.starts is False
    assert words in plan.verdict
    assert ask(engine_version=version, tp=8, ep=8, engine_option={"enable_eplb": "true", "num_redundant_experts": "8"}).starts


def test_deepep_holds_buffers_of_its_own() -> None:
    """all2all.py: VLLM_DEEPEP_BUFFER_SIZE_MB over NVLink, again over the network between nodes; 32 MiB of workspace (buffer.hpp)."""
    near, far = lines(wide(ranks=8, all2all_backend="deepep_high_throughput")), lines(wide(all2all_backend="deepep_high_throughput"))
    assert near["DeepEP buffers"] == 1024 * MIB + 32 * MIB
    assert far["DeepEP buffers"] == 2 * 1024 * MIB + 32 * MIB
    smaller = wide(ranks=8, all2all_backend="deepep_high_throughput", deepep_buffer_size_mb="256")
    assert lines(smaller)["DeepEP buffers"] == (256 + 32) * MIB
    assert "CUDA graphs" not in near  # config/compilation.py turns them off
    assert "CUDA graphs" in lines(wide(ranks=8))


def test_low_latency_follows_tokens_and_experts() -> None:
    """256 tokens by default (0.20 on a step has no more, before it was cut); NVSHMEM takes pieces of 512 MiB."""
    plan = wide(all2all_backend="deepep_low_latency", enable_eplb="true", num_redundant_experts="32")
    entry = {e.name: e for e in plan.ledgers[0].entries}["DeepEP buffers"]
    assert plan.question["max_num_batched_tokens"][0] == 256
    asked = low_latency_bytes(256, 7168, 288)  # 4,095 MiB
    assert entry.bytes == (1024 + 32) * MIB + 8 * 512 * MIB
    assert entry.low == 1024 * MIB + asked
    assert entry.high == entry.bytes + 9 * GIB // 4
    rows = 288 * 256  # every rank's 256 tokens in each of 18 experts, for 16 ranks
    assert lines(plan)["experts' batches"] == rows * 2 * (7168 + 2048 + 7168)
    early = wide("0.12", all2all_backend="deepep_low_latency")
    assert early.question["max_num_batched_tokens"][0] == 8192
    assert lines(early)["DeepEP buffers"] == lines(wide("0.33", all2all_backend="deepep_low_latency"))["DeepEP buffers"]
    twice = wide(all2all_backend="deepep_low_latency", enable_eplb="true", num_redundant_experts="32")
    assert twice.ledgers == plan.ledgers
    more = ask(dp=16, ep=16, max_num_batched_tokens=512, engine_option={"all2all_backend": "deepep_low_latency"})
    assert {e.name: e for e in more.ledgers[0].entries}["DeepEP buffers"].low == 1024 * MIB + low_latency_bytes(512, 7168, 256)


@pytest.mark.parametrize(
    ("version", "fraction", "logged", "starts"), [("0.11.0", 0.9, 0.83, True), ("0.12.0", 0.9, -0.48, False), ("0.12.0", 0.95, 3.47, True)]
)
def test_a_public_start_with_low_latency_kernels(version: str, fraction: float, logged: float, starts: bool) -> None:
    """ai-dynamo/dynamo pull request 5144: DeepSeek-R1 on 16 H100, GiB that vLLM says are left for the cache; below 0 it stops."""
    options = {"all2all_backend": "deepep_low_latency"}
    plan = ask(
        model="deepseek-ai/deepseek-r1", engine_version=version, device="h100-80gb", dp=16, ep=16, memory_fraction=fraction,
        enforce_eager=True, max_model_len=4096, engine_option=options,
    )  # fmt: skip
    assert plan.capacity
    assert plan.capacity.kv_bytes_low <= max(0, logged) * GIB <= plan.capacity.kv_bytes_high
    assert plan.starts is starts or plan.certainty == "too close to call"


@pytest.mark.parametrize("question", [{"tp": 8, "ep": 8}, {"dp": 8}, {"tp": 8}, {"dp": 8, "ep": 8, "model": "qwen/qwen3-8b"}])
def test_no_buffers_where_nothing_is_exchanged(question: dict[str, Any]) -> None:
    """fused_moe/config.py use_all2all_kernels: data-parallel ranks with expert parallelism alone; no experts, no exchange."""
    if question.get("model"):
        question = {"dp": 8, "model": "qwen/qwen3-8b"}
    plan = ask(**question, engine_option={"all2all_backend": "deepep_low_latency"})
    assert "DeepEP buffers" not in lines(plan)


@pytest.mark.parametrize(
    ("version", "backend", "sure"),
    [
        ("0.33", "mori_low_latency", False),
        ("0.33", "nixl_ep", False),
        ("0.15", "pplx", False),
        ("0.20", "pplx", True),
        ("0.33", "naive", True),
    ],
)
def test_an_exchange_that_is_not_sized_is_said(version: str, backend: str, sure: bool) -> None:
    """`pplx` and `naive` are other names of the default from 0.20 on (config/parallel.py)."""
    plan = wide(version, all2all_backend=backend)
    assert plan.starts
    assert (plan.certainty == "too close to call") is not sure
    assert any(f"all2all_backend {backend}" in note for note in plan.model.notes) is not sure


@pytest.mark.parametrize(
    ("words", "before", "copies"),
    [
        ("--enable-eplb --eplb-config '{\"num_redundant_experts\": 32}'", "", 32),
        ("--enable-eplb --eplb-config.num_redundant_experts 16", "", 16),
        ("--all2all-backend deepep_low_latency", "VLLM_DEEPEP_BUFFER_SIZE_MB=512 ", 0),
    ],
)
def test_commands_say_the_same(words: str, before: str, copies: int, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"{before}vllm serve deepseek-ai/DeepSeek-V3 -dp 16 --enable-expert-parallel --max-model-len 4096 {words}\n")
    verdict = kvplan.check(script, device="h200")[0]
    assert verdict.status == "fits"
    assert not [f for f in verdict.findings if f.rule.startswith("not-modelled")]
    found = lines(verdict.plan)
    assert found["weights: experts"] == 58 * (256 + copies) // 16 * EXPERT
    assert found.get("DeepEP buffers", 0) == (
        0 if copies else (512 + 32) * MIB + round(low_latency_bytes(256, 7168, 256) / 2**29 + 0.5) * 512 * MIB
    )


def spread(version: str = "0.5.23", ranks: int = 16, **options: str) -> Plan:
    return ask("sglang", engine_version=version, tp=ranks, ep=ranks, engine_option=options)


def test_sglang_deals_copies_out_too() -> None:
    """eplb/expert_location.py: (256 + copies) / 16 on a rank; a recorder of 1,000 steps of every layer; one layer's experts in exchange."""
    found = lines(spread(enable_eplb="true", ep_num_redundant_experts="32"))
    assert found["weights: experts"] == 58 * 18 * EXPERT
    assert found["EPLB: loads of experts"] == 1000 * 61 * 288 * 4
    assert found["EPLB: experts in exchange"] == 18 * EXPERT
    alone = lines(spread(ep_num_redundant_experts="16"))  # copies need no balancing here
    assert alone["weights: experts"] == 58 * 17 * EXPERT
    assert not [name for name in alone if name.startswith("EPLB")]


def test_sglang_deepep_has_both_kinds_of_buffers_by_default() -> None:
    """token_dispatcher/deepep.py: hints over NVLink, the larger of the network's and the low-latency kernels' 128 tokens."""
    (near, far), slow = normal_bytes(7168, 16), low_latency_bytes(128, 7168, 256)
    pieces = 4 * 512 * MIB  # of NVSHMEM, for 1,820 MiB
    assert far < slow < pieces
    assert lines(spread(moe_a2a_backend="deepep"))["DeepEP buffers"] == near + pieces + 32 * MIB
    low = spread(moe_a2a_backend="deepep", deepep_mode="low_latency")
    assert lines(low)["DeepEP buffers"] == pieces + 32 * MIB
    normal = spread(moe_a2a_backend="deepep", deepep_mode="normal")
    assert lines(normal)["DeepEP buffers"] == near + 512 * MIB + 32 * MIB
    assert "CUDA graphs" not in lines(normal)  # server_args.py _handle_a2a_moe
    assert "CUDA graphs" in lines(low)
    more = spread(moe_a2a_backend="deepep", deepep_num_max_dispatch_tokens_per_rank="512")
    assert lines(more)["DeepEP buffers"] == near + 15 * 512 * MIB + 32 * MIB  # 4 x 1,820 MiB


def test_sglang_shares_experts_by_all_of_tp_under_deepep() -> None:
    plan = ask("sglang", tp=8, engine_option={"moe_a2a_backend": "deepep"})
    assert plan.question["ep"] == (8, "engine default")
    assert "DeepEP buffers" in lines(plan)
    assert "DeepEP buffers" not in lines(ask("sglang", model="qwen/qwen3-8b", tp=8, engine_option={"moe_a2a_backend": "deepep"}))
    other = ask("sglang", tp=8, engine_option={"moe_a2a_backend": "mooncake"})
    assert other.certainty == "too close to call"
    assert any("moe_a2a_backend mooncake" in note for note in other.model.notes)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"tp": 8, "engine_option": {"enable_eplb": "true"}}, "assert self.ep_size > 1"),
        ({"tp": 8, "ep": 8, "engine_option": {"ep_num_redundant_experts": "9"}}, "265 experts over 8 ranks"),
    ],
)
def test_what_stops_copies_of_experts_in_sglang(question: dict[str, Any], words: str) -> None:
    plan = ask("sglang", **question)
    assert plan.starts is False
    assert words in plan.verdict


def test_sglang_captures_the_batches_that_are_listed() -> None:
    """server_args.py: the largest of the list is cuda_graph_max_bs, 2 MiB of each are kept free by the fraction (from 0.5.3 on)."""

    def graphs(**options: str) -> str:
        entries = ask("sglang", model="qwen/qwen3-8b", device="h100", engine_option=options).ledgers[0].outside
        return next(e.source for e in entries if e.name == "CUDA graphs")

    assert graphs(cuda_graph_bs="1,2,4,8").startswith("4 batch sizes")
    assert graphs(cuda_graph_max_bs="8").startswith("4 batch sizes")
    few, many = (
        ask("sglang", model="qwen/qwen3-8b", device="h100", engine_option={"cuda_graph_bs": sizes}).question["memory_fraction"][0]
        for sizes in ("1,2,4,8", "1,2,4,8,4096")
    )
    assert few > many


@pytest.mark.parametrize(
    ("words", "before", "option"),
    [
        ("--moe-a2a-backend deepep --deepep-mode low_latency", "", ("deepep_mode", "low_latency")),
        (
            "--moe-a2a-backend deepep",
            "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK=256 ",
            ("deepep_num_max_dispatch_tokens_per_rank", "256"),
        ),
        ("--ep 8 --ep-num-redundant-experts 8 --enable-eplb", "", ("ep_num_redundant_experts", "8")),
        ("--cuda-graph-bs-decode 1 2 4", "", ("cuda_graph_bs", "1,2,4")),
    ],
)
def test_sglang_commands_say_the_same(words: str, before: str, option: tuple[str, str], tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    base = "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --context-length 4096"
    script.write_text(f"{before}{base} {words}\n")
    verdict = kvplan.check(script, device="h200")[0]
    assert not [f for f in verdict.findings if f.rule.startswith(("not-modelled", "unknown-"))]
    assert verdict.plan
    assert option in dict(verdict.plan.question["engine_option"][0]).items()
