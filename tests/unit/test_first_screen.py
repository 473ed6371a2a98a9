"""The first screen: the sentence, the bars, what was assumed; and `explain`, which says the same numbers."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan import engines
from kvplan.cli import run
from kvplan.devices import sized
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.report import answer, assumed
from kvplan.report.bars import bars
from kvplan.report.first import first_screen
from kvplan.report.screen import Screen, here
from kvplan.report.words import device
from kvplan.units import parse_bytes
from tests.contract.models import DEVICES

LLAMA = "meta-llama/llama-3.1-8b"
QUESTIONS: list[dict[str, Any]] = [
    {"model": LLAMA, "device": "h100", "context": "8k", "batch": 4},
    {"model": LLAMA, "device": "l4", "engine": "sglang", "context": "8k"},
    {"model": "llama3.1:8b", "device": "rtx-4090", "engine": "llama.cpp"},
    {"model": "google/gemma-3-27b", "engine": "ideal", "device": "h100"},
    {"model": "deepseek-ai/deepseek-v3", "device": "h200", "engine": "vllm", "tp": 8, "context": "8k"},
    {"model": LLAMA, "engine": "vllm", "kv_memory": "4GiB", "context": "8k"},
    {"model": "llama3.1:8b", "device": "rtx-4090", "engine": "ollama"},
    {"model": LLAMA, "device": "h100", "engine": "tensorrt-llm", "context": "8k"},
    {"model": LLAMA, "device": "h100", "engine": "lmdeploy", "context": "8k"},
    {"model": LLAMA, "device": "h100", "engine": "transformers", "context": "8k"},
    {"model": LLAMA, "device": "m3-max-64gb", "engine": "mlx-lm", "context": "8k"},
    {"model": LLAMA, "device": "h100", "engine": "exllamav3", "context": "8k"},
]
assert {question.get("engine", "vllm") for question in QUESTIONS} == set(engines.ENGINES)
#: Another value of each name that may be left open.
OTHERS: dict[str, tuple[Any, ...]] = {
    "engine_version": ("0.19", "0.5.10", "b7406"), "n_devices": (2,), "tp": (2,), "pp": (2,), "dp": (2,), "ep": (2,), "dcp": (2,),
    "context": (4096,), "batch": (2, 3), "max_model_len": (16384,), "max_num_seqs": (16, 3), "max_num_batched_tokens": (4096, 1024),
    "block_size": (32, 64), "dtype": ("f32", "f16"), "weight_dtype": ("fp8", "q4_k_m", "q8_0"), "kv_dtype": ("fp8", "q8_0"),
    "memory_fraction": (0.7,), "reserve": (1 << 30,), "n_gpu_layers": (5,), "speculative": ("ngram:3", "mtp:1"), "lora": ("16x4",),
    "multimodal": ("off", "on"), "enforce_eager": (True,), "calibration": ("none",),
}  # fmt: skip


def asked(question: dict[str, Any], **changed: Any) -> Plan:
    return evaluate(kvplan.deployment(**{**question, **changed}))


def sizes(plan: Plan) -> object:
    return plan.ledgers, plan.cache.total_bytes, plan.model.weight_bytes, plan.margin_bytes


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: f"{q['model']}-{q.get('engine', 'vllm')}")
def test_every_assumption_that_moved_a_byte_is_printed(question):
    plan = asked(question)
    told = {name for one in assumed.assumed(plan) for name in one.names}
    screen = first_screen(plan)
    moved = set()
    for name, (value, by) in plan.question.items():
        if by == "you" or name not in OTHERS or name in question or (value is None and name != "block_size"):
            continue
        for other in OTHERS[name]:
            try:
                if other != value and sizes(asked(question, **{name: other})) != sizes(plan):
                    moved.add(name)
            except KvplanError:  # not for this model or engine
                continue
    assert moved - told == set()
    assert len(moved) >= 3
    for one in assumed.assumed(plan):
        assert one.text in " ".join(screen.split())
    for note in plan.model.notes:
        assert note in " ".join(screen.split())


# 14.958 GiB of weights (8,030,261,248 x 2 B); 131,072 B a token: 8 x 32,768 tokens are 32 GiB, and 24 - 14.958 = 9.042 hold two.
@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"device": "24GiB", "batch": 2}, "Yes: 2 requests of 32,768 tokens fit on 1 x 24 GiB, 1.0 GiB to spare."),
        ({"device": "80GiB", "batch": 8}, "Yes: 8 requests of 32,768 tokens fit on 1 x 80 GiB, 33.0 GiB to spare; up to 16 at once."),
        ({"device": "24GiB", "batch": 8}, "No: 1 x 24 GiB lacks 23.0 GiB for weights, cache and overhead."),
        (
            {"device": "14GiB", "batch": 1},
            "No: 1 x 14 GiB lacks 5.0 GiB for weights, cache and overhead, 981 MiB of it for the weights alone.",
        ),
        ({"kv_memory": "8GiB", "batch": 3}, "No: 8.0 GiB of cache memory lacks 4.0 GiB of cache for 3 requests of 32,768 tokens; 2 fit."),
        ({"batch": 1}, "1 request of 32,768 tokens: 15.0 GiB of weights and 4.0 GiB of cache."),
    ],
)
def test_the_answer_is_a_sentence(question, said):
    plan = kvplan.estimate(LLAMA, engine="ideal", context="32k", **question)
    assert answer.sentence(plan).startswith(said)


def test_safe_advice_comes_before_what_leaves_nothing():
    """Beside 14.96 GiB of weights 24 GiB have room for 74,000 tokens of 131,072 B, 24,690 of each of three requests."""
    plan = kvplan.estimate(LLAMA, engine="ideal", device="24GiB", context="32k", batch=3)
    tight = next(one for one in plan.advice if one.option == "context")
    assert tight.margin_bytes < 1 << 20
    first = [(one.option, one.value) for one in answer.changes(plan)]
    assert first.index(("context", 22528)) < first.index(("context", tight.value))
    names = [name for name, _ in first]
    assert names.index("tp") > first.index(("context", tight.value))
    assert sorted(answer.changes(plan), key=str) == sorted(plan.advice, key=str)


def test_less_than_half_of_the_work_is_not_the_smallest_change():
    plan = kvplan.estimate(LLAMA, engine="ideal", device="24GiB", context="32k", batch=8)
    found = [(one.option, one.value) for one in answer.changes(plan)]
    assert found.index(("tp", 2)) < found.index(("context", 8192))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_bars_are_as_wide_as_the_screen_allows(width):
    plan = kvplan.estimate(LLAMA, device="h100", context="8k", batch=4)
    text = first_screen(plan, Screen(width, blocks=False))
    assert text.isascii()
    bar = next(line for line in text.splitlines() if line.startswith("GPU 0  "))
    assert set(bar[7:].split()[0]) == set("#=-+|.")
    assert len(bar) <= max(width, 41)  # a bar of at least 20
    if width >= 80:
        assert all(len(line) <= width for line in text.splitlines())


def test_a_bar_is_in_proportion():
    """14.958 GiB of weights and 64 GiB of cache of 80 GiB: columns to the nearest."""
    plan = kvplan.estimate(LLAMA, engine="ideal", device="80GiB", context="32k", batch=16)
    bar = bars(plan, Screen(100, blocks=False)).splitlines()[0].split()[2]
    assert abs(bar.count("#") - len(bar) * 14.958 / 80) <= 1
    assert abs(bar.count("=") - len(bar) * 64 / 80) <= 1


def test_colours_only_on_a_terminal_that_wants_them(monkeypatch, capsys):
    import sys

    assert here({}) == Screen(100, blocks=True, colour=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "90")
    assert here({}) == Screen(90, blocks=True, colour=True)
    assert not here({"NO_COLOR": "1"}).colour
    assert here({"TERM": "dumb"}) == Screen(90, blocks=False, colour=False)
    run(["estimate", LLAMA, "--device", "80GiB", "--engine", "ideal", "--context", "8k"])
    assert "\x1b[32mYes\x1b[0m: 1 request" in capsys.readouterr().out
    run(["estimate", LLAMA, "--device", "80GiB", "--engine", "ideal", "--context", "8k", "--format", "markdown"])
    assert "\x1b" not in capsys.readouterr().out


def test_a_hostile_name_is_text(tmp_path, capsys):
    path = tmp_path / "model.yaml"
    spec = kvplan.model(LLAMA).plain() | {"name": "a\x1b[31m\u202e\nb", "notes": ["::error::x\x1b]0;y\x07"]}
    import yaml

    path.write_text(yaml.safe_dump(spec))
    run(["estimate", str(path), "--context", "8k", "--detail"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "a\\u001b[31m" in out


def test_names_of_devices():
    names = {"h100-80gb": "H100 80GB", "rtx-4060-ti-16gb": "RTX 4060 Ti 16GB", "a100-pcie-80gb": "A100 PCIe 80GB", "24GiB": "24 GiB"}
    names |= {"80GB": "80 GB", "24564MiB": "24564 MiB", "79.19GiB": "79.19 GiB"}
    assert {sized(parse_bytes(name)).id for name in list(names)[3:]} == set(list(names)[3:])
    assert {name: device(name) for name in names} == names


@pytest.mark.parametrize("engine", DEVICES)
def test_explain_says_every_line_of_estimate(engine):
    question: dict[str, Any] = {"engine": engine, "device": DEVICES[engine][0], "context": "8k", "batch": 2}
    plan = asked({"model": LLAMA, **question})
    lines = {line.name: line.value for line in kvplan.explain(LLAMA, **question)}
    assert lines["one more token at 8,192"] == plan.cache.bytes_per_token
    assert lines["cache of all sequences"] == plan.cache.total_bytes
    assert lines["weights of the whole model"] == plan.model.weight_bytes
    for ledger in plan.ledgers:
        each = ledger.place if len(ledger.ranks) == 1 else f"{ledger.place}, each"
        assert lines[f"{each}: total"] == ledger.total_bytes == sum(entry.bytes for entry in ledger.entries)
        for entry in ledger.entries:
            assert lines[f"{each}: {entry.name}"] == entry.bytes
        for entry in ledger.outside:
            assert lines[f"{each}: beside it: {entry.name}"] == entry.bytes


def test_what_was_asked_and_moves_nothing_is_said_beside_the_answer() -> None:
    """Before the model's line, and nowhere else; a question without such an option has no line more."""
    asked = {"device": "h100", "context": "8k", "advise": False}
    plain = first_screen(kvplan.estimate("llama-3.1-8b", **asked), Screen())
    text = first_screen(kvplan.estimate("llama-3.1-8b", n_gpu_layers=10, engine_version="0.99", **asked), Screen())
    notes = [line for line in text.split("\n\n")[1].splitlines() if line.startswith("note: ")]
    assert [note.partition(":")[2].split(",")[0] for note in notes] == [
        " vLLM 0.99 is not a release we know: the rules of 0.33",
        " engine vllm has no use for n_gpu_layers: it leaves no layers in host memory",
    ]  # fmt: skip
    assert text.count("note: ") == plain.count("note: ") + 3  # and one below that such a release is likely at most
    assert plain.split("\n\n")[1].startswith("Llama 3.1 8B")
