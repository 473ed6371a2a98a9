"""PowerShell in the shapes that people keep beside llama-server: dexusno/Translate_Subs, UrekMazino/hermes-with-rag,
tmielsch/turboquant-setup, ycx666994/llm-inference-platform, avena/llama-cpp-cuda-launcher, allsagetech/local-codex-kit."""

from __future__ import annotations

from functools import partial

from tests.unit.manifests import as_read
from tests.unit.manifests.as_read import opened

found = partial(as_read.found, name="start.ps1")


def test_defaults_of_parameters_and_joined_paths() -> None:
    (one,) = found(
        r"""
        param(
            [string]$Model = "models\Qwen_Qwen3-30B-A3B-Q4_K_M.gguf",
            [int]$ContextSize = 8192,  # tokens
            [int]$GpuLayers = 99
        )
        $ServerExe = Join-Path $PSScriptRoot "llama-server\llama-server.exe"
        $ModelPath = Join-Path $PSScriptRoot $Model
        if (-not (Test-Path $ServerExe)) {
            Write-Host "not there"
            exit 1
        }
        & $ServerExe -m $ModelPath -ngl $GpuLayers -c $ContextSize -ctk q8_0 -ctv q4_0
        """
    )
    assert one.model == r"./models\Qwen_Qwen3-30B-A3B-Q4_K_M.gguf"
    assert one.question["max_model_len"] == 8192
    assert (one.question["n_gpu_layers"], one.question["kv_dtype"]) == (99, "q8_0/q4_0")


def test_a_list_of_arguments_of_start_process() -> None:
    (one,) = found(
        r"""
        $bin   = "C:\llama-cpp\llama-server.exe"
        $model = "C:\models\Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf"
        $nCpuMoe = 26
        $argList = @(
          '--model', $model,   # the file
          '--port', "$(if ($env:LLAMA_PORT) { $env:LLAMA_PORT } else { '8080' })",
          '--n-cpu-moe', "$nCpuMoe",
          '-c', '65536', '--parallel', '1'
        )
        Start-Process -FilePath $bin `
            -ArgumentList $argList `
            -WindowStyle Hidden -PassThru
        """
    )
    assert one.model == r"C:\models\Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf"
    assert (one.question["max_model_len"], one.question["max_num_seqs"]) == (65536, 1)
    assert one.question["engine_option"]["n_cpu_moe"] == 26
    assert not [f for f in one.findings if f.rule == "unknown-option"]


def test_words_that_are_splatted_and_what_a_branch_adds() -> None:
    (one,) = found(
        """
        $server = Join-Path $build "bin/llama-server.exe"
        $args = @("-m", "a.gguf", "-c", "$ctx", "-np", "1")
        if ($Mtp) {
            $args += @("--spec-type", "draft-mtp")
        }
        & $server @args
        """
    )
    assert (one.model, one.question["max_num_seqs"]) == ("a.gguf", 1)
    assert "max_model_len" in opened(one)
    assert "speculative" not in one.question
    assert [f.rule for f in one.findings] == ["open-words"] or "options" in opened(one)


def test_a_value_of_the_environment_with_a_default() -> None:
    (one,) = found(
        """
        $model = if ($env:MODEL) { $env:MODEL } else { "facebook/opt-125m" }
        $id = docker run `
          -d --gpus all `
          vllm/vllm-openai:v0.11.0 `
          $model `
          --max-model-len 1024
        """
    )
    assert (one.engine_version, one.model, one.question["max_model_len"]) == ("0.11.0", "facebook/opt-125m", 1024)


def test_a_program_that_is_looked_up() -> None:
    (one,) = found(
        """
        $ollama = Get-Command ollama -ErrorAction SilentlyContinue
        $env:OLLAMA_CONTEXT_LENGTH = "65536"
        Start-Process -FilePath $ollama.Source -ArgumentList @('serve') -PassThru -RedirectStandardOutput $outLog
        """
    )
    assert (one.engine, one.question["max_model_len"]) == ("ollama", 65536)


def test_a_table_and_what_a_method_answers_are_open() -> None:
    (one,) = found(
        """
        $models = @(
            @{ Name = "small"; Path = "a.gguf"; Params = @("-c", 4096) }
        )
        $chosen = $models[0]
        & llama-server -m $chosen.Path -c $chosen.Context
        """
    )
    assert one.model is None
    assert {"model", "max_model_len"} <= opened(one)
