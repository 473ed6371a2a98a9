"""Every (engine, release) answers adapters: with lines, a note or a refusal; commands that name them never leave them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan import engines
from tests.conftest import planned
from tests.contract.models import DEVICES
from tests.contract.test_methods import RELEASES

LLAMA = "meta-llama/llama-3.1-8b"


def asked(engine: str, version: str | None, **more: Any) -> Any:
    question = {"engine": engine, "engine_version": version, "device": DEVICES[engine][0], "context": 4096}
    return planned(LLAMA, **(question | more))


@pytest.mark.parametrize("options", [{}, {"lora_target_modules": "q_proj"}])
@pytest.mark.parametrize("engine", RELEASES)
def test_adapters_of_every_release_are_answered(engine: str, options: dict[str, str]) -> None:
    if options and "lora_target_modules" not in engines.facts(engine).options:
        return
    for version in (*RELEASES[engine], *(("0.2.7",) if engine == "vllm" else ())):
        plain, plan = asked(engine, version), asked(engine, version, lora="16x2", engine_option=options)
        lines = {e.name for e in plan.ledgers[0].entries} - {e.name for e in plain.ledgers[0].entries}
        said = set(plan.model.notes) - set(plain.model.notes)
        assert any("LoRA" in name for name in lines) or any("lora" in note for note in said) or "adapters" in plan.verdict, (
            engine,
            version,
        )


@pytest.mark.parametrize(
    ("engine", "version", "options", "said"),
    [
        ("vllm", "0.2.7", {}, "unrecognized arguments: --enable-lora (vLLM 0.2.7 takes no adapters: they are there from 0.3 on)"),
        ("vllm", "0.3.0", {}, None),  # the first with vllm/lora
        ("tensorrt-llm", "0.19.0", {"backend": "pytorch"}, "takes no adapters: they are there from 0.20 on (pytorch)"),
        ("tensorrt-llm", "0.19.0", {}, None),
    ],
)
def test_releases_before_adapters(engine: str, version: str, options: dict[str, str], said: str | None) -> None:
    plan = asked(engine, version, lora="16x2", engine_option=options)
    assert (said in plan.verdict) if said else "takes no adapters" not in plan.verdict


COMMANDS = {
    "vllm": "vllm serve {} --enable-lora",
    "sglang": "python -m sglang.launch_server --model-path {} --lora-paths a=/a",
    "tensorrt-llm": "trtllm-serve {} --extra_llm_api_options lora.yaml",
    "llama.cpp": "llama-server -hf {} --lora /a.gguf",
    "lmdeploy": "lmdeploy serve api_server {} --backend pytorch --adapters /a",
    "ollama": "FROM llama3.1:8b\nPARAMETER num_ctx 4096\nADAPTER /a",
}


def test_every_served_engine_has_a_command_here() -> None:
    assert set(COMMANDS) == set(engines.served())


@pytest.mark.parametrize("engine", COMMANDS)
def test_adapters_of_a_command_are_sized_or_asked_for(engine: str, tmp_path: Path) -> None:
    (tmp_path / "lora.yaml").write_text("lora_config: {lora_dir: [/a], max_loras: 2}\n")
    file = tmp_path / ("Modelfile" if engine == "ollama" else "serve.sh")
    file.write_text(COMMANDS[engine].format("meta-llama/Llama-3.1-8B-Instruct") + "\n")
    (verdict,) = kvplan.check(file, device="h100", max_model_len=4096)
    assert verdict.found is not None
    assert "lora" in verdict.found.question or [u.what for u in verdict.unresolved] == ["lora"]
    (given,) = kvplan.check(file, device="h100", max_model_len=4096, lora="8x2")
    assert given.status == "fits", given.message
    assert not given.unresolved
