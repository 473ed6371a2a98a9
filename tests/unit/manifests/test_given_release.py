"""A release that is given reads the options: those that it does not have any more, or not yet, are its refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from kvplan.manifests.check import Source, check
from tests.conftest import planned

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    ("words", "version", "status", "said"),
    [  # engine/arg_utils.py of the wheels: --task to 0.12, --swap-space to 0.17.1, --kv-cache-memory-bytes from 0.10.2 on
        ("vllm serve {} --task generate", "0.12.0", "fits", ""),
        ("vllm serve {} --task generate", "0.13.0", "refuses", "vllm 0.13.0 does not have --task any more; it was there up to 0.12.0"),
        ("vllm serve {} --swap-space 4", "0.20.0", "refuses", "does not have --swap-space any more"),
        ("vllm serve {} --kv-cache-memory-bytes 20G", "0.8.5", "refuses", "does not have --kv-cache-memory-bytes yet"),
        ("python -m sglang.launch_server --model-path {} --max-lora-rank 16", "0.4.6", "refuses", "does not have --max-lora-rank yet"),
        ("vllm serve {} --speculative-config '{{\"method\": \"suffix\", \"num_speculative_tokens\": 3}}'", "0.11.0", "refuses",
         "vllm 0.11.0 has no such value"),
    ],
)  # fmt: skip
def test_options_are_those_of_the_release_that_is_given(tmp_path: Path, words: str, version: str, status: str, said: str) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(words.format(LLAMA) + "\n")
    (verdict,) = kvplan.check(script, device="h100", engine_version=version, max_model_len=8192)
    assert verdict.status == status, verdict.message
    assert said in " ".join(f.message for f in verdict.findings)


def test_it_wins_over_the_image() -> None:
    text = f"docker run --gpus all vllm/vllm-openai:v0.20.0 --model {LLAMA} --swap-space 4 --max-model-len 8192\n"
    (verdict,) = check([Source("run.sh", text)], planned, device="h100", engine_version="0.17.0")
    assert verdict.status == "fits", verdict.message
    assert verdict.found is not None
    assert verdict.found.engine_version == "0.17.0"


def test_an_option_of_other_releases_that_is_given_is_refused() -> None:
    text = f"docker run --gpus all vllm/vllm-openai:v0.20.0 --model {LLAMA} --max-model-len 8192\n"
    (verdict,) = check([Source("run.sh", text)], planned, device="h100", engine_option={"swap_space": "4"})
    assert (verdict.status, verdict.message) == ("refuses", "swap_space: vllm 0.20.0 has no --swap-space: it is there up to 0.17.1")
