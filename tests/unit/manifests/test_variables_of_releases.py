"""Environment variables: which a release reads, which are not known, what the process sees of the devices."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from kvplan.manifests import Found, Source, Verdict, read


def one(text: str) -> Found:
    (found,) = read(text, "serve.sh")
    return found


def verdict(text: str, **given: str) -> Verdict:
    (only,) = kvplan.check([Source("serve.sh", text)], **given)
    return only


def rules(found: Found) -> set[tuple[str, str]]:
    return {(f.rule, f.message.split()[0]) for f in found.findings}


def test_a_variable_that_the_release_no_longer_reads_sets_nothing_and_says_so() -> None:
    """vllm/envs.py has VLLM_ATTENTION_BACKEND up to 0.14.1, VLLM_MOE_DP_CHUNK_SIZE from 0.9.2 to 0.19.0."""
    said = "docker run -e VLLM_ATTENTION_BACKEND=FLASHINFER -e VLLM_MOE_DP_CHUNK_SIZE=64 vllm/vllm-openai:v{} --model Qwen/Qwen3-8B"
    old, between, new = (one(said.format(release)) for release in ("0.14.0", "0.19.0", "0.33.0"))
    assert old.question["engine_option"] == {"attention_backend": "FLASHINFER", "moe_dp_chunk_size": 64}
    assert between.question["engine_option"] == {"moe_dp_chunk_size": 64}
    assert "engine_option" not in new.question
    unread = [f.message for f in new.findings if f.rule == "unread-variable"]
    assert len(unread) == 2
    assert "it was read up to 0.14.0; --attention-backend says it" in unread[0]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("LLAMA_ARG_FOO=3 llama-server -m x.gguf", "unknown-variable"),
        ("GGML_CUDA_GRAPH_OPT=1 llama-server -m x.gguf", "not-modelled-either"),
        ("TLLM_OVERRIDE_LAYER_NUM=2 trtllm-serve Qwen/Qwen3-8B", "not-modelled-either"),
        ("SGLANG_MAMBA_SSM_DTYPES=bfloat16 sglang serve --model-path Qwen/Qwen3-8B", "unknown-variable"),
        ("SGLANG_USE_AITER_AG=1 sglang serve --model-path Qwen/Qwen3-8B", "unknown-variable"),
        ("SGLANG_SHARED_EXPERT_TP1=1 sglang serve --model-path Qwen/Qwen3-8B", "not-modelled-either"),
        ("TM_CACHE=3 lmdeploy serve api_server Qwen/Qwen3-8B", "unknown-variable"),
    ],
)
def test_a_variable_of_the_engine_is_never_dropped_in_silence(line: str, rule: str) -> None:
    assert (rule, line.partition("=")[0]) in rules(one(line))


@pytest.mark.parametrize("name", ["LLAMA_ARG_NO_MMAP", "LLAMA_ARG_TOP_K", "GGML_CUDA_NO_PINNED"])
def test_one_without_memory_in_it_is_none_to_speak_of(name: str) -> None:
    assert not rules(one(f"{name}=1 llama-server -m x.gguf"))


@pytest.mark.parametrize(
    "line",
    [
        "SGLANG_DG_CACHE_DIR=/c SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT=9 SGLANG_DISABLE_TP_MEMORY_INBALANCE_CHECK=1 "
        "SGLANG_DISAGGREGATION_HEARTBEAT_MAX_FAILURE=9 sglang serve --model-path Qwen/Qwen3-8B",
        "TLLM_LOG_LEVEL=INFO TRTLLM_ENABLE_PDL=1 TRTLLM_SERVER_DISABLE_GC=1 trtllm-serve Qwen/Qwen3-8B",
    ],
)
def test_names_that_say_what_else_they_are_about(line: str) -> None:
    """sglang 0.5.23 srt/environ.py; the recipes of NVIDIA/srt-slurm set all of these."""
    assert not rules(one(line))


def test_a_negated_variable_of_llama_server_turns_its_switch_off() -> None:
    """common/arg.cpp get_value_from_env: LLAMA_ARG_NO_X is falsey whatever it holds, and comes before LLAMA_ARG_X."""
    text = "LLAMA_ARG_NO_KV_OFFLOAD=1 llama-server -m x.gguf"
    assert one(text).question["engine_option"]["no_kv_offload"] is True
    both = "LLAMA_ARG_NO_KV_OFFLOAD=0 LLAMA_ARG_KV_OFFLOAD=1 llama-server -m x.gguf"
    assert one(both).question["engine_option"]["no_kv_offload"] is True


@pytest.mark.parametrize(
    ("said", "mode"),
    [("--no-mmap", "none"), ("-dio", "dio"), ("--mlock", "mlock"), ("-lm mlock", "mlock"), ("--mmap", None), ("-ndio", None)],
)
def test_how_llama_server_reads_its_file(said: str, mode: str | None) -> None:
    """common/arg.cpp: the older switches set what --load-mode says."""
    assert one(f"llama-server -m x.gguf {said}").question["engine_option"].get("load_mode") == mode


@pytest.mark.parametrize(("value", "n"), [("0", 1), ("0,1,3", 3), ("0,-1,1", 1)])
def test_a_list_of_devices_ends_at_what_names_none(value: str, n: int) -> None:
    """CUDA programming guide, environment variables: devices behind an invalid index are invisible."""
    assert one(f"CUDA_VISIBLE_DEVICES={value} vllm serve Qwen/Qwen3-8B").question["n_devices"] == n


@pytest.mark.parametrize("value", ['""', "-1", "NoDevFiles"])
def test_hidden_devices_are_no_devices(value: str) -> None:
    refused = verdict(f"CUDA_VISIBLE_DEVICES={value} vllm serve Qwen/Qwen3-8B", device="h100")
    assert refused.status == "refuses"
    assert "hides every GPU" in refused.message
    llama = one(f"CUDA_VISIBLE_DEVICES={value} llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -ngl 99")
    assert llama.question["n_gpu_layers"] == 0


def test_variables_of_an_env_file_count_and_those_out_of_reach_are_named(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("docker run --env-file prod.env --memory 8g ghcr.io/ggml-org/llama.cpp:server-cuda -hf unsloth/Qwen3-8B-GGUF:Q4_K_M\n")
    (without,) = kvplan.check(file, device="h100")
    assert any(f.rule == "not-read" and "prod.env" in f.message for f in without.findings)
    (tmp_path / "prod.env").write_text("LLAMA_ARG_CTX_SIZE=16384\nLLAMA_ARG_N_PARALLEL=2\n")
    (held,) = kvplan.check(file, device="h100")
    assert held.found is not None
    assert (held.found.question["max_model_len"], held.found.question["max_num_seqs"]) == (16384, 2)
    assert held.found.limits.memory is not None
    assert held.found.limits.memory.value == 8 << 30
