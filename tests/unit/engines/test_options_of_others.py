"""Options and variables of llama.cpp, Ollama, LMDeploy and TensorRT-LLM that looked as if no memory hung on them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan

LLAMA, OLLAMA = "llama-server -m qwen3-8b.gguf", "ollama run qwen3:8b"
LMDEPLOY, TRTLLM = "lmdeploy serve api_server Qwen/Qwen3-8B", "trtllm-serve Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("before", "command", "after", "rule"),
    [
        ("GGML_CUDA_ENABLE_UNIFIED_MEMORY=1", LLAMA, "", "not-modelled-less"),
        ("LLAMA_ARG_IMAGE_MAX_TOKENS=1024", LLAMA, "", "not-modelled-either"),
        ("", LLAMA, "--image-max-tokens 1024", "not-modelled-either"),
        ("", LLAMA, "--backend-sampling", "not-modelled-either"),
        ("OLLAMA_LLM_LIBRARY=cpu", OLLAMA, "", "not-modelled-either"),
        ("", LMDEPLOY, "--backend pytorch --speculative-algorithm eagle --speculative-draft-model d/y", "open-speculative"),
        ("", LMDEPLOY, "--vision-max-batch-size 8", "not-modelled-either"),
        ("NCCL_MAX_NCHANNELS=4", TRTLLM, "--tp_size 2", "not-modelled-either"),
    ],
)
def test_what_moves_memory_is_said(before: str, command: str, after: str, rule: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"

    def said(text: str) -> set[str]:
        script.write_text(text)
        return {finding.rule for finding in kvplan.check(script, device="h100")[0].findings}

    assert rule in said(f"{before} {command} {after}\n")
    assert rule not in said(f"{command}\n")
