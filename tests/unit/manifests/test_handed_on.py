"""Kinds of public files that were not read, or read wrong: what each holds is told by the file itself, in the words it was published with.

Repositories: uv-python/raycluster, swiss-ai/model-launch, umesh-khatiwada/aibrix-vllm-deployment, defilantech/LLMKube (its own
internal/controller/runtime_*_args.go says what the options become), vedcsolution/llama-swap, soofi-project/soofi-inference-server,
wutonglab/spark-llm-deployment-evaluation, yangyuxin-hub/H100-llm-deploy, aminhaghii/Multi, dolr-ai/ansuman-gpu-inference-server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.manifests import read_file
from tests.unit.manifests.as_read import found, opened


@pytest.mark.parametrize(
    "command",
    [
        "srun -u start.py singularity v.sif --slurm --auto --model Qwen/Qwen3-235B-A22B --max-model-len 40000 --kv-cache-dtype fp8",
        'sml advanced --framework vllm --framework-args "--model Qwen/Qwen3-235B-A22B --max-model-len 40000 --kv-cache-dtype fp8"',
    ],
)
def test_options_handed_to_a_program_that_is_not_read(command: str) -> None:
    (one,) = found(command + "\n")
    assert (one.engine, one.model, one.question) == ("vllm", "Qwen/Qwen3-235B-A22B", {"max_model_len": 40000, "kv_dtype": "fp8"})
    assert "command" in opened(one)  # what the program makes of them is not known


@pytest.mark.parametrize(
    "command",
    [
        'echo "--model m/x --max-model-len 8192 --gpu-memory-utilization 0.9"',
        "vllm bench latency --model m/x --max-model-len 8192 --gpu-memory-utilization 0.9",
        "pip install -q -r requirements.txt",
        "command -v llama-server",
        "python3 -m sglang.srt.disaggregation.mini_lb --prefill http://a:1 --decode http://b:1",
    ],
)
def test_what_starts_no_server(command: str) -> None:
    assert found(command + "\n") == []


def test_a_ray_cluster_has_the_devices_of_its_workers() -> None:
    (one,) = found(
        """
        apiVersion: orchestration.aibrix.ai/v1alpha1
        kind: RayClusterFleet
        metadata: {name: qwen}
        spec:
          template:
            spec:
              headGroupSpec:
                template:
                  spec:
                    containers:
                    - name: head
                      image: vllm/vllm-openai:v0.11.0
                      command: ["/bin/bash", "-c"]
                      args: ["vllm serve Qwen/Qwen2.5-Coder-7B-Instruct --tensor-parallel-size 2 --distributed-executor-backend ray"]
                      resources: {limits: {nvidia.com/gpu: 1}}
              workerGroupSpecs:
              - groupName: small
                replicas: 1
                template:
                  spec:
                    containers:
                    - {name: worker, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: 1}}}
        """,
        "fleet.yaml",
    )
    assert one.question == {"tp": 2, "n_devices": 2}


LLMKUBE = """
apiVersion: inference.llmkube.dev/v1alpha1
kind: Model
metadata: {name: own}
spec: {source: "%s", hardware: {gpu: {count: 2, layers: -1}}}
---
apiVersion: inference.llmkube.dev/v1alpha1
kind: InferenceService
metadata: {name: served}
spec: {modelRef: own, resources: {gpu: 2}, %s}
"""


def test_llmkube_writes_the_options_of_its_runtimes() -> None:
    llama = "contextSize: 262144, parallelSlots: 2, cacheTypeK: q8_0, flashAttention: true, moeCPULayers: 4"
    (one,) = found(LLMKUBE % ("https://huggingface.co/unsloth/Qwen3-30B-A3B-GGUF/resolve/main/Qwen3-30B-A3B-Q8_0.gguf", llama), "a.yaml")
    assert (one.engine, one.question["max_model_len"], one.question["max_num_seqs"]) == ("llama.cpp", 262144, 2)
    assert (one.question["n_gpu_layers"], one.question["n_devices"]) == (99, 2)
    assert one.question["engine_option"]["n_cpu_moe"] == 4
    vllm = 'runtime: vllm, image: "vllm/vllm-openai:v0.20.0", parallelSlots: 8, vllmConfig: {maxModelLen: 131072, kvCacheDtype: fp8}'
    (two,) = found(LLMKUBE % ("Qwen/Qwen2.5-32B-Instruct", vllm), "b.yaml")
    assert (two.engine, two.engine_version, two.model) == ("vllm", "0.20.0", "Qwen/Qwen2.5-32B-Instruct")
    assert two.question == {"tp": 2, "max_model_len": 131072, "kv_dtype": "fp8", "n_devices": 2}
    (three,) = found(LLMKUBE % ("m/x", "runtime: tgi"), "c.yaml")
    assert (three.engine, "not modelled" in three.unresolved[0].why) == ("", True)


def test_remarks_and_folded_macros_of_llama_swap() -> None:
    (one,) = found(
        """
        macros:
          latest: >
            /path/llama-server/llama-server-ec9e0301
            --port ${PORT}
        models:
          llama:
            env: ["CUDA_VISIBLE_DEVICES=0,1,2"]
            cmd: |
              # ${latest} is a macro
              ${latest}
              --model path/to/llama-8B-Q4_K_M.gguf
              # the length
              --ctx-size 16384
        """,
        "config.yaml",
    )
    assert (one.model, one.question["max_model_len"], one.question["n_devices"]) == ("path/to/llama-8B-Q4_K_M.gguf", 16384, 3)


def test_a_mapping_of_options_below_a_model() -> None:
    text = """
        vllm_defaults: {config: {tensor_parallel_size: 1, gpu_memory_utilization: 0.92, max_model_len: 131072}}
        models:
          - name: a
            hf_name: Qwen/Qwen3-Embedding-8B
            vllm: {tensor_parallel_size: 1, gpu_memory_utilization: 0.2, max_model_len: 32768, dtype: auto}
          - name: b
            enabled: false
            hf_name: Qwen/Qwen3.5-9B
            vllm: {tensor_parallel_size: 1, gpu_memory_utilization: 0.15, max_model_len: 262144}
        """
    (one,) = found(text, "vars.yaml")
    assert (one.engine, one.model) == ("vllm", "Qwen/Qwen3-Embedding-8B")
    assert one.question == {"tp": 1, "memory_fraction": 0.2, "max_model_len": 32768}
    assert "options" in opened(one)


def test_the_command_in_what_a_variable_takes() -> None:
    (one,) = found(
        """
        ARGS=(--model Qwen/Qwen3.6-27B-FP8 --tensor-parallel-size 2)
        ID=$(docker run -d --gpus '"device=0,1"' vllm/vllm-openai:v0.24.0 \\
          "${ARGS[@]}")
        """
    )
    assert (one.engine_version, one.model, one.question) == ("0.24.0", "Qwen/Qwen3.6-27B-FP8", {"tp": 2, "n_devices": 2})


def test_a_container_that_is_created() -> None:
    (one,) = found("docker create --name a --gpus all vllm/vllm-openai:v0.6.3 --model Qwen/Qwen2.5-14B-Instruct-AWQ --max-model-len 6144\n")
    assert (one.engine_version, one.question) == ("0.6.3", {"max_model_len": 6144})


def test_a_script_that_a_script_writes() -> None:
    (one,) = found(
        r"""
        LIMIT="${LIMIT_MM:-{\"image\":0,\"video\":0\}}"
        cat > "$ENTRY" <<EOF
        #!/bin/bash
        exec vllm serve /model \\
          --max-model-len "${MAX_LEN:-262144}" \\
          --api-key "\${KEY}" \\
          --limit-mm-per-prompt '$LIMIT'
        EOF
        docker run -v "$ENTRY":/entry.sh:ro "$IMAGE" bash /entry.sh
        """
    )
    assert (one.model, one.question) == ("/model", {"max_model_len": 262144, "multimodal": "off"})


@pytest.mark.parametrize("text", ["""V=${X:-'{"image": 0, "video": 0}'}""", 'V="${X:-{\\"image\\":0,\\"video\\":0\\}}"'])
def test_braces_in_a_default(text: str) -> None:
    """bash 5.2 prints the object of either: no `{` of a default counts, and quotes hide a `}`."""
    (one,) = found(f'{text}\nvllm serve m/x --limit-mm-per-prompt "$V"\n')
    assert one.question == {"multimodal": "off"}


def test_a_list_of_words_that_nothing_is_seen_to_run() -> None:
    text = """
        def build(settings):
            return ["vllm", "serve", settings.path, "--max-model-len", str(settings.length), "--max-num-seqs", "8"]
        """
    (one,) = found(text, "runtime.py")
    assert (one.engine, one.question) == ("vllm", {"max_num_seqs": 8})
    assert {"command", "model", "max_model_len"} <= opened(one)


def test_blocks_of_a_batch_file() -> None:
    """`if not exist ... ( set ... )` may set it or not."""
    text = (
        'set "M=C:\\\\a.gguf"\nif not exist "%M%" (\n    set "M=C:\\\\b.gguf"\n)\nstart "s" cmd /k ""llama-server.exe" -m "%M%" -c 2048"\n'
    )
    (one,) = found(text, "start.bat")
    assert (one.question["max_model_len"], one.model, "model" in opened(one) or "path" in opened(one)) == (2048, None, True)


def test_defaults_of_presets_alone_and_a_file_of_options_without_a_model() -> None:
    (one,) = found("[*]\nctx-size = 131072 ; 128K\ncache-type-k = q8_0\ncache-type-v = q8_0\n", "mac.ini")
    assert (one.engine, one.question["kv_dtype"]) == ("llama.cpp", "q8_0")
    (two,) = found("served-model-name: a\ntensor-parallel-size: 2\nmax-model-len: 65536\ngpu-memory-utilization: 0.92\n", "config.yaml")
    assert (two.question, "model" in opened(two)) == ({"tp": 2, "max_model_len": 65536, "memory_fraction": 0.92}, True)


def test_the_options_that_a_dockerfile_copies(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data-parallel-size: 2\ngpu-memory-utilization: 0.9\n")
    run = 'ENTRYPOINT ["vllm", "serve", "m/x", "--config", "/app/config.yaml"]\n'
    (tmp_path / "Dockerfile").write_text(f"FROM vllm/vllm-openai:v0.21.0\nCOPY ./config.yaml /app/config.yaml\n{run}")
    (one,) = read_file(str(tmp_path / "Dockerfile"))
    assert one.question == {"dp": 2, "memory_fraction": 0.9}
