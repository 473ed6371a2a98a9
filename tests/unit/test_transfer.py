"""What moves between prefill and decode workers, by hand arithmetic; who reads from whom beside vLLM's own mapping (rows/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.cli import run
from kvplan.planner.transfer import Transfer, sources, state_sources
from tests.conftest import rows_of

LLAMA, TOKEN = "meta-llama/llama-3.1-70b", 80 * 2 * 8 * 128 * 2  # bytes: layers, K and V, heads, head dim, bf16
ROWS = Path(__file__).parents[1] / "oracle" / "rows" / "nixl.jsonl"


def ask(model: str = LLAMA, **more: Any) -> Transfer:
    return kvplan.transfer(model, **{"engine": "vllm", "engine_version": "0.32", "device": "h100", "tp": 4, "context": "8k", **more})


def test_who_reads_from_whom_is_vllms_mapping() -> None:
    rows = rows_of(ROWS)
    for row in rows:
        p, d = row["prefill_tp"], row["decode_tp"]
        assert [sources(rank, p, d, row["heads"], row["latent"]) for rank in range(d)] == row["sources"], row
        assert [state_sources(rank, p, d) for rank in range(d)] == row["states"], row
    assert len(rows) == 125


@pytest.mark.parametrize(
    ("tp", "decode_tp", "reads", "sends", "from_"), [(4, 4, 4, 4, 1), (4, 8, 8, 4, 1), (8, 2, 2, 8, 4), (4, 16, 8, 2, 1), (16, 8, 8, 8, 1)]
)
def test_heads_are_split_and_copied(tp: int, decode_tp: int, reads: int, sends: int, from_: int) -> None:
    """Eight heads: a decode GPU reads 1 / min(tp, 8) of them, however many hold them; of 16 that prefill 8 send."""
    found = ask(tp=tp, decode_tp=decode_tp)
    assert (found.rank_bytes, found.sent_bytes, found.sources) == (8192 * TOKEN // reads, 8192 * TOKEN // sends, from_)
    assert found.total_bytes == found.rank_bytes * decode_tp


def test_a_latent_is_read_whole_by_every_decode_gpu() -> None:
    found = ask("deepseek-ai/deepseek-v3", device="h200", tp=8, decode_tp=4)
    assert found.rank_bytes == 8192 * 61 * 576 * 2
    assert (found.total_bytes, found.sent_bytes) == (4 * found.rank_bytes, found.rank_bytes)
    assert found.moved[0].descriptors == 8192 // 16 * 61


def test_a_block_is_one_descriptor_a_layer_and_two_before_k_and_v_lay_together() -> None:
    assert [ask(engine_version=version).moved[0].descriptors for version in ("0.32", "0.28")] == [512 * 80, 512 * 80 * 2]
    assert ask(tp=8, decode_tp=2).moved[0].descriptors == 512 * 80 * 4


def test_a_window_moves_its_last_blocks() -> None:
    """gpt-oss-20b: 12 layers each, 8 heads of 64; of a window of 128 the last 128 / 16 + 1 blocks (base_scheduler.py)."""
    found = ask("openai/gpt-oss-20b", tp=1)
    row = 12 * 2 * 8 * 64 * 2 * 16
    assert {one.kind: (one.pieces, one.piece_bytes) for one in found.moved} == {"window": (9, row), "full": (512, row)}
    short = ask("openai/gpt-oss-20b", tp=1, prompt=40)
    assert {one.pieces for one in short.moved} == {3}


def test_before_0_22_a_connector_makes_windows_keep_and_move_every_token() -> None:
    found = ask("openai/gpt-oss-20b", tp=1, engine_version="0.21")
    assert found.rank_bytes == 8192 * 24 * 2 * 8 * 64 * 2
    hybrid = ask("openai/gpt-oss-20b", tp=1, engine_version="0.21", engine_option={"disable_hybrid_kv_cache_manager": "false"})
    assert hybrid.rank_bytes == (8192 + 9 * 16) * 12 * 2 * 8 * 64 * 2


def test_a_state_moves_once_whatever_the_length() -> None:
    """Qwen3-Next: 36 layers of a state of 32 heads of 128 x 128 in fp32, and 3 columns of 8,192 channels in bf16; over 4 GPUs, SGLang."""
    short, long = (ask("qwen/qwen3-next-80b-a3b", engine="sglang", engine_version=None, prompt=n) for n in (4096, 8192))
    state = 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2) // 4
    assert [{m.kind: m.bytes for m in one.moved}["state"] for one in (short, long)] == [state, state]
    assert long.rank_bytes - short.rank_bytes == 4096 * 12 * 2 * 256 * 2  # 12 layers, K and V, one of two heads of 256 on each GPU


def test_times_and_what_hides_behind_layers() -> None:
    found = ask(links=[50, "100gb"])
    whole = 8192 * TOKEN // 4
    assert [time.seconds for time in found.times] == [pytest.approx(whole / 50e9), pytest.approx(whole / 12.5e9)]
    assert found.prefill_seconds is not None
    for time in found.times:  # a prompt takes longer than its transfer: the last of 80 layers is left
        assert time.seconds < found.prefill_seconds
        assert time.by_layer_seconds == pytest.approx(time.seconds / 80)
    (slow,) = ask(links=[0.5]).times
    assert slow.by_layer_seconds == pytest.approx(slow.seconds - found.prefill_seconds * 79 / 80)


def test_workers_and_a_split() -> None:
    found = ask(output=500, gpus=32)
    made = found.workers
    assert made is not None
    assert found.prefill_seconds is not None
    assert made.prefill_per_second == pytest.approx(1 / found.prefill_seconds)
    bound = kvplan.roofline(LLAMA, engine="vllm", engine_version="0.32", device="h100", tp=4, context=8192 + 500, batch=made.decode_batch)
    assert made.decode_per_second == pytest.approx(made.decode_batch / bound.decode.seconds / 500)
    assert made.prefill_per_decode == pytest.approx(made.decode_per_second / made.prefill_per_second)
    split = made.split
    assert split is not None
    every = [min(n * made.prefill_per_second, (8 - n) * made.decode_per_second) for n in range(1, 8)]
    assert split.requests_per_second == pytest.approx(max(every))
    assert 4 * (split.prefill + split.decode) <= 32


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"engine": "ideal", "engine_version": None}, "not modelled with prefill and decode apart"),
        ({"dp": 2}, "one worker of each kind"),
        ({"gpus": 16}, "tokens of an answer"),
        ({"gpus": 4, "output": 100}, "fewer than one worker of each kind"),
        ({"output": 100, "device": None}, "name one"),
    ],
)
def test_refusals(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(kvplan.KvplanError, match=says):
        ask(**asked)


def test_the_command_line_says_it_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    asked = [
        "transfer",
        LLAMA,
        *[
            "--engine",
            "vllm",
            "--engine-version",
            "0.32",
            "--device",
            "h100",
            "--tp",
            "4",
            "--context",
            "8k",
            "--output",
            "500",
            "--gpus",
            "16",
        ],
    ]
    assert run([*asked, "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(json.dumps(ask(output=500, gpus=16).as_dict()))
    jsonschema.validate(shown, kvplan.schema("transfer"))
    assert run(asked) == 0
    assert "640.000 MiB" in capsys.readouterr().out
    assert run([*asked, "--format", "csv"]) == 0
    assert run([*asked, "--link", "nonsense"]) == 2


def test_a_decode_worker_of_another_size_has_its_own_number_of_devices() -> None:
    """DeepSeek-V3: 61 latents of 576 values in 2 bytes of 32,768 tokens on each of 4 ranks (arXiv 2405.04434)."""
    found = kvplan.transfer("deepseek-ai/deepseek-v3", device="8xh200", tp=8, decode_tp=4, context="32k")
    assert found.rank_bytes == 61 * 576 * 2 * 32768
