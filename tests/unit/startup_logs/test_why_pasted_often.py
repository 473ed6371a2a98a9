"""Errors that people paste, which no plan evaluates: what says them, and what they are."""

from __future__ import annotations

import pytest

import kvplan

#: Text as its source writes it (torch, triton, CUDA, DeepEP, transformers, the engines), with numbers of our own; engine; what it is.
TEXTS = (
    ("RuntimeError: The number of required GPUs exceeds the total number of available GPUs in the placement group.", "vllm",
     "GPUs of a cluster"),
    ("[TensorRT-LLM][ERROR] Assertion failed: Impossible to fit in any sequence in kvCache", "tensorrt-llm", "no cache"),
    ("RuntimeError: No enough gpu memory for runtime.", "lmdeploy", "no cache"),
    ("RuntimeError: No enough gpu memory for kv cache.", "lmdeploy", "no cache"),
    ("RuntimeError: No enough gpu memory for state cache. Please reduce max_batch_size.", "lmdeploy", "no cache"),
    ("ggml_vulkan: Device memory allocation of size 2147483648 failed.", "llama.cpp", "out of memory"),
    ("error loading model: mmap failed: Cannot allocate memory", "", "host memory"),
    ("RuntimeError: unable to open shared memory object </torch_4711_1> in read-write mode: No space left on device (28)", "",
     "shared memory"),
    ("ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).", "",
     "shared memory"),
    ("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block "
     "sizes or `num_stages` may help.", "", "kernels and GPU"),
    ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "", "driver"),
    ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "", "a fault in a kernel"),
    ("RuntimeError: DeepEP error: timeout (dispatch CPU)", "", "experts between ranks"),
    ("ValueError: The checkpoint you are trying to load has model type `qwen3_5` but Transformers does not recognize this architecture.",
     "", "a class of later releases"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "engine", "name"), TEXTS)
def test_known(text: str, engine: str, name: str) -> None:
    (told, *_) = kvplan.why(text).causes
    assert told.name == name
    assert not engine or told.engine == engine
