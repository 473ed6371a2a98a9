"""What a file leaves open is neither dropped nor an error of the engine's: as public files have it, cut to what it is about."""

from __future__ import annotations

import pytest

from kvplan.manifests.read import read
from kvplan.manifests.values import Found
from tests.unit.manifests.as_read import found, opened, rules

SERVE = "vllm serve Qwen/Qwen3-8B"


def test_words_instead_of_a_variable_that_holds_something_are_all_there() -> None:
    """POSIX 2.6.2: `${parameter:+word}`, its fields apart where nothing quotes them."""
    (one,) = found(f'KV="${{KV:-fp8}}"\n{SERVE} ${{KV:+--kv-cache-dtype "$KV"}} ${{KV:+--max-num-seqs 4}}\n')
    assert (one.question["kv_dtype"], one.question["max_num_seqs"]) == ("fp8", 4)


@pytest.mark.parametrize(("tokens", "speculative"), [("2", "mtp:2"), ("0", None)])
def test_a_condition_by_an_expression_is_weighed(tokens: str, speculative: str | None) -> None:
    """bash 3.2.5.2: `=~` holds where the POSIX extended expression matches."""
    text = (
        f'N="${{N:-{tokens}}}"\nargs=({SERVE})\nif [[ "$N" =~ ^[1-9][0-9]*$ ]]; then\n'
        '  args+=(--speculative-config "{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":${N}}")\nfi\nexec "${args[@]}"\n'
    )
    (one,) = read(text, "entrypoint.sh")
    assert one.question.get("speculative") == speculative
    assert "open-words" not in rules(one)


@pytest.mark.parametrize("expression", ["^(a+)+$", "(x|y)", r"^\w+$", "[[:digit:]]", "[z-a]"])
def test_a_condition_by_an_expression_that_is_not_read_stays_open(expression: str) -> None:
    (one,) = read(f'N=3\nargs=({SERVE})\nif [[ "$N" =~ {expression} ]]; then args+=(--max-num-seqs 4); fi\n"${{args[@]}}"\n', "serve.sh")
    assert "open-words" in rules(one)


def test_a_name_that_nix_fills_in_is_open_within_the_quotes_of_a_shell() -> None:
    (one,) = found(
        """
        { pkgs, ... }:
        let
          spec = builtins.toJSON { method = "mtp"; num_speculative_tokens = 3; model = toString pkgs.draft; };
          script = pkgs.writeShellScript "vllm" ''
            exec ${pkgs.vllm}/bin/vllm serve Qwen/Qwen3-8B --max-num-seqs 4 --speculative-config '${spec}'
          '';
        in
        { systemd.services.vllm.serviceConfig.ExecStart = "${script}"; }
        """,
        "vllm.nix",
    )
    assert one.question["max_num_seqs"] == 4
    assert "speculative" in opened(one)
    assert "bad-value" not in rules(one)


def test_names_that_jinja_fills_in_are_open_within_an_object_and_one_of_two_values_is_read() -> None:
    (one,) = found(
        """
        vllm serve Qwen/Qwen3-8B --max-num-seqs {% if small %}32{% else %}128{% endif %} \\
          --speculative-config '{"num_speculative_tokens": {% if small %}5{% else %}3{% endif %}, "method": "mtp"}' \\
          --kv-transfer-config '{"kv_connector": "MooncakeConnectorV1", "kv_role": "{{ role }}", "kv_port": {{ port }}}'
        """,
        "serve.sh.j2",
    )
    assert (one.question["max_num_seqs"], one.question["speculative"]) == (128, "mtp:3")
    assert {"kv_transfer", "template"} <= opened(one)
    assert "bad-value" not in rules(one)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("experiment.yaml", "bench:\n  command: vllm serve Qwen/Qwen3-8B --max-num-seqs {parallel}\n"),
        ("run.json", '{"command": "vllm serve Qwen/Qwen3-8B --max-num-seqs {parallel}"}'),
    ],
)
def test_a_field_of_pythons_format_is_open(name: str, text: str) -> None:
    (one,) = read(text, name)
    assert opened(one) >= {"max_num_seqs"}
    assert "bad-value" not in rules(one)


def test_a_batch_file_is_called_with_more_words_and_quotes_its_objects() -> None:
    """learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments: `\\"` is a quote; cmd: `%*` all words, `!NAME!` a variable."""
    (one,) = read(
        'vllm serve "C:\\models\\Qwen3-8B" --max-num-seqs !SEQS! ^\n'
        ' --speculative-config "{\\"method\\": \\"mtp\\", \\"num_speculative_tokens\\": 1}" %*\n',
        "serve.bat",
    )
    assert one.question["speculative"] == "mtp:1"
    assert {"max_num_seqs", "options"} <= opened(one)
    assert "bad-value" not in rules(one)


def test_what_another_language_sets_is_no_command() -> None:
    assert found('[project.scripts]\nllama-server-home = "lsh.main:run"\n', "pyproject.toml") == []


def test_a_subcommand_of_vllm_that_serves_nothing_is_no_server() -> None:
    """vLLM entrypoints/cli/main.py: bench, chat, complete, collect-env, run-batch beside serve."""
    assert found("python -m vllm.entrypoints.cli.main bench latency --model Qwen/Qwen3-8B --input-len 32") == []
    (one,) = found("python -m vllm.entrypoints.cli.main serve Qwen/Qwen3-8B")
    assert one.model == "Qwen/Qwen3-8B"


def test_python_objects_with_a_part_that_is_not_known_are_open() -> None:
    (one,) = found(
        """
        import json, subprocess, sys
        def main(args):
            spec = {"method": "eagle3", "model": args.draft, "num_speculative_tokens": resolve(args.n)}
            subprocess.run([sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "Qwen/Qwen3-8B",
                            "--speculative-config", json.dumps(spec)])
        """,
        "serve.py",
    )
    assert "speculative" in opened(one)
    assert "bad-value" not in rules(one)


def test_a_text_that_says_true_is_a_switch_of_pythons() -> None:
    (one,) = found(
        """
        from vllm import AsyncEngineArgs
        config = {"model": "Qwen/Qwen3-8B", "disable_log_stats": "true", "max_model_len": 4096}
        args = AsyncEngineArgs(**config)
        """,
        "model.py",
    )
    assert one.question["max_model_len"] == 4096
    assert "bad-value" not in rules(one)


def test_a_rank_that_is_not_known_is_no_wrong_one() -> None:
    words = "--tensor-parallel-size 2 --nnodes 2 --node-rank ${NODE_RANK} --master-addr ${HEAD}"
    (one,) = found(f"services:\n  vllm:\n    image: vllm/vllm-openai:v0.20.0\n    command: --model Qwen/Qwen3-8B {words}\n", "compose.yaml")
    assert not any(finding.severity == "error" for finding in one.findings)
    (wrong,) = found(f"{SERVE} --tensor-parallel-size 2 --nnodes 2 --node-rank 2")
    assert any("`--node-rank` must be less than nnodes" in finding.message for finding in wrong.findings)


def test_an_image_of_ones_own_that_is_given_a_shells_option_runs_a_shell() -> None:
    (one,) = found(
        """
        services:
          llm:
            image: my-vllm-runtime:7
            command:
              - -lc
              - >
                export A=1;
                exec vllm serve Qwen/Qwen3-8B --max-num-seqs 4
        """,
        "compose.yaml",
    )
    assert (one.engine, one.question["max_num_seqs"]) == ("vllm", 4)
    assert any("taken to be for a shell" in finding.message for finding in one.findings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "docker run --gpus all mylab/llama-cuda13:1 -c 4096 -m /m/x.gguf -ngl 99\n"),
        ("compose.yaml", 'services:\n  llm:\n    image: mylab/x:1\n    command: ["-c", "4096", "-m", "x.gguf", "-ngl", "99"]\n'),
        (
            "pod.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: llm\n    image: mylab/llama-cuda13:1\n"
            '    args: ["-c", "4096", "-hf", "Qwen/Qwen3-8B-GGUF:Q4_K_M", "-ngl", "99"]\n',
        ),
    ],
)
def test_a_size_of_the_context_is_no_shells_command_line(name: str, text: str) -> None:
    """llama.cpp common/arg.cpp: `-c, --ctx-size N`; a shell's `-c` takes a command line (POSIX, sh)."""
    (one,) = found(text, name)
    assert (one.engine, one.question["max_model_len"]) == ("llama.cpp", 4096)
    assert not any("taken to be for a shell" in finding.message for finding in one.findings)


@pytest.mark.parametrize("before", ["toolbox run -c llm --", "wsl -d Ubuntu --", "distrobox enter llm --", "mamba run -n env"])
def test_a_wrapper_around_a_server(before: str) -> None:
    (one,) = found(f"{before} llama-server -m ./m.gguf -c 4096")
    assert (one.engine, one.question["max_model_len"]) == ("llama.cpp", 4096)


TERRAFORM = """
resource "{kind}" "llm" {{
  containers = [{{
    name  = "llm"
    image = "vllm/vllm-openai:v0.26.0"
    {words}
  }}]
}}
"""


def test_words_that_terraform_puts_together_are_all_read() -> None:
    """developer.hashicorp.com/terraform/language/functions: concat, merge, tostring, jsonencode."""
    args = (
        'args = concat(["--model", "Qwen/Qwen3-8B", "--max-model-len", tostring(4096)], var.more, '
        '["--hf-overrides", jsonencode({ a = 1 }), "--max-num-seqs", "4"])\n'
        '    resources = { limits = merge({ cpu = 4 }, { "nvidia.com/gpu" = 2 }) }'
    )
    (one,) = found(TERRAFORM.format(kind="kubernetes_pod", words=args), "main.tf")
    assert (one.model, one.question["max_model_len"], one.question["max_num_seqs"]) == ("Qwen/Qwen3-8B", 4096, 4)
    assert one.question["n_devices"] == 2
    assert [unresolved.why.split(" holds")[0] for unresolved in one.unresolved if unresolved.what == "options"] == [
        "what $options_of_var_more"
    ]
    assert "bad-value" not in rules(one)


def terraform(words: str) -> Found:
    (one,) = found(TERRAFORM.format(kind="kubernetes_pod", words=words) + 'variable "n" {\n  default = 8\n}\n', "main.tf")
    return one


def test_lists_within_lists_and_texts_with_values_in_them() -> None:
    """developer.hashicorp.com/terraform/language/functions: flatten goes into all lists, format fills in, join puts together."""
    one = terraform('args = flatten([["--model", "Qwen/Qwen3-8B"], [["--dtype", "half"], format("--max-num-seqs=%d", var.n)]])')
    assert (one.model, one.question, opened(one)) == ("Qwen/Qwen3-8B", {"dtype": "half", "max_num_seqs": 8}, {"device"})
    one = terraform('command = ["sh", "-c", join(" ", ["vllm serve", "Qwen/Qwen3-8B", "--max-num-seqs", 4])]')
    assert (one.model, one.question["max_num_seqs"]) == ("Qwen/Qwen3-8B", 4)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ('args = concat(["--model", "Qwen/Qwen3-8B"], lookup(var.more, "a"))', "options"),
        ('args = concat(["--model", "Qwen/Qwen3-8B"], var.small ? ["--max-num-seqs", "4"] : [])', "options"),
        ('args = lookup(var.more, "a")', "options"),
        ('args = ["--model", "Qwen/Qwen3-8B", "--max-num-seqs", lookup(var.more, "a")]', "max_num_seqs"),
        ('args = ["--model", "Qwen/Qwen3-8B", "--max-num-seqs", format("%02d", 4)]', "max_num_seqs"),
        ('args = ["--model", "Qwen/Qwen3-8B", format("--max-num-seqs=%d", var.other)]', "max_num_seqs"),
        ('args = ["--model", "Qwen/Qwen3-8B", "--max-num-seqs", var.n * 2]', "max_num_seqs"),
    ],
)
def test_what_is_not_read_of_terraform_is_open(words: str, what: str) -> None:
    one = terraform(words)
    assert what in opened(one)
    assert "max_num_seqs" not in one.question
    assert "bad-value" not in rules(one)


@pytest.mark.parametrize(
    ("merged", "n_devices"),
    [('local.base, { "nvidia.com/gpu" = 2 }', 2), ('{ "nvidia.com/gpu" = 2 }, local.base', None)],
)
def test_of_maps_put_together_the_last_one_counts(merged: str, n_devices: int | None) -> None:
    """developer.hashicorp.com/terraform/language/functions/merge; behind one that is not read nothing is known of the others."""
    one = terraform(f'args = ["--model", "Qwen/Qwen3-8B"]\n    resources = {{ limits = merge({merged}) }}')
    assert one.question.get("n_devices") == n_devices


def test_words_instead_of_an_images_own() -> None:
    cmd = '["--model", "Qwen/Qwen3-8B", "--max-num-seqs", tostring(var.seqs), "--dtype", "half"]'
    words = f"entrypoint_overrides = {{ enabled = true, cmd = {cmd} }}"
    (one,) = found(TERRAFORM.format(kind="verda_container", words=words), "main.tf")
    assert (one.model, one.question["dtype"]) == ("Qwen/Qwen3-8B", "half")
    assert "max_num_seqs" in opened(one)


def test_a_branch_that_is_not_taken_is_no_errors_place() -> None:
    """Commands of all branches are looked at; in one that is not taken, what its condition asks is not what the file sets."""
    one, two = found(f'GPUS=""\nif [ -n "$GPUS" ]; then\n  CUDA_VISIBLE_DEVICES="$GPUS" {SERVE}\nelse\n  {SERVE} --max-num-seqs 4\nfi\n')
    assert (two.question["max_num_seqs"], rules(one) & {"bad-value"}) == (4, set())
    text = f'run() {{\n  if [ -z "$2" ]; then {SERVE}\n  else {SERVE} --max-num-seqs $2\n  fi\n}}\nrun plain\n'
    called = found(text)
    assert [("max_num_seqs" in opened(each), rules(each) & {"bad-value"}) for each in called] == [(False, set()), (True, set())]


def test_in_a_branch_that_is_not_taken_a_number_stays_and_an_empty_text_is_not_said_to_be_unset() -> None:
    branch = f"{SERVE} --kv-cache-dtype fp8 --max-model-len $CTX\nelse\n  {SERVE}\nfi\n"
    one, _ = found(f'CTX=4096\nif [ "$CTX" -gt 8192 ]; then\n  {branch}')
    assert (one.question["max_model_len"], "max_model_len" in opened(one)) == (4096, False)
    one, _ = found(f'CTX=""\nif [ -n "$CTX" ]; then\n  {branch}')
    (why,) = [unresolved.why for unresolved in one.unresolved if unresolved.what == "max_model_len"]
    assert why == "--max-model-len is CTX, which is not known from the file"


def test_what_a_command_answers_is_open_within_the_quotes_of_an_inner_shell() -> None:
    (one,) = found(f"M=$(awk 'BEGIN {{ print 0.9 }}')\nbash -c \"{SERVE} --gpu-memory-utilization '${{M}}'\"\n")
    assert "memory_fraction" in opened(one)
    assert "bad-value" not in rules(one)


@pytest.mark.parametrize("line", ["$SUDO useradd -r -s /bin/false -m -d /srv/x x", "$PYTHON -m pip install -r requirements.txt"])
def test_another_program_behind_a_variable_is_no_server(line: str) -> None:
    assert found(f"{line}\n") == []


def test_a_variable_of_another_program_names_no_server() -> None:
    assert found("nohup env LLAMA_SERVER=/opt/bin/llama-server PORT=8097 bash other.sh &\n") == []


def test_powershell_adds_words_in_one_line_and_starts_a_command_line() -> None:
    """learn.microsoft.com: Start-Process -ArgumentList takes one text, too, which the program takes apart."""
    added = (
        "$a = @('-m', 'm.gguf', '-c', '4096')\nif ($Np -gt 0) { $a += @('-np', $Np) }  # more slots\n"
        "Start-Process -FilePath llama-server -ArgumentList $a\n"
    )
    (one,) = read(added, "start.ps1")
    assert one.question["max_model_len"] == 4096
    assert "bad-value" not in rules(one)
    (two,) = read("$a = '-m m.gguf -c 4096 -np 2'\n$p = Start-Process -FilePath llama-server -ArgumentList $a -PassThru\n", "start.ps1")
    assert (two.question["max_model_len"], two.question["max_num_seqs"]) == (4096, 2)


def test_words_that_a_list_may_gain_are_no_model_where_an_option_names_it() -> None:
    (one,) = found(
        """
        import subprocess
        def main(args):
            cmd = ["python3", "-m", "sglang.launch_server", "--model-path", args.model, "--tp", "8"]
            if args.more():
                cmd += args.more().split()
            subprocess.run(cmd)
        """,
        "serve.py",
    )
    assert {"model", "options"} <= opened(one)
    assert not any("the model is cmd" in unresolved.why for unresolved in one.unresolved)
