"""Start-up logs: every engine's wordings, wrapped as collectors wrap them; the expected numbers stand in the lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import FormatError, UnknownName
from kvplan.startup_logs import LoggedStart, read_log, read_starts
from kvplan.startup_logs.lines import MAX_LINE, clean, rank_of, read_batches
from tests.conftest import shared
from tests.log_samples import COLLECTORS, LLAMA, LOGS, SGLANG, TRT, VLLM_NEW, VLLM_REFUSAL, VLLM_V0, VLLM_V1, reading


def figures(start: LoggedStart) -> dict[str, float]:
    return {f.name: f.value for f in start.figures}


def test_vllm_v1() -> None:
    start = read_log(VLLM_V1)
    assert (start.engine, start.version, start.model) == ("vllm", "0.19.0", "Qwen/Qwen3-8B")
    assert start.question == {
        "max_model_len": 8192,
        "tp": 2,
        "memory_fraction": 0.95,
        "kv_dtype": "fp8_e4m3",
        "dtype": "bfloat16",
        "enforce_eager": False,
        "speculative": "mtp:2",
        "engine_option": {"enable_prefix_caching": "true"},
        "device": "NVIDIA H100 80GB HBM3",
    }
    assert start.value("kv_cache") == 63.76  # the smallest rank's
    assert [(f.value, f.rank) for f in start.figures if f.name == "kv_cache"] == [(63.80, "TP0"), (63.76, "TP1")]
    assert start.value("tokens") == 1044688
    assert start.value("concurrency") == 127.53
    assert (start.value("activation_peak"), start.value("non_torch"), start.value("cuda_graph")) == (1.89, 2.07, 0.76)
    assert (start.value("total_memory"), start.value("free_memory"), start.value("requested")) == (79.19, 78.6, 75.23)


def test_vllm_v0() -> None:
    start = read_log(VLLM_V0)
    assert (start.version, start.model, start.question["tp"]) == ("0.7.2", "Qwen/Qwen2.5-14B-Instruct", 2)
    assert start.question["device"] == "39.5GiB"
    assert start.question["max_num_seqs"] == 256
    named = figures(start)
    assert (named["blocks"], named["concurrency"], named["kv_cache"]) == (11770, 5.75, 17.24)
    assert (start.value("weights"), named["activation_peak"], named["non_torch"]) == (13.9281, 2.84, 1.54)


def test_vllm_refusal_and_new_wordings() -> None:
    refused = read_log(VLLM_REFUSAL)
    assert (refused.value("request"), refused.value("kv_cache"), refused.value("longest")) == (16.0, 1.71, 14000)
    assert refused.question["max_model_len"] == 131072
    new = figures(read_log(VLLM_NEW))
    assert (new["consumed"], new["activation_peak"], new["cuda_graph"]) == (15.03, 1.59, 0.09)
    assert (new["tokens"], new["concurrency"]) == (112347, 1.14)


def test_sglang() -> None:
    start = read_log(SGLANG)
    assert (start.engine, start.model) == ("sglang", "Qwen/Qwen2.5-1.5B-Instruct")
    assert start.question["memory_fraction"] == 0.4
    assert start.question["max_num_seqs"] == 4096
    assert start.question["max_model_len"] == 32768
    assert (start.value("weights"), start.value("kv_cache"), start.value("tokens")) == (3.25, 41.6, 1557709)
    assert start.value("cuda_graph") == 2.23
    assert {f.rank for f in start.figures} == {"TP0"}


def test_tensorrt_llm_takes_the_pool_that_is_served_from() -> None:
    start = read_log(TRT)
    assert start.engine == "tensorrt-llm"
    assert (start.value("kv_cache"), start.value("tokens"), start.value("blocks")) == (16.05, 263008, 8219)
    assert start.value("trial_tokens") == 8224
    assert start.question["device"] == "31.84GiB"


def test_llama_cpp() -> None:
    start = read_log(LLAMA)
    assert (start.engine, start.version, start.question["device"]) == ("llama.cpp", "6232", "NVIDIA GeForce RTX 4090")
    assert start.model == "/models/gpt-oss-20b-mxfp4.gguf"
    assert start.question["n_gpu_layers"] == 25
    assert start.question["max_model_len"] == 4096
    assert start.question["kv_dtype"] == "f16"
    assert start.question["engine_option"] == {"n_ubatch": "512", "kv_unified": "true"}
    assert (start.value("kv_size"), start.value("swa_kv_size")) == (96.0, 24.0)
    assert (start.value("cells"), start.value("swa_cells")) == (4096, 1024)
    assert [(f.value, f.rank) for f in start.figures if f.name == "compute_buffer"] == [(398.38, "CUDA0"), (15.15, "CUDA_Host")]


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("wrap", COLLECTORS)
def test_wrapping_changes_nothing(wrap: str, log: str) -> None:
    wrapped = "\n".join(COLLECTORS[wrap](line) for line in LOGS[log].splitlines())
    assert reading(read_log(wrapped)) == reading(read_log(LOGS[log]))


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("(Worker_TP0 pid=12) INFO", "TP0"),
        ("(Worker_PP1_TP3 pid=12) INFO", "PP1_TP3"),
        ("(EngineCore_0 pid=12) (VllmWorker rank=2 pid=9) INFO", "2"),
        ("(EngineCore_DP1 pid=12) INFO", "DP1"),
        ("(VllmWorkerProcess pid=12) INFO", None),
        ("[2026-01-01 00:00:00 DP0 TP3 EP3] Load", "DP0_TP3_EP3"),
        ("INFO 01-01 plain", None),
    ],
)
def test_ranks(line: str, rank: str | None) -> None:
    assert rank_of(clean(line)) == rank


def test_restarts_are_told_apart() -> None:
    starts = read_starts(VLLM_V0 + VLLM_V1)
    assert [s.version for s in starts] == ["0.7.2", "0.19.0"]
    assert read_log(VLLM_V0 + VLLM_V1).version == "0.19.0"


def test_a_log_on_one_line_as_pasted_into_issues() -> None:
    start = read_log(VLLM_V0.replace("\n", " "))
    assert start.value("kv_cache") == 17.24
    assert start.value("blocks") == 11770


def test_noise_is_read_in_linear_time_and_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    noise = "INFO 04-19 metrics.py Avg prompt throughput: 1.0 tokens/s, GPU KV cache usage: 10.0%\n" * 1000
    with open(path, "w") as file:
        file.write("x" * (3 << 20) + "\n")  # one endless line
        file.write("(" * 50_000 + "non-default args: {" + "[" * 50_000 + "\n")
        for _ in range(30):
            file.write(noise)
        file.write(VLLM_V0)
    start = read_log(path)
    assert start.value("kv_cache") == 17.24
    assert max(len(line.text) for batch in read_batches(path) for line in batch) <= MAX_LINE


def test_nothing_in_a_log_is_evaluated() -> None:
    start = read_log("args: Namespace(model=__import__('os').getcwd(), max_model_len=8192)\n# GPU blocks: 10, # CPU blocks: 1\n")
    assert start.model == "__import__('os').getcwd()"
    assert start.question["max_model_len"] == 8192


def test_what_is_no_log() -> None:
    with pytest.raises(FormatError):
        read_log("hello\nworld\n")
    with pytest.raises(UnknownName):
        read_log("x", engine="vlm")


FIGURES = {
    "weights_gib": "weights",
    "activation_peak_gib": "activation_peak",
    "non_torch_gib": "non_torch",
    "kv_cache_gib": "kv_cache",
    "cuda_graph_gib": "cuda_graph",
    "num_gpu_blocks": "blocks",
    "kv_tokens": "tokens",
    "max_concurrency": "concurrency",
    "k_size_gb": "k_size",
    "v_size_gb": "v_size",
}


def test_published_logs() -> None:
    """Excerpts of published logs: what is parsed equals what was read off them by hand."""
    compared = unread = 0
    for text in shared("data/engine_logs.jsonl").read_text().splitlines():
        row = json.loads(text)
        try:
            start = read_log(row["verbatim"])
        except FormatError:
            unread += 1  # a results file or a person's words, no log line
            continue
        assert start.engine == row["engine"], row["id"]
        for key, name in FIGURES.items():
            value, logged = start.value(name), row["logged"].get(key)
            if value is None or logged is None:
                continue
            if key == "kv_cache_gib" and ((row["pp"] or 1) > 1 or "draft" in str(row["speculative"])):
                continue  # the row has the smallest stage's, from its tokens; or counts the draft's pool too
            compared += 1
            close = value == pytest.approx(logged, abs=0.0051 if key == "weights_gib" else 1e-9)
            assert close, (row["id"], key, value, logged)
    assert unread <= 6
    assert compared > 250
