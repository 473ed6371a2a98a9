"""For which batches graphs are captured, where a question says it: vLLM's config/vllm.py _set_cudagraph_sizes, config/compilation.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.errors import SpecError
from kvplan.ledger import Entry
from kvplan.planner.plan import Plan
from tests.conftest import planned

LLAMA = "meta-llama/llama-3.1-8b"


def graphs(version: str = "0.19", **options: str) -> int:
    """Bytes of the line; 0.19 charges none, so that it lies beside the budget."""
    plan = planned(
        LLAMA, engine="vllm", engine_version=version, device="h100", context=4096, engine_option=options,
    )  # fmt: skip
    return sum(e.bytes for e in (*plan.ledgers[0].entries, *plan.ledgers[0].outside) if e.name == "CUDA graphs")


def whole_and_pieces(version: str, **options: str) -> float:
    return graphs(version, **options) / graphs(version)


def sizes(version: str, device: str = "h100", **options: str) -> str:
    question: dict[str, Any] = {"engine": "vllm", "engine_version": version, "device": device, "context": 4096}
    plan = planned(LLAMA, **question, engine_option=options)
    return next(e.source for e in (*plan.ledgers[0].entries, *plan.ledgers[0].outside) if e.name == "CUDA graphs")


def test_fewer_sizes_are_fewer_graphs() -> None:
    """1,024 sequences: 512 by default, which are 1, 2, 4, 31 steps of 8 and 17 of 16; whole steps and pieces alike."""
    assert whole_and_pieces("0.19", cudagraph_capture_sizes="1,2,4") == pytest.approx(3 / 51, rel=1e-6)
    assert whole_and_pieces("0.19", cudagraph_capture_sizes="4,2,1,2") == pytest.approx(3 / 51, rel=1e-6)
    assert whole_and_pieces("0.19", max_cudagraph_capture_size="16") == pytest.approx(5 / 51, rel=1e-6)  # 1, 2, 4, 8, 16
    assert whole_and_pieces("0.19", cudagraph_capture_sizes="8,9000") == pytest.approx(1 / 51, rel=1e-6)  # a step has 8,192 tokens
    assert "3 batch sizes captured" in sizes("0.33", cudagraph_capture_sizes="1,2,4")


def test_graphs_of_one_kind_alone() -> None:
    whole, pieces = graphs("0.19", cudagraph_mode="FULL_DECODE_ONLY"), graphs("0.19", cudagraph_mode="PIECEWISE")
    assert 0 < whole < graphs("0.19")
    assert whole + pieces == pytest.approx(graphs("0.19"), abs=2)
    assert graphs("0.12", cudagraph_mode="FULL") == graphs("0.12")  # what whole steps alone take there is in no log
    assert graphs("0.19", cudagraph_mode="none") == 0


def test_an_early_option_is_a_number_or_a_list() -> None:
    """0.11.0 config/__init__.py: one number is 1, 2, 4 and all steps of 8 up to it; from 0.11.1 on it is a list of one."""
    one = graphs("0.10.2", cuda_graph_sizes="64") / graphs("0.10.2", cudagraph_capture_sizes="1,2,4")
    assert one == pytest.approx((3 + 8) / 3, rel=1e-6)
    assert graphs("0.12.0", cuda_graph_sizes="64") == graphs("0.12.0", cudagraph_capture_sizes="64")


def test_two_sizes_that_contradict_stop_it() -> None:
    question: dict[str, Any] = {"engine": "vllm", "device": "h100", "context": 4096}
    both = {"cudagraph_capture_sizes": "1,2,4", "max_cudagraph_capture_size": "8"}
    plan = planned(LLAMA, **question, engine_option=both)
    assert plan.starts is False
    assert "customized max_cudagraph_capture_size(=8) should be consistent" in plan.verdict
    assert planned(LLAMA, **question, engine_option=both | {"max_cudagraph_capture_size": "4"}).starts


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cudagraph_capture_sizes", "1,x"),
        ("cudagraph_capture_sizes", "[]"),
        ("cudagraph_mode", "SOME"),
        ("max_cudagraph_capture_size", "0"),
    ],
)
def test_what_no_engine_would_read(key: str, value: str) -> None:
    with pytest.raises(SpecError):
        graphs(**{key: value})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--max-cudagraph-capture-size 16", "5 batch sizes"),
        ("--cudagraph-capture-sizes 1 2 4", "3 batch sizes"),
        ('--compilation-config \'{"cudagraph_capture_sizes": [1, 2], "cudagraph_mode": "PIECEWISE"}\'', "2 batch sizes"),
        ("-cc.max_cudagraph_capture_size 8", "4 batch sizes"),
    ],
)
def test_commands_say_the_same(words: str, said: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"vllm serve meta-llama/Llama-3.1-8B --max-model-len 4096 {words}\n")
    verdict = kvplan.check(script, device="h100")[0]
    assert verdict.status == "fits"
    assert not [f for f in verdict.findings if f.rule.startswith("not-modelled")]
    assert verdict.plan
    assert any(e.name == "CUDA graphs" and e.source.startswith(said) for e in verdict.plan.ledgers[0].entries)


def test_what_was_asked_is_written_back() -> None:
    asked = {"cudagraph_capture_sizes": "1,2,4", "cudagraph_mode": "PIECEWISE", "enable_eplb": "false"}
    text = kvplan.emit(LLAMA, "vllm", engine="vllm", device="h100", max_model_len=4096, engine_option=asked)
    assert '"cudagraph_capture_sizes": [1, 2, 4]' in text
    assert "--no-enable-eplb" in text


def planned_on(driver: str | None, version: str = "0.15.1", device: str = "l4", fraction: float = 0.9) -> Plan:
    return planned(
        "qwen/qwen2.5-7b", engine="vllm", engine_version=version, device=device, context=4096, memory_fraction=fraction,
        engine_option={"driver": driver} if driver else {},
    )  # fmt: skip


def of_driver(driver: str | None, **question: Any) -> Entry:
    return next(e for e in planned_on(driver, **question).ledgers[0].outside if e.name == "CUDA graphs")


def test_an_older_driver_holds_more_of_the_same_graphs() -> None:
    """vllm#5517: 3.8086 GiB with CUDA 12.2's and 12.3's driver (535, 545), 1.1367 with 12.4's (550), on one A10G."""
    new, old = of_driver("550.54.15"), of_driver("545.23.08")
    assert old.bytes / new.bytes == pytest.approx(3.8086 / 1.1367, rel=0.02)
    assert of_driver("535") == old
    assert of_driver("580.65.06") == new == of_driver(None)


@pytest.mark.parametrize(("model", "gib"), [("qwen/qwen2.5-1.5b", 1.76), ("qwen/qwen2.5-7b", 1.96)])
def test_graphs_that_driver_535_logged(model: str, gib: float) -> None:
    """Logs of H100 with 535.86.10, romeramarc/Tfg-mn5-llm-serving: within the interval, and nearer than half."""
    plan = planned(
        model,
        engine="vllm",
        engine_version="0.15.1",
        device="64784MiB",
        context=4096,
        max_num_seqs=256,
        engine_option={"driver": "535.86.10"},
    )
    found = next(e for e in plan.ledgers[0].outside if e.name == "CUDA graphs")
    assert found.low <= gib * (1 << 30) <= found.high
    assert found.bytes == pytest.approx(gib * (1 << 30), rel=0.25)


def test_a_driver_that_nobody_names_is_a_doubt_where_it_decides() -> None:
    """Of 22.0 GiB an L4 keeps 2.2 beside 0.9 of it: room for graphs of 0.6 GiB, not of 2.0. CUDA 13's builds need a newer one."""
    plan = planned_on(None)
    assert plan.starts
    assert plan.outcome.start_certainty != "certain"
    assert any("on an NVIDIA driver before 550" in note and "--engine-option driver=550" in note for note in plan.model.notes)
    for other in (planned_on("550"), planned_on(None, "0.20"), planned_on(None, device="rtx-5090"), planned_on(None, fraction=0.8)):
        assert other.starts
        assert not any("NVIDIA driver" in note for note in other.model.notes)
    assert planned_on("535", fraction=0.97).starts is False


def test_a_driver_is_a_version() -> None:
    with pytest.raises(SpecError, match=r"driver: 'R535': write what nvidia-smi calls the driver version, such as 550\.54\.15"):
        planned_on("R535")


OLDER_RUNNER = {"v2_model_runner": "false"}


@pytest.mark.parametrize(
    ("version", "told", "charged"), [("0.17.1", "1", False), ("0.19", "1", True), ("0.19", "0", False), ("0.26", "0", False)]
)
def test_the_estimate_is_taken_from_the_budget_where_it_is_told_to(version: str, told: str, charged: bool) -> None:
    """v1/worker/gpu_worker.py determine_available_memory: cudagraph_memory_estimate if VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS else 0."""
    question = {"engine": "vllm", "engine_version": version, "device": "h100", "context": 4096}
    usual = planned(LLAMA, **question, engine_option=OLDER_RUNNER)
    plan = planned(LLAMA, **question, engine_option={**OLDER_RUNNER, "estimate_graphs": told})
    assert ("CUDA graphs" in {e.name for e in plan.ledgers[0].entries}) is charged
    assert usual.capacity is not None
    assert plan.capacity is not None
    moved = 0 if charged == (version == "0.26") else graphs(version, **OLDER_RUNNER)
    assert abs(plan.capacity.kv_bytes - usual.capacity.kv_bytes) == pytest.approx(moved, abs=1 << 21)


def test_flashinfers_workspace_is_as_large_as_its_variable_says(tmp_path: Path) -> None:
    """v1/attention/backends/flashinfer.py _get_workspace_buffer: 394 MiB, of a card that takes it for 8-bit caches."""
    script = tmp_path / "run.sh"

    def held(before: str) -> int:
        script.write_text(f"{before}vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --max-model-len 8192 --max-num-seqs 8\n")
        verdict = kvplan.check(script, device="rtx-5090", engine_version="0.24.0")[0]
        assert not [f for f in verdict.findings if f.severity != "note" and "FLASHINFER" in f.message]
        assert verdict.plan is not None
        ledger = verdict.plan.ledgers[0]
        return next(e.bytes for e in (*ledger.entries, *ledger.outside) if e.name == "CUDA graphs")

    assert held("") - held("VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE=67108864 ") == (394 - 64) << 20


def test_graphs_of_more_than_any_log_captures_are_as_wide_as_they_are_far_from_it() -> None:
    """Four times the 512 tokens that published logs end at: four times the high end, whatever the sizes themselves count to."""
    lines = []
    for most in ("2048", "512"):
        options = {"max_cudagraph_capture_size": most}
        plan = planned("meta-llama/llama-3.1-8b", device="h100", max_num_batched_tokens=8192, engine_option=options)
        lines += [entry for entry in plan.ledgers[0].entries if entry.name == "CUDA graphs"]
    far, near = lines
    assert far.high / far.bytes == pytest.approx(4 * near.high / near.bytes, rel=0.05)
