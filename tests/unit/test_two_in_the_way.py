"""A setting and memory that both stand in the way: both are said, and changes that need both are named together."""

from __future__ import annotations

import kvplan
from kvplan.api.asking import asked
from kvplan.planner.evaluate import holds
from kvplan.report.answer import changes, next_numbers, options, sentence

LLAMA = "meta-llama/llama-3.1-8b"
#: 4 GiB of cache each (32,768 x 131,072 B); vLLM has 0.92 of 79.19 GiB, less 15 of weights and some 1.5: 14 are 56, 15 are 60.
MANY = {"device": "h100", "context": "32k", "batch": 16, "max_num_seqs": 8}


def test_a_number_that_was_set_and_memory_are_both_said() -> None:
    plan = kvplan.estimate(LLAMA, **MANY)
    assert "; memory holds 14, and max_num_seqs is 8." in sentence(plan)
    rows = dict(next_numbers(plan))
    assert rows["most requests of 32,768 tokens"] == "8, by max_num_seqs; memory holds 14"
    assert rows["longest context of 16 requests"] == "none fits: max_num_seqs is 8"
    assert holds(asked(LLAMA, **{**MANY, "batch": 14, "max_num_seqs": 14}))
    assert not holds(asked(LLAMA, **{**MANY, "batch": 15, "max_num_seqs": 15}))


def test_changes_that_need_both_are_named_together() -> None:
    """16 x 4 GiB are 64, in 8 bits 32."""
    found = {options(one): one for one in changes(kvplan.estimate(LLAMA, **MANY))}
    assert {"--batch 8", "--kv-dtype fp8 --max-num-seqs 16", "--batch 14 --max-num-seqs 14", "--tp 2 --max-num-seqs 16"} <= set(found)
    for one in found.values():
        sets = {one.option: one.value, **one.also}
        assert holds(asked(LLAMA, **{**MANY, **sets})), sets
        assert len(sets) == 1 or not all(holds(asked(LLAMA, **{**MANY, name: value})) for name, value in sets.items())


def test_a_length_that_was_set_and_memory_are_both_said() -> None:
    plan = kvplan.estimate(LLAMA, device="h100", max_model_len="16k", context="32k", batch=64)
    assert "lacks 201.1 GiB of cache for 64 requests of 32,768 tokens, and max_model_len is 16,384." in sentence(plan)
    said = [options(one) for one in changes(plan)]
    assert any(one.endswith("--max-model-len 32768") for one in said)
    assert any(one.startswith("--context ") for one in said)


def test_a_setting_alone_is_lifted_alone() -> None:
    """Ten requests are 40 GiB, which memory has."""
    found = [options(one) for one in changes(kvplan.estimate(LLAMA, **{**MANY, "batch": 10}))]
    assert found[0] == "--max-num-seqs 10"
    assert not any(" --max-num-seqs" in one for one in found)
