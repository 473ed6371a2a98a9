"""What is held in each phase of a start, by hand; the device decides, not the engine's fraction."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan import engines
from kvplan.engines import ENGINES, facts
from kvplan.engines.common.lines import certainty
from kvplan.engines.common.phases import judged, tightest
from kvplan.engines.common.protocol import Outcome
from kvplan.ledger import Entry, Ledger, exact
from tests.conftest import planned

LLAMA = "meta-llama/llama-3.1-8b"
VLLM = engines.facts("vllm")


def ledger(device: int) -> Ledger:
    """A budget of 18: weights 10, activations 3 (2 to 4), a cache of the rest; beside it graphs of 2 (1 to 4)."""
    entries = (
        exact("context", 0, "a test", "process"),
        exact("weights", 10, "a test", "weights"),
        Entry("activations", 3, 2, 4, "modelled", "a test", "activations", ("profile", "warm up", "serve")),
        Entry("cache", 5, 4, 6, "modelled", "a test", "cache"),
    )
    graphs = Entry("graphs", 2, 1, 4, "modelled", "a test", "graphs")
    return Ledger((0,), "a card", 5, 1, entries, 18, (graphs,), device)


def test_peaks() -> None:
    """The cache fills what the budget leaves: larger activations are a smaller cache, and a capture, which is without them, holds less."""
    assert [tuple(peak) for peak in ledger(20).peaks] == [
        ("load", 10, 10, 10),
        ("profile", 13, 12, 14),
        ("allocate", 15, 14, 16),
        ("capture", 17, 15, 20),
        ("warm up", 20, 19, 22),
        ("serve", 20, 19, 22),
    ]


@pytest.mark.parametrize(("device", "starts", "sure"), [(25, True, "certain"), (22, True, "likely"), (20, True, "too close to call"),
                                                      (19, False, "likely"), (18, False, "certain")])  # fmt: skip
def test_the_device_decides(device: int, starts: bool, sure: str) -> None:
    """The tightest phase holds 20 (19 to 22): 2 more, of which 0.78 is 1.6 and 1.41 is 2.8, or 1 less."""
    made = Outcome(ledgers=(ledger(device),), capacity=None, starts=True, fits=True, margin_bytes=5, limiting_rank=0)
    found = judged(made, VLLM)
    assert (found.starts, found.fits, found.certainty) == (starts, starts, sure)
    assert ("at warm-up" in (found.reason or "")) != starts


@pytest.mark.parametrize(("held", "sure"), [(9_850, "certain"), (9_910, "likely"), (9_950, "too close to call")])
def test_what_no_line_says(held: int, sure: str) -> None:
    """Of 10,000 each start may hold 100 more than all of its lines, exact as they are: 1.41 times as much is 141, 0.78 times 78."""
    lines = (exact("context", 0, "a test", "process"), exact("weights", held, "a test", "weights"))
    one = Ledger((0,), "a card", 0, 0, lines, held, (), 10_000)
    made = Outcome(ledgers=(one,), capacity=None, starts=True, fits=True, margin_bytes=5, limiting_rank=0)
    assert judged(made, VLLM).start_certainty == sure


def test_kept_free_is_held_by_nobody() -> None:
    free = Entry("kept free", 4, 4, 4, "modelled", "a test", "activations", ())
    one = ledger(30)
    assert one._replace(entries=(*one.entries, free)).peaks == one.peaks


def test_service_is_judged_apart() -> None:
    one = ledger(30)
    prompt = Entry("a prompt", 15, 15, 15, "modelled", "a test", "activations", ("serve",))
    made = Outcome(
        ledgers=(one._replace(outside=(*one.outside, prompt)),), capacity=None, starts=True, fits=True, margin_bytes=5, limiting_rank=0
    )
    found = judged(made, VLLM)
    assert found.starts
    assert found.survives is False
    assert "in service" in (found.risk or "")
    assert tightest(made.ledgers, serving=True) != tightest(made.ledgers, serving=False)


def test_certainty_is_as_wide_as_one_in_a_hundred() -> None:
    """A 90 % interval reaches 1.645 standard deviations: 2.326 of them leave one in a hundred; all of it must agree to be likely."""
    assert certainty(True, True, True, 2326, 1645, 0) == "certain"
    assert certainty(True, True, True, 2325, 1645, 0) == "likely"
    assert certainty(False, True, True, 5000, 1645, 0) == "likely"
    assert certainty(True, True, True, 1644, 1645, 0) == "too close to call"
    assert certainty(False, False, False, -1645, 0, 1645) == "likely"
    assert certainty(False, False, False, -1644, 0, 1645) == "too close to call"
    assert certainty(False, False, False, -2326, 9999, 1645) == "certain", "what makes it worse does not make it fit"


#: Of each engine that takes a share of a device ahead: where the share goes, and a release before and after a change of its budget.
SHARES = [("vllm", "0.7"), ("vllm", "0.8.5"), ("vllm", "0.10.2"), ("vllm", "0.19"), ("vllm", "0.20"), ("vllm", "0.33"), ("sglang", "0.4.9"),
          ("sglang", "0.5.23"), ("tensorrt-llm", "1.0.0"), ("lmdeploy", None)]  # fmt: skip


@pytest.mark.parametrize("release", ["0.8.5", "0.9.2", "0.19"])
def test_vllm_at_975(release: str) -> None:
    """0.59 GiB is left of 23.5: a context takes 0.3 to 0.7, 67 graphs 0.4 to 1.1 GiB more."""
    asked: dict[str, Any] = {"engine": "vllm", "engine_version": release, "device": "rtx-4090", "context": 8192}
    plan = planned(LLAMA, **asked, memory_fraction=0.975)
    assert not plan.starts or plan.certainty == "too close to call"
    usual = planned(LLAMA, **asked, memory_fraction=0.9)
    assert usual.starts
    assert usual.certainty != "too close to call"
    assert usual.outcome.survives


@pytest.mark.parametrize(("engine", "release"), SHARES)
def test_a_card_that_is_full_is_no_certain_start(engine: str, release: str | None) -> None:
    """Llama-3.1-8B on an RTX 4090: 0.59 GiB of 23.5 are not counted on.

    Two releases have room: V0 captures its graphs where the profile run's batch was, SGLang 0.4.9 captures four sizes there.
    """
    plan = planned(LLAMA, engine=engine, engine_version=release, device="rtx-4090", context=4096, memory_fraction=0.975)
    roomy = (engine, release) in (("vllm", "0.7"), ("sglang", "0.4.9"))
    assert plan.outcome.start_certainty == "too close to call" or not plan.starts or roomy


def with_a_share() -> list[tuple[str, str, dict[str, str]]]:
    """Every release of every engine that takes a share of a device ahead; transformers does for a paged cache alone."""
    named = {name: facts(name).versions for name in ENGINES if facts(name).pool == "set aside"}
    paged = {"cache_implementation": "paged"}
    return [
        *((name, release, {}) for name, releases in named.items() for release in releases),
        *(("transformers", release, paged) for release in facts("transformers").versions[-3:]),
    ]


@pytest.mark.parametrize(("engine", "release", "options"), with_a_share())
def test_no_release_surely_starts_on_all_but_half_a_percent(engine: str, release: str, options: dict[str, str]) -> None:
    """0.12 of the 23.5 GiB of an RTX 4090 are less than the least context of a process. V0's fraction had the context in it."""
    asked: dict[str, Any] = {"engine": engine, "engine_version": release, "device": "rtx-4090", "engine_option": options}
    plan = planned(LLAMA, **asked, context=4096, memory_fraction=0.995)
    inside = engine == "vllm" and release in ("0.2", "0.2.5", "0.2.6", "0.2.7", "0.3")
    assert not plan.starts or plan.outcome.start_certainty in ("likely" if inside else "", "too close to call")


def test_engines_that_take_a_share_are_all_asked() -> None:
    assert {name for name, _, _ in with_a_share()} == {"vllm", "sglang", "tensorrt-llm", "lmdeploy", "transformers"}


@pytest.mark.parametrize(
    ("release", "seqs", "starts"), [("0.19", 1024, True), ("0.20", 1024, False), ("0.33", 1024, False), ("0.20", 512, True)]
)
def test_hybrids_want_a_block_of_states_for_every_sequence(release: str, seqs: int, starts: bool) -> None:
    """config/compilation.py resolve_cudagraph_mode_and_sizes, from 0.20 on: Qwen3.6-27B on a card of 96 GB has some 700 blocks."""
    plan = planned("qwen/qwen3.6-27b", engine="vllm", engine_version=release, device="rtx-pro-6000-blackwell", max_num_seqs=seqs)
    assert plan.starts is starts
    assert starts or "Mamba cache blocks" in plan.verdict


@pytest.mark.parametrize("release", ["0.20", "0.28", "0.33"])
def test_a_hybrid_near_as_many_sequences_as_blocks_is_too_close(release: str) -> None:
    """Its blocks are 20 to 32 % too many against vllm-project/recipes#831; a tenth more than its sequences is no certain start."""
    asked: dict[str, Any] = {"engine": "vllm", "engine_version": release, "device": "rtx-pro-6000-blackwell"}
    few = planned("qwen/qwen3.6-27b", max_num_seqs=8, **asked)
    assert few.capacity is not None
    assert few.capacity.blocks is not None
    near = planned("qwen/qwen3.6-27b", max_num_seqs=few.capacity.blocks * 9 // 10, **asked)
    assert not near.starts or near.outcome.start_certainty == "too close to call"
    assert few.outcome.start_certainty != "too close to call"
