"""What a process holds on a card beside its buffers: what public breakdowns of llama.cpp at exit left unaccounted, without a display."""

from __future__ import annotations

import pytest

from kvplan.engines.common.lines import Span, modelled
from kvplan.engines.llama_cpp.situation import spare
from kvplan.units import MIB
from tests.conftest import planned

#: (device, `unaccounted` in MiB, where it was printed). Those of NVIDIA told what running adds, not what a card takes.
AT_EXIT = [
    ("rtx-4090", 451, "ggml-org/llama.cpp#15860"),
    ("rtx-4090", 456, "ggml-org/llama.cpp#15860"),
    ("rtx-pro-6000-blackwell", 703, "public logs of four RTX PRO 6000 Max-Q"),
    ("rtx-pro-6000-blackwell", 712, "public logs of four RTX PRO 6000 Max-Q"),
    ("gtx-1080", 174, "public page of a GTX 1080"),
    ("rx-9060-xt-16gb", 17, "ggml-org/llama.cpp#20858, Vulkan"),
]


def interval(device: str) -> tuple[int, int, int]:
    plan = planned("meta-llama/llama-3.1-8b", engine="llama.cpp", device=device, weight_dtype="q4_k_m", context=4096, batch=1)
    line = next(entry for entry in plan.ledgers[0].entries if entry.name == "CUDA context")
    return line.low, line.bytes, line.high


@pytest.mark.parametrize(("device", "mib", "where"), AT_EXIT)
def test_the_interval_holds_what_was_left_unaccounted(device: str, mib: int, where: str) -> None:
    low, _, high = interval(device)
    assert low <= mib * MIB <= high, where


def test_it_grows_with_the_multiprocessors() -> None:
    """119 MiB of an RTX 3060 (28) and 281 of an RTX 3090 Ti (84) in one log: 2.9 MiB for each; 561 of an RTX PRO 6000 (188)."""
    small, large = interval("rtx-3060-12gb"), interval("rtx-3090-ti")
    assert 2 * MIB <= (large[1] - small[1]) / (84 - 28) <= 4 * MIB
    assert small[2] - small[0] < 400 * MIB


def test_an_amount_of_memory_says_nothing_of_a_card() -> None:
    low, _, high = interval("24GiB")
    assert low == 0
    assert high > 700 * MIB


def test_widths_add_in_squares_where_sources_are_many() -> None:
    """3 and 4 of lines apart are 5; 3 and 4 of two lines of which one has two sources, or both are weights, are 7."""
    line = modelled("a", Span(10, 7, 13), "s", "process", sources=9)
    many, few = (modelled("b", Span(10, 6, 14), "s", "activations", sources=n) for n in (9, 2))
    weights = [line._replace(kind="weights"), many._replace(kind="weights")]
    assert spare(100, [line, many]) == (80, 75, 85)
    assert spare(100, [line, few]) == spare(100, weights) == spare(100, [line, many], together=True) == (80, 73, 87)


def test_more_slots_than_any_build_has_are_refused_by_name() -> None:
    """32,768 tokens over 300 slots leave a slot none, and bloom says no length of its own; llama.cpp has 256 at most (LLAMA_MAX_SEQ)."""
    plan = planned("bigscience/bloom-560m", engine="llama.cpp", device="rtx-4090", context=8192, max_model_len=32768, batch=300)
    assert plan.starts is False
    assert "n_seq_max must be <= 256" in plan.verdict


def test_slots_that_keep_nothing_of_their_own_put_no_answer_in_doubt() -> None:
    """A server's four slots of a model with attention alone share the cache: the same bytes, and the answer as sure as without."""
    asked = {"engine": "llama.cpp", "device": "rtx-4070-ti", "weight_dtype": "q5_k_m"}
    alone, server = (planned("qwen/qwen2.5-14b", engine_option=options, **asked) for options in ({}, {"server": "true"}))
    assert (alone.margin_bytes, alone.certainty) == (server.margin_bytes, server.certainty)
