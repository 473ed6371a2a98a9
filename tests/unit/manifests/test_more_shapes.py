"""Shapes of public deployment files: what a person reads in a minimal one of each kind stands in the question, or is said to be open."""

from __future__ import annotations

from textwrap import dedent

import pytest

from kvplan.manifests.read import read
from kvplan.manifests.values import Found


def found(text: str, name: str = "x.yaml", **files: str) -> list[Found]:
    """What is read of a text; `files` lie beside it, `_` in their names for `.` and `/`."""
    beside = {key.replace("__", "/").replace("_", "."): value for key, value in files.items()}
    return read(dedent(text).lstrip("\n"), name, None, beside.get)


def rules(one: Found) -> set[str]:
    return {finding.rule for finding in one.findings}


def opened(one: Found) -> set[str]:
    return {unresolved.what for unresolved in one.unresolved}


def test_a_dynamo_worker_of_two_nodes_has_the_gpus_of_both() -> None:
    (one,) = found("""
        apiVersion: nvidia.com/v1alpha1
        kind: DynamoGraphDeployment
        metadata: {name: g}
        spec:
          services:
            Decode:
              multinode: {nodeCount: 2}
              resources: {limits: {gpu: "4"}}
              extraPodSpec:
                mainContainer:
                  command: [python3, -m, dynamo.vllm]
                  args: [--model, Qwen/Qwen3-32B, --tensor-parallel-size, "8"]
        """)
    assert one.question["n_devices"] == 8  # 2 nodes of 4
    assert one.question["tp"] == 8


@pytest.mark.parametrize(("runtime", "engine"), [("llamacpp-arm64", "llama.cpp"), ("vllm-cuda-runtime", "vllm"), ("our-sglang", "sglang")])
def test_a_serving_runtime_that_is_elsewhere_is_open_and_told_by_its_name(runtime: str, engine: str) -> None:
    (one,) = found(f"""
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {{name: m}}
        spec:
          predictor:
            model:
              modelFormat: {{name: vLLM}}
              runtime: {runtime}
              storageUri: hf://Qwen/Qwen3-8B
        """)
    assert one.engine == engine
    assert "options" in opened(one)


def test_a_serving_runtime_of_an_engine_that_is_not_modelled_is_named() -> None:
    (one,) = found("""
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: m}
        spec:
          predictor:
            model:
              modelFormat: {name: nvidia-nim-llama-3.1-70b-instruct}
              runtime: nvidia-nim-llama-3.1-70b-instruct-1.1.0
              storageUri: pvc://nim/
        """)
    assert one.engine == ""
    assert "NIM" in one.unresolved[0].why


def test_modal_takes_a_list_of_gpus() -> None:
    (one,) = found(
        """
        import modal, subprocess
        app = modal.App("a")
        @app.cls(gpu=["H100!"])
        class Server:
            def start(self):
                subprocess.Popen(["vllm", "serve", "Qwen/Qwen3-8B"])
        """,
        "m.py",
    )
    assert one.question["device"] == "h100-80gb"
    (one,) = found(
        """
        import modal, subprocess
        app = modal.App("a")
        @app.function(gpu=["H100", "A100-80GB"])
        def serve():
            subprocess.Popen(["vllm", "serve", "Qwen/Qwen3-8B"])
        """,
        "m.py",
    )
    assert "device" not in one.question
    assert any("any of H100" in u.why for u in one.unresolved)


def test_a_nomad_job_in_a_terraform_resource() -> None:
    (one,) = found(
        """
        resource "nomad_job" "ollama" {
          jobspec = <<EOT
        job "ollama" {
          group "g" {
            task "ollama" {
              driver = "docker"
              config {
                image = "ollama/ollama:0.9.0"
              }
              resources {
                device "nvidia/gpu" {
                  count = 2
                }
              }
              env {
                OLLAMA_CONTEXT_LENGTH = "16384"
              }
            }
          }
        }
        EOT
        }
        """,
        "o.tf",
    )
    assert (one.engine, one.engine_version) == ("ollama", "0.9.0")
    assert (one.question["n_devices"], one.question["max_model_len"]) == (2, 16384)
    assert one.span[0] == 5  # the task's own line


def test_a_service_without_an_image_is_read_by_its_options_and_open() -> None:
    (one,) = found("""
        services:
          vllm:
            command: [Qwen/Qwen3-8B, --max-model-len=8192, --gpu-memory-utilization=0.75]
        """)
    assert (one.engine, one.model) == ("vllm", "Qwen/Qwen3-8B")
    assert (one.question["max_model_len"], one.question["memory_fraction"]) == (8192, 0.75)
    assert "options" in opened(one)


@pytest.mark.parametrize("before", ["Qwen/Qwen3-8B, ", "serve, Qwen/Qwen3-8B, "])
def test_the_model_before_the_options_of_an_image_whose_start_is_not_known(before: str) -> None:
    (one,) = found(f"""
        services:
          llm:
            image: example.com/own/vllm-jetson:1
            command: [{before}--max-model-len=8192, --gpu-memory-utilization=0.75]
        """)
    assert one.model == "Qwen/Qwen3-8B"


def test_short_options_come_first_as_well() -> None:
    (one,) = found("""
        services:
          llm:
            build: {dockerfile: Dockerfile.llama}
            image: local/llama.cpp:server-cuda
            command: [-m, /models/gpt-oss-20b-mxfp4.gguf, --n-gpu-layers, "70", --ctx-size, "8192"]
        """)
    assert one.model == "/models/gpt-oss-20b-mxfp4.gguf"
    assert (one.question["n_gpu_layers"], one.question["max_model_len"]) == (70, 8192)


BASE = "services: {base: {image: 'vllm/vllm-openai:v0.11.0', environment: [A=1, B=2], gpus: all}}\n"


def test_a_service_that_extends_another_files() -> None:
    text = """
        services:
          llm:
            extends: {file: base.yml, service: base}
            environment: {B: "3"}
            command: [--model, Qwen/Qwen3-8B, --max-model-len, "8192"]
        """
    (one,) = found(text, base_yml=BASE)
    assert (one.engine, one.engine_version, one.model) == ("vllm", "0.11.0", "Qwen/Qwen3-8B")
    assert "config-read" in rules(one)
    (one,) = found(text)
    assert "not-read" in rules(one)


def test_an_entrypoint_script_from_beside_is_followed_and_its_branches_are_one_server() -> None:
    text = """
        services:
          llm:
            image: vllm/vllm-openai:v0.11.0
            entrypoint: [/opt/start.sh]
            command: [vllm, serve, Qwen/Qwen3-8B, --max-model-len, "8192"]
            volumes: ["./start.sh:/opt/start.sh:ro"]
            gpus: all
        """
    script = 'if [ -z "$X" ]; then\n  exec "$@"\nfi\nexport VLLM_USE_V1=1\nexec "$@"\n'
    (one,) = found(text, start_sh=script)
    assert (one.model, one.question["max_model_len"]) == ("Qwen/Qwen3-8B", 8192)
    assert "wrapper" not in rules(one)
    assert one.places["command"].line <= 9
    (one,) = found(text)  # not at hand: taken to run what stands behind it, and said
    assert one.model == "Qwen/Qwen3-8B"
    assert "wrapper" in rules(one)
