"""What is wrong with a command line is said in one line that names the option and what to write instead, with exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kvplan
from kvplan.errors import KvplanError

MODEL = "meta-llama/llama-3.1-8b"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["check"], "kvplan check needs FILES"),
        (["compare"], "kvplan compare needs MODELS"),
        (["reconcile"], "kvplan reconcile needs LOG"),
        (["devices", "show"], "kvplan devices show needs DEVICE; see kvplan devices show --help"),
        (["models", "show"], f"kvplan models show needs a model, such as: kvplan models show {MODEL}"),
        (["estimate", MODEL, "--device"], "--device needs a value: device id, product name"),
        (["estimate", MODEL, "--format", "xml"], "'xml' is not one of 'table', 'markdown'"),
        (["simulate", MODEL, "--rate", "abc"], "'--rate': 'abc' is not a valid float; see kvplan simulate --help"),
        (["engines", "vllm", "more"], "unexpected extra argument (more); see kvplan engines --help"),
        (["vectors", "nope"], "No such command 'nope'; see kvplan vectors --help"),
        (["estimte"], "Did you mean 'estimate'? see kvplan --help"),
        (["fit", MODEL, "--devices", ""], "devices: an empty name; write ids, names or sizes"),
        (["fit", MODEL, "--devices", "h100,,l4"], "devices: an empty name"),
        (["estimate", MODEL, "--context", ""], "context: '' says nothing; write a value, or leave the option out"),
        (["estimate", MODEL, "--context", "8k,,9k"], "'8k,,9k': an empty value between commas"),
        (["compare", MODEL, "--device", "h100", "--context", "8k:"], "'8k:': write first:last, first:last:+step or first:last:xfactor"),
        (["estimate", MODEL, "--device", "h100@"], "'h100@': behind the @ is the memory it has, such as h100@24GiB"),
        (["roofline", MODEL, "--device", "24GiB"], "device: 24GiB declares no bandwidth, on which speed depends; name a device that does"),
        (["roofline", "BAAI/bge-large-en", "--device", "h100"], "the model keeps no cache: it decodes no tokens"),
        (["fit", "BAAI/bge-large-en", "--devices", "l4", "--rank-by", "tokens-per-second"], "rank_by: tokens_per_second: of no device"),
        (["fit", MODEL, "--devices", "24GiB", "--rank-by", "first-token", "--context", "8k"], "or rank by memory"),
        (["tiers", "BAAI/bge-large-en", "--device", "h100"], "the model keeps no cache that a tier could hold"),
        (["simulate", "BAAI/bge-large-en", "--device", "h100"], "simulate: the model keeps no cache to page"),
        (["simulate", MODEL, "--device", "h100", "--workload", "./x.jsonl"], "requests of a file are asked for by trace (--trace FILE)"),
        (["emit", "compose", MODEL, "--device", "h100", "--serve", ""], "serve: '' names nothing to load"),
        (["check", "x.sh", "--model", "=x"], "model: '=x': write ID, or TEXT=ID"),
        (["serve", "--host", ""], "'' port"),
    ],
)
def test_one_line(words: list[str], told: str, refused: Callable[..., str]) -> None:
    assert told in refused(*words)


def test_a_name_for_a_model_that_no_file_says_is_spoken_of(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    file = tmp_path / "serve.sh"
    file.write_text(f"vllm serve {MODEL} --max-model-len 8192\n")
    code, _, err = command("check", str(file), "--device", "h100", "--model", f"/models/x={MODEL}")
    assert code == 0
    assert "note: --model /models/x=" in err
    assert "no file says '/models/x' of its model" in err
    assert command("check", str(file), "--device", "h100", "--model", f"{MODEL}={MODEL}")[2] == ""


def test_a_name_is_written_as_it_was_typed_where_no_other_spelling_is_known(command: Callable[..., tuple[int, str, str]]) -> None:
    assert "vllm serve BAAI/bge-large-en" in command("emit", "vllm", "BAAI/bge-large-en", "--device", "h100")[1]


def test_names_of_devices_in_the_library() -> None:
    for devices in ("", "h100,,l4", ["h100", " "]):
        with pytest.raises(KvplanError, match="an empty name"):
            kvplan.fit(MODEL, devices=devices, context="8k")
