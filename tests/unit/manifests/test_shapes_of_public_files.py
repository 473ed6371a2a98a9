"""Shapes of public deployment files: what a person reads in a minimal one of each kind stands in the question, or is said to be open."""

from __future__ import annotations

from textwrap import dedent

import pytest

from kvplan import api
from kvplan.manifests import Source
from kvplan.manifests.values import Found
from tests.unit.manifests import as_read
from tests.unit.manifests.as_read import opened, rules


def found(text: str, name: str = "x.yaml", **files: str) -> list[Found]:
    return as_read.found(text, name, **files)


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


def test_words_that_may_hold_options_are_spoken_of_though_the_length_is_known() -> None:
    text = "case $MODE in\n a) MORE=(--gpu-memory-utilization 0.5);;\n b) MORE=();;\nesac\n"
    text += 'vllm serve Qwen/Qwen3-8B --tensor-parallel-size 1 --max-model-len 8192 "${MORE_ARGS[@]}"\n'
    (verdict,) = api.check([Source("s.sh", text)], device="h100-80gb")
    assert "open-words" in {finding.rule for finding in verdict.findings}


RELEASE = """
    apiVersion: helm.toolkit.fluxcd.io/v2
    kind: HelmRelease
    metadata: {name: llm}
    spec:
      values:
        defaultPodOptions:
          nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
        controllers:
          main:
            containers:
              app:
                image: {repository: ghcr.io/ggml-org/llama.cpp, tag: server-cuda-b9115}
                args: [-m, /models/Qwen3-8B-Q4_K_M.gguf, --ctx-size, "16384", -ngl, "99"]
                resources: {limits: {nvidia.com/gpu: 1}}
              off:
                enabled: false
                image: {repository: vllm/vllm-openai, tag: v0.11.0}
    """


def test_values_inside_a_flux_release_and_below_their_top() -> None:
    (one,) = found(RELEASE)
    assert (one.engine, one.engine_version, one.model) == ("llama.cpp", "b9115", "/models/Qwen3-8B-Q4_K_M.gguf")
    assert (one.question["max_model_len"], one.question["n_devices"], one.question["device"]) == (16384, 1, "l4")


@pytest.mark.parametrize(
    "values",
    [
        "valuesObject: {image: {repository: vllm/vllm-openai, tag: v0.11.0}, args: [--model, Qwen/Qwen3-8B]}",
        "values: 'image: {repository: vllm/vllm-openai, tag: v0.11.0}\n\n            args: [--model, Qwen/Qwen3-8B]'",
    ],
)
def test_values_inside_an_argo_application(values: str) -> None:
    (one,) = found(f"""
        apiVersion: argoproj.io/v1alpha1
        kind: Application
        metadata: {{name: llm}}
        spec:
          source:
            helm:
              {values}
        """)
    assert (one.engine, one.engine_version, one.model) == ("vllm", "0.11.0", "Qwen/Qwen3-8B")


def test_the_command_in_an_image_of_vllms_own_example_chart() -> None:
    (one,) = found("""
        image:
          repository: vllm/vllm-openai
          tag: v0.11.0
          command: [vllm, serve, Qwen/Qwen3-8B, --enforce-eager, --block-size, "16"]
        """)
    assert one.model == "Qwen/Qwen3-8B"
    assert (one.question["enforce_eager"], one.question["block_size"]) == (True, 16)


def test_values_of_ollamas_chart() -> None:
    one, two = found("""
        image: {repository: ollama/ollama, tag: 0.9.0}
        ollama:
          gpu: {enabled: true, type: nvidia, number: 2}
          models: {pull: ["qwen3:8b", "llama3.2:3b"], run: ["qwen3:8b", "llama3.2:3b"]}
        extraEnv: [{name: OLLAMA_CONTEXT_LENGTH, value: "16384"}]
        """)
    assert [one.model, two.model] == ["qwen3:8b", "llama3.2:3b"]
    assert (one.engine_version, one.question["n_devices"], one.question["max_model_len"]) == ("0.9.0", 2, 16384)


def test_a_program_in_a_windows_folder() -> None:
    text = '@echo off\nset "DIR=C:\\llm"\n"%DIR%\\llama-server.exe" -m "C:\\m\\Qwen3-8B-Q4_K_M.gguf" -c 12288 > "%DIR%\\log.txt" 2>&1\n'
    (one,) = found(text, "s.bat")
    assert (one.engine, one.question["max_model_len"]) == ("llama.cpp", 12288)


@pytest.mark.parametrize("command", ["vllm bench serve --model a/b --max-concurrency 8", "ollama pull qwen3:8b", "ollama list"])
def test_a_client_in_an_engines_image_is_no_server(command: str) -> None:
    assert not found(f"services: {{c: {{image: 'vllm/vllm-openai:v0.11.0', entrypoint: [sh, -c, '{command}']}}}}")


TASKS = """
    version: "3"
    vars: {LEN: "8192"}
    tasks:
      serve:
        desc: vllm serve is started here
        cmds:
          - vllm serve Qwen/Qwen3-8B --max-model-len $LEN
    """


def test_a_command_in_yaml_of_no_known_kind() -> None:
    (one,) = found(TASKS, "Taskfile.yml")
    assert (one.engine, one.model, one.question["max_model_len"]) == ("vllm", "Qwen/Qwen3-8B", 8192)
    assert "not-known-kind" in rules(one)
    assert one.span[0] == 7


def test_the_options_of_a_custom_resource_are_read_and_what_else_it_says_is_open() -> None:
    text = """
        apiVersion: llm.example.com/v1
        kind: LLMModel
        metadata: {name: m}
        spec:
          model: {name: Qwen/Qwen3-8B}
          serving:
            vllmArgs: [--max-model-len, "8192", --dtype, float16]
        """
    (one,) = found(text)
    assert (one.engine, one.model, one.question["max_model_len"]) == ("vllm", "Qwen/Qwen3-8B", 8192)
    assert "options" in opened(one)
    (verdict,) = api.check([Source("m.yaml", dedent(text))], device="h100-80gb")
    assert verdict.status == "unknown"


def test_prose_about_an_engine_starts_none() -> None:
    assert not found("kind: Note\napiVersion: v1\ntext: run vllm serve Qwen/Qwen3-8B\n")
    assert not found("on: push\ndescription: |\n  vllm serve Qwen/Qwen3-8B\n")


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("registry.example.com/mirror/vllm-openai:v0.11.0", "0.11.0"),
        ("registry.example.com/mirror/vllm-openai:v0.11.0-cu129", "0.11.0"),
        ("vllm/vllm-openai:v0.11.0-our-patches", "0.11.0"),
        ("sglang:v0.5.5-dsv4-sm120", None),
        ("mirror/sglang:v0.5.5-cu129-amd64", "0.5.5"),
    ],
)
def test_a_build_of_ones_own_has_no_release_by_its_tag(image: str, release: str | None) -> None:
    """A fork may have options that the release has not: nothing is refused for them."""
    (one,) = found(
        f"services: {{a: {{image: '{image}', command: [--model, Qwen/Qwen3-8B, --own-option], entrypoint: {START[image[:6]]}}}}}"
    )
    assert one.engine_version == release


START = {"sglang": "[python3, -m, sglang.launch_server]", "mirror": "[python3, -m, sglang.launch_server]"} | dict.fromkeys(
    ("regist", "vllm/v"), "[vllm, serve]"
)


def test_an_included_compose_file_is_spoken_of() -> None:
    (one,) = found("include: [../base.yml]\nservices: {a: {image: 'vllm/vllm-openai:v0.11.0', command: [--model, Qwen/Qwen3-8B]}}")
    assert "not-read" in rules(one)


@pytest.mark.parametrize("end", ["", "\\ # own"])
def test_options_on_a_line_of_their_own_never_reach_the_engine(end: str) -> None:
    (one,) = found(f"vllm serve Qwen/Qwen3-8B --block-size 16 {end}\n  --max-model-len 8192\n", "s.sh")
    assert "max_model_len" not in one.question
    assert "cut-command" in rules(one)


def test_a_unit_that_runs_a_script_elsewhere_is_open_and_names_it() -> None:
    (one,) = found(
        "[Service]\nExecStart=/opt/serve.sh name /w/m --tensor-parallel-size 2 --max-model-len 8192\n[Install]\nWantedBy=x\n", "a.service"
    )
    assert one.engine == "vllm"
    assert "/opt/serve.sh" in next(u.why for u in one.unresolved if u.what == "command")


def test_an_argument_of_a_function_is_told_as_one() -> None:
    (one,) = found('run() {\n  vllm serve "$1" --max-model-len 8192\n}\n', "s.sh")
    assert any("is called with" in u.why for u in one.unresolved)
