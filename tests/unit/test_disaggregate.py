"""`fit --disaggregate`: the split by hand arithmetic from the rooflines of one worker of each kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kvplan
from kvplan.cli import run
from kvplan.planner.disaggregate import Disaggregated

LLAMA, TOKEN = "meta-llama/llama-3.1-70b", 80 * 2 * 8 * 128 * 2  # bytes: layers, K and V, heads, head dim, bf16
ASKED = {"engine": "vllm", "engine_version": "0.32", "context": "8k", "output": 500}
COMMAND = ["fit", LLAMA, "--disaggregate", "--engine", "vllm", "--engine-version", "0.32", "--context", "8k", "--output", "500"]


def ask(model: str = LLAMA, **more: Any) -> tuple[Disaggregated, ...]:
    return kvplan.disaggregate(model, **{**ASKED, "devices": ["h100"], **more})


def rates(tp: int, decode_tp: int, device: str = "h100", decode_device: str = "h100") -> tuple[float, float]:
    """Requests a second of one worker of each kind: a prompt's operations, and a full batch's steps of 500 tokens, as `roofline` says."""
    same = {"engine": "vllm", "engine_version": "0.32"}
    prompt = kvplan.roofline(LLAMA, **same, device=device, tp=tp, context="8k").first_token_seconds
    plan = kvplan.estimate(LLAMA, **same, device=decode_device, tp=decode_tp, context=8192 + 500)
    batch = plan.capacity.max_batch
    step = kvplan.roofline(LLAMA, **same, device=decode_device, tp=decode_tp, context=8192 + 500, batch=batch).decode.seconds
    return 1 / prompt, batch / (step * 500)


def test_the_split_is_the_best_of_all_layouts_and_numbers() -> None:
    """Every tp of 2, 4 and 8 (one H100 does not hold 70B in bf16) and every number of workers of 16 GPUs."""
    (row,) = ask(most=16)
    sizes = (2, 4, 8)
    each = {(p, q): rates(p, q) for p in sizes for q in sizes}
    best = max(
        min(n * one, m * other)
        for (p, q), (one, other) in each.items()
        for n in range(1, 16 // p + 1)
        for m in range(1, (16 - n * p) // q + 1)
    )
    assert row.split is not None
    assert row.prefill is not None
    assert row.decode is not None
    assert row.split.requests_per_second == pytest.approx(best)
    assert row.split.prefill * row.prefill.gpus + row.split.decode * row.decode.gpus == row.split.gpus <= 16
    one, other = each[row.prefill.gpus, row.decode.gpus]
    assert (row.prefill.per_second, row.decode.per_second) == (pytest.approx(one), pytest.approx(other))


def test_a_rate_takes_the_fewest_gpus() -> None:
    """With tp chosen: so many whole workers of each kind as the rate takes."""
    (row,) = ask(tp=4, decode_tp=4, rate=20, most=64)
    one, other = rates(4, 4)
    assert row.split is not None
    assert (row.split.prefill, row.split.decode) == (-int(-20 // one), -int(-20 // other))
    assert row.split.gpus == 4 * (row.split.prefill + row.split.decode)
    assert row.split.requests_per_second >= 20
    (short,) = ask(tp=4, decode_tp=4, rate=20, most=row.split.gpus - 1)
    assert (short.split, short.reason) == (None, f"not with {row.split.gpus - 1} of them")


def test_what_moves_and_the_first_token() -> None:
    """8,192 tokens of 80 layers, a quarter of the heads to each of four GPUs, over 12.5 GB/s."""
    (row,) = ask(tp=4, decode_tp=4, link="100gb")
    shown = row.as_dict()
    assert (shown["moved_bytes"], shown["transfer_seconds"]) == (8192 * TOKEN, pytest.approx(8192 * TOKEN / 4 / 12.5e9))
    assert shown["first_token_seconds"] == pytest.approx(1 / rates(4, 4)[0] + 8192 * TOKEN / 4 / 12.5e9)


def test_limits_choose_wider_workers_and_smaller_batches() -> None:
    (free,) = ask(most=32)
    (row,) = ask(most=32, first_token="250ms", per_token="15ms")
    assert free.decode is not None
    assert row.prefill is not None
    assert row.decode is not None
    assert free.decode.seconds > 0.015 >= row.decode.seconds
    assert (row.prefill.seconds < 0.25, row.first_token_seconds < 0.25) == (True, True)  # type: ignore[operator]
    (none,) = ask(per_token="1ms")
    assert none.split is None
    assert none.reason == "decode, tp 8: a step takes 5.29 ms at least"  # 139.0 GB of weights and 2.8 of cache over 8 x 3.35 TB/s


def test_devices_of_two_kinds_and_prices() -> None:
    rows = ask(devices=["h100", "l4"], decode_devices=["h200"], most=32, prices={"h100": 2.0, "h200": 3.0}, tp=4, decode_tp=4)
    best, other = rows
    assert (best.prefill_device.id, best.decode_device.id, other.prefill_device.id) == ("h100-80gb", "h200", "l4")
    assert best.split is not None
    assert best.price == 4 * (2.0 * best.split.prefill + 3.0 * best.split.decode)
    assert best.as_dict()["cost_per_million_tokens"] == pytest.approx(best.price / (best.split.requests_per_second * 500 * 3600) * 1e6)
    assert other.split is None  # four L4 do not hold 140 GB


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"engine": "ideal", "engine_version": None}, "not modelled with prefill and decode apart"),
        ({"device": "h100"}, "looks for the devices"),
        ({"rate": 0.0}, "above 0"),
        ({"link": "nonsense"}, "unknown link"),
        ({"rank_by": "price"}, "needs prices"),
        ({"output": 0}, "output"),
    ],
)
def test_refusals(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(kvplan.KvplanError, match=says):
        ask(**asked)


def test_the_command_line_says_it_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    assert run([*COMMAND, "--devices", "h100", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == [json.loads(json.dumps(row.as_dict())) for row in ask()]
    jsonschema.validate(shown, kvplan.schema("disaggregate"))
    assert run([*COMMAND, "--devices", "h100,l4", "--most", "8"]) == 0
    text = capsys.readouterr().out
    assert "x tp" in text
    assert "note: bounds" in text
    assert run([*COMMAND, "--devices", "l4", "--most", "2"]) == 1
    for fmt, mark in (("html", "<h1>What prefills and what decodes"), ("csv", "prefill_device"), ("markdown", "| prefill")):
        capsys.readouterr()
        assert run([*COMMAND, "--devices", "h100", "--format", fmt]) == 0
        assert mark in capsys.readouterr().out


@pytest.mark.parametrize(
    "asked",
    [
        ["--output", "500"],
        ["--disaggregate"],
        ["--disaggregate", "--output", "500", "--every-layout"],
        ["--disaggregate", "--output", "500", "--devices", "h100", "--dp", "2"],
        ["--disaggregate", "--output", "500", "--devices", "h100", "--first-token", "0"],
    ],
)
def test_half_a_question_is_an_error(asked: list[str], refused: Any) -> None:
    refused("fit", LLAMA, *asked)
