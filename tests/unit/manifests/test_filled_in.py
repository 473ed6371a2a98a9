"""Files that another tool completes: templates of Jinja, recipes with defaults, parts of manifests, files of an engine's options."""

from __future__ import annotations

from textwrap import dedent

import pytest

from kvplan.errors import SpecError
from kvplan.manifests.mentions import why_empty
from kvplan.manifests.read import read
from tests.unit.manifests.as_read import found, opened


def test_a_unit_that_ansible_fills_in() -> None:
    (one,) = found(
        """
        {{ ansible_managed | comment }}
        [Service]
        ExecStart={{ venv }}/bin/vllm serve {{ vllm_model }} --max-model-len {{ length }} {% if eager %}--enforce-eager{% endif %} \\
            --max-num-seqs {{ seqs | default(8) }}
        """,
        "roles/vllm/templates/vllm.service.j2",
    )
    assert (one.engine, one.model) == ("vllm", None)
    assert one.question == {"max_num_seqs": 8, "enforce_eager": True}
    assert {"model", "max_model_len", "template"} <= opened(one)


def test_of_two_branches_that_say_the_same_key_the_last_is_read() -> None:
    (one,) = found(
        """
        services:
          vllm:
            {% if mirror %}
            image: mirror/vllm/vllm-openai:v0.9.0
            {% else %}
            image: vllm/vllm-openai:{{ release | default('v0.11.0') }}
            {% endif %}
            command: --model {{ model.name }} --gpu-memory-utilization 0.9
        """,
        "compose.yaml.j2",
    )
    assert (one.engine_version, one.question) == ("0.11.0", {"memory_fraction": 0.9})
    assert {"model", "template"} <= opened(one)


def test_a_recipe_is_filled_in_by_its_defaults() -> None:
    (one,) = found(
        """
        recipe_version: "1"
        defaults: {port: 8000, tensor_parallel: 4, max_model_len: 128000}
        command: |
          vllm serve m/x --port {port} -tp {tensor_parallel} --max-model-len {max_model_len} --max-num-seqs {max_num_seqs} \\
            --speculative-config '{{"method":"mtp","num_speculative_tokens":2}}'
        """,
        "recipe.yaml",
    )
    assert one.question == {"tp": 4, "max_model_len": 128000, "speculative": "mtp:2"}
    assert "max_num_seqs" in opened(one)


def test_a_container_without_an_image_is_part_of_another_manifest() -> None:
    (one,) = found(
        """
        apiVersion: batch/v1
        kind: Job
        metadata: {name: j}
        spec:
          template:
            spec:
              containers:
                - name: inference
                  args:
                    - >
                      exec vllm serve "${MODEL}" --max-model-len 8192
        """,
        "patch.yaml",
    )
    assert one.question == {"max_model_len": 8192}
    assert not [f for f in one.findings if f.severity == "error"]
    assert {"model", "image"} <= opened(one)


def test_names_with_dots_that_a_tool_fills_in_are_open() -> None:
    (one,) = found(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
            - name: v
              image: vllm/vllm-openai:v0.11.0
              args: [--model, m/x, "--max-num-seqs=${vLLM.seqs}", "--kv-cache-dtype=${vLLM.kv}"]
        """,
        "pod.yaml",
    )
    assert one.question == {}
    assert {"max_num_seqs", "kv_dtype"} <= opened(one)
    assert not [f for f in one.findings if f.severity == "error"]


@pytest.mark.parametrize(
    ("text", "engine", "question"),
    [
        ("model: m/x\ngpu-memory-utilization: 0.95\nmax-model-len: 8192\nkv-cache-dtype: fp8\n", "vllm",
         {"memory_fraction": 0.95, "max_model_len": 8192, "kv_dtype": "fp8"}),
        ("model-path: m/x\nmem-fraction-static: 0.2\ncontext-length: 64000\ntensor-parallel-size: 2\n", "sglang",
         {"memory_fraction": 0.2, "max_model_len": 64000, "tp": 2}),
    ],
)  # fmt: skip
def test_a_file_of_an_engines_options(text: str, engine: str, question: dict[str, object]) -> None:
    (one,) = found(text, "config.yaml")
    assert (one.engine, one.model, one.question) == (engine, "m/x", question)


def test_a_mapping_of_other_keys_is_no_file_of_options() -> None:
    assert found("model: m/x\nmethod: classic\nbase_url: http://x\nport: 30000\nmax_tokens: 256\nprompts: p.jsonl\n", "run.yaml") == []


def test_a_program_of_supervisor() -> None:
    (one,) = found(
        """
        [program:vllm]
        command=vllm serve m/x --max-model-len 32768 --gpu-memory-utilization %(ENV_UTIL)s
        environment=CUDA_VISIBLE_DEVICES="0,1",HF_HOME="/m"
        autostart=false
        """,
        "vllm.conf",
    )
    assert (one.model, one.question) == ("m/x", {"max_model_len": 32768, "n_devices": 2})
    assert "memory_fraction" in opened(one)


def test_the_one_model_that_a_script_pulls_is_what_its_server_loads() -> None:
    (one,) = found("ollama serve &\nsleep 5\nollama pull granite3.3:2b\nwait\n", "start.sh")
    assert one.model == "granite3.3:2b"
    (several,) = found("ollama serve &\nollama pull granite3.3:2b\nollama pull qwen3:8b\nwait\n", "start.sh")
    assert "model" in opened(several)


def test_a_router_beside_its_servers_is_none_of_them() -> None:
    text = "trtllm-serve m/x --port 1 &\ntrtllm-serve m/x --port 2 &\ntrtllm-serve disaggregated -c d.yml &\n"
    assert [one.model for one in found(text, "run.sh")] == ["m/x", "m/x"]


def test_a_chart_of_ollama_names_its_model() -> None:
    (one,) = found("image: {repository: ollama/ollama, tag: 0.12.3}\nmodel: {name: 'qwen3:0.6b'}\n", "values.yaml")
    assert (one.engine, one.engine_version, one.model) == ("ollama", "0.12.3", "qwen3:0.6b")


def test_the_release_that_a_file_installs() -> None:
    (one,) = found("# vllm==0.9.0 was slower\npip install 'vllm[flashinfer]==0.11.0'\nvllm serve m/x\n", "run.sh")
    assert one.engine_version == "0.11.0"
    (two,) = found("pip install vllm==0.11.0\npip install vllm==0.12.0\nvllm serve m/x\n", "run.sh")
    assert two.engine_version is None


def test_the_program_that_is_not_read_is_named() -> None:
    message, line = why_empty("# llama-server\necho llama-server\nnohup python -m src.api.server &\nbash scripts/start.sh gemma\n")
    assert line == 2
    assert "src.api.server" in message
    assert "scripts/start.sh" in message


def test_a_path_behind_a_variable_of_a_batch_file_shows_its_name() -> None:
    (one,) = found('@echo off\nset "M=%ROOT%\\models\\Qwen3-8B-Q4_K_M.gguf"\nllama-server.exe -m "%M%" -c 4096\n', "run.bat")
    assert one.model is not None
    assert one.model.endswith("Qwen3-8B-Q4_K_M.gguf")
    assert "model" in opened(one)


def test_a_block_of_remarks_in_powershell() -> None:
    (one,) = found("<#\n  Don't\n#>\nllama-server -m x.gguf -c 4096\n", "run.ps1")
    assert one.question["max_model_len"] == 4096


def test_vllms_command_line_called_from_python() -> None:
    (one,) = found('nohup python -c "from vllm.scripts import main; import sys; sys.exit(main())" serve m/x --max-num-seqs 8 &\n', "run.sh")
    assert (one.engine, one.model, one.question) == ("vllm", "m/x", {"max_num_seqs": 8})


BUILT = """
    services:
      a:
        build: ./srv
        environment: {MODEL: m/x}
      b:
        build: {context: srv}
        environment: [MODEL=m/y]
        command: [-tp, '2']
    """
DOCKERFILE = """
    FROM vllm/vllm-openai:v0.11.0 AS base
    ENV LEN=4096
    COPY scripts/run.sh /run.sh
    ENTRYPOINT ["/run.sh"]
    CMD ["--max-num-seqs", "4"]
    """


def test_a_service_that_is_built_beside_the_file() -> None:
    files = {"srv/Dockerfile": dedent(DOCKERFILE), "srv/scripts/run.sh": 'exec vllm serve "$MODEL" --max-model-len "$LEN" "$@"\n'}
    one, two = read(dedent(BUILT), "compose.yaml", None, files.get)
    assert (one.engine_version, one.model, one.question) == ("0.11.0", "m/x", {"max_model_len": 4096, "max_num_seqs": 4})
    assert (two.model, two.question) == ("m/y", {"max_model_len": 4096, "tp": 2})
    assert one.places["max_model_len"].line in range(2, 7)
    said = [f.message for f in one.findings if f.rule == "config-read"]
    assert said == ["srv/Dockerfile is read from beside this file", "/run.sh is read from beside this file"]


@pytest.mark.parametrize("text", ["{{" * 300_000, "{%" * 300_000, "{# " * 300_000, "{% if x %}" * 60_000])
def test_a_template_of_too_many_marks_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="marks of a template"):
        read(text, "x.yaml.j2")
