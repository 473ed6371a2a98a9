"""Start-up logs: every engine's wordings, wrapped as collectors wrap them; the expected numbers stand in the lines."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kvplan.errors import FormatError, UnknownName
from kvplan.startup_logs import LoggedStart, read_log, read_starts
from kvplan.startup_logs.lines import MAX_LINE, clean, rank_of, read_lines

VLLM_V1 = """\
(APIServer pid=1) INFO 04-19 10:18:36 [utils.py:299]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.19.0
(APIServer pid=1) INFO 04-19 10:18:36 [utils.py:233] non-default args: {'model_tag': 'Qwen/Qwen3-8B', 'model': 'Qwen/Qwen3-8B', \
'max_model_len': 8192, 'tensor_parallel_size': 2, 'gpu_memory_utilization': 0.95, 'kv_cache_dtype': 'fp8_e4m3', \
'enable_expert_parallel': False, 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 2}, 'enable_prefix_caching': True}
(EngineCore_DP0 pid=15) INFO 03-02 11:00:39 [core.py:93] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-8B', \
speculative_config=None, dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, quantization=None, enforce_eager=False, \
compilation_config=CompilationConfig(level=3, cudagraph_capture_sizes=[512, 504]), kv_cache_dtype=fp8_e4m3
(EngineCore_DP0 pid=15) (Worker_TP0 pid=21) INFO [gpu_model_runner.py:3] Model loading took 7.51 GiB memory and 3.2 seconds
(EngineCore_DP0 pid=15) (Worker_TP1 pid=22) INFO [gpu_model_runner.py:3] Model loading took 7.51 GiB memory and 3.2 seconds
(Worker_TP0 pid=21) WARNING [fused_moe.py:9] Config file not found at /x/E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json
(Worker_TP0 pid=21) INFO [gpu_worker.py:298] Available KV cache memory: 63.80 GiB
(Worker_TP1 pid=22) INFO [gpu_worker.py:298] Available KV cache memory: 63.76 GiB
(EngineCore_DP0 pid=15) INFO [kv_cache_utils.py:8] GPU KV cache size: 1,044,688 tokens
(EngineCore_DP0 pid=15) INFO [kv_cache_utils.py:9] Maximum concurrency for 8,192 tokens per request: 127.53x
(Worker_TP0 pid=21) INFO [gpu_model_runner.py:5] Graph capturing finished in 20 secs, took 0.76 GiB
(Worker_TP0 pid=21) INFO [gpu_worker.py:9] Free memory on device (78.6/79.19 GiB) on startup. Desired GPU memory utilization is \
(0.95, 75.23 GiB). Actual usage is 7.51 GiB for weight, 1.89 GiB for peak activation, 2.07 GiB for non-torch memory, and 0.76 GiB \
for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=68462039552` (63.76 GiB) to fit.
"""

VLLM_V0 = """\
INFO 02-10 09:00:00 api_server.py:840] vLLM API server version 0.7.2
INFO 02-10 09:00:00 api_server.py:841] args: Namespace(model='Qwen/Qwen2.5-14B-Instruct', max_model_len=32768, \
tensor_parallel_size=2, gpu_memory_utilization=0.9, max_num_seqs=256, compilation_config=<obj at 0x1>, enforce_eager=False)
INFO 02-10 09:00:01 model_runner.py:1115] Loading model weights took 13.9281 GB
INFO 02-10 09:00:02 worker.py:267] the current vLLM instance can use total_gpu_memory (39.50GiB) x gpu_memory_utilization (0.90) = 35.55GiB
INFO 02-10 09:00:02 worker.py:267] model weights take 13.93GiB; non_torch_memory takes 1.54GiB; PyTorch activation peak memory takes \
2.84GiB; the rest of the memory reserved for KV Cache is 17.24GiB.
INFO 02-10 09:00:03 executor_base.py:110] # CUDA blocks: 11770, # CPU blocks: 2730
INFO 02-10 09:00:03 executor_base.py:115] Maximum concurrency for 32768 tokens per request: 5.75x
"""

VLLM_REFUSAL = """\
(EngineCore pid=9) ERROR ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is \
needed, which is larger than the available KV cache memory (1.71 GiB). Based on the available memory, the estimated maximum model \
length is 14000. Try increasing `gpu_memory_utilization`.
"""

VLLM_NEW = """\
INFO [gpu_worker.py:1] Free memory on device (30.27/31.4 GiB) on startup. Desired GPU memory utilization is (0.92, 28.88 GiB). \
Actual usage is 15.03 GiB consumed (weights + non-torch), 1.59 GiB peak activation, 0.09 GiB CUDAGraph.
INFO [kv_cache_utils.py:2] GPU KV cache size: 112,347 tokens, Maximum concurrency for 98,304 tokens per request: 1.14x
"""

SGLANG = """\
[2026-06-07 11:52:13] server_args=ServerArgs(model_path='Qwen/Qwen2.5-1.5B-Instruct', tp_size=1, mem_fraction_static=0.4, \
context_length=None, chunked_prefill_size=8192, page_size=1, kv_cache_dtype='auto', disable_radix_cache=False)
[2026-06-07 11:52:20 TP0] Load weight begin. avail mem=112.26 GB
[2026-06-07 11:52:30 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=109.01 GB, mem usage=3.25 GB.
[2026-06-07 11:52:30 TP0] KV Cache is allocated. #tokens: 1557709, K size: 20.80 GB, V size: 20.80 GB
[2026-06-07 11:52:31 TP0] Memory pool end. avail mem=66.83 GB
[2026-06-07 11:52:40 TP0] Capture cuda graph end. Time elapsed: 5.20 s. mem usage=2.23 GB. avail mem=64.56 GB.
[2026-06-07 11:52:41 TP0] max_total_num_tokens=1557709, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=4096, context_len=32768, available_gpu_mem=64.56 GB
"""

TRT = """\
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 31.84 GiB, available: 17.83 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 257
[TensorRT-LLM][INFO] Number of tokens per block: 32.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8224).
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 8219
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV cache (263008)
"""

LLAMA = """\
build: 6232 (ffdd983fb) with cc (Debian) for x86_64-linux-gnu
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 4090) - 22994 MiB free
llama_model_loader: loaded meta data with 40 key-value pairs and 459 tensors from /models/gpt-oss-20b-mxfp4.gguf (version GGUF V3)
load_tensors: offloaded 25/25 layers to GPU
load_tensors:        CUDA0 model buffer size = 10949.38 MiB
load_tensors:   CPU_Mapped model buffer size =   586.82 MiB
llama_context: n_seq_max     = 4
llama_context: n_ctx         = 4096
llama_context: n_ubatch      = 512
llama_context: kv_unified    = true
llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells
llama_kv_cache:      CUDA0 KV buffer size =    96.00 MiB
llama_kv_cache: size =   96.00 MiB (  4096 cells,  12 layers,  4/1 seqs), K (f16):   48.00 MiB, V (f16):   48.00 MiB
llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells
llama_kv_cache:      CUDA0 KV buffer size =    24.00 MiB
llama_kv_cache: size =   24.00 MiB (  1024 cells,  12 layers,  4/1 seqs), K (f16):   12.00 MiB, V (f16):   12.00 MiB
llama_context:      CUDA0 compute buffer size =   398.38 MiB
llama_context:  CUDA_Host compute buffer size =    15.15 MiB
"""


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


WRAPPERS = {
    "colours": lambda line: f"\x1b[1;36m{line}\x1b[0;0m",
    "compose": lambda line: f"vllm-1  | {line}",
    "kubectl": lambda line: f"[pod/vllm-7f9c/vllm] {line}",
    "cri": lambda line: f"2026-04-19T12:18:36.353123456Z stderr F {line}",
    "docker desktop": lambda line: f"2026-04-19 12:18:36.353 | {line}",
    "docker json": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-04-19T12:18:36Z"}),
    "structured": lambda line: json.dumps({"severity": "INFO", "message": line}),
    "journal": lambda line: f"Apr 19 12:18:36 host vllm[123]: {line}",
    "kubectl json": lambda line: "[pod/vllm-7f9c/vllm] " + json.dumps({"log": f"\x1b[32m{line}\x1b[0m"}),
    "carriage returns": lambda line: f"Loading: 10%\rLoading: 90%\r{line}\r",
}


@pytest.mark.parametrize("log", [VLLM_V1, VLLM_V0, SGLANG, TRT, LLAMA], ids=["vllm", "v0", "sglang", "trt", "llama"])
@pytest.mark.parametrize("wrap", list(WRAPPERS))
def test_wrapping_changes_nothing(wrap: str, log: str) -> None:
    wrapped = "\n".join(WRAPPERS[wrap](line) for line in log.splitlines())
    plain, found = read_log(log), read_log(wrapped)
    assert (found.engine, found.version, found.model, found.question) == (plain.engine, plain.version, plain.model, plain.question)
    assert [f[:4] for f in found.figures] == [f[:4] for f in plain.figures]


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


def test_a_truncated_log_gives_what_is_there() -> None:
    whole = read_log(VLLM_V1)
    for cut in range(0, len(VLLM_V1), 37):
        try:
            part = read_log(VLLM_V1[:cut])
        except FormatError:
            continue
        assert len(part.figures) <= len(whole.figures)


def test_restarts_are_told_apart() -> None:
    starts = read_starts(VLLM_V0 + VLLM_V1)
    assert [s.version for s in starts] == ["0.7.2", "0.19.0"]
    assert read_log(VLLM_V0 + VLLM_V1).version == "0.19.0"


def test_a_log_on_one_line_as_pasted_into_issues() -> None:
    start = read_log(VLLM_V0.replace("\n", " "))
    assert start.value("kv_cache") == 17.24
    assert start.value("blocks") == 11770


def test_files_in_utf16_and_with_broken_bytes(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_bytes(LLAMA.encode("utf-16"))
    assert read_log(path).value("kv_size") == 96.0
    path.write_bytes(b"\xff\x00\xfe broken\n" + VLLM_V0.encode())
    assert read_log(path).value("kv_cache") == 17.24


def test_noise_is_read_in_linear_time_and_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    noise = "INFO 04-19 metrics.py Avg prompt throughput: 1.0 tokens/s, GPU KV cache usage: 10.0%\n" * 1000
    with open(path, "w") as file:
        file.write("x" * (3 << 20) + "\n")  # one endless line
        file.write("(" * 50_000 + "non-default args: {" + "[" * 50_000 + "\n")
        for _ in range(100):
            file.write(noise)
        file.write(VLLM_V0)
    begun = time.perf_counter()
    start = read_log(path)
    assert time.perf_counter() - begun < 20
    assert start.value("kv_cache") == 17.24
    assert max(len(line.text) for line in read_lines(path)) <= MAX_LINE


def test_nothing_in_a_log_is_evaluated() -> None:
    start = read_log("args: Namespace(model=__import__('os').getcwd(), max_model_len=8192)\n# GPU blocks: 10, # CPU blocks: 1\n")
    assert start.model == "__import__('os').getcwd()"
    assert start.question["max_model_len"] == 8192


def test_what_is_no_log() -> None:
    with pytest.raises(FormatError):
        read_log("hello\nworld\n")
    with pytest.raises(UnknownName):
        read_log("x", engine="vlm")


LOGS = Path(__file__).parents[3].parent / "shared" / "data" / "engine_logs.jsonl"
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


@pytest.mark.skipif(not LOGS.is_file(), reason="needs shared/data/engine_logs.jsonl beside the checkout")
def test_published_logs() -> None:
    """Excerpts of published logs: what is parsed equals what was read off them by hand."""
    compared = unread = 0
    for text in LOGS.read_text().splitlines():
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
