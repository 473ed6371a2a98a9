"""A modelled line has an interval, in every release of every engine: what is not arithmetic is not known to the byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan import catalogue
from kvplan.engines import ENGINES, facts
from kvplan.engines.common.phases import tightest
from kvplan.errors import KvplanError
from kvplan.ledger import PHASES, Entry
from kvplan.planner.plan import Plan
from kvplan.units import GIB
from tests.conftest import planned

#: Dense, hybrid with a tower, latent attention with experts, window layers with experts in MXFP4; on a board, a card, unified memory.
MODELS = ("meta-llama/llama-3.1-8b", "qwen/qwen3.6-27b", "deepseek-ai/deepseek-v3", "openai/gpt-oss-20b")
DEVICES = ({"device": "h200", "n_devices": 4}, {"device": "rtx-4090"}, {"device": "gb10"}, {"device": "apple-m4-max-128gb"})
#: Matrices that a quantised checkpoint leaves in 16 bits, as most do: no other size of them is likely.
PLAIN = "assumed not quantised"


def releases(engine: str) -> tuple[str | None, ...]:
    """The first, the last and some between."""
    known = facts(engine).versions
    return tuple(dict.fromkeys([*known[:: max(1, len(known) // 4)], *known[-1:]])) or (None,)


def plans(engine: str, release: str | None, more: Sequence[dict[str, Any]] = ({},)) -> Iterator[Plan]:
    """Of each model on each device that it runs on."""
    for model in MODELS:
        for device in DEVICES:
            for asked in more:
                try:
                    yield planned(model, engine=engine, engine_version=release, context=4096, **device, **asked)
                except KvplanError:
                    continue


def lines(engine: str, release: str | None) -> Iterator[Entry]:
    """Of every rank."""
    for plan in plans(engine, release):
        for ledger in plan.ledgers:
            yield from (*ledger.entries, *ledger.outside)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_modelled_line_has_zero_width(engine: str) -> None:
    found = [(release, line) for release in releases(engine) for line in lines(engine, release)]
    assert found
    for release, line in found:
        assert line.low <= line.bytes <= line.high, (release, line)
        if line.basis == "modelled" and line.bytes and PLAIN not in line.source:
            assert line.low < line.high, (release, line)
        if line.basis == "exact":
            assert line.low == line.bytes == line.high, (release, line)


#: Memory that others hold, so that margins of every size are met.
RESERVES = ({}, *({"reserve": f"{n}MiB"} for n in (1500, 5000, 7000)))
#: Sources below which no constant decides a certain answer (docs/budget.md).
FEW = 5


def few(entries: Sequence[Entry]) -> int:
    """The high ends of the lines whose constant was measured in fewer than five sources, in bytes."""
    return sum(e.high for e in entries if e.basis == "modelled" and e.sources is not None and e.sources < FEW)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_certain_answer_rests_on_few_sources(engine: str) -> None:
    """What is left is more than all lines of few sources could take again; the budget's lines and those beside it apart. Engines that
    few logs are known of call nothing certain."""
    sure, reserves = 0, RESERVES[:2] if engine in ("llama.cpp", "ollama") else RESERVES  # layers on eight cards take seconds to place
    for plan in plans(engine, releases(engine)[-1], reserves):
        for ledger in plan.ledgers:
            if plan.certainty == "certain" and plan.fits and plan.outcome.limiting_rank in ledger.ranks and ledger.limit_bytes:
                sure += 1
                assert plan.margin_bytes is not None
                assert plan.margin_bytes >= few(ledger.entries), (plan.model.id, plan.question["device"])
            if plan.outcome.start_certainty == "certain" and plan.starts and ledger.device_bytes is not None:
                for phase in PHASES[:-1]:
                    beside = few([entry for entry in ledger.outside if entry.held_in(phase)])
                    assert ledger.device_bytes - ledger.peak(phase).bytes >= beside, (plan.model.id, phase)
    assert bool(sure) is (facts(engine).measured_from is not None or engine == "ideal")


def test_every_constant_says_its_sources_and_few_of_them_widen() -> None:
    """Of fewer than five sources the interval is wider than the values that the residual files list, on both sides or down to nothing."""
    folder = Path(__file__).parents[2] / "kvplan" / "calibration"
    for engine in ("llama.cpp", "sglang", "tensorrt-llm", "vllm"):
        constants = catalogue.constants(engine)
        assert constants is not None
        assert all(c.groups is not None and c.groups <= c.cases for c in constants.values)
        listed = yaml.safe_load((folder / f"{engine}.residuals.yaml").read_text(encoding="utf-8")).get("values", [])
        for c in constants.values:
            said = [row["value"] for row in listed if (row["constant"], row["since"]) == (c.name, c.since)]
            ends = [float(part) for value in said for part in str(value).split(" to ")]
            if (c.groups or 0) < FEW and ends:
                assert c.low < min(ends) or c.low == 0, c
                assert c.high > max(ends), c
            assert c.low < c.high or c.value == 0, c


@pytest.mark.parametrize("fraction", [0.92, 0.93, 0.935, 0.94, 0.945, 0.95, 0.955, 0.96, 0.965, 0.97])
def test_a_constant_of_one_source_does_not_decide_for_certain(fraction: float) -> None:
    """NCCL's buffers over NVLink, 1.38 GiB and up to 2.07 (vllm.yaml outside_torch_links), from one source: beside the fraction, so that
    what a start leaves of the device may be theirs too where it is less than they are thought to hold. Certain is 1.41 times what they may
    take beyond 1.38 GiB, with 0.79 GiB for what no line says: 2.1 GiB and what other lines may take."""
    asked = {"engine": "vllm", "engine_version": "0.32", "device": "a100-80gb", "tp": 2, "context": 8192, "memory_fraction": fraction}
    plan = planned("meta-llama/llama-3.1-70b", **asked)
    least = tightest(plan.ledgers, serving=False)
    assert least is not None
    assert plan.certainty != "certain" or least.spare > 1.38 * GIB
    assert plan.certainty == "certain" or least.spare < 3 * GIB
