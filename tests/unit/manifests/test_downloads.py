"""The model behind a path that the same file downloads to."""

import time

import pytest

from kvplan.manifests import downloads
from kvplan.manifests.read import read

SHELL = """#!/bin/bash
huggingface-cli download Qwen/Qwen3-8B \\
  --local-dir /models/here
vllm serve /models/here/ --max-model-len 8192
"""
PYTHON = """from huggingface_hub import snapshot_download
from vllm import LLM

snapshot_download(repo_id="Qwen/Qwen3-8B", local_dir="/models/here")
llm = LLM(model="/models/here", max_model_len=8192)
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: served}
spec:
  initContainers:
    - name: get
      image: python:3.12
      args:
        - --source
        - Qwen/Qwen3-8B
        - --output-dir
        - /models/here
      command: [download]
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.11.0
      args: [--model, /models/here, --max-model-len, "8192"]
"""
GGUF = """#!/bin/sh
wget -q https://huggingface.co/unsloth/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-Q4_K_M.gguf -O /models/model.gguf
llama-server -m /models/model.gguf -c 8192
"""


@pytest.mark.parametrize(
    ("name", "text", "model"),
    [
        ("run.sh", SHELL, "Qwen/Qwen3-8B"),
        ("run.py", PYTHON, "Qwen/Qwen3-8B"),
        ("pod.yaml", POD, "Qwen/Qwen3-8B"),
        ("gguf.sh", GGUF, "unsloth/Qwen3-8B-GGUF:q4_k_m"),
    ],
)
def test_the_model_is_the_one_that_the_file_downloads(name: str, text: str, model: str) -> None:
    (one,) = read(text, name)
    assert one.model == model
    assert not [unresolved for unresolved in one.unresolved if unresolved.what == "model"]
    assert any("the file downloads" in finding.message for finding in one.findings)


def test_two_repositories_to_one_path_leave_it_open() -> None:
    text = SHELL + "hf download Qwen/Qwen3-4B --local-dir /models/here\n"
    assert downloads.of_text(text) == {}
    (one,) = read(text, "run.sh")
    assert any(unresolved.what == "model" for unresolved in one.unresolved)


def test_a_path_given_as_a_variable_is_not_guessed() -> None:
    assert downloads.of_text('hf download Qwen/Qwen3-4B --local-dir "$WHERE"\nhf download "$MODEL" --local-dir /models/x\n') == {}


@pytest.mark.parametrize(
    "part", ["curl ", "wget https://huggingface.co/a/b/resolve/", "hf download a/b ", "snapshot_download(a/b, ", "--source a/"]
)
def test_long_files_are_read_in_time(part: str) -> None:
    begun = time.process_time()
    downloads.of_text("download " + part * 20000)
    assert time.process_time() - begun < 5
