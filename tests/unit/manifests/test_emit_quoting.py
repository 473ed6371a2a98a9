"""Nothing that a question says reaches what emit writes but as one value: a script runs no more than the engine."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvplan import api, engines
from kvplan.errors import KvplanError, SpecError
from kvplan.manifests import emit
from kvplan.manifests.read import read
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from tests.conftest import examples, planned

MODEL = "meta-llama/llama-3.1-8b"
BAD_VERSIONS = (
    "0.19\ntouch pwned",
    "0.19 0.20",
    "$(touch pwned)",
    "0.19;touch pwned",
    "0.19#",
    "",
    "latest",
    "0.19\r",
    "0.19\x85",
    "\uff10.19",
)
PWN = ("x\ntouch pwned", "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", '"; touch pwned #', "x # kvplan: device=l4", "x y")
#: Options that nothing reads or that only a comment says: what was executed once.
UNREAD = {
    "vllm": ("allow_long_max_model_len", "attention_backend"),
    "sglang": ("allow_overwrite_longer_context_len", "speculative_draft_layers", "attention_backend"),
    "tensorrt-llm": ("cross_kv_cache_fraction", "temporary_kv_memory", "max_attention_window"),
}


@pytest.mark.parametrize("version", BAD_VERSIONS)
def test_what_is_no_version_is_refused_at_the_question(version: str) -> None:
    with pytest.raises(SpecError, match="no version"):
        api.deployment(MODEL, engine="vllm", engine_version=version)


@pytest.mark.parametrize("version", ["0.19", "v0.19.0", "0.19.0rc2.post1+cu128", "b10488", "main-2026-08"])
def test_versions_are_taken(version: str) -> None:
    assert api.deployment(MODEL, engine="vllm", engine_version=version).engine_version == version


PROGRAMS = {engines.arguments(name).program[0] for name in engines.served()}


def run(text: str, folder: Path) -> list[str]:
    """Runs a script with every program of it a stub that does nothing; what it left behind."""
    folder.mkdir(exist_ok=True)
    stubs = folder / "bin"
    stubs.mkdir(exist_ok=True)
    for name in PROGRAMS:
        (stubs / name).write_text("#!/bin/sh\nexit 0\n")
        (stubs / name).chmod(0o755)
    path = f"{stubs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    subprocess.run(["/bin/sh", "-c", text], cwd=folder, env={"PATH": path}, check=True, timeout=20, capture_output=True)
    return sorted(p.name for p in folder.iterdir() if p.name not in ("bin", "trtllm.yaml"))


def texts(engine: str, **question: object) -> dict[str, str]:
    """What every target writes for a question, put past the checks of the question itself; none where it is refused."""
    d = api.deployment(MODEL, engine=engine, device="h100-80gb", context=1024)
    try:
        plan = evaluate(replace(d, **question), limits=False)  # type: ignore[arg-type]
        return {target: emit(plan, target) for target in (engine, "compose", "k8s")}
    except KvplanError:
        return {}


def holds(written: dict[str, str], engine: str, folder: Path) -> None:
    """The script runs the engine and nothing else; the manifests are one service with no more keys than one has."""
    if not written:
        return
    assert run(written[engine], folder) == []
    compose, pod = yaml.safe_load(written["compose"]), yaml.safe_load(written["k8s"])
    assert set(compose) == {"services"}
    assert set(compose["services"]) == {"llm"}
    assert set(pod) == {"apiVersion", "kind", "metadata", "spec"}
    for text in written.values():
        assert sum(line.startswith("# kvplan:") for line in text.splitlines()) <= 1
        assert not [line for line in text.splitlines() if line.strip().startswith("touch")]


@pytest.mark.parametrize("text", PWN)
@pytest.mark.parametrize(("engine", "option"), [(e, o) for e, several in UNREAD.items() for o in several])
def test_options_are_values_whatever_they_hold(engine: str, option: str, text: str, tmp_path: Path) -> None:
    holds(texts(engine, engine_option=((option, text),)), engine, tmp_path)


@cache
def plain(engine: str) -> Plan:
    return planned(MODEL, engine=engine, device="h100-80gb", context=1024)


@pytest.mark.parametrize("text", PWN)
@pytest.mark.parametrize("engine", engines.served())
def test_versions_and_models_are_values_too(engine: str, text: str, tmp_path: Path) -> None:
    holds(texts(engine, engine_version=text), engine, tmp_path)
    plan = plain(engine)
    try:
        written = {target: emit(plan, target, model=text) for target in (engine, "compose", "k8s")}
    except KvplanError:
        return
    holds(written, engine, tmp_path)
    for target, one in written.items():  # the text is one word, and reads back as it is
        (found,) = read(one, "serve.sh" if target == engine else "m.yaml")
        assert found.question.get("device", "h100-80gb") == "h100-80gb"
        assert found.model == MODEL if "# kvplan" in one and "model=" in one else found.model == text


@examples(40)
@given(which=st.sampled_from([(e, o) for e, several in UNREAD.items() for o in several]), text=st.text(max_size=30))
def test_any_text_of_an_option(which: tuple[str, str], text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    engine, option = which
    holds(texts(engine, engine_option=((option, text),)), engine, tmp_path_factory.mktemp("emit"))


def test_a_model_that_would_be_an_option_is_refused() -> None:
    plan = planned(MODEL, engine="vllm", device="h100-80gb")
    with pytest.raises(SpecError, match="would be an option"):
        emit(plan, "vllm", model="--trust-remote-code")


def test_compose_and_kubernetes_expand_nothing() -> None:
    """Compose reads $$ as $ (its reference, interpolation), the kubelet $$( as $( (third_party/forked/golang/expansion)."""
    plan = planned(MODEL, engine="vllm", device="h100-80gb")
    assert "- $$(HOME)$$HOME" in emit(plan, "compose", model="$(HOME)$HOME")
    assert "- $$(HOME)$HOME" in emit(plan, "k8s", model="$(HOME)$HOME")
    assert "'$(HOME)$HOME'" in emit(plan, "vllm", model="$(HOME)$HOME")
