"""Adapters that a command names by their files: read where they lie beside, asked for where not, never taken for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from tools.header_files import gguf

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
#: Llama 3.1 8B: 32 layers, q 4,096 x 4,096, v 1,024 x 4,096.
Q_AND_V = 32 * ((4096 + 4096) + (4096 + 1024))
SERVES = {
    "llama.cpp": f"llama-server -hf {LLAMA} -c 8192 --lora",
    "lmdeploy": f"lmdeploy serve api_server {LLAMA} --backend pytorch --session-len 8192 --adapters",
    "sglang": f"python -m sglang.launch_server --model-path {LLAMA} --context-length 8192 --lora-paths",
    "ollama": "FROM llama3.1:8b\nPARAMETER num_ctx 8192\nADAPTER",
}  # fmt: skip


def checked(folder: Path, engine: str, adapter: str, **given: Any) -> Any:
    file = folder / ("Modelfile" if engine == "ollama" else "serve.sh")
    file.write_text(f"{SERVES[engine]} {adapter}\n")
    (verdict,) = kvplan.check(file, device="h100", **given)
    return verdict


def slots(verdict: Any) -> int:
    return sum(e.bytes for e in verdict.plan.ledgers[0].entries if e.name == "LoRA slots")


def peft(folder: Path, name: str, **config: Any) -> None:
    (folder / name).mkdir()
    (folder / name / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", **config}))


def adapter_file(path: Path, tensors: dict[str, tuple[int, int]], kind: str = "adapter") -> None:
    rows = [(name, shape, 1, 2 * shape[0] * shape[1]) for name, shape in tensors.items()]
    path.write_bytes(gguf({"general.type": kind, "general.architecture": "llama"}, rows))


@pytest.mark.parametrize("engine", SERVES)
def test_a_file_that_is_not_at_hand_is_asked_for(tmp_path: Path, engine: str) -> None:
    verdict = checked(tmp_path, engine, "/adapters/mine")
    assert verdict.status == "unknown"
    (one,) = verdict.unresolved
    assert (one.what, one.give) == ("lora", f"--lora RANKx{8 if engine == 'sglang' else 1}")
    assert "the rank of /adapters/mine is in its adapter_config.json or GGUF file" in one.why


@pytest.mark.parametrize("engine", SERVES)
def test_sizes_that_are_given_answer(tmp_path: Path, engine: str) -> None:
    verdict = checked(tmp_path, engine, "/adapters/mine", lora="16x2")
    assert verdict.status == "fits"
    assert slots(verdict) > 0


@pytest.mark.parametrize(("engine", "held", "elements"), [("llama.cpp", 1, 1), ("lmdeploy", 1, 1), ("ollama", 1, 1), ("sglang", 8, None)])
def test_a_folder_that_lies_beside_is_read(tmp_path: Path, engine: str, held: int, elements: int | None) -> None:
    peft(tmp_path, "mine", r=16, target_modules=["q_proj", "v_proj"], rank_pattern={"layers.0.self_attn.q_proj": 32})
    verdict = checked(tmp_path, engine, "./mine")
    assert verdict.status == "fits"
    assert verdict.found is not None
    assert verdict.found.question["lora"] == f"32x{held}"
    # SGLang's buffers are of qkv_proj, whichever is named (lora/utils.py): 3 factors of 4,096 and 4,096 + 2 x 1,024 outputs
    matrices = Q_AND_V if elements else 32 * (3 * 4096 + 4096 + 2 * 1024)
    assert slots(verdict) == held * 32 * matrices * 2
    assert any(f.rule == "adapters-read" and "rank 32 of q_proj, v_proj" in f.message for f in verdict.findings)


def test_a_gguf_adapter_that_lies_beside_is_read(tmp_path: Path) -> None:
    adapter_file(tmp_path / "mine.gguf", {"blk.0.attn_q.weight.lora_a": (4096, 8), "blk.0.attn_q.weight.lora_b": (8, 4096)})
    verdict = checked(tmp_path, "llama.cpp", "mine.gguf")
    assert verdict.found is not None
    assert verdict.found.question["lora"] == "8x1"
    assert slots(verdict) == 8 * 32 * (4096 + 4096) * 2
    adapter_file(tmp_path / "model.gguf", {"blk.0.attn_q.weight": (64, 64)}, kind="model")
    assert checked(tmp_path, "llama.cpp", "model.gguf").status == "unknown"


def test_several_adapters_hold_the_largest_rank(tmp_path: Path) -> None:
    peft(tmp_path, "a", r=8, target_modules="all-linear")
    peft(tmp_path, "b", r=64, target_modules=["model.layers.0.self_attn.q_proj"])
    verdict = checked(tmp_path, "lmdeploy", "a=./a b=b")
    assert verdict.found is not None
    assert verdict.found.question["lora"] == "64x2"
    assert "engine_option" not in verdict.found.question or "lora_target_modules" not in verdict.found.question["engine_option"]
    both = checked(tmp_path, "llama.cpp", "./a,b:0.5")
    assert both.found is not None
    assert both.found.question["lora"] == "64x2"
    assert checked(tmp_path, "sglang", '\'{"lora_name": "a", "lora_path": "./a"}\'').found.question["lora"] == "8x8"


def test_a_config_that_says_no_rank(tmp_path: Path) -> None:
    peft(tmp_path, "mine", r=True)
    assert checked(tmp_path, "lmdeploy", "./mine").status == "unknown"
    (tmp_path / "mine" / "adapter_config.json").write_text("[")
    assert checked(tmp_path, "lmdeploy", "./mine").status == "unknown"


def test_a_rank_beyond_what_vllms_command_takes(tmp_path: Path) -> None:
    """lora/peft_helper.py validate_legal, 0.32: --max-lora-rank is 16 where nobody says it."""
    peft(tmp_path, "mine", r=64)
    script = tmp_path / "serve.sh"
    script.write_text(f"vllm serve {LLAMA} --max-model-len 8192 --enable-lora --lora-modules mine=./mine other=/elsewhere\n")
    (verdict,) = kvplan.check(script, device="h100")
    assert verdict.status == "refuses"
    assert "LoRA rank 64 is greater than max_lora_rank 16" in verdict.message
    script.write_text(script.read_text().replace("--enable-lora", "--enable-lora --max-lora-rank 64"))
    (verdict,) = kvplan.check(script, device="h100")
    assert verdict.status == "fits", verdict.message


def test_a_rank_beyond_what_sglangs_command_takes(tmp_path: Path) -> None:
    """0.5.23 lora/lora_manager.py init_state reads adapters before it has a pool: what is too wide fails when it is put into a slot."""
    peft(tmp_path, "mine", r=64, target_modules=["q_proj"])
    verdict = checked(tmp_path, "sglang", "mine=./mine --max-lora-rank 16 --max-loras-per-batch 2")
    assert verdict.status == "fits"
    assert verdict.found.question["lora"] == "16x2"
    (said,) = (f for f in verdict.findings if f.rule == "adapter-rank")
    assert said.severity == "warning"
    assert "LoRA rank 64 is greater than max_lora_rank 16; the engine starts, and fails at the first request" in said.message
