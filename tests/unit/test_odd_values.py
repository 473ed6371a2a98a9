"""Values as tables, programs and habits hand them over: read where they mean one thing, else refused with what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.cli import run
from kvplan.errors import KvplanError

LLAMA = "meta-llama/llama-3.1-8b"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"memory_fraction": True}, "is not a fraction"),
        ({"context": -1}, "is not a size"),
        ({"context": 1.5}, "is not a size"),
        ({"engine_version": 0.9}, 'write "0.33.0"'),
        ({"multimodal": False}, 'write "on" or "off"'),
        ({"lora": (32, 4)}, 'write "32x4"'),
        ({"device": ["h100", "l4"]}, "one question takes one"),
        ({"device": "h100,l4"}, "one question takes one"),
        ({"batch": "1e3"}, "write one such as 16"),
    ],
)
def test_what_is_no_value_says_what_to_write(given: dict[str, Any], told: str) -> None:
    with pytest.raises(KvplanError, match=told):
        kvplan.estimate(LLAMA, **({"device": "h100"} | given))


def test_a_whole_float_is_a_number_of_tokens() -> None:
    """pandas gives a column with gaps as floats."""
    assert kvplan.estimate(LLAMA, engine="ideal", context=8192.0).cache.total_bytes == 8192 * 131072  # type: ignore[arg-type]


def test_a_list_is_an_option_as_the_command_line_spells_it() -> None:
    lists, text = (
        kvplan.estimate("qwen3-8b", device="h100", engine="sglang", context="8k", engine_option={"cuda_graph_bs": value}).as_dict()
        for value in ([1, 2, 4], "1,2,4")
    )
    assert lists == text


def test_a_folder_of_that_name_is_pointed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KvplanError, match=r"write \./mine"):
        kvplan.estimate("mine")


def test_a_sweep_of_an_endless_axis_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", LLAMA, "--grid", "context=1:1000000000000"]) == 2
    assert "write a step" in capsys.readouterr().err


def test_a_word_of_an_error_ends_before_the_full_stop() -> None:
    found = kvplan.why("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total")
    assert found.causes[0].means.endswith("2.00 GiB were asked for and were not there")
