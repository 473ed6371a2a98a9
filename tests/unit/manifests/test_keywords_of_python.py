"""Keywords of Python's that are more than literals: settings in classes of the engine's own, TensorRT-LLM's LLM."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.errors import UnknownName
from kvplan.manifests import Source
from kvplan.manifests.read import read
from tests.conftest import planned
from tests.unit.manifests.as_read import found, opened


def verdict(text: str) -> Any:
    (one,) = kvplan.check([Source("serve.py", text)], device="h100")
    return one


def test_tensorrt_llms_keywords_are_the_keys_of_its_file() -> None:
    """llmapi/llm_args.py: LLM(**kwargs) makes the same LlmArgs of them as trtllm-serve of --config."""
    one = verdict(
        "from tensorrt_llm import LLM\nfrom tensorrt_llm.llmapi import KvCacheConfig\n"
        "llm = LLM(model='Qwen/Qwen3-8B', tensor_parallel_size=2, max_seq_len=8192, max_batch_size=64, frobnicate=3,\n"
        "          kv_cache_config=KvCacheConfig(free_gpu_memory_fraction=0.7, dtype='fp8', tokens_per_block=64))\n"
    )
    sizes = {"tp": 2, "max_model_len": 8192, "max_num_seqs": 64, "block_size": 64}
    assert one.found.question == {**sizes, "memory_fraction": 0.7, "kv_dtype": "fp8"}
    assert any("frobnicate" in f.message for f in one.findings)
    assert not any("no option --" in f.message for f in one.findings)


def test_what_a_keyword_of_it_hangs_on_is_asked_for() -> None:
    one = verdict("from tensorrt_llm import LLM\nllm = LLM('Qwen/Qwen3-8B', max_seq_len=LENGTH)\n")
    assert [u.what for u in one.unresolved] == ["max_model_len"]


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        ("kv_transfer_config=KVTransferConfig(kv_connector='LMCacheConnectorV1', kv_role='kv_both')", "not-modelled-either"),
        ("compilation_config=CompilationConfig(mode=3)", ""),
    ],
)
def test_settings_in_a_class_of_vllms_own_are_a_mapping(made: str, rule: str) -> None:
    imported = "from vllm import LLM\nfrom vllm.config import CompilationConfig, KVTransferConfig\n"
    text = f"{imported}llm = LLM('Qwen/Qwen3-8B', max_model_len=8192, {made})\n"
    one = verdict(text)
    assert (one.status, [f.rule for f in one.findings if f.severity == "warning"]) == ("fits", [rule] if rule else [])


def test_what_is_open_is_named_as_people_write_it() -> None:
    (found,) = read("from vllm import LLM\nllm = LLM('Qwen/Qwen3-8B', kv_transfer_config=made())\n", "serve.py")
    assert [u.what for u in found.unresolved if "transfer" in u.what] == ["kv_transfer"]


@pytest.mark.parametrize(
    ("written", "engine", "version"), [("vllm==0.11.0", "vllm", "0.11.0"), ("llama-server-b6000", "llama.cpp", "b6000")]
)
def test_an_engine_with_its_release_says_how_to_write_it(written: str, engine: str, version: str) -> None:
    with pytest.raises(UnknownName, match=rf"write {engine}, and {version} as the engine_version"):
        planned("Qwen/Qwen3-8B", engine=written, device="h100")


def test_what_a_call_gives_by_its_place_comes_before_a_default() -> None:
    body = 'from vllm import LLM\ndef serve(model="Qwen/Qwen3-8B", length=2048):\n    return LLM(model=model, max_model_len=length)\n'
    (one,) = found(body + 'serve("Qwen/Qwen3-32B", 4096)\n', "serve.py")
    assert (one.model, one.question["max_model_len"]) == ("Qwen/Qwen3-32B", 4096)
    (two,) = found(body + "serve(chosen())\n", "serve.py")
    assert "model" in opened(two)
    (three,) = found(body + "serve(*sys.argv)\n", "serve.py")
    assert "model" in opened(three)


def test_a_class_that_is_bound_has_what_it_is_bound_to() -> None:
    head = 'from vllm import LLM\nclass Server:\n    def __init__(self, model="Qwen/Qwen3-8B"):\n        self.llm = LLM(model=model)\n'
    (one,) = found(head + 'app = Server.bind("Qwen/Qwen3-4B")\n', "app.py")
    assert one.model == "Qwen/Qwen3-4B"
    (two,) = found(head + "def deploy(name):\n    return Server.options(num_replicas=2).bind(name)\n", "app.py")
    assert "model" in opened(two)


def test_an_engine_that_is_taken_out_of_its_image_has_no_release() -> None:
    image = 'import modal\nimage = modal.Image.from_registry("lmsysorg/sglang:v0.5.0rc2-cu126")MORE\n'
    run = 'import subprocess\nsubprocess.Popen(["python", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B"])\n'
    (one,) = found(image.replace("MORE", "") + run, "app.py")
    assert one.engine_version == "0.5.0rc2"
    (two,) = found(image.replace("MORE", '.run_commands("pip uninstall -y sglang", "pip install -e /fork/python")') + run, "app.py")
    assert two.engine_version is None
    assert any("taken out" in finding.message for finding in two.findings)
