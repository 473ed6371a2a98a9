"""What people see, kept to the letter in tests/golden/*.txt; `pytest tests/golden --rewrite-golden` writes them anew for review.

The figures in them are checked elsewhere; here it is the layout.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kvplan.cli import run

HERE = Path(__file__).parent
CASES = {
    "platform_engineer": "estimate meta-llama/llama-3.3-70b --device h100 --tp 4 --context 8k --batch 32",
    "platform_engineer_on_one": "estimate meta-llama/llama-3.3-70b --device h100 --context 8k --batch 32",
    "own_card": "estimate llama3.3:70b --engine ollama --device rtx-4090",
    "student": "estimate meta-llama/llama-3.1-8b --context 8k",
    "refused": "estimate meta-llama/llama-3.1-8b --device h100 --tp 3 --context 8k --detail",
    "fits": "estimate meta-llama/llama-3.1-8b --device h100-80gb --engine ideal --context 32768 --batch 16",
    "does_not_fit": "estimate meta-llama/llama-3.1-8b --device 24GiB --engine ideal --context 32k --batch 8",
    "windows_and_stages": "estimate google/gemma-3-27b --device h100 --engine ideal --context 32k --tp 2 --pp 2 --block-size 16 --detail",
    "latent_and_experts": "estimate deepseek-ai/deepseek-v3 --device h200 --engine ideal --context 32k --batch 4 --tp 8 --ep 8 --detail",
    "rows": "estimate meta-llama/llama-3.1-8b --device l40s --engine ideal --context 8k,32k,128k --batch 4",
    "explain": "explain google/gemma-2-9b --engine ideal --context 8k",
    "fit": "fit meta-llama/llama-3.1-8b --engine ideal --context 32k --batch 64 --devices h100,h200,l40s,rtx-3060 --price h200=3.5",
    "compare": "compare meta-llama/llama-3.1-8b google/gemma-2-9b --engine ideal --context 8k",
}


@pytest.mark.parametrize("name", CASES)
def test_text(name, capsys, request):
    run(shlex.split(CASES[name]))
    out = f"$ kvplan {CASES[name]}\n{capsys.readouterr().out}"
    path = HERE / f"{name}.txt"
    if request.config.getoption("--rewrite-golden"):
        path.write_text(out)
    assert path.read_text() == out
