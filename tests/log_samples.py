"""Start-up logs of every engine as tests use them; the expected numbers stand in the lines."""

from __future__ import annotations

import json
from collections.abc import Callable

from kvplan.startup_logs import LoggedStart

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

LOGS = {"vllm": VLLM_V1, "v0": VLLM_V0, "sglang": SGLANG, "trt": TRT, "llama": LLAMA}
STAMP = "2026-04-19T12:18:36.353123456Z"
#: One line in, one line out, as each collector writes it.
COLLECTORS: dict[str, Callable[[str], str]] = {
    "compose": lambda line: f"vllm-1  | {line}",
    "old compose": lambda line: f"inference_vllm_1    | {line}",
    "docker -t": lambda line: f"{STAMP} {line}",
    "cri": lambda line: f"{STAMP} stderr F {line}",
    "docker desktop": lambda line: f"2026-04-19 12:18:36.353 | {line}",
    "cri stdout": lambda line: f"2026-04-19T12:18:36.353123456+02:00 stdout F {line}",
    "docker json": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": STAMP}),
    "docker json by Go": lambda line: (
        json.dumps({"log": line + "\n"}).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    ),
    "fluent-bit": lambda line: json.dumps({"date": 1.5, "log": line, "kubernetes": {"pod_name": "x"}}),
    "google": lambda line: json.dumps({"severity": "INFO", "textPayload": line, "labels": {}}),
    "structured": lambda line: json.dumps({"severity": "INFO", "message": line}),
    "structlog": lambda line: json.dumps({"event": line, "level": "info"}),
    "kubectl": lambda line: f"[pod/vllm-7f9c/vllm] {line}",
    "kubectl json": lambda line: "[pod/vllm-7f9c/vllm] " + json.dumps({"log": f"\x1b[32m{line}\x1b[0m"}),
    "journal": lambda line: f"Apr 19 12:18:36 gpu-host vllm[123]: {line}",
    "journal iso": lambda line: f"2026-04-19T12:18:36+0200 gpu-host vllm[123]: {line}",
    "ray": lambda line: f"(RayWorkerWrapper pid=4711, ip=10.0.0.2) {line}",
    "ray serve": lambda line: f"(ServeReplica:llm:VLLM pid=4711) {line}",
    "ray, old": lambda line: f"(pid=4711) {line}",
    "slurm": lambda line: f"3: {line}" if line[:1] in "([" or line[:1].isupper() else line,
    "mpirun": lambda line: f"[1,0]<stdout>:{line}",
    "colours": lambda line: f"\x1b[1;36m{line}\x1b[0;0m",
    "title": lambda line: f"\x1b]0;serve\x07{line}",
    "github": lambda line: f"2026-04-19T12:18:36.1234567Z {line}",
    "windows": lambda line: f"{line}\r",
    "progress": lambda line: f"Loading: 10%\rLoading: 90%\r{line}",
    "progress and windows": lambda line: f"Loading: 10%\rLoading: 90%\r{line}\r",
    "zeros": lambda line: f"\0\0{line}\0",
    "blanks": lambda line: f" \t{line}  ",
}


def reading(start: LoggedStart) -> tuple[object, ...]:
    return start.engine, start.version, start.model, start.question, [f[:4] for f in start.figures]
