"""Kinds of public files that were read wrong or in silence: charts of one's own, forks, words that no option takes.

Repositories: thomaswetzler/vLLM-Sleep-Proxy, nwthomas/gitops, gsampaio-rh/llm-benchmark-app, luksamuk/ai-dotfiles, nirecom/cc-local-llm,
meas1-hue/hermes-llm-setup, itenev/unsloth-docker-gx10, chrisspen/llama.cpp-daemon, CyberBerto/inference-server-mvp, YpS-YpS/OmniLocal,
bgeneto/paddleocr-vl-webapp, java-alchemist/inference-stack, felipemoz/vllm-on-azure, andysalerno/llm-at-home, rawsh/mirrorllm,
ree2raz/inference-bench, CannonCoPilot/model-foundry, TimovNiedek/sovereign-ai, eliash0913/vllm-service, dacb/agentic_ai_on_hyak.
"""

from __future__ import annotations

from pathlib import Path

import kvplan
from kvplan.manifests import Source, check, read_file
from kvplan.report import findings
from tests.conftest import planned
from tests.unit.manifests.as_read import found, opened


def test_a_refusal_is_said_once() -> None:
    (verdict,) = check([Source("serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct\n")], kvplan.estimate, device="t4")
    text = findings.text([verdict.as_dict()])
    assert verdict.status == "refuses"
    assert text.count("No available memory for the cache blocks") == 1
    assert "error: would fit: " in text


def test_a_model_that_declares_no_length_is_no_refusal() -> None:
    (verdict,) = check([Source("serve.sh", "python3 -m sglang.launch_server --model unsloth/gpt-oss-20b --tp 2\n")], planned)
    assert verdict.status == "unknown"
    assert "context" in {u.what for u in verdict.unresolved}


def test_a_word_behind_an_option_without_a_value_is_said() -> None:
    (one,) = found("python -m vllm.entrypoints.openai.api_server --model m/x --enforce-eager false --max-model-len 8192\n")
    assert (one.model, one.question["max_model_len"]) == ("m/x", 8192)
    assert [f.message.partition(":")[0] for f in one.findings if f.rule == "stray-word"] == ["false"]


def test_a_fork_of_llama_cpp_keeps_its_own_options() -> None:
    """ik_llama.cpp's --fit takes no value, llama.cpp's needs one: on its server that is no usage error."""
    (one,) = found("/opt/ik_llama.cpp/build/bin/llama-server --model /m/a-Q4_K_M.gguf --fit --fit-margin 512 --ctx-size 8192 -ngl 99\n")
    assert (one.engine, one.question["max_model_len"]) == ("llama.cpp", 8192)
    assert "command" in opened(one)
    assert not [f for f in one.findings if f.severity == "error"]
    (own,) = found("llama-server --model /m/a-Q4_K_M.gguf --fit --ctx-size 8192\n")
    assert [f.rule for f in own.findings if f.severity == "error"] == ["bad-value"]


def test_open_words_of_a_server_without_positional_words() -> None:
    (one,) = found('llama-server -m /m/a.gguf --flash-attn ${FLASH_ATTN} -ngl 99 $([ "$J" = 1 ] && echo "--jinja")\n')
    assert {"flash_attn", "options"} <= opened(one)
    assert one.model == "/m/a.gguf"


def test_models_of_llama_swap_that_are_not_read_are_said() -> None:
    first, second = found(
        """
        models:
          one:
            cmd: sh -c 'exec ./ds4-server --ctx 393216'
          two:
            cmd: llama-server --port ${PORT} -m ${env.MODELS}/Qwen3-8B-Q4_K_M.gguf -c 8192
          three:
            proxy: https://example.com/v1
        """,
        "config.yaml",
    )
    assert first.engine == ""
    assert "./ds4-server" in first.unresolved[0].why
    assert second.model == "$MODELS/Qwen3-8B-Q4_K_M.gguf"
    assert second.question["max_model_len"] == 8192


def test_arguments_in_a_section_of_a_charts_values() -> None:
    (one,) = found(
        """
        image: {repository: vllm/vllm-openai, tag: v0.12.0}
        vllm:
          model: Qwen/Qwen2.5-7B
          args:
            - --model={{ .Values.vllm.model }}
            - --max-model-len=4096
        resources: {limits: {nvidia.com/gpu: 1}}
        """,
        "values.yaml",
    )
    assert (one.engine_version, one.model, one.question["max_model_len"]) == ("0.12.0", "Qwen/Qwen2.5-7B", 4096)
    (shell,) = found(
        """
        image: {repository: vllm/vllm-openai, tag: v0.12.0}
        vllm:
          command: [/bin/sh, -c]
          args: ["vllm serve openai/gpt-oss-20b --enable-chunked-prefill"]
        """,
        "values.yaml",
    )
    assert shell.model == "openai/gpt-oss-20b"


def test_the_production_stack_below_another_chart() -> None:
    first, beside = found(
        """
        vllm-stack:
          servingEngineSpec:
            modelSpec:
              - name: llama
                repository: lmcache/vllm-openai
                tag: v0.3.12
                modelURL: meta-llama/Llama-3.1-8B-Instruct
                resources: {limits: {nvidia.com/gpu: "2"}}
                vllmConfig: {maxModelLen: 12288}
        embeddings:
          image: {repository: ghcr.io/huggingface/text-embeddings-inference, tag: cpu-1.9.1}
        """,
        "values.yaml",
    )
    assert (first.engine, first.model, first.engine_version) == ("vllm", "meta-llama/Llama-3.1-8B-Instruct", None)
    assert (first.question["max_model_len"], first.question["n_devices"]) == (12288, 2)
    assert beside.engine == ""


def test_how_many_gpus_a_template_asks_for_is_not_none() -> None:
    (one,) = found(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: vllm}
        spec:
          containers:
            - {name: vllm, image: "vllm/vllm-openai:v0.11.0", args: [--model, m/x], resources: {limits: {nvidia.com/gpu: "${GPUS}"}}}
        """,
        "pod.yaml",
    )
    assert "${GPUS} x nvidia.com/gpu" in next(u.why for u in one.unresolved if u.what == "device")


def test_a_dockerfiles_list_whose_words_go_on_in_the_next_line() -> None:
    (one,) = found(
        r"""
        FROM nvidia/cuda:12.4.0-devel-ubuntu22.04
        RUN pip install vllm==0.11.0
        ENV MODEL_NAME=Qwen/Qwen3-8B
        CMD ["sh", "-c", "vllm serve ${MODEL_NAME} \
            --max-model-len 16384 \
            --limit-mm-per-prompt '{\"image\": 1}'"]
        """,
        "Dockerfile",
    )
    assert (one.engine_version, one.model, one.question["max_model_len"]) == ("0.11.0", "Qwen/Qwen3-8B", 16384)


def test_another_program_with_a_backend_is_no_tensorrt() -> None:
    (one,) = found(
        """
        services:
          ocr:
            image: paddlepaddle/paddleocr-genai-vllm-server:latest
            command: paddleocr genai_server --model_name PaddleOCR-VL-0.9B --host 0.0.0.0 --port 80 --backend vllm --backend_config /c.yaml
        """,
        "compose.yaml",
    )
    assert one.engine == "vllm"
    assert "command" in opened(one)


def test_sglangs_image_for_rocm_has_its_release() -> None:
    (one,) = found("docker run lmsysorg/sglang-rocm:v0.5.14-rocm720-mi30x-20260707 python3 -m sglang.launch_server --model-path m/x\n")
    assert one.engine_version == "0.5.14"


def test_modals_older_names_of_gpus_and_the_one_image_of_a_module() -> None:
    (one,) = found(
        """
        import modal, subprocess
        IMAGE = "vllm/vllm-openai:v0.20.1"
        image = modal.Image.from_registry(IMAGE)

        @app.function(image=image, gpu=modal.gpu.A100(size="80GB", count=2))
        def serve():
            subprocess.Popen(["vllm", "serve", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2"])
        """,
        "app.py",
    )
    assert (one.engine_version, one.question["device"], one.question["n_devices"]) == ("0.20.1", "a100-80gb", 2)


def test_lists_of_a_module_that_others_import() -> None:
    run, other = found(
        """
        import subprocess
        OTHER = ["python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B", "--mem-fraction-static", "0.85"]
        subprocess.run(["vllm", "serve", "Qwen/Qwen3-4B"])
        """,
        "bench.py",
    )
    assert (run.engine, other.engine, other.question["memory_fraction"]) == ("vllm", "sglang", 0.85)
    assert "command" in opened(other)


def test_a_script_that_is_called_without_arguments() -> None:
    (one,) = found(
        """
        if [ $# -eq 0 ]; then
          set -- --model "${MODEL:-Qwen/Qwen3-8B}" --gpu-memory-utilization 0.8
        fi
        python -m vllm.entrypoints.openai.api_server "$@"
        """
    )
    assert (one.model, one.question["memory_fraction"]) == ("Qwen/Qwen3-8B", 0.8)


def test_a_file_above_the_script_is_taken_in_within_its_repository(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "serve.sh"
    script.parent.mkdir()
    script.write_text('source "$(dirname "$0")/../settings.env"\nvllm serve $MODEL --max-model-len ${LENGTH:-4096}\n')
    (tmp_path / "settings.env").write_text("MODEL=Qwen/Qwen3-8B\nLENGTH=8192\n")
    (outside,) = read_file(str(script))
    assert outside.model is None
    assert [f.rule for f in outside.findings] == ["not-read"]
    (tmp_path / ".git").mkdir()
    (inside,) = read_file(str(script))
    assert (inside.model, inside.question["max_model_len"]) == ("Qwen/Qwen3-8B", 8192)


def test_a_model_of_llama_swap_in_a_file_of_its_own() -> None:
    (one,) = found(
        """
        small:
          cmd: |
            ${vllm_bin} serve LiquidAI/LFM2.5-1.2B-Instruct
            --port ${PORT}
            --gpu-memory-utilization 0.70
            --max-model-len 8192
          ttl: 900
        """,
        "small.yaml",
    )
    assert (one.engine, one.model) == ("vllm", "LiquidAI/LFM2.5-1.2B-Instruct")
    assert (one.question["max_model_len"], one.question["memory_fraction"]) == (8192, 0.7)


def test_a_model_in_front_of_the_options_of_a_build_for_cpus() -> None:
    (one,) = found("services:\n  a:\n    image: vllm-cpu-env:latest\n    command: Qwen/Qwen3-4B --max-model-len 16384\n", "compose.yaml")
    assert (one.model, one.question["max_model_len"]) == ("Qwen/Qwen3-4B", 16384)
    assert "device" in opened(one)


def test_what_a_unit_or_a_job_runs_is_named() -> None:
    for text, name in (
        ("[Unit]\nDescription=vLLM\n[Service]\nExecStart=/usr/local/bin/serve-it\n", "vllm.service"),
        ("#!/bin/bash\n#SBATCH --job-name=vllm_demo\necho vllm\n./serve-it\n", "job.slurm"),
    ):
        (verdict,) = check([Source(name, text)], planned)
        assert verdict.status == "empty"
        assert "serve-it, which it runs, is not read" in verdict.message


def test_a_format_beside_options_that_are_not_known_is_no_refusal() -> None:
    """TurboQuant's build has --moe-cache and a cache of turbo2; llama.cpp has neither, and stops at the format."""
    asked = "llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -ctk turbo2 -ctv turbo2 -fa on"
    (fork,) = check([Source("serve.sh", f"{asked} --moe-cache on\n")], planned, device="l40s")
    (own,) = check([Source("serve.sh", f"{asked}\n")], planned, device="l40s")
    assert (fork.status, own.status) == ("unknown", "refuses")


def test_short_options_of_another_program_are_no_engines() -> None:
    """`"$K" exec deploy/redis -c redis` is kubectl, `$nginx -p . -c nginx.conf` nginx; a model's option tells llama-server."""
    assert found('"$K" exec -n "$NAMESPACE" deploy/redis -c redis -- redis-cli LLEN q\n"$nginx" -p "$prefix" -c conf/nginx.conf\n') == []
    (one,) = found('"$SERVER" -m /models/a.gguf -c 4096 -ngl 99\n')
    assert (one.engine, one.question["max_model_len"]) == ("llama.cpp", 4096)


def test_filters_of_a_play_are_open() -> None:
    (one,) = found(
        """
        - hosts: all
          vars: {length: 8192}
          tasks:
            - name: serve
              ansible.builtin.shell: vllm serve m/x --tensor-parallel-size {{ tp | int }} --max-model-len {{ length | int }}
        """,
        "play.yml",
    )
    assert (one.model, one.question["max_model_len"]) == ("m/x", 8192)
    assert "tp" in opened(one)


def test_what_an_unset_variable_leaves_as_it_is() -> None:
    (one,) = found(
        """
        import os
        model = os.getenv("VLLM_MODEL", "openai/gpt-oss-20b")
        url = os.getenv("GGUF_MODEL_URL", "").strip()
        if url:
            model = download(url)
        cmd = ["vllm", "serve", model, "--max-model-len", "8192"]
        os.execvp(cmd[0], cmd)
        """,
        "run.py",
    )
    assert (one.model, one.question["max_model_len"]) == ("openai/gpt-oss-20b", 8192)
