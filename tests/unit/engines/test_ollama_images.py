"""What Ollama's own engine reserves for the largest image, against what people published of its graphs and sizes, and by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engines.llama_cpp.ollama import images
from kvplan.engines.llama_cpp.ollama.layout import layout
from kvplan.engines.llama_cpp.ollama.rules import find
from kvplan.units import GIB, MIB
from tests.conftest import planned
from tests.unit.engines.test_ollama import PLAIN

SEEING = PLAIN._replace(tower=1)


def tower(release: str, arch: str, *, flash: bool = False) -> Any:
    return images.tower(find(release)[1], SEEING._replace(arch=arch), flash=flash)


def test_a_graph_that_was_printed() -> None:
    """ollama#11355: 9,646,586,240 B for Mistral Small 3.2 on 0.9.6, with flash attention on."""
    assert tower("0.9.6", "mistral3", flash=True).point == pytest.approx(9_646_586_240, rel=1e-4)


@pytest.mark.parametrize(("release", "gib"), [("0.13.3", 1.8), ("0.13.4", 6.7)])
def test_a_larger_picture_from_one_release_to_the_next(release: str, gib: float) -> None:
    """ollama#13687: Qwen2.5-VL's limit went from 1,280 x 28 x 28 pixels to 2^21; flash attention changes nothing."""
    found = tower(release, "qwen25vl", flash=True)
    assert found.low < gib * GIB < found.high
    assert found == tower(release, "qwen25vl")


def test_scores_of_8100_patches() -> None:
    """Qwen3-VL: 2,048 pixels over the root of 2 are 45 times 32, so 90 x 90 patches: scores of 16 heads in f32 are 4,199,040,000 B."""
    plain, flash = tower("0.12.7", "qwen3vlmoe"), tower("0.13.2", "qwen3vlmoe", flash=True)
    assert plain.point - flash.point == 90**4 * 16 * 4
    assert tower("0.12.8", "qwen3vlmoe", flash=True) == plain  # attention without a cache is not the fast one before 0.13.2


def test_nothing_without_a_tower_or_before_it_is_reserved() -> None:
    rules = find("0.24.0")[1]
    assert images.tower(rules, PLAIN._replace(arch="qwen35"), flash=False).high == 0
    assert images.batch(rules, PLAIN._replace(arch="qwen35")) == 0
    assert images.tower(find("0.7.0")[1], SEEING._replace(arch="gemma3"), flash=False).high == 0


@pytest.mark.parametrize(
    ("release", "arch", "tokens"),
    [
        ("0.13.3", "qwen25vl", 1 + 35 * 35),  # SameBatch is the image's tokens; minBatch one more
        ("0.13.4", "qwen25vl", 1 + 51 * 51),
        ("0.13.4", "qwen3vl", 1 + 45 * 45),
        ("0.24.0", "qwen35", 2 + 45 * 45),  # qwen3next/model.go: tokensPerGrid + 1
        ("0.24.0", "gemma3", 0),  # 256 tokens and 4: no more than a batch
    ],
)
def test_tokens_that_one_batch_takes(release: str, arch: str, tokens: int) -> None:
    assert images.batch(find(release)[1], SEEING._replace(arch=arch)) == tokens


@pytest.mark.parametrize(("release", "gb", "off"), [("0.13.3", 9.4, 0.5), ("0.13.4", 14, 0.5)])
def test_sizes_of_qwen25vl(release: str, gb: float, off: float) -> None:
    """ollama#13722, `ollama ps` at 16,384 tokens: 9.4 GB on 0.13.3 (scores of 1,226 tokens and 28 heads), 14 after it (the tower's)."""
    plan = planned(
        "Qwen/Qwen2.5-VL-7B-Instruct", engine="ollama", engine_version=release, weight_dtype="q4_k_m", device="24GiB", context=16_384
    )
    held = sum(e.bytes for e in plan.outcome.ledgers[0].entries if e.kind not in ("process", "others"))
    assert held / 1e9 == pytest.approx(gb, abs=off)


def test_what_is_in_ram_of_qwen3_vl() -> None:
    """ollama#12846: 25 GB on a 3090, 23 % of it in RAM: the output, and with it the tower and its graph.

    Published 3090s have 23.1 to 23.7 GiB free; 24.5 to 25.5 GB, 76.5 to 77.5 and 22.5 to 23.5 % of it is what the rounded numbers say.
    """
    plan = planned(
        "Qwen/Qwen3-VL-30B-A3B-Instruct",
        engine="ollama",
        engine_version="0.12.7",
        weight_dtype="q4_k_m",
        device="rtx-3090",
        host_memory="29GiB",
        context=8192,
        engine_option={"flash_attn": "on", "device_memory": "23.3GiB"},
    )
    card, host = ([e for e in ledger.entries if e.kind not in ("process", "others")] for ledger in plan.outcome.ledgers[:2])
    assert 24.5 * 0.765 <= sum(e.bytes for e in card) / 1e9 <= 25.5 * 0.775
    assert 24.5 * 0.225 <= sum(e.bytes for e in host) / 1e9 <= 25.5 * 0.235
    assert {"weights: tower", "weights: head", "compute buffer"} <= {e.name for e in host}


@pytest.mark.parametrize(
    ("free", "cards"),
    [
        ([1700], (11,)),  # 1,700 - 500 takes 1,000 + 200
        ([1699], (10,)),  # without the output the graph is 100: 1,599 take all ten
        ([600], (5,)),
        ([1300, 800], (10, 1)),  # the second card has the large graph and the output, ten are 5/6 of what is left on the first
        ([1300, 500], (7, 4)),  # 800 and 500 with the graph on the first; on the second it leaves nothing, and all on the first were tried
    ],
)
def test_the_card_of_the_output_has_the_large_graph(free: list[int], cards: tuple[int, ...]) -> None:
    layers = [100 * MIB] * 10 + [200 * MIB]
    room = [(457 + n) * MIB for n in free]
    assert layout(layers, room, 100 * MIB, None, spread=False, minimum=457 * MIB, pictured=500 * MIB) == cards
