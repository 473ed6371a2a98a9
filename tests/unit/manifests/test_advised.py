"""Advice on a file in its engine's own options: spelled as vLLM's engine/arg_utils.py and llama.cpp's common/arg.cpp have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.api.manifests import check


@pytest.mark.parametrize(("command", "device", "expected"), [
    ("vllm serve Qwen/Qwen2.5-32B-Instruct --max-model-len 32768 --gpu-memory-utilization 0.85", "h100",
     ("(--gpu-memory-utilization 0.92)", "(--max-model-len ")),
    ("vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 32768", "a100-80gb",
     ("split over 4 devices (--tensor-parallel-size 4)", "3 pipeline stages (--pipeline-parallel-size 3)")),
    ("llama-server -hf unsloth/Llama-3.3-70B-Instruct-GGUF:Q4_K_M -c 131072 -ngl 99 -np 1", "rtx-4090",
     ("in host memory (--gpu-layers ", "| use 4 of them |")),  # which no option of it says: what is there
])  # fmt: skip
def test_changes_in_the_engines_words(tmp_path: Path, command: str, device: str, expected: tuple[str, ...]) -> None:
    file = tmp_path / "serve.sh"
    file.write_text(command + "\n")
    (verdict,) = check([str(file)], device=device)
    (message,) = (finding.message for finding in verdict.findings if "would fit: " in finding.message)
    assert [text for text in expected if text not in message] == []
