"""When the Hub is asked: only for a name that is not known here, never offline, and for a file's own names only with --hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvplan.cli import run
from tests.fake_hub import Hub, serving

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 256, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[Hub]:
    """A Hub of one model, acme/next, that has a config.json and nothing else."""
    made = Hub()
    made.files["acme/next"] = {"config.json": json.dumps(CONFIG).encode()}
    with serving(made.answer) as made.endpoint:
        yield made


def kvplan(server: Hub, home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: huggingface_hub reads its variables when it is imported."""
    own = {
        "HF_ENDPOINT": server.endpoint, "HF_HOME": str(home), "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path), **env,
    }  # fmt: skip
    return subprocess.run([sys.executable, "-m", "kvplan", *words], env=own, capture_output=True, text=True, check=False)


def test_an_id_that_is_not_known_here_is_asked_for_once(server: Hub, tmp_path: Path) -> None:
    done = kvplan(server, tmp_path, "estimate", "acme/next", "--context", "256", "--format", "json")
    assert done.returncode == 0, done.stderr
    # 2 layers x K and V x 2 heads x 16 elements x 2 bytes
    assert json.loads(done.stdout)["cache"]["bytes_per_token"] == 2 * 2 * 2 * 16 * 2
    assert server.requests
    server.requests.clear()
    again = kvplan(server, tmp_path, "estimate", "acme/next", "--context", "256", "--offline", "--format", "json")
    assert json.loads(again.stdout)["cache"] == json.loads(done.stdout)["cache"]
    assert server.requests == []


@pytest.mark.parametrize(("words", "env"), [(("--offline",), {}), ((), {"HF_HUB_OFFLINE": "1"})])
def test_offline_asks_nothing(server: Hub, tmp_path: Path, words: tuple[str, ...], env: dict[str, str]) -> None:
    done = kvplan(server, tmp_path, "estimate", "acme/next", "--context", "256", *words, **env)
    assert done.returncode == 2
    assert "acme/next is not in the local cache, and offline mode is on" in done.stderr
    assert done.stderr.count("\n") == 1
    assert server.requests == []


def test_a_missing_model_is_one_line(server: Hub, tmp_path: Path) -> None:
    done = kvplan(server, tmp_path, "estimate", "acme/nothing", "--context", "256")
    assert done.returncode == 2
    assert "no such model on the Hub, or it is private" in done.stderr
    said = [line for line in done.stderr.splitlines() if ": asking http" not in line]  # which a busy machine is told after a second
    assert len(said) == 1


def test_a_name_that_the_hub_does_not_have_says_nothing(server: Hub, tmp_path: Path) -> None:
    words = ("estimate", "acme/Qwen3-8B-NVFP4", "--context", "256")
    missing = kvplan(server, tmp_path, *words)
    assert missing.returncode == 2
    assert "no such model on the Hub" in missing.stderr
    offline = kvplan(server, tmp_path, *words, HF_HUB_OFFLINE="1")
    assert offline.returncode == 0
    assert "in the format that its name says" in " ".join(offline.stdout.split())


def test_known_names_import_no_hub_library() -> None:
    code = (
        "import sys; from kvplan.cli import run\n"
        "run(['estimate', 'Qwen/Qwen2.5-72B-Instruct-AWQ', '--context', '1k', '--format', 'json'])\n"
        "sys.exit('huggingface_hub' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["model"]["id"] == "qwen/qwen2.5-72b-instruct-awq"


def test_check_asks_the_hub_only_when_told(server: Hub, tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve acme/next --max-model-len 256 --kv-cache-memory-bytes 1G\n")
    kept = kvplan(server, tmp_path, "check", str(script), "--device", "h100")
    assert kept.returncode == 2
    assert "--hub" in kept.stdout
    assert server.requests == []
    asked = kvplan(server, tmp_path, "check", str(script), "--device", "h100", "--hub")
    assert asked.returncode == 0, asked.stdout
    assert server.requests


def test_reconcile_asks_the_hub_only_when_told(server: Hub, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text(
        "INFO vLLM API server version 0.19.0\nINFO non-default args: {'model': 'acme/next', 'max_model_len': 256}\n"
        "INFO [gpu_worker.py:298] Model loading took 0.01 GiB memory and 3.2 seconds\n"
    )
    kept = kvplan(server, tmp_path, "reconcile", str(log), "--device", "h100")
    assert (kept.returncode, server.requests) == (2, [])
    assert "--hub" in kept.stderr
    kvplan(server, tmp_path, "reconcile", str(log), "--device", "h100", "--hub")
    assert server.requests


def test_a_repository_of_several_files_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "unsloth/Qwen3-8B-GGUF", "--context", "1k"]) == 2
    assert "name one by its type, such as: unsloth/Qwen3-8B-GGUF:Q4_K_M" in capsys.readouterr().err
