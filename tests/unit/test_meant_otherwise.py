"""What is typed otherwise than the command line takes it is told what to write."""

from __future__ import annotations

import json

import pytest

import kvplan
from kvplan.cli import run

LLAMA = "meta-llama/llama-3.1-8b"


def test_the_command_that_a_cpu_is_told_of_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """4.6 GiB of weights and 32,768 x 131,072 B of cache in 64 GiB."""
    assert (
        run(
            [
                "estimate",
                LLAMA,
                "--engine",
                "llama.cpp",
                "--n-gpu-layers",
                "0",
                "--host-memory",
                "64GiB",
                "--weight-dtype",
                "q4_k_m",
                "--context",
                "32k",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.startswith("Yes: ")


def test_several_values_of_an_option_are_an_axis(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", LLAMA, "--engine", "ideal", "--context", "8k:32k:x2", "--batch", "1,4"]) == 0
    options = capsys.readouterr().out
    assert run(["sweep", LLAMA, "--engine", "ideal", "--grid", "context=8k:32k:x2", "--grid", "batch=1,4"]) == 0
    assert options == capsys.readouterr().out
    assert len(options.splitlines()) == 1 + 3 * 2
    assert run(["sweep", LLAMA, "--engine", "ideal", "--context", "32,768", "--grid", "batch=1,4"]) == 0  # one number
    assert len(capsys.readouterr().out.splitlines()) == 1 + 2


@pytest.mark.parametrize(
    ("written", "device", "number"),
    [
        ("7900xtx", "rx-7900-xtx", None),  # a name with an x of its own
        ("9070 XT", "rx-9070-xt", None),
        ("2x7900xtx", "rx-7900-xtx", 2),
        ("3090x2", "rtx-3090", 2),
        ("A100-80GB x4", "a100-80gb", 4),
        ("8 x H100", "h100-80gb", 8),
    ],
)
def test_how_many_stands_before_or_behind_a_device(written: str, device: str, number: int | None) -> None:
    asked = kvplan.deployment(LLAMA, device=written)
    assert asked.device is not None
    assert (asked.device.id, asked.n_devices) == (device, number)


@pytest.mark.parametrize(("group", "text", "found"), [("devices", "4090", "rtx-4090 "), ("models", "qwen3-32b", "qwen/qwen3-32b\n")])
def test_a_word_behind_a_group_is_looked_for(group: str, text: str, found: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([group, text]) == 0
    assert found in capsys.readouterr().out
    assert run([group, "lsit"]) == 2  # nearly a command
    assert "Did you mean" in capsys.readouterr().err


def test_an_alias_is_shown_by_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer to a question about GLM-4.5-Air does not begin with the model whose shapes it has."""
    run(["estimate", "zai-org/GLM-4.5-Air", "--context", "1k"])
    assert "\nGLM-4.5-Air (zai-org/GLM-4.5-Air): " in capsys.readouterr().out
    run(["estimate", "llama-3.3-70b", "--context", "1k"])
    assert "\nLlama-3.3-70B-Instruct (meta-llama/Llama-3.3-70B-Instruct): " in capsys.readouterr().out
    model = kvplan.estimate("zai-org/GLM-4.5-Air", context="1k").as_dict()["model"]
    assert model["id"] == "primeintellect/intellect-3"  # in JSON the id is still the catalogue's, and no key more
    assert "known_as" not in model


def test_json_lines_of_an_error_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["why", "No available memory for the cache blocks", "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out.rstrip("\n").split("\n")[0])["causes"][0]["engine"] == "vllm"


def test_others_hold_more_than_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """No engine prints a free memory below nothing."""
    assert run(["estimate", LLAMA, "--engine", "vllm", "--device", "24GiB", "--context", "4k", "--reserve", "30GiB"]) == 1
    assert "Free memory on device (0.00/24.00 GiB)" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(("words", "said"), [
    (["models", "list", "nothing-of-that-name"], "`kvplan models show NAME`"),
    (["devices", "list", "nothing-of-that-name"], "such as --device 24GiB"),
])  # fmt: skip
def test_an_empty_list_says_so(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 0
    assert said in capsys.readouterr().err
