"""Uneven pipeline stages under vLLM: VLLM_PP_LAYER_PARTITION, and what each release does with layers left over."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.planner.plan import Plan
from kvplan.units import GIB
from tests.conftest import planned

LAYER = 16 * 8 * 128 * 2 * 2  # a block of 16 tokens, 8 heads of 128, K and V, 2 bytes


def ask(version: str, pp: int, partition: str | None = None, **question: Any) -> Plan:
    options = {"pp_layer_partition": partition} if partition else None
    asked: dict[str, Any] = {"kv_memory": GIB, "max_model_len": 4096, "engine_option": options} | question
    return planned("meta-llama/llama-3.1-8b", engine="vllm", engine_version=version, pp=pp, **asked)


def layers(plan: Plan) -> list[int]:
    """Layers of each stage, by their share of a block's bytes."""
    return [round(ledger.cache_bytes / (plan.capacity.blocks or 1) / LAYER) for ledger in plan.outcome.ledgers if plan.capacity]


@pytest.mark.parametrize("version", ["0.6.6", "0.10.2", "0.33.0"])
def test_the_partition_is_taken_as_it_is_written(version: str) -> None:
    plan = ask(version, 2, "20,12")
    assert layers(plan) == [20, 12]
    assert plan.capacity is not None
    assert plan.capacity.blocks == GIB // (20 * LAYER)  # the larger stage's memory is used up first
    assert plan.outcome.limiting_rank == 0


def test_each_rank_has_a_ledger_of_its_own_layers() -> None:
    """A layer is 2 x (4096 + 1024) x 4096 + 3 x 4096 x 14336 parameters of 2 bytes and two norms."""
    first, last = ask("0.33.0", 2, "20,12", device="h100-80gb", kv_memory=None).outcome.ledgers
    layer = 2 * (2 * (4096 + 1024) * 4096 + 3 * 4096 * 14_336)
    matrices = [
        sum(entry.bytes for entry in ledger.entries if entry.name in ("weights: attention", "weights: mlp")) for ledger in (first, last)
    ]
    assert matrices == [20 * layer, 12 * layer]


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ("20,12,0", "len(partitions)=3 does not match pp_size=2."),
        ("20,11", "sum(partitions)=31 does not match num_hidden_layers=32."),
        ("20;12", "Invalid partition string: 20;12"),
    ],
)
def test_what_get_pp_indices_refuses(partition: str, words: str) -> None:
    plan = ask("0.33.0", 2, partition)
    assert (plan.starts, plan.outcome.reason) == (False, words)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.7.3", [10, 10, 12]), ("0.8.5", [11, 11, 10]), ("0.33.0", [11, 11, 10])],
)
def test_layers_left_over(version: str, expected: list[int]) -> None:
    """vllm/distributed/utils.py get_pp_indices: all of them to the last stage, since 0.8 one each to the stages before it."""
    assert layers(ask(version, 3)) == expected


def test_no_pipelines_before_0_5_1() -> None:
    assert ask("0.5.0", 2).outcome.reason == "Pipeline parallelism is not supported yet."
    assert ask("0.5.1", 2).starts
