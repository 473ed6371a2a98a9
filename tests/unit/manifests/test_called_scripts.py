"""Functions and scripts that a script calls, with what they are called with: expected is what bash's own rules make of each text
(bash(1), "FUNCTIONS", "Shell Parameters"); each shape was met in a public file."""

from __future__ import annotations

from kvplan.manifests.values import Found
from tests.unit.manifests.as_read import found, opened, rules

LAUNCH = """
    serve() {
      local gpu=$1 model=$2
      shift 2
      CUDA_VISIBLE_DEVICES=$gpu vllm serve "$model" "$@" &
    }
    """


def models(every: list[Found]) -> list[str | None]:
    return [one.model for one in every]


def test_a_function_is_read_with_the_words_of_each_call() -> None:
    first, second = found(
        LAUNCH + "serve 0 Qwen/Qwen3-8B --max-model-len 8192\n    serve 1,2 Qwen/Qwen3-32B --tensor-parallel-size 2\n    wait\n"
    )
    assert (first.model, first.question["max_model_len"], first.question["n_devices"]) == ("Qwen/Qwen3-8B", 8192, 1)
    assert (second.model, second.question["tp"], second.question["n_devices"]) == ("Qwen/Qwen3-32B", 2, 2)
    assert "options" not in opened(first) | opened(second)


def test_what_the_script_itself_is_called_with_stays_open_in_a_function() -> None:
    (one,) = found('main() {\n  vllm serve "$1" --max-model-len 8192\n}\nmain "$@"\n')
    assert "model" in opened(one)


def test_a_function_that_nothing_calls_may_be_called_from_outside() -> None:
    (one,) = found('serve() {\n  vllm serve "$1" --max-model-len 8192\n}\n')
    assert opened(one) >= {"model"}
    assert one.question["max_model_len"] == 8192


def test_positional_words_are_those_of_the_script_again_behind_a_call() -> None:
    (one,) = found('log() {\n  echo "$1"\n}\nset -- Qwen/Qwen3-8B\nlog starting\nvllm serve "$1"\n')
    assert one.model == "Qwen/Qwen3-8B"


def test_a_loop_over_the_words_of_a_call_leaves_what_it_sets_open() -> None:
    (one,) = found(
        """
        serve() {
          local length=4096
          while [[ $# -gt 0 ]]; do
            case $1 in
              --length) length=$2; shift 2 ;;
              *) shift ;;
            esac
          done
          vllm serve Qwen/Qwen3-8B --max-model-len $length
        }
        serve --quiet --length 32768
        """
    )
    assert one.question.get("max_model_len") != 4096
    assert "max_model_len" in opened(one)


def test_a_function_that_calls_itself_ends() -> None:
    (one,) = found('again() {\n  again "$1"\n  vllm serve "$1"\n}\nagain Qwen/Qwen3-8B\n')
    assert one.model == "Qwen/Qwen3-8B"


def test_a_function_of_a_sourced_file_takes_the_options_that_it_is_handed() -> None:
    (one,) = found(
        '. ./common.sh\nrun_server --model /models/Qwen3-8B-Q8_0.gguf --ctx-size "$((32*1024))" --gpu-layers 9\n',
        common_sh='run_server() {\n  local mine=(--host 0.0.0.0 --parallel 2)\n  bin/llama-server "${mine[@]}" "$@"\n}\n',
    )
    assert (one.engine, one.question["max_model_len"], one.question["n_gpu_layers"]) == ("llama.cpp", 32768, 9)
    assert one.question["max_num_seqs"] == 2


SERVER = '#!/bin/bash\nMODEL=$1\npython3 -m sglang.launch_server --model-path "$MODEL" --tp-size "$2" "${@:3}"\n'


def test_a_script_that_another_runs_is_read_with_its_words() -> None:
    (one,) = found("#!/bin/bash\n#SBATCH --gres=gpu:h100:4\nbash serve/service.sh Qwen/Qwen3-32B 4\n", "job.sh", serve__service_sh=SERVER)
    assert (one.engine, one.model, one.question["tp"], one.question["device"]) == ("sglang", "Qwen/Qwen3-32B", 4, "h100-80gb")
    assert "config-read" in rules(one)
    assert one.place.line == 3


def test_a_path_from_the_root_of_the_repository_is_found_in_the_folders_above() -> None:
    above = {"../other/service.sh": SERVER}
    from kvplan.manifests.read import read

    (one,) = read("scripts/other/service.sh Qwen/Qwen3-8B 1\n", "scripts/mine/job.sh", None, above.get)
    assert (one.model, one.question["tp"]) == ("Qwen/Qwen3-8B", 1)


def test_a_unit_that_runs_a_script_beside_it_is_read_on() -> None:
    (one,) = found(
        "[Service]\nExecStart=/bin/bash /opt/llm/run.sh\n", "llm.service", run_sh="vllm serve Qwen/Qwen3-8B --max-model-len 4096\n"
    )
    assert (one.model, one.question["max_model_len"]) == ("Qwen/Qwen3-8B", 4096)
    assert "config-read" in rules(one)


def test_a_program_of_that_name_that_is_no_script_is_not_read() -> None:
    assert found("./serve Qwen/Qwen3-8B\n", serve="vllm serve Qwen/Qwen3-8B\n") == []


def test_a_container_runtime_that_is_open_is_known_by_its_words() -> None:
    (one,) = found(
        """
        ENGINE="${ENGINE:-$(detect)}"
        opts=()
        [ "$(id -u)" = 0 ] || opts+=(--security-opt label=disable)
        "$ENGINE" run -d "${opts[@]}" -e HF_TOKEN="$HF_TOKEN" vllm/vllm-openai:v0.11.0 Qwen/Qwen3-8B --max-model-len 2048
        """
    )
    assert (one.engine_version, one.model, one.question["max_model_len"]) == ("0.11.0", "Qwen/Qwen3-8B", 2048)


def test_the_text_of_a_unit_in_a_nix_file_is_read() -> None:
    text = """
        { ... }: ''
          [Container]
          Image=ghcr.io/ggml-org/llama.cpp:server-cuda
          AddDevice=nvidia.com/gpu=1
          Exec=--model /m/Qwen3-8B-Q8_0.gguf --ctx-size 8192 \\
            --parallel 2
        ''
        """
    (one,) = found(text, "llama.nix")
    assert (one.question["max_model_len"], one.question["max_num_seqs"], one.question["n_devices"]) == (8192, 2, 1)


def test_a_path_is_taken_for_the_release_of_its_name() -> None:
    from kvplan.manifests.weights import meant

    assert meant("/models/GLM-4.5-Air-IQ4_XS-00001-of-00002.gguf") == "zai-org/GLM-4.5-Air"
    assert meant("D:\\gguf\\Qwen3.6-27B\\Qwen3.6-27B.IQ4_XS.gguf") == "qwen/qwen3.6-27b"
    assert meant("/models/gpt-oss-120b-mxfp4-00001-of-00003.gguf") == "openai/gpt-oss-120b"


def test_a_job_that_asks_for_a_gpu_without_a_number_has_one() -> None:
    """slurm.schedmd.com/sbatch.html: the count of --gres is one where none is given."""
    run = "vllm serve Qwen/Qwen3-8B\n"
    (one,) = found(f"#!/bin/bash\n#SBATCH --gres=gpu\n{run}")
    assert one.question["n_devices"] == 1
    (two,) = found(f"#!/bin/bash\n#SBATCH --gres=gpu:h100\n{run}")
    assert (two.question["n_devices"], two.question["device"]) == (1, "h100-80gb")
    (four,) = found(f"#!/bin/bash\n#SBATCH --gres=gpu:h100:4\n{run}")
    assert four.question["n_devices"] == 4


def test_a_step_without_gpus_takes_none_from_its_job() -> None:
    job = '#!/bin/bash\n#SBATCH --gpus-per-node=4\nsrun --gpus-per-node=0 -n 1 bash -c "python client.py" &\n'
    (one,) = found(f"{job}vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4\n")
    assert one.question["n_devices"] == 4
