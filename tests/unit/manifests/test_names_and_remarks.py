"""Names that start nothing, remarks that are none, and texts within texts: forms of public files that were once misread."""

from __future__ import annotations

import pytest

from kvplan.manifests import Source, check
from kvplan.manifests.values import Found
from tests.conftest import planned
from tests.unit.manifests.as_read import found, opened, rules

SWAP = """\
      macros:
        srv: llama-server --port ${PORT} -ngl 99
      models:
        small:
          cmd: |
            ${srv}
            --model /models/Qwen3-1.7B-Q5_K_M.gguf
            --ctx-size 8192
"""
CONFIG = f"""\
  apiVersion: v1
  kind: ConfigMap
  metadata: {{name: swap}}
  data:
    config.yaml: |
{SWAP}"""
POD = """\
  ---
  apiVersion: v1
  kind: Pod
  metadata: {name: swap}
  spec:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    containers:
    - {name: swap, image: "ghcr.io/mostlygeek/llama-swap:cuda", resources: {limits: {nvidia.com/gpu: 1}}}
    volumes: [{name: c, configMap: {name: swap}}]
"""


def said(one: Found, rule: str) -> str:
    return " ".join(finding.message for finding in one.findings if finding.rule == rule)


@pytest.mark.parametrize(
    "command",
    [
        "docker stop llama-server", "docker logs -f llama-server", "docker rm -f llama-server", "docker exec -it llama-server bash",
        "docker exec llama-server nvidia-smi", "docker compose up -d llama-server", "docker compose -f x.yml restart llama-server",
        "docker compose run --rm llama-server bash", "docker build -t llama-server .", "sudo podman stop llama-server",
        "sudo systemctl restart llama-server", "sudo journalctl -u llama-server -f", "ssh host systemctl restart llama-server",
        "ssh host docker stop llama-server", "ssh host pkill -f llama-server", "sudo cp build/bin/llama-server /usr/local/bin/llama-server",
        "sudo install -m755 llama-server /usr/local/bin", "nohup tail -f llama-server", "timeout 5 curl llama-server",
        "tmux kill-session -t llama-server", "tmux has-session -t llama-server", "tmux new -ds llama-server",
        "screen -S llama-server -X quit", "kubectl logs -f llama-server",
        "kubectl rollout restart deployment/llama-server", "kubectl exec deploy/llama-server -- nvidia-smi",
        "sudo -u llm cmake --build build -t llama-server", 'sudo pkill -f "vllm serve /models/x"',
    ],
)  # fmt: skip
def test_a_name_is_no_server(command: str) -> None:
    assert not found(command)


@pytest.mark.parametrize(
    "command",
    [
        "docker exec -it -e A=b llama-server llama-server -m x.gguf", "docker compose -f a.yml exec llm llama-server -m x.gguf",
        "ssh -i key -p 22 user@host llama-server -m x.gguf", "ssh user@host docker exec llm llama-server -m x.gguf",
        "tmux new -ds llama-server llama-server -m x.gguf", 'tmux send-keys -t llama-server:0.0 "llama-server -m x.gguf" C-m',
        "screen -dmS llama-server llama-server -m x.gguf", 'screen -S llm -X stuff "llama-server -m x.gguf"',
        "kubectl exec -it pod -- llama-server -m x.gguf", "systemd-run -u llama-server llama-server -m x.gguf",
        "sudo -u llm /opt/llama-server -m x.gguf", "numactl -N 0 -m 0 llama-server -m x.gguf", "conda run -n x llama-server -m x.gguf",
    ],
)  # fmt: skip
def test_a_command_behind_such_a_name_is_one(command: str) -> None:
    (one,) = found(command)
    assert (one.engine, one.model) == ("llama.cpp", "x.gguf")


def test_remarks_within_an_array() -> None:
    """A quote or a bracket in a shell's comment is no quote (POSIX 2.3, rule 9)."""
    (one,) = found(
        """
        ARGS=(
          --max-model-len 16384   # the model's own (and no more
          # modules reject marlin ("not supported"), it isn't set
          --max-num-seqs 8
        )
        vllm serve Qwen/Qwen3-8B "${ARGS[@]}"
        """
    )
    assert one.question == {"max_model_len": 16384, "max_num_seqs": 8}


def test_escapes_within_quotes() -> None:
    (one,) = found(
        r"bash -lc $'docker run \\\n --gpus all \\\n vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B \\\n --max-model-len 2048\n'"
    )
    assert (one.engine_version, one.question["max_model_len"]) == ("0.11.0", 2048)


def test_an_array_is_run_where_a_variable_takes_its_answer() -> None:
    """What is added behind its first words counts, and an array that nothing runs starts nothing."""
    array = """
        cmd=(docker run -d --gpus all vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B)
        cmd+=(--max-model-len 8192)
        """
    (one,) = found(f'{array}id="$("${{cmd[@]}}" 2>err.log)"\n')
    assert one.question["max_model_len"] == 8192
    assert not found(f"{array}printf '%q ' \"${{cmd[@]}}\"\n")


def test_a_zero_of_a_file_of_options_is_said() -> None:
    """vLLM utils/argparse_utils.py load_config_file: false is left out, a number is a value."""
    (one,) = found("vllm serve m/x --config c.yaml", c_yaml="mm-processor-cache-gb: 0\nenforce-eager: false\n")
    assert one.question == {"engine_option": {"mm_processor_cache_gb": 0.0}}


def test_what_a_script_takes_in_is_told_of_a_script_that_it_writes() -> None:
    text = """
        source "${1:-/etc/vllm.env}"
        MODEL="${MODEL:-Qwen/Qwen3-8B}"
        cat > run.sh <<EOF
        #!/bin/sh
        exec vllm serve '${MODEL}'
        EOF
        """
    (one,) = found(text)
    assert one.model == "Qwen/Qwen3-8B"
    assert "/etc/vllm.env" in said(one, "not-read")


@pytest.mark.parametrize(
    "command", [">\n      --model Qwen/Qwen3-8B\n      # two\n      -tp 2", "'--model Qwen/Qwen3-8B # two\n      -tp 2'"]
)
def test_a_number_sign_is_a_word_where_no_shell_reads(command: str) -> None:
    """compose-go splits by mattn/go-shellwords, whose Parse has no comments: vLLM gets `#` and `two`, and stops."""
    (one,) = found(f"services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n    command: {command}\n", "compose.yaml")
    assert one.question["tp"] == 2
    assert "two: a word that no option takes" in said(one, "bad-value")


def test_what_stands_behind_a_number_sign_of_a_folded_text_is_told() -> None:
    args = "- >\n        vllm serve Qwen/Qwen3-8B\n        # two cards\n        -tp 2 --max-model-len 8192"
    pod = f"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - command: [sh, -c]\n    args:\n      {args}\n"
    (one,) = found(pod, "pod.yaml")
    assert one.question == {}
    assert "--max-model-len stands behind a #" in said(one, "cut-command")


def test_remarks_of_llama_swap() -> None:
    """llama-swap's SanitizeCommand drops lines that begin with #, and billziss-gh/golib's shlex has no comments."""
    text = """
        models:
          a:
            cmd: |
              llama-server --port ${PORT}
              # -c 4096
              -hf Qwen/Qwen3-8B-GGUF:Q4_K_M
              -c 16384
          b:
            cmd: |
              llama-server --port ${PORT}
              -hf Qwen/Qwen3-8B-GGUF:Q4_K_M  # 5 GB
              -c 16384
        """
    whole, cut = found(text, "config.yaml")
    assert (whole.question["max_model_len"], rules(whole)) == (16384, set())
    assert cut.question["max_model_len"] == 16384
    assert "#: a word that no option takes" in said(cut, "bad-value")


def test_a_group_of_llama_swap_that_stays_loaded() -> None:
    """llama-swap config.example.yaml, groups: `swap: false` keeps all members loaded."""
    models = "".join(f"  {name}: {{cmd: 'llama-server -hf Qwen/Qwen3-8B-GGUF -c 8192'}}\n" for name in "abc")
    text = f"models:\n{models}groups:\n  g: {{swap: false, members: [a, b]}}\n  h: {{swap: true, members: [c]}}\n"
    a, b, c = found(text, "config.yaml")
    assert "g keeps its 2 models loaded side by side" in said(a, "not-modelled-more")
    assert (rules(b), rules(c)) == ({"not-modelled-more"}, set())


@pytest.mark.parametrize(("text", "where"), [(CONFIG, {"device", "model"}), (CONFIG + POD, {"model"})])
def test_models_of_llama_swap_in_a_config_map(text: str, where: set[str]) -> None:
    (one,) = found(text, "swap.yaml")
    assert (one.name, one.model) == ("models/small", "/models/Qwen3-1.7B-Q5_K_M.gguf")
    assert (one.question["max_model_len"], one.question["n_gpu_layers"]) == (8192, 99)
    assert opened(one) == where
    assert (one.question.get("device"), one.question.get("n_devices")) == ((None, None) if "device" in where else ("l4", 1))


def test_presets_in_a_config_map() -> None:
    text = """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: presets}
        data:
          models.ini: |
            [Qwen/Qwen3-8B-GGUF:Q4_K_M]
            c = 8192
            [*]
            ngl = 99
            hf-repo = Qwen/Qwen3-4B-GGUF
        """
    (one,) = found(text, "presets.yaml")
    assert (one.span[0], one.question["max_model_len"], one.question["n_gpu_layers"]) == (6, 8192, 99)


def test_models_of_llama_swap_in_values_of_another_chart() -> None:
    values = "        " + "\n        ".join(SWAP.splitlines())
    (one,) = found(f"kind: HelmRelease\napiVersion: x/v2\nspec:\n  values:\n    configMaps:\n      c.yaml: |\n{values}\n", "release.yaml")
    assert (one.engine, one.question["max_model_len"]) == ("llama.cpp", 8192)


def test_a_remark_of_a_property_list_with_dashes() -> None:
    """launchd reads it all the same (CoreFoundation CFPropertyList.c, skipXMLComment)."""
    words = "".join(f"<string>{word}</string>" for word in ("llama-server", "-m", "x.gguf", "--ctx-size", "8192"))
    (one,) = found(f"<plist><dict><!-- fill in: --size 64 --><key>ProgramArguments</key><array>{words}</array></dict></plist>", "x.plist")
    assert one.question["max_model_len"] == 8192


def test_a_tick_of_powershell_that_is_a_tick() -> None:
    (one,) = found('Write-Host "  llama-server ``" -ForegroundColor Gray\nllama-server -m x.gguf -c 8192\n', "serve.ps1")
    assert one.question["max_model_len"] == 8192


def test_a_function_that_calls_itself_and_a_list_among_keys() -> None:
    (one,) = found(
        """
        import subprocess
        MODE = ["a"]
        def walk(x):
            y = walk(x + 1)
            return y
        def main():
            z = walk(0)
            if MODE in {"a": 1}:
                pass
            subprocess.run(["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192"])
        """,
        "serve.py",
    )
    assert (one.model, one.question["max_model_len"]) == ("Qwen/Qwen3-8B", 8192)


def test_vllm_omni_is_none_of_vllms() -> None:
    assert [one.engine for one in found("vllm-omni serve Qwen/Qwen3-TTS --omni")] == [""]


@pytest.mark.parametrize(
    ("model", "status"),
    [("nvidia/Llama-3.3-70B-Instruct-NVFP4", "fits"), ("Qwen/Qwen3-32B", "refuses"), ("Qwen/Qwen3-32B-AWQ", "refuses")],
)
def test_a_word_that_is_no_method_beside_a_checkpoint_of_modelopts(model: str, status: str) -> None:
    """vLLM 0.24 layers/quantization/modelopt.py override_quantization_method: by the checkpoint's algorithm, whatever was asked for."""
    command = f"docker run vllm/vllm-openai:v0.24.0 --model {model} --quantization fp4 --max-model-len 8192"
    (verdict,) = check([Source("x.sh", command)], planned, device="b200")
    assert verdict.status == status
    assert ("ModelOpt" in " ".join(one.message for one in verdict.findings)) == (status == "fits")


UNIT = r"""
    [Service]
    Environment="ARGS=-c 8192 -np 2" KEYS=q8_0 "NAME=a b"
    ExecStart=/usr/bin/llama-server \
      # the model
      -m /models/x.gguf \
    ; and more
      $ARGS -ctk ${KEYS} --alias ${NAME} \
      -b 512
    """


def test_remarks_and_variables_of_a_unit() -> None:
    """systemd.syntax(7): remarks within a line that goes on are skipped; systemd.service(5): `$NAME` alone is split, `${NAME}` never."""
    (one,) = found(UNIT, "llm.service")
    assert one.model == "/models/x.gguf"
    assert {key: one.question[key] for key in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_dtype")} == {
        "max_model_len": 8192, "max_num_seqs": 2, "max_num_batched_tokens": 512, "kv_dtype": "q8_0/f16",
    }  # fmt: skip
    assert not rules(one)


def test_a_variable_within_a_word_of_a_unit_stays_as_it_stands() -> None:
    """systemd's replace_env_argv: without braces a variable is a word of its own, or none; a shell's text is the shell's."""
    lines = "[Service]\nEnvironment=M=Qwen/Qwen3-8B N=8192\nExecStart="
    (literal,) = found(f"{lines}vllm serve --model=$M --max-model-len=${{N}}\n", "a.service")
    assert (literal.model, literal.question["max_model_len"]) == ("$M", 8192)
    assert "within a word: write ${M}" in said(literal, "not-expanded")
    (shell,) = found(f"{lines}/bin/sh -c 'exec vllm serve --model=$M --max-model-len=$N'\n", "a.service")
    assert (shell.model, shell.question["max_model_len"], rules(shell)) == ("Qwen/Qwen3-8B", 8192, set())


def test_numbers_of_a_file_of_options_are_yamls() -> None:
    """PyYAML reads YAML 1.1, and vLLM hands on str() of what it read: 8_192 is 8192, 010 is 8, 0x1000 is 4096."""
    (one,) = found(
        "vllm serve m/x --config c.yaml", c_yaml="max-model-len: 8_192\ntensor-parallel-size: 010\nmax-num-batched-tokens: 0x1000\n"
    )
    assert one.question == {"max_model_len": 8192, "tp": 8, "max_num_batched_tokens": 4096}


def test_arguments_of_a_container_that_are_no_list() -> None:
    """core/v1 Container: args is a list of strings."""
    pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai:v0.11.0\n    args: '--model Qwen/Qwen3-8B'\n"
    (one,) = found(pod, "pod.yaml")
    assert "args is no list" in said(one, "not-text")


def test_llama_cpp_has_no_value_behind_an_equals_sign() -> None:
    """llama.cpp common/arg.cpp common_params_parse_ex: the whole word is looked up, and one that is not there stops it."""
    for command in ("llama-server -m x.gguf --ctx-size=8192", "llama-server -m x.gguf -c8192"):
        (one,) = found(command)
        assert "takes its value as a word of its own" in said(one, "bad-value")


@pytest.mark.parametrize(
    ("program", "gpus", "stops"),
    [
        ("docker", "device=0,1", True),
        ("docker", '"device=GPU-a,GPU-b"', True),
        ("docker", "'\"device=0,1\"'", False),
        ("docker", '"\\"device=0,1\\""', False),
        ("podman", "device=0,1", False),
    ],
)
def test_ids_and_a_count_of_docker(program: str, gpus: str, stops: bool) -> None:
    """docker/cli opts/gpus.go: fields apart by commas, one alone is a count; dockerd: "cannot set both Count and DeviceIDs"."""
    (one,) = found(f"{program} run --gpus {gpus} vllm/vllm-openai:v0.11.0 --model m/x -tp 2")
    assert one.question["n_devices"] == 2
    assert ("for a count" in said(one, "bad-value")) is stops


@pytest.mark.parametrize(
    ("ids", "n"), [("['0,1,2,3']", 4), ("['0', '1']", 2), ("['${GPUS}']", None), ("['${GPUS:-${ALL:-2,3}}']", 2), ("['all']", None)]
)
def test_ids_of_one_text_in_a_compose_file(ids: str, n: int | None) -> None:
    """moby daemon/nvidia_linux.go: NVIDIA_VISIBLE_DEVICES is the ids joined by commas."""
    devices = f"{{reservations: {{devices: [{{driver: nvidia, device_ids: {ids}, capabilities: [gpu]}}]}}}}"
    text = f"services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n    command: --model m/x\n    deploy: {{resources: {devices}}}\n"
    (one,) = found(text, "compose.yaml")
    assert one.question.get("n_devices") == n
