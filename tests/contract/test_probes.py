"""Probes at the edges: fractions near 1, hybrids with 1,024 sequences, releases before, at and after each rule that changed.

probes.jsonl has the literal cases: an engine's `figure` by release, and the `source` that says it (files of the wheels of these releases,
pull requests, release notes). The laws read a plan's JSON alone, not the code that judges it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvplan import engines
from kvplan.api.asking import deployment
from kvplan.engines.common.releases import release, three_parts
from kvplan.engines.llama_cpp import rules as llama
from kvplan.engines.llama_cpp.ollama import rules as ollama
from kvplan.engines.lmdeploy import rules as lmdeploy
from kvplan.engines.sglang import rules as sglang
from kvplan.engines.tensorrt_llm import rules as tensorrt_llm
from kvplan.engines.transformers import rules as transformers
from kvplan.engines.vllm import rules as vllm
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.units import MIB
from tests.conftest import rows_of

FRACTIONS = (0.975, 0.995)
DENSE, EXPERTS, HYBRID = "meta-llama/llama-3.1-8b", "qwen/qwen3-30b-a3b", "qwen/qwen3-next-80b-a3b"
POOLED = tuple(name for name in engines.ENGINES if engines.facts(name).pool == "set aside")
#: A card of 24 GB and one of 80, and ranks that the mixture needs there.
CARDS = {"rtx-4090": 4, "h100-80gb": 1}
#: Engines without a fraction and cards of theirs.
WHOLE = [("llama.cpp", "rtx-4090"), ("llama.cpp", "h100-80gb"), ("ollama", "rtx-4090"), ("ollama", "h100-80gb"), ("exllamav3", "rtx-4090"),
         ("exllamav3", "h100-80gb"), ("transformers", "rtx-4090"), ("transformers", "h100-80gb"), ("mlx-lm", "apple-m4-24gb"),
         ("mlx-lm", "apple-m3-max-96gb")]  # fmt: skip
#: What a process holds at least of a card of NVIDIA's (logs of llama.cpp show 0.3 GiB and more).
LEAST_CONTEXT = 256 * MIB

#: Phases of a start, and what is held in them where a line does not say.
START = ("load", "profile", "allocate", "capture", "warm up")
ALWAYS, POOL = START, START[2:]
HELD = {
    "weights": ALWAYS, "process": ALWAYS, "others": ALWAYS, "cache": POOL, "tables": POOL, "graphs": START[3:],
    "activations": ("profile",), "transient": (),
}  # fmt: skip


def plan_of(model: str, **question: Any) -> dict[str, Any] | None:
    """A plan as JSON; None where it is refused by name."""
    try:
        return evaluate(deployment(model, **question), limits=False).as_dict()
    except KvplanError:
        return None


def is_held(line: Mapping[str, Any], phase: str) -> bool:
    return phase in (HELD[line["kind"]] if line["phases"] is None else line["phases"])


def most_held(ledger: Mapping[str, Any], phase: str) -> int:
    """What a rank may hold in a phase: upper ends beside the budget; inside it the cache gives way, save for a step that is counted and
    not there then, whose low end makes the cache as much larger."""
    inside, outside = ledger["entries"], ledger["outside"]
    idle = [e for e in inside if e["kind"] == "activations" and e["phases"] != [] and not is_held(e, phase)]
    held = sum(e["bytes"] for e in inside if is_held(e, phase)) + sum(e["high"] for e in outside if is_held(e, phase))
    return held + (sum(e["bytes"] - e["low"] for e in idle) if phase in POOL else 0)


def holds_every_phase(plan: Mapping[str, Any]) -> None:
    """A start that is called certain has room for upper ends in each of its phases."""
    if plan["starts"] and plan["start_certainty"] == "certain":
        for ledger in plan["ledgers"]:
            for phase in POOL if ledger["device_bytes"] else ():  # kv_memory without a card
                assert most_held(ledger, phase) <= ledger["device_bytes"], (phase, plan["verdict"])


@pytest.mark.parametrize("engine", POOLED)
def test_no_start_is_certain_beyond_what_the_fraction_leaves(engine: str) -> None:
    """Both fractions on every release, of a dense model and a mixture, on 24 and 80 GB."""
    asked = 0
    for version in engines.facts(engine).versions:
        for model in (DENSE, EXPERTS):
            for device, ranks in CARDS.items():
                for fraction in FRACTIONS:
                    tp = ranks if model == EXPERTS else 1
                    plan = plan_of(
                        model, engine=engine, engine_version=version, device=device, memory_fraction=fraction, context=4096, tp=tp
                    )
                    if plan is not None:
                        asked += 1
                        holds_every_phase(plan)
    assert asked >= len(engines.facts(engine).versions) * len(CARDS) * len(FRACTIONS)


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize(("engine", "device"), WHOLE)
def test_no_start_on_a_card_that_full_is_certain_beyond_it(engine: str, device: str, fraction: float) -> None:
    """Others hold what fills the card to that share: upper ends fit where it is certain, and a context that no line names."""
    for model in (DENSE, "openai/gpt-oss-20b"):
        layers = {"n_gpu_layers": 999} if engine in ("llama.cpp", "ollama") else {}
        asked: dict[str, Any] = {"engine": engine, "device": device, "context": 4096, "max_model_len": 4096, **layers}
        bare = plan_of(model, **asked, reserve=1)
        assert bare is not None
        size, used = bare["ledgers"][0]["limit_bytes"], bare["ledgers"][0]["total_bytes"]
        plan = plan_of(model, **asked, reserve=int(fraction * size) - used)
        assert plan is not None
        ledger = plan["ledgers"][0]
        if layers == {} or ledger["total_bytes"] >= 0.9 * size:  # llama.cpp may leave layers in host memory
            assert ledger["total_bytes"] == pytest.approx(fraction * size, rel=0.01)
        if plan["starts"] and plan["start_certainty"] == "certain":
            lines = [*ledger["entries"], *ledger["outside"]]
            named = engine == "mlx-lm" or any(line["kind"] == "process" for line in lines)
            for phase in START:
                most = sum(line["high"] for line in lines if is_held(line, phase))
                assert most + (0 if named else LEAST_CONTEXT) <= size, (phase, plan["verdict"])


#: What people reported at such fractions (tests/threads): those that came up, and those that ran out at the start.
THREADS = [
    case for file in sorted((Path(__file__).parents[1] / "threads").glob("*.jsonl")) for case in rows_of(file)
    if 0.965 <= float(case["kvplan"].get("memory_fraction") or 0) <= 1 and case["outcome"] in ("starts", "oom-at-start")
]  # fmt: skip


@pytest.mark.parametrize("case", THREADS, ids=lambda case: case["id"])
def test_threads_at_such_fractions(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ran out is called no certain start, whatever its note leaves out; who came up is not refused for certain, if it says all."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    question = dict(case["kvplan"])
    plan = plan_of(question.pop("model"), **question)
    if plan is None or plan["start_certainty"] != "certain" or (case.get("weak") and case["outcome"] == "starts"):
        return
    holds_every_phase(plan)
    assert plan["starts"] == (case["outcome"] == "starts"), plan["verdict"]


def test_there_are_such_threads() -> None:
    assert len([case for case in THREADS if case["outcome"] == "oom-at-start"]) >= 20
    assert len([case for case in THREADS if case["outcome"] == "starts"]) >= 40


def test_states_of_1024_requests_lie_beside_the_pool_or_in_it() -> None:
    """TensorRT-LLM (_torch/pyexecutor/mamba_cache_manager.py): max_batch_size states are there before the pool in 1.2, one more than
    that in the pool of manager V2. A state: 36 layers x (8,192 x 3 + 32 x 128 x 128) x 2 bytes, half of that on each of two ranks."""
    state = 36 * (8192 * 3 + 32 * 128 * 128) * 2
    asked: dict[str, Any] = {"engine": "tensorrt-llm", "device": "h200", "context": 8192, "max_num_seqs": 1024, "tp": 2}
    for version, n in (("1.2.0", 1024), ("1.3.0", 1025)):
        plan = plan_of(HYBRID, engine_version=version, **asked)
        assert plan is not None
        (states,) = (group for group in plan["capacity"]["groups"] if group["role"] == "state")
        assert (states["page_bytes"], states["cells"]) == (state // 2, n), version
        apart = [e["bytes"] for e in plan["ledgers"][0]["entries"] if e["name"] == "recurrent states"]
        assert apart == ([n * state // 2] if version == "1.2.0" else []), version


def test_llama_server_keeps_a_state_of_every_slot_in_32_bits() -> None:
    """256 slots of Qwen3-Next, 36 layers: R 8,192 x 3 and S 32 x 128 x 128 numbers of 4 bytes; llama_memory_recurrent counts all layers."""
    plan = plan_of(HYBRID, engine="llama.cpp", context=256, max_model_len=65_536, max_num_seqs=256)
    assert plan is not None
    held = sum(e["bytes"] for ledger in plan["ledgers"] for e in ledger["entries"] if "recurrent" in e["name"] or "rs" in e["name"].split())
    assert held == 256 * 36 * (8192 * 3 + 32 * 128 * 128) * 4


class Table(NamedTuple):
    """An engine's rules by release: `rows` of (release, what it changed), and the rules that a release gets."""

    rows: list[tuple[str, Any]]
    find: Callable[[str], Any]
    kind: type


def changed(rules: Mapping[str, Any], *unnamed: str) -> list[tuple[str, dict[str, Any]]]:
    """What each release's rules have others than the one before it, without the names of releases and sources."""
    pairs = pairwise(rules.items())
    return [(v, {n: x for n, x in now._asdict().items() if n not in unnamed and x != getattr(was, n)}) for (_, was), (v, now) in pairs]


def merged() -> list[tuple[str, dict[str, Any]]]:
    return [(name, what | sglang.classes.CHANGES.get(name, {})) for name, what in sglang.CHANGES[1:]]


def by_release(version: str) -> Any:
    return transformers.find(version)[0]


TABLES = {
    "vllm": Table(list(vllm.CHANGES[1:]), lambda v: vllm.find_rules(v)[1], vllm.VllmRules),
    "sglang": Table(merged(), lambda v: sglang.RELEASES.find(v)[1], sglang.SglangRules),
    "tensorrt-llm": Table(changed(tensorrt_llm.RELEASES.rules), lambda v: tensorrt_llm.find(v)[1], tensorrt_llm.TrtRules),
    "lmdeploy": Table(changed(lmdeploy.RELEASES.rules), lambda v: lmdeploy.RELEASES.find(v)[1], lmdeploy.LmdeployRules),
    "llama.cpp": Table([(f"b{n}", what) for n, _, what in llama.CHANGES[1:]], lambda v: llama.find(v)[0], llama.LlamaRules),
    "ollama": Table(changed(ollama.RULES, "release", "source"), lambda v: ollama.find(v)[1], ollama.OllamaRules),
    "transformers": Table(
        changed({f"{r.version[0]}.{r.version[1]}": r for r in transformers.RELEASES}, "version"), by_release, transformers.Release
    ),
}
CHANGED = [(engine, version, what) for engine, table in TABLES.items() for version, what in table.rows]


def before(version: str) -> str:
    """A release just below: b5545 of b5546, 0.19.99 of 0.20, 4.999 of 5.0, 0.5.9 of 0.5.10."""
    if version.startswith("b"):
        return f"b{int(version[1:]) - 1}"
    major, minor, patch = three_parts(version)
    return f"{major}.{minor}.{patch - 1}" if patch else f"{major}.{minor - 1}.99" if minor else f"{major - 1}.999.0"


def after(version: str) -> str:
    return f"b{int(version[1:]) + 1}" if version.startswith("b") else ".".join(map(str, (*release(version), 0, 0)[:3])) + ".post1"


@pytest.mark.parametrize(("engine", "version", "what"), CHANGED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_rule_is_another_from_its_release_on(engine: str, version: str, what: Mapping[str, Any]) -> None:
    """The release before has other rules in just what the row names, the one after has the same; no row names what was so before."""
    table = TABLES[engine]
    was, now, then = (table.find(v)._asdict() for v in (before(version), version, after(version)))
    named = {"release", "source", "build", "version"} if engine in ("ollama", "llama.cpp", "transformers") else set()
    differ = {name for name in now if was[name] != now[name]} - named
    assert differ == set(what) - named
    assert {name for name in now if now[name] != then[name]} - named == set()


def rule_files() -> Iterator[tuple[str, str, type]]:
    for engine, table in TABLES.items():
        path = Path(str(__import__(table.kind.__module__, fromlist=["_"]).__file__))
        yield engine, path.read_text(encoding="utf-8"), table.kind


@pytest.mark.parametrize(("engine", "text", "kind"), list(rule_files()), ids=[*TABLES])
def test_every_rule_says_what_it_is_and_the_table_where_it_was_read(engine: str, text: str, kind: Any) -> None:
    words = set(re.findall(r"(?:^    |[;,] |\()(\w+)(?=[ ,:)])", kind.__doc__ or "", re.MULTILINE))
    assert [name for name in kind._fields if name not in words | {"source", "version", "build", "release"}] == [], engine
    assert re.search(r"[Rr]ead (from|in)|\w+\.py|llm/\w+\.go", text), engine
    if "source" in kind._fields:
        assert all(table_row.source for table_row in ({**ollama.RULES, **llama.RULES}).values())


class Case(NamedTuple):
    """One figure of one release. `question`: names of a Deployment beside engine and release."""

    engine: str
    rule: str
    figure: str
    model: str
    release: str
    expected: Any
    question: dict[str, Any]


def cases() -> Iterator[Case]:
    for row in rows_of(Path(__file__).parent / "probes.jsonl"):
        assert row["source"], row
        for version, expected in row["expected"].items():
            yield Case(row["engine"], row["rule"], row["figure"], row["model"], version, expected, row["question"])


#: Figures of a plan: a name of its question, a path into its JSON, or one of these.
FIGURES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "takes": lambda plan: plan["starts"] is not False,
    "log": lambda plan: "\n".join(plan["capacity"]["log_lines"]),
    "n_groups": lambda plan: sum(group["n_groups"] for group in plan["capacity"]["groups"]),
    "pools": lambda plan: len(plan["capacity"]["groups"]),
    "slots": lambda plan: next(group["cells"] for group in plan["capacity"]["groups"] if group["role"] == "state"),
    "window_cells": lambda plan: next(group["cells"] for group in plan["capacity"]["groups"] if group["kind"] == "sliding"),
    "running": lambda plan: int(re.findall(r"max_running_requests=(\d+)", " ".join(plan["capacity"]["log_lines"]))[0]),
    "cache": lambda plan: sum(ledger["cache_bytes"] for ledger in plan["ledgers"]),
}


def figure(name: str, plan: Mapping[str, Any]) -> Any:
    if name in plan["question"]:
        return plan["question"][name]["value"]
    if name in FIGURES:
        return FIGURES[name](plan)
    found: Any = plan
    for part in name.split("."):
        found = found[int(part) if part.isdigit() else part]
    return found


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.engine}-{case.rule}-{case.figure}-{case.release}")
def test_figures_around_a_rule(case: Case) -> None:
    """Words are part of what the plan says; all else is equal."""
    plan = plan_of(case.model, engine=case.engine, engine_version=case.release, **case.question)
    if plan is None:
        assert (case.figure, case.expected) == ("takes", False)
        return
    found = figure(case.figure, plan)
    if isinstance(case.expected, str):
        assert case.expected in found
    else:
        assert found == (pytest.approx(case.expected, abs=1e-6) if isinstance(case.expected, float) else case.expected)
